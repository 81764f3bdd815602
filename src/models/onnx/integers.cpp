// models/onnx/integers.cpp -- bytes are multiplied as they are stored, which dot instructions do; zero points
// are subtracted from the sums.
#include "models/onnx/integers.h"
#include "luminal/nn_functions.h"
#include "luminal/random.h"
#include "models/onnx/windows.h"
#include "tensor/host_units.h"
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace luminal::onnx {
namespace {

Tensor i32(const Tensor& x) { return x.cast(DType::i32); }
bool is_one(const Tensor& x) {
  return std::ranges::all_of(x.shape(), [](Dim extent) { return extent == Dim(1); });
}
bool is_byte(const Tensor& x) { return x.dtype() == DType::u8 || x.dtype() == DType::i8; }

/// x - zero as i32; a zero point of several numbers lies along the axis.
Tensor centred(const Numbers& n, int axis) {
  if (!n.zero.defined()) return i32(n.x);
  if (is_one(n.zero)) return i32(n.x) - i32(n.zero.reshape({}));
  return i32(n.x) - i32(n.zero.rank() == 1 ? along(n.zero, axis, n.x.rank()) : n.zero);
}

/// Products of bytes as dot instructions make them, of numbers as they are stored: x u8, w i8. A zero point
/// of x is subtracted from whole sums, `zero` times the sum of w.
struct StoredBytes {
  Tensor x, w, zero;                 ///< zero: i32, one number
  std::optional<int64_t> zero_known; ///< where the file holds it
};
/// Nothing where zero points ask for more: of w only what makes its numbers signed, of x one number.
std::optional<StoredBytes> stored_bytes(const Numbers& x, const Numbers& w) {
  constexpr int64_t half = 128; // of a byte: what lies between the signed and the unsigned numbers
  if (!is_byte(x.x) || !is_byte(w.x)) return {};
  const bool w_signed = w.x.dtype() == DType::i8, x_signed = x.x.dtype() == DType::i8;
  if (w.zero.defined()) {
    const int64_t wanted = w_signed ? 0 : half;
    if (!w.zeros || !std::ranges::all_of(*w.zeros, [&](int64_t zero) { return zero == wanted; })) return {};
  } else if (!w_signed) {
    return {};
  }
  StoredBytes out{x.x, w.x, {}, 0};
  if (x.zero.defined()) {
    if (!is_one(x.zero)) return {};
    out.zero = i32(x.zero.reshape({}));
    out.zero_known.reset();
    if (x.zeros) out.zero_known = x.zeros->at(0);
  }
  if (x_signed) {
    out.x = x.x.bitcast(DType::u8) ^ half;
    out.zero = out.zero.defined() ? out.zero + half : full(*x.graph, {}, half, DType::i32);
    if (out.zero_known) *out.zero_known += half;
  }
  if (!w_signed) out.w = (w.x ^ half).bitcast(DType::i8);
  return out;
}
/// What products of the numbers as they are stored have too much; `sum`: of w, for each result.
Tensor without_zero(const Tensor& products, const StoredBytes& bytes, const Tensor& sum) {
  return !bytes.zero.defined() || bytes.zero_known == 0 ? products : products - bytes.zero * i32(sum);
}

/// Do sums of so many products of bytes fit 32 bits?
bool sums_fit(int64_t depth) { return depth <= INT32_MAX / (255 * 128); }

/// The two operands of a node as bytes: one scale of x, and of w one, or one an element of the axis.
struct BytesWithScales {
  Numbers x, w;
  Tensor x_scale, w_scale;
};
std::optional<BytesWithScales> bytes_with_scales(Node& n, int weight_axis) {
  if (!multiplies_bytes_fast()) return {};
  const Quantised x = n.value(0).quantised, w = n.value(1).quantised;
  if (!x.made_by || !w.made_by || x.scope != &n.scope() || w.scope != &n.scope()) return {};
  Node x_node(n.importer(), n.scope(), *x.made_by, x.opset),
      w_node(n.importer(), n.scope(), *w.made_by, w.opset);
  BytesWithScales out{numbers_of(x_node, 0, 2), numbers_of(w_node, 0, 2), x_node.in(1), w_node.in(1)};
  if (!is_byte(out.x.x) || !is_byte(out.w.x) || !is_one(out.x_scale)) return {};
  out.x_scale = out.x_scale.reshape({});
  if (is_one(out.w_scale))
    out.w_scale = out.w_scale.reshape({});
  else if (out.w_scale.rank() != 1 || w.axis != weight_axis)
    return {};
  return out;
}

} // namespace

Numbers numbers_of(Node& n, size_t input, size_t zero) {
  Numbers out{&n.graph(), n.in(input), {}, {}};
  if (!n.has(zero)) return out;
  out.zero = n.in(zero);
  if (n.known(zero)) out.zeros = n.ints(zero);
  return out;
}

Tensor integer_matmul(const Numbers& a, const Numbers& b) {
  if (a.x.rank() > 1 && b.x.rank() > 1)
    if (const auto bytes = stored_bytes(a, b))
      return without_zero(i32(bytes->x).matmul(i32(bytes->w)), *bytes, bytes->w.sum(-2, true));
  return centred(a, std::max(0, a.x.rank() - 2)).matmul(centred(b, b.x.rank() - 1));
}

Tensor integer_conv(Node& n, const Numbers& x, const Numbers& weight) {
  const auto shape = n.extents(weight.x);
  if (shape.size() < 3)
    n.refuse(fmt::format("has a weight {}: [channels, channels, kernel..] is expected",
                         luminal::to_string(weight.x.shape())));
  const size_t axes = shape.size() - 2;
  const Windows w =
      windows_of(n, x.x, axes, n.integers("kernel_shape", {shape.end() - std::ptrdiff_t(axes), shape.end()}));
  ConvOptions options;
  options.stride = w.stride;
  options.dilation = w.dilation;
  options.groups = n.integer("group", 1);
  const auto is_zero = [](int64_t pad) { return pad == 0; };
  const bool plain = std::ranges::all_of(w.before, is_zero) && std::ranges::all_of(w.after, is_zero);
  if (const auto bytes = stored_bytes(x, weight); bytes && (plain || bytes->zero_known)) {
    // What lies outside is the zero point, too: its products go with all others. It is written around the
    // image, as dot instructions read words that lie in memory.
    Tensor image = plain ? bytes->x : padded(bytes->x, w, double(*bytes->zero_known));
    if (!plain && *bytes->zero_known != 0) image = image.contiguous();
    const Tensor sums = conv(i32(image), i32(bytes->w), {}, options);
    std::vector<int> summed(axes + 1);
    std::iota(summed.begin(), summed.end(), 1);
    return without_zero(sums, *bytes, along(bytes->w.sum(summed), 1, sums.rank()));
  }
  return i32(conv(padded(centred(x, 1), w, 0), centred(weight, 0), {}, options));
}

std::optional<Tensor> quantised_matmul(Node& n, bool transposed_weight) {
  const int rank = n.in(1).rank();
  if (n.in(0).rank() < 2 || rank < 2) return {};
  auto bytes = bytes_with_scales(n, transposed_weight ? 0 : rank - 1);
  if (!bytes) return {};
  if (transposed_weight) bytes->w.x = bytes->w.x.t();
  const Dim depth = bytes->w.x.dim(-2);
  if (!depth.is_constant() || !sums_fit(depth.value()) || !stored_bytes(bytes->x, bytes->w)) return {};
  const Tensor sums = integer_matmul(bytes->x, bytes->w);
  const Tensor scale =
      bytes->w_scale.rank() == 0 ? bytes->w_scale : along(bytes->w_scale, sums.rank() - 1, sums.rank());
  return sums.cast(DType::f32) * (bytes->x_scale * scale);
}

std::optional<Tensor> quantised_conv(Node& n) {
  const auto bytes = bytes_with_scales(n, 0);
  if (!bytes) return {};
  int64_t depth = 1;
  const auto shape = n.extents(bytes->w.x);
  for (size_t d = 1; d < shape.size(); ++d) depth *= shape[d];
  // (Without a known zero point nothing can be written around the image.)
  if (!sums_fit(depth) || !stored_bytes(bytes->x, bytes->w) || (bytes->x.zero.defined() && !bytes->x.zeros))
    return {};
  const Tensor sums = integer_conv(n, bytes->x, bytes->w);
  const Tensor scale = bytes->w_scale.rank() == 0 ? bytes->w_scale : along(bytes->w_scale, 1, sums.rank());
  return sums.cast(DType::f32) * (bytes->x_scale * scale);
}

} // namespace luminal::onnx
