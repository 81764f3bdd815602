// search/tune_kernel.cpp -- neighbours of the best answers so far, and joint moves of what proved
// good alone.
#include "search/tune_kernel.h"
#include "search/measure_lock.h"
#include "search/measure_log.h"
#include <algorithm>
#include <set>

namespace luminal::search {
namespace {

using kernel::Answers;
using kernel::Decision;

class Tuner {
public:
  Tuner(const KernelProblem& problem, const kernel::MachineLimits& limits, const TuneOptions& options)
      : problem_(problem), limits_(limits), options_(options),
        clock_(options.select.race.clock ? *options.select.race.clock : Clock::steady()),
        selector_(problem, options.select) {
    for (const SizePoint& size : options.select.sizes) best_.sizes.push_back({size.symbols});
    ratios_.assign(best_.sizes.size(), 1);
  }

  Result<Tuned> run() {
    const double start = clock_.now(), waited = MeasureLock::waited();
    const auto stopped = [&] { return options_.select.race.stop && options_.select.race.stop(); };
    while (true) {
      const double left = options_.seconds - (clock_.now() - start) + (MeasureLock::waited() - waited);
      if (best_.lists > 0 &&
          yes(options_.select.log, "a kernel's time is over", [&] { return left <= 0 || stopped(); }))
        return finished();
      std::vector<Move> list = next_list();
      if (list.size() < 2 && best_.lists > 0) {
        best_.complete = true;
        return finished();
      }
      std::vector<Candidate> candidates;
      for (const Move& move : list) candidates.push_back(candidate_of(move.schedule, lower_options()));
      std::vector<double> allowed; // of the incumbent's times: none slower than the default one's
      for (const double ratio : ratios_) allowed.push_back(1.02 / ratio);
      // Building and checking take their part; what is left over goes to the next list.
      const Result<Selection> selection = selector_.run(candidates, std::max(0.1, left / 2), allowed);
      if (!selection) {
        if (best_.lists == 0) return selection.failure();
        return finished();
      }
      learn(list, *selection);
      if (options_.progress) options_.progress(best_);
    }
  }

private:
  struct Move {
    Answers answers;
    kernel::Schedule schedule;
  };

  Tuned finished() {
    best_.tried += int(postponed_.size());
    if (!postponed_.empty()) best_.rejected["not timed"] += int(postponed_.size());
    return std::move(best_);
  }

  kernel::LowerOptions lower_options() const {
    kernel::LowerOptions lower = options_.select.build.lower;
    lower.lanes = limits_.lanes;
    return lower;
  }

  /// The schedule that the answers lead to, unless it is illegal or was listed before.
  void add(std::vector<Move>& list, Answers answers) {
    if (int(list.size()) >= options_.list) return;
    kernel::DefaultKernel made = make(answers);
    if (!made.kernel || !seen_.insert(to_string(made.schedule)).second) return;
    postponed_.erase(to_string(made.schedule));
    list.push_back({std::move(answers), std::move(made.schedule)});
  }

  /// The default kernel with these answers; one of them says on how many workers a launch of this
  /// size runs.
  kernel::DefaultKernel make(const Answers& answers) const {
    kernel::DefaultKernel made = kernel::default_kernel(problem_.cone, limits_, answers);
    const int threads = options_.select.build.threads;
    const double points = points_of(problem_.cone, problem_.symbols);
    if (threads == 1 || !(points < 1e15)) return made;
    const auto wanted = answers.find(workers);
    const int64_t taken = wanted != answers.end() ? std::clamp<int64_t>(wanted->second, 1, threads) : threads;
    made.schedule = on_workers(std::move(made.schedule), points, taken, threads);
    made.decisions.push_back({workers, worker_counts(threads), threads, taken});
    return made;
  }

  Answers with(Answers answers, const Decision& decision, int64_t option) const {
    answers[decision.name] = option;
    return answers;
  }

