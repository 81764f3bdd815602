// ir/ops.cpp -- the rows of the op table. What they mean in general is said at the head of ops.h.
#include "ir/ops.h"
#include "base/infinity.h"
#include "ir/exact.h"
#include "ir/identity.h"
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace luminal {
namespace {

using F = const double*;
using I = const int64_t*;
using E = const Exact*;

// ---- integers ----
int64_t wrapping(uint64_t value) { return int64_t(value); }
uint64_t u(int64_t value) { return uint64_t(value); }
bool less(int64_t a, int64_t b, DType type) { return type == DType::u64 ? u(a) < u(b) : a < b; }

int64_t floor_div(int64_t a, int64_t b, DType type) {
  if (b == 0) return 0;
  if (type == DType::u64) return wrapping(u(a) / u(b));
  if (b == -1) return wrapping(0 - u(a)); // the least integer wraps
  return a / b - (a % b != 0 && (a < 0) != (b < 0));
}
int64_t shift_left(int64_t a, int64_t b, DType type) {
  return b < 0 || b >= bits(type) || type == DType::boolean ? 0 : wrapping(u(a) << b);
}
int64_t shift_right(int64_t a, int64_t b, DType type) {
  bool too_far = type == DType::u64 ? u(b) >= 64 : b < 0 || b >= bits(type);
  if (too_far) return is_signed(type) && a < 0 ? -1 : 0;
  return type == DType::u64 ? wrapping(u(a) >> b) : a >> b;
}

// ---- floats ----
double floor_mod(double a, double b) {
  double r = std::fmod(a, b);
  if (std::isinf(b) && std::isfinite(a)) return a == 0 || (a < 0) == (b < 0) ? a : b;
  return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}
double minimum(double a, double b) { return std::isnan(a) || a < b ? a : b; }
double maximum(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double scale(double a, double b) {
  if (std::isnan(b)) return b;
  if (std::isinf(b)) return b > 0 ? a * b : a * 0.0;
  return std::ldexp(a, int(std::nearbyint(std::fmin(std::fmax(b, -5000.0), 5000.0))));
}
double sigmoid(double a) { return a >= 0 ? 1 / (1 + std::exp(-a)) : std::exp(a) / (1 + std::exp(a)); }
double gelu(double a) { return 0.5 * a * std::erfc(-a * 0.7071067811865476); }
double gelu_tanh(double a) {
  return 0.5 * a * (1 + std::tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)));
}
double softplus(double a) {
  return std::isnan(a) ? a : std::fmax(a, 0.0) + std::log1p(std::exp(-std::fabs(a)));
}

// ---- spread: how far the result moves when the arguments move within +-e ----
double outward(double x, double e, int sign) {
  return e == 0 ? x : std::nextafter(x + sign * e, sign * infinity);
}
/// For functions that are monotone in each argument while the others are held: extremes lie at the
/// corners of the box.
template <int N> double corners(double (*f)(F), F x, F e, double out) {
  double worst = 0;
  for (int corner = 0; corner < 1 << N; ++corner) {
    double at[N];
    for (int i = 0; i < N; ++i) at[i] = outward(x[i], e[i], corner >> i & 1 ? 1 : -1);
    double value = f(at);
    if (value == out || (std::isnan(value) && std::isnan(out))) continue;
    double distance = std::fabs(value - out);
    worst = std::isnan(distance) ? infinity : std::fmax(worst, distance);
  }
  return worst;
}
#define MONOTONE(N, expression)                                                                              \
  [](F xs, F es, double out) { return corners<N>([](F x) -> double { return expression; }, xs, es, out); }
double spread_sum(F, F e, double out) { return std::isfinite(out) ? e[0] + e[1] : 0; } // inf + x
double spread_one(F, F e, double) { return e[0]; }
double spread_product(F x, F e, double out) {
  if (!std::isfinite(x[0]) || !std::isfinite(x[1]))
    return corners<2>([](F at) { return at[0] * at[1]; }, x, e, out);
  return (std::fabs(x[0]) * e[1] + std::fabs(x[1]) * e[0] + e[0] * e[1]) * (1 + 1e-15);
}
double spread_div(F x, F e, double out) {
  if (e[0] == 0 && e[1] == 0) return 0;
  if (!(std::fabs(x[1]) > e[1])) return infinity;
  if (std::isinf(x[0])) return 0; // the divisor keeps its sign
  return (e[0] + std::fabs(out) * e[1]) / (std::fabs(x[1]) - e[1]) * (1 + 1e-15);
}
double spread_rem(F x, F e, double) {
  if (e[0] == 0 && e[1] == 0) return 0;
  double quotient = std::floor(x[0] / x[1]), width = spread_div(x, e, x[0] / x[1]);
  bool certain = std::isfinite(width) && std::floor(x[0] / x[1] - width) == quotient &&
                 std::floor(x[0] / x[1] + width) == quotient;
  return certain ? e[0] + std::fabs(quotient) * e[1] : std::fabs(x[1]) + e[1];
}
double spread_tan(F x, F e, double out) {
  auto branch = [](double a) { return std::floor(a / 3.141592653589793 + 0.5); };
  if (branch(outward(x[0], e[0], -1)) != branch(outward(x[0], e[0], 1))) return infinity;
  return corners<1>([](F a) { return std::tan(a[0]); }, x, e, out);
}
double spread_pow(F x, F e, double out) {
  if (e[0] == 0 && e[1] == 0) return 0;
  if (e[1] == 0 && std::floor(x[1]) == x[1]) { // an integer power: a polynomial or its reciprocal
    if (x[1] < 0 && !(std::fabs(x[0]) > e[0])) return infinity;
    double at[2] = {x[1] < 0 ? std::fabs(x[0]) - e[0] : std::fabs(x[0]) + e[0], x[1]};
    return std::fabs(x[1]) * std::pow(at[0], x[1] - 1) * e[0] * (1 + 1e-14);
  }
  if (!(x[0] > e[0])) return infinity;
  return corners<2>([](F a) { return std::pow(a[0], a[1]); }, x, e, out);
}
template <int Hundredths> double spread_lipschitz(F, F e, double) { return e[0] * Hundredths / 100.0; }
double spread_bounded_by_two(F, F e, double) { return std::fmin(e[0], 2); }

// ---- exact ----
template <Exact (*f)(const Exact&, const Exact&)> Exact exact2(E x) { return f(x[0], x[1]); }
template <Exact (*f)(const Exact&)> Exact exact1(E x) { return f(x[0]); }
Exact exact_bool(bool value, bool doubtful) {
  Exact r = exact_from_int(value);
  r.doubtful = doubtful;
  return r;
}
Exact exact_truth(E x, bool value) { return exact_bool(value, x[0].doubtful || x[1].doubtful); }
bool nan_among(E x) { return x[0].kind == Exact::Kind::nan || x[1].kind == Exact::Kind::nan; }
/// An odd function without a structure that the mode could know.
template <uint64_t salt> Exact exact_odd(E x, double shadow) {
  if (x[0].kind == Exact::Kind::finite && x[0].p > exact_p / 2) {
    Exact positive = exact_neg(x[0]);
    return exact_neg(exact_opaque(salt, &positive, 1, -shadow));
  }
  return exact_opaque(salt, x, 1, shadow);
}

// ---- the table ----
using S = Signature;
using C = OpClass;
// clang-format off
constexpr std::array<OpRow, op_count> table{{
    {.op = Op::add, .name = "add", .arity = 2, .signature = S::numeric, .op_class = C::sum,
     .f64 = [](F x) { return x[0] + x[1]; },
     .i64 = [](I x, DType) { return wrapping(u(x[0]) + u(x[1])); },
     .exact = exact2<exact_add>, .spread = spread_sum, .ulp = 0.5,
     .c_float = "({a} + {b})", .c_int = "({t})(({u}){a} + ({u}){b})", .derivative = {"1", "1"},
     .commutative = true, .associative = true, .monoid = "sum", .doc = "a + b"},
    {.op = Op::sub, .name = "sub", .arity = 2, .signature = S::numeric, .op_class = C::sum,
     .f64 = [](F x) { return x[0] - x[1]; },
     .i64 = [](I x, DType) { return wrapping(u(x[0]) - u(x[1])); },
     .exact = exact2<exact_sub>, .spread = spread_sum, .ulp = 0.5,
     .c_float = "({a} - {b})", .c_int = "({t})(({u}){a} - ({u}){b})", .derivative = {"1", "-1"},
     .doc = "a - b"},
    {.op = Op::mul, .name = "mul", .arity = 2, .signature = S::numeric, .op_class = C::product,
     .f64 = [](F x) { return x[0] * x[1]; },
     .i64 = [](I x, DType) { return wrapping(u(x[0]) * u(x[1])); },
     .exact = exact2<exact_mul>, .spread = spread_product, .ulp = 0.5,
     .c_float = "({a} * {b})", .c_int = "({t})(({u}){a} * ({u}){b})", .derivative = {"b", "a"},
     .commutative = true, .associative = true, .monoid = "prod", .doc = "a * b"},
    {.op = Op::div, .name = "div", .arity = 2, .signature = S::numeric, .op_class = C::quotient,
     .vector_cost = 8,
     .f64 = [](F x) { return x[0] / x[1]; },
     .i64 = [](I x, DType t) { return floor_div(x[0], x[1], t); },
     .exact = exact2<exact_div>, .spread = spread_div, .ulp = 0.5,
     .c_float = "({a} / {b})", .c_int = "lum_floor_div({a}, {b})", .derivative = {"recip(b)", "-out / b"},
     .low = 0.25, .high = 4, .doc = "a / b; on integers floor(a / b), and 0 where b is 0"},
    {.op = Op::rem, .name = "rem", .arity = 2, .signature = S::numeric, .op_class = C::simple,
     .vector_cost = 12,
     .f64 = [](F x) { return floor_mod(x[0], x[1]); },
     .i64 = [](I x, DType t) { return wrapping(u(x[0]) - u(floor_div(x[0], x[1], t)) * u(x[1])); },
     .exact = exact2<exact_rem>, .spread = spread_rem, .ulp = 0.5,
     .c_float = "lum_floor_mod({a}, {b})", .c_int = "lum_floor_mod({a}, {b})",
     .derivative = {"1", "-floor(a / b)"},
     .doc = "a - floor(a / b) * b, exact on floats; a where b is the integer 0"},
    {.op = Op::neg, .name = "neg", .arity = 1, .signature = S::numeric,
     .f64 = [](F x) { return -x[0]; },
     .i64 = [](I x, DType) { return wrapping(0 - u(x[0])); },
     .exact = exact1<exact_neg>, .spread = spread_one, .ulp = 0,
     .c_float = "(-{a})", .c_int = "({t})(0 - ({u}){a})", .derivative = {"-1"}, .doc = "-a"},
    {.op = Op::abs, .name = "abs", .arity = 1, .signature = S::numeric,
     .f64 = [](F x) { return std::fabs(x[0]); },
     .i64 = [](I x, DType t) { return is_signed(t) && x[0] < 0 ? wrapping(0 - u(x[0])) : x[0]; },
     .exact = exact1<exact_abs>, .spread = spread_one, .ulp = 0,
     .c_float = "fabs({a})", .c_int = "lum_abs({a})", .derivative = {"sign(a)"},
     .doc = "|a|; the least integer stays"},
    {.op = Op::min, .name = "min", .arity = 2, .signature = S::numeric,
     .f64 = [](F x) { return minimum(x[0], x[1]); },
     .i64 = [](I x, DType t) { return less(x[1], x[0], t) ? x[1] : x[0]; },
     .exact = exact2<exact_min>, .spread = MONOTONE(2, minimum(x[0], x[1])), .ulp = 0,
     .c_float = "lum_min({a}, {b})", .c_int = "lum_min({a}, {b})",
     .derivative = {"select(a < b, 1, select(a == b, 0.5, 0))", "select(b < a, 1, select(a == b, 0.5, 0))"},
     .commutative = true, .associative = true, .monoid = "min", .doc = "the smaller one; NaN if one is NaN"},
    {.op = Op::max, .name = "max", .arity = 2, .signature = S::numeric,
     .f64 = [](F x) { return maximum(x[0], x[1]); },
     .i64 = [](I x, DType t) { return less(x[0], x[1], t) ? x[1] : x[0]; },
     .exact = exact2<exact_max>, .spread = MONOTONE(2, maximum(x[0], x[1])), .ulp = 0,
     .c_float = "lum_max({a}, {b})", .c_int = "lum_max({a}, {b})",
     .derivative = {"select(b < a, 1, select(a == b, 0.5, 0))", "select(a < b, 1, select(a == b, 0.5, 0))"},
     .commutative = true, .associative = true, .monoid = "max", .doc = "the larger one; NaN if one is NaN"},
    {.op = Op::floor, .name = "floor", .arity = 1, .signature = S::floating,
     .f64 = [](F x) { return std::floor(x[0]); },
     .exact = [](E x) { return exact_round(x[0], [](double v) { return std::floor(v); }); },
     .spread = MONOTONE(1, std::floor(x[0])), .ulp = 0, .c_float = "floor({a})",
     .doc = "the largest integer <= a"},
    {.op = Op::ceil, .name = "ceil", .arity = 1, .signature = S::floating,
     .f64 = [](F x) { return std::ceil(x[0]); },
     .exact = [](E x) { return exact_round(x[0], [](double v) { return std::ceil(v); }); },
     .spread = MONOTONE(1, std::ceil(x[0])), .ulp = 0, .c_float = "ceil({a})",
     .doc = "the smallest integer >= a"},
    {.op = Op::trunc, .name = "trunc", .arity = 1, .signature = S::floating,
     .f64 = [](F x) { return std::trunc(x[0]); },
     .exact = [](E x) { return exact_round(x[0], [](double v) { return std::trunc(v); }); },
     .spread = MONOTONE(1, std::trunc(x[0])), .ulp = 0, .c_float = "trunc({a})",
     .doc = "a without its fraction"},
    {.op = Op::round, .name = "round", .arity = 1, .signature = S::floating,
     .f64 = [](F x) { return std::nearbyint(x[0]); },
     .exact = [](E x) { return exact_round(x[0], [](double v) { return std::nearbyint(v); }); },
     .spread = MONOTONE(1, std::nearbyint(x[0])), .ulp = 0, .c_float = "rint({a})",
     .doc = "the nearest integer, ties to even"},
    {.op = Op::fma, .name = "fma", .arity = 3, .signature = S::floating, .op_class = C::product,
     .f64 = [](F x) { return std::fma(x[0], x[1], x[2]); },
     .exact = [](E x) { return exact_add(exact_mul(x[0], x[1]), x[2]); },
     .spread = MONOTONE(3, std::fma(x[0], x[1], x[2])), .ulp = 0.5,
     .c_float = "fma({a}, {b}, {c})", .derivative = {"b", "a", "1"}, .doc = "a * b + c, rounded once"},
    {.op = Op::ldexp, .name = "ldexp", .arity = 2, .signature = S::floating,
     .f64 = [](F x) { return scale(x[0], x[1]); },
     .exact = exact2<exact_ldexp>, .spread = MONOTONE(2, scale(x[0], x[1])), .ulp = 0.5,
     .c_float = "lum_ldexp({a}, {b})", .derivative = {"ldexp(1, b)"},
     .doc = "a * 2^b, b an integer (rounded to one)"},

    {.op = Op::lt, .name = "lt", .arity = 2, .signature = S::comparison,
     .f64 = [](F x) { return double(x[0] < x[1]); },
     .i64 = [](I x, DType t) { return int64_t(less(x[0], x[1], t)); },
     .exact = [](E x) { return exact_truth(x, exact_less(x[0], x[1])); }, .ulp = 0,
     .c_float = "({a} < {b})", .c_int = "({a} < {b})", .doc = "a < b"},
    {.op = Op::le, .name = "le", .arity = 2, .signature = S::comparison,
     .f64 = [](F x) { return double(x[0] <= x[1]); },
     .i64 = [](I x, DType t) { return int64_t(!less(x[1], x[0], t)); },
     .exact = [](E x) { return exact_truth(x, !nan_among(x) && !exact_less(x[1], x[0])); }, .ulp = 0,
     .c_float = "({a} <= {b})", .c_int = "({a} <= {b})", .doc = "a <= b"},
    {.op = Op::eq, .name = "eq", .arity = 2, .signature = S::comparison,
     .f64 = [](F x) { return double(x[0] == x[1]); },
     .i64 = [](I x, DType) { return int64_t(x[0] == x[1]); },
     .exact = [](E x) { return exact_truth(x, !nan_among(x) && exact_equal(x[0], x[1])); }, .ulp = 0,
     .c_float = "({a} == {b})", .c_int = "({a} == {b})", .commutative = true, .doc = "a == b"},
    {.op = Op::ne, .name = "ne", .arity = 2, .signature = S::comparison,
     .f64 = [](F x) { return double(x[0] != x[1]); },
     .i64 = [](I x, DType) { return int64_t(x[0] != x[1]); },
     .exact = [](E x) { return exact_truth(x, nan_among(x) || !exact_equal(x[0], x[1])); }, .ulp = 0,
     .c_float = "({a} != {b})", .c_int = "({a} != {b})", .commutative = true,
     .doc = "a != b; true if one is NaN"},
    {.op = Op::is_nan, .name = "is_nan", .arity = 1, .signature = S::test,
     .f64 = [](F x) { return double(std::isnan(x[0])); },
     .exact = [](E x) { return exact_bool(x[0].kind == Exact::Kind::nan, x[0].doubtful); }, .ulp = 0,
     .c_float = "({a} != {a})", .doc = "a is not a number"},
    {.op = Op::select, .name = "select", .arity = 3, .signature = S::choice,
     .f64 = [](F x) { return x[0] != 0 ? x[1] : x[2]; },
     .i64 = [](I x, DType) { return x[0] != 0 ? x[1] : x[2]; },
     .exact = [](E x) { return exact_equal(x[0], exact_from(0)) ? x[2] : x[1]; }, .ulp = 0,
     .c_float = "({a} ? {b} : {c})", .c_int = "({a} ? {b} : {c})",
     .derivative = {"", "select(a, 1, 0)", "select(a, 0, 1)"},
     .doc = "b where a holds, else c"},

    {.op = Op::bit_and, .name = "bit_and", .arity = 2, .signature = S::bits, .f64 = nullptr,
     .i64 = [](I x, DType) { return x[0] & x[1]; }, .ulp = 0, .c_int = "({a} & {b})",
     .commutative = true, .associative = true, .monoid = "all", .doc = "bits set in both"},
    {.op = Op::bit_or, .name = "bit_or", .arity = 2, .signature = S::bits, .f64 = nullptr,
     .i64 = [](I x, DType) { return x[0] | x[1]; }, .ulp = 0, .c_int = "({a} | {b})",
     .commutative = true, .associative = true, .monoid = "any", .doc = "bits set in one or both"},
    {.op = Op::bit_xor, .name = "bit_xor", .arity = 2, .signature = S::bits, .f64 = nullptr,
     .i64 = [](I x, DType) { return x[0] ^ x[1]; }, .ulp = 0, .c_int = "({a} ^ {b})",
     .commutative = true, .associative = true, .doc = "bits set in one only"},
    {.op = Op::bit_not, .name = "bit_not", .arity = 1, .signature = S::bits, .f64 = nullptr,
     .i64 = [](I x, DType t) { return t == DType::boolean ? int64_t(x[0] == 0) : ~x[0]; }, .ulp = 0,
     .c_int = "lum_not({a})", .doc = "every bit turned; not, of bool"},
    {.op = Op::shl, .name = "shl", .arity = 2, .signature = S::shift, .f64 = nullptr,
     .i64 = [](I x, DType t) { return shift_left(x[0], x[1], t); }, .ulp = 0, .c_int = "lum_shl({a}, {b})",
     .doc = "a * 2^b"},
    {.op = Op::shr, .name = "shr", .arity = 2, .signature = S::shift, .f64 = nullptr,
     .i64 = [](I x, DType t) { return shift_right(x[0], x[1], t); }, .ulp = 0, .c_int = "lum_shr({a}, {b})",
     .doc = "floor(a / 2^b)"},

    {.op = Op::sqrt, .name = "sqrt", .arity = 1, .signature = S::floating, .op_class = C::quotient,
     .vector_cost = 8,
     .f64 = [](F x) { return std::sqrt(x[0]); },
     .exact = exact1<exact_sqrt>, .spread = MONOTONE(1, std::sqrt(x[0])), .ulp = 0.5, .c_float = "sqrt({a})",
     .derivative = {"0.5 / out"}, .low = 0, .high = 16, .doc = "square root; NaN below 0"},
    {.op = Op::recip, .name = "recip", .arity = 1, .signature = S::floating, .op_class = C::quotient,
     .vector_cost = 8,
     .f64 = [](F x) { return 1 / x[0]; },
     .exact = [](E x) { return exact_div(exact_from(1), x[0]); },
     .spread = [](F x, F e, double out) {
       double xs[2] = {1, x[0]}, es[2] = {0, e[0]};
       return spread_div(xs, es, out);
     },
     .ulp = 0.5, .c_float = "(({t})1 / {a})", .derivative = {"-(out * out)"}, .low = 0.25, .high = 4,
     .doc = "1 / a"},
    {.op = Op::exp2, .name = "exp2", .arity = 1, .signature = S::floating, .op_class = C::function,
     .vector_cost = 12,
     .f64 = [](F x) { return std::exp2(x[0]); },
     .exact = exact1<exact_exp2>, .spread = MONOTONE(1, std::exp2(x[0])), .ulp = 2, .c_float = "exp2({a})",
     .derivative = {"out * 0.6931471805599453"}, .low = -8, .high = 8, .doc = "2^a"},
    {.op = Op::log2, .name = "log2", .arity = 1, .signature = S::floating, .op_class = C::function,
     .vector_cost = 12,
     .f64 = [](F x) { return std::log2(x[0]); },
     .exact = exact1<exact_log2>, .spread = MONOTONE(1, std::log2(x[0])), .ulp = 2, .c_float = "log2({a})",
     .derivative = {"recip(a) * 1.4426950408889634"}, .low = 0.0625, .high = 16, .doc = "binary logarithm"},
    {.op = Op::sin, .name = "sin", .arity = 1, .signature = S::floating, .op_class = C::wide_function,
     .vector_cost = 20,
     .f64 = [](F x) { return std::sin(x[0]); },
     .exact = [](E x) { return exact_odd<0x73696E>(x, std::sin(x[0].shadow)); },
     .spread = spread_bounded_by_two, .ulp = 2, .ulp_scale = 0.5,
     .c_float = "sin({a})", .derivative = {"cos(a)"}, .low = -8, .high = 8, .doc = "sine of radians"},

    {.op = Op::sign, .name = "sign", .arity = 1, .signature = S::numeric,
     .f64 = [](F x) { return x[0] < 0 ? -1 : x[0] > 0 ? 1 : x[0]; },
     .i64 = [](I x, DType t) { return int64_t(less(0, x[0], t)) - int64_t(less(x[0], 0, t)); },
     .spread = MONOTONE(1, (x[0] < 0 ? -1 : x[0] > 0 ? 1 : x[0])), .ulp = 0, .c_float = "lum_sign({a})",
     .c_int = "lum_sign({a})",
     .definition = "select(a < 0, -1, select(0 < a, 1, a))", .doc = "-1, 0 or 1"},
    {.op = Op::exp, .name = "exp", .arity = 1, .signature = S::floating, .op_class = C::function,
     .vector_cost = 12,
     .f64 = [](F x) { return std::exp(x[0]); },
     .spread = MONOTONE(1, std::exp(x[0])), .ulp = 2, .c_float = "exp({a})",
     .definition = "exp2(a * 1.4426950408889634)",
     .derivative = {"out"}, .low = -6, .high = 6, .doc = "e^a"},
    {.op = Op::log, .name = "log", .arity = 1, .signature = S::floating, .op_class = C::function,
     .vector_cost = 20,
     .f64 = [](F x) { return std::log(x[0]); },
     .spread = MONOTONE(1, std::log(x[0])), .ulp = 2, .c_float = "log({a})",
     .definition = "log2(a) * 0.6931471805599453",
     .derivative = {"recip(a)"}, .low = 0.0625, .high = 16, .doc = "natural logarithm"},
    {.op = Op::log1p, .name = "log1p", .arity = 1, .signature = S::floating, .op_class = C::function,
     .vector_cost = 20,
     .f64 = [](F x) { return std::log1p(x[0]); },
     .exact =
       [](E x) {
         return exact_mul(exact_log2(exact_add(exact_from(1), x[0])), exact_from(0.6931471805599453));
       },
     .spread = MONOTONE(1, std::log1p(x[0])), .ulp = 4, .c_float = "log1p({a})",
     // the quotient undoes the rounding of 1 + a
     .definition = "select(1 + a == 1, a, select(a == inf, a, log(1 + a) * (a / (1 + a - 1))))",
     .derivative = {"recip(1 + a)"}, .low = -0.5, .high = 8, .doc = "log(1 + a)"},
    {.op = Op::expm1, .name = "expm1", .arity = 1, .signature = S::floating, .op_class = C::function,
     .vector_cost = 20,
     .f64 = [](F x) { return std::expm1(x[0]); },
     .exact =
       [](E x) {
         return exact_sub(exact_exp2(exact_mul(x[0], exact_from(1.4426950408889634))), exact_from(1));
       },
     .spread = MONOTONE(1, std::expm1(x[0])), .ulp = 4, .c_float = "expm1({a})",
     .definition = "select(exp(a) == 1, a,"
         " select(abs(exp(a) - 1) < 0.5, (exp(a) - 1) * (a / log(exp(a))), exp(a) - 1))",
     .derivative = {"out + 1"}, .low = -4, .high = 4, .doc = "e^a - 1"},
    {.op = Op::cos, .name = "cos", .arity = 1, .signature = S::floating, .op_class = C::wide_function,
     .vector_cost = 20,
     .f64 = [](F x) { return std::cos(x[0]); },
     .spread = spread_bounded_by_two, .ulp = 4, .ulp_scale = 0.5, .c_float = "cos({a})",
     .definition = "1 - 2 * (sin(a * 0.5) * sin(a * 0.5))", .derivative = {"-sin(a)"}, .low = -8, .high = 8,
     .doc = "cosine of radians"},
    {.op = Op::tan, .name = "tan", .arity = 1, .signature = S::floating, .op_class = C::wide_function,
     .vector_cost = 20,
     .f64 = [](F x) { return std::tan(x[0]); },
     .spread = spread_tan, .ulp = 8, .c_float = "tan({a})", .definition = "sin(a) / cos(a)",
     .derivative = {"1 + out * out"},
     .low = -1.25, .high = 1.25, .doc = "tangent of radians"},
    {.op = Op::tanh, .name = "tanh", .arity = 1, .signature = S::floating, .op_class = C::function,
     .vector_cost = 20,
     .f64 = [](F x) { return std::tanh(x[0]); },
     .spread = MONOTONE(1, std::tanh(x[0])), .ulp = 4, .c_float = "tanh({a})",
     .definition = "select(a < 0, expm1(2 * a), -expm1(-2 * a)) / (2 + expm1(-2 * abs(a)))",
     .derivative = {"1 - out * out"},
     .doc = "hyperbolic tangent"},
    {.op = Op::sigmoid, .name = "sigmoid", .arity = 1, .signature = S::floating, .op_class = C::function,
     .vector_cost = 20,
     .f64 = [](F x) { return sigmoid(x[0]); },
     .spread = MONOTONE(1, sigmoid(x[0])), .ulp = 4, .c_float = "lum_sigmoid({a})",
     .definition = "recip(1 + exp(-a))",
     .derivative = {"out * (1 - out)"}, .low = -8, .high = 8, .doc = "1 / (1 + e^-a)"},
    {.op = Op::erf, .name = "erf", .arity = 1, .signature = S::floating, .op_class = C::function,
     .vector_cost = 20,
     .f64 = [](F x) { return std::erf(x[0]); },
     .exact = [](E x) { return exact_odd<0x657266>(x, std::erf(x[0].shadow)); },
     .spread = MONOTONE(1, std::erf(x[0])), .ulp = 4, .c_float = "erf({a})",
     // Minimax polynomials: a + a * p(a^2) near 0, 1 - e^q(|a|) further out.
     .definition =
         "select(abs(a) <= 0.927734375,"
         " fma(fma(fma(fma(fma(fma(-0.000596761703, a * a, 0.00499119423), a * a, -0.0267681349), a * a,"
         " 0.112819925), a * a, -0.376125336), a * a,"
         " 0.128379166), a, a),"
         " sign(a) * (1 - exp(fma(fma(fma(fma(fma(fma(-0.0000172853470, abs(a), 0.000383197126), a * a, "
         "fma(-0.00388396438, abs(a), 0.0242546219)),"
         " abs(a), -0.106777877), abs(a), -0.634846687), abs(a), -0.128717512),"
         " min(abs(a), 4), -min(abs(a), 4)))))",
     .definition_error = 5.9e-8, .derivative = {"1.1283791670955126 * exp(-(a * a))"},
     .doc = "error function"},
    {.op = Op::silu, .name = "silu", .arity = 1, .signature = S::floating, .op_class = C::function,
     .vector_cost = 20,
     .f64 = [](F x) { return x[0] * sigmoid(x[0]); },
     .spread = spread_lipschitz<110>, .ulp = 4, .c_float = "lum_silu({a})", .definition = "a * sigmoid(a)",
     .derivative = {"sigmoid(a) + out * (1 - sigmoid(a))"}, .low = -8, .high = 8, .doc = "a * sigmoid(a)"},
    {.op = Op::gelu, .name = "gelu", .arity = 1, .signature = S::floating, .op_class = C::function,
     .vector_cost = 20,
     .f64 = [](F x) { return gelu(x[0]); },
     .exact = nullptr, .spread = spread_lipschitz<113>, .ulp = 8, .ulp_scale = 1, .c_float = "lum_gelu({a})",
     .definition = "0.5 * a * (1 + erf(a * 0.7071067811865476))",
     .derivative = {"0.5 * (1 + erf(a * 0.7071067811865476))"
                    " + a * (0.3989422804014327 * exp(-0.5 * (a * a)))"},
     .doc = "a * Phi(a), Phi the normal distribution"},
    {.op = Op::gelu_tanh, .name = "gelu_tanh", .arity = 1, .signature = S::floating, .op_class = C::function,
     .vector_cost = 20,
     .f64 = [](F x) { return gelu_tanh(x[0]); },
     .spread = spread_lipschitz<114>, .ulp = 8, .ulp_scale = 1, .c_float = "lum_gelu_tanh({a})",
     .definition = "0.5 * a * (1 + tanh(0.7978845608028654 * (a + 0.044715 * (a * a * a))))",
     .derivative = {"0.5 * (1 + tanh(0.7978845608028654 * (a + 0.044715 * (a * a * a))))"
                    " + 0.5 * a * (1 - tanh(0.7978845608028654 * (a + 0.044715 * (a * a * a)))"
                    " * tanh(0.7978845608028654 * (a + 0.044715 * (a * a * a))))"
                    " * (0.7978845608028654 * (1 + 0.134145 * (a * a)))"},
     .doc = "gelu with the tanh approximation of Phi"},
    {.op = Op::softplus, .name = "softplus", .arity = 1, .signature = S::floating, .op_class = C::function,
     .vector_cost = 20,
     .f64 = [](F x) { return softplus(x[0]); },
     .spread = MONOTONE(1, softplus(x[0])), .ulp = 4, .c_float = "lum_softplus({a})",
     .definition = "max(a, 0) + log1p(exp(-abs(a)))",
     .derivative = {"sigmoid(a)"}, .low = -8, .high = 8, .doc = "log(1 + e^a)"},
    {.op = Op::rsqrt, .name = "rsqrt", .arity = 1, .signature = S::floating, .op_class = C::quotient_root,
     .vector_cost = 8,
     .f64 = [](F x) { return 1 / std::sqrt(x[0]); },
     .spread = MONOTONE(1, 1 / std::sqrt(x[0])), .ulp = 2, .c_float = "rsqrt({a})",
     .definition = "recip(sqrt(a))",
     .derivative = {"-0.5 * (out * out * out)"}, .low = 0.0625, .high = 16, .doc = "1 / sqrt(a)"},
    {.op = Op::pow, .name = "pow", .arity = 2, .signature = S::floating, .op_class = C::wide_function,
     .vector_cost = 20,
     .f64 = [](F x) { return std::isnan(x[0]) || std::isnan(x[1]) ? x[0] + x[1] : std::pow(x[0], x[1]); },
     .exact = exact2<exact_pow>, .spread = spread_pow, .ulp = 16, .c_float = "pow({a}, {b})",
     .definition = "select(b == 0, select(is_nan(a), a, 1),"
                   " select(a < 0, select(floor(b) == b, select(rem(b, 2) == 0, 1, -1), nan), 1)"
                   " * select(abs(a) == 1, 1, exp2(b * log2(abs(a)))))",
     .derivative = {"select(b == 0, 0, b * pow(a, b - 1))", "select(a == 0, 0, out * log(a))"}, .low = 0.25,
     .high = 4,
     .doc = "a^b; of a negative a only for integer b; NaN if one is NaN"},
}};
// clang-format on

constexpr bool rows_in_order() {
  for (int i = 0; i < op_count; ++i)
    if (int(table[i].op) != i || table[i].name.empty() || table[i].doc.empty()) return false;
  return true;
}
static_assert(rows_in_order(),
              "the rows of the op table stand in the order of the enumeration, and each has a "
              "name and a line of documentation");

} // namespace

