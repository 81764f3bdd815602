// compile/plan_race.cpp -- alternatives in the order of what they promise, one after the other.
#include "compile/plan_race.h"
#include "base/contains.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "compile/approximation.h"
#include "compile/blame_rules.h"
#include "compile/compare_programs.h"
#include "compile/tune_plan.h"
#include "search/measure_lock.h"
#include "search/measure_log.h"
#include "search/race.h"
#include "search/select.h"
#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <unistd.h>
#include <utility>

namespace luminal::compile {
namespace {

constexpr double least_seconds = 0.05, most_seconds = 2; // of one comparison
/// A plan that takes at most so much more than the best one, with schedules that nobody tuned, may win with
/// others: its kernels are tuned before it is rejected, and so are those that it would replace.
constexpr double near = 1.3;
constexpr double runs_of_check = 4; // loading two programs, and their steps, take about so often one's
constexpr double least_tuning = 1, most_tuning = 20; // seconds, of the kernels in which two plans differ

/// Half a unit in the last place of the least precise float that the program computes with.
double epsilon_of(const Function& function) {
  double most = 0x1p-53;
  for (const Node& node : function.nodes)
    for (const TensorType& type : node.types)
      if (is_float(type.dtype)) most = std::max(most, unit_roundoff(type.dtype));
  return most;
}

/// Another plan of a region than the one that is taken.
struct Alternative {
  size_t region, plan;
  double promise; ///< seconds of a step, by estimate
};

std::vector<Alternative> alternatives_of(const std::vector<RegionReport>& regions) {
  std::vector<Alternative> out;
  for (size_t r = 0; r < regions.size(); ++r)
    for (size_t k = 0; k < regions[r].plans.size(); ++k)
      if (k != regions[r].taken && !regions[r].fewest_bytes) // others need more memory than there is
        out.push_back({r, k,
                       double(regions[r].instances) *
                           (regions[r].plans[regions[r].taken].estimate_s - regions[r].plans[k].estimate_s)});
  std::ranges::stable_sort(out, std::greater(), &Alternative::promise);
  return out;
}

class PlanRace {
public:
  PlanRace(const Options& options, const PlanMaker& make, BuiltPlan& built, const ExprMap<int64_t>& bound,
           double seconds, SearchSummary& summary)
      : options_(options), make_(make), built_(built), bound_(bound), seconds_(seconds), summary_(summary),
        regions_(built.builder->regions()) {}

  /// Whether a rule or a plan went into quarantine with which the program was made: it begins anew.
  Result<bool> run() {
    const std::vector<Alternative> all = alternatives_of(regions_);
    if (all.empty() || is_over("there is no time for plans of regions", least_seconds)) return false;
    std::optional<ThreadPool> own;
    ThreadPool* pool = options_.pool ? options_.pool : &own.emplace(options_.limits.threads);
    ProgramRace race(race_options(options_, built_, pool, bound_));
    const double loading = search::Clock::steady_now();
    const auto first = race.add(built_.plan);
    if (!first) {
      summary_.notes.push_back("plans of regions were not measured: " + first.error());
      return false;
    }
    const double loaded = search::Clock::steady_now() - loading;
    if (auto turn = take_turn(); !turn) return turn.failure();
    if (turn_.stopped) return false;
    best_ = *first;
    double longest = 0; // of the tries so far: what does not fit is not begun
    if (is_over("there is no time to check the program", runs_of_check * loaded + built_.seconds))
      summary_.notes.push_back("no time was left to check what the rules made of the program");
    else {
      const double start = search::Clock::steady_now();
      auto right = check_first(race, *first);
      if (!right) return right.failure();
      if (!*right) return true;
      longest = search::Clock::steady_now() - start;
    }
    for (size_t k = 0; k < all.size(); ++k) {
      if (is_over("the time for plans of regions is over", longest)) {
        summary_.complete = false;
        break;
      }
      tell(all[k], k, all.size());
      const double start = search::Clock::steady_now();
      auto tried = try_one(race, all[k], left() / double(all.size() - k));
      if (!tried) return tried.failure();
      if (blamed_) return true;
      if (turn_.stopped) break;
      longest = std::max(longest, *tried ? least_seconds : search::Clock::steady_now() - start);
    }
    summary_.tried += apart_.tried - apart_.searched; // winners are tried again with the other kernels
    summary_.mismatches += apart_.mismatches;
    for (const auto& [cause, count] : apart_.rejected) summary_.rejected[cause] += count;
    summary_.notes.insert(summary_.notes.end(), apart_.notes.begin(), apart_.notes.end());
    if (winners_.empty() && !tuned_) return false;
    for (const auto& [region, plan] : winners_) keep(region, plan);
    auto made = make_({});
    if (!made) return made.failure();
    built_ = std::move(*made);
    return false;
  }

private:
  struct Winner {
    size_t plan;
    ProgramRace::Times times;
  };
  /// Somebody asked to stop, or less time is left than this.
  bool is_over(const char* question, double least) const {
    return search::yes(options_.log.get(), question,
                       [&] { return (options_.search.stop && options_.search.stop()) || left() < least; });
  }
  /// Waiting for others who measure is not charged.
  double left() const {
    return seconds_ - (search::Clock::steady_now() - begin_ - (search::MeasureLock::waited() - waited_));
  }

