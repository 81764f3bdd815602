// tensor/numeric.cpp -- functions of elements that are made of others: sums of logarithms, NaN and
// infinities as numbers, comparisons with tolerance, shrinking.
#include "luminal/functions.h"
#include "tensor/compose.h"
#include <cmath>
#include <functional>
#include <numbers>

namespace luminal {
namespace {

/// The greater one plus what the difference adds; equal infinities stay.
Tensor log_add(std::string_view op, const Operand& a, const Operand& b,
               const std::function<Tensor(const Tensor&)>& rest) {
  Floats f(op, {a, b}, a.where);
  Tensor swap = f[0] > f[1], most = luminal::select(swap, f[0], f[1]),
         less = luminal::select(swap, f[1], f[0]);
  return f.done(luminal::select(most.isinf() & equal(f[0], f[1]), f[0], most + rest(less - most)));
}

} // namespace

Tensor logaddexp(Operand a, Operand b) {
  return log_add("logaddexp", a, b, [](const Tensor& d) { return d.exp().log1p(); });
}
Tensor logaddexp2(Operand a, Operand b) {
  return log_add("logaddexp2", a, b,
                 [](const Tensor& d) { return d.exp2().log1p() * (1 / std::numbers::ln2); });
}
Tensor xlogy(Operand x, Operand y) {
  Floats f("xlogy", {x, y}, x.where);
  // Where 0 meets a logarithm that is not finite; elsewhere 0 has the slope of others.
  Tensor zero = equal(f[0], 0) & ((f[1] <= 0) | equal(f[1], double(INFINITY)));
  return f.done(luminal::select(zero, 0, f[0] * luminal::select(zero, 1, f[1]).log()));
}
Tensor logit(const Tensor& x, std::optional<double> eps, Where where) {
  Floats f("logit", {Operand(x, where)}, where);
  Tensor p = eps ? clip(f[0], *eps, 1 - *eps, where) : f[0];
  return f.done((p / (1 - p)).log(where));
}
Tensor sinc(const Tensor& x, Where where) {
  Floats f("sinc", {Operand(x, where)}, where);
  Tensor angle = f[0] * std::numbers::pi, square = angle * angle;
  // The series near 0, where quotients of small numbers have no derivatives.
  Tensor near = square < (f.wide() ? 1e-4 : 1e-2);
  constexpr double series[] = {1, -1.0 / 6, 1.0 / 120, -1.0 / 5040};
  return f.done(
      luminal::select(near, polynomial(square, series), angle.sin(where) / luminal::select(near, 1, angle)));
}
Tensor heaviside(const Tensor& x, Operand values, Where where) {
  auto in = common_operands("heaviside", {Operand(x, where), values}, Numbers::any, where);
  Tensor step = luminal::select(in[0] < 0, 0, 1);
  Tensor result = luminal::select(equal(in[0], 0), in[1], step.cast(in[0].dtype(), where));
  return is_float(in[0].dtype()) ? luminal::select(in[0].isnan(where), in[0], result) : result;
}
Tensor deg2rad(const Tensor& x, Where where) {
  Floats f("deg2rad", {Operand(x, where)}, where);
  return f.done(f[0] * (std::numbers::pi / 180));
}
Tensor rad2deg(const Tensor& x, Where where) {
  Floats f("rad2deg", {Operand(x, where)}, where);
  return f.done(f[0] * (180 / std::numbers::pi));
}
Tensor ldexp(const Tensor& x, Operand exponent, Where where) {
  Floats f("ldexp", {Operand(x, where), exponent}, where);
  return f.done(f[0] * f[1].exp2(where));
}

Tensor nan_to_num(const Tensor& x, double nan, std::optional<double> posinf, std::optional<double> neginf,
                  Where where) {
  graph_of("nan_to_num", {&x}, where);
  if (!is_float(x.dtype())) return x;
  const double most = largest(x.dtype());
  Tensor finite = luminal::select(equal(x, INFINITY), posinf.value_or(most),
                                  luminal::select(equal(x, -INFINITY), neginf.value_or(-most), x));
  return luminal::select(x.isnan(where), nan, finite);
}

Tensor isclose(Operand a, Operand b, double rtol, double atol, bool equal_nan) {
  auto in = common_operands("isclose", {a, b}, Numbers::any, a.where);
  Tensor same = equal(in[0], in[1]);
  if (!is_float(in[0].dtype())) {
    if (rtol == 0 && atol == 0) return same;
    in = {in[0].cast(DType::f64), in[1].cast(DType::f64)};
  }
  Tensor distance = (in[0] - in[1]).abs();
  Tensor close = same | (distance.isfinite() & (distance <= atol + rtol * in[1].abs()));
  return equal_nan ? close | (in[0].isnan() & in[1].isnan()) : close;
}
Tensor isin(const Tensor& x, const Tensor& values, Where where) {
  graph_of("isin", {&x, &values}, where);
  return equal(x.unsqueeze(-1, where), values.flatten(0, -1, where)).any(-1, false, where);
}

Tensor addcmul(const Tensor& x, Operand a, Operand b, double value, Where where) {
  auto in = common_operands("addcmul", {Operand(x, where), a, b}, Numbers::any, where);
  return (in[0] + (in[1] * value).cast(in[0].dtype(), where) * in[2]).cast(in[0].dtype(), where);
}
Tensor addcdiv(const Tensor& x, Operand a, Operand b, double value, Where where) {
  Floats f("addcdiv", {Operand(x, where), a, b}, where);
  return f.done(f[0] + value * f[1] / f[2]);
}

Tensor hardshrink(const Tensor& x, double lambda, Where where) {
  Floats f("hardshrink", {Operand(x, where)}, where);
  return f.done(luminal::select((f[0] >= -lambda) & (f[0] <= lambda), 0, f[0]));
}
Tensor softshrink(const Tensor& x, double lambda, Where where) {
  Floats f("softshrink", {Operand(x, where)}, where);
  // x * 0 keeps NaN, and the sign of zero.
  return f.done(luminal::select(f[0] > lambda, f[0] - lambda,
                                luminal::select(f[0] < -lambda, f[0] + lambda, f[0] * 0)));
}
Tensor tanhshrink(const Tensor& x, Where where) {
  Floats f("tanhshrink", {Operand(x, where)}, where);
  return f.done(f[0] - f[0].tanh(where));
}
Tensor softmin(const Tensor& x, int axis, Where where) { return (-x).softmax(axis, where); }

} // namespace luminal
