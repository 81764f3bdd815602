// models/onnx_fused_test.cpp -- fused operators of ONNX Runtime's optimisers (com.microsoft), against their
// definition in double.
#include "formats/util.h"
#include "luminal/onnx.h"
#include "support/onnx_writer.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace luminal::onnx_fused_test {
namespace {

using namespace luminal::testing_formats;
using namespace luminal::testing_formats::onnx_writer;
constexpr int f32 = 1, u8 = 2, i32 = 6;

std::vector<float> random_numbers(size_t count, int seed) {
  std::mt19937 random{unsigned(seed)};
  std::uniform_real_distribution<float> between(-1, 1);
  std::vector<float> list(count);
  for (float& number : list) number = between(random);
  return list;
}

class OnnxFused : public ::testing::Test {
protected:
  OnnxModel load(const std::string& op, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& outputs, const std::vector<std::string>& attributes) {
    g_.nodes = {node(op, inputs, outputs, attributes, "com.microsoft")};
    put_file(folder_.file("m.onnx"),
             model(g_) + field(8, field(1, std::string_view("com.microsoft")) + field(2, int64_t(1))));
    return load_onnx(folder_.file("m.onnx"));
  }
  static void near(const std::vector<float>& got, const std::vector<double>& wanted) {
    ASSERT_EQ(got.size(), wanted.size());
    for (size_t k = 0; k < got.size(); ++k) EXPECT_NEAR(got[k], wanted[k], 2e-5) << k;
  }
  static std::string text(std::string_view name, std::string_view word) {
    return field(1, name) + field(4, word) + field(20, int64_t(3));
  }

