// search/tune.cpp -- neighbours of the best answers so far, and joint moves of what proved good alone.
#include "search/tune.h"
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
        clock_(options.select.race.clock ? *options.select.race.clock : Clock::steady()) {}

  Result<Tuned> run() {
    const double start = clock_.now();
    const auto stopped = [&] { return options_.select.race.stop && options_.select.race.stop(); };
    while (true) {
      const double left = options_.seconds - (clock_.now() - start);
      if (best_.lists > 0 && (left <= 0 || stopped())) return std::move(best_);
      std::vector<Move> list = next_list();
      if (list.size() < 2 && best_.lists > 0) {
        best_.complete = true;
        return std::move(best_);
      }
      SelectOptions select_options = options_.select;
      // Building and checking take their part; what is left over goes to the next list.
      select_options.race.seconds = std::max(0.1, left / 2);
      std::vector<Candidate> candidates;
      for (const Move& move : list) candidates.push_back(candidate_of(move.schedule, lower_options()));
      const Result<Selection> selection = select(problem_, candidates, select_options);
      if (!selection) {
        if (best_.lists == 0) return selection.failure();
        return std::move(best_);
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

  kernel::LowerOptions lower_options() const {
    kernel::LowerOptions lower = options_.select.build.lower;
    lower.lanes = limits_.lanes;
    return lower;
  }

  /// The schedule that the answers lead to, unless it is illegal or was listed before.
  void add(std::vector<Move>& list, Answers answers) {
    if (int(list.size()) >= options_.list) return;
    kernel::DefaultKernel made = kernel::default_kernel(problem_.cone, limits_, answers);
    if (!made.kernel || !seen_.insert(to_string(made.schedule)).second) return;
    list.push_back({std::move(answers), std::move(made.schedule)});
  }

  Answers with(Answers answers, const Decision& decision, int64_t option) const {
    answers[decision.name] = option;
    return answers;
  }

  std::vector<Move> next_list() {
    kernel::DefaultKernel made = kernel::default_kernel(problem_.cone, limits_, best_.answers);
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
    const Move& winner = list[size_t(selection.winner)];
    const double incumbent = selection.tried[0].seconds;
    if (best_.lists == 0) best_.usual_seconds = best_.seconds = incumbent;
    good_.clear();
    for (size_t i = 0; i < list.size(); ++i) {
      const Tried& tried = selection.tried[i];
      if (int(i) != selection.winner) ++best_.rejected[cause_of(tried)];
      if (i == 0 || int(i) == selection.winner || tried.seconds <= 0 || tried.seconds >= incumbent) continue;
      for (const auto& [name, option] : list[i].answers)
        if (auto taken = winner.answers.find(name); taken == winner.answers.end() || taken->second != option)
          good_.try_emplace(name, option);
    }
    best_.tried += int(list.size()) - (best_.lists > 0 ? 1 : 0);
    ++best_.lists;
    best_.answers = winner.answers;
    best_.schedule = winner.schedule;
    // Lists are measured at different moments; within one, times compare.
    const double won = selection.tried[size_t(selection.winner)].seconds;
    if (incumbent > 0 && won > 0) best_.seconds *= won / incumbent;
  }

  const KernelProblem& problem_;
  const kernel::MachineLimits& limits_;
  const TuneOptions& options_;
  Clock& clock_;
  Tuned best_;
  Answers good_; // answers that beat the incumbent of the last list, alone
  std::set<std::string> seen_;
};

} // namespace

std::string cause_of(const Tried& tried) {
  const std::string& why = tried.rejected;
  if (!tried.verdict.passed()) return "wrong";
  if (why.starts_with("the same code")) return "same code";
  for (const char* word : {"quarantined", "crashed", "wrong", "no end"})
    if (why.starts_with(word)) return word;
  if (why.starts_with("the budget ended")) return "not timed";
  return tried.seconds > 0 || why.find("slower than the best") != std::string::npos ? "slower" : "illegal";
}

Result<Tuned> tune(const KernelProblem& problem, const kernel::MachineLimits& limits,
                   const TuneOptions& options) {
  return Tuner(problem, limits, options).run();
}

} // namespace luminal::search
