// compile/region_search.h -- one region of a flat function: entered into the e-graph, saturated, the
// plan that takes least found, and judged against greedy fusion of the terms as they came.
//
// The search over terms, stored values and kernels has an estimate of its own (rules/pass_cost.h),
// which takes microseconds. The last word among what it finds has the estimate of real kernels with
// their default schedules (search/cone_estimate.h): each plan with its own boundaries, with those of
// greedy fusion but for kernels of new folds, and with those of greedy fusion; and the terms as they came.
// A plan has to be better by a margin. Least time and fewest bytes are different plans: the one that stores
// fewest is searched with a price on each byte, and taken where a limit of memory asks for it. Plans that
// lose are kept beside it: measuring whole programs chooses among them (compile/plan_race.h), and what won
// there is taken where the tuning cache has it.
//
// Regions of equal structure have one result, which is kept: compile/region_cache.h.
#pragma once
#include "compile/plan_state.h"
#include "rules/cut_regions.h"
#include "rules/find_plans.h"
#include <memory>

namespace luminal::compile {

/// A region as a function of what it reads: parameters are its leaves, then come its nodes, results are
/// its roots.
struct RegionFunction {
  Module module;
  std::unique_ptr<rules::FlatFunction> flat; ///< of the module's entry
  std::vector<NodeId> roots;
};
/// Fewer nodes than these have nothing to choose between.
inline constexpr size_t fewest_nodes = 3;
/// `region`: a region's function.
bool is_worth_a_search(const rules::FlatFunction& region);
std::unique_ptr<RegionFunction> region_function(const rules::FlatFunction& flat,
                                                const rules::FunctionRegion& region);

struct RegionPlan {
  RegionPlanReport report;
  std::optional<rules::Fragment> fragment; ///< over the nodes of the region's function; none: as it came
};
struct RegionResult {
  std::vector<RegionPlan> plans; ///< the least estimate first; empty: the region stays as it is
  size_t usual = 0;              ///< of `plans`: what is taken where nothing was measured
  size_t fewest = 0;             ///< of `plans`: the one that stores fewest bytes between its kernels
  RegionReport report;
};

/// What the rates of kernels are to the estimate of passes.
rules::LoopRates loop_rates(const search::EstimateRates& rates, const kernel::MachineLimits& limits);

/// What the search of one region may take.
struct RegionLimits {
  uint64_t rows = 0, candidates = 0, judged = 0;
  static RegionLimits of(uint64_t work); ///< as much of the most as so much work allows
  bool none() const { return judged == 0; }
};
struct KnownRegion {
  std::shared_ptr<const RegionResult> result;
  bool known = false; ///< it was not searched now (compile/region_cache.h)
  Hash128 key;        ///< of all that the result depends on
};
/// Searched, or known. `stop`: no more time.
KnownRegion search_region(PlanState& state, const rules::FlatFunction& flat,
                          const rules::FunctionRegion& region, const RegionLimits& limits,
                          const std::function<bool()>& stop);

} // namespace luminal::compile
