// ir/dtype.cpp -- element types: names, promotion, and exact conversions between their bit patterns
// and numbers.
#include "ir/dtype.h"
#include "base/check.h"
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace luminal {
namespace {

struct TypeRow {
  DType type;
  std::string_view name;
  int bits;
  bool floating, is_signed;
  int exponent_bits = 0, mantissa_bits = 0; // stored ones
};
constexpr std::array<TypeRow, dtype_count> types{{
    {DType::boolean, "bool", 8, false, false},
    {DType::i4, "i4", 4, false, true},
    {DType::u4, "u4", 4, false, false},
    {DType::i8, "i8", 8, false, true},
    {DType::u8, "u8", 8, false, false},
    {DType::i16, "i16", 16, false, true},
    {DType::u16, "u16", 16, false, false},
    {DType::i32, "i32", 32, false, true},
    {DType::u32, "u32", 32, false, false},
    {DType::i64, "i64", 64, false, true},
    {DType::u64, "u64", 64, false, false},
    {DType::f8e4m3, "f8e4m3", 8, true, true, 4, 3},
    {DType::f8e5m2, "f8e5m2", 8, true, true, 5, 2},
    {DType::bf16, "bf16", 16, true, true, 8, 7},
    {DType::f16, "f16", 16, true, true, 5, 10},
    {DType::f32, "f32", 32, true, true, 8, 23},
    {DType::f64, "f64", 64, true, true, 11, 52},
}};
constexpr bool in_order() {
  for (int i = 0; i < dtype_count; ++i)
    if (int(types[i].type) != i) return false;
  return true;
}
static_assert(in_order());

const TypeRow& row_of(DType type) { return types[size_t(type)]; }
int bias(const TypeRow& r) { return (1 << (r.exponent_bits - 1)) - 1; }

/// Bits of a small float type (f8, f16, bf16) as a number. f8e4m3 has no infinities: its top
/// exponent holds numbers, all ones is NaN.
double decode(const TypeRow& r, uint32_t pattern) {
  uint32_t mantissa = pattern & ((1u << r.mantissa_bits) - 1);
  int exponent = int(pattern >> r.mantissa_bits & ((1u << r.exponent_bits) - 1)),
      top = (1 << r.exponent_bits) - 1;
  double sign = pattern >> (r.exponent_bits + r.mantissa_bits) & 1 ? -1 : 1;
  if (exponent == top) {
    if (r.type != DType::f8e4m3)
      return mantissa ? std::numeric_limits<double>::quiet_NaN()
                      : sign * std::numeric_limits<double>::infinity();
    if (mantissa == (1u << r.mantissa_bits) - 1) return std::numeric_limits<double>::quiet_NaN();
  }
  if (exponent == 0) return sign * std::ldexp(double(mantissa), 1 - bias(r) - r.mantissa_bits);
  return sign * std::ldexp(double(mantissa | 1u << r.mantissa_bits), exponent - bias(r) - r.mantissa_bits);
}

/// The nearest number of the format without a limit on its exponent from above; ties to even.
double round_mantissa(const TypeRow& r, double value) {
  int exponent;
  std::frexp(value, &exponent); // value = m * 2^exponent with 0.5 <= |m| < 1
  int unit = std::max(exponent - 1, 1 - bias(r)) - r.mantissa_bits; // exponent of the last place
  return std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
}

/// `value` is a number of the type, an infinity or NaN.
uint32_t encode(const TypeRow& r, double value) {
  uint32_t sign = std::signbit(value) ? 1u << (r.exponent_bits + r.mantissa_bits) : 0;
  uint32_t top = ((1u << r.exponent_bits) - 1) << r.mantissa_bits;
  if (std::isnan(value))
    return top | (r.type == DType::f8e4m3 ? (1u << r.mantissa_bits) - 1 : 1u << (r.mantissa_bits - 1));
  if (std::isinf(value)) return sign | top;
  if (value == 0) return sign;
  int exponent;
  double magnitude = std::fabs(value);
  std::frexp(magnitude, &exponent);
  int stored = exponent - 1 + bias(r);
  if (stored <= 0) return sign | uint32_t(std::ldexp(magnitude, bias(r) - 1 + r.mantissa_bits));
  auto mantissa = uint32_t(std::ldexp(magnitude, r.mantissa_bits - (exponent - 1)));
  return sign | uint32_t(stored) << r.mantissa_bits | (mantissa & ((1u << r.mantissa_bits) - 1));
}

template <class T> T read(const std::byte* data, int64_t index) {
  T value;
  std::memcpy(&value, data + index * int64_t(sizeof(T)), sizeof(T));
  return value;
}
template <class T> void write(std::byte* data, int64_t index, T value) {
  std::memcpy(data + index * int64_t(sizeof(T)), &value, sizeof(T));
}

} // namespace

std::string_view to_string(DType type) { return row_of(type).name; }
std::optional<DType> parse_dtype(std::string_view text) {
  for (const TypeRow& r : types)
    if (r.name == text) return r.type;
  return {};
}
int bits(DType type) { return row_of(type).bits; }
int64_t storage_bytes(DType type, int64_t count) {
  int width = bits(type);
  return width == 4 ? count / 2 + count % 2 : count * (width / 8);
}
bool is_float(DType type) { return row_of(type).floating; }
bool is_signed(DType type) { return row_of(type).is_signed; }
bool is_integer(DType type) { return !is_float(type) && type != DType::boolean; }

DType promote(DType a, DType b) {
  if (a == b || b == DType::boolean) return a;
  if (a == DType::boolean) return b;
  if (is_float(a) != is_float(b)) return is_float(a) ? a : b;
  if (is_float(a)) {
    if (bits(a) == bits(b)) return DType::f32; // f16 with bf16, f8 with f8
    return bits(a) > bits(b) ? a : b;
  }
  if (is_signed(a) == is_signed(b)) return bits(a) > bits(b) ? a : b;
  DType s = is_signed(a) ? a : b, n = is_signed(a) ? b : a;
  if (bits(s) > bits(n)) return s;
  switch (n) { // the next wider signed type; there is none beyond i64
  case DType::u4: return DType::i8;
  case DType::u8: return DType::i16;
  case DType::u16: return DType::i32;
  default: return DType::i64;
  }
}

double round_to(DType type, double value) {
  if (type == DType::f64) return value;
  if (type == DType::f32) return double(float(value));
  const TypeRow& r = row_of(type);
  LUMINAL_CHECK(r.floating, "rounding to {}", r.name);
  if (value == 0 || !std::isfinite(value))
    return std::isinf(value) && type == DType::f8e4m3 ? std::numeric_limits<double>::quiet_NaN() : value;
  double rounded = round_mantissa(r, value);
  if (std::fabs(rounded) <= largest(type)) return rounded;
  return type == DType::f8e4m3 ? std::numeric_limits<double>::quiet_NaN()
                               : std::copysign(std::numeric_limits<double>::infinity(), value);
}

namespace {

/// Of float types; computed once, as the interpreter asks for each value.
struct FloatScale {
  double roundoff = 0, largest = 0, least_subnormal = 0;
};
FloatScale float_scale_of(const TypeRow& r) {
  if (!r.floating) return {};
  // f8e4m3 has numbers in place of infinities
  const double largest = r.type == DType::f64 ? std::numeric_limits<double>::max()
                         : r.type == DType::f8e4m3
                             ? 448
                             : std::ldexp(2 - std::ldexp(1.0, -r.mantissa_bits), bias(r));
  return {std::ldexp(1.0, -r.mantissa_bits - 1), largest, std::ldexp(1.0, 1 - bias(r) - r.mantissa_bits)};
}
const FloatScale& float_scale(DType type) {
  static const std::array<FloatScale, dtype_count> scales = [] {
    std::array<FloatScale, dtype_count> made;
    for (const TypeRow& r : types) made[size_t(r.type)] = float_scale_of(r);
    return made;
  }();
  LUMINAL_CHECK(row_of(type).floating, "{} has no rounding", row_of(type).name);
  return scales[size_t(type)];
}

} // namespace

double unit_roundoff(DType type) { return float_scale(type).roundoff; }
double largest(DType type) { return float_scale(type).largest; }
double least_subnormal(DType type) { return float_scale(type).least_subnormal; }

int64_t wrap(DType type, int64_t value) {
  switch (type) {
  case DType::boolean: return value != 0;
  case DType::i4: return int64_t(uint64_t(value) << 60) >> 60;
  case DType::u4: return value & 15;
  case DType::i8: return int8_t(value);
  case DType::u8: return uint8_t(value);
  case DType::i16: return int16_t(value);
  case DType::u16: return uint16_t(value);
  case DType::i32: return int32_t(value);
  case DType::u32: return uint32_t(value);
  default: return value;
  }
}
int64_t truncate_to(DType type, double value) {
  if (type == DType::boolean) return value != 0;
  if (std::isnan(value)) return 0;
  int width = bits(type) - is_signed(type);
  double end = std::ldexp(1.0, width); // the first number beyond the type
  if (value >= end) return is_signed(type) ? INT64_MAX >> (63 - width) : wrap(type, -1);
  if (is_signed(type)) return value < -end ? INT64_MIN >> (63 - width) : int64_t(value);
  return value <= 0 ? 0 : int64_t(uint64_t(value));
}
double integer_to_f64(DType type, int64_t value) {
  return type == DType::u64 ? double(uint64_t(value)) : double(value);
}

double integer_to_float(DType to, DType from, int64_t value) {
  bool negative = from != DType::u64 && value < 0;
  uint64_t magnitude = negative ? 0 - uint64_t(value) : uint64_t(value);
  if (int excess = std::bit_width(magnitude) - 53;
      excess > 0 && to != DType::f64) { // to odd first, so that the second rounding is the only one
    uint64_t lost = magnitude & ((uint64_t(1) << excess) - 1);
    magnitude = magnitude >> excess << excess | (lost != 0 ? uint64_t(1) << excess : 0);
  }
  return round_to(to, negative ? -double(magnitude) : double(magnitude));
}

int64_t load_i64(DType type, const std::byte* data, int64_t index) {
  switch (type) {
  case DType::boolean: return read<uint8_t>(data, index) != 0;
  case DType::i4:
  case DType::u4: return wrap(type, int64_t(data[index >> 1] >> (index & 1 ? 4 : 0)));
  case DType::i8: return read<int8_t>(data, index);
  case DType::u8: return read<uint8_t>(data, index);
  case DType::i16: return read<int16_t>(data, index);
  case DType::u16: return read<uint16_t>(data, index);
  case DType::i32: return read<int32_t>(data, index);
  case DType::u32: return read<uint32_t>(data, index);
  case DType::i64:
  case DType::u64: return read<int64_t>(data, index);
  default: return truncate_to(DType::i64, load_f64(type, data, index));
  }
}
void store_i64(DType type, std::byte* data, int64_t index, int64_t value) {
  switch (type) {
  case DType::boolean: write<uint8_t>(data, index, value != 0); return;
  case DType::i4:
  case DType::u4: {
    std::byte& pair = data[index >> 1];
    auto half = std::byte(value & 15);
    pair = index & 1 ? (pair & std::byte(0x0F)) | half << 4 : (pair & std::byte(0xF0)) | half;
    return;
  }
  case DType::i8:
  case DType::u8: write<uint8_t>(data, index, uint8_t(value)); return;
  case DType::i16:
  case DType::u16: write<uint16_t>(data, index, uint16_t(value)); return;
  case DType::i32:
  case DType::u32: write<uint32_t>(data, index, uint32_t(value)); return;
  case DType::i64:
  case DType::u64: write<int64_t>(data, index, value); return;
  default: store_f64(type, data, index, integer_to_float(type, DType::i64, value)); return;
  }
}
double load_f64(DType type, const std::byte* data, int64_t index) {
  switch (type) {
  case DType::f64: return read<double>(data, index);
  case DType::f32: return read<float>(data, index);
  case DType::bf16: return std::bit_cast<float>(uint32_t(read<uint16_t>(data, index)) << 16);
  case DType::f16: return decode(row_of(type), read<uint16_t>(data, index));
  case DType::f8e4m3:
  case DType::f8e5m2: return decode(row_of(type), read<uint8_t>(data, index));
  default: return integer_to_f64(type, load_i64(type, data, index));
  }
}
void store_f64(DType type, std::byte* data, int64_t index, double value) {
  switch (type) {
  case DType::f64: write<double>(data, index, value); return;
  case DType::f32: write<float>(data, index, float(value)); return;
  case DType::bf16:
  case DType::f16:
    write<uint16_t>(data, index, uint16_t(encode(row_of(type), round_to(type, value))));
    return;
  case DType::f8e4m3:
  case DType::f8e5m2:
    write<uint8_t>(data, index, uint8_t(encode(row_of(type), round_to(type, value))));
    return;
  default: store_i64(type, data, index, truncate_to(type, value)); return;
  }
}

} // namespace luminal
