// search/select.cpp -- building, racing, checking, keeping.
#include "search/select.h"
#include "base/contains.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "search/bound.h"
#include "search/measure_lock.h"
#include "search/measure_log.h"
#include "search/part.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <utility>

namespace luminal::search {
namespace {

/// A candidate that could be lowered. Kept from list to list.
struct Built {
  std::string schedule;
  Candidate candidate;
  kernel::Kernel kernel;
  int workers = 1;
  double bound = 0; // seconds; 0: not known
  std::optional<CandidateCode> code;
  std::optional<int> number; // of the measurer: whole
  std::optional<int> part;   // of a macro-tile
  double whole = 1;          // launches of that in one of the whole
  bool cut = false;          // a macro-tile was asked for
  std::string cause;         // why it cannot be built
  bool checked = false;
  std::vector<int> at_sizes; // numbers of the measurers of other sizes
};

} // namespace

struct Selector::Impl {
  Impl(const KernelProblem& problem, SelectOptions options)
      : problem_(problem), options_(std::move(options)),
        clock_(options_.race.clock ? *options_.race.clock : Clock::steady()),
        key_(tuning_key(problem, options_.build, options_.numeric, options_.rules)) {
    options_.race.log = options_.log;
  }

  Result<Selection> run(const std::vector<Candidate>& candidates, double seconds,
                        const std::vector<double>& allowed) {
    begin(candidates);
    for (size_t s = 0; s < allowed.size() && s < options_.sizes.size(); s++)
      options_.sizes[s].allowed = allowed[s];
    const double start = clock_.now();
    for (size_t i = 0; i < candidates.size(); i++) lower_one(i, candidates[i]);
    if (auto timed = time_incumbent(); !timed) return timed.failure();
    const double measured = incumbent_ > 0 && best_ > 0 ? std::min(incumbent_, best_)
                            : incumbent_ > 0            ? incumbent_
                                                        : best_;
    prune();
    selection_.parts = measured > options_.long_launch;
    if (selection_.parts) cut_all(options_.part_seconds / measured);
    build_all(selection_.parts);
    std::vector<size_t> position; // of the entries of the race in the list
    for (size_t i = 0; i < slots_.size(); i++)
      if (slots_[i] && number_of(of(i))) position.push_back(i);
    if (position.empty())
      return Failure{fmt::format("{}: no candidate can be built: {}", problem_.cone.name, causes())};
    const double spent = clock_.now() - start;
    std::vector<size_t> order;
    if (auto raced = race_all(position, seconds, measured, order); !raced) return raced.failure();
    const double checking = clock_.now();
    auto winner = first_right(order);
    if (!winner) return winner.failure();
    selection_.checked_seconds = spent + clock_.now() - checking;
    if (!selection_.winner)
      return Failure{fmt::format("{}: no candidate is right: {}", problem_.cone.name, causes())};
    keep();
    return std::move(selection_);
  }

  Result<Tried> check_first(const Candidate& candidate) {
    begin({candidate});
    lower_one(0, candidate);
    build_all(false);
    if (!slots_[0] || !of(0).number) return Failure{selection_.tried[0].rejected};
    if (auto ready = make_checker(); !ready) return ready.failure();
    check(0);
    return std::move(selection_.tried[0]);
  }

private:
  Built& of(size_t i) { return built_[*slots_[i]]; }
  std::optional<int> number_of(const Built& built) const {
    return selection_.parts && built.part ? built.part : built.number;
  }

  void begin(const std::vector<Candidate>& candidates) {
    selection_ = {};
    slots_.assign(candidates.size(), {});
    incumbent_ = 0;
    for (const Candidate& candidate : candidates)
      selection_.tried.push_back({.schedule = kernel::to_string(candidate.schedule)});
    if (!measurer_) measurer_ = timing(problem_);
  }

