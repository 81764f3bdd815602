// tensor/quantize_test.cpp -- products of narrow numbers: exact integers, bf16, quantised weights
// and activations within their stated errors.
#include "luminal/luminal.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace luminal::quantize_test {
namespace {

std::vector<float> random_values(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& v : values) v = float(int(random() % 20001) - 10000) / 5000;
  return values;
}
template <class T> std::vector<T> random_integers(size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<T> values(count);
  for (T& v : values) v = T(random() % 256);
  return values;
}

/// u8 [m, k] times i8, given as [k, n] or as [n, k]: every bit of the i32 sums, extremes included.
TEST(NarrowProducts, OfBytesAreExact) {
  struct Shape {
    int64_t m, n, k;
  };
  for (const Shape& s :
       {Shape{1, 33, 64}, {3, 17, 12}, {5, 7, 13}, {33, 65, 128}, {40, 70, 67}, {4, 16, 4}, {2, 40, 1024}}) {
    auto a = random_integers<uint8_t>(size_t(s.m * s.k), 1);
    auto b = random_integers<int8_t>(size_t(s.n * s.k), 2);
    a[0] = 255, b[0] = -128;
    Graph g;
    Tensor x = g.tensor({s.m, s.k}, DType::u8), rows = g.tensor({s.n, s.k}, DType::i8),
           columns = g.tensor({s.k, s.n}, DType::i8);
    Tensor by_rows = x.cast(DType::i32).matmul(rows.transpose().cast(DType::i32)).keep(),
           by_columns = x.cast(DType::i32).matmul(columns.cast(DType::i32)).keep();
    x.set(a);
    rows.set(b);
    columns.set(b);
    g.execute();
    const auto got_rows = by_rows.data<int32_t>(), got_columns = by_columns.data<int32_t>();
    for (int64_t i = 0; i < s.m; i++)
      for (int64_t j = 0; j < s.n; j++) {
        int32_t of_rows = 0, of_columns = 0;
        for (int64_t p = 0; p < s.k; p++) {
          of_rows += int32_t(a[size_t(i * s.k + p)]) * b[size_t(j * s.k + p)];
          of_columns += int32_t(a[size_t(i * s.k + p)]) * b[size_t(p * s.n + j)];
        }
        ASSERT_EQ(got_rows[size_t(i * s.n + j)], of_rows) << s.m << " " << s.n << " " << s.k;
        ASSERT_EQ(got_columns[size_t(i * s.n + j)], of_columns) << s.m << " " << s.n << " " << s.k;
      }
  }
}

/// Many small products, each of a pair of matrices.
TEST(NarrowProducts, OfBatchesAreExact) {
  constexpr int64_t batch = 3, m = 37, n = 34, k = 39;
  auto a = random_integers<uint8_t>(batch * m * k, 7);
  auto b = random_integers<int8_t>(batch * n * k, 8);
  Graph g;
  Tensor x = g.tensor({batch, m, k}, DType::u8), y = g.tensor({batch, k, n}, DType::i8),
         z = x.cast(DType::i32).matmul(y.cast(DType::i32)).keep();
  x.set(a);
  y.set(b);
  g.execute();
  const auto got = z.data<int32_t>();
  for (int64_t i = 0; i < batch * m; i++)
    for (int64_t j = 0; j < n; j++) {
      int32_t sum = 0;
      for (int64_t p = 0; p < k; p++)
        sum += int32_t(a[size_t(i * k + p)]) * b[size_t(((i / m) * k + p) * n + j)];
      ASSERT_EQ(got[size_t(i * n + j)], sum) << i << " " << j;
    }
}

