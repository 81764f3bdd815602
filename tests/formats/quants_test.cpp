// formats/quants_test.cpp -- block formats against the values of gguf's reference code, and small
// floats exhaustively.
#include "formats/quants.h"
#include "formats/safetensors.h"
#include "formats/util.h"
#include <bit>
#include <cmath>
#include <gmock/gmock.h>
#include <limits>

namespace luminal {
namespace {

using namespace luminal::testing_formats;
using ::testing::HasSubstr;

const std::string golden = LUMINAL_SOURCE_DIR "/tests/formats/golden/quants.safetensors";

TEST(Quants, DequantizesAsTheReference) {
  const auto file = open_safetensors(golden);
  ASSERT_TRUE(file) << file.error();
  int types = 0;
  for (const auto& row : storage_types()) {
    const TensorView* bytes = file->find(std::string(row.name) + ".bytes");
    if (bytes == nullptr) continue;
    SCOPED_TRACE(row.name);
    ++types;
    const auto expected = dequantize(*file->find(std::string(row.name) + ".values"));
    ASSERT_TRUE(expected);
    std::vector<float> values(expected->size());
    const auto done = dequantize(row.type, bytes->bytes, values);
    ASSERT_TRUE(done) << done.error();
    for (size_t i = 0; i < values.size(); ++i) {
      // numpy rounds in another order in places: equal up to two units in the last place of the
      // largest term.
      const float tolerance = 4e-7F * std::max(1.0F, std::fabs((*expected)[i]));
      ASSERT_TRUE(std::fabs(values[i] - (*expected)[i]) <= tolerance)
          << i << ": " << values[i] << " " << (*expected)[i];
    }
  }
  EXPECT_EQ(types, 15);
}

TEST(Quants, QuantizesTheSimpleTypesAsTheReference) {
  const auto file = open_safetensors(golden);
  ASSERT_TRUE(file) << file.error();
  const auto x = dequantize(*file->find("x"));
  for (const char* name : {"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4", "TQ1_0", "TQ2_0"}) {
    SCOPED_TRACE(name);
    const auto ours = quantize(*storage_type_from_name(name), *x);
    ASSERT_TRUE(ours) << ours.error();
    EXPECT_EQ(*ours, detail::as_text(file->find(std::string(name) + ".quantized")->bytes));
  }
}

/// Root of the mean square error over the root of the mean square.
double relative_error(std::span<const float> x, std::span<const float> y) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += (x[i] - y[i]) * static_cast<double>(x[i] - y[i]);
    norm += x[i] * static_cast<double>(x[i]);
  }
  return std::sqrt(error / norm);
}

TEST(Quants, RoundTripStaysWithinTheFormatsPrecision) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> x(256 * 40);
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = normal(random) * std::pow(2.0F, static_cast<float>(i / 256 % 9) - 4);
  // What min/max rounding of normal values gives, with a margin; a wrong nibble order or scale
  // gives more than 0.3.
  const std::pair<StorageType, double> limits[] = {
      {StorageType::f32, 0.0},     {StorageType::f16, 4e-4},   {StorageType::bf16, 3e-3},
      {StorageType::q8_0, 7e-3},   {StorageType::q4_0, 0.095}, {StorageType::q4_1, 0.085},
      {StorageType::q5_0, 0.048},  {StorageType::q5_1, 0.042}, {StorageType::q4_k, 0.075},
      {StorageType::q5_k, 0.038},  {StorageType::q6_k, 0.018}, {StorageType::q2_k, 0.33},
      {StorageType::q3_k, 0.17},   {StorageType::q8_k, 9e-3},  {StorageType::iq4_nl, 0.08},
      {StorageType::iq4_xs, 0.09}, {StorageType::mxfp4, 0.15}};
  for (const auto& [type, limit] : limits) {
    SCOPED_TRACE(storage_name(type));
    const auto bytes = quantize(type, x);
    ASSERT_TRUE(bytes) << bytes.error();
    std::vector<float> back(x.size());
    ASSERT_TRUE(dequantize(type, detail::as_bytes(*bytes), back));
    const double error = relative_error(x, back);
    EXPECT_TRUE(error <= limit) << error;
  }
}

