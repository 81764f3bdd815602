// models/onnx/quantised.cpp -- from numbers to integers with a scale and a zero point, and back.
#include "luminal/random.h"
#include "models/onnx/integers.h"
#include "models/onnx/operators.h"

namespace luminal::onnx {
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

} // namespace

bool is_integer_type(ElementType type) { return limits(type).has_value(); }

Tensor quantised(const Tensor& x, const Tensor& scale, const Tensor& zero, ElementType type, bool saturate) {
  Tensor y = (x.dtype() == DType::f64 ? x : x.cast(DType::f32)) / scale.cast(DType::f32);
  const auto range = limits(type);
  if (!range)
    return to_element_type(zero.defined() ? y + zero.cast(DType::f32) : y, ElementType::f32, type, saturate);
  y = y.round();
  if (zero.defined()) y = y + zero.cast(DType::f32);
  return clip(y, range->low, range->high).cast(*carrier(type));
}

Tensor dequantised(Node& n, size_t input) {
  const Tensor x = n.in(input), scale = n.in(input + 1).reshape({}).cast(DType::f32);
  if (!n.has(input + 2)) return x.cast(DType::f32) * scale;
  const Tensor zero = n.in(input + 2).reshape({});
  return (x.cast(DType::i32) - zero.cast(DType::i32)).cast(DType::f32) * scale;
}

DynamicBytes dynamic_bytes(const Tensor& x) {
  const Tensor low = minimum(x.min(), 0.0), high = maximum(x.max(), 0.0);
  const Tensor scale = (high - low) / 255.0;
  const Tensor safe = select(equal(scale, 0), ones_like(scale), scale);
  const Tensor zero = clip((-low / safe).round(), 0, 255);
  return {clip((x / safe).round() + zero, 0, 255).cast(DType::u8), scale, zero.cast(DType::u8)};
}

void out_quantised(Node& n, const Tensor& value, size_t scale) {
  const bool has_zero = n.has(scale + 1);
  const ElementType type = has_zero ? n.type(scale + 1) : ElementType::u8;
  const Tensor zero = has_zero ? n.in(scale + 1).reshape({}) : Tensor();
  n.out(0, quantised(value, n.in(scale).reshape({}), zero, type, true), type);
}

} // namespace luminal::onnx