  std::unique_ptr<Measurer> make(std::shared_ptr<const Workload> work) const {
    return options_.worker ? make_worker_measurer(std::move(work), options_.measure)
                           : make_in_process_measurer(std::move(work), options_.measure);
  }
  /// Of the problem at its sizes.
  std::unique_ptr<Measurer> timing(const KernelProblem& problem) const {
    if (replays(options_.log)) return make_replaying_measurer(*options_.log);
    auto made = make(std::make_shared<const Workload>(
        workload_of(problem, problem.cone, problem.symbols, options_.build.threads)));
    return options_.log ? make_logged_measurer(std::move(made), *options_.log) : std::move(made);
  }
  /// Held by nobody where nothing is measured.
  Result<std::optional<MeasureLock>> lock() const {
    std::optional<MeasureLock> held;
    const auto done = outcome(options_.log, "the lock", "", [&]() -> Result<void> {
      auto lock = MeasureLock::acquire(options_.lock.empty() ? MeasureLock::default_path() : options_.lock,
                                       options_.race.stop);
      if (!lock) return lock.failure();
      held.emplace(std::move(*lock));
      return {};
    });
    if (!done) return done.failure();
    return held;
  }

  // ---- building ----

  /// Legal, known to be wrong, the same as an earlier one?
  void lower_one(size_t i, const Candidate& candidate) {
    Tried& tried = selection_.tried[i];
    if (options_.cache)
      if (const auto known = options_.cache->quarantined(key_, tried.schedule)) {
        tried.rejected = "quarantined: " + known->cause;
        return;
      }
    auto lowered = candidate.lower(problem_.cone, candidate.schedule);
    if (!lowered) {
      tried.rejected = lowered.error();
      return;
    }
    const int workers =
        workers_of(candidate.schedule, problem_.cone, problem_.symbols, options_.build.threads);
    const auto [same, fresh] =
        kernels_.try_emplace({kernel::structural_hash128(*lowered), workers}, built_.size());
    if (!fresh) {
      for (size_t k = 0; k < i; k++)
        if (slots_[k] == same->second) {
          tried.rejected = fmt::format("the same code as candidate {}", k);
          return;
        }
      slots_[i] = same->second;
      Built& known = of(i);
      tried.bound = known.bound;
      if (known.schedule == tried.schedule) return; // the incumbent of this list
      slots_[i].reset();
      tried.rejected = "the same code as an earlier candidate";
      return;
    }
    Built built;
    built.schedule = tried.schedule;
    built.candidate = candidate;
    built.kernel = std::move(*lowered);
    built.workers = workers;
    if (!options_.profile.guessed)
      if (const auto work = least_work(built.kernel, problem_.symbols, workers))
        tried.bound = built.bound = least_seconds(*work, options_.profile);
    built_.push_back(std::move(built));
    slots_[i] = same->second;
  }

  /// Its bound says that it cannot be the best. Nothing else has been done for it yet.
  void prune() {
    const double best = std::min(best_ > 0 ? best_ : INFINITY, incumbent_ > 0 ? incumbent_ : INFINITY);
    for (size_t i = 1; i < slots_.size(); i++) {
      if (!slots_[i] || of(i).number) continue;
      const double bound = of(i).bound * trust_ * options_.bound_margin;
      if (!(bound > best)) continue;
      selection_.tried[i].rejected =
          fmt::format("bound: not below {}, the best takes {}", human_time(bound), human_time(best));
      slots_[i].reset();
    }
  }

  void cut_all(double share) {
    for (const auto& slot : slots_) {
      if (!slot || built_[*slot].cut) continue;
      Built& built = built_[*slot];
      built.cut = true;
      auto part = part_of(built.kernel, problem_.symbols, built.workers, share, options_.profile);
      if (!part) continue;
      built.whole = part->whole;
      parts_.emplace(*slot, std::move(part->kernel));
    }
  }

  /// Compiled on all workers: whole, or their macro-tiles where there are any. Nothing compiles
  /// while a race is on.
  void build_all(bool parts) {
    std::vector<size_t> wanted;
    for (const auto& slot : slots_)
      if (slot && built_[*slot].cause.empty() &&
          !(parts && parts_.contains(*slot) ? built_[*slot].part : built_[*slot].number))
        wanted.push_back(*slot);
    build_these(wanted, parts);
    for (size_t i = 0; i < slots_.size(); i++)
      if (slots_[i] && !of(i).cause.empty()) selection_.tried[i].rejected = of(i).cause;
  }
  void build_these(const std::vector<size_t>& wanted, bool parts) {
    if (wanted.empty()) return;
    std::vector<std::optional<Result<CandidateCode>>> codes(wanted.size());
    const auto kernel_of = [&](size_t slot) -> const kernel::Kernel& {
      const auto part = parts_.find(slot);
      return parts && part != parts_.end() ? part->second : built_[slot].kernel;
    };
    if (!replays(options_.log)) {
      ThreadPool pool(options_.build.threads); // gone before a worker process is forked
      pool.parallel_for(int64_t(wanted.size()), [&](int64_t w) {
        codes[size_t(w)].emplace(build(kernel_of(wanted[size_t(w)]), problem_.symbols, options_.build));
      });
    }
    for (size_t w = 0; w < wanted.size(); w++) {
      Built& built = built_[wanted[w]];
      const bool part = parts && parts_.contains(wanted[w]);
      CandidateCode code;
      const auto made = outcome(options_.log, "code", built.schedule, [&]() -> Result<void> {
        if (!*codes[w]) return codes[w]->failure();
        code = std::move(**codes[w]);
        return {};
      });
      code.workers = built.workers;
      if (made && !part) built.code = code;
      const auto number = made ? measurer_->add(std::move(code)) : Result<int>(made.failure());
      if (number)
        (part ? built.part : built.number) = *number;
      else
        built.cause = number.error();
    }
  }