  std::string name_of(const Alternative& a) const {
    return fmt::format("{}: plan {}{}", compile::name_of(regions_[a.region]),
                       regions_[a.region].plans[a.plan].name,
                       regions_[a.region].plans[a.plan].written ? ", the terms as they came" : "");
  }

  void tell(const Alternative& a, size_t number, size_t count) const {
    if (!options_.search.progress) return;
    SearchProgress progress;
    progress.phase = SearchProgress::Phase::regions;
    progress.kernel = name_of(a);
    progress.number = int(number) + 1;
    progress.kernels = int(count);
    progress.rejected = summary_.rejected;
    progress.left = options_.search.mode == SearchMode::budget ? std::max(0.0, left()) : -1;
    options_.search.progress(progress);
  }

  Result<void> take_turn() {
    auto turn = lock_to_measure(options_);
    if (!turn) return turn.failure();
    turn_ = std::move(*turn);
    return {};
  }

  /// With the plans that have won so far.
  std::map<Hash128, std::string> won() const {
    std::map<Hash128, std::string> pinned;
    for (const auto& [r, winner] : winners_)
      pinned[regions_[r].key->hash()] = plan_text(regions_[r].plans[winner.plan].name);
    return pinned;
  }

  /// Whether kernels were tuned for it, which takes a time of its own.
  Result<bool> try_one(ProgramRace& race, const Alternative& a, double seconds) {
    const RegionReport& region = regions_[a.region];
    const std::string text = plan_text(region.plans[a.plan].name);
    if (options_.tuning->quarantined(*region.key, text)) return false;
    std::map<Hash128, std::string> pinned = won();
    pinned[region.key->hash()] = text;
    const auto lost = [&](const std::string& why) {
      log_info("{}: {}", name_of(a), why);
      return false;
    };
    auto made = make_({pinned});
    if (!made) return lost(made.error());
    const auto program = race.add(made->plan);
    if (!program) return lost(program.error());
    if (is_approximate(*made)) {
      const auto far = beyond(race, *program);
      if (!far) return far.failure();
      if (!far->empty()) {
        race.drop(*program);
        ++summary_.rejected["inexact"];
        return lost(*far);
      }
    }
    const Result<std::string> different =
        is_approximate(*made) ? Result<std::string>(std::string()) : difference(race, *program);
    if (!different) {
      race.drop(*program);
      return lost("it cannot be checked: " + different.error());
    }
    if (!different->empty()) {
      race.drop(*program);
      ++summary_.mismatches;
      ++summary_.rejected["wrong"];
      summary_.notes.push_back(fmt::format("{} gives other results: {}", name_of(a), *different));
      options_.tuning->quarantine(*region.key, text, *different, "");
      blame(region.rules, *different, [&](const std::vector<std::string>& forbidden) {
        return region_is_wrong(race, best_, a.region, forbidden);
      });
      return false;
    }
    ++summary_.region_plans;
    auto compared = race_best(race, a, *program, is_approximate(*made), seconds);
    if (!compared) return compared.failure();
    if (compared->taken) return false;
    const auto slower = [&](const Comparison& by) {
      return fmt::format("a step takes {} in place of {}{}", human_time(by.times.second),
                         human_time(by.times.first), by.where);
    };
    const double share = std::min(seconds / 2, most_tuning);
    if (!(compared->times.second <= near * compared->times.first) ||
        is_over("there is no time to tune a plan of a region", least_tuning))
      return lost(slower(*compared));
    auto tuned = tune_apart(race, *made, std::max(share, least_tuning));
    if (!tuned) return tuned.failure();
    if (turn_.stopped || !*tuned) return lost(slower(*compared));
    made = make_({pinned});
    if (!made) return made.failure();
    const auto again = race.add(made->plan);
    if (!again) return lost(again.error());
    const auto wrong = is_approximate(*made) ? beyond(race, *again) : difference(race, *again);
    if (!wrong || !wrong->empty()) { // each of its kernels was right alone, so the plan is not to blame
      race.drop(*again);
      return lost(wrong ? "with tuned kernels it gives other results: " + *wrong : wrong.error());
    }
    compared = race_best(race, a, *again, is_approximate(*made), seconds);
    if (!compared) return compared.failure();
    if (!compared->taken) log_info("{}: with tuned kernels, {}", name_of(a), slower(*compared));
    return true;
  }

