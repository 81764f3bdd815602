// expr/interval.h -- interval arithmetic that saturates to unbounded. Private to this folder.
#pragma once
#include "expr/expr.h"
#include <numeric>

namespace luminal::expr_detail {

Interval operator+(Interval a, Interval b);
Interval operator*(Interval a, Interval b);
Interval operator-(Interval a);
Interval interval_power(Interval a, uint32_t exponent);
Interval interval_floordiv(Interval a, Interval b); ///< of the divisors other than 0
Interval interval_mod(Interval a, Interval b);
Interval interval_min(Interval a, Interval b);
Interval interval_max(Interval a, Interval b);
Interval interval_meet(Interval a, Interval b); ///< may be empty: low > high
/// Shrunk to multiples of m (m > 0); may be empty.
Interval interval_of_multiples(Interval a, int64_t m);

inline Interval point(int64_t value) { return {value, value}; }

/// Floor division and modulus of numbers; b is not 0, and not -1 where a is INT64_MIN.
inline int64_t floor_quotient(int64_t a, int64_t b) {
  return a / b - (a % b != 0 && (a % b < 0) != (b < 0) ? 1 : 0);
}
inline int64_t floor_remainder(int64_t a, int64_t b) {
  const int64_t r = a % b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
/// False on overflow (and division by zero).
inline bool checked_floordiv(int64_t a, int64_t b, int64_t& out) {
  if (b == 0 || (b == -1 && a == INT64_MIN)) return false;
  out = floor_quotient(a, b);
  return true;
}
inline bool checked_mod(int64_t a, int64_t b, int64_t& out) {
  if (b == 0) return false;
  out = b == -1 ? 0 : floor_remainder(a, b);
  return true;
}
/// gcd(0, 0) is 0; of INT64_MIN as if its size were 2^62 (a divisor of it, so still a common
/// divisor).
inline int64_t common_divisor(int64_t a, int64_t b) {
  if (a == INT64_MIN) a = int64_t{1} << 62;
  if (b == INT64_MIN) b = int64_t{1} << 62;
  return std::gcd(a, b);
}

} // namespace luminal::expr_detail
