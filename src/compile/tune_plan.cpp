// compile/tune_plan.cpp -- kernels measured, and tuned in the order of what they take.
#include "compile/tune_plan.h"
#include "base/text.h"
#include "compile/plan_race.h"
#include "search/limit.h"
#include "search/measure_lock.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace luminal::compile {
namespace {

constexpr double least_slice = 0.25;  // seconds: less than building and checking a list takes
constexpr double least_share = 0.002; // of a step: what a kernel must have to be worth it, within a budget
constexpr double at_load = 1e-3;      // launches of a step that one at load counts as
constexpr double launches_to_measure = 4; // as long as inputs, a first launch and a measured one take
constexpr double to_measure = 0.3;        // of what is left of a budget, for times of kernels as they are

void count_launches(const runtime::Steps& steps, double times, const ExprMap<int64_t>& sizes,
                    IdVector<runtime::CodeId, double>& launches) {
  for (const runtime::Step& step : steps) {
    if (const auto* launch = step.as<runtime::Launch>()) launches[launch->kernel] += times;
    double inner = times;
    if (const auto* loop = step.as<runtime::Loop>()) {
      const auto count = evaluate(loop->count, sizes);
      inner *= count ? double(*count) : 1;
    }
    for (const runtime::Steps* body : bodies_of(step)) count_launches(*body, inner, sizes, launches);
  }
}

} // namespace

PlanTuner::PlanTuner(const Options& options, const BuiltPlan& built, const ExprMap<int64_t>& bound,
                     SearchSummary& summary, std::function<double()> left)
    : options_(options), how_(options.search), built_(built), bound_(bound), summary_(summary),
      left_(std::move(left)) {
  const runtime::Plan& plan = *built_.plan;
  IdVector<runtime::CodeId, double> launches(plan.kernels.size(), 0);
  count_launches(plan.load_steps, at_load, bound_, launches);
  count_launches(plan.steps, 1, bound_, launches);
  std::map<Hash128, size_t> group_of;
  for (const runtime::CodeId i : launches.ids()) {
    const PlannedKernel& planned = built_.builder->kernels()[i];
    if (!planned.key) continue; // the user's own text
    const auto [found, fresh] = group_of.try_emplace(planned.key->hash(), groups_.size());
    if (fresh) groups_.emplace_back();
    TuningGroup& group = groups_[found->second];
    group.kernels.push_back(i);
    group.launches += launches[i];
    group.old_schedule = planned.schedule;
  }
}

bool PlanTuner::stopped() const {
  return search::yes(log(), "somebody asks to stop", [&] { return how_.stop && how_.stop(); });
}

search::SelectOptions PlanTuner::select_options(const TuningGroup& group) const {
  search::SelectOptions select;
  select.build = built_.chooser->build_options(kernel(group).threads);
  select.worker = options_.worker;
  select.cache = options_.tuning.get();
  select.reproducers = options_.reproducers;
  select.limit_seconds = group.limit;
  select.lock = options_.measure_lock;
  select.race.stop = how_.stop;
  select.profile = options_.profile;
  select.log = log();
  return select;
}

/// One kernel alone, with the code that it has.
Result<double> PlanTuner::time_of(const TuningGroup& group) const {
  return search::seconds(log(), "a launch", kernel(group).report.name, [&] { return time_now(group); });
}

Result<double> PlanTuner::time_now(const TuningGroup& group) const {
  const runtime::KernelCode& code = built_.plan->kernels[group.kernels[0]];
  auto work = std::make_shared<const search::Workload>(search::workload_of(
      *group.problem, group.problem->cone, group.problem->symbols, kernel(group).threads));
  auto measurer =
      options_.worker ? search::make_worker_measurer(work) : search::make_in_process_measurer(work);
  const auto shared = evaluate(code.shared_bytes, bound_), local = evaluate(code.local_bytes, bound_);
  if (!shared || !local) return Failure{"its scratch has no size"};
  const auto number = measurer->add({code.object, code.entry, *shared, *local});
  if (!number) return number.failure();
  double best = INFINITY;
  int launches = 1;
  for (int sample = 0; sample < 4; sample++) {
    const auto seconds = measurer->time(*number, launches);
    if (!seconds) return seconds.failure();
    best = std::min(best, *seconds);
    launches = int(std::clamp(1e-3 / std::max(*seconds, 1e-9), 1.0, 1000.0));
    if (best > 0.2) break;
  }
  return best;
}

