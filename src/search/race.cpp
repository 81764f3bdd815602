// search/race.cpp -- rounds, halving, decision.
#include "search/race.h"
#include "search/measure_log.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <fmt/format.h>

namespace luminal::search {
namespace {

std::atomic<double> left_out{0};

class SteadyClock final : public Clock {
public:
  double now() override {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count() -
           left_out.load();
  }
};

class Race {
public:
  Race(Measurer& measurer, std::span<const int> candidates, const RaceOptions& options)
      : measurer_(measurer), options_(options), clock_(options.clock ? *options.clock : Clock::steady()),
        end_(clock_.now() + options.seconds) {
    for (const int candidate : candidates) {
      result_.entries.push_back({.candidate = candidate});
      launches_.push_back(1);
      alive_.push_back(int(alive_.size()));
    }
  }

  RaceResult run() {
    warm_up();
    int rounds = options_.first_rounds;
    while (!over_ && challengers().size() > places()) {
      play(rounds);
      halve();
      rounds *= 2;
    }
    int most = 0;
    for (const int i : alive_) most = std::max(most, int(entry(i).samples.size()));
    // Finalists have unequal numbers of samples only where the budget ended a round.
    if (!over_) play(std::max(options_.first_rounds, options_.last_rounds - most));
    result_.complete = !over_;
    decide();
    return std::move(result_);
  }

private:
  /// The incumbent, entry 0, always has a place in the final.
  std::vector<int> challengers() const {
    std::vector<int> rest = alive_;
    std::erase(rest, 0);
    return rest;
  }
  size_t places() const { return size_t(std::max(1, options_.finalists - 1)); }

  RaceEntry& entry(int i) { return result_.entries[size_t(i)]; }

  double scale(int i) const { return options_.scales.empty() ? 1 : options_.scales[size_t(i)]; }

  bool spent() {
    if (!over_)
      over_ = yes(options_.log, "a race is over",
                  [&] { return clock_.now() >= end_ || (options_.stop && options_.stop()); });
    return over_;
  }

  /// One measurement; false: the candidate is out.
  bool sample(int i, double& seconds) {
    const auto timed = measurer_.time(entry(i).candidate, launches_[size_t(i)]);
    if (!timed || !(*timed > 0)) {
      entry(i).rejected = timed ? "its time is not a time" : timed.error();
      entry(i).failed = true;
      return false;
    }
    seconds = *timed * scale(i);
    return true;
  }

  /// Twice each, usually: the first launch touches code and scratch for the first time. Tells how
  /// many launches a sample has.
  void warm_up() {
    std::vector<double> least(result_.entries.size(), std::numeric_limits<double>::infinity());
    for (int turn = 0; turn < options_.warm_ups; turn++)
      for (const int i : std::vector<int>(alive_)) {
        if (i > 0 && spent()) break; // the incumbent is timed whatever the budget
        double seconds = 0;
        if (sample(i, seconds))
          least[size_t(i)] = std::min(least[size_t(i)], seconds);
        else
          std::erase(alive_, i);
      }
    double best = std::numeric_limits<double>::infinity();
    for (const int i : alive_) best = std::min(best, least[size_t(i)]);
    for (const int i : std::vector<int>(alive_)) {
      const double seconds = least[size_t(i)];
      if (!std::isfinite(seconds)) continue; // the budget ended before its turn
      entry(i).seconds = seconds;
      if (i > 0 && seconds > options_.hopeless * best) {
        entry(i).rejected = fmt::format("{:.1f} times slower than the best in the warm-up", seconds / best);
        std::erase(alive_, i);
      }
      launches_[size_t(i)] =
          int(std::clamp(std::ceil(options_.sample_seconds * scale(i) / seconds), 1.0, 10000.0));
    }
  }

  void play(int rounds) {
    for (int round = 0; round < rounds && !spent(); round++) {
      const std::vector<int> order = alive_;
      for (size_t k = 0; k < order.size(); k++) {
        if (spent()) return;
        const int i = order[(k + size_t(turn_)) % order.size()];
        double seconds = 0;
        if (sample(i, seconds))
          entry(i).samples.push_back(seconds);
        else
          std::erase(alive_, i);
      }
      turn_++;
      if (!options_.progress) continue;
      rate();
      options_.progress(result_);
    }
  }

  void rate() {
    for (RaceEntry& e : result_.entries)
      if (!e.samples.empty()) e.seconds = low_percentile(e.samples, options_.percentile);
  }

  bool faster(int a, int b) {
    return entry(a).seconds != entry(b).seconds ? entry(a).seconds < entry(b).seconds : a < b;
  }

  void halve() {
    rate();
    std::vector<int> order = challengers();
    if (order.size() <= places()) return;
    std::sort(order.begin(), order.end(), [&](int a, int b) { return faster(a, b); });
    // What is within the threshold of the last one that stays may stay too, but every stage loses
    // some.
    const size_t keep = std::max(places(), (order.size() + 1) / 2);
    const size_t most = std::clamp(order.size() * 3 / 4, keep, order.size() - 1);
    const double cut = entry(order[keep - 1]).seconds * (1 + options_.threshold);
    for (size_t k = keep; k < order.size(); k++) {
      RaceEntry& e = entry(order[k]);
      if (k < most && e.seconds <= cut) continue;
      e.rejected = fmt::format("{:.1f} % slower than the best after {} samples",
                               100 * (e.seconds / entry(order[0]).seconds - 1), e.samples.size());
      std::erase(alive_, order[k]);
    }
  }

  void decide() {
    rate();
    std::vector<int>& order = result_.order;
    for (int i = 0; i < int(result_.entries.size()); i++)
      if (!entry(i).failed && std::isfinite(entry(i).seconds)) order.push_back(i);
    // Those that reached the end first, then the others, each by time. One sample before the budget
    // ended is no reason to change anything.
    const auto out = [&](int i) {
      return !entry(i).rejected.empty() ||
             (i > 0 && 2 * int(entry(i).samples.size()) < options_.first_rounds);
    };
    std::sort(order.begin(), order.end(), [&](int a, int b) {
      const bool out_a = out(a), out_b = out(b);
      return out_a != out_b ? out_b : faster(a, b);
    });
    const auto incumbent = std::find(order.begin(), order.end(), 0);
    if (incumbent == order.end() || incumbent == order.begin()) return;
    if (!out(order[0]) && entry(order[0]).seconds < entry(0).seconds * (1 - options_.threshold)) return;
    // Nobody beats it by more than the threshold.
    std::rotate(order.begin(), incumbent, incumbent + 1);
  }

  Measurer& measurer_;
  const RaceOptions& options_;
  Clock& clock_;
  double end_;
  bool over_ = false;
  int turn_ = 0;
  RaceResult result_;
  std::vector<int> launches_, alive_;
};

} // namespace

Clock& Clock::steady() {
  static SteadyClock clock;
  return clock;
}

void Clock::leave_out(double seconds) { left_out.fetch_add(seconds); }

double low_percentile(std::vector<double> samples, double fraction) {
  if (samples.empty()) return std::numeric_limits<double>::quiet_NaN();
  const double place = std::ceil(fraction * double(samples.size()));
  const size_t rank = std::min(samples.size(), size_t(std::max(1.0, place))) - 1;
  std::nth_element(samples.begin(), samples.begin() + std::ptrdiff_t(rank), samples.end());
  return samples[rank];
}

RaceResult race(Measurer& measurer, std::span<const int> candidates, const RaceOptions& options) {
  return Race(measurer, candidates, options).run();
}

} // namespace luminal::search
