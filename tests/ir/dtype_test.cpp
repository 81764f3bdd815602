// tests/ir/dtype_test.cpp -- every bit pattern of the small types, rounding against references,
// promotion.
#include "ir/dtype.h"
#include <array>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <random>

namespace luminal {
namespace {

constexpr DType small_floats[] = {DType::f8e4m3, DType::f8e5m2, DType::bf16, DType::f16};

double value_of(DType type, uint32_t pattern) {
  std::byte data[4];
  std::memcpy(data, &pattern, 4);
  return load_f64(type, data, 0);
}
uint32_t pattern_of(DType type, double value) {
  std::byte data[4] = {};
  store_f64(type, data, 0, value);
  uint32_t pattern;
  std::memcpy(&pattern, data, 4);
  return pattern;
}

/// The definition of a format, written down once more: sign, exponent, fraction.
double reference(int exponent_bits, int mantissa_bits, bool infinities, uint32_t pattern) {
  int exponent = int(pattern >> mantissa_bits) & ((1 << exponent_bits) - 1);
  uint32_t fraction = pattern & ((1u << mantissa_bits) - 1);
  double sign = (pattern >> (exponent_bits + mantissa_bits)) & 1 ? -1 : 1;
  int bias = (1 << (exponent_bits - 1)) - 1;
  if (exponent == (1 << exponent_bits) - 1) {
    if (infinities) return fraction ? NAN : sign * INFINITY;
    if (fraction == (1u << mantissa_bits) - 1) return NAN;
  }
  double m = fraction / std::pow(2.0, mantissa_bits);
  return exponent == 0 ? sign * m * std::pow(2.0, 1 - bias) : sign * (1 + m) * std::pow(2.0, exponent - bias);
}

TEST(DType, EveryPatternDecodesAndComesBack) {
  struct Format {
    DType type;
    int exponent, mantissa;
    bool infinities;
  };
  for (Format f : {Format{DType::f8e4m3, 4, 3, false},
                   {DType::f8e5m2, 5, 2, true},
                   {DType::bf16, 8, 7, true},
                   {DType::f16, 5, 10, true}})
    for (uint32_t p = 0; p < 1u << bits(f.type); ++p) {
      double expected = reference(f.exponent, f.mantissa, f.infinities, p), found = value_of(f.type, p);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(found)) << to_string(f.type) << " " << p;
        EXPECT_TRUE(std::isnan(value_of(f.type, pattern_of(f.type, found))));
        continue;
      }
      ASSERT_EQ(expected, found) << to_string(f.type) << " " << p;
      ASSERT_EQ(std::signbit(expected), std::signbit(found));
      ASSERT_EQ(p, pattern_of(f.type, found)) << to_string(f.type);
    }
}

TEST(DType, RoundsToTheNearestTiesToEven) {
  for (DType type : small_floats) {
    // Between neighbours: below the middle goes down, above up, the middle to the even pattern.
    for (uint32_t p = 0; p + 1 < 1u << (bits(type) - 1); ++p) {
      double low = value_of(type, p), high = value_of(type, p + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) break;
      double middle = (low + high) / 2;
      for (double sign : {1.0, -1.0}) {
        EXPECT_EQ(sign * (p % 2 == 0 ? low : high), round_to(type, sign * middle));
        EXPECT_EQ(sign * low, round_to(type, sign * std::nextafter(middle, 0)));
        EXPECT_EQ(sign * high, round_to(type, sign * std::nextafter(middle, INFINITY)));
      }
    }
  }
  std::mt19937 random(7);
  for (int i = 0; i < 200000; ++i) { // f32 against the processor, bf16 against f32 cut with a carry
    uint64_t pattern = uint64_t(random()) << 32 | random();
    double value = std::bit_cast<double>(pattern);
    if (std::isnan(value)) continue;
    EXPECT_EQ(double(float(value)), round_to(DType::f32, value));
  }
}

TEST(DType, OverflowAndLimits) {
  EXPECT_EQ(448, largest(DType::f8e4m3));
  EXPECT_EQ(57344, largest(DType::f8e5m2));
  EXPECT_EQ(65504, largest(DType::f16));
  EXPECT_EQ(448, round_to(DType::f8e4m3, 463.9));
  EXPECT_EQ(448, round_to(DType::f8e4m3, 464)); // a tie with 480, which is NaN's neighbour and odd
  EXPECT_TRUE(std::isnan(round_to(DType::f8e4m3, 465)));
  EXPECT_TRUE(std::isnan(round_to(DType::f8e4m3, -INFINITY)));
  EXPECT_EQ(INFINITY, round_to(DType::f8e5m2, 61440));
  EXPECT_EQ(57344, round_to(DType::f8e5m2, 61439));
  EXPECT_EQ(65504, round_to(DType::f16, 65519));
  EXPECT_EQ(-INFINITY, round_to(DType::f16, -65520));
  for (DType type : small_floats) {
    EXPECT_EQ(least_subnormal(type), value_of(type, 1)) << to_string(type);
    EXPECT_EQ(0, round_to(type, least_subnormal(type) / 2));
    EXPECT_EQ(least_subnormal(type), round_to(type, least_subnormal(type) * 0.51));
    EXPECT_EQ(unit_roundoff(type) * 2, value_of(type, pattern_of(type, 1) + 1) - 1);
  }
  EXPECT_EQ(0x1p-24, unit_roundoff(DType::f32));
  EXPECT_EQ(0x1p-53, unit_roundoff(DType::f64));
}

