// tests/models/weights_test.cpp -- packed weights unpacked by terms equal the reference reading of
// the formats, alone and inside a product.
#include "formats/quants.h"
#include "formats/safetensors.h"
#include "models/weights.h"
#include <cmath>
#include <gtest/gtest.h>
#include <random>

namespace luminal::models {
namespace {

class PackedWeights : public testing::TestWithParam<StorageType> {};

/// Bytes of a matrix as a file has them: random values that were quantised, or blocks of gguf's
/// reference (tests/formats/golden).
std::string stored(StorageType type, int64_t rows, int64_t columns, std::mt19937& random) {
  if (can_quantize(type)) {
    std::vector<float> values(size_t(rows * columns));
    for (float& v : values) v = float(int(random() % 20001) - 10000) / 3000;
    return quantize(type, values).value();
  }
  const auto golden = open_safetensors(LUMINAL_SOURCE_DIR "/tests/formats/golden/quants.safetensors").value();
  const std::string name = std::string(storage_name(type)) + ".bytes";
  const auto& info = storage_info(type);
  std::string out;
  for (const TensorView& t : golden.tensors) {
    if (t.name != name) continue;
    const size_t count = t.bytes.size() / info.block_bytes;
    for (int64_t i = 0; i < rows * columns / info.block_elements; i++)
      out.append(reinterpret_cast<const char*>(t.bytes.data()) + random() % count * info.block_bytes,
                 info.block_bytes);
  }
  return out;
}

void check(StorageType type, int64_t rows) {
  const int64_t columns = 512;
  std::mt19937 random(7);
  std::string packed = stored(type, rows, columns, random);
  std::vector<float> want(size_t(rows * columns));
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
        // Offsets are taken from the sums of blocks, whose terms are larger than what is left: up
        // to 16 times.
        ASSERT_LE(std::abs(block_sums[size_t(m * rows + n)] - sum), 5e-6 * size) << m << " " << n;
      }
    }
}

TEST_P(PackedWeights, EqualTheReference) {
  for (const int64_t rows : {5, 32}) check(GetParam(), rows);
}

INSTANTIATE_TEST_SUITE_P(Formats, PackedWeights,
                         testing::Values(StorageType::f32, StorageType::f16, StorageType::bf16,
                                         StorageType::q8_0, StorageType::q4_0, StorageType::q4_1,
                                         StorageType::q5_0, StorageType::q5_1, StorageType::q2_k,
                                         StorageType::q3_k, StorageType::q4_k, StorageType::q5_k,
                                         StorageType::q6_k, StorageType::q8_k, StorageType::iq4_nl,
                                         StorageType::iq4_xs, StorageType::mxfp4, StorageType::tq1_0,
                                         StorageType::tq2_0),
                         [](const auto& tested) { return std::string(storage_name(tested.param)); });

} // namespace
} // namespace luminal::models
