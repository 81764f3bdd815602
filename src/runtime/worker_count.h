// runtime/worker_count.h -- whether short runs are faster with one worker or with all: found out by
// doing both, since it depends on what else the machine does.
#pragma once
#include <array>
#include <cstdint>

namespace luminal::runtime {

/// Some runs with all workers, some with one; then many as was faster, and from time to time the
/// other way again. A tie goes to one worker.
class WorkerCount {
public:
  /// The next run is to be left to one worker.
  bool alone() const { return alone_; }
  /// What that run took.
  void took(int64_t ns);

  static constexpr int settling = 8; ///< runs after a change that are not counted: members wake, caches fill
  static constexpr int counted = 17; ///< runs of each kind whose medians are compared
  /// The faster way is kept for at least so many times what trying the other one took, and for ever
  /// longer while it stays the faster one.
  static constexpr int64_t least_hold = 20, most_hold = 320;

private:
  int64_t median();

  bool alone_ = false, chosen_ = false, holds_ = false;
  int runs_ = 0; // of this stretch
  std::array<int64_t, counted> times_{};
  std::array<int64_t, 2> medians_{}; // with all workers, alone
  int64_t hold_ = least_hold, trial_ns_ = 0, held_ns_ = 0;
};

} // namespace luminal::runtime
