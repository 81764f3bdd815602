// search/tune_kernel.h -- one kernel's schedule by measuring: from the default schedule along its
// decisions (choose/decisions.h), a list of candidates after the other.
#pragma once
#include "choose/default_schedule.h"
#include "search/select.h"

namespace luminal::search {

struct TuneOptions {
  SelectOptions select; ///< of each list; race.seconds is set from what is left
  double seconds = 2;   ///< budget of building, measuring and checking; not of waiting for others who measure
  int list = 24;        ///< candidates of one list at most, the best so far among them
  std::optional<kernel::Schedule> known = {}; ///< found earlier: one more candidate of the first list
  /// After each list: the best so far.
  std::function<void(const struct Tuned& so_far)> progress = {};
};

/// Times of one launch at sizes beside those of the problem.
struct TunedSize {
  std::map<std::string, int64_t> symbols;
  double usual = 0,
         /// of the default schedule and of the one found; 0: nothing came so far that it had to be
      /// measured
      seconds = 0;
};

struct Tuned {
  kernel::Answers answers; ///< where they differ from the usual ones; `workers` is one of them
  kernel::Schedule schedule;
  double seconds = 0;           ///< of one launch, at the moment when the default schedule took usual_seconds
  double usual_seconds = 0;     ///< of the default schedule, in the first list
  std::vector<TunedSize> sizes; ///< select.sizes
  int tried = 0, lists = 0;
  std::map<std::string, int> rejected; ///< how many were not taken, by cause (cause_of)
  double bound_ratio = 0;              ///< as in Selection, of all lists
  bool complete = false;               ///< no neighbour of the best is left untried; false: the budget ended
};

/// What the decision `workers` chooses from: powers of two, and all of them.
std::vector<int64_t> worker_counts(int threads);
/// The schedule for launches of so many points that run on that many of all workers: `serial` where
/// these are fewer than all.
kernel::Schedule on_workers(kernel::Schedule schedule, double points, int64_t workers, int threads);

/// Why a candidate was not taken, in a word or two: slower, illegal, bound, same code, wrong,
/// crashed, no end, quarantined, not timed.
std::string cause_of(const Tried& tried);

/// The best schedule found and checked, at select.sizes not slower than the default one; the
/// default one where nothing beats it by the race's threshold. With a cache the result is kept
/// there. Failure: as select, of the first list.
Result<Tuned> tune(const KernelProblem& problem, const kernel::MachineLimits& limits,
                   const TuneOptions& options = {});

} // namespace luminal::search
