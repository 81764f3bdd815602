// expr/interval.cpp -- interval arithmetic that saturates to unbounded.
#include "expr/interval.h"
#include <algorithm>

namespace luminal::expr_detail {
namespace {

// A bound in 128 bits, where products of two 64-bit numbers fit; +-infinity is the largest size one
// of them can have.
using Wide = __int128;
constexpr Wide infinity = Wide{1} << 126;

Wide wide_low(Interval a) { return a.low == unbounded_low ? -infinity : Wide{a.low}; }
Wide wide_high(Interval a) { return a.high == unbounded_high ? infinity : Wide{a.high}; }
bool infinite(Wide a) { return a >= infinity || a <= -infinity; }

Interval narrow(Wide low, Wide high) {
  Interval out;
  out.low = low <= Wide{INT64_MIN}  ? unbounded_low
            : low > Wide{INT64_MAX} ? INT64_MAX
                                    : static_cast<int64_t>(low);
  out.high = high >= Wide{INT64_MAX}  ? unbounded_high
             : high < Wide{INT64_MIN} ? INT64_MIN
                                      : static_cast<int64_t>(high);
  return out;
}

Wide add(Wide a, Wide b) { return infinite(a) ? a : infinite(b) ? b : a + b; }
Wide multiply(Wide a, Wide b) {
  if (a == 0 || b == 0) return 0;
  if (infinite(a) || infinite(b)) return (a < 0) == (b < 0) ? infinity : -infinity;
  return a * b;
}
// b is finite and not 0.
Wide floor_divide(Wide a, Wide b) {
  if (infinite(a)) return (a < 0) == (b < 0) ? infinity : -infinity;
  return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0);
}
// The limit of floor(a / b) for b towards +-infinity, as a lower or an upper bound.
Wide divide_by_infinity(Wide a, bool positive, bool lower) {
  if (a == 0) return 0;
  if ((a > 0) == positive) return infinite(a) && !lower ? infinity : 0;
  return infinite(a) && lower ? -infinity : -1;
}

// a / [low, high], all divisors of one sign.
void divide_part(Interval a, Wide low, Wide high, Wide& out_low, Wide& out_high) {
  for (const Wide numerator : {wide_low(a), wide_high(a)})
    for (const Wide divisor : {low, high}) {
      const bool at_infinity = infinite(divisor);
      const Wide l =
          at_infinity ? divide_by_infinity(numerator, divisor > 0, true) : floor_divide(numerator, divisor);
      const Wide h =
          at_infinity ? divide_by_infinity(numerator, divisor > 0, false) : floor_divide(numerator, divisor);
      out_low = std::min(out_low, l);
      out_high = std::max(out_high, h);
    }
}

} // namespace

Interval operator+(Interval a, Interval b) {
  return narrow(add(wide_low(a), wide_low(b)), add(wide_high(a), wide_high(b)));
}

Interval operator-(Interval a) { return narrow(-wide_high(a), -wide_low(a)); }

Interval operator*(Interval a, Interval b) {
  const Wide corners[4] = {multiply(wide_low(a), wide_low(b)), multiply(wide_low(a), wide_high(b)),
                           multiply(wide_high(a), wide_low(b)), multiply(wide_high(a), wide_high(b))};
  return narrow(*std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4));
}

Interval interval_power(Interval a, uint32_t exponent) {
  Interval out = a;
  for (uint32_t i = 1; i < exponent; ++i) out = out * a;
  if (exponent % 2 == 0) out.low = std::max<int64_t>(out.low, 0);
  return out;
}

Interval interval_floordiv(Interval a, Interval b) {
  Wide low = infinity, high = -infinity;
  if (b.high >= 1) divide_part(a, std::max<Wide>(wide_low(b), 1), wide_high(b), low, high);
  if (b.low <= -1) divide_part(a, wide_low(b), std::min<Wide>(wide_high(b), -1), low, high);
  if (low > high) return {}; // the divisor is always 0: nothing can be said
  return narrow(low, high);
}

Interval interval_mod(Interval a, Interval b) {
  if (b.low == 0 && b.high == 0) return {};
  Wide low = 0, high = 0;
  if (b.high >= 1) {
    // [0, b - 1], never above a non-negative a, and a itself where no divisor reaches it.
    high = infinite(wide_high(b)) ? infinity : wide_high(b) - 1;
    if (a.low >= 0) high = std::min(high, wide_high(a));
    if (b.low >= 1 && a.low >= 0 && wide_high(a) < wide_low(b)) low = wide_low(a);
  }
  if (b.low <= -1) {
    low = infinite(wide_low(b)) ? -infinity : wide_low(b) + 1;
    if (a.high <= 0) low = std::max(low, wide_low(a));
  }
  return narrow(low, high);
}

Interval interval_min(Interval a, Interval b) { return {std::min(a.low, b.low), std::min(a.high, b.high)}; }
Interval interval_max(Interval a, Interval b) { return {std::max(a.low, b.low), std::max(a.high, b.high)}; }
Interval interval_meet(Interval a, Interval b) { return {std::max(a.low, b.low), std::min(a.high, b.high)}; }

Interval interval_of_multiples(Interval a, int64_t m) {
  if (m <= 1) return a;
  if (a.low != unbounded_low) {
    const Wide low = -floor_divide(-Wide{a.low}, m) * m;
    a.low = low > Wide{INT64_MAX} ? INT64_MAX : static_cast<int64_t>(low);
  }
  if (a.high != unbounded_high) {
    const Wide high = floor_divide(a.high, m) * m;
    a.high = high < Wide{INT64_MIN} ? INT64_MIN : static_cast<int64_t>(high);
  }
  return a;
}

} // namespace luminal::expr_detail
