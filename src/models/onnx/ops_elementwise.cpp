// models/onnx/ops_elementwise.cpp -- one element of each operand: arithmetic, comparisons, functions,
// activations, casts.
#include "luminal/random.h"
#include "models/onnx/operators.h"
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numbers>

namespace luminal::onnx::ops {
namespace {

bool integers(const Tensor& x) { return !is_float_type(x.dtype()) && x.dtype() != DType::boolean; }
/// Combines all inputs, from left to right.
template <class F> void all_of(Node& n, F&& combine) {
  Tensor value = n.in(0);
  for (size_t i = 1; i < n.inputs(); i++) value = combine(value, n.in(i));
  n.out(n.inputs() == 1 ? value + 0 : value);
}
Tensor as(const Tensor& value, const Tensor& like) { return value.cast(like.dtype()); }

} // namespace

#define LUMINAL_ONNX_UNARY(name, member)                                                                     \
  void name(Node& n) { n.out(as(n.in(0).member(), n.in(0))); }
LUMINAL_ONNX_UNARY(Abs, abs)
LUMINAL_ONNX_UNARY(Neg, neg)
LUMINAL_ONNX_UNARY(Sign, sign)
LUMINAL_ONNX_UNARY(Floor, floor)
LUMINAL_ONNX_UNARY(Ceil, ceil)
LUMINAL_ONNX_UNARY(Round, round)
LUMINAL_ONNX_UNARY(Sqrt, sqrt)
LUMINAL_ONNX_UNARY(Reciprocal, recip)
LUMINAL_ONNX_UNARY(Exp, exp)
LUMINAL_ONNX_UNARY(Log, log)
LUMINAL_ONNX_UNARY(Sin, sin)
LUMINAL_ONNX_UNARY(Cos, cos)
LUMINAL_ONNX_UNARY(Tan, tan)
LUMINAL_ONNX_UNARY(Asin, asin)
LUMINAL_ONNX_UNARY(Acos, acos)
LUMINAL_ONNX_UNARY(Atan, atan)
LUMINAL_ONNX_UNARY(Sinh, sinh)
LUMINAL_ONNX_UNARY(Cosh, cosh)
LUMINAL_ONNX_UNARY(Tanh, tanh)
LUMINAL_ONNX_UNARY(Asinh, asinh)
LUMINAL_ONNX_UNARY(Acosh, acosh)
LUMINAL_ONNX_UNARY(Atanh, atanh)
LUMINAL_ONNX_UNARY(Erf, erf)
LUMINAL_ONNX_UNARY(Relu, relu)
LUMINAL_ONNX_UNARY(Sigmoid, sigmoid)
LUMINAL_ONNX_UNARY(Softsign, softsign)
LUMINAL_ONNX_UNARY(Mish, mish)
LUMINAL_ONNX_UNARY(HardSwish, hardswish)
#undef LUMINAL_ONNX_UNARY

void Identity(Node& n) { n.out_value(0, n.value(0)); }
void IsNaN(Node& n) { n.out(n.in(0).isnan()); }
void IsInf(Node& n) {
  const Tensor x = n.in(0);
  const bool up = n.integer("detect_positive", 1) != 0, down = n.integer("detect_negative", 1) != 0;
  if (!is_float_type(x.dtype()))
    n.refuse(fmt::format("expects floats, its input is {}", to_string(x.dtype())));
  if (up && down)
    n.out(x.isinf());
  else if (up || down)
    n.out(x.isinf() & (up ? x > 0 : x < 0));
  else
    n.out(x.isinf() & x.isnan());
}
void Not(Node& n) { n.out(n.in(0).logical_not()); }
void Softplus(Node& n) {
  const Tensor x = n.in(0);
  n.out(as(logaddexp(x, 0), x));
}
void Gelu(Node& n) {
  const std::string how = n.one_of("approximate", "none", {"none", "tanh"});
  n.out(how == "tanh" ? n.in(0).gelu_tanh() : n.in(0).gelu());
}
void Swish(Node& n) {
  const Tensor x = n.in(0);
  n.out(as(x * (x * n.number("alpha", 1)).sigmoid(), x));
}
void Elu(Node& n) { n.out(n.in(0).elu(n.number("alpha", 1))); }
void Celu(Node& n) { n.out(n.in(0).celu(n.number("alpha", 1))); }
void Selu(Node& n) {
  const Tensor x = n.in(0);
  const double alpha = n.number("alpha", double(1.67326319217681884765625F)),
               gamma = n.number("gamma", double(1.05070102214813232421875F));
  n.out(as(select(x > 0, x, x.expm1() * alpha) * gamma, x));
}
void LeakyRelu(Node& n) { n.out(n.in(0).leaky_relu(n.number("alpha", 0.01))); }
void PRelu(Node& n) {
  const Tensor x = n.in(0);
  n.out(as(select(x < 0, x * n.in(1), x), x));
}
void ThresholdedRelu(Node& n) {
  const Tensor x = n.in(0);
  n.out(select(x > n.number("alpha", 1), x, zeros_like(x)));
}
void HardSigmoid(Node& n) {
  const Tensor x = n.in(0);
  n.out(as(clip(x * n.number("alpha", double(0.2F)) + n.number("beta", 0.5), 0, 1), x));
}
void Shrink(Node& n) {
  const Tensor x = n.in(0);
  const double lambda = n.number("lambd", 0.5), bias = n.number("bias", 0);
  n.out(as(select(x < -lambda, x + bias, select(x > lambda, x - bias, zeros_like(x))), x));
}
void Clip(Node& n) {
  Tensor x = n.in(0);
  if (n.opset() < 11) {
    n.out(clip(x, n.number("min", double(std::numeric_limits<float>::lowest())),
               n.number("max", double(std::numeric_limits<float>::max())))
              .cast(x.dtype()));
    return;
  }
  Tensor value = x;
  if (n.has(1)) value = maximum(value, n.in(1));
  if (n.has(2)) value = minimum(value, n.in(2));
  n.out(n.has(1) || n.has(2) ? value : clip(x, {}, std::numeric_limits<double>::infinity()).cast(x.dtype()));
}

void Add(Node& n) { n.out(as(n.in(0) + n.in(1), n.in(0))); }
void Sub(Node& n) { n.out(as(n.in(0) - n.in(1), n.in(0))); }
void Mul(Node& n) { n.out(as(n.in(0) * n.in(1), n.in(0))); }
void Div(Node& n) {
  const Tensor a = n.in(0), b = n.in(1);
  n.out(integers(a) ? as(trunc_divide(a, b), a) : a / b);
}
void Mod(Node& n) {
  const Tensor a = n.in(0), b = n.in(1);
  const bool fmod = n.integer("fmod", 0) != 0;
  if (!fmod && is_float_type(a.dtype())) n.refuse("of floats needs the attribute fmod = 1");
  n.out(as(fmod ? luminal::fmod(a, b) : a % b, a));
}
void Pow(Node& n) {
  const Tensor a = n.in(0), b = n.in(1);
  if (a.dtype() == b.dtype()) return n.out(pow(a, b));
  if (is_float_type(a.dtype()))
    return n.out(as(pow(a, b.cast(a.dtype() == DType::f64 ? DType::f64 : DType::f32)), a));
  n.out(as(is_float_type(b.dtype()) ? pow(a.cast(DType::f64), b.cast(DType::f64))
                                    : pow(a.cast(DType::i64), b.cast(DType::i64)),
           a));
}
void Sum(Node& n) {
  all_of(n, [](const Tensor& a, const Tensor& b) { return a + b; });
}
void Mean(Node& n) {
  Tensor value = n.in(0);
  for (size_t i = 1; i < n.inputs(); i++) value = value + n.in(i);
  n.out(as(value / double(n.inputs()), n.in(0)));
}
void Max(Node& n) {
  all_of(n, [](const Tensor& a, const Tensor& b) { return as(maximum(a, b), a); });
}
void Min(Node& n) {
  all_of(n, [](const Tensor& a, const Tensor& b) { return as(minimum(a, b), a); });
}
void And(Node& n) { n.out(n.in(0) & n.in(1)); }
void Or(Node& n) { n.out(n.in(0) | n.in(1)); }
void Xor(Node& n) { n.out(n.in(0) ^ n.in(1)); }
void BitwiseNot(Node& n) { n.out(~n.in(0)); }
void BitShift(Node& n) {
  const std::string way = n.one_of("direction", "", {"LEFT", "RIGHT"});
  n.out(as(way == "LEFT" ? n.in(0) << n.in(1) : n.in(0) >> n.in(1), n.in(0)));
}
void Equal(Node& n) { n.out(equal(n.in(0), n.in(1))); }
void Less(Node& n) { n.out(n.in(0) < n.in(1)); }
void LessOrEqual(Node& n) { n.out(n.in(0) <= n.in(1)); }
void Greater(Node& n) { n.out(n.in(0) > n.in(1)); }
void GreaterOrEqual(Node& n) { n.out(n.in(0) >= n.in(1)); }
void Where(Node& n) { n.out(0, select(n.in(0), n.in(1), n.in(2)), n.type(1)); }

namespace {
void cast_to(Node& n, ElementType to) {
  if (!carrier(to) || !carrier(n.type(0)))
    n.refuse(fmt::format("casts {} to {}, which is not supported", type_text(n.type(0)), type_text(to)));
  const Tensor x = n.in(0);
  if (to == ElementType::f8e8m0) {
    const std::string how = n.one_of("round_mode", "up", {"up", "down", "nearest"});
    if (how == "nearest") { // half of the way up: the mantissa's first bit
      const Tensor near = x.cast(DType::f32) * (4.0 / 3.0);
      return n.out(0, to_element_type(near, n.type(0), to, true, false), to);
    }
    return n.out(0, to_element_type(x, n.type(0), to, true, how == "up"), to);
  }
  const Tensor y = to_element_type(x, n.type(0), to, n.integer("saturate", 1) != 0);
  n.out(0, y, to);
}
} // namespace

void Cast(Node& n) { cast_to(n, ElementType(int32_t(n.integer("to")))); }
void CastLike(Node& n) { cast_to(n, n.type(1)); }
void BitCast(Node& n) {
  const auto to = ElementType(int32_t(n.integer("to")));
  const auto type = carrier(to);
  if (!type || element_type_of(*type) != to || element_bits(to) != element_bits(n.type(0)))
    n.refuse(fmt::format("reads the bits of {} as {}: two types of as many bits are expected, without FLOAT8 "
                         "of FNUZ, FLOAT8E8M0, FLOAT4 and 2 bits",
                         type_text(n.type(0)), type_text(to)));
  if (to == n.type(0)) return n.out_value(0, n.value(0));
  const Tensor x = n.in(0);
  if (to == ElementType::boolean) return n.out(x.bitcast(DType::u8).cast(DType::boolean));
  n.out(0, x.dtype() == DType::boolean ? x.cast(DType::u8).bitcast(*type) : x.bitcast(*type), to);
}

} // namespace luminal::onnx::ops
