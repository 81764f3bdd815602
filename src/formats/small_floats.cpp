// formats/small_floats.cpp -- conversions between f32 and the 16- and 8-bit floats.
#include "formats/quants.h"
#include <bit>
#include <cmath>
#include <limits>

namespace luminal {
namespace {

/// Bits to the right of the mantissa's end are rounded to nearest, ties to even.
uint32_t round_off(uint32_t value, int bits) {
  const uint32_t half = 1U << (bits - 1);
  const uint32_t rest = value & ((1U << bits) - 1);
  uint32_t kept = value >> bits;
  if (rest > half || (rest == half && (kept & 1) != 0)) ++kept;
  return kept;
}

float small_float(uint32_t sign, uint32_t exponent, uint32_t mantissa, int mantissa_bits, int bias) {
  const float scale = exponent == 0 ? std::ldexp(static_cast<float>(mantissa), 1 - bias - mantissa_bits)
                                    : std::ldexp(static_cast<float>(mantissa | 1U << mantissa_bits),
                                                 static_cast<int>(exponent) - bias - mantissa_bits);
  return sign != 0 ? -scale : scale;
}

} // namespace

float half_to_float(uint16_t bits) {
  const uint32_t sign = bits >> 15, exponent = bits >> 10 & 0x1F, mantissa = bits & 0x3FF;
  if (exponent == 0x1F) return std::bit_cast<float>(sign << 31 | 0x7F800000U | mantissa << 13);
  return small_float(sign, exponent, mantissa, 10, 15);
}

uint16_t float_to_half(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const auto sign = static_cast<uint16_t>(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7FFFFFFF;
  if (magnitude > 0x7F800000) // NaN: quiet, the top of the payload kept
    return static_cast<uint16_t>(sign | 0x7E00 | (magnitude >> 13 & 0x3FF));
  if (magnitude >= 0x47800000) return static_cast<uint16_t>(sign | 0x7C00); // 65536 and above
  if (magnitude < 0x33000000) return sign; // below half of the smallest subnormal
  const int exponent = static_cast<int>(magnitude >> 23) - 127;
  const uint32_t mantissa = (magnitude & 0x7FFFFF) | 0x800000;
  if (exponent < -14) return static_cast<uint16_t>(sign | round_off(mantissa, 13 + (-14 - exponent)));
  // A carry out of the mantissa goes into the exponent, up to infinity for values over 65519.
  return static_cast<uint16_t>(
      sign | (((static_cast<uint32_t>(exponent + 15) << 10) + round_off(mantissa, 13)) - 0x400));
}

float bfloat16_to_float(uint16_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

uint16_t float_to_bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFF) > 0x7F800000) return static_cast<uint16_t>(bits >> 16 | 0x40);
  return static_cast<uint16_t>(round_off(bits, 16));
}

// The "FN" variant of https://arxiv.org/abs/2209.05433: no infinity, one NaN of each sign.
float f8_e4m3_to_float(uint8_t bits) {
  if ((bits & 0x7F) == 0x7F)
    return std::copysign(std::numeric_limits<float>::quiet_NaN(), bits & 0x80 ? -1.0F : 1.0F);
  return small_float(bits >> 7, bits >> 3 & 0xF, bits & 7, 3, 7);
}

float f8_e5m2_to_float(uint8_t bits) { return half_to_float(static_cast<uint16_t>(bits << 8)); }

} // namespace luminal
