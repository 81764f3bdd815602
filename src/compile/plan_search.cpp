// compile/plan_search.cpp -- kernels by their share of a step, each tuned for as long as it is
// worth, then the whole program.
#include "compile/plan_search.h"
#include "base/check.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "compile/compare_programs.h"
#include "compile/plan_race.h"
#include "compile/tune_plan.h"
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

constexpr double short_step = 1e-3; // seconds of a step that may be better off with one worker
constexpr double of_regions = 0.3;  // of a budget, for plans of regions
constexpr int steps_at_end = 10;    // of the whole program, to confirm
constexpr int plans_at_end =
    3; // that are made when kernels are tuned: to confirm, on fewer workers, the last

using Group = TuningGroup;

class PlanSearch {
public:
  PlanSearch(const Options& options, const PlanMaker& make, BuiltPlan& built)
      : options_(options), how_(options.search), make_(make), built_(built),
        begin_(search::Clock::steady_now()) {}

  Result<SearchSummary> run(std::vector<KernelReport>& reports) {
    summary_.complete = true;
    bind_sizes();
    if (auto done = race_regions(); !done) return done.failure();
    bind_sizes(); // counters of loops are of the program that was taken
    summary_.kernels = int(built_.builder->kernels().size());
    tuner_.emplace(options_, built_, bound_, summary_, [this] { return left(); });
    if (auto done = check_filter(); !done) return done.failure();
    if (auto done = tuner_->measure(); !done) return done.failure();
    tuner_->tune([this](const Group& group) { return wanted(group); }, reserve());
    if (auto done = confirm(); !done) return done.failure();
    if (auto done = try_fewer_workers(); !done) return done.failure();
    if (summary_.searched > 0 || summary_.workers > 0) { // schedules, and the times of those that stay
      auto last = make_({});
      if (!last) return last.failure();
      built_ = std::move(*last);
    }
    report(reports);
    tell_changed();
    summary_.seconds = search::Clock::steady_now() - begin_;
    return std::move(summary_);
  }

private:
  bool stopped() const {
    return search::yes(log(), "somebody asks to stop", [&] { return how_.stop && how_.stop(); });
  }
  search::MeasureLog* log() const { return options_.log.get(); }
  /// Waiting for others who measure is not charged.
  double left() const {
    const double spent = search::Clock::steady_now() - begin_ - (search::MeasureLock::waited() - waited_);
    return how_.mode == SearchMode::budget ? how_.seconds - spent : 1e9;
  }

  std::vector<Group>& groups() { return tuner_->groups(); }
  const std::vector<Group>& groups() const { return tuner_->groups(); }
  const PlannedKernel& kernel(const Group& group) const { return tuner_->kernel(group); }
  bool wanted(const Group& group) const {
    const KernelReport& report = kernel(group).report;
    return how_.filter.empty() || report.name.find(how_.filter) != std::string::npos ||
           report.computes.find(how_.filter) != std::string::npos ||
           report.about.find(how_.filter) != std::string::npos;
  }
  /// Seconds of the budget for what follows when kernels are tuned.
  double reserve() const {
    if (how_.mode != SearchMode::budget) return 0;
    const double whole = plans_at_end * built_.seconds + steps_at_end * summary_.kernels_before;
    return how_.confirm ? std::clamp(how_.seconds * 0.15, 0.2, 10.0) + std::min(whole, 0.2 * how_.seconds)
                        : built_.seconds;
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

  /// A filter that lets nothing through is a misspelt one.
  Result<void> check_filter() const {
    constexpr size_t most = 20;
    std::string names;
    size_t count = 0;
    for (const Group& group : groups()) {
      if (how_.filter.empty() || wanted(group)) return {};
      const KernelReport& report = kernel(group).report;
      if (count++ < most)
        names += fmt::format("\n  {} {}{}", report.name, report.computes,
                             report.about.empty() ? "" : fmt::format(" ({})", report.about));
    }
    if (groups().empty()) return {};
    if (count > most) names += fmt::format("\n  and {} more", count - most);
    return Failure{
        fmt::format("no kernel's name, results or weights hold \"{}\"; there are{}", how_.filter, names)};
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
    auto made = make_({pinned});
    if (!made) return made.failure();
    return made->plan;
  }

  void take_back(const Group& taken, const std::string& why) {
    tuner_->take_back(groups()[size_t(&taken - groups().data())], why);
  }

  Result<void> confirm() {
    std::vector<const Group*> changed;
    for (Group& group : groups())
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
    ProgramId best = *old_program;
    ProgramRace::Times gain; // of the best program against the old one
    const double start = search::Clock::steady_now();
    for (const Group* candidate : changed) {
      if (search::yes(log(), "the time to confirm is over",
                      [&] { return search::Clock::steady_now() - start > patience; })) {
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
    for (Group& group : groups()) {
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
      ProgramId number;
    };
    std::vector<Program> programs; // the last one is on all workers
    for (const int64_t workers : search::worker_counts(threads)) {
      Program program{workers, {}, {}};
      for (const Group& group : groups())
        program.schedules[kernel(group).key->hash()] = tuner_->schedule_of(group);
      for (const Group* group : several) {
        const auto points = evaluate(built_.plan->kernels[group->kernels[0]].points, bound_);
        if (points)
          program.schedules[kernel(*group).key->hash()] = kernel::to_string(search::on_workers(
              kernel::parse_schedule(tuner_->schedule_of(*group)), double(*points), workers, threads));
      }
      auto made = make_({program.schedules});
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
      search::TuningEntry entry = tuner_->entry_of(*group);
      entry.schedule = group->fewer_workers;
      options_.tuning->put(std::move(entry), search::TuningCache::Keep::newest);
    }
    return {};
  }
  struct Compared : Comparison {
    ProgramId program;
  };
  Result<Compared> compare(ProgramRace& race, ProgramId old_program, const std::vector<const Group*>& fresh,
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
    for (const Group& group : groups())
      if (group.improved) summary_.changed.push_back(changed(group, kernel(group)));
    std::ranges::stable_sort(summary_.changed, [](const ChangedKernel& a, const ChangedKernel& b) {
      return a.launches * (a.before - a.after) > b.launches * (b.before - b.after);
    });
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
    for (const Group& group : groups())
      for (const runtime::CodeId i : group.kernels) fill_report(reports[i.index()], group, kernel(group));
  }

  const Options& options_;
  const SearchOptions& how_;
  const PlanMaker& make_;
  BuiltPlan& built_;
  double begin_, waited_ = search::MeasureLock::waited();
  ExprMap<int64_t> bound_; // typical sizes
  std::optional<PlanTuner> tuner_;
  SearchSummary summary_;
};

} // namespace

Result<SearchSummary> search_plan(const Options& options, const PlanMaker& make, BuiltPlan& built,
                                  std::vector<KernelReport>& reports) {
  LUMINAL_CHECK(options.tuning, "a search needs a cache");
  return PlanSearch(options, make, built).run(reports);
}

} // namespace luminal::compile
