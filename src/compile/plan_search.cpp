// compile/plan_search.cpp -- kernels by their share of a step, each tuned for as long as it is
// worth, then the whole program.
#include "compile/plan_search.h"
#include "base/check.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "compile/compare_programs.h"
#include "compile/plan_race.h"
#include "compile/tuning_group.h"
#include "search/limit.h"
#include "search/measure_lock.h"
#include "search/measure_log.h"
#include "search/tune_kernel.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>
#include <optional>
#include <unistd.h>

namespace luminal::compile {
namespace {

constexpr double least_slice = 0.25;  // seconds: less than building and checking a list takes
constexpr double least_share = 0.002; // of a step: what a kernel must have to be worth it, within a budget
constexpr double short_step = 1e-3;   // seconds of a step that may be better off with one worker
constexpr double at_load = 1e-3;      // launches of a step that one at load counts as
constexpr double of_regions = 0.3;    // of a budget, for plans of regions

double now() { return search::Clock::steady().now(); }

void count_launches(const std::vector<runtime::Step>& steps, double times, const ExprMap<int64_t>& sizes,
                    std::vector<double>& launches) {
  for (const runtime::Step& step : steps) {
    if (step.kind == runtime::StepKind::launch) launches[size_t(step.kernel)] += times;
    double inner = times;
    if (step.kind == runtime::StepKind::loop) {
      const auto count = evaluate(step.count, sizes);
      inner *= count ? double(*count) : 1;
    }
    count_launches(step.body, inner, sizes, launches);
    count_launches(step.otherwise, inner, sizes, launches);
  }
}

using Group = TuningGroup;

class PlanSearch {
public:
  PlanSearch(const Options& options, const PlanMaker& make, BuiltPlan& built)
      : options_(options), how_(options.search), make_(make), built_(built), begin_(now()),
        profile_(options.profile) {}

  Result<SearchSummary> run(std::vector<KernelReport>& reports) {
    summary_.complete = true;
    bind_sizes();
    if (auto done = race_regions(); !done) return done.failure();
    collect();
    if (auto done = check_filter(); !done) return done.failure();
    if (auto done = measure(); !done) return done.failure();
    tune_all();
    if (auto done = confirm(); !done) return done.failure();
    if (auto done = try_fewer_workers(); !done) return done.failure();
    if (summary_.improved > 0 || summary_.workers > 0) {
      auto last = make_({});
      if (!last) return last.failure();
      built_ = std::move(*last);
    }
    report(reports);
    tell_changed();
    summary_.seconds = now() - begin_;
    return std::move(summary_);
  }

private:
  const PlannedKernel& kernel(const Group& group) const {
    return built_.builder->kernels()[size_t(group.kernels[0])];
  }
  bool stopped() const {
    return search::yes(log(), "somebody asks to stop", [&] { return how_.stop && how_.stop(); });
  }
  search::MeasureLog* log() const { return options_.log.get(); }
  /// Waiting for others who measure is not charged.
  double left() const {
    const double spent = now() - begin_ - (search::MeasureLock::waited() - waited_);
    return how_.mode == SearchMode::budget ? how_.seconds - spent : 1e9;
  }

  void bind_sizes() {
    const runtime::Plan& plan = *built_.plan;
    const auto sizes = search::typical_sizes(plan.symbols, plan.assumptions, options_.sizes);
    for (const Expr symbol : plan.symbols) bound_[symbol] = sizes.at(std::string(symbol.name()));
  }

  /// Which kernels there are, before schedules of these are searched.
  Result<void> race_regions() {
    if (!how_.confirm || !how_.filter.empty()) return {};
    return compile::race_regions(options_, make_, built_, bound_,
                                 how_.mode == SearchMode::budget ? of_regions * left() : INFINITY, summary_);
  }

