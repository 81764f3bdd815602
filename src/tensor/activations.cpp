// tensor/activations.cpp -- activations: PyTorch's formulas, in f32 at least.
#include "luminal/functions.h"
#include "tensor/compose.h"
#include "tensor/extents.h"
#include <fmt/format.h>

namespace luminal {

Tensor Tensor::relu(Where where) const {
  return elementwise(Op::max, "relu", {Operand(*this, where), Operand(0, where)}, where);
}
Tensor Tensor::relu6(Where where) const {
  graph_of("relu6", {this}, where);
  return luminal::clip(*this, 0, 6, where);
}
Tensor Tensor::hardtanh(double low, double high, Where where) const {
  graph_of("hardtanh", {this}, where);
  if (!(low < high))
    throw Error("hardtanh", fmt::format("the limits {} and {} are in the wrong order", low, high), where);
  return luminal::clip(*this, low, high, where);
}
Tensor Tensor::log_sigmoid(Where where) const {
  Floats f("log_sigmoid", {Operand(*this, where)}, where);
  return f.done(0 - unary(Op::softplus, -f[0], where));
}
Tensor Tensor::softplus(double beta, double threshold, Where where) const {
  Floats f("softplus", {Operand(*this, where)}, where);
  Tensor scaled = f[0] * beta, smooth = unary(Op::softplus, scaled, where) / beta;
  return f.done(luminal::select(scaled > threshold, f[0], smooth));
}
Tensor Tensor::mish(Where where) const {
  Floats f("mish", {Operand(*this, where)}, where);
  return f.done(f[0] * unary(Op::softplus, f[0], where).tanh());
}
Tensor Tensor::hardsigmoid(Where where) const {
  Floats f("hardsigmoid", {Operand(*this, where)}, where);
  return f.done(luminal::clip(f[0] + 3, 0, 6) / 6);
}
Tensor Tensor::hardswish(Where where) const {
  Floats f("hardswish", {Operand(*this, where)}, where);
  return f.done(f[0] * luminal::clip(f[0] + 3, 0, 6) / 6);
}
Tensor Tensor::softsign(Where where) const {
  Floats f("softsign", {Operand(*this, where)}, where);
  return f.done(f[0] / (1 + f[0].abs()));
}
Tensor Tensor::leaky_relu(double slope, Where where) const {
  Floats f("leaky_relu", {Operand(*this, where)}, where);
  return f.done(luminal::select(f[0] > 0, f[0], f[0] * slope));
}
Tensor Tensor::elu(double alpha, Where where) const {
  Floats f("elu", {Operand(*this, where)}, where);
  return f.done(luminal::select(f[0] > 0, f[0], alpha * f[0].expm1()));
}
Tensor Tensor::celu(double alpha, Where where) const {
  Floats f("celu", {Operand(*this, where)}, where);
  if (alpha == 0) throw Error("celu", "alpha must not be 0", where);
  return f.done(luminal::select(f[0] > 0, f[0], alpha * (f[0] / alpha).expm1()));
}
Tensor Tensor::selu(Where where) const {
  Floats f("selu", {Operand(*this, where)}, where);
  constexpr double alpha = 1.6732632423543772848170429916717, scale = 1.0507009873554804934193349852946;
  return f.done(luminal::select(f[0] > 0, f[0] * scale, (scale * alpha) * f[0].expm1()));
}
Tensor Tensor::threshold(double limit, double value, Where where) const {
  graph_of("threshold", {this}, where);
  return luminal::masked_fill(*this, *this <= limit, value, where);
}
Tensor Tensor::glu(int axis, Where where) const {
  graph_of("glu", {this}, where);
  axis = axis_of("glu", axis, rank(), where);
  const Dim size = dim(axis), half = size / 2;
  if (prove(eq(mod(to_expr(size), 2), 0)) != Truth::yes)
    throw Error(
        "glu",
        fmt::format("axis {} of {} must be even: it is cut into halves", axis, text_of(type_of(*this).shape)),
        where);
  Tensor gate = slice(axis, half, size, 1, where);
  return slice(axis, 0, half, 1, where) * gate.sigmoid(where);
}

Tensor prelu(const Tensor& x, const Tensor& weight, Where where) {
  graph_of("prelu", {&x, &weight}, where);
  const Shape shape = type_of(x).shape, slopes = type_of(weight).shape;
  const int channel = shape.size() > 1 ? 1 : 0;
  const bool one = slopes.empty() || (slopes.size() == 1 && slopes[0].is_constant(1));
  if (!one && (slopes.size() != 1 || shape.empty() || !equal_extents(slopes[0], shape[size_t(channel)])))
    throw Error("prelu",
                fmt::format("weight {} must be one value or one for each channel (axis {} of {})",
                            text_of(slopes), channel, text_of(shape)),
                where);
  Tensor w = weight;
  if (one && !slopes.empty()) w = w.squeeze(0, where);
  if (!one) {
    Dims aligned(shape.size(), 1);
    aligned[size_t(channel)] = weight.dim(0);
    w = w.reshape(aligned, where);
  }
  Floats f("prelu", {Operand(x, where), Operand(w, where)}, where);
  return f.done(luminal::select(f[0] > 0, f[0], f[0] * f[1]));
}

} // namespace luminal
