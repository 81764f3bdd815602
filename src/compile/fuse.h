// compile/fuse.h -- which values are stored, and which kernels compute them: the baseline, greedy
// and without search.
//
// A kernel is the cone of one stored value (or of several results of one fold) down to stored
// values, so it is convex by construction; kernels merge only where neither reaches the other.
#pragma once
#include "ir/term.h"
#include <set>
#include <vector>

namespace luminal::compile {

/// Work on part of a function: the values in `given` are there already (inputs, values computed at
/// load), `wanted` are asked for.
struct Region {
  const Function* function = nullptr;
  std::set<NodeId> given;
  std::vector<NodeId> wanted;
  std::set<NodeId> read = {}; // by steps that are not kernels: they must be stored
};

struct Fusion {
  std::set<NodeId> stored; // computed here and kept in memory; `given` and constants are not listed
  std::vector<std::vector<NodeId>> kernels; // roots of each kernel, in an order that respects data
  // nodes that are steps of their own (loop, cond, host, ...): in `stored` through their `get`s
  std::vector<NodeId> boundaries;
};

/// Operations of one kernel, where a transcendental one counts as 32: what would be more is stored
/// in between.
inline constexpr double most_operations = 1024;

/// The nodes that `wanted` needs, ascending; `given` are leaves.
std::vector<NodeId> needed_nodes(const Region& region);
Fusion fuse(const Region& region);

/// Values that depend on weights and constants only and are worth computing once: no larger than
/// what they are made from, or tables made from nothing.
std::vector<NodeId> load_time_values(const Region& region);

/// What a function computes from its parameters at each step, with the values that are there when
/// it begins: its weights' (load_time_values). Passes that look at the same function hand it on.
struct StepFusion {
  Region step;
  std::vector<NodeId> load_values;
  Fusion fusion;
};
StepFusion fuse_step(const Function& function);

/// A graph of kernels that only ever merges without making a cycle.
class KernelGraph {
public:
  explicit KernelGraph(int kernels)
      : members_(size_t(kernels)), reach_(size_t(kernels), std::vector<bool>(size_t(kernels))),
        alive_(size_t(kernels), true) {
    for (int k = 0; k < kernels; k++) members_[size_t(k)] = {k};
  }
  void add_edge(int from, int to); // `to` reads what `from` writes
  bool reaches(int from, int to) const { return reach_[size_t(from)][size_t(to)]; }
  /// Merges b into a if neither reaches the other in the present graph; false where that would make
  /// a cycle.
  bool merge(int a, int b);
  bool alive(int kernel) const { return alive_[size_t(kernel)]; }
  const std::vector<int>& members(int kernel) const { return members_[size_t(kernel)]; }

private:
  std::vector<std::vector<int>> members_;
  std::vector<std::vector<bool>> reach_; // transitive, of living kernels
  std::vector<bool> alive_;
};

} // namespace luminal::compile