  // ---- programs that are not exact ----

  /// The program without rules of class `approx`, loaded when it is needed.
  Result<ProgramId> exact_program(ProgramRace& race) {
    if (exact_) return exact_;
    auto made = make_({{}, built_.rules->approximate_rules()});
    if (!made) return made.failure();
    const auto program = race.add(made->plan);
    if (!program) return program.failure();
    return exact_ = *program;
  }
  /// What keeps a program with such rules from being taken; empty: it is within the bound.
  Result<std::string> beyond(ProgramRace& race, ProgramId program) {
    const auto exact = exact_program(race);
    if (!exact) return exact.failure();
    const auto error = race.error(*exact, program);
    const double allowed = built_.rules->max_error();
    if (!error) return "its error is not known: " + error.error();
    if (*error <= allowed) return std::string();
    return fmt::format("results are off by {:.2g} of their greatest elements, {:.2g} is allowed", *error,
                       allowed);
  }
  /// Of an exact program: against the best one, or, where that is not exact, the one that is. Rules may make
  /// a result exact that cancels as it is written (a sum of distances to their mean), and rounding moves such
  /// a result of the best one nowhere: where they differ, the terms as they came tell what is right.
  Result<std::string> difference(ProgramRace& race, ProgramId program) {
    const Result<ProgramId> exact = best_approximate_ ? exact_program(race) : Result<ProgramId>(best_);
    if (!exact) return exact.failure();
    auto different = race.difference(*exact, program);
    if (!different || different->empty() || !written_) return different;
    const auto written = race.add(written_);
    if (!written) return different;
    auto from_written = race.difference(*written, program);
    race.drop(*written);
    return from_written ? from_written : different;
  }

  struct Outcome : Comparison {
    bool taken = false;
  };
  /// The program takes the place of the best one, or goes.
  Result<Outcome> race_best(ProgramRace& race, const Alternative& a, ProgramId program, bool approximate,
                            double seconds) {
    auto compared =
        compare_programs(race, best_, program, bound_, std::clamp(seconds / 2, least_seconds, most_seconds),
                         options_.search.stop);
    if (!compared) return compared.failure();
    Outcome out{std::move(*compared)};
    out.taken = out.good && out.times.second * noise <= out.times.first;
    if (out.taken) {
      take(a, out.times);
      race.drop(std::exchange(best_, program));
      best_approximate_ = approximate;
    } else
      race.drop(program);
    return out;
  }

  /// Tunes the kernels that only one of the best program and this one has. Whether one of these has another
  /// schedule now.
  Result<bool> tune_apart(ProgramRace& race, const BuiltPlan& other, double seconds) {
    auto best_built = make_({won()});
    if (!best_built) return best_built.failure();
    const auto keys = [](const BuiltPlan& built) {
      std::set<Hash128> out;
      for (const PlannedKernel& kernel : built.builder->kernels())
        if (kernel.key) out.insert(kernel.key->hash());
      return out;
    };
    turn_.lock.reset(); // whoever tunes takes it again and again
    bool improved = false;
    const auto tune = [&](const BuiltPlan& of,
                          const BuiltPlan& without) -> Result<std::unique_ptr<PlanTuner>> {
      const std::set<Hash128> common = keys(without);
      const double begin = search::Clock::steady_now(), waited = search::MeasureLock::waited();
      auto tuner = std::make_unique<PlanTuner>(options_, of, bound_, apart_, [=] {
        return seconds / 2 - (search::Clock::steady_now() - begin - (search::MeasureLock::waited() - waited));
      });
      const auto wanted = [&, t = tuner.get()](const TuningGroup& group) {
        return !common.contains(t->kernel(group).key->hash());
      };
      if (auto done = tuner->measure(wanted); !done) return done.failure();
      tuner->tune(wanted, 0);
      for (const TuningGroup& group : tuner->groups()) improved |= group.improved;
      return tuner;
    };
    auto theirs = tune(other, *best_built);
    if (!theirs) return theirs.failure();
    const bool of_other = std::exchange(improved, false);
    auto ours = tune(*best_built, other);
    if (!ours) return ours.failure();
    if (auto turn = take_turn(); !turn) return turn.failure();
    if (!improved || turn_.stopped) return of_other;
    // The best program with its new schedules: they stay only where it is not slower.
    auto made = make_({won()});
    if (!made) return made.failure();
    const auto program = race.add(made->plan);
    if (!program) return of_other;
    auto compared =
        compare_programs(race, best_, *program, bound_, std::clamp(seconds / 4, least_seconds, most_seconds),
                         options_.search.stop);
    if (!compared) return compared.failure();
    if (compared->good) {
      if (summary_.program_before == 0) summary_.program_before = compared->times.first;
      summary_.program_after = compared->times.second;
      race.drop(std::exchange(best_, *program));
      tuned_ = true;
      return true;
    }
    race.drop(*program);
    for (TuningGroup& group : (*ours)->groups())
      if (group.improved)
        (*ours)->take_back(group, "the whole program is not faster with it" + compared->where);
    return of_other;
  }

