// tests/models/builtin_test.cpp -- the built-in model: both of its forms give the reference's ids,
// tokens, text and logits.
#include "models/generator.h"
#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace luminal::models {
namespace {

class Builtin : public testing::TestWithParam<std::string> {};

TEST_P(Builtin, GivesTheReference) {
  const std::string folder = std::string(LUMINAL_SOURCE_DIR) + "/models/builtin/";
  std::ifstream in(folder + "reference.json");
  auto reference = nlohmann::json::parse(in);
  ModelFile file = open_model(folder + GetParam()).value();
  EXPECT_LT(file.tensor_bytes(), 1000000u);
  Generator generator(file, {});
  const Tokenizer& tokenizer = file.require_tokenizer();
  int texts = 0;
  for (const auto& example : reference["greedy"]) {
    SCOPED_TRACE(example["prompt"].get<std::string>());
    auto prompt = example["prompt_tokens"].get<std::vector<int32_t>>(),
         want = example["tokens"].get<std::vector<int32_t>>();
    EXPECT_EQ(tokenizer.encode(example["prompt"].get<std::string>()), prompt);
    generator.reset();
    Sampler greedy({.temperature = 0});
    std::vector<int32_t> tokens;
    generator.generate(
        prompt, int64_t(want.size()), greedy, [](int32_t) { return false; },
        [&](int32_t token) {
          tokens.push_back(token);
          return true;
        });
    EXPECT_EQ(tokens, want);
    EXPECT_EQ(tokenizer.decode(tokens), example["text"].get<std::string>());
    texts++;
  }
  EXPECT_GE(texts, 5);
  generator.reset();
  auto logits = generator.feed(reference["logits"]["prompt_tokens"].get<std::vector<int32_t>>());
  auto want = reference["logits"]["values"].get<std::vector<float>>();
  ASSERT_EQ(logits.size(), want.size());
  for (size_t i = 0; i < want.size(); i++) ASSERT_LE(std::abs(logits[i] - want[i]), 1e-3f) << i;
}

INSTANTIATE_TEST_SUITE_P(Forms, Builtin, testing::Values("luminal-tales.gguf", "hf"),
                         [](const auto& tested) { return tested.param == "hf" ? "HuggingFace" : "Gguf"; });

} // namespace
} // namespace luminal::models
