// tensor/functions.cpp -- functions of several elements: division, powers, choices, signs.
#include "luminal/functions.h"
#include "tensor/compose.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal {
namespace {

Operand at(const Tensor& x, Where where) { return {x, where}; }

Tensor as_bool(const Tensor& x) { return x.dtype() == DType::boolean ? x : not_equal(x, 0); }

/// Both operands as bool, broadcast.
Tensor logical(Op op, std::string_view name, const Operand& a, const Operand& b) {
  auto in = common_operands(name, {a, b}, Numbers::any, a.where);
  return elementwise(op, name, {at(as_bool(in[0]), a.where), at(as_bool(in[1]), a.where)}, a.where);
}

void need_bool(std::string_view op, const Tensor& mask, std::string_view what, Where where) {
  if (mask.dtype() != DType::boolean)
    throw Error(
        op,
        fmt::format("{} must be bool, it is {} (compare it with something)", what, to_string(mask.dtype())),
        where);
}

/// Square and multiply over the bits of the exponent; everything wraps.
Tensor integer_pow(const Tensor& a, const Tensor& b, const Operand& exponent) {
  const DType type = a.dtype();
  Tensor base = a, one = (a * 0) + 1;
  if (!exponent.tensor && !exponent.real && exponent.whole.is_constant()) {
    int64_t n = exponent.whole.value();
    if (n >= 0) {
      Tensor result = one;
      for (bool first = true; n > 0; n >>= 1) {
        if (n & 1) result = std::exchange(first, false) ? base : result * base;
        if (n > 1) base = base * base;
      }
      return result;
    }
  }
  Tensor result = one;
  const int digits = bits(type) - (is_signed(type) ? 1 : 0);
  for (int digit = 0; digit < digits; ++digit) {
    result = luminal::select(not_equal((b >> digit) & 1, 0), result * base, result);
    if (digit + 1 < digits) base = base * base;
  }
  if (!is_signed(type)) return result;
  Tensor of_minus_one = luminal::select(equal(b & 1, 0), one, -one);
  Tensor reciprocal = luminal::select(equal(a, 1), one, luminal::select(equal(a, -1), of_minus_one, one * 0));
  return select(b < 0, reciprocal, result);
}

} // namespace

Tensor fma(const Tensor& a, const Tensor& b, const Tensor& c) {
  return build("fma", a.graph(), Where::current(),
               [&](FunctionBuilder& f) { return f.map(Op::fma, {node_id(a), node_id(b), node_id(c)}); });
}

Tensor polynomial(const Tensor& x, std::span<const double> coefficients) {
  const auto constant = [&](double value) {
    return number_like(Operand(value), x.graph(), x.dtype(), type_of(x).shape, Where::current());
  };
  Tensor sum = constant(coefficients.back());
  for (size_t i = coefficients.size() - 1; i-- > 0;) sum = fma(sum, x, constant(coefficients[i]));
  return sum;
}

Tensor signbit(const Tensor& x) {
  if (!is_float(x.dtype())) return x < 0;
  const DType same_width = bits(x.dtype()) == 64   ? DType::i64
                           : bits(x.dtype()) == 32 ? DType::i32
                           : bits(x.dtype()) == 16 ? DType::i16
                                                   : DType::i8;
  return x.bitcast(same_width) < 0;
}
Tensor with_sign(const Tensor& size, const Tensor& x) { return luminal::select(signbit(x), -size, size); }
Tensor magnitude(const Tensor& x) { return with_sign(x, x); }
Tensor root(const Tensor& x) {
  const Tensor zero = equal(x, 0);
  return luminal::select(zero, 0, luminal::select(zero, 1, x).sqrt());
}

Tensor maximum(Operand a, Operand b) { return elementwise(Op::max, "maximum", {a, b}, a.where); }
Tensor minimum(Operand a, Operand b) { return elementwise(Op::min, "minimum", {a, b}, a.where); }