  // ---- what is wrong, and why ----

  /// The terms as they came, in all regions: what the rules are held against.
  std::map<Hash128, std::string> as_written() const {
    std::map<Hash128, std::string> pinned;
    for (const RegionReport& region : regions_)
      for (const RegionPlanReport& plan : region.plans)
        if (plan.written) pinned[region.key->hash()] = plan_text(plan.name);
    return pinned;
  }

  /// Is the program that the race begins with right? Where it is not, what made it wrong is in quarantine
  /// now.
  Result<bool> check_first(ProgramRace& race, ProgramId first) {
    std::vector<std::string> chain;
    for (const RegionReport& region : regions_)
      if (!region.plans.empty() && !region.plans[region.taken].written)
        for (const std::string& rule : region.rules)
          if (!contains(chain, rule)) chain.push_back(rule);
    if (chain.empty()) return true;
    auto made = make_({as_written()});
    if (!made) return made.failure();
    written_ = made->plan;
    const auto written = race.add(written_);
    if (!written) {
      summary_.notes.push_back("what the rules made of the program was not checked: " + written.error());
      return true;
    }
    if (best_approximate_) { // its error is known: compile/approximation.h. What is checked is the rest
      const auto exact = exact_program(race);
      if (!exact) return exact.failure();
      first = *exact;
    }
    const auto different = race.difference(*written, first);
    if (!different)
      summary_.notes.push_back("what the rules made of it cannot be checked: " + different.error());
    if (!different || different->empty()) {
      race.drop(*written);
      return true;
    }
    ++summary_.mismatches;
    ++summary_.rejected["wrong"];
    summary_.notes.push_back("what the rules made of the program gives other results: " + *different);
    blame(chain, *different, [&](const std::vector<std::string>& forbidden) {
      return is_wrong(race, *written, {{}, forbidden});
    });
    if (!blamed_) forbid_plans(race, *written, *different);
    return !blamed_;
  }

  bool is_wrong(ProgramRace& race, ProgramId right, const PlanRequest& request) {
    auto made = make_(request);
    if (!made) return false;
    const auto program = race.add(made->plan);
    if (!program) return false;
    const auto different = race.difference(right, *program);
    race.drop(*program);
    return different && !different->empty();
  }

  /// Does any plan of the region give other results, without these rules?
  bool region_is_wrong(ProgramRace& race, ProgramId right, size_t r,
                       const std::vector<std::string>& forbidden) {
    auto made = make_({{}, forbidden});
    if (!made || r >= made->builder->regions().size()) return false;
    const RegionReport region = made->builder->regions()[r];
    return std::ranges::any_of(region.plans, [&](const RegionPlanReport& plan) {
      return !plan.written && !plan.approximate &&
             is_wrong(race, right, {{{region.key->hash(), plan_text(plan.name)}}, forbidden});
    });
  }

  void blame(const std::vector<std::string>& chain, const std::string& cause,
             const std::function<bool(const std::vector<std::string>&)>& wrong) {
    if (!built_.rules) return;
    const auto stop = [&] {
      return search::yes(options_.log.get(), "somebody asks to stop",
                         [&] { return options_.search.stop && options_.search.stop(); });
    };
    const std::vector<std::string> names = rules_to_blame(*built_.rules, chain, wrong, stop);
    if (names.empty()) return;
    const auto blamed = quarantine_rules(
        *options_.tuning, *built_.rules, names, cause, search::reproducer_folder(options_.reproducers),
        {{"module.lum", to_string(built_.builder->module())}}, !search::replays(options_.log.get()));
    summary_.blamed.insert(summary_.blamed.end(), blamed.begin(), blamed.end());
    blamed_ = true;
  }