  // ---- measuring ----

  /// What the bounds are held against, and whether launches are long. 0 where it cannot be built or
  /// timed.
  Result<void> time_incumbent() {
    if (slots_.empty() || !slots_[0]) return {};
    if (!of(0).number) build_these({*slots_[0]}, false);
    if (!of(0).number) return {};
    const auto held = lock();
    if (!held) return held.failure();
    for (int turn = 0; turn < 3; turn++) {
      const auto seconds = measurer_->time(*of(0).number, 1);
      if (!seconds || !(*seconds > 0)) {
        incumbent_ = 0;
        return {}; // the race will say why
      }
      incumbent_ = turn == 0 ? *seconds : std::min(incumbent_, *seconds);
      if (incumbent_ > 0.1 || (incumbent_ > options_.long_launch && turn > 0)) break;
    }
    distrust(of(0), incumbent_);
    return {};
  }

  /// Faster than its bound: the profile was taken at a bad moment, and its bounds are worth so much
  /// less.
  void distrust(const Built& built, double seconds) {
    if (!(built.bound > 0) || !(seconds > 0)) return;
    selection_.bound_ratio = std::max(selection_.bound_ratio, built.bound / seconds);
    trust_ = std::min(trust_, seconds / built.bound);
  }

  /// order: positions in the list of what may win, the best first.
  Result<void> race_all(const std::vector<size_t>& position, double seconds, double measured,
                        std::vector<size_t>& order) {
    std::vector<int> numbers;
    RaceOptions how = options_.race;
    how.seconds = seconds;
    how.scales.clear();
    for (const size_t i : position) {
      numbers.push_back(*number_of(of(i)));
      how.scales.push_back(number_of(of(i)) == of(i).part ? of(i).whole : 1);
    }
    if (measured > 3e-3) { // a few samples tell as much as many short ones, and cost more
      how.first_rounds = std::min(how.first_rounds, selection_.parts ? 2 : 3);
      how.last_rounds = std::min(how.last_rounds, 10);
      how.hopeless = std::min(how.hopeless, 2.0);
    }
    auto held = lock();
    if (!held) return held.failure();
    const RaceResult raced = race(*measurer_, numbers, how);
    selection_.complete = raced.complete;
    for (size_t e = 0; e < raced.entries.size(); e++) take(position[e], raced.entries[e]);
    for (const int e : raced.order) order.push_back(position[size_t(e)]);
    if (selection_.parts && position[0] == 0) confirm(measured, order);
    if (!options_.sizes.empty() && position[0] == 0) at_sizes(seconds, order);
    return {};
  }

  void take(size_t i, const RaceEntry& entry) {
    Tried& tried = selection_.tried[i];
    tried.rejected = entry.rejected;
    tried.samples = int64_t(entry.samples.size());
    tried.seconds = std::isfinite(entry.seconds) ? entry.seconds : 0;
    if (!selection_.parts) distrust(of(i), tried.seconds);
    // One that did not end in time may have met a busy machine: it is out for now only.
    if (entry.failed && entry.rejected.starts_with("crashed")) condemn(i, entry.rejected);
  }

