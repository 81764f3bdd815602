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

/// Sums of products in f32: scales of a (one number, or one a row) and b (one number, or one a column).
void scaled_sums(Node& n, const Tensor& sums, const Tensor& a_scale, size_t b_scale, size_t bias) {
  const auto wide = [&](const Tensor& scale, int axis) {
    if (scale.rank() > 1) return scale;
    return scale.rank() == 1 && scale.dim(0) != Dim(1) ? along(scale, axis, sums.rank()) : scale.reshape({});
  };
  Tensor y = sums.cast(DType::f32) * (wide(a_scale, sums.rank() - 2) * wide(n.in(b_scale), sums.rank() - 1));
  if (n.has(bias)) y = y + n.in(bias);
  n.out(y);
}

/// Numbers of 2, 4 or 8 bits in bytes, the low bits first: the last axis has several an element.
Tensor unpacked(const Tensor& bytes, int64_t bits) {
  if (bits == 8) return bytes;
  if (bits == 4) return bytes.bitcast(DType::u4);
  Dims shape = bytes.shape();
  shape.back() = shape.back() * Dim(4);
  const Tensor place = Graph(bytes.graph()).iota({4}, [](const Dims& i) { return i[0] * Dim(2); });
  const Tensor parts = (bytes.cast(DType::i32).unsqueeze(-1) >> place.cast(DType::i32)) & 3;
  return parts.reshape(shape);
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
  const DynamicBytes y = dynamic_bytes(n.in(0));
  n.out(0, y.x);
  n.out(1, y.scale);
  n.out(2, y.zero);
}
void MatMulInteger(Node& n) { n.out(integer_matmul(numbers_of(n, 0, 2), numbers_of(n, 1, 3))); }
/// com.microsoft: a, b, scale of a, scale of b, zero of a, zero of b, bias.
void MatMulIntegerToFloat(Node& n) {
  scaled_sums(n, integer_matmul(numbers_of(n, 0, 4), numbers_of(n, 1, 5)), n.in(2), 3, 6);
}
/// com.microsoft: a, which becomes bytes here, b, its scale, its zero, bias.
void DynamicQuantizeMatMul(Node& n) {
  const DynamicBytes a = dynamic_bytes(n.in(0));
  scaled_sums(n, integer_matmul({&n.graph(), a.x, a.zero, {}}, numbers_of(n, 1, 3)), a.scale, 2, 4);
}
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
/// com.microsoft: rows of a table that has a scale for each block of elements along an axis.
void GatherBlockQuantized(Node& n) {
  const bool packed = n.type(0) == ElementType::u8;
  if (!packed && n.type(0) != ElementType::i4 && n.type(0) != ElementType::u4)
    n.refuse(fmt::format("has a table of {}: UINT8, INT4 or UINT4 is supported", type_text(n.type(0))));
  const int64_t bits = packed ? n.integer("bits", 4) : 4, block = n.integer("block_size", 128);
  if (bits != 2 && bits != 4 && bits != 8)
    n.refuse(fmt::format("has {} bits, 2, 4 and 8 are supported", bits));
  if (block < 1) n.refuse(fmt::format("has block_size = {}, at least 1 is expected", block));
  const auto numbers = [&](size_t i) { return packed ? unpacked(n.in(i), bits) : n.in(i); };
  const Tensor codes = numbers(0), scale = n.in(2);
  const int axis = axis_in(n, n.integer("quantize_axis", 1), codes.rank()),
            along_axis = axis_in(n, n.integer("gather_axis", 0), codes.rank());
  if (scale.rank() != codes.rank())
    n.refuse(fmt::format("has a scale {} for a table {}: as many axes are expected",
                         luminal::to_string(scale.shape()), luminal::to_string(codes.shape())));
  const auto wide = [&](const Tensor& x) { // one an element of the table
    const Tensor all = x.repeat_interleave(block, axis);
    return all.dim(axis) == codes.dim(axis) ? all : all.slice(axis, 0, codes.dim(axis));
  };
  Tensor value = codes.cast(DType::f32);
  if (n.has(3)) { // packed zero points may have more places than there are blocks
    Tensor zero = numbers(3);
    if (zero.dim(axis) != scale.dim(axis)) zero = zero.slice(axis, 0, scale.dim(axis));
    value = value - wide(zero).cast(DType::f32);
  } else if (packed) {
    value = value - double(1 << (bits - 1));
  }
  value = (value * wide(scale).cast(DType::f32)).cast(scale.dtype());
  const Tensor places = n.in(1).cast(DType::i64);
  n.out(value.index_select(along_axis, select(places < 0, places + codes.dim(along_axis), places)));
}
/// com.microsoft: [.., k] times a weight [columns, blocks, bytes of a block] in 4 or 8 bits.
void MatMulNBits(Node& n) {
  const Tensor x = n.in(0), codes = n.in(1);
  const int64_t k = n.integer("K"), columns = n.integer("N"), bits = n.integer("bits", 4),
                block = n.integer("block_size");
  if (bits != 2 && bits != 4 && bits != 8)
    n.refuse(fmt::format("has {} bits, 2, 4 and 8 are supported", bits));
  if (block < 16 || block % 16)
    n.refuse(fmt::format("has block_size = {}, a multiple of 16 is expected", block));
  if (n.has(4)) n.refuse("has an order of groups (g_idx), which is not supported");
  const int64_t blocks = (k + block - 1) / block;
  const Tensor numbers = unpacked(codes.reshape({columns, blocks, block * bits / 8}), bits);
  Tensor value = numbers.cast(DType::f32); // [columns, blocks, block]
  if (!n.has(3)) {
    value = value - double(1 << (bits - 1));
  } else if (n.in(3).dtype() == DType::u8) {
    Tensor zeros = n.in(3);
    const int64_t row = (blocks * bits + 7) / 8;
    zeros = unpacked(zeros.reshape({columns, row}), bits).slice(1, 0, blocks);
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