  std::vector<Move> next_list() {
    kernel::DefaultKernel made = make(best_.answers);
    const bool first = best_.lists == 0;
    std::vector<Move> list{{best_.answers, first ? made.schedule : best_.schedule}};
    seen_.insert(to_string(list[0].schedule));
    if (first && options_.known && seen_.insert(to_string(*options_.known)).second)
      list.push_back({best_.answers, *options_.known});
    // What proved good alone, together: of all, then of pairs.
    Answers all = best_.answers;
    for (const auto& [name, option] : good_) all.try_emplace(name, option);
    add(list, all);
    for (const auto& [name, option] : good_) {
      Answers joint = best_.answers;
      joint[name] = option;
      add(list, joint);
    }
    // Each decision otherwise, the nearest options of all decisions first.
    const std::vector<Decision>& decisions = made.decisions;
    for (size_t distance = 1; distance < 16; ++distance)
      for (const Decision& d : decisions) {
        const size_t at =
            size_t(std::lower_bound(d.options.begin(), d.options.end(), d.taken) - d.options.begin());
        if (at >= distance) add(list, with(best_.answers, d, d.options[at - distance]));
        if (at + distance < d.options.size()) add(list, with(best_.answers, d, d.options[at + distance]));
      }
    return list;
  }

  void learn(const std::vector<Move>& list, const Selection& selection) {
    const Move& winner = list[*selection.winner];
    const double incumbent = selection.tried[0].seconds;
    if (best_.lists == 0) best_.usual_seconds = best_.seconds = incumbent;
    good_.clear();
    for (size_t i = 0; i < list.size(); ++i) {
      const Tried& tried = selection.tried[i];
      if (i != selection.winner) {
        const std::string cause = cause_of(tried);
        if (cause == "not timed" && i > 0) { // its turn may still come
          seen_.erase(to_string(list[i].schedule));
          postponed_.insert(to_string(list[i].schedule));
          --best_.tried;
        } else
          ++best_.rejected[cause];
      }
      if (i == 0 || i == selection.winner || tried.seconds <= 0 || tried.seconds >= incumbent) continue;
      for (const auto& [name, option] : list[i].answers)
        if (auto taken = winner.answers.find(name); taken == winner.answers.end() || taken->second != option)
          good_.try_emplace(name, option);
    }
    best_.bound_ratio = std::max(best_.bound_ratio, selection.bound_ratio);
    best_.tried += int(list.size()) - (best_.lists > 0 ? 1 : 0);
    ++best_.lists;
    best_.answers = winner.answers;
    best_.schedule = winner.schedule;
    // Lists are measured at different moments; within one, times compare.
    const double won = selection.tried[*selection.winner].seconds;
    if (incumbent > 0 && won > 0) best_.seconds *= won / incumbent;
    for (size_t s = 0; s < selection.at_sizes.size(); s++) {
      const auto& [before, after] = selection.at_sizes[s];
      if (!(before > 0) || !(after > 0)) continue;
      TunedSize& size = best_.sizes[s];
      if (size.usual == 0) size.usual = before / ratios_[s];
      ratios_[s] *= after / before;
      size.seconds = size.usual * ratios_[s];
    }
  }

  const KernelProblem& problem_;
  const kernel::MachineLimits& limits_;
  const TuneOptions& options_;
  Clock& clock_;
  Tuned best_;
  Answers good_; // answers that beat the incumbent of the last list, alone
  std::set<std::string> seen_;
  std::set<std::string> postponed_; // listed, but the budget of the list ended before their turn
  std::vector<double> ratios_;      // at select.sizes: the best one's time by the default one's
  Selector selector_;

  inline static const std::string workers = "workers";
};

} // namespace

std::vector<int64_t> worker_counts(int threads) {
  std::vector<int64_t> counts;
  for (int64_t count = 1; count < threads; count *= 2) counts.push_back(count);
  counts.push_back(threads);
  return counts;
}

kernel::Schedule on_workers(kernel::Schedule schedule, double points, int64_t workers, int threads) {
  std::vector<int64_t> numbers{int64_t(points)};
  if (workers > 1) numbers.push_back(workers);
  if (workers < threads) schedule.add(kernel::DirectiveKind::serial, {}, std::move(numbers));
  return schedule;
}

std::string cause_of(const Tried& tried) {
  const std::string& why = tried.rejected;
  if (!tried.verdict.passed()) return "wrong";
  if (why.starts_with("the same code")) return "same code";
  for (const char* word : {"bound", "quarantined", "crashed", "wrong", "no end"})
    if (why.starts_with(word)) return word;
  if (why.starts_with("the budget ended")) return "not timed";
  return tried.seconds > 0 || why.find("slower than the best") != std::string::npos ? "slower" : "illegal";
}

Result<Tuned> tune(const KernelProblem& problem, const kernel::MachineLimits& limits,
                   const TuneOptions& options) {
  return Tuner(problem, limits, options).run();
}

} // namespace luminal::search
