// egraph/limits.h -- what a run has used so far, against its limits.
#pragma once
#include "egraph/report.h"
#include <algorithm>
#include <atomic>
#include <chrono>

namespace luminal::egraph {

/// Shared by the threads of one run. Whether a count stops a run depends on totals only, never on
/// which thread came first.
class Meter {
public:
  explicit Meter(const Limits& limits) : limits_(limits), start_(std::chrono::steady_clock::now()) {}

  const Limits& limits() const { return limits_; }
  StopReason stop() const { return stop_.load(std::memory_order_relaxed); }
  bool stopped() const { return stop() != StopReason::none; }
  void set_stop(StopReason reason) {
    StopReason none = StopReason::none;
    stop_.compare_exchange_strong(none, reason);
  }
  uint64_t steps() const { return steps_.load(std::memory_order_relaxed); }
  void set_base_bytes(uint64_t bytes) { base_bytes_ = bytes; }

  /// `steps` more rows were looked at; this thread holds `values` match cells. False: stop.
  bool matching(uint64_t steps, uint64_t values) {
    const uint64_t total = steps_.fetch_add(steps, std::memory_order_relaxed) + steps;
    if (limits_.steps != 0 && total > limits_.steps) set_stop(StopReason::steps);
    if (limits_.bytes != 0 && base_bytes_ + values * sizeof(uint32_t) > limits_.bytes)
      set_stop(StopReason::bytes);
    return rows_possible(values) && outside();
  }
  /// Matches become rows when they are applied. So many cells are far more than a limit of rows
  /// lets in: matching need not go on. False: stop.
  bool rows_possible(uint64_t cells) {
    constexpr uint64_t cells_of_a_row = 64;
    if (limits_.rows != 0 && cells / cells_of_a_row > std::max<uint64_t>(limits_.rows, 1 << 16))
      set_stop(StopReason::rows);
    return !stopped();
  }
  /// Cancelled, or out of time. False: stop.
  bool outside() {
    if (limits_.cancel != nullptr && limits_.cancel->load(std::memory_order_relaxed))
      set_stop(StopReason::cancelled);
    if (limits_.seconds > 0 && seconds() > limits_.seconds) set_stop(StopReason::time);
    return !stopped();
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

private:
  const Limits limits_;
  const std::chrono::steady_clock::time_point start_;
  std::atomic<uint64_t> steps_{0};
  std::atomic<StopReason> stop_{StopReason::none};
  uint64_t base_bytes_ = 0;
};

} // namespace luminal::egraph
