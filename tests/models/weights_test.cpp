// tests/models/weights_test.cpp -- packed weights unpacked by terms equal the reference reading of the formats, alone and inside a product.
#include "formats/quants.h"
#include "models/weights.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace luminal::models {
namespace {

class PackedWeights : public testing::TestWithParam<StorageType> {};

void check(StorageType type, int64_t rows) {
  const int64_t columns = 512;
  std::mt19937 random(7);
  std::vector<float> values(size_t(rows * columns));
  for (float& v : values) v = float(int(random() % 20001) - 10000) / 3000;
  std::string packed = quantize(type, values).value();
  std::vector<float> want(values.size());
  std::span<const std::byte> bytes(reinterpret_cast<const std::byte*>(packed.data()), packed.size());
  dequantize(type, bytes, want).value();

  ModelFile file;
  TensorView view{
      .name = "w", .type = type, .shape = {rows, columns}, .bytes = bytes, .file_offset = 0, .file_index = 0};
  Graph g;
  std::optional<QuantizedWeight> codes;
  Tensor w = file_weight(g, file, view, &codes);
  ASSERT_EQ(codes.has_value(), storage_info(type).quantized());
  Tensor x = g.tensor({3, columns}), all = (w.cast(DType::f32) * 1).keep(),
         product = x.matmul(w.cast(DType::f32).transpose()).keep();
  if (!codes) codes = quantized_weight(g, "unused", quantize_weight(want, rows, columns)); // not compared
  Tensor interleaved = dequantize(*codes).keep(),
         in_bytes = matmul_transposed(quantize_rows(x), *codes).keep();
  // Rows beside each other byte by byte, for activations as they are.
  std::optional<QuantizedWeight> beside;
  view.name = "v";
  file_weight(g, file, view, &beside, RowOrder::bytes);
  if (!beside) beside = codes;
  Tensor by_bytes = dequantize(*beside).keep(), of_blocks = matmul_transposed(x, *beside).keep();
  std::vector<float> inputs(size_t(3 * columns));
  for (float& v : inputs) v = float(int(random() % 2001) - 1000) / 1000;
  x.set(inputs);
  g.execute();
  auto got = all.data<float>();
  for (size_t i = 0; i < want.size(); i++)
    ASSERT_LE(std::abs(got[i] - want[i]), 1e-6f * (1 + std::abs(want[i]))) << i;
  const bool quantised = storage_info(type).quantized();
  if (quantised) {
    EXPECT_EQ(interleaved.data<float>(), got);
    EXPECT_EQ(by_bytes.data<float>(), got);
  }
  const auto of_bytes = in_bytes.data<float>();
  auto sums = product.data<float>(), block_sums = of_blocks.data<float>();
  for (int64_t m = 0; m < 3; m++)
    for (int64_t n = 0; n < rows; n++) {
      double sum = 0, size = 0, rounding = 0;
      for (int64_t k = 0; k < columns; k++) {
        double term = double(inputs[size_t(m * columns + k)]) * want[size_t(n * columns + k)];
        sum += term, size += std::abs(term);
        rounding += std::abs(want[size_t(n * columns + k)]) / 127 * 0.5001; // activations of at most 1
      }
      ASSERT_LE(std::abs(sums[size_t(m * rows + n)] - sum), 1e-6 * size) << m << " " << n;
      if (quantised) {
        ASSERT_LE(std::abs(of_bytes[size_t(m * rows + n)] - sum), rounding + 1e-5 * size) << m << " " << n;
        // Offsets are taken from the sums of blocks, whose terms are larger than what is left: up to 16 times.
        ASSERT_LE(std::abs(block_sums[size_t(m * rows + n)] - sum), 5e-6 * size) << m << " " << n;
      }
    }
}

TEST_P(PackedWeights, EqualTheReference) {
  for (const int64_t rows : {5, 32}) check(GetParam(), rows);
}

INSTANTIATE_TEST_SUITE_P(Formats, PackedWeights,
                         testing::Values(StorageType::f32, StorageType::f16, StorageType::bf16,
                                         StorageType::q8_0, StorageType::q4_0, StorageType::q4_k,
                                         StorageType::q5_k, StorageType::q6_k),
                         [](const auto& tested) { return std::string(storage_name(tested.param)); });

} // namespace
} // namespace luminal::models