const OpRow& row(Op op) { return table[size_t(op)]; }
bool is_transcendental(Op op) {
  return row(op).op_class == OpClass::function || row(op).op_class == OpClass::wide_function;
}
bool is_long_chain(Op op) { return is_transcendental(op) || row(op).op_class == OpClass::quotient_root; }
bool may_vanish(Op op) {
  switch (op) {
  case Op::exp:
  case Op::exp2:
  case Op::sigmoid:
  case Op::silu:
  case Op::gelu:
  case Op::gelu_tanh:
  case Op::softplus: return true;
  default: return false;
  }
}
std::string_view to_string(Op op) { return row(op).name; }

std::optional<Op> parse_op(std::string_view name) {
  for (const OpRow& r : table)
    if (r.name == name) return r.op;
  return {};
}
std::optional<Op> parse_monoid_word(std::string_view word) {
  for (const OpRow& r : table)
    if (!r.monoid.empty() && r.monoid == word) return r.op;
  return {};
}

double greatest(DType type) { return type == DType::f8e4m3 ? largest(type) : infinity; }
double identity_f64(Op op, DType type) {
  switch (op) {
  case Op::mul: return 1;
  case Op::min: return greatest(type);
  case Op::max: return -greatest(type);
  default: return 0;
  }
}
int64_t identity_i64(Op op, DType type) {
  int width = bits(type);
  switch (op) {
  case Op::mul: return 1;
  case Op::bit_and: return wrap(type, -1);
  case Op::max: return !is_signed(type) ? 0 : INT64_MIN >> (64 - width);
  case Op::min:
    return type == DType::boolean ? 1 : !is_signed(type) ? wrap(type, -1) : INT64_MAX >> (64 - width);
  default: return 0;
  }
}

} // namespace luminal
