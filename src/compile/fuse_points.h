// compile/fuse_points.h -- private: results that one kernel makes point by point, of all that fusion is
// asked for.
#pragma once
#include "ir/partition.h"
#include <map>

namespace luminal::compile {

/// Results of one shape, made by maps alone from values of that shape of which at least one is read by
/// several: the update of a parameter with what its optimizer remembers. One kernel reads each of these
/// values once.
struct PointGroups {
  std::vector<std::vector<NodeId>> groups; ///< of two and more results, ascending
  /// Maps between a group's results, which are made from one and needed by another: no other kernel may
  /// store them. By node, with the number of the group; the results are among them.
  std::map<NodeId, size_t> members;
};
/// No two of the groups wait for each other.
PointGroups point_groups(const Region& region);

} // namespace luminal::compile
