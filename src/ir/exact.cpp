// ir/exact.cpp -- arithmetic of the exact mode.
#include "ir/exact.h"
#include "base/infinity.h"
#include <cmath>
#include <limits>

namespace luminal {
namespace {

using ExactKind = Exact::Kind;

template <uint64_t M> uint64_t add_mod(uint64_t a, uint64_t b) {
  uint64_t s = a + b; // both below 2^61
  return s >= M ? s - M : s;
}
template <uint64_t M> uint64_t sub_mod(uint64_t a, uint64_t b) { return a >= b ? a - b : a + M - b; }
template <uint64_t M> uint64_t mul_mod(uint64_t a, uint64_t b) {
  return uint64_t((unsigned __int128)a * b % M);
}
template <uint64_t M> uint64_t pow_mod(uint64_t base, uint64_t exponent) {
  uint64_t result = 1;
  for (; exponent; exponent >>= 1, base = mul_mod<M>(base, base))
    if (exponent & 1) result = mul_mod<M>(result, base);
  return result;
}
template <uint64_t M> uint64_t inverse(uint64_t a) { return pow_mod<M>(a, M - 2); }
/// 2^n for any sign of n.
template <uint64_t M> uint64_t power_of_two(int64_t n) {
  uint64_t r = pow_mod<M>(2, uint64_t(n < 0 ? -n : n));
  return n < 0 ? inverse<M>(r) : r;
}

uint64_t mix(uint64_t x) { // splitmix64
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

Exact special(ExactKind kind) {
  Exact r;
  r.kind = kind;
  r.shadow = kind == ExactKind::plus_infinity    ? infinity
             : kind == ExactKind::minus_infinity ? -infinity
                                                 : std::nan("");
  return r;
}
Exact make_infinity(bool negative) {
  return special(negative ? ExactKind::minus_infinity : ExactKind::plus_infinity);
}
Exact nan_value() { return special(ExactKind::nan); }
bool finite(const Exact& a) { return a.kind == ExactKind::finite; }
bool infinite(const Exact& a) {
  return a.kind == ExactKind::plus_infinity || a.kind == ExactKind::minus_infinity;
}
bool is_nan(const Exact& a) { return a.kind == ExactKind::nan; }
bool is_zero(const Exact& a) { return finite(a) && a.p == 0; }
bool negative(const Exact& a) {
  return a.kind == ExactKind::minus_infinity || (finite(a) && a.p != 0 && a.shadow < 0);
}

/// A finite result: zero is known whatever it came from, and so is its shadow.
Exact result(uint64_t p, uint64_t q, double shadow, bool known, bool doubtful) {
  Exact r;
  r.p = p, r.q = known ? q : 0, r.exponent_known = known, r.doubtful = doubtful;
  r.shadow = std::isfinite(shadow) ? shadow
             : std::isnan(shadow)  ? 0
                                   : std::copysign(std::numeric_limits<double>::max(), shadow);
  if (p == 0) r.q = 0, r.exponent_known = true, r.shadow = 0;
  return r;
}
Exact doubt(Exact a, bool doubtful) {
  a.doubtful |= doubtful;
  return a;
}
/// The integer that a is, if it is one of moderate size.
bool as_integer(const Exact& a, int64_t& n) {
  if (!finite(a) || !(std::fabs(a.shadow) < 9007199254740992.0)) return false;
  n = int64_t(std::nearbyint(a.shadow));
  Exact e = exact_from_int(n);
  return e.p == a.p && (!a.exponent_known || e.q == a.q);
}
uint64_t exponent(const Exact& a) { return a.exponent_known ? a.q : mix(a.p) % exact_q; }

} // namespace

Exact exact_from_unsigned(uint64_t value) {
  return result(value % exact_p, value % exact_q, double(value), true, false);
}
Exact exact_from_int(int64_t value) {
  return value < 0 ? exact_neg(exact_from_unsigned(0 - uint64_t(value)))
                   : exact_from_unsigned(uint64_t(value));
}
Exact exact_from(double value) {
  if (std::isnan(value)) return nan_value();
  if (std::isinf(value)) return make_infinity(value < 0);
  int exponent2;
  auto mantissa = int64_t(std::ldexp(std::frexp(value, &exponent2), 53));
  Exact r = exact_from_int(mantissa);
  exponent2 -= 53;
  return result(mul_mod<exact_p>(r.p, power_of_two<exact_p>(exponent2)),
                mul_mod<exact_q>(r.q, power_of_two<exact_q>(exponent2)), value, true, false);
}

bool exact_equal(const Exact& a, const Exact& b) {
  if (a.kind != b.kind) return false;
  if (!finite(a)) return true;
  return a.p == b.p && (!a.exponent_known || !b.exponent_known || a.q == b.q);
}
bool exact_less(const Exact& a, const Exact& b) {
  if (is_nan(a) || is_nan(b)) return false;
  if (!finite(a) || !finite(b))
    return a.kind != b.kind && (a.kind == ExactKind::minus_infinity || b.kind == ExactKind::plus_infinity);
  if (a.p == b.p) return false;
  return a.shadow != b.shadow ? a.shadow < b.shadow : a.p < b.p;
}

Exact exact_add(const Exact& a, const Exact& b) {
  bool doubtful = a.doubtful || b.doubtful;
  if (is_nan(a) || is_nan(b) || (infinite(a) && infinite(b) && a.kind != b.kind))
    return doubt(nan_value(), doubtful);
  if (infinite(a)) return doubt(a, doubtful);
  if (infinite(b)) return doubt(b, doubtful);
  return result(add_mod<exact_p>(a.p, b.p), add_mod<exact_q>(a.q, b.q), a.shadow + b.shadow,
                a.exponent_known && b.exponent_known, doubtful);
}
Exact exact_neg(const Exact& a) {
  if (is_nan(a)) return a;
  if (infinite(a)) return doubt(make_infinity(a.kind == ExactKind::plus_infinity), a.doubtful);
  return result(sub_mod<exact_p>(0, a.p), sub_mod<exact_q>(0, a.q), -a.shadow, a.exponent_known, a.doubtful);
}
Exact exact_sub(const Exact& a, const Exact& b) { return exact_add(a, exact_neg(b)); }
Exact exact_mul(const Exact& a, const Exact& b) {
  bool doubtful = a.doubtful || b.doubtful;
  if (is_nan(a) || is_nan(b) || (infinite(a) && is_zero(b)) || (is_zero(a) && infinite(b)))
    return doubt(nan_value(), doubtful);
  if (infinite(a) || infinite(b)) return doubt(make_infinity(negative(a) != negative(b)), doubtful);
  return result(mul_mod<exact_p>(a.p, b.p), mul_mod<exact_q>(a.q, b.q), a.shadow * b.shadow,
                a.exponent_known && b.exponent_known, doubtful);
}
Exact exact_div(const Exact& a, const Exact& b) {
  bool doubtful = a.doubtful || b.doubtful;
  if (is_nan(a) || is_nan(b) || (infinite(a) && infinite(b)) || (is_zero(a) && is_zero(b)))
    return doubt(nan_value(), doubtful);
  if (infinite(b)) return doubt(exact_from(0), doubtful);
  if (infinite(a) || is_zero(b)) return doubt(make_infinity(negative(a) != negative(b)), doubtful);
  bool known = a.exponent_known && b.exponent_known && b.q != 0;
  return result(mul_mod<exact_p>(a.p, inverse<exact_p>(b.p)),
                known ? mul_mod<exact_q>(a.q, inverse<exact_q>(b.q)) : 0, a.shadow / b.shadow, known,
                doubtful);
}
Exact exact_abs(const Exact& a) { return negative(a) ? exact_neg(a) : a; }
Exact exact_min(const Exact& a, const Exact& b) {
  if (is_nan(a) || is_nan(b)) return doubt(nan_value(), a.doubtful || b.doubtful);
  return exact_less(b, a) ? b : a;
}
Exact exact_max(const Exact& a, const Exact& b) {
  if (is_nan(a) || is_nan(b)) return doubt(nan_value(), a.doubtful || b.doubtful);
  return exact_less(a, b) ? b : a;
}
Exact exact_round(const Exact& a, double (*round)(double)) {
  int64_t n;
  if (!finite(a) || as_integer(a, n) || std::fabs(a.shadow) >= 9007199254740992.0) return a;
  return doubt(exact_from(round(a.shadow)), a.doubtful);
}
Exact exact_rem(const Exact& a, const Exact& b) {
  if (is_nan(a) || is_nan(b) || infinite(a) || is_zero(b))
    return doubt(nan_value(), a.doubtful || b.doubtful);
  if (infinite(b)) return negative(a) == negative(b) || is_zero(a) ? a : b;
  return exact_sub(a, exact_mul(exact_round(exact_div(a, b), [](double x) { return std::floor(x); }), b));
}
Exact exact_ldexp(const Exact& a, const Exact& b) {
  if (is_nan(a) || is_nan(b)) return doubt(nan_value(), a.doubtful || b.doubtful);
  if (infinite(b)) return exact_mul(a, b.kind == ExactKind::plus_infinity ? b : exact_from(0));
  double n = std::nearbyint(std::fmin(std::fmax(b.shadow, -1e6), 1e6));
  Exact power = result(power_of_two<exact_p>(int64_t(n)), power_of_two<exact_q>(int64_t(n)), std::exp2(n),
                       true, b.doubtful);
  return exact_mul(a, power);
}

Exact exact_exp2(const Exact& a) {
  if (is_nan(a) || a.kind == ExactKind::plus_infinity) return a;
  if (a.kind == ExactKind::minus_infinity) return doubt(exact_from(0), a.doubtful);
  int64_t n;
  bool integer = as_integer(a, n) && n > -4096 && n < 4096; // an integer power is a rational number
  uint64_t q = integer ? power_of_two<exact_q>(n) : 0;
  return result(pow_mod<exact_p>(2, exponent(a)), q, std::exp2(a.shadow), integer, a.doubtful);
}
Exact exact_log2(const Exact& a) {
  if (is_zero(a)) return doubt(make_infinity(true), a.doubtful);
  if (finite(a) && a.shadow > 0 && std::isnormal(a.shadow)) {
    int n;
    if (std::frexp(a.shadow, &n) == 0.5 && power_of_two<exact_p>(n - 1) == a.p)
      return doubt(exact_from_int(n - 1), a.doubtful);
  }
  return exact_opaque(0x6C6F6732, &a, 1, std::log2(a.shadow));
}
Exact exact_sqrt(const Exact& a) {
  if (is_nan(a) || a.kind == ExactKind::plus_infinity || is_zero(a)) return a;
  if (negative(a)) return doubt(nan_value(), a.doubtful);
  double s = std::sqrt(a.shadow);
  Exact root = exact_from(s);
  if (mul_mod<exact_p>(root.p, root.p) == a.p) { // the square of a dyadic number
    bool other_sign = pow_mod<exact_p>(root.p, exact_q) != 1;
    root.doubtful = a.doubtful || other_sign;
    return root;
  }
  uint64_t r = pow_mod<exact_p>(a.p, (exact_p + 1) / 4);
  bool square = mul_mod<exact_p>(r, r) == a.p;
  return result(r, 0, s, false, a.doubtful || !square);
}
Exact exact_pow(const Exact& a, const Exact& b) {
  Exact twice = exact_add(b, b);
  int64_t n;
  if (finite(a) && as_integer(twice, n) && n >= -256 && n <= 256) {
    if (n == 0) return exact_from(1);
    int64_t whole = (n < 0 ? -n : n) / 2;
    Exact r = exact_from(1);
    for (int64_t i = 0; i < whole; ++i) r = exact_mul(r, a);
    if (n % 2) r = exact_mul(r, exact_sqrt(a));
    return n < 0 ? exact_div(exact_from(1), r) : r;
  }
  if (finite(a) && finite(b) && !negative(a) && !is_zero(a)) return exact_exp2(exact_mul(b, exact_log2(a)));
  Exact args[2] = {a, b};
  return exact_opaque(0x706F77, args, 2, std::pow(a.shadow, b.shadow));
}

Exact exact_opaque(uint64_t salt, const Exact* args, int count, double shadow) {
  bool doubtful = false, all_finite = true;
  uint64_t h = mix(salt);
  for (int i = 0; i < count; ++i) {
    doubtful |= args[i].doubtful;
    all_finite &= finite(args[i]);
    h = mix(h ^ args[i].p ^ (uint64_t(args[i].kind) << 62));
  }
  if (std::isnan(shadow)) return doubt(nan_value(), doubtful);
  if (std::isinf(shadow)) return doubt(make_infinity(shadow < 0), doubtful);
  if (!all_finite) return doubt(exact_from(shadow), doubtful);
  return result(mix(h) % exact_p, mix(h ^ 0x5851F42D4C957F2Du) % exact_q, shadow, true, doubtful);
}

} // namespace luminal
