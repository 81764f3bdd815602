// rules/enter_region.h -- a region of a function becomes terms (the encoding: rules/region_terms.h).
#pragma once
#include "base/result.h"
#include "rules/classify.h"
#include "rules/region_terms.h"

namespace luminal::rules {

/// Values that are asked for, and the nodes that may be looked into: others are leaves.
struct RegionNodes {
  std::vector<NodeId> roots;
  IdVector<NodeId, bool> inside = {}; ///< by node; empty: all nodes
};

/// Where the nodes of a region are in the e-graph.
struct Entered {
  const FlatFunction* flat = nullptr;
  std::vector<NodeId> nodes; ///< those that have terms, ascending
  std::vector<NodeId> roots;
  // by node; `absent` (egraph/types.h) of nodes without
  IdVector<NodeId, TermKind> kinds;
  IdVector<NodeId, ClassId> classes; ///< of folds, scans and other tuples: of sort F
  IdVector<NodeId, uint32_t> forms;  ///< RegionTerms::forms; of folds and scans: of their space
  int renames = 0;                   ///< views that only exist since two names could not be one
};

/// Fails where the region has more than `most_axes` axes.
Result<Entered> enter(RegionTerms& terms, const FlatFunction& flat, const RegionNodes& region);

} // namespace luminal::rules
