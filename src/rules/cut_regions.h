// rules/cut_regions.h -- a function cut into regions, of which equal ones are searched once.
//
// A function is cut where one value only goes on: the articulation points of what is computed in a
// step. Values that live longer than a region may be (masks, positions, skips of a U-net) do not
// count, and neither do results. Between two such points lies a segment. Segments are compared with
// their weights unnamed; the longest repetition of a sequence of segments gives the period (a layer),
// and one period is one region. What does not repeat is joined up to the limits. So a model of many
// layers has a handful of regions.
#pragma once
#include "base/hash.h"
#include "rules/classify.h"

namespace luminal::rules {

struct RegionLimits {
  size_t nodes = 200; ///< that are computed in a step, of one region
};

/// One region, in an order that regions of equal structure share.
struct FunctionRegion {
  std::vector<NodeId> nodes;  ///< terms: those computed in a step, in order, and the fixed ones they read
  std::vector<NodeId> leaves; ///< what it reads, by first use
  std::vector<NodeId> roots;  ///< those of `nodes` that others need, ascending
  size_t kind = 0;            ///< the first region of equal structure
};

struct Regions {
  std::vector<FunctionRegion> regions; ///< each after those that it reads
  size_t kinds() const;                ///< different ones
};

Regions cut_regions(const FlatFunction& flat, const RegionLimits& limits = {});

/// Structure of a region, the same in every process: names of weights and values excluded.
Hash128 structural_hash(const FlatFunction& flat, const FunctionRegion& region);

} // namespace luminal::rules
