// compile/plan_race.h -- private: plans of regions against each other, in the whole program.
//
// The search of a region (compile/region_search.h) keeps several plans: which terms, which kernels. Estimates
// chose one. Here each of the others takes its place in the whole program: its results are held against
// those of the program as it is, on the same inputs, then both are timed by turns. One that is faster by more
// than noise is taken, kept in the tuning cache under the region's key, and used by every later compilation.
// Kernels have the schedules that the tuning cache has, or default ones; the search of schedules follows.
#pragma once
#include "compile/plan_search.h"
#include "search/measure_lock.h"
#include <optional>

namespace luminal::compile {

/// Replaces `built` by the best program found. `seconds`: for all plans; `bound`: typical sizes. What differs
/// is never tried again for its region, and counts as a mismatch.
Result<void> race_regions(const Options& options, const PlanMaker& make, BuiltPlan& built,
                          const ExprMap<int64_t>& bound, double seconds, SearchSummary& summary);

/// How a search of this plan races programs: on the pool, with the options' weights, within half of the
/// machine's memory. `pool` is not null.
ProgramRace::Options race_options(const Options& options, const BuiltPlan& built, ThreadPool* pool,
                                  const ExprMap<int64_t>& bound);

/// The machine for who measures now; nothing is held where a log says what was measured.
struct MeasureTurn {
  std::optional<search::MeasureLock> lock;
  bool stopped = false; ///< somebody asked to stop while others measured
};
/// Failure: the lock's file cannot be made.
Result<MeasureTurn> lock_to_measure(const Options& options);

} // namespace luminal::compile