  /// Those whose macro-tiles beat the incumbent's, whole and by turns with it.
  void confirm(double measured, std::vector<size_t>& order) {
    std::vector<size_t> finalists = {0};
    const int most = measured > 0.1 ? 2 : options_.race.finalists; // of what takes seconds, only the best
    for (const size_t i : order) {
      if (i == 0 || int(finalists.size()) >= most) break;
      finalists.push_back(i);
    }
    // The time of a whole launch is what is told and kept; those of macro-tiles are estimates in
    // proportion to it.
    if (const double estimate = selection_.tried[0].seconds; estimate > 0 && incumbent_ > 0)
      for (Tried& tried : selection_.tried) tried.seconds *= incumbent_ / estimate;
    if (finalists.size() == 1 || !(incumbent_ > 0)) return;
    std::vector<size_t> wanted;
    for (const size_t i : finalists)
      if (!of(i).number && of(i).cause.empty()) wanted.push_back(*slots_[i]);
    build_these(wanted, false);
    std::erase_if(finalists, [&](size_t i) { return !of(i).number; });
    std::vector<int> numbers;
    for (const size_t i : finalists) numbers.push_back(*of(i).number);
    RaceOptions how = options_.race;
    how.scales.clear();
    how.warm_ups = measured > 0.1 ? 0 : 1;
    how.last_rounds =
        int(std::clamp(1.0 / (measured * double(finalists.size())), 2.0, double(how.last_rounds)));
    how.first_rounds = std::min(how.first_rounds, how.last_rounds);
    how.seconds = INFINITY; // it ends with its rounds
    const RaceResult whole = race(*measurer_, numbers, how);
    selection_.complete &= whole.complete;
    for (size_t e = 0; e < finalists.size(); e++) take_whole(finalists[e], whole.entries[e]);
    std::vector<size_t> confirmed;
    for (const int e : whole.order) confirmed.push_back(finalists[size_t(e)]);
    for (const size_t i : order)
      if (!contains(finalists, i)) confirmed.push_back(i);
    // Behind the incumbent comes what was not confirmed: only where the incumbent is wrong.
    order = std::move(confirmed);
  }
  void take_whole(size_t i, const RaceEntry& entry) {
    const bool parts = std::exchange(selection_.parts, false);
    take(i, entry);
    selection_.parts = parts;
  }

  struct Size {
    KernelProblem problem;
    std::unique_ptr<Measurer> measurer;
  };

  /// The best at the problem's own sizes are timed at the others: the weighted geometric mean of
  /// their times decides, and none may be slower anywhere.
  void at_sizes(double seconds, std::vector<size_t>& order) {
    std::vector<size_t> finalists = {0};
    for (const size_t i : order) {
      const Tried& tried = selection_.tried[i];
      if (int(finalists.size()) >= options_.race.finalists) break;
      if (i == 0 || !tried.rejected.empty() || !of(i).number || !(tried.seconds > 0)) continue;
      if (tried.seconds > 1.02 * selection_.tried[0].seconds) continue;
      finalists.push_back(i);
    }
    selection_.at_sizes.assign(options_.sizes.size(), {0, 0});
    if (!(selection_.tried[0].seconds > 0) || finalists.size() == 1) return;
    std::vector<double> score(finalists.size(), 0), weights(finalists.size(), 1);
    std::vector<std::vector<double>> times(finalists.size());
    for (size_t f = 0; f < finalists.size(); f++)
      score[f] = std::log(selection_.tried[finalists[f]].seconds / selection_.tried[0].seconds);
    double weight = 1;
    for (size_t s = 0; s < options_.sizes.size(); s++) {
      const SizePoint& point = options_.sizes[s];
      const std::vector<double> timed = time_at(s, finalists, 0.5 * seconds / double(options_.sizes.size()));
      weight += timed[0] > 0 ? point.weight : 0;
      for (size_t f = 0; f < finalists.size(); f++) {
        times[f].push_back(timed[f]);
        if (f == 0 || !(timed[0] > 0)) continue;
        Tried& tried = selection_.tried[finalists[f]];
        if (!(timed[f] <= point.allowed * timed[0])) {
          if (tried.rejected.empty())
            tried.rejected = timed[f] > 0 ? fmt::format("slower at {}: {} against {}", name_of(point),
                                                        human_time(timed[f]), human_time(timed[0]))
                                          : fmt::format("not timed at {}", name_of(point));
          score[f] = INFINITY;
        } else
          score[f] += point.weight * std::log(timed[f] / timed[0]);
      }
    }
    size_t best = 0;
    for (size_t f = 1; f < finalists.size(); f++)
      if (score[f] / weight < std::min(score[best] / weight, std::log(1 - options_.race.threshold))) best = f;
    for (size_t s = 0; s < options_.sizes.size(); s++) selection_.at_sizes[s] = {times[0][s], times[best][s]};
    // The others stay in the order, behind: the check may find the first one wrong.
    std::vector<size_t> judged = {finalists[best]};
    if (best != 0) judged.push_back(0);
    for (const size_t i : order)
      if (!contains(judged, i) && !contains(finalists, i)) judged.push_back(i);
    order = std::move(judged);
  }

