// compile/region_pass.cpp -- the regions of a function, those first whose loops have most points.
#include "compile/explain_plan.h"
#include "compile/fuse_demand.h"
#include "compile/pass_list.h"
#include "compile/region_search.h"
#include <algorithm>
#include <chrono>
#include <functional>
#include <map>

namespace luminal::compile {

using rules::FlatFunction;
using rules::FunctionRegion;

namespace {

/// A long segment was cut where many values go on (of a butterfly, which is one kernel): a search of a part
/// takes all of them for stored.
bool is_torn(const FunctionRegion& region, const Function& f) {
  constexpr ptrdiff_t most = 16;
  return std::ranges::count_if(region.roots, [&](NodeId root) {
           return std::ranges::find(f.results, root, &FunctionResult::value) == f.results.end();
         }) > most;
}

/// The plan that won by measuring, else the one that estimates prefer; null: the region stays as it is.
/// `report` tells of it.
const RegionPlan* choose_plan(const PlanState& state, const KnownRegion& searched, RegionReport& report) {
  const RegionResult& result = *searched.result;
  if (result.plans.empty()) return nullptr;
  size_t taken = state.rules.fewest_bytes ? result.fewest : result.usual;
  report.fewest_bytes = taken != result.usual;
  if (result.plans.size() > 1) {
    for (const RegionPlan& plan : result.plans) report.plans.push_back(plan.report);
    report.key = state.planner.region_key(searched.key);
    const auto wrong = [&](size_t k) {
      return state.planner.is_quarantined(*report.key, plan_text(result.plans[k].report.name));
    };
    // What was written is never wrong; of the others the least estimate stands first.
    if (wrong(taken))
      for (size_t k = 0; k < result.plans.size(); ++k)
        if (result.plans[k].report.written || !wrong(k)) {
          taken = k;
          break;
        }
    if (const auto kept = state.planner.kept(*report.key); kept && !report.fewest_bytes)
      for (size_t k = 0; k < result.plans.size(); ++k)
        if (plan_text(result.plans[k].report.name) == *kept) {
          taken = k;
          report.measured = true;
        }
  }
  report.taken = taken;
  const RegionPlan& plan = result.plans[taken];
  report.estimate_s = plan.report.estimate_s;
  report.kernels = plan.fragment ? plan.report.kernels : 0;
  report.stored_bytes = plan.report.stored_bytes;
  if (plan.fragment)
    report.outcome.clear();
  else if (report.measured)
    report.outcome = "no plan is faster by measuring";
  return plan.fragment ? &plan : nullptr;
}

/// At most so many points have the loops of its terms, each on its own.
double points_of(const Function& f, const FunctionRegion& region) {
  double points = 0;
  for (const NodeId id : region.nodes) {
    const auto* fold = std::get_if<FoldAttr>(&f[id].attr);
    if (fold)
      points += count(fold->space);
    else if (f[id].kind == NodeKind::map)
      points += count(f[id].type().shape);
  }
  return points;
}

} // namespace

/// Regions come by the points of their loops, all of one structure together: where the work does not suffice
/// for all, it goes to those that take most time.
Result<void> search_regions(PlanState& state, FunctionPlan& f) {
  if (!state.rules.on || state.partitioner || f.role == FunctionRole::check) return {};
  const auto start = std::chrono::steady_clock::now();
  const std::function<bool()> stop = [&] {
    const std::chrono::duration<double> spent = std::chrono::steady_clock::now() - start;
    return state.rules.seconds > 0 && spent.count() > state.rules.seconds;
  };
  uint64_t left = state.rules.work;
  const FlatFunction flat(state.module, *f.function);
  rules::RegionLimits size;
  // Tiles of windows bring axes of their own, and there are only so many.
  constexpr size_t nodes_with_tiles = 24;
  if (state.rules.set->max_error() > 0) size.nodes = nodes_with_tiles;
  const rules::Regions regions = rules::cut_regions(flat, size);
  struct Kind {
    size_t region = 0; // the first of its structure
    size_t report = 0;
    double points = 0;                // of all its regions
    KnownRegion searched = {};        // without a result: not searched
    const RegionPlan* plan = nullptr; // of the result
  };
  std::vector<Kind> kinds;
  std::map<size_t, size_t> numbers; // by the kind of a region
  for (size_t r = 0; r < regions.regions.size(); ++r) {
    const FunctionRegion& region = regions.regions[r];
    const bool small = region.nodes.size() < fewest_nodes;
    if ((small || is_torn(region, flat.function)) && !state.rules.choose) continue;
    const auto [at, fresh] = numbers.try_emplace(region.kind, kinds.size());
    if (fresh) {
      kinds.push_back({.region = r, .report = state.regions.size()});
      state.regions.push_back({.nodes = region.nodes.size(), .instances = 0});
    }
    ++state.regions[kinds[at->second].report].instances;
    kinds[at->second].points += points_of(*f.function, region);
  }
  std::vector<Kind*> order;
  for (Kind& kind : kinds) order.push_back(&kind);
  std::ranges::stable_sort(order, std::greater(), [](const Kind* kind) { return kind->points; });
  for (Kind* kind : order) {
    const FunctionRegion& region = regions.regions[kind->region];
    RegionReport& report = state.regions[kind->report];
    const RegionLimits limits = RegionLimits::of(left);
    if (limits.none() && !state.rules.choose) {
      report.outcome = "earlier regions took all work";
      continue;
    }
    kind->searched = search_region(state, flat, regions.regions[region.kind], limits, stop);
    left -= std::min(left, kind->searched.result->report.work);
    const size_t instances = report.instances;
    report = kind->searched.result->report;
    report.instances = instances;
    report.cached = kind->searched.known;
    report.lines = origins(*f.function, region.nodes);
    kind->plan = choose_plan(state, kind->searched, report);
    if (state.rules.texts)
      write_texts(*region_function(flat, region), kind->plan ? &*kind->plan->fragment : nullptr, report);
  }
  rules::FunctionWriter writer(*f.function);
  bool replaced = false;
  for (const FunctionRegion& region : regions.regions) {
    const auto number = numbers.find(region.kind);
    const RegionPlan* plan = number == numbers.end() ? nullptr : kinds[number->second].plan;
    if (!plan) continue;
    IdVector<NodeId, NodeId> instance; // by node of the region's function
    instance.assign(region.leaves.begin(), region.leaves.end());
    instance.insert(instance.end(), region.nodes.begin(), region.nodes.end());
    writer.place(*plan->fragment, instance);
    replaced = true;
  }
  if (!replaced) return {};
  Boundaries boundaries;
  Function made = writer.finish(&boundaries.partition, &boundaries.decided);
  if (std::ranges::none_of(boundaries.decided, [](bool d) { return d; })) boundaries = {};
  f.function = &state.keep(std::move(made));
  f.boundaries = std::move(boundaries);
  return {};
}

} // namespace luminal::compile
