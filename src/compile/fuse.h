// compile/fuse.h -- which values are stored, and which kernels compute them: the baseline, greedy
// and without search.
//
// A kernel is the cone of one stored value (or of several results of one fold) down to stored
// values, so it is convex by construction.
#pragma once
#include "base/result.h"
#include "ir/partition.h"
#include <functional>
#include <optional>

namespace luminal::compile {

/// Decides in place of fusion: the partition of a region, or nothing where fusion is to decide.
/// Asked for the steps of the entry, for what is computed at load, and for functions that steps
/// run; calls, sorts and tuples over different axes are gone by then.
using Partitioner = std::function<Result<std::optional<Partition>>(const Region&)>;

/// Operations of one kernel, where a transcendental one counts as 32: what would be more is stored
/// in between.
inline constexpr double most_operations = 1024;

/// What is decided of a function's values before fusion (compile/region_search.h).
struct Boundaries {
  /// By node: stored only where a kernel of `partition` lists it, or where it must be.
  IdVector<NodeId, bool> decided;
  Partition partition;
  bool empty() const { return decided.empty(); }
  bool has(NodeId id) const { return decided.has(id) && decided[id]; }
};

/// Has the tuple fold components with an axis that others lack? Its kernel makes what these read for some
/// points of the fold at a time (choose/choose_cascade.cpp), and memory holds none of it.
bool goes_in_tiles(const FoldAttr& fold);

/// Greedy where `boundaries` leaves something open. Whether these are legal is for `verify` to tell.
Partition fuse(const Region& region, const Boundaries* boundaries = nullptr);

/// Values that depend on weights and constants only and are worth computing once: no larger than
/// what they are made from, or tables made from nothing.
std::vector<NodeId> load_time_values(const Region& region);

/// What a function computes from its parameters at each step, with the values that are there when
/// it begins: its weights' (load_time_values). Passes that look at the same function hand it on.
struct StepFusion {
  Region step;
  std::vector<NodeId> load_values;
  Partition partition;
};
/// `load_values`: where they are known already.
StepFusion fuse_step(const Function& function, const std::vector<NodeId>* load_values = nullptr,
                     const Boundaries* boundaries = nullptr);

} // namespace luminal::compile