Result<void> PlanTuner::measure_one(TuningGroup& group) {
  auto problem = kernel(group).problem();
  if (!problem) return problem.failure();
  group.problem = std::move(*problem);
  group.problem->cone.name = kernel(group).report.name;
  if (auto good = search::make_judgeable(*group.problem, select_options(group)); !good) return good;
  group.limit = search::limit_seconds(search::work_of(group.problem->cone, group.problem->symbols),
                                      options_.profile, kernel(group).threads);
  const auto seconds = time_of(group);
  if (!seconds) return seconds.failure();
  group.before = group.after = *seconds;
  summary_.kernels_before += group.cost();
  return {};
}

Result<void> PlanTuner::measure(const Wanted& wanted) {
  const auto turn = lock_to_measure(options_);
  if (!turn) return turn.failure();
  if (turn->stopped) return {};
  std::vector<TuningGroup*> order;
  for (TuningGroup& group : groups_)
    if (!wanted || wanted(group)) order.push_back(&group);
  const auto estimate = [&](const TuningGroup* group) { // ns of a launch
    const auto points = evaluate(built_.plan->kernels[group->kernels[0]].points, bound_);
    return (points ? double(*points) : 0) * kernel(*group).point_ns;
  };
  std::ranges::stable_sort(order, std::greater(),
                           [&](const TuningGroup* group) { return group->launches * estimate(group); });
  const double end = left_() * (1 - to_measure);
  int number = 0;
  for (TuningGroup* group : order) {
    if (how_.progress)
      how_.progress(progress_of(SearchProgress::Phase::measuring, *group, ++number, int(order.size())));
    if (stopped()) return {};
    if (search::yes(log(), "the time to measure kernels is over",
                    [&] { return limited() && left_() < end; })) {
      group->note = "no time was left to measure it";
      summary_.complete = false;
      continue;
    }
    // Nothing ends a launch once it runs.
    if (const double launch = estimate(group) * 1e-9 / std::max(kernel(*group).threads, 1);
        search::yes(log(), "one launch takes longer than is left",
                    [&] { return limited() && launch * launches_to_measure > left_(); })) {
      group->note = fmt::format("a launch takes about {}: no time is left to measure it", human_time(launch));
      summary_.complete = false;
      continue;
    }
    if (auto done = measure_one(*group); !done) {
      group->note = done.error();
      group->problem.reset();
    }
  }
  summary_.kernels_after = summary_.kernels_before;
  return {};
}

void PlanTuner::tune(const Wanted& wanted, double reserve) {
  std::vector<TuningGroup*> order;
  for (TuningGroup& group : groups_)
    if (group.problem && !kernel(group).report.given && (!wanted || wanted(group))) order.push_back(&group);
  std::ranges::stable_sort(order,
                           [](const TuningGroup* a, const TuningGroup* b) { return a->cost() > b->cost(); });
  double cost_left = 0;
  for (const TuningGroup* group : order) cost_left += group->cost();
  summary_.complete &= !stopped();
  int number = 0;
  for (TuningGroup* group : order) {
    const double share = group->cost() / std::max(cost_left, 1e-30);
    cost_left -= group->cost();
    number++;
    if (search::yes(log(), "the time for kernels is over",
                    [&] { return (how_.stop && how_.stop()) || left_() - reserve < least_slice; })) {
      group->note = "no time was left for it";
      summary_.complete = false;
      continue;
    }
    if (limited() && how_.filter.empty() && group->cost() < least_share * summary_.kernels_before) {
      group->note = fmt::format("{:.2f} % of a step: not worth a search",
                                100 * group->cost() / summary_.kernels_before);
      continue;
    }
    tune_one(*group, number, int(order.size()),
             std::max(least_slice, std::min(1.0, share) * (left_() - reserve)));
  }
}

/// Candidates of one list: building and checking them takes time that no race gives back, so in short time
/// there are few. What one takes is known from the kernels before.
int PlanTuner::list_for(double seconds, int most) const {
  constexpr int least = 4;
  if (!limited() || tried_ < least) return most;
  const auto fitting = search::seconds(log(), "candidates of a list", "", [&]() -> Result<double> {
    return std::clamp(std::floor(seconds / (spent_ / tried_)), double(least), double(most));
  });
  return fitting ? int(*fitting) : most;
}

