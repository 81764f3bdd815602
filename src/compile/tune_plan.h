// compile/tune_plan.h -- private: kernels of a plan by their share of a step, each tuned for as long as it is
// worth. What is found stands in the tuning cache at once.
#pragma once
#include "compile/tuning_group.h"
#include "search/measure_log.h"

namespace luminal::compile {

class PlanTuner {
public:
  /// `bound`: typical sizes of all symbols. `left`: seconds of the budget. The summary gets what is tried,
  /// and the times of kernels. All of these, and the plan, must outlive it.
  PlanTuner(const Options& options, const BuiltPlan& built, const ExprMap<int64_t>& bound,
            SearchSummary& summary, std::function<double()> left);

  using Wanted = std::function<bool(const TuningGroup&)>;
  /// Those that `wanted` lets through (empty: all), the largest first by estimate: alone, with the schedules
  /// that they have. Within a budget the small ones have no time where it is short. Failure: nobody can
  /// measure.
  Result<void> measure(const Wanted& wanted = {});
  /// Of those that were measured, the largest share of a step first. `reserve`: seconds that are left
  /// afterwards.
  void tune(const Wanted& wanted, double reserve);

  std::vector<TuningGroup>& groups() { return groups_; }
  const std::vector<TuningGroup>& groups() const { return groups_; }
  const PlannedKernel& kernel(const TuningGroup& group) const {
    return built_.builder->kernels()[group.kernels[0]];
  }
  std::string schedule_of(const TuningGroup& group) const;
  search::TuningEntry entry_of(const TuningGroup& group) const;
  /// The old schedule is what the cache has again.
  void take_back(TuningGroup& group, const std::string& why);

private:
  bool stopped() const;
  bool limited() const { return how_.mode == SearchMode::budget; }
  search::MeasureLog* log() const { return options_.log.get(); }
  search::SelectOptions select_options(const TuningGroup& group) const;
  Result<void> measure_one(TuningGroup& group);
  Result<double> time_of(const TuningGroup& group) const;
  Result<double> time_now(const TuningGroup& group) const;
  int list_for(double seconds, int most) const;
  void tune_one(TuningGroup& group, int number, int count, double seconds);
  SearchProgress progress_of(SearchProgress::Phase phase, const TuningGroup& group, int number,
                             int count) const;

  const Options& options_;
  const SearchOptions& how_;
  const BuiltPlan& built_;
  const ExprMap<int64_t>& bound_;
  SearchSummary& summary_;
  std::function<double()> left_;
  std::vector<TuningGroup> groups_;
  double spent_ = 0; // seconds, for what was tried
  int tried_ = 0;
};

} // namespace luminal::compile