  void collect() {
    bind_sizes(); // counters of loops are of the program that was taken
    const runtime::Plan& plan = *built_.plan;
    summary_.kernels = int(built_.builder->kernels().size());
    std::vector<double> launches(plan.kernels.size(), 0);
    count_launches(plan.load_steps, at_load, bound_, launches);
    count_launches(plan.steps, 1, bound_, launches);
    std::map<Hash128, size_t> group_of;
    for (size_t i = 0; i < launches.size(); i++) {
      const PlannedKernel& planned = built_.builder->kernels()[i];
      if (!planned.key) continue; // the user's own text
      const auto [found, fresh] = group_of.try_emplace(planned.key->hash(), groups_.size());
      if (fresh) groups_.emplace_back();
      Group& group = groups_[found->second];
      group.kernels.push_back(int(i));
      group.launches += launches[i];
      group.old_schedule = planned.schedule;
    }
  }

  /// A filter that lets nothing through is a misspelt one.
  Result<void> check_filter() const {
    constexpr size_t most = 20;
    std::string names;
    size_t count = 0;
    for (const Group& group : groups_) {
      if (how_.filter.empty() || wanted(group)) return {};
      const KernelReport& report = kernel(group).report;
      if (count++ < most)
        names += fmt::format("\n  {} {}{}", report.name, report.computes,
                             report.about.empty() ? "" : fmt::format(" ({})", report.about));
    }
    if (groups_.empty()) return {};
    if (count > most) names += fmt::format("\n  and {} more", count - most);
    return Failure{
        fmt::format("no kernel's name, results or weights hold \"{}\"; there are{}", how_.filter, names)};
  }

  search::SelectOptions select_options(const Group& group) const {
    search::SelectOptions select;
    select.build = built_.chooser->build_options(kernel(group).threads);
    select.worker = options_.worker;
    select.cache = options_.tuning.get();
    select.reproducers = options_.reproducers;
    select.limit_seconds = group.limit;
    select.lock = options_.measure_lock;
    select.race.stop = how_.stop;
    select.profile = profile_;
    select.log = log();
    return select;
  }

  bool wanted(const Group& group) const {
    const KernelReport& report = kernel(group).report;
    if (report.given) return false;
    return how_.filter.empty() || report.name.find(how_.filter) != std::string::npos ||
           report.computes.find(how_.filter) != std::string::npos ||
           report.about.find(how_.filter) != std::string::npos;
  }