  static std::string name_of(const SizePoint& point) {
    std::string text;
    for (const auto& [name, value] : point.symbols)
      text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, value);
    return text;
  }

  /// Seconds of each; 0: it cannot be timed there.
  std::vector<double> time_at(size_t s, const std::vector<size_t>& finalists, double seconds) {
    std::vector<double> times(finalists.size(), 0);
    sizes_.resize(options_.sizes.size());
    Size& size = sizes_[s];
    if (!size.measurer) {
      size.problem = problem_;
      size.problem.symbols = options_.sizes[s].symbols;
      const auto made = outcome(options_.log, "arguments", name_of(options_.sizes[s]), [&]() -> Result<void> {
        try {
          size.measurer = timing(size.problem);
        } catch (const Error& error) {
          return Failure{error.what()};
        }
        return {};
      });
      if (!made) return times;
      if (!size.measurer) size.measurer = timing(size.problem);
    }
    std::vector<int> numbers;
    std::vector<size_t> raced_ones;
    for (size_t f = 0; f < finalists.size(); f++) {
      Built& built = of(finalists[f]);
      built.at_sizes.resize(options_.sizes.size(), -1);
      if (built.at_sizes[s] < 0 && built.code) {
        CandidateCode code;
        const auto made = outcome(options_.log, "code", built.schedule, [&]() -> Result<void> {
          auto sized = at_sizes_of(built, size.problem.symbols);
          if (!sized) return sized.failure();
          code = std::move(*sized);
          return {};
        });
        if (made)
          if (const auto number = size.measurer->add(std::move(code))) built.at_sizes[s] = *number;
      }
      if (built.at_sizes[s] < 0) continue;
      numbers.push_back(built.at_sizes[s]);
      raced_ones.push_back(f);
    }
    if (numbers.empty() || raced_ones[0] != 0) return times;
    RaceOptions how = options_.race;
    how.seconds = seconds;
    how.scales.clear();
    how.finalists = int(numbers.size());
    how.progress = nullptr;
    const RaceResult raced = race(*size.measurer, numbers, how);
    for (size_t e = 0; e < raced.entries.size(); e++)
      if (!raced.entries[e].failed && std::isfinite(raced.entries[e].seconds))
        times[raced_ones[e]] = raced.entries[e].seconds;
    return times;
  }
  Result<CandidateCode> at_sizes_of(const Built& built, const std::map<std::string, int64_t>& symbols) const {
    CandidateCode code = *built.code;
    code.workers = workers_of(built.candidate.schedule, problem_.cone, symbols, options_.build.threads);
    return search::at_sizes(std::move(code), built.kernel, symbols);
  }

  // ---- checking ----

  Result<void> make_checker() {
    if (checker_ || has_checker_) return {};
    has_checker_ = true;
    return outcome(options_.log, "a check", problem_.cone.name, [&]() -> Result<void> {
      auto checker = Checker::create(
          problem_, options_.build, [this](auto w) { return make(std::move(w)); }, options_.check);
      if (!checker) return checker.failure();
      checker_ = std::move(*checker);
      return {};
    });
  }

  Result<void> first_right(const std::vector<size_t>& order) {
    if (auto ready = make_checker(); !ready) return ready;
    // The incumbent is what the others are compared with, so it goes first.
    if (contains(order, size_t(0))) check(0);
    for (const size_t i : order) {
      Tried& tried = selection_.tried[i];
      if (tried.verdict.passed() && !tried.checked) check(i);
      if (!tried.checked) continue;
      selection_.winner = i;
      break;
    }
    return {};
  }