// Of equal values the first: so PyTorch gives all of a gradient to it.
Tensor fmax(Operand a, Operand b) {
  const auto in = common_operands("fmax", {a, b}, Numbers::numeric, a.where);
  if (!is_float(in[0].dtype())) return maximum(in[0], in[1]);
  return luminal::select((in[0] >= in[1]) | in[1].isnan(), in[0], in[1]);
}
Tensor fmin(Operand a, Operand b) {
  const auto in = common_operands("fmin", {a, b}, Numbers::numeric, a.where);
  if (!is_float(in[0].dtype())) return minimum(in[0], in[1]);
  return luminal::select((in[0] <= in[1]) | in[1].isnan(), in[0], in[1]);
}

Tensor clip(const Tensor& x, std::optional<Operand> low, std::optional<Operand> high, Where where) {
  graph_of("clip", {&x}, where);
  std::vector<Operand> operands{at(x, where)};
  if (low) operands.push_back(*low);
  if (high) operands.push_back(*high);
  if (operands.size() == 1) throw Error("clip", "neither a lower nor an upper limit is given", where);
  auto in = common_operands("clip", operands, Numbers::numeric, where);
  Tensor result = low ? maximum(in[0], in[1]) : in[0];
  return high ? minimum(result, in.back()) : result;
}

Tensor Tensor::clip(std::optional<Operand> low, std::optional<Operand> high, Where where) const {
  return luminal::clip(*this, low, high, where);
}

Tensor floor_divide(Operand a, Operand b) {
  auto in = common_operands("floor_divide", {a, b}, Numbers::numeric, a.where);
  if (!is_float(in[0].dtype()))
    return elementwise(Op::div, "floor_divide", {at(in[0], a.where), at(in[1], a.where)}, a.where);
  Floats f("floor_divide", {a, b}, a.where);
  // The quotient of a - fmod(a, b) is whole up to rounding; where it is 0 it keeps the sign of a /
  // b.
  Tensor rest = fmod(f[0], f[1]), quotient = f[0] / f[1];
  Tensor below = not_equal(rest, 0) & ((f[1] < 0) ^ (rest < 0));
  Tensor whole = ((f[0] - rest) / f[1]).round() - below.cast(f[0].dtype());
  Tensor result = luminal::select(equal(whole, 0), copysign(whole, quotient), whole);
  return f.done(luminal::select(equal(f[1], 0), quotient, result));
}

Tensor trunc_divide(Operand a, Operand b) {
  auto in = common_operands("trunc_divide", {a, b}, Numbers::numeric, a.where);
  const DType type = in[0].dtype();
  if (is_float(type)) {
    Floats f("trunc_divide", {a, b}, a.where);
    return f.done((f[0] / f[1]).trunc());
  }
  Tensor down = elementwise(Op::div, "trunc_divide", {at(in[0], a.where), at(in[1], a.where)}, a.where);
  if (!is_signed(type)) return down;
  Tensor broken = not_equal(in[0] % in[1], 0) & ((in[0] < 0) ^ (in[1] < 0)) & not_equal(in[1], 0);
  return down + broken.cast(type);
}

Tensor remainder(Operand a, Operand b) { return elementwise(Op::rem, "remainder", {a, b}, a.where); }

Tensor fmod(Operand a, Operand b) {
  auto in = common_operands("fmod", {a, b}, Numbers::numeric, a.where);
  if (is_float(in[0].dtype())) {
    // Both positive: the floor is the truncation.
    return with_sign(magnitude(in[0]) % magnitude(in[1]), in[0]);
  }
  if (!is_signed(in[0].dtype())) return in[0] % in[1];
  // The least integer stays negative under abs: the remainder of the floor is corrected instead.
  Tensor r = in[0] % in[1];
  return select(not_equal(r, 0) & ((in[0] < 0) ^ (in[1] < 0)) & not_equal(in[1], 0), r - in[1], r);
}