void PlanTuner::tune_one(TuningGroup& group, int number, int count, double seconds) {
  search::TuneOptions tuning;
  tuning.select = select_options(group);
  tuning.select.sizes = search::other_sizes(*group.problem, kernel(group).dimensions);
  tuning.seconds = seconds;
  tuning.list = list_for(seconds, tuning.list);
  const double begin = search::Clock::steady_now();
  if (kernel(group).report.tuned) tuning.known = kernel::parse_schedule(group.old_schedule);
  SearchProgress progress = progress_of(SearchProgress::Phase::tuning, group, number, count);
  double told = 0;
  int finished = 0; // candidates of earlier lists
  const auto tell_best = [&](double best) {
    if (!how_.progress || search::Clock::steady_now() - told < 0.1) return;
    told = search::Clock::steady_now();
    if (best > 0) progress.best = progress.best > 0 ? std::min(progress.best, best) : best;
    progress.left = how_.mode == SearchMode::budget ? std::max(0.0, left_()) : -1;
    how_.progress(progress);
  };
  if (how_.progress) {
    tell_best(0);
    tuning.select.race.progress = [&](const search::RaceResult& so_far) {
      double best = INFINITY;
      int timed = 0;
      for (const search::RaceEntry& e : so_far.entries) {
        if (e.samples.empty()) continue;
        timed++;
        best = std::min(best, e.seconds);
      }
      progress.tried = finished + timed;
      if (std::isfinite(best)) tell_best(best);
    };
    tuning.progress = [&](const search::Tuned& so_far) {
      progress.usual = so_far.usual_seconds;
      progress.best = so_far.seconds;
      progress.tried = finished = so_far.tried;
      progress.rejected = summary_.rejected;
      for (const auto& [cause, n] : so_far.rejected) progress.rejected[cause] += n;
      told = 0;
      tell_best(so_far.seconds);
    };
  }
  auto tuned = search::tune(*group.problem, options_.limits, tuning);
  if (!tuned) {
    group.note = tuned.error();
    summary_.notes.push_back(fmt::format("{}: {}", kernel(group).report.name, tuned.error()));
    return;
  }
  spent_ += search::Clock::steady_now() - begin;
  tried_ += tuned->tried;
  group.tuned = std::move(*tuned);
  group.searched = true;
  group.improved = kernel::to_string(group.tuned.schedule) != group.old_schedule;
  // The measured ratio of the race holds; what the kernel took before was measured at another
  // moment.
  group.after = group.improved ? group.tuned.seconds : group.before;
  if (!kernel(group).report.tuned && group.tuned.usual_seconds > 0) {
    summary_.kernels_before += group.launches * (group.tuned.usual_seconds - group.before);
    summary_.kernels_after += group.launches * (group.tuned.usual_seconds - group.before);
    group.before = group.tuned.usual_seconds;
    if (!group.improved) group.after = group.before;
  }
  summary_.kernels_after += group.launches * (group.after - group.before);
  summary_.searched++;
  summary_.improved += group.improved;
  summary_.complete &= group.tuned.complete;
  summary_.tried += group.tuned.tried;
  for (const auto& [cause, n] : group.tuned.rejected) {
    summary_.rejected[cause] += n;
    if (cause == "wrong" || cause == "crashed") summary_.mismatches += n;
  }
}

std::string PlanTuner::schedule_of(const TuningGroup& group) const {
  return group.improved ? kernel::to_string(group.tuned.schedule) : group.old_schedule;
}
search::TuningEntry PlanTuner::entry_of(const TuningGroup& group) const {
  search::TuningEntry entry;
  entry.key = *kernel(group).key;
  entry.name = kernel(group).report.name;
  entry.schedule = schedule_of(group);
  entry.seconds = group.after;
  entry.samples = 1;
  entry.limit_fraction = group.after > 0 ? group.limit / group.after : 0;
  entry.checked = true;
  return entry;
}
void PlanTuner::take_back(TuningGroup& group, const std::string& why) {
  group.note = why;
  group.improved = false;
  summary_.improved--;
  summary_.kernels_after += group.launches * (group.before - group.after);
  group.after = group.before;
  options_.tuning->put(entry_of(group), search::TuningCache::Keep::newest);
}

SearchProgress PlanTuner::progress_of(SearchProgress::Phase phase, const TuningGroup& group, int number,
                                      int count) const {
  SearchProgress progress;
  progress.phase = phase;
  progress.kernel = kernel(group).report.name + " " + kernel(group).report.computes;
  progress.number = number;
  progress.kernels = count;
  progress.usual = group.before;
  progress.tried = 0;
  progress.rejected = summary_.rejected;
  progress.left = how_.mode == SearchMode::budget ? std::max(0.0, left_()) : -1;
  progress.program_before = summary_.kernels_before;
  progress.program = summary_.kernels_after;
  return progress;
}

} // namespace luminal::compile
