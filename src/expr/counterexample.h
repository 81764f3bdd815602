// expr/counterexample.h -- values at a few points, which refute what a proof would search in vain.
// Private to this folder.
#pragma once
#include "expr/canonical.h"
#include <array>
#include <unordered_map>
#include <vector>

namespace luminal::expr_detail {

/// Points of the symbols' ranges at which all assumptions hold. A sum that is positive at one of them
/// is not "nowhere positive", and needs no proof.
class Counterexamples {
public:
  /// Every assumption is a sum that is never positive.
  explicit Counterexamples(std::span<const Sum> assumptions) : assumptions_(assumptions) {}
  /// Is the sum positive at a point? False says nothing.
  bool positive(const Sum& sum);

private:
  /// Ends of the ranges, values next to them, and values in between.
  static constexpr uint32_t point_count = 8;
  struct Point {
    std::unordered_map<uint32_t, std::optional<int64_t>> values; // by id; nothing: not a number of 64 bits
    std::optional<bool> holds;                                   // whether the assumptions do there
  };

  std::span<const Sum> assumptions_;
  std::array<Point, point_count> points_;

  bool holds(uint32_t point);
  std::optional<int64_t> value(uint32_t point, const Sum& sum);
  std::optional<int64_t> value(uint32_t point, Expr e);
};

} // namespace luminal::expr_detail