  void check(size_t i) {
    Tried& tried = selection_.tried[i];
    Built& built = of(i);
    if (!built.number) build_these({*slots_[i]}, false); // only its macro-tile was there
    if (!built.number) {
      tried.verdict = {1, built.cause, ""};
    } else if (!built.checked) {
      tried.verdict = verdict_of(built);
      built.checked = tried.verdict.passed();
    }
    tried.checked = built.checked;
    if (!tried.checked)
      condemn(i, fmt::format("wrong in step {}: {}", tried.verdict.step, tried.verdict.cause));
  }

  Verdict verdict_of(const Built& built) {
    if (!options_.log) return checker_->check(built.candidate, *measurer_, *built.number);
    std::string loops;
    const auto answer = options_.log->ask("a verdict", built.schedule, [&]() -> MeasureLog::Answer {
      Verdict now = checker_->check(built.candidate, *measurer_, *built.number);
      loops = std::move(now.loops);
      return {now.passed(), now.cause, {double(now.step)}};
    });
    return {int(answer.numbers.at(0)), answer.text, std::move(loops)};
  }

  /// Never again: a reproducer, a line in the log, quarantine.
  void condemn(size_t i, const std::string& cause) {
    Tried& tried = selection_.tried[i];
    tried.rejected = cause;
    if (replays(options_.log)) { // which has no reproducer and tells nobody anew
      if (options_.cache) options_.cache->quarantine(key_, tried.schedule, cause, "");
      return;
    }
    const std::string folder = fmt::format("{}/{}-{:016x}", reproducer_folder(options_.reproducers),
                                           problem_.cone.name, hash64(tried.schedule, key_.hash().low));
    const auto written = write_reproducer(folder, problem_, of(i).candidate, of(i).kernel, cause,
                                          tried.verdict.loops, options_.build);
    if (written) tried.reproducer = *written;
    log_error("{}: a candidate is out, {}; {}", problem_.cone.name, cause,
              written ? "reproducer in " + *written : "no reproducer: " + written.error());
    if (options_.cache) options_.cache->quarantine(key_, tried.schedule, cause, tried.reproducer);
  }

  std::string causes() const {
    for (const Tried& tried : selection_.tried)
      if (!tried.rejected.empty()) return tried.rejected;
    return "nothing was given";
  }

  void keep() {
    const Tried& won = selection_.tried[*selection_.winner];
    if (won.seconds > 0) best_ = best_ > 0 ? std::min(best_, won.seconds) : won.seconds;
    for (Tried& tried : selection_.tried)
      if (&tried != &won && tried.rejected.empty())
        tried.rejected = tried.seconds > 0 ? fmt::format("{:+.1f} % against the winner",
                                                         100 * (tried.seconds / won.seconds - 1))
                                           : "the budget ended before its turn";
    if (!options_.cache || !(won.seconds > 0)) return;
    TuningEntry entry;
    entry.key = key_;
    entry.name = problem_.cone.name;
    entry.schedule = won.schedule;
    entry.seconds = won.seconds;
    entry.samples = std::max<int64_t>(won.samples, 1);
    entry.limit_fraction = options_.limit_seconds / won.seconds;
    entry.checked = true;
    options_.cache->put(std::move(entry), TuningCache::Keep::newest); // an old time may be of a faster moment
  }

  const KernelProblem& problem_;
  SelectOptions options_;
  Clock& clock_;
  TuningKey key_;
  std::unique_ptr<Measurer> measurer_;
  std::unique_ptr<Checker> checker_;
  bool has_checker_ = false; // or the log has
  std::vector<Built> built_;
  std::map<std::pair<Hash128, int>, size_t> kernels_; // and workers -> position in built_
  std::map<size_t, kernel::Kernel> parts_;            // by position in built_
  std::vector<Size> sizes_;
  double best_ = 0;                          // seconds, of all lists
  double trust_ = 1;                         // in bounds
  std::vector<std::optional<size_t>> slots_; // of one list, in built_; none: it is out
  double incumbent_ = 0;                     // seconds of a whole launch
  Selection selection_;
};

Selector::Selector(const KernelProblem& problem, SelectOptions options)
    : impl_(std::make_unique<Impl>(problem, std::move(options))) {}
Selector::~Selector() = default;

Result<Selection> Selector::run(const std::vector<Candidate>& candidates, double seconds,
                                const std::vector<double>& allowed) {
  return impl_->run(candidates, seconds, allowed);
}
Result<Tried> Selector::check_first(const Candidate& candidate) { return impl_->check_first(candidate); }

} // namespace luminal::search
