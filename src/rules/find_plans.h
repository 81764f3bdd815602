// rules/find_plans.h -- the search for a cheap choice of terms and stored values of a region: several
// starts, of which the terms as they were written are one, and a climb from each over rows, stored
// values, and all values of a set of axes together.
#pragma once
#include "extract/extract_sample.h"
#include "rules/pass_cost.h"
#include <optional>

namespace luminal::rules {

struct PlanSearchOptions {
  LoopRates rates;
  /// One start for each: how many times more a fold costs that needs an earlier pass over its axes.
  std::vector<double> deep = {1.05, 16};
  uint32_t noisy_starts = 1;       ///< starts whose tree costs are multiplied by up to exp(3) or exp(-3)
  uint64_t seed = 1;               ///< of the noise
  size_t plans = 4;                ///< distinct ones that are kept
  uint64_t most_costs = 20000;     ///< candidates that a climb may cost
  std::function<bool()> stop = {}; ///< true: no more time, the best so far
};

struct FoundPlan {
  egraph::Candidate candidate;
  RegionPlan plan;
};
struct FoundPlans {
  std::vector<FoundPlan> plans; ///< the cheapest first
  /// The one that stores fewest bytes, where that is less than half of what the cheapest stores, and what it
  /// spares is more than a near cache holds. Computing again may take it longer.
  std::optional<FoundPlan> fewest;
  double written_seconds = 0; ///< of the terms and stored values as they came
  uint64_t candidates = 0;    ///< costed, over all starts
  bool stopped = false;
};

/// `stored`: classes of the problem that greedy fusion stores of the terms as they were written.
/// Deterministic, unless `stop` says so.
FoundPlans find_plans(const RegionLoops& loops, std::span<const uint32_t> stored,
                      const PlanSearchOptions& options);

/// Which kernels of a plan are decided.
enum class Decided : uint8_t {
  all,
  changed, ///< those that run folds which are not among the terms as they came, and what these read
  none,
};
/// Rows for `emit`, and kernels: tuples of one pass that share components become one tuple, whose
/// terms are added to the graph. `open`: classes of which nothing is decided.
Choice choice_of(RegionLoops& loops, const FoundPlan& plan, Decided decided = Decided::all);

} // namespace luminal::rules