Tensor pow(Operand a, Operand b) {
  auto in = common_operands("pow", {a, b}, Numbers::numeric, a.where);
  if (!is_float(in[0].dtype())) return integer_pow(in[0], in[1], b);
  const Where where = a.where;
  if (!b.tensor && (b.real || b.whole.is_constant())) {
    const double n = b.real ? b.number : double(b.whole.value());
    Floats f("pow", {a}, where);
    const Tensor& x = f[0];
    if (n == 0) return in[1] * 0 + 1;
    if (n == 1) return in[0];
    if (n == 2) return f.done(x * x);
    if (n == 3) return f.done(x * x * x);
    if (n == 0.5) return in[0].sqrt();
    if (n == -0.5) return in[0].rsqrt();
    if (n == -1) return in[0].recip();
    if (n == -2) return f.done((x * x).recip());
  }
  Tensor power = elementwise(Op::pow, "pow", {at(in[0], where), at(in[1], where)}, where);
  // NaN to the power of 0, and 1 to the power of NaN, are 1. Numbers keep their gradients there.
  std::optional<Tensor> one;
  if (a.tensor) one = equal(in[1], 0);
  if (b.tensor &&
      (a.tensor || (a.real ? a.number : double(a.whole.is_constant() ? a.whole.value() : 1)) == 1))
    one = one ? *one | equal(in[0], 1) : equal(in[0], 1);
  return one ? luminal::select(*one & power.isnan(), 1.0, power) : power;
}

Tensor copysign(Operand a, Operand b) {
  auto in = common_operands("copysign", {a, b}, Numbers::floats, a.where);
  Tensor size = in[0].abs();
  return select(signbit(in[1]), -size, size);
}

Tensor logical_and(Operand a, Operand b) { return logical(Op::bit_and, "logical_and", a, b); }
Tensor logical_or(Operand a, Operand b) { return logical(Op::bit_or, "logical_or", a, b); }
Tensor logical_xor(Operand a, Operand b) { return logical(Op::bit_xor, "logical_xor", a, b); }

Tensor where(Operand condition, Operand a, Operand b) {
  return elementwise(Op::select, "where", {condition, a, b}, condition.where);
}

Tensor Tensor::pow(Operand exponent) const { return luminal::pow(Operand(*this, exponent.where), exponent); }

Tensor Tensor::masked_fill(const Tensor& mask, Operand value, Where where) const {
  return luminal::masked_fill(*this, mask, value, where);
}
Tensor masked_fill(const Tensor& x, const Tensor& mask, Operand value, Where where) {
  graph_of("masked_fill", {&x, &mask}, where);
  need_bool("masked_fill", mask, "the mask", where);
  const Tensor filling = value.tensor ? value.tensor->cast(x.dtype(), where)
                                      : number_like(value, x.graph(), x.dtype(), {}, where);
  return elementwise(Op::select, "masked_fill", {at(mask, where), at(filling, where), at(x, where)}, where);
}

Tensor lerp(const Tensor& a, Operand b, Operand weight, Where where) {
  graph_of("lerp", {&a}, where);
  Floats f("lerp", {at(a, where), b, weight}, where);
  Tensor step = f[1] - f[0];
  // From the nearer end: exact at both.
  return f.done(luminal::select(f[2].abs() < 0.5, f[0] + f[2] * step, f[1] - step * (1 - f[2])));
}

Tensor hypot(Operand a, Operand b) {
  Floats f("hypot", {a, b}, a.where);
  Tensor x = magnitude(f[0]), y = magnitude(f[1]), swap = x > y, zero = equal(x + y, 0);
  Tensor large = luminal::select(swap, x, y), small = luminal::select(swap, y, x);
  Tensor ratio = small / luminal::select(zero, 1, large);
  Tensor result = luminal::select(zero, 0, large * (1 + ratio * ratio).sqrt());
  const double inf = INFINITY;
  return f.done(luminal::select(equal(x, inf) | equal(y, inf), inf, result));
}

Tensor Tensor::isnan(Where where) const {
  graph_of("isnan", {this}, where);
  if (is_float(dtype())) return unary(Op::is_nan, *this, where);
  return not_equal(*this, *this);
}
Tensor Tensor::isinf(Where where) const {
  graph_of("isinf", {this}, where);
  return is_float(dtype()) ? abs(where) > largest(dtype()) : not_equal(*this, *this);
}
Tensor Tensor::isfinite(Where where) const {
  graph_of("isfinite", {this}, where);
  return is_float(dtype()) ? abs(where) <= largest(dtype()) : equal(*this, *this);
}

} // namespace luminal