TEST(DType, FourBitElementsShareBytes) {
  std::array<std::byte, 3> data{};
  for (int i = 0; i < 5; ++i) store_i64(DType::i4, data.data(), i, i - 3);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(i - 3, load_i64(DType::i4, data.data(), i));
  EXPECT_EQ(std::byte(0xED), data[0]); // -3 in the low half, -2 in the high half
  store_i64(DType::i4, data.data(), 1, 7);
  EXPECT_EQ(-3, load_i64(DType::i4, data.data(), 0));
  for (int64_t v = -20; v < 40; ++v) {
    store_i64(DType::u4, data.data(), 3, v);
    EXPECT_EQ(v & 15, load_i64(DType::u4, data.data(), 3));
  }
  EXPECT_EQ(3, storage_bytes(DType::i4, 5));
  EXPECT_EQ(20, storage_bytes(DType::f32, 5));
}

TEST(DType, IntegersWrapAndSaturate) {
  EXPECT_EQ(-128, wrap(DType::i8, 128));
  EXPECT_EQ(255, wrap(DType::u8, -1));
  EXPECT_EQ(-8, wrap(DType::i4, 8));
  EXPECT_EQ(1, wrap(DType::boolean, 256));
  EXPECT_EQ(127, truncate_to(DType::i8, 1e9));
  EXPECT_EQ(-128, truncate_to(DType::i8, -128.9));
  EXPECT_EQ(0, truncate_to(DType::u8, -0.9));
  EXPECT_EQ(0, truncate_to(DType::i32, NAN));
  EXPECT_EQ(INT64_MAX, truncate_to(DType::i64, 0x1p63));
  EXPECT_EQ(INT64_MIN, truncate_to(DType::i64, -INFINITY));
  EXPECT_EQ(-1, truncate_to(DType::u64, INFINITY)); // all ones
  EXPECT_EQ(int64_t(1) << 62, truncate_to(DType::i64, 0x1p62));
  EXPECT_EQ(1, truncate_to(DType::boolean, 0.25));
}

TEST(DType, LargeIntegersRoundOnce) {
  // 2^53 + 2^29 + 1: just above a tie of f32; rounding to f64 first would make it the tie.
  int64_t value = (int64_t(1) << 60) + (int64_t(1) << 36) + 1;
  EXPECT_EQ(0x1p60 + 0x1p37, integer_to_float(DType::f32, DType::i64, value));
  EXPECT_EQ(0x1p60, integer_to_float(DType::f32, DType::i64, value - 1));
  EXPECT_EQ(double(float(INT64_MIN)), integer_to_float(DType::f32, DType::i64, INT64_MIN));
  EXPECT_EQ(0x1p64, integer_to_float(DType::f32, DType::u64, -1));
  std::mt19937_64 random(3);
  for (int i = 0; i < 100000; ++i) {
    auto v = int64_t(random() >> (random() % 60));
    EXPECT_EQ(double(float(v)), integer_to_float(DType::f32, DType::i64, v));
    EXPECT_EQ(double(float(uint64_t(v))), integer_to_float(DType::f32, DType::u64, v));
    EXPECT_EQ(double(v), integer_to_float(DType::f64, DType::i64, v));
  }
}

TEST(DType, Promotion) {
  EXPECT_EQ(DType::f32, promote(DType::f16, DType::bf16));
  EXPECT_EQ(DType::f32, promote(DType::f8e4m3, DType::f8e5m2));
  EXPECT_EQ(DType::f16, promote(DType::f16, DType::i64));
  EXPECT_EQ(DType::i16, promote(DType::i8, DType::u8));
  EXPECT_EQ(DType::i32, promote(DType::i32, DType::u16));
  EXPECT_EQ(DType::i64, promote(DType::u64, DType::i64));
  for (int a = 0; a < dtype_count; ++a)
    for (int b = 0; b < dtype_count; ++b) {
      EXPECT_EQ(promote(DType(a), DType(b)), promote(DType(b), DType(a)));
      EXPECT_EQ(DType(a), promote(DType(a), DType::boolean));
    }
  for (int a = 0; a < dtype_count; ++a) {
    EXPECT_EQ(DType(a), parse_dtype(to_string(DType(a))));
    EXPECT_EQ(DType(a), promote(DType(a), DType(a)));
  }
  EXPECT_FALSE(parse_dtype("f31"));
}

} // namespace
} // namespace luminal
