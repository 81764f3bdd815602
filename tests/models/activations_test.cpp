// tests/models/activations_test.cpp -- a small Llama: activations in eight bits or in bf16 stay
// close to the exact mode, in prompts and step by step.
#include "formats/quants.h"
#include "models/llama.h"
#include <algorithm>
#include <cmath>
#include <gtest/gtest.h>
#include <list>
#include <random>
#include <string_view>

namespace luminal::models {
namespace {

struct TinyModel {
  ModelFile file;
  std::list<std::string> bytes;

  explicit TinyModel(StorageType type) {
    ModelConfig c;
    c.architecture = "llama";
    c.vocab_size = 96, c.hidden_size = 256, c.intermediate_size = 512, c.num_layers = 2;
    c.num_heads = 4, c.num_kv_heads = 2, c.head_dim = c.rope_dim = 64, c.context_length = 16;
    file.kind = ModelFileKind::gguf;
    file.path = "tiny";
    file.architecture = c.architecture;
    std::mt19937 random(11);
    const auto add = [&](std::string name, std::vector<int64_t> shape, StorageType stored, float scale) {
      size_t count = 1;
      for (int64_t extent : shape) count *= size_t(extent);
      std::vector<float> values(count);
      for (float& v : values)
        v = shape.size() == 1 ? 1.0f : scale * (float(int(random() % 20001) - 10000) / 10000);
      bytes.push_back(quantize(stored, values).value());
      TensorView view{
          std::move(name), stored, std::move(shape), std::as_bytes(std::span(bytes.back())), 0, 0};
      file.tensors.push_back(std::move(view));
    };
    add("token_embd.weight", {96, 256}, type, 1);
    add("output_norm.weight", {256}, StorageType::f32, 1);
    add("output.weight", {96, 256}, type, 0.1f);
    for (int64_t l = 0; l < c.num_layers; l++) {
      const std::string b = "blk." + std::to_string(l) + ".";
      add(b + "attn_norm.weight", {256}, StorageType::f32, 1);
      add(b + "ffn_norm.weight", {256}, StorageType::f32, 1);
      add(b + "attn_q.weight", {256, 256}, type, 0.1f);
      add(b + "attn_k.weight", {128, 256}, type, 0.1f);
      add(b + "attn_v.weight", {128, 256}, type, 0.1f);
      add(b + "attn_output.weight", {256, 256}, type, 0.1f);
      add(b + "ffn_gate.weight", {512, 256}, type, 0.1f);
      add(b + "ffn_up.weight", {512, 256}, type, 0.1f);
      add(b + "ffn_down.weight", {256, 512}, type, 0.1f);
    }
    file.config = c;
    for (size_t i = 0; i < file.tensors.size(); i++) file.by_name.push_back(uint32_t(i));
    std::ranges::sort(file.by_name, {}, [&](uint32_t i) { return file.tensors[i].name; });
  }
};

/// Logits of the last of five tokens: four as a prompt, then one.
std::vector<float> logits(const TinyModel& tiny, std::string_view activations, int threads = 2) {
  LlamaOptions options{.chunk = 8};
  options.activations = activations_from_name(activations);
  Llama model = make_llama(tiny.file, options);
  model.graph.compile({.threads = threads, .cache = false});
  model.graph.set_dim("n", 4);
  model.graph.set_dim("past", 0);
  model.tokens.set(std::vector<int32_t>{3, 17, 95, 0});
  model.graph.execute();
  model.graph.set_dim("n", 1);
  model.graph.set_dim("past", 4);
  model.tokens.set(std::vector<int32_t>{42});
  model.graph.execute();
  return model.logits.data<float>();
}

/// Root mean square of the difference, in units of that of `exact`.
double distance(const std::vector<float>& exact, const std::vector<float>& other) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < exact.size(); i++) {
    EXPECT_TRUE(std::isfinite(other[i]));
    difference += std::pow(double(exact[i]) - double(other[i]), 2);
    size += std::pow(double(exact[i]), 2);
  }
  return std::sqrt(difference / size);
}

class ActivationsOf : public testing::TestWithParam<StorageType> {};

TEST_P(ActivationsOf, InEightBitsStayCloseToTheExactMode) {
  const TinyModel tiny(GetParam());
  const std::vector<float> exact = logits(tiny, "exact"), q8 = logits(tiny, "q8");
  ASSERT_EQ(exact.size(), q8.size());
  // Roundings of half a step of 1/127 of a block's largest, independent of each other, over a dozen
  // products one behind the other.
  const double far = distance(exact, q8);
  EXPECT_LE(far, 0.04);
  EXPECT_GT(far, 0) << "the option did nothing";
}

TEST(Bf16Activations, StayCloseToTheExactMode) {
  const TinyModel tiny(StorageType::bf16);
  const std::vector<float> exact = logits(tiny, "exact"), rounded = logits(tiny, "bf16");
  ASSERT_EQ(exact.size(), rounded.size());
  const double far = distance(exact, rounded);
  EXPECT_LE(far, 0.01); // roundings of 2^-9, over a dozen products
  EXPECT_GT(far, 0) << "the option did nothing";
  EXPECT_EQ(logits(tiny, "bf16", 1), rounded);
}

TEST(Bf16Activations, OtherNamesAreRefused) { EXPECT_THROW(activations_from_name("q4"), Error); }

INSTANTIATE_TEST_SUITE_P(Formats, ActivationsOf, testing::Values(StorageType::q8_0, StorageType::q4_k),
                         [](const auto& tested) { return std::string(storage_name(tested.param)); });

} // namespace
} // namespace luminal::models