TEST(Quants, KeepsSpecialBlocks) {
  for (const auto& row : storage_types()) {
    if (!can_quantize(row.type) || !row.quantized()) continue;
    SCOPED_TRACE(row.name);
    const size_t n = row.block_elements;
    const float near = row.type == StorageType::mxfp4 ? 0.21F : 0.02F; // no step between 2 and 3
    for (const float value : {0.0F, 1.0F, -2.5F, 1e-30F}) {
      const std::vector<float> x(n, value);
      const auto bytes = quantize(row.type, x);
      ASSERT_TRUE(bytes) << bytes.error();
      std::vector<float> back(n);
      ASSERT_TRUE(dequantize(row.type, detail::as_bytes(*bytes), back));
      for (const float y : back)
        EXPECT_TRUE(std::fabs(y - value) <= near * std::fabs(value) + 1e-9F) << y << " for " << value;
    }
    std::vector<float> x(n, 1.0F);
    x[n / 2] = std::numeric_limits<float>::quiet_NaN();
    EXPECT_FALSE(quantize(row.type, x));
    x[n / 2] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(quantize(row.type, x));
    EXPECT_FALSE(quantize(row.type, std::span(x).first(n - 1)));
    if (row.type == StorageType::mxfp4 || row.type == StorageType::q8_k) continue; // their scales are wider
    x.assign(n, 3e38F);
    const auto large = quantize(row.type, x);
    ASSERT_FALSE(large);
    EXPECT_THAT(large.error(), HasSubstr("does not fit f16"));
  }
}

TEST(Quants, RefusesWhatItCannot) {
  std::vector<float> out(256);
  EXPECT_FALSE(dequantize(StorageType::iq2_xxs, std::as_bytes(std::span(out)), out));
  EXPECT_FALSE(dequantize(StorageType::q4_0, std::as_bytes(std::span(out)).first(17), out));
  EXPECT_FALSE(dequantize(StorageType::q4_0, std::as_bytes(std::span(out)).first(18), out));
  EXPECT_FALSE(quantize(StorageType::iq2_xxs, out));
}

TEST(SmallFloats, HalfInvertsAndRoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = half_to_float(static_cast<uint16_t>(bits));
    const auto expected = static_cast<float>(std::bit_cast<_Float16>(static_cast<uint16_t>(bits)));
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_TRUE(std::isnan(half_to_float(float_to_half(value))));
      continue;
    }
    ASSERT_EQ(std::bit_cast<uint32_t>(value), std::bit_cast<uint32_t>(expected)) << bits;
    ASSERT_EQ(float_to_half(value), bits);
  }
  std::mt19937 random(5);
  for (int i = 0; i < 2'000'000; ++i) {
    const auto value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_half(value), std::bit_cast<uint16_t>(static_cast<_Float16>(value))) << value;
  }
  // Halfway between neighbours of f16, where ties decide.
  for (uint32_t bits = 0; bits < 0x7BFF; ++bits) {
    const float middle =
        (half_to_float(static_cast<uint16_t>(bits)) + half_to_float(static_cast<uint16_t>(bits + 1))) / 2;
    ASSERT_EQ(float_to_half(middle), (bits & 1) != 0 ? bits + 1 : bits);
  }
}

TEST(SmallFloats, BfloatInvertsAndRoundsToNearestEven) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = bfloat16_to_float(static_cast<uint16_t>(bits));
    if (std::isnan(value))
      ASSERT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(value))));
    else
      ASSERT_EQ(float_to_bfloat16(value), bits);
  }
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3F808000U)), 0x3F80);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3F818000U)), 0x3F82);
  EXPECT_EQ(float_to_bfloat16(std::bit_cast<float>(0x3F808001U)), 0x3F81);
  EXPECT_EQ(float_to_bfloat16(std::numeric_limits<float>::max()), 0x7F80);
}

TEST(SmallFloats, EightBitValues) {
  EXPECT_EQ(f8_e4m3_to_float(0x7E), 448.0F); // https://arxiv.org/abs/2209.05433, table 1
  EXPECT_EQ(f8_e4m3_to_float(0x08), std::ldexp(1.0F, -6));
  EXPECT_EQ(f8_e4m3_to_float(0x01), std::ldexp(1.0F, -9));
  EXPECT_EQ(f8_e4m3_to_float(0xB8), -1.0F);
  EXPECT_TRUE(std::isnan(f8_e4m3_to_float(0x7F)));
  EXPECT_TRUE(std::isnan(f8_e4m3_to_float(0xFF)));
  EXPECT_EQ(f8_e5m2_to_float(0x7B), 57344.0F);
  EXPECT_EQ(f8_e5m2_to_float(0x01), std::ldexp(1.0F, -16));
  EXPECT_EQ(f8_e5m2_to_float(0xFC), -std::numeric_limits<float>::infinity());
  EXPECT_TRUE(std::isnan(f8_e5m2_to_float(0x7D)));
}

} // namespace
} // namespace luminal
