// runtime/worker_count.cpp -- stretches of runs: all workers, one worker, then the faster way for a
// while.
#include "runtime/worker_count.h"
#include <algorithm>

namespace luminal::runtime {

int64_t WorkerCount::median() {
  std::ranges::nth_element(times_, times_.begin() + counted / 2);
  return times_[counted / 2];
}

void WorkerCount::took(int64_t ns) {
  if (holds_) {
    held_ns_ += ns;
    if (held_ns_ < hold_ * trial_ns_) return;
    holds_ = alone_ = false;
    trial_ns_ = 0;
    return;
  }
  trial_ns_ += ns;
  if (runs_ >= settling) times_[size_t(runs_ - settling)] = ns;
  if (++runs_ < settling + counted) return;
  medians_[alone_] = median();
  runs_ = 0;
  if (!alone_) {
    alone_ = true;
    return;
  }
  const bool faster_alone = medians_[1] <= medians_[0] + medians_[0] / 50;
  hold_ = faster_alone == chosen_ ? std::min(2 * hold_, most_hold) : least_hold;
  alone_ = chosen_ = faster_alone;
  holds_ = true;
  held_ns_ = 0;
}

} // namespace luminal::runtime
