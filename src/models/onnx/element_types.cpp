// models/onnx/element_types.cpp -- element types of files: which DType stands for each, their bytes,
// and rounding to the narrow ones.
#include "base/check.h"
#include "luminal/random.h"
#include "models/onnx/importer.h"
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace luminal::onnx {
namespace {

struct CarrierRow {
  ElementType type;
  DType carrier;
};
constexpr CarrierRow carrier_rows[] = {
    {ElementType::f32, DType::f32},        {ElementType::u8, DType::u8},
    {ElementType::i8, DType::i8},          {ElementType::u16, DType::u16},
    {ElementType::i16, DType::i16},        {ElementType::i32, DType::i32},
    {ElementType::i64, DType::i64},        {ElementType::boolean, DType::boolean},
    {ElementType::f16, DType::f16},        {ElementType::f64, DType::f64},
    {ElementType::u32, DType::u32},        {ElementType::u64, DType::u64},
    {ElementType::bf16, DType::bf16},      {ElementType::f8e4m3fn, DType::f8e4m3},
    {ElementType::f8e5m2, DType::f8e5m2},  {ElementType::u4, DType::u4},
    {ElementType::i4, DType::i4},          {ElementType::f8e4m3fnuz, DType::f32},
    {ElementType::f8e5m2fnuz, DType::f32}, {ElementType::f8e8m0, DType::f32},
    {ElementType::f4e2m1, DType::f32},     {ElementType::i2, DType::i8},
    {ElementType::u2, DType::u8},
};

/// A float in few bits: sign, exponent, mantissa.
struct NarrowFloat {
  int mantissa = 0, bias = 0; // of the exponent
  double largest = 0;
  bool has_nan = true, has_infinity = false;
};
std::optional<NarrowFloat> narrow_float(ElementType type) {
  switch (type) {
  case ElementType::f8e4m3fn: return NarrowFloat{3, 7, 448, true, false};
  case ElementType::f8e4m3fnuz: return NarrowFloat{3, 8, 240, true, false};
  case ElementType::f8e5m2: return NarrowFloat{2, 15, 57344, true, true};
  case ElementType::f8e5m2fnuz: return NarrowFloat{2, 16, 57344, true, false};
  case ElementType::f4e2m1: return NarrowFloat{1, 1, 6, false, false};
  default: return {};
  }
}

double decode_fnuz(uint8_t code, int mantissa, int bias) {
  if (code == 0x80) return std::numeric_limits<double>::quiet_NaN();
  const int exponent = (code & 0x7F) >> mantissa, fraction = code & ((1 << mantissa) - 1);
  const double value = exponent == 0
                           ? std::ldexp(double(fraction), 1 - bias - mantissa)
                           : std::ldexp(1 + double(fraction) / double(1 << mantissa), exponent - bias);
  return code & 0x80 ? -value : value;
}

double decode_element(ElementType type, const std::byte* bytes, int64_t i) {
  const auto byte = [&](int64_t at) { return std::to_integer<uint8_t>(bytes[at]); };
  switch (type) {
  case ElementType::f8e4m3fnuz: return decode_fnuz(byte(i), 3, 8);
  case ElementType::f8e5m2fnuz: return decode_fnuz(byte(i), 2, 16);
  case ElementType::f8e8m0:
    return byte(i) == 0xFF ? std::numeric_limits<double>::quiet_NaN() : std::ldexp(1.0, int(byte(i)) - 127);
  case ElementType::f4e2m1: {
    constexpr double values[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const int code = byte(i / 2) >> (i % 2 * 4) & 0xF;
    return code & 8 ? -values[code & 7] : values[code & 7];
  }
  default: {
    const int code = byte(i / 4) >> (i % 4 * 2) & 3;
    return type == ElementType::i2 && code > 1 ? code - 4 : code;
  }
  }
}

} // namespace

std::optional<DType> carrier(ElementType type) {
  for (const CarrierRow& row : carrier_rows)
    if (row.type == type) return row.carrier;
  return {};
}

ElementType element_type_of(DType type) {
  for (const CarrierRow& row : carrier_rows)
    if (row.carrier == type) return row.type;
  return ElementType::undefined;
}

std::string type_text(ElementType type) {
  const std::string_view name = element_type_name(type);
  return name.empty() ? fmt::format("the type {}", int32_t(type)) : std::string(name);
}

HostTensor decode(const TensorData& data) {
  const auto type = carrier(data.type);
  LUMINAL_CHECK(type, "{} has no carrier", type_text(data.type));
  HostTensor numbers{*type, data.shape, {}};
  if (element_type_of(*type) == data.type) {
    numbers.data.assign(data.bytes.begin(), data.bytes.end());
    return numbers;
  }
  numbers.data.resize(size_t(storage_bytes(*type, data.elements())));
  for (int64_t i = 0; i < data.elements(); i++)
    store_f64(*type, numbers.data.data(), i, decode_element(data.type, data.bytes.data(), i));
  return numbers;
}

namespace {

/// x (f32) rounded to the numbers of a narrow float, ties to even; beyond the largest it saturates,
/// or is what the type has for that.
Tensor round_narrow(const Tensor& x, const NarrowFloat& type, bool saturate) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  // The distance of neighbours is 2^(exponent - mantissa), and constant below the least normal one.
  Tensor bits = x.bitcast(DType::u32);
  Tensor exponent = ((bits >> 23) & 0xFF).cast(DType::i32);
  exponent = maximum(exponent, 127 + 1 - type.bias);
  Tensor unit = ((exponent - type.mantissa) << 23).cast(DType::u32).bitcast(DType::f32);
  Tensor rounded = (x / unit).round() * unit;
  const double limit = type.largest;
  Tensor over = rounded.abs() > limit;
  Tensor bound = copysign(full_like(x, limit), x);
  Tensor beyond = saturate            ? bound
                  : type.has_infinity ? copysign(full_like(x, std::numeric_limits<double>::infinity()), x)
                  : type.has_nan      ? bound * nan
                                      : bound;
  rounded = select(over, beyond, rounded);
  return select(x.isnan(), type.has_nan ? x : full_like(x, -0.0), rounded);
}

/// The exponent alone: powers of two.
Tensor round_e8m0(const Tensor& x, bool up) {
  Tensor bits = x.abs().bitcast(DType::u32);
  Tensor exponent = bits >> 23;
  if (up) exponent = exponent + select((bits & 0x7FFFFF) > 0, 1, 0).cast(DType::u32);
  Tensor least = full_like(x, 5.877471754111438e-39);
  Tensor value = (minimum(exponent, 254) << 23).cast(DType::u32).bitcast(DType::f32);
  return select(x.isnan(), x, select(equal(exponent, 0), least, value));
}

} // namespace

Tensor to_element_type(const Tensor& x, ElementType from, ElementType to, bool saturate, bool round_up) {
  const DType type = *carrier(to);
  if (const auto narrow = narrow_float(to)) {
    if (from == to) return x;
    const Tensor rounded = round_narrow(x.cast(DType::f32), *narrow, saturate);
    return rounded.cast(type);
  }
  if (to == ElementType::f8e8m0) return round_e8m0(x.cast(DType::f32), round_up);
  if (to == ElementType::u2 || to == ElementType::i2) {
    Tensor low = (is_float(x.dtype()) ? x.trunc().cast(DType::i64) : x.cast(DType::i64)) & 3;
    if (to == ElementType::i2) low = select(low > 1, low - 4, low);
    return low.cast(type);
  }
  if ((to == ElementType::u4 || to == ElementType::i4 || to == ElementType::u8 || to == ElementType::i8 ||
       to == ElementType::u16 || to == ElementType::i16) &&
      is_float(x.dtype()))
    return x.trunc().cast(DType::i64).cast(type); // what does not fit wraps
  return x.cast(type);
}

} // namespace luminal::onnx