  GraphText g_;
  TemporaryFolder folder_;
};

/// Behind the bias a tensor is added, then comes the activation.
TEST_F(OnnxFused, ConvolutionsWithASumAndAnActivation) {
  const auto x = random_numbers(10, 1), w = random_numbers(12, 2), z = random_numbers(6, 3);
  g_.initializers = {tensor("w", f32, {2, 2, 3}, raw(w)), tensor("b", f32, {2}, raw<float>({0.5F, -0.25F}))};
  g_.inputs = {value("x", f32, {1, 2, 5}), value("z", f32, {1, 2, 3})};
  g_.outputs = {value("y", f32, {1, 2, 3})};
  for (const bool added : {false, true}) {
    std::vector<std::string> inputs{"x", "w", "b"};
    if (added) inputs.emplace_back("z");
    OnnxModel m = load("FusedConv", inputs, {"y"}, {text("activation", "Relu")});
    m.input("x").set(x);
    if (added) m.input("z").set(z);
    m.graph.execute();
    std::vector<double> wanted;
    for (size_t o = 0; o < 2; ++o)
      for (size_t at = 0; at < 3; ++at) {
        double sum = (o == 0 ? 0.5 : -0.25) + (added ? double(z[3 * o + at]) : 0);
        for (size_t c = 0; c < 2; ++c)
          for (size_t k = 0; k < 3; ++k) sum += double(x[5 * c + at + k]) * double(w[6 * o + 3 * c + k]);
        wanted.push_back(std::max(sum, 0.0));
      }
    near(m.output("y").data<float>(), wanted);
  }
}

/// Weights of 2, 4 and 8 bits, the low bits of a byte first; blocks of 16 have a scale and a zero point.
TEST_F(OnnxFused, ProductsOfPackedBits) {
  constexpr size_t rows = 3, depth = 40, columns = 5, blocks = 3, block = 16;
  const auto x = random_numbers(rows * depth, 4), scales = random_numbers(columns * blocks, 5);
  g_.inputs = {value("x", f32, {3, 40})};
  g_.outputs = {value("y", f32, {3, 5})};
  for (const size_t bits : {size_t(2), size_t(4), size_t(8)})
    for (const bool zeros : {false, true}) {
      std::mt19937 random(7);
      const size_t per_byte = 8 / bits, zero_row = (blocks * bits + 7) / 8;
      std::vector<uint8_t> codes(columns * blocks * block / per_byte), zero_codes(columns * zero_row);
      for (auto* list : {&codes, &zero_codes})
        for (uint8_t& byte : *list) byte = uint8_t(random() % 256);
      const auto number = [&](const std::vector<uint8_t>& list, size_t at) {
        return double((list[at / per_byte] >> (at % per_byte * bits)) & ((1U << bits) - 1));
      };
      g_.initializers = {
          tensor("q", u8, {int64_t(columns), int64_t(blocks), int64_t(block / per_byte)}, raw(codes)),
          tensor("s", f32, {int64_t(columns * blocks)}, raw(scales)),
          tensor("z", u8, {int64_t(columns * zero_row)}, raw(zero_codes))};
      std::vector<std::string> inputs{"x", "q", "s"};
      if (zeros) inputs.emplace_back("z");
      OnnxModel m = load("MatMulNBits", inputs, {"y"},
                         {integer("K", int64_t(depth)), integer("N", int64_t(columns)),
                          integer("bits", int64_t(bits)), integer("block_size", int64_t(block))});
      m.input("x").set(x);
      m.graph.execute();
      const std::vector<float> y = m.output("y").data<float>();
      ASSERT_EQ(y.size(), rows * columns);
      for (size_t row = 0; row < rows; ++row)
        for (size_t n = 0; n < columns; ++n) {
          double sum = 0, size = 0;
          for (size_t k = 0; k < depth; ++k) {
            const double zero =
                zeros ? number(zero_codes, n * zero_row * per_byte + k / block) : double(1U << (bits - 1));
            const double product = double(x[row * depth + k]) * double(scales[n * blocks + k / block]) *
                                   (number(codes, n * blocks * block + k) - zero);
            sum += product, size += std::abs(product);
          }
          EXPECT_NEAR(y[row * columns + n], sum, 1e-6 * size)
              << bits << " " << zeros << " " << row << " " << n;
        }
    }
}

/// One head of 2 elements, 3 new places behind 1 of the past; the second sequence has a key less. What the
/// mask hides has a score of -10000, what comes later none.
TEST_F(OnnxFused, AttentionWithAMaskAndAPast) {
  constexpr size_t batch = 2, count = 3, size = 2, keys = 4;
  const auto x = random_numbers(batch * count * size, 8), w = random_numbers(size * 3 * size, 9),
             bias = random_numbers(3 * size, 10), past = random_numbers(2 * batch * size, 11);
  const std::vector<int32_t> mask{1, 1, 1, 1, 0, 1, 1, 1};
  g_.initializers = {tensor("w", f32, {2, 6}, raw(w)), tensor("b", f32, {6}, raw(bias))};
  g_.inputs = {value("x", f32, {2, 3, 2}), value("m", i32, {2, 4}), value("p", f32, {2, 2, 1, 1, 2})};
  g_.outputs = {value("y", f32, {2, 3, 2}), value("present", f32, {2, 2, 1, 4, 2})};
  OnnxModel m = load("Attention", {"x", "w", "b", "m", "p"}, {"y", "present"},
                     {integer("num_heads", 1), integer("unidirectional", 1)});
  m.input("x").set(x);
  m.input("m").set(mask);
  m.input("p").set(past);
  m.graph.execute();
  // part 0: queries, 1: keys, 2: values; of keys and values the first is the past's
  const auto made = [&](size_t b, size_t part, size_t at, size_t e) {
    if (part > 0 && at == 0) return double(past[(part - 1) * batch * size + b * size + e]);
    const size_t row = (b * count + at - (part > 0 ? 1 : 0)) * size;
    double sum = bias[part * size + e];
    for (size_t c = 0; c < size; ++c) sum += double(x[row + c]) * double(w[c * 3 * size + part * size + e]);
    return sum;
  };
  std::vector<double> wanted;
  for (size_t b = 0; b < batch; ++b)
    for (size_t q = 0; q < count; ++q) {
      double total = 0, sums[size] = {0, 0};
      for (size_t k = 0; k <= q + 1; ++k) {
        double score = mask[b * keys + k] ? 0 : -10000;
        for (size_t e = 0; e < size; ++e) score += made(b, 0, q, e) * made(b, 1, k, e) / std::sqrt(2.0);
        total += std::exp(score);
        for (size_t e = 0; e < size; ++e) sums[e] += std::exp(score) * made(b, 2, k, e);
      }
      for (const double sum : sums) wanted.push_back(sum / total);
    }
  near(m.output("y").data<float>(), wanted);
  std::vector<double> present;
  for (size_t part = 1; part < 3; ++part)
    for (size_t b = 0; b < batch; ++b)
      for (size_t k = 0; k < keys; ++k)
        for (size_t e = 0; e < size; ++e) present.push_back(made(b, part, k, e));
  near(m.output("present").data<float>(), present);
}

} // namespace
} // namespace luminal::onnx_fused_test
