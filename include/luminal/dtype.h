// luminal/dtype.h -- element types.
#pragma once
#include <cstdint>
#include <string_view>

namespace luminal {

enum class DType : uint8_t {
  boolean,
  i4,
  u4,
  i8,
  u8,
  i16,
  u16,
  i32,
  u32,
  i64,
  u64,
  f8e4m3,
  f8e5m2,
  bf16,
  f16,
  f32,
  f64
};

/// "f32", "bf16", "bool", ...: the spelling of every text form.
std::string_view to_string(DType type);

/// 16-bit floats as storage; the library converts, the program need not compute with them.
struct Half {
  uint16_t bits;
};
struct BFloat16 {
  uint16_t bits;
};

/// The DType of a C++ type: float, double, bool, (u)int8_t .. (u)int64_t, Half, BFloat16.
template <class T>
inline constexpr DType dtype_of = [] {
  static_assert(!sizeof(T), "no luminal dtype for this C++ type");
  return DType::f32;
}();
template <> inline constexpr DType dtype_of<float> = DType::f32;
template <> inline constexpr DType dtype_of<double> = DType::f64;
template <> inline constexpr DType dtype_of<bool> = DType::boolean;
template <> inline constexpr DType dtype_of<int8_t> = DType::i8;
template <> inline constexpr DType dtype_of<uint8_t> = DType::u8;
template <> inline constexpr DType dtype_of<int16_t> = DType::i16;
template <> inline constexpr DType dtype_of<uint16_t> = DType::u16;
template <> inline constexpr DType dtype_of<int32_t> = DType::i32;
template <> inline constexpr DType dtype_of<uint32_t> = DType::u32;
template <> inline constexpr DType dtype_of<int64_t> = DType::i64;
template <> inline constexpr DType dtype_of<uint64_t> = DType::u64;
template <> inline constexpr DType dtype_of<Half> = DType::f16;
template <> inline constexpr DType dtype_of<BFloat16> = DType::bf16;

} // namespace luminal
