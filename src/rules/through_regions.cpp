// rules/through_regions.cpp -- one fragment for each kind of region, placed for each region in order.
#include "rules/through_regions.h"
#include <map>

namespace luminal::rules {
namespace {

std::optional<Fragment> fragment_of(RegionTerms& terms, const FlatFunction& flat,
                                    const FunctionRegion& region, const ChooseTerms& choose,
                                    const EmitOptions& options) {
  RegionNodes nodes{region.roots, IdVector<NodeId, bool>(flat.function.nodes.size())};
  for (const NodeId id : region.nodes) nodes.inside[id] = true;
  const auto entered = enter(terms, flat, nodes);
  if (!entered) return {};
  return emit(terms, *entered, choose(terms, *entered), options);
}

} // namespace

Function through_regions(RegionTerms& terms, const FlatFunction& flat, const Regions& regions,
                         const ChooseTerms& choose, ThroughReport* report, Partition* partition,
                         const EmitOptions& options) {
  FunctionWriter writer(flat.function);
  std::map<size_t, std::optional<Fragment>> fragments;
  IdVector<NodeId, NodeId> instance(flat.function.nodes.size());
  size_t refused = 0;
  for (const FunctionRegion& region : regions.regions) {
    const auto [at, made] = fragments.try_emplace(region.kind);
    const FunctionRegion& first = regions.regions[region.kind];
    if (made) {
      at->second = fragment_of(terms, flat, first, choose, options);
      refused += !at->second;
    }
    if (!at->second) continue;
    for (size_t k = 0; k < first.nodes.size(); ++k) instance[first.nodes[k]] = region.nodes[k];
    for (size_t k = 0; k < first.leaves.size(); ++k) instance[first.leaves[k]] = region.leaves[k];
    writer.place(*at->second, instance);
  }
  if (report) *report = {regions.regions.size(), fragments.size(), refused};
  return writer.finish(partition);
}

} // namespace luminal::rules