  /// No rule alone is to blame: plans of regions with which alone the program is wrong.
  void forbid_plans(ProgramRace& race, ProgramId right, const std::string& cause) {
    for (const RegionReport& region : regions_) {
      if (region.plans.empty() || region.plans[region.taken].written) continue;
      auto pinned = as_written();
      const std::string text = plan_text(region.plans[region.taken].name);
      pinned[region.key->hash()] = text;
      if (!is_wrong(race, right, {pinned})) continue;
      options_.tuning->quarantine(*region.key, text, cause, "");
      blamed_ = true;
    }
  }

  void take(const Alternative& a, const ProgramRace::Times& times) {
    const auto [at, fresh] = winners_.try_emplace(a.region, Winner{a.plan, times});
    if (!fresh) at->second = {a.plan, {at->second.times.first, times.second, times.rounds}};
    if (summary_.program_before == 0) summary_.program_before = times.first;
    summary_.program_after = times.second;
  }

  void keep(size_t r, const Winner& winner) {
    const RegionReport& region = regions_[r];
    search::TuningEntry entry;
    entry.key = *region.key;
    entry.name = compile::name_of(region);
    entry.schedule = plan_text(region.plans[winner.plan].name);
    entry.seconds = winner.times.second;
    entry.samples = winner.times.rounds;
    entry.checked = true;
    options_.tuning->put(std::move(entry), search::TuningCache::Keep::newest);
    summary_.regions.push_back({region.nodes, region.instances, region.lines, region.plans[winner.plan].name,
                                winner.times.first, winner.times.second});
  }

  const Options& options_;
  const PlanMaker& make_;
  BuiltPlan& built_;
  const ExprMap<int64_t>& bound_;
  const double seconds_;
  SearchSummary& summary_;
  const std::vector<RegionReport> regions_; // of the program that the race began with
  std::map<size_t, Winner> winners_;        // by region
  ProgramId best_;                          // of the race
  bool best_approximate_ = is_approximate(built_);
  ProgramId exact_;                              // the program without rules of class `approx`
  std::shared_ptr<const runtime::Plan> written_; // of the terms as they came
  MeasureTurn turn_;
  SearchSummary apart_; // of kernels that were tuned for plans that were near
  bool tuned_ = false;  // some of the best program's have other schedules
  bool blamed_ = false; // something is in quarantine that the program was made with
  const double begin_ = search::Clock::steady_now(), waited_ = search::MeasureLock::waited();
};

} // namespace

Result<void> race_regions(const Options& options, const PlanMaker& make, BuiltPlan& built,
                          const ExprMap<int64_t>& bound, double seconds, SearchSummary& summary) {
  constexpr int most_rounds = 8; // each leaves out at least one rule or plan
  const double begin = search::Clock::steady_now();
  for (int round = 0; round < most_rounds; ++round) {
    auto again =
        PlanRace(options, make, built, bound, seconds - (search::Clock::steady_now() - begin), summary).run();
    if (!again) return again.failure();
    if (!*again) return {};
    auto made = make({});
    if (!made) return made.failure();
    built = std::move(*made);
  }
  return {};
}

Result<MeasureTurn> lock_to_measure(const Options& options) {
  MeasureTurn turn;
  const auto& stop = options.search.stop;
  const auto done = search::outcome(options.log.get(), "the lock of programs", "", [&]() -> Result<void> {
    auto lock = search::MeasureLock::acquire(
        options.measure_lock.empty() ? search::MeasureLock::default_path() : options.measure_lock, stop);
    if (!lock) return lock.failure();
    turn.lock.emplace(std::move(*lock));
    return {};
  });
  if (done) return turn;
  turn.stopped =
      search::yes(options.log.get(), "stopped while others measured", [&] { return stop && stop(); });
  if (turn.stopped) return turn;
  return done.failure();
}

ProgramRace::Options race_options(const Options& options, const BuiltPlan& built, ThreadPool* pool,
                                  const ExprMap<int64_t>& bound) {
  ProgramRace::Options how;
  how.pool = pool;
  how.weights = options.weights;
  for (const auto& [symbol, value] : bound) how.sizes[std::string(symbol.name())] = value;
  how.epsilon = epsilon_of(built.builder->entry());
  how.log = options.log.get();
  how.most_bytes = int64_t(sysconf(_SC_PHYS_PAGES)) * int64_t(sysconf(_SC_PAGESIZE)) / 2;
  return how;
}

} // namespace luminal::compile