  /// One kernel alone, with the code that it has.
  Result<double> time_of(const Group& group) const {
    return search::seconds(log(), "a launch", kernel(group).report.name, [&] { return time_now(group); });
  }
  Result<double> time_now(const Group& group) const {
    const runtime::KernelCode& code = built_.plan->kernels[size_t(group.kernels[0])];
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

  Result<void> measure() {
    const auto lock = lock_to_measure(options_);
    if (!lock) return lock.failure();
    if (lock->stopped) return {};
    int number = 0;
    for (Group& group : groups_) {
      tell(SearchProgress::Phase::measuring, group, ++number);
      if (stopped()) return {};
      auto problem = kernel(group).problem();
      if (!problem) {
        group.note = problem.error();
        continue;
      }
      group.problem = std::move(*problem);
      group.problem->cone.name = kernel(group).report.name;
      if (auto good = search::make_judgeable(*group.problem, select_options(group)); !good) {
        group.note = good.error();
        group.problem.reset();
        continue;
      }
      group.limit = search::limit_seconds(search::work_of(group.problem->cone, group.problem->symbols),
                                          profile_, kernel(group).threads);
      const auto seconds = time_of(group);
      if (!seconds) {
        group.note = seconds.error();
        group.problem.reset();
        continue;
      }
      group.before = group.after = *seconds;
      summary_.kernels_before += group.cost();
    }
    summary_.kernels_after = summary_.kernels_before;
    return {};
  }

  void tune_all() {
    std::vector<Group*> order;
    for (Group& group : groups_)
      if (group.problem && wanted(group)) order.push_back(&group);
    std::ranges::stable_sort(order, [](const Group* a, const Group* b) { return a->cost() > b->cost(); });
    double cost_left = 0;
    for (const Group* group : order) cost_left += group->cost();
    const bool limited = how_.mode == SearchMode::budget;
    const double reserve = limited && how_.confirm ? std::clamp(how_.seconds * 0.15, 0.2, 10.0) : 0;
    summary_.complete &= !stopped();
    int number = 0;
    for (Group* group : order) {
      const double share = group->cost() / std::max(cost_left, 1e-30);
      cost_left -= group->cost();
      number++;
      if (search::yes(log(), "the time for kernels is over",
                      [&] { return (how_.stop && how_.stop()) || left() - reserve < least_slice; })) {
        group->note = "no time was left for it";
        summary_.complete = false;
        continue;
      }
      if (limited && how_.filter.empty() && group->cost() < least_share * summary_.kernels_before) {
        group->note = fmt::format("{:.2f} % of a step: not worth a search",
                                  100 * group->cost() / summary_.kernels_before);
        continue;
      }
      tune_one(*group, number, int(order.size()),
               std::max(least_slice, std::min(1.0, share) * (left() - reserve)));
    }
  }

  void tune_one(Group& group, int number, int count, double seconds) {
    search::TuneOptions tuning;
    tuning.select = select_options(group);
    tuning.select.sizes = search::other_sizes(*group.problem, kernel(group).dimensions);
    tuning.seconds = seconds;
    if (kernel(group).report.tuned) tuning.known = kernel::parse_schedule(group.old_schedule);
    SearchProgress progress = progress_of(SearchProgress::Phase::tuning, group, number, count);
    double told = 0;
    int finished = 0; // candidates of earlier lists
    const auto tell_best = [&](double best) {
      if (!how_.progress || now() - told < 0.1) return;
      told = now();
      if (best > 0) progress.best = progress.best > 0 ? std::min(progress.best, best) : best;
      progress.left = how_.mode == SearchMode::budget ? std::max(0.0, left()) : -1;
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

  // ---- the whole program ----

  Result<std::shared_ptr<const runtime::Plan>> plan_with(const std::vector<const Group*>& fresh,
                                                         const std::vector<const Group*>& all) const {
    std::map<Hash128, std::string> pinned;
    for (const Group* group : all) {
      const bool is_new = std::ranges::find(fresh, group) != fresh.end();
      pinned[kernel(*group).key->hash()] =
          is_new ? kernel::to_string(group->tuned.schedule) : group->old_schedule;
    }
    auto made = make_(pinned);
    if (!made) return made.failure();
    return made->plan;
  }

  /// The old schedule is what the cache has again.
  void take_back(const Group& taken, const std::string& why) {
    Group& group = groups_[size_t(&taken - groups_.data())];
    group.note = why;
    group.improved = false;
    summary_.improved--;
    summary_.kernels_after += group.launches * (group.before - group.after);
    group.after = group.before;
    options_.tuning->put(entry_of(group), search::TuningCache::Keep::newest);
  }

  Result<void> confirm() {
    std::vector<const Group*> changed;
    for (Group& group : groups_)
      if (group.improved) changed.push_back(&group);
    if (changed.empty() || !how_.confirm) return {};
    std::optional<ThreadPool> own;
    ThreadPool* pool = options_.pool ? options_.pool : &own.emplace(options_.limits.threads);
    ProgramRace race(race_options(options_, built_, pool, bound_));
    const auto old_program = race.add(built_.plan);
    if (!old_program) {
      summary_.notes.push_back("the whole program was not measured: " + old_program.error());
      return {};
    }
    const auto lock = lock_to_measure(options_);
    if (!lock) return lock.failure();
    if (lock->stopped) return {};
    const double patience = how_.mode == SearchMode::budget ? std::clamp(left(), 0.2, 10.0) : 5;

    // All together first; where that is slower, one after the other, the largest gain first.
    tell_program();
    auto all = compare(race, *old_program, changed, changed, patience / 2);
    if (!all) return all.failure();
    if (all->good) {
      summary_.program_before = all->times.first;
      summary_.program_after = all->times.second;
      return {};
    }
    std::ranges::stable_sort(changed, [](const Group* a, const Group* b) {
      return a->launches * (a->before - a->after) > b->launches * (b->before - b->after);
    });
    if (changed.size() > 1) race.drop(all->program);
    std::vector<const Group*> taken;
    int best = *old_program;
    ProgramRace::Times gain; // of the best program against the old one
    const double start = now();
    for (const Group* candidate : changed) {
      if (search::yes(log(), "the time to confirm is over", [&] { return now() - start > patience; })) {
        take_back(*candidate, "no time was left to confirm it in the whole program");
        continue;
      }
      std::vector<const Group*> with = taken;
      with.push_back(candidate);
      auto one = changed.size() == 1
                     ? all
                     : compare(race, best, with, changed, patience / 2 / double(changed.size()));
      if (!one) return one.failure();
      if (!one->good) {
        take_back(*candidate,
                  fmt::format("the whole program is not faster with it ({} against {}{})",
                              human_time(one->times.second), human_time(one->times.first), one->where));
        race.drop(one->program);
        continue;
      }
      taken = std::move(with);
      gain = one->times;
      if (best != *old_program) race.drop(best);
      best = one->program;
    }
    if (taken.size() > 1) {
      auto together = race.compare(*old_program, best, patience / 4, 5, how_.stop);
      if (!together) return together.failure();
      gain = *together;
      if (gain.second > gain.first) {
        for (const Group* group : taken)
          take_back(*group,
                    fmt::format("the whole program is not faster with all that was confirmed ({} against {})",
                                human_time(gain.second), human_time(gain.first)));
        gain = {};
      }
    }
    if (gain.first > 0) {
      summary_.program_before = gain.first;
      summary_.program_after = gain.second;
    }
    return {};
  }

  /// Short steps: are fewer workers for all of it faster? Then the schedules say so, for launches
  /// of no more points than here.
  Result<void> try_fewer_workers() {
    double step = 0;
    std::vector<Group*> several;
    for (Group& group : groups_) {
      step += group.launches * group.after;
      if (group.problem && kernel(group).threads > 1) several.push_back(&group);
    }
    if (!how_.confirm || several.empty() || step > short_step || stopped()) return {};
    const int threads = options_.limits.threads;
    std::optional<ThreadPool> own;
    ProgramRace race(
        race_options(options_, built_, options_.pool ? options_.pool : &own.emplace(threads), bound_));
    struct Program {
      int64_t workers;
      std::map<Hash128, std::string> schedules;
      int number;
    };
    std::vector<Program> programs; // the last one is on all workers
    for (const int64_t workers : search::worker_counts(threads)) {
      Program program{workers, {}, -1};
      for (const Group& group : groups_) program.schedules[kernel(group).key->hash()] = schedule_of(group);
      for (const Group* group : several) {
        const auto points = evaluate(built_.plan->kernels[size_t(group->kernels[0])].points, bound_);
        if (points)
          program.schedules[kernel(*group).key->hash()] = kernel::to_string(search::on_workers(
              kernel::parse_schedule(schedule_of(*group)), double(*points), workers, threads));
      }
      auto made = make_(program.schedules);
      if (!made) return made.failure();
      const auto number = race.add(made->plan);
      if (!number) return {}; // as confirm() has told
      program.number = *number;
      programs.push_back(std::move(program));
    }
    const auto lock = lock_to_measure(options_);
    if (!lock) return lock.failure();
    if (lock->stopped) return {};
    const Program* best = &programs.back();
    for (const Program& fewer : std::span(programs).first(programs.size() - 1)) {
      const double seconds = how_.mode == SearchMode::budget ? std::clamp(left() / 3, 0.1, 2.0) : 1;
      bool faster = true;
      for (const double pause : {0.0, pauses[0]}) {
        if (!faster) break;
        auto times = race.compare(best->number, fewer.number, seconds, 20, how_.stop, pause);
        if (!times) return times.failure();
        faster = times->second * noise <= times->first;
      }
      if (faster) best = &fewer;
    }
    if (best == &programs.back()) return {};
    summary_.workers = int(best->workers);
    for (Group* group : several) {
      group->fewer_workers = best->schedules.at(kernel(*group).key->hash());
      search::TuningEntry entry = entry_of(*group);
      entry.schedule = group->fewer_workers;
      options_.tuning->put(std::move(entry), search::TuningCache::Keep::newest);
    }
    return {};
  }
  std::string schedule_of(const Group& group) const {
    return group.improved ? kernel::to_string(group.tuned.schedule) : group.old_schedule;
  }
  search::TuningEntry entry_of(const Group& group) const {
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
  struct Compared : Comparison {
    int program = -1;
  };
  Result<Compared> compare(ProgramRace& race, int old_program, const std::vector<const Group*>& fresh,
                           const std::vector<const Group*>& all, double seconds) {
    auto plan = plan_with(fresh, all);
    if (!plan) return plan.failure();
    const auto program = race.add(*plan);
    if (!program) return program.failure();
    auto compared = compare_programs(race, old_program, *program, bound_, seconds, how_.stop);
    if (!compared) return compared.failure();
    return Compared{std::move(*compared), *program};
  }

  // ---- telling ----

  void tell_changed() {
    for (const Group& group : groups_)
      if (group.improved) summary_.changed.push_back(changed(group, kernel(group)));
    std::ranges::stable_sort(summary_.changed, [](const ChangedKernel& a, const ChangedKernel& b) {
      return a.launches * (a.before - a.after) > b.launches * (b.before - b.after);
    });
  }

  SearchProgress progress_of(SearchProgress::Phase phase, const Group& group, int number, int count) const {
    SearchProgress progress;
    progress.phase = phase;
    progress.kernel = kernel(group).report.name + " " + kernel(group).report.computes;
    progress.number = number;
    progress.kernels = count;
    progress.usual = group.before;
    progress.tried = 0;
    progress.rejected = summary_.rejected;
    progress.left = how_.mode == SearchMode::budget ? std::max(0.0, left()) : -1;
    progress.program_before = summary_.kernels_before;
    progress.program = summary_.kernels_after;
    return progress;
  }
  void tell(SearchProgress::Phase phase, const Group& group, int number) const {
    if (how_.progress) how_.progress(progress_of(phase, group, number, int(groups_.size())));
  }
  void tell_program() const {
    if (!how_.progress) return;
    SearchProgress progress;
    progress.phase = SearchProgress::Phase::confirming;
    progress.rejected = summary_.rejected;
    progress.left = how_.mode == SearchMode::budget ? std::max(0.0, left()) : -1;
    progress.program_before = summary_.kernels_before;
    progress.program = summary_.kernels_after;
    how_.progress(progress);
  }

  void report(std::vector<KernelReport>& reports) const {
    reports.clear();
    for (const PlannedKernel& planned : built_.builder->kernels()) reports.push_back(planned.report);
    for (const Group& group : groups_)
      for (const int i : group.kernels) fill_report(reports[size_t(i)], group, kernel(group));
  }

  const Options& options_;
  const SearchOptions& how_;
  const PlanMaker& make_;
  BuiltPlan& built_;
  double begin_, waited_ = search::MeasureLock::waited();
  search::MachineProfile profile_;
  ExprMap<int64_t> bound_; // typical sizes
  std::vector<Group> groups_;
  SearchSummary summary_;
};

} // namespace

Result<SearchSummary> search_plan(const Options& options, const PlanMaker& make, BuiltPlan& built,
                                  std::vector<KernelReport>& reports) {
  LUMINAL_CHECK(options.tuning, "a search needs a cache");
  return PlanSearch(options, make, built).run(reports);
}

} // namespace luminal::compile
