// search/race.h -- which candidate is the fastest: interleaved rounds, successive halving, a low
// percentile, a threshold.
//
// In each round every candidate that is left is timed once, in an order that rotates, so that a
// slow moment of the machine hits all alike. After each stage the slower half goes (not what is
// within the threshold of those that stay), and the next stage has twice the rounds. The 10th
// percentile of a candidate's samples is its time: disturbances only ever add. A challenger must be
// faster than the incumbent by more than the threshold.
#pragma once
#include "search/measurer.h"
#include <functional>
#include <limits>
#include <span>

namespace luminal::search {

class MeasureLog;

/// Seconds that only grow. Tests have their own.
class Clock {
public:
  virtual ~Clock() = default;
  virtual double now() = 0;
  static Clock& steady();
  static double steady_now() { return steady().now(); }
  /// Seconds that the steady clock, of the whole process, does not count: of who searched and had to wait.
  static void leave_out(double seconds);
};

struct RaceEntry {
  int candidate = 0;
  std::vector<double> samples;
  double seconds = std::numeric_limits<double>::infinity(); ///< low percentile; infinite: never timed
  std::string rejected;                                     ///< why it left before the end, or empty
  bool failed = false;                                      ///< it left because it crashed, hung, ...
};

struct RaceResult {
  std::vector<RaceEntry> entries; ///< as given
  std::vector<int> order;         ///< positions in entries, the winner first; those that failed are not in it
  bool complete = false;          ///< every finalist has its samples; false: budget or stop
};

struct RaceOptions {
  double seconds = 2;         ///< budget; when it is spent the best so far wins
  Clock* clock = nullptr;     ///< null: the steady one
  std::function<bool()> stop; ///< asked before each sample; true ends the race like a spent budget
  std::function<void(const RaceResult& so_far)>
      /// called after each round, outside of the timed parts; times are up to date, the order is
      /// not
      progress;
  int warm_ups = 2; ///< launches of each before samples count
  int first_rounds = 4;
  int last_rounds = 40; ///< samples of each finalist
  int finalists = 3;    ///< with the incumbent
  double percentile = 0.1;
  double threshold = 0.02;
  double sample_seconds = 2e-4;    ///< a sample has as many launches as take this long
  double hopeless = 8;             ///< dropped after warm-up: this many times slower than the best
  std::vector<double> scales = {}; ///< of each candidate: its samples times this are its time; empty: 1
  MeasureLog* log = nullptr;       ///< has whether the budget is spent
};

/// The value below which that fraction of the samples lies (nearest rank); NaN where there are
/// none.
double low_percentile(std::vector<double> samples, double fraction);

/// candidates: numbers of the measurer; the first one is the incumbent.
RaceResult race(Measurer& measurer, std::span<const int> candidates, const RaceOptions& options = {});

} // namespace luminal::search
