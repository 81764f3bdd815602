// tests/models/perplexity_test.cpp -- logits behind several tokens of a step; how well texts are foretold.
#include "formats/safetensors.h"
#include "models/data.h"
#include "models/generator.h"
#include "models/perplexity.h"
#include "support/error_of.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>

namespace luminal::models {
namespace {

std::string places(const std::vector<TextWindow>& windows) {
  std::string text;
  for (const TextWindow& w : windows)
    text += std::to_string(w.begin) + "+" + std::to_string(w.size) + "/" + std::to_string(w.scored) + " ";
  return text;
}

TEST(PerplexityWindows, AreThoseOfLlamaCpp) {
  // llama.cpp: n_ctx 10 scores the tokens 6..9 of each window; what is left behind them is left out.
  EXPECT_EQ(places(perplexity_windows(29, 10)), "0+10/4 10+10/4 ");
  EXPECT_EQ(places(perplexity_windows(20, 10)), "0+10/4 10+10/4 ");
  EXPECT_EQ(places(perplexity_windows(22, 11)), "0+11/5 11+11/5 ");
  EXPECT_EQ(places(perplexity_windows(1024, 512)), "0+512/255 512+512/255 ");
  // With a stride each token is foretold once.
  EXPECT_EQ(places(perplexity_windows(21, 10, 3)), "0+10/3 3+10/3 6+10/3 9+10/3 ");
  EXPECT_EQ(error_of([] { perplexity_windows(19, 10); }),
            "the text has 19 tokens; two windows of 10 are needed at least: a longer text or a smaller "
            "--context");
}

TEST(Perplexity, IsThatOfTheProbabilities) {
  // A uniform model of 8 tokens is as good as guessing among 8, without any error.
  Perplexity uniform;
  for (int i = 0; i < 10; i++) uniform.add(std::vector<float>(8, 3.5f), i % 8);
  EXPECT_NEAR(uniform.value(), 8, 1e-12);
  EXPECT_NEAR(uniform.standard_error(), 0, 1e-6);
  // p = 1/2 and p = 1/8: the mean of ln 2 and ln 8 is ln 4; the deviation of both is ln 2.
  Perplexity two;
  const std::vector<float> logits{0, std::log(3.f), std::log(4.f)};
  two.add(logits, 2);
  EXPECT_TRUE(std::isnan(two.standard_error()));
  two.add(logits, 0);
  EXPECT_EQ(two.count(), 2);
  EXPECT_NEAR(two.loss(), std::log(4.0), 1e-7);
  EXPECT_NEAR(two.value(), 4, 1e-6);
  EXPECT_NEAR(two.standard_error(), 4 * std::log(2.0), 1e-6);
  // Logits beyond the range of exp.
  Perplexity large;
  large.add(std::vector<float>{1e4f, 1e4f, -1e4f}, 1);
  EXPECT_NEAR(large.value(), 2, 1e-12);
  Perplexity broken;
  EXPECT_EQ(error_of([&] { broken.add(std::vector<float>{1, NAN}, 0); }),
            "a logit is NaN: the model's weights or the computation are broken");
}

/// Logits of the first 64 positions of the reference, whichever the sizes of steps and of rows.
TEST(GeneratorRows, GiveTheReferenceBehindEveryToken) {
  LUMINAL_NEEDS_DATA_FOLDER(data);
  const ModelFile file = open_model(data + "/llm/stories260K.gguf").value();
  const auto reference = open_safetensors(data + "/llm/ref_stories260K.safetensors").value();
  std::vector<int32_t> tokens;
  std::vector<float> want;
  for (const TensorView& t : reference.tensors) {
    if (t.name == "greedy_tokens") {
      tokens.resize(t.bytes.size() / 4);
      std::memcpy(tokens.data(), t.bytes.data(), t.bytes.size());
    }
    if (t.name == "logits_first64") {
      want.resize(t.bytes.size() / 4);
      std::memcpy(want.data(), t.bytes.data(), t.bytes.size());
    }
  }
  tokens.resize(64);
  ASSERT_EQ(want.size(), 64u * 512);
  for (const auto& [chunk, rows] : {std::pair<int64_t, int64_t>{64, 64}, {16, 16}, {24, 5}, {7, 1}}) {
    GeneratorOptions options;
    options.model = {.context = 256, .chunk = chunk, .rows = rows};
    Generator generator(file, options);
    EXPECT_EQ(generator.model().most_rows, rows);
    for (const int64_t count : {64, 30, 1}) {
      std::vector<float> got;
      generator.reset();
      generator.feed(tokens, count, [&](std::span<const float> part) {
        EXPECT_LE(part.size(), size_t(rows) * 512);
        got.insert(got.end(), part.begin(), part.end());
      });
      ASSERT_EQ(got.size(), size_t(count) * 512) << "chunk " << chunk << ", rows " << rows;
      const auto expected = std::span(want).last(got.size());
      for (size_t i = 0; i < got.size(); i++)
        ASSERT_LE(std::abs(got[i] - expected[i]), 1e-4f)
            << "chunk " << chunk << ", rows " << rows << ": " << i;
      EXPECT_EQ(generator.position(), 64);
      // What is sampled from is the last of them.
      Sampler sampler({.temperature = 0});
      const auto last = std::span<const float>(got).last(512);
      EXPECT_EQ(generator.sample(sampler),
                int32_t(std::max_element(last.begin(), last.end()) - last.begin()));
    }
    const std::vector<float> alone = [&] {
      generator.reset();
      const auto logits = generator.feed(tokens);
      return std::vector<float>(logits.begin(), logits.end());
    }();
    for (size_t i = 0; i < 512; i++) ASSERT_LE(std::abs(alone[i] - want[63 * 512 + i]), 1e-4f);
  }
}

} // namespace
} // namespace luminal::models
