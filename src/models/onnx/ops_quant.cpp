// models/onnx/ops_quant.cpp -- quantised numbers: to them, from them, and products of them.
#include "luminal/nn_functions.h"
#include "luminal/random.h"
#include "models/onnx/integers.h"
#include "models/onnx/operators.h"
#include <fmt/format.h>

namespace luminal::onnx::ops {
namespace {

/// A scale or zero point in the shape of x: one number, one an element of the axis, or one a block.
Tensor stretched(Node& n, const Tensor& scale, const Tensor& x, int axis, int64_t block) {
  if (scale.rank() == 0 || (scale.rank() == 1 && scale.dim(0) == Dim(1) && x.rank() != 1))
    return scale.reshape({});
  if (scale.rank() == 1 && block == 0) return along(scale, axis, x.rank());
  if (block == 0)
    n.refuse(fmt::format(
        "has a scale {} for {}: one number, one for each element of the axis, or a block_size is expected",
        luminal::to_string(scale.shape()), luminal::to_string(x.shape())));
  const Tensor wide = scale.repeat_interleave(block, axis);
  return wide.dim(axis) == x.dim(axis) ? wide : wide.slice(axis, 0, x.dim(axis));
}

} // namespace

void QuantizeLinear(Node& n) {
  const Tensor x = n.in(0);
  const int64_t block = n.integer("block_size", 0);
  const int axis =
      x.rank() ? axis_in(n, n.integer("axis", 1) >= x.rank() ? 0 : n.integer("axis", 1), x.rank()) : 0;
  ElementType type = n.has(2) ? n.type(2) : ElementType::u8;
  if (const auto named = n.integer("output_dtype", 0); named && !n.has(2)) type = ElementType(int32_t(named));
  const Tensor scale = stretched(n, n.in(1), x, axis, block);
  const Tensor zero = n.has(2) ? stretched(n, n.in(2), x, axis, block) : Tensor();
  n.out(0, quantised(x, scale, zero, type, n.integer("saturate", 1) != 0), type);
}
void DequantizeLinear(Node& n) {
  const Tensor x = n.in(0);
  const int64_t block = n.integer("block_size", 0);
  const int axis =
      x.rank() ? axis_in(n, n.integer("axis", 1) >= x.rank() ? 0 : n.integer("axis", 1), x.rank()) : 0;
  const Tensor scale = stretched(n, n.in(1), x, axis, block);
  ElementType type = n.type(1);
  if (const auto named = n.integer("output_dtype", 0)) type = ElementType(int32_t(named));
  Tensor value = x.cast(DType::f32);
  if (n.has(2)) {
    const Tensor zero = stretched(n, n.in(2), x, axis, block);
    value = is_integer_type(n.type(0)) ? (x.cast(DType::i32) - zero.cast(DType::i32)).cast(DType::f32)
                                       : value - zero.cast(DType::f32);
  }
  n.out(0, (value * scale.cast(DType::f32)).cast(carrier(type).value_or(DType::f32)), type);
  if (block == 0 && type == ElementType::f32) n.made_from_integers(0, axis);
}
void DynamicQuantizeLinear(Node& n) {
  const Tensor x = n.in(0);
  const Tensor low = minimum(x.min(), 0.0), high = maximum(x.max(), 0.0);
  const Tensor scale = (high - low) / 255.0;
  const Tensor safe = select(equal(scale, 0), ones_like(scale), scale);
  const Tensor zero = clip((-low / safe).round(), 0, 255);
  n.out(0, clip((x / safe).round() + zero, 0, 255).cast(DType::u8));
  n.out(1, scale);
  n.out(2, zero.cast(DType::u8));
}
void MatMulInteger(Node& n) { n.out(integer_matmul(numbers_of(n, 0, 2), numbers_of(n, 1, 3))); }
void QLinearMatMul(Node& n) { // a, scale, zero, b, scale, zero, scale, zero
  const Tensor sums = integer_matmul(numbers_of(n, 0, 2), numbers_of(n, 3, 5));
  const auto scale = [&](size_t i, int axis) {
    const Tensor s = n.in(i).cast(DType::f32);
    return s.rank() == 1 && s.dim(0) != Dim(1) ? along(s, axis, sums.rank())
           : s.rank() > 1                      ? s
                                               : s.reshape({});
  };
  const Tensor value = sums.cast(DType::f32) * (scale(1, sums.rank() - 2) * scale(4, sums.rank() - 1));
  const Tensor zero = n.in(7);
  n.out(0, quantised(value, n.in(6).reshape({}), zero.reshape({}), n.type(7), true), n.type(7));
}
void ConvInteger(Node& n) { n.out(integer_conv(n, numbers_of(n, 0, 2), numbers_of(n, 1, 3))); }
void QLinearConv(Node& n) { // x, scale, zero, w, scale, zero, scale, zero, bias
  Tensor sums = integer_conv(n, numbers_of(n, 0, 2), numbers_of(n, 3, 5));
  if (n.has(8)) sums = sums + along(n.in(8), 1, sums.rank());
  const Tensor weight = n.in(4).cast(DType::f32);
  const Tensor scale =
      weight.rank() == 1 && weight.dim(0) != Dim(1) ? along(weight, 1, sums.rank()) : weight.reshape({});
  const Tensor value = sums.cast(DType::f32) * (n.in(1).reshape({}) * scale);
  n.out(0, quantised(value, n.in(6).reshape({}), n.in(7).reshape({}), n.type(7), true), n.type(7));
}
/// com.microsoft: [.., k] times a weight [columns, blocks, bytes of a block] in 4 or 8 bits.
void MatMulNBits(Node& n) {
  const Tensor x = n.in(0), codes = n.in(1);
  const int64_t k = n.integer("K"), columns = n.integer("N"), bits = n.integer("bits", 4),
                block = n.integer("block_size");
  if (bits != 4 && bits != 8) n.refuse(fmt::format("has {} bits, 4 and 8 are supported", bits));
  if (block < 16 || block % 16)
    n.refuse(fmt::format("has block_size = {}, a multiple of 16 is expected", block));
  if (n.has(4)) n.refuse("has an order of groups (g_idx), which is not supported");
  const int64_t blocks = (k + block - 1) / block;
  const Tensor packed = codes.reshape({columns, blocks, block * bits / 8});
  const Tensor numbers = bits == 4 ? packed.bitcast(DType::u4) : packed; // [columns, blocks, block]
  Tensor value = numbers.cast(DType::f32);
  if (!n.has(3)) {
    value = value - double(1 << (bits - 1));
  } else if (n.in(3).dtype() == DType::u8) {
    Tensor zeros = n.in(3);
    const int64_t row = (blocks * bits + 7) / 8;
    zeros = zeros.reshape({columns, row});
    if (bits == 4) zeros = zeros.bitcast(DType::u4).slice(1, 0, blocks);
    value = value - zeros.cast(DType::f32).unsqueeze(-1);
  } else
    value = value - n.in(3).reshape({columns, blocks, 1}).cast(DType::f32);
  value = value * n.in(2).reshape({columns, blocks, 1}).cast(DType::f32);
  Tensor weight = value.reshape({columns, blocks * block});
  if (blocks * block != k) weight = weight.slice(1, 0, k);
  Tensor y = x.cast(DType::f32).matmul(weight.t());
  if (n.has(5)) y = y + n.in(5);
  n.out(y.cast(x.dtype()));
}

} // namespace luminal::onnx::ops
