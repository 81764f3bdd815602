// rules/through_regions.h -- a whole function through the e-graph: cut, entered, chosen, put back.
#pragma once
#include "rules/cut_regions.h"
#include "rules/emit_region.h"
#include <functional>

namespace luminal::rules {

/// Terms of a region, saturated or not, to what is made of it.
using ChooseTerms = std::function<Choice(RegionTerms& terms, const Entered& entered)>;

struct ThroughReport {
  size_t regions = 0, kinds = 0;
  size_t refused = 0; ///< kinds with too many axes: they stay as they are
};

/// The function with each region replaced by what is chosen for its kind; a kind is entered once.
Function through_regions(RegionTerms& terms, const FlatFunction& flat, const Regions& regions,
                         const ChooseTerms& choose, ThroughReport* report = nullptr,
                         Partition* partition = nullptr, const EmitOptions& options = {});

} // namespace luminal::rules
