// models/onnx/ops_quant.cpp -- quantised numbers: to them, from them, and products of them.
#include "luminal/nn_functions.h"
#include "luminal/random.h"
#include "models/onnx/operators.h"
#include "models/onnx/windows.h"
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace luminal::onnx::ops {
namespace {

struct Limits {
  double low, high;
};
std::optional<Limits> limits(ElementType type) {
  switch (type) {
  case ElementType::i8: return Limits{-128, 127};
  case ElementType::u8: return Limits{0, 255};
  case ElementType::i16: return Limits{-32768, 32767};
  case ElementType::u16: return Limits{0, 65535};
  case ElementType::i32: return Limits{-2147483648.0, 2147483647.0};
  case ElementType::i4: return Limits{-8, 7};
  case ElementType::u4: return Limits{0, 15};
  case ElementType::i2: return Limits{-2, 1};
  case ElementType::u2: return Limits{0, 3};
  default: return {};
  }
}

/// A scale or zero point in the shape of x: one number, one an element of the axis, or one a block.
Tensor stretched(Node& n, const Tensor& scale, const Tensor& x, int axis, int64_t block) {
  if (scale.rank() == 0 || (scale.rank() == 1 && scale.dim(0) == Dim(1) && x.rank() != 1))
    return scale.reshape({});
  if (scale.rank() == 1 && block == 0) return along(scale, axis, x.rank());
  if (block == 0)
    n.refuse(fmt::format("has a scale {} for {}", luminal::to_string(scale.shape()),
                         luminal::to_string(x.shape())));
  const Tensor wide = scale.repeat_interleave(block, axis);
  return wide.dim(axis) == x.dim(axis) ? wide : wide.slice(axis, 0, x.dim(axis));
}
/// round(x / scale) + zero, saturated to the type.
Tensor quantised(const Tensor& x, const Tensor& scale, const Tensor& zero, ElementType type, bool saturate) {
  Tensor y = (x.dtype() == DType::f64 ? x : x.cast(DType::f32)) / scale.cast(DType::f32);
  const auto range = limits(type);
  if (!range)
    return to_element_type(zero.defined() ? y + zero.cast(DType::f32) : y, ElementType::f32, type, saturate);
  y = y.round();
  if (zero.defined()) y = y + zero.cast(DType::f32);
  return clip(y, range->low, range->high).cast(*carrier(type));
}
Tensor i32(const Tensor& x) { return x.cast(DType::i32); }
/// x - zero as i32; a zero point of several numbers lies along the axis.
Tensor centred(Node& n, const Tensor& x, size_t zero, int axis) {
  if (!n.has(zero)) return i32(x);
  const Tensor z = n.in(zero);
  if (z.rank() == 1 && z.dim(0) != Dim(1)) return i32(x) - i32(along(z, axis, x.rank()));
  return z.rank() > 1 ? i32(x) - i32(z) : i32(x) - i32(z.reshape({}));
}

/// Products of bytes as dot instructions make them, of numbers as they are stored: x u8, w i8. A zero point
/// of x is subtracted from whole sums, `zero` times the sum of w.
struct StoredBytes {
  Tensor x, w, zero;                 ///< zero: i32, one number
  std::optional<int64_t> zero_known; ///< where the file holds it
};
bool is_byte(const Tensor& x) { return x.dtype() == DType::u8 || x.dtype() == DType::i8; }
/// Nothing where zero points ask for more: of w only what makes its numbers signed, of x one number.
std::optional<StoredBytes> stored_bytes(Node& n, size_t x_at, size_t x_zero, size_t w_at, size_t w_zero) {
  constexpr int64_t half = 128; // of a byte: what lies between the signed and the unsigned numbers
  const Tensor x = n.in(x_at), w = n.in(w_at);
  if (!is_byte(x) || !is_byte(w)) return {};
  const bool w_signed = w.dtype() == DType::i8, x_signed = x.dtype() == DType::i8;
  if (n.has(w_zero)) {
    if (!n.known(w_zero)) return {};
    for (const int64_t zero : n.ints(w_zero))
      if (zero != (w_signed ? 0 : half)) return {};
  } else if (!w_signed) {
    return {};
  }
  StoredBytes out{x, w, {}, 0};
  if (n.has(x_zero)) {
    for (const Dim extent : n.in(x_zero).shape())
      if (extent != Dim(1)) return {};
    out.zero = i32(n.in(x_zero).reshape({}));
    out.zero_known.reset();
    if (n.known(x_zero)) out.zero_known = n.ints(x_zero)[0];
  }
  if (x_signed) {
    out.x = x.bitcast(DType::u8) ^ half;
    out.zero = out.zero.defined() ? out.zero + half : n.graph().constant(int32_t(half));
    if (out.zero_known) *out.zero_known += half;
  }
  if (!w_signed) out.w = (w ^ half).bitcast(DType::i8);
  return out;
}
/// What products of the numbers as they are stored have too much; `sum`: of w, for each result.
Tensor without_zero(const Tensor& products, const StoredBytes& bytes, const Tensor& sum) {
  return !bytes.zero.defined() || bytes.zero_known == 0 ? products : products - bytes.zero * i32(sum);
}
/// The product of two matrices of bytes in i32.
Tensor integer_matmul(Node& n, size_t a, size_t a_zero, size_t b, size_t b_zero) {
  const Tensor x = n.in(a), w = n.in(b);
  if (x.rank() > 1 && w.rank() > 1)
    if (const auto bytes = stored_bytes(n, a, a_zero, b, b_zero)) {
      const Tensor products = i32(bytes->x).matmul(i32(bytes->w));
      return without_zero(products, *bytes, bytes->w.sum(-2, true));
    }
  return centred(n, x, a_zero, std::max(0, x.rank() - 2)).matmul(centred(n, w, b_zero, w.rank() - 1));
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
    value = limits(n.type(0)) ? (i32(x) - i32(zero)).cast(DType::f32) : value - zero.cast(DType::f32);
  }
  n.out(0, (value * scale.cast(DType::f32)).cast(carrier(type).value_or(DType::f32)), type);
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
void MatMulInteger(Node& n) { n.out(integer_matmul(n, 0, 2, 1, 3)); }
void QLinearMatMul(Node& n) { // a, scale, zero, b, scale, zero, scale, zero
  const Tensor sums = integer_matmul(n, 0, 2, 3, 5);
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
namespace {
/// A convolution of bytes in i32.
Tensor integer_conv(Node& n, size_t x_at, size_t x_zero, size_t w_at, size_t w_zero) {
  const Tensor x = n.in(x_at);
  const auto shape = n.extents(n.in(w_at));
  if (shape.size() < 3) n.refuse("has a weight without sizes");
  const size_t axes = shape.size() - 2;
  const Windows w =
      windows_of(n, x, axes, n.integers("kernel_shape", {shape.end() - std::ptrdiff_t(axes), shape.end()}));
  ConvOptions options;
  options.stride = w.stride;
  options.dilation = w.dilation;
  options.groups = n.integer("group", 1);
  const auto is_zero = [](int64_t n) { return n == 0; };
  const bool plain = std::ranges::all_of(w.before, is_zero) && std::ranges::all_of(w.after, is_zero);
  if (const auto bytes = stored_bytes(n, x_at, x_zero, w_at, w_zero); bytes && (plain || bytes->zero_known)) {
    // What lies outside is the zero point, too: its products go with all others. It is written around the
    // image, as dot instructions read words that lie in memory.
    Tensor image = plain ? bytes->x : padded(bytes->x, w, double(*bytes->zero_known));
    if (!plain && *bytes->zero_known != 0) image = image.contiguous();
    const Tensor sums = conv(i32(image), i32(bytes->w), {}, options);
    std::vector<int> summed(axes + 1);
    std::iota(summed.begin(), summed.end(), 1);
    return without_zero(sums, *bytes, along(bytes->w.sum(summed), 1, sums.rank()));
  }
  return i32(conv(padded(centred(n, x, x_zero, 1), w, 0), centred(n, n.in(w_at), w_zero, 0), {}, options));
}
} // namespace
void ConvInteger(Node& n) { n.out(integer_conv(n, 0, 2, 1, 3)); }
void QLinearConv(Node& n) { // x, scale, zero, w, scale, zero, scale, zero, bias
  Tensor sums = integer_conv(n, 0, 2, 3, 5);
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
  if (block < 16 || block % 16) n.refuse(fmt::format("has blocks of {}", block));
  if (n.has(4) || n.has(5)) {
    if (n.has(4)) n.refuse("has an order of groups (g_idx), which is not supported");
  }
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
