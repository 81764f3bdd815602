// tensor/transcendental.cpp -- inverse circular and hyperbolic functions, erfc, powers of ten: from
// rows of the op table and polynomials. Coefficients: Chebyshev interpolation in 60-digit
// arithmetic. Each states its error in units of the last place (f32 and f64; narrower floats are
// computed in f32).
#include "luminal/functions.h"
#include "tensor/compose.h"
#include <cmath>

namespace luminal {
namespace {

// asin(s) = s + s z p(z), z = s^2 <= 1/4
constexpr double asin_f32[] = {0.166666724, 0.0749885507, 0.0450013801, 0.0265545422, 0.0380850236};
constexpr double asin_f64[] = {0.1666666666666665,   0.07500000000020764,   0.044642857103423646,
                               0.03038194736709848,  0.02237204763174451,   0.017355259955786323,
                               0.013929652902326633, 0.011875494382636922,  0.0078029494773533175,
                               0.01603551434914882,  -0.010749050339697808, 0.028169218060881414};
// atan(t) = t + t z p(z), z = t^2, |t| <= tan(pi / 8)
constexpr double atan_f32[] = {-0.333333318, 0.199995405, -0.142639556, 0.107437315, -0.0645192821};
constexpr double atan_f64[] = {-0.3333333333333333,  0.1999999999999552,   -0.14285714284666542,
                               0.11111111015256361,  -0.09090904578123903, 0.07692183190826087,
                               -0.06664511447381948, 0.0585814891280221,   -0.0508544973794026,
                               0.03923165829558719,  -0.01917688711906226};
// e^(x^2) erfc(x) (1 + 2x) = p((x - 4) / (x + 4)), x >= 0
constexpr double erfcx_f32[] = {1.23299512,     -0.139621116,   0.0153797697,    0.0680970125,
                                -0.101040953,   0.0937335087,   -0.0663189937,   0.0371634092,
                                -0.0162304892,  0.00504403183,  -0.000709046273, -0.000217855055,
                                0.000114179319, -9.40757198e-06};
constexpr double erfcx_f64[] = {
    1.2329951186255526,      -0.1396211168405625,     0.015379652102610162,    0.0680970542546862,
    -0.10103906603585294,    0.09373283499865172,     -0.06633036582050367,    0.0371675155318432,
    -0.01619773397992426,    0.005031970032548695,    -0.0007577737141838885,  -0.00019925700412184815,
    0.0001506231178516207,   -2.439811794207995e-05,  -1.1225140354449658e-05, 5.707239573693257e-06,
    2.9805960553227694e-07,  -8.218020654813044e-07,  7.111912428010419e-08,   1.0683442926744582e-07,
    -1.6357383982124745e-08, -1.2544825403855497e-08, 1.5712153638319019e-09,  9.65540822548282e-10};
constexpr double half_pi = 1.5707963267948966, half_pi_low = 6.123233995736766e-17, pi = 3.141592653589793,
                 pi_low = 1.2246467991473532e-16, quarter_pi = 0.7853981633974483,
                 quarter_pi_low = 3.061616997868383e-17, ln2 = 0.6931471805599453;

template <size_t M, size_t N>
Tensor odd_series(const Tensor& s, const double (&f32)[M], const double (&f64)[N]) {
  Tensor z = s * s, p = s.dtype() == DType::f64 ? polynomial(z, f64) : polynomial(z, f32);
  return s + s * (z * p);
}

/// A constant as a number and what its rounding to the type leaves.
struct Pair {
  Pair(double value, double rest, DType type) : high(round_to(type, value)), low((value - high) + rest) {}
  double high, low;
};

/// atan of a number that is not negative; 3 ulp.
Tensor atan_positive(const Tensor& a) {
  const DType type = a.dtype();
  const Pair half(half_pi, half_pi_low, type), quarter(quarter_pi, quarter_pi_low, type);
  Tensor far = a > 2.414213562373095, middle = a > 0.4142135623730951;
  Tensor t = luminal::select(middle, luminal::select(far, -1.0, a - 1) / luminal::select(far, a, a + 1), a);
  Tensor low = luminal::select(far, half.low, luminal::select(middle, quarter.low, t * 0));
  Tensor high = luminal::select(far, half.high, luminal::select(middle, quarter.high, t * 0));
  t = luminal::select(a.isnan(), a, t);
  return high + (low + odd_series(t, atan_f32, atan_f64));
}

/// asin of a number in 0..1, and pi/2 - that, from one series.
struct Asin {
  explicit Asin(const Tensor& a) : large(a > 0.5) {
    Tensor s = luminal::select(large, ((1 - a) * 0.5).sqrt(), a);
    series = odd_series(s, asin_f32, asin_f64);
  }
  Tensor large, series;
};

Tensor log_or_large(const Tensor& a, const Tensor& usual, double from) { // log(2a) for large a
  const Tensor large = a > from;
  return luminal::select(large, luminal::select(large, a, 1).log() + ln2, usual);
}

} // namespace

Tensor Tensor::asin(Where where) const {
  Floats f("asin", {Operand(*this, where)}, where);
  const Pair half(half_pi, half_pi_low, f[0].dtype());
  Asin parts(magnitude(f[0]));
  Tensor result = luminal::select(parts.large, half.high - (2 * parts.series - half.low), parts.series);
  return f.done(with_sign(result, f[0]));
}

Tensor Tensor::acos(Where where) const {
  Floats f("acos", {Operand(*this, where)}, where);
  const DType type = f[0].dtype();
  const Pair half(half_pi, half_pi_low, type), whole(pi, pi_low, type);
  Asin parts(magnitude(f[0]));
  Tensor negative = signbit(f[0]), twice = 2 * parts.series;
  Tensor outer = luminal::select(negative, whole.high - (twice - whole.low), twice);
  Tensor inner = half.high - (luminal::select(negative, -parts.series, parts.series) - half.low);
  return f.done(luminal::select(parts.large, outer, inner));
}

Tensor Tensor::atan(Where where) const {
  Floats f("atan", {Operand(*this, where)}, where);
  return f.done(with_sign(atan_positive(magnitude(f[0])), f[0]));
}

Tensor atan2(Operand y, Operand x) {
  Floats f("atan2", {y, x}, y.where);
  const DType type = f[0].dtype();
  const Pair half(half_pi, half_pi_low, type), whole(pi, pi_low, type);
  Tensor a = magnitude(f[0]), b = magnitude(f[1]), swap = a > b, zero = equal(a + b, 0);
  Tensor large = luminal::select(swap, a, b), small = luminal::select(swap, b, a);
  const double inf = INFINITY;
  Tensor ratio = luminal::select(equal(a, inf) & equal(b, inf), 1.0, small / luminal::select(zero, 1, large));
  Tensor angle = atan_positive(luminal::select(zero, 0, ratio));
  angle = luminal::select(swap, half.high - (angle - half.low), angle);
  angle = luminal::select(signbit(f[1]), whole.high - (angle - whole.low), angle);
  return f.done(with_sign(angle, f[0]));
}

Tensor Tensor::sinh(Where where) const {
  Floats f("sinh", {Operand(*this, where)}, where);
  Tensor a = magnitude(f[0]), far = a > 20, e = luminal::select(far, 0, a).expm1(), half = (a * 0.5).exp();
  Tensor result = luminal::select(far, (0.5 * half) * half, 0.5 * (e + e / (e + 1)));
  return f.done(with_sign(result, f[0]));
}
Tensor Tensor::cosh(Where where) const {
  Floats f("cosh", {Operand(*this, where)}, where);
  Tensor a = magnitude(f[0]), far = a > 20, e = luminal::select(far, 0, a).exp(), half = (a * 0.5).exp();
  return f.done(luminal::select(far, (0.5 * half) * half, 0.5 * (e + e.recip())));
}
Tensor Tensor::asinh(Where where) const {
  Floats f("asinh", {Operand(*this, where)}, where);
  const double large = f.wide() ? 0x1p28 : 0x1p14;
  Tensor a = magnitude(f[0]), b = minimum(a, large), square = b * b;
  return f.done(with_sign(log_or_large(a, (b + square / (1 + (square + 1).sqrt())).log1p(), large), f[0]));
}
Tensor Tensor::acosh(Where where) const {
  Floats f("acosh", {Operand(*this, where)}, where);
  const double large = f.wide() ? 0x1p28 : 0x1p14;
  Tensor t = minimum(f[0], large) - 1, usual = (t + (t * (t + 2)).sqrt()).log1p();
  return f.done(luminal::select(f[0] < 1, double(NAN), log_or_large(f[0], usual, large)));
}
Tensor Tensor::atanh(Where where) const {
  Floats f("atanh", {Operand(*this, where)}, where);
  Tensor a = magnitude(f[0]);
  return f.done(with_sign(0.5 * ((2 * a) / (1 - a)).log1p(), f[0]));
}

Tensor Tensor::erfc(Where where) const {
  Floats f("erfc", {Operand(*this, where)}, where);
  Tensor a = minimum(magnitude(f[0]), 30); // 0 long before
  Tensor t = (a - 4) / (a + 4), p = f.wide() ? polynomial(t, erfcx_f64) : polynomial(t, erfcx_f32);
  Tensor square = a * a, lost = fma(a, a, -square), e = (-square).exp();
  Tensor tail = (e - e * lost) * (p / (1 + 2 * a));
  return f.done(luminal::select(signbit(f[0]), 2 - tail, tail));
}

Tensor Tensor::exp10(Where where) const {
  Floats f("exp10", {Operand(*this, where)}, where);
  const DType type = f[0].dtype();
  // 10^x = 2^n 10^r: n log10(2) is exact in two parts, the first short enough for n of 11 bits.
  const double high = f.wide() ? 0x1.34413509p-2 : 0x1.344p-2, low = 0.30102999566398120 - high;
  Tensor x = luminal::clip(f[0], f.wide() ? -400.0 : -60.0, f.wide() ? 400.0 : 60.0),
         n = (x * 3.321928094887362).round();
  const auto constant = [&](double v) {
    return number_like(Operand(v), x.graph(), type, type_of(x).shape, where);
  };
  Tensor r = fma(-n, constant(low), fma(-n, constant(high), x));
  Tensor unit = (r * 2.302585092994046).exp();
  return f.done(build("exp10", x.graph(), where, [&](FunctionBuilder& b) {
    return b.map(Op::ldexp, {node_id(unit), node_id(n)}, where);
  }));
}

Tensor Tensor::log10(Where where) const {
  Floats f("log10", {Operand(*this, where)}, where);
  return f.done(f[0].log() * 0.4342944819032518);
}

} // namespace luminal