TEST(NarrowProducts, OfBf16SumInF32) {
  for (auto [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 20, 64},
                         {7, 33, 130},
                         {40, 48, 256},
                         {64, 65, 131},
                         {3, 5, 7}}) {
    Graph g;
    Tensor a = g.tensor({m, k}), b = g.tensor({n, k}), c = g.tensor({k, n});
    // The casts stand for inputs that are stored so.
    Tensor x = a.cast(DType::bf16).cast(DType::f32);
    Tensor rows = x.matmul(b.cast(DType::bf16).cast(DType::f32).transpose()).keep(),
           columns = x.matmul(c.cast(DType::bf16).cast(DType::f32)).keep();
    const auto av = random_values(size_t(m * k), 3), bv = random_values(size_t(n * k), 4);
    a.set(av);
    b.set(bv);
    c.set(bv);
    g.execute();
    auto rounded = [](float v) { // to bf16, ties to even
      uint32_t bits = std::bit_cast<uint32_t>(v);
      return double(std::bit_cast<float>((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u));
    };
    const auto got_rows = rows.data<float>(), got_columns = columns.data<float>();
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        double by_rows = 0, by_columns = 0, size = 0;
        for (int64_t p = 0; p < k; p++) {
          const double v = rounded(av[size_t(i * k + p)]);
          by_rows += v * rounded(bv[size_t(j * k + p)]);
          by_columns += v * rounded(bv[size_t(p * n + j)]);
          size += std::abs(v) * 2;
        }
        ASSERT_LE(std::abs(got_rows[size_t(i * n + j)] - by_rows), 1e-6 * size);
        ASSERT_LE(std::abs(got_columns[size_t(i * n + j)] - by_columns), 1e-6 * size);
      }
  }
}

class Quantised : public testing::TestWithParam<WeightFormat> {};

TEST_P(Quantised, WeightsAreTheNearestCodesAndProductsKeepTheirErrors) {
  const WeightFormat format = GetParam();
  struct Shape {
    int64_t m, n, k;
  };
  for (auto [m, n, k] :
       {Shape{1, 48, 256}, {5, 21, 256}, {12, 40, 256}, {5, 32, 27}, {1, 16, 200}, {7, 5, 131}, {2, 8, 1}}) {
    const int64_t group = format.group ? format.group : k, groups = (k + group - 1) / group;
    const auto values = random_values(size_t(n * k), 5), inputs = random_values(size_t(m * k), 6);
    const PackedWeight packed = quantize_weight(values, n, k, format);
    EXPECT_EQ(packed.codes.size(), size_t(n * ((k + 31) / 32 * 32) * format.bits / 8));
    EXPECT_EQ(packed.scales.size(), size_t(n * groups));
    Graph g;
    Tensor x = g.tensor({m, k});
    const QuantizedWeight alone = quantized_weight(g, "w", packed),
                          tiled = quantized_weight(g, "t", packed, RowOrder::words),
                          by_bytes = quantized_weight(g, "b", packed, RowOrder::bytes);
    Tensor unpacked = dequantize(alone).keep(), unpacked_tiled = dequantize(tiled).keep(),
           exact = x.matmul(dequantize(alone).transpose()).keep(),
           in_bytes = matmul_transposed(quantize_rows(x), alone).keep(),
           in_tiles = matmul_transposed(quantize_rows(x), tiled).keep(),
           unpacked_bytes = dequantize(by_bytes).keep(), of_blocks = matmul_transposed(x, by_bytes).keep(),
           of_blocks_apart = matmul_transposed(x, alone).keep();
    x.set(inputs);
    g.execute();
    const auto weights = unpacked.data<float>();
    EXPECT_EQ(weights, unpacked_tiled.data<float>());
    EXPECT_EQ(weights, unpacked_bytes.data<float>());
    const auto block_sums = of_blocks.data<float>(), block_sums_apart = of_blocks_apart.data<float>();
    for (size_t i = 0; i < values.size(); i++) {
      const int64_t row = int64_t(i) / k, column = int64_t(i) % k;
      const float scale = packed.scales[size_t(row * groups + column / group)];
      ASSERT_LE(std::abs(weights[i] - values[i]), scale * 0.5001f + 1e-6f) << i;
    }
    const auto full = exact.data<float>(), bytes = in_bytes.data<float>(), tiles = in_tiles.data<float>();
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        double sum = 0, size = 0, rounding = 0; // rounding: half a step of each activation
        for (int64_t b = 0; b < k; b += 32) {
          double largest = 0;
          for (int64_t p = b; p < std::min(b + 32, k); p++)
            largest = std::max(largest, std::abs(double(inputs[size_t(i * k + p)])));
          for (int64_t p = b; p < std::min(b + 32, k); p++) {
            const double w = weights[size_t(j * k + p)], v = inputs[size_t(i * k + p)];
            sum += v * w;
            size += std::abs(v * w);
            rounding += std::abs(w) * largest / 127 * 0.5001;
          }
        }
        const size_t at = size_t(i * n + j);
        ASSERT_LE(std::abs(full[at] - sum), 1e-6 * size);
        ASSERT_LE(std::abs(block_sums[at] - sum), 5e-6 * size);
        ASSERT_LE(std::abs(block_sums_apart[at] - sum), 5e-6 * size);
        ASSERT_LE(std::abs(bytes[at] - sum), rounding + 1e-5 * size);
        ASSERT_LE(std::abs(tiles[at] - sum), rounding + 1e-5 * size);
        ASSERT_LE(std::abs(bytes[at] - tiles[at]), 1e-5 * size); // the same integers
      }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, Quantised,
                         testing::Values(WeightFormat{8, true, 32}, WeightFormat{8, false, 64},
                                         WeightFormat{8, true, 0}, WeightFormat{4, true, 32},
                                         WeightFormat{4, false, 128}, WeightFormat{4, false, 0}),
                         [](const auto& row) {
                           return std::string(row.param.bits == 8 ? "i8" : "i4") +
                                  (row.param.symmetric ? "_symmetric_" : "_affine_") +
                                  std::to_string(row.param.group);
                         });

