// ir/partition.h -- which values of a function are stored, and which of them one kernel computes:
// plain data, made by fusion, by a search or by hand.
//
// A kernel is the cone of its results down to stored values. Text:
//
//   partition @main {
//     kernel %scores
//     kernel %q, %k, %v
//   }
#pragma once
#include "ir/term.h"
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

/// Work on part of a function: the values in `given` are there already (inputs, values computed at
/// load), `wanted` are asked for.
struct Region {
  const Function* function = nullptr;
  std::set<NodeId> given;
  std::vector<NodeId> wanted;
  std::set<NodeId> read = {}; // by steps that are not kernels: they must be stored
};
/// All that a function computes from its parameters.
Region whole_region(const Function& function);
/// The nodes that `wanted` needs, ascending; `given` are leaves.
std::vector<NodeId> needed_nodes(const Region& region);

/// A step of its own, which no kernel computes: sorts, collectives, calls, loops, conditions, host
/// functions, custom kernels, fences. What it gives (its `get`s, where it is a tuple) and what it
/// takes is stored without being listed.
bool is_own_step(const Node& node);

/// The values that are stored are those that some kernel lists.
struct Partition {
  std::vector<std::vector<NodeId>> kernels; ///< results of each; of folds and scans the `get`s
  bool operator==(const Partition&) const = default;
};
/// The values in memory when all kernels have run: those that kernels store, results of steps of
/// their own, and, of what the region needs, what is given and constants.
std::set<NodeId> values_in_memory(const Region& region, const Partition& partition);

/// A value that a kernel has to store, and what it is: "a result".
using Requirement = std::pair<NodeId, std::string_view>;
/// What every legal partition of the region stores, by node: results, operands of steps of their
/// own, scatters and what they update, indices that are checked before a kernel reads by them, and
/// what is read as a wider or narrower type.
std::vector<Requirement> required_values(const Region& region);

/// One number everywhere: a view of a scalar constant. A scatter whose base it is writes it first, and
/// updates that.
bool is_fill(const Function& f, NodeId id);

/// All mistakes, in order; empty when the partition is legal: its values exist, are needed and not
/// there already, each in one kernel; what must be stored is; a scatter has a kernel of its own;
/// no kernel reads from memory what it stores itself; and kernels and steps form no cycle.
std::vector<std::string> verify(const Partition& partition, const Region& region);

std::string to_string(const Partition& partition, const Function& function);
/// Names of values are those of the function's text form; a number is always understood. Throws
/// Error "file:line:column: expected ..., found ...". Legality is for `verify` to tell.
Partition parse_partition(std::string_view text, const Function& function,
                          std::string_view file_name = "<text>");

} // namespace luminal