/// Rows are output channels, 27 numbers long.
TEST(Quantised, WeightsOfAConvolution) {
  constexpr int64_t channels = 3, results = 10, side = 9;
  const auto values = random_values(size_t(results * channels * 9), 5),
             image = random_values(size_t(channels * side * side), 6);
  for (const int bits : {8, 4}) {
    Graph g;
    Tensor x = g.tensor({1, channels, side, side});
    const QuantizedWeight weight =
        quantized_weight(g, "w", quantize_weight(values, results, channels * 9, {.bits = bits, .group = 0}));
    Tensor unpacked = dequantize(weight).keep(),
           y = conv2d(x, dequantize(weight).reshape({results, channels, 3, 3})).keep();
    x.set(image);
    g.execute();
    const auto w = unpacked.data<float>(), got = y.data<float>();
    ASSERT_EQ(w.size(), values.size());
    for (int64_t o = 0; o < results; o++)
      for (int64_t i = 0; i < side - 2; i++)
        for (int64_t j = 0; j < side - 2; j++) {
          double sum = 0, size = 0;
          for (int64_t p = 0; p < channels * 9; p++) {
            const double term = double(w[size_t(o * channels * 9 + p)]) *
                                image[size_t((p / 9 * side + i + p / 3 % 3) * side + j + p % 3)];
            sum += term, size += std::abs(term);
          }
          ASSERT_LE(std::abs(got[size_t((o * (side - 2) + i) * (side - 2) + j)] - sum), 1e-6 * size);
        }
  }
}

TEST(Quantised, ZeroRowsAndWrongArguments) {
  Graph g;
  Tensor x = g.tensor({2, 32});
  const PackedWeight packed = quantize_weight(std::vector<float>(32 * 4, 0.0f), 4, 32);
  Tensor y = matmul_transposed(quantize_rows(x), quantized_weight(g, "w", packed, RowOrder::words)).keep();
  x.set(std::vector<float>(64, 0.0f));
  g.execute();
  for (float v : y.data<float>()) EXPECT_EQ(v, 0.0f);
  EXPECT_THROW(quantize_weight({}, 1, 0), Error);
  EXPECT_THROW(quantize_weight({1.0f}, 1, 1, {.group = -32}), Error);
  EXPECT_THROW(quantize_weight(std::vector<float>(32, NAN), 1, 32), Error);
  EXPECT_THROW(quantize_weight(std::vector<float>(64, 1.0f), 1, 64, {.bits = 3}), Error);
  EXPECT_THROW(quantize_weight(std::vector<float>(64, 1.0f), 1, 64, {.group = 48}), Error);
  EXPECT_THROW(quantize_rows(g.tensor({2, g.dim("k", 1, 64)})), Error);
  // Blocks are filled up, but 33 columns are not 40.
  const QuantizedWeight odd =
      quantized_weight(g, "odd", quantize_weight(std::vector<float>(40, 1.0f), 1, 40));
  EXPECT_THROW(matmul_transposed(quantize_rows(g.tensor({2, 33})), odd), Error);
  EXPECT_THROW(matmul_transposed(g.tensor({2, 33}), odd), Error);
}

} // namespace
} // namespace luminal::quantize_test
