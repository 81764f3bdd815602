// tests/models/decoders_test.cpp -- every family of decoders gives the logits of Hugging Face transformers
// (tests/models/decoders/, made by tools/decoder_goldens.py): whole, and token by token from the cache.
#include "base/file.h"
#include "formats/safetensors.h"
#include "models/batch.h"
#include "models/generator.h"
#include "support/error_of.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

namespace luminal::models {
namespace {

const std::string folder = std::string(LUMINAL_SOURCE_DIR) + "/tests/models/decoders/";

template <class T> std::vector<T> golden(const std::string& name) {
  static const Safetensors file = open_safetensors(folder + "golden.safetensors").value();
  const TensorView* view = file.find(name);
  if (view == nullptr) throw Error("no golden " + name);
  std::vector<T> values(view->bytes.size() / sizeof(T));
  std::memcpy(values.data(), view->bytes.data(), view->bytes.size());
  return values;
}

void expect_near(std::span<const float> got, std::span<const float> want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < want.size(); i++)
    ASSERT_LE(std::abs(got[i] - want[i]), 2e-5f * (1 + std::abs(want[i]))) << what << " element " << i;
}

class DecoderFamilies : public ::testing::TestWithParam<const char*> {};

/// Logits of the golden tokens: a long step, single ones, the rest.
void check_logits(const std::string& path, const std::string& name, int64_t context) {
  const ModelFile file = open_model(folder + path + ".safetensors").value();
  const auto tokens = golden<int32_t>(name + ".tokens");
  const auto want = golden<float>(name + ".logits");
  const auto count = int64_t(tokens.size());
  const auto vocabulary = int64_t(want.size()) / count;
  Llama model = make_llama(file, {.context = context, .chunk = 14, .all_logits = true});
  std::vector<float> got;
  for (int64_t past = 0; past < count;) {
    const int64_t n = past == 0 ? 7 : past < 10 ? 1 : count - past;
    model.graph.set_dim("n", n);
    model.graph.set_dim("past", past);
    model.tokens.set(std::span(tokens).subspan(size_t(past), size_t(n)));
    model.graph.execute();
    const auto part = model.logits.data<float>();
    ASSERT_EQ(int64_t(part.size()), n * vocabulary);
    got.insert(got.end(), part.begin(), part.end());
    past += n;
  }
  expect_near(got, want, name);
}

TEST_P(DecoderFamilies, LogitsAreThoseOfTransformers) { check_logits(GetParam(), GetParam(), 16); }
TEST(Decoders, PhiHasOtherFrequenciesInALongContext) { check_logits("phi3_long", "phi3_longer", 64); }

/// Texts that share the steps of a batch give the tokens that each gives alone.
TEST_P(DecoderFamilies, ABatchGivesWhatEachTextGivesAlone) {
  const ModelFile file = open_model(folder + GetParam() + ".safetensors").value();
  Batch batch(file, {.model = {.context = 16, .chunk = 4, .slots = 3}, .compile = {}});
  Generator generator(file, {.model = {.context = 16}, .compile = {}});
  const std::vector<std::vector<int32_t>> prompts{
      {3, 9, 4, 11, 7, 30}, {3, 9}, {21}, {3, 9, 4, 12}, {5, 6, 7, 8, 9}};
  constexpr size_t wanted = 6;
  std::map<Batch::Id, size_t> which;
  std::vector<std::vector<int32_t>> got(prompts.size());
  size_t waiting = 0;
  while (waiting < prompts.size() || batch.active() > 0) {
    while (batch.has_room() && waiting < prompts.size()) {
      which[batch.start(prompts[waiting], {{.temperature = 0}})] = waiting;
      waiting++;
    }
    for (const Batch::Next& next : batch.step()) {
      EXPECT_EQ(next.error, "");
      EXPECT_FALSE(next.full);
      got[which[next.id]].push_back(next.token);
      if (got[which[next.id]].size() == wanted) batch.finish(next.id);
    }
  }
  for (size_t i = 0; i < prompts.size(); i++) {
    generator.reset();
    Sampler sampler({.temperature = 0});
    std::vector<int32_t> alone;
    generator.generate(
        prompts[i], wanted, sampler, [](int32_t) { return false; },
        [&](int32_t token) { return alone.push_back(token), true; });
    EXPECT_EQ(got[i], alone) << "text " << i;
  }
}

/// What texts begin with in common is computed once, and they give what each gives alone.
TEST(Batches, ComputeWhatTextsHaveInCommonOnce) {
  for (const char* name : {"llama", "deepseek2"}) {
    const ModelFile file = open_model(folder + name + ".safetensors").value();
    std::vector<int32_t> common;
    for (int32_t i = 0; i < 24; i++) common.push_back((i * 7 + 3) % 31);
    std::vector<std::vector<int32_t>> prompts;
    for (const int32_t last : {5, 9, 9, 20}) {
      prompts.push_back(common);
      prompts.back().push_back(last);
    }
    prompts.push_back({common.begin(), common.begin() + 10}); // too little to be waited for
    Batch batch(file, {.model = {.context = 40, .chunk = 8, .slots = 5}, .compile = {}});
    std::vector<std::vector<int32_t>> got(prompts.size());
    std::map<Batch::Id, size_t> which;
    for (size_t i = 0; i < prompts.size(); i++) which[batch.start(prompts[i], {{.temperature = 0}})] = i;
    std::vector<int64_t> reused(prompts.size());
    int64_t steps = 0;
    for (; batch.active() > 0; steps++)
      for (const Batch::Next& next : batch.step()) {
        auto& tokens = got[which[next.id]];
        tokens.push_back(next.token);
        reused[which[next.id]] = batch.reused(next.id);
        if (tokens.size() == 6) batch.finish(next.id);
      }
    EXPECT_EQ(reused, (std::vector<int64_t>{0, 24, 24, 24, 0})) << name;
    EXPECT_LE(steps, 14) << name << ": all prompts one by one take 14 steps before the last text begins";
    Generator generator(file, {.model = {.context = 40}, .compile = {}});
    for (size_t i = 0; i < prompts.size(); i++) {
      generator.reset();
      Sampler sampler({.temperature = 0});
      std::vector<int32_t> alone;
      generator.generate(
          prompts[i], 6, sampler, [](int32_t) { return false; },
          [&](int32_t token) { return alone.push_back(token), true; });
      EXPECT_EQ(got[i], alone) << name << " text " << i;
    }
  }
}

TEST(Batches, MistakesAreNamed) {
  const ModelFile file = open_model(folder + "llama.safetensors").value();
  EXPECT_EQ(error_of([&] { Batch(file, {.model = {}, .compile = {}}); }),
            "a batch of 0 texts: at least 1 is expected");
  Batch batch(file, {.model = {.context = 4, .slots = 1}, .compile = {}});
  EXPECT_EQ(error_of([&] { batch.start({}, {}); }), "a text needs a token to begin with");
  EXPECT_EQ(error_of([&] { batch.start({1, 2, 3, 4, 5}, {}); }),
            "the text has 5 tokens, the context holds 4");
  EXPECT_EQ(error_of([&] { batch.start({32}, {}); }), "token 32 is outside the vocabulary of 32");
  EXPECT_TRUE(batch.step().empty()) << "nothing to do";
  const Batch::Id first = batch.start({1, 2, 3}, {{.temperature = 0}});
  EXPECT_EQ(error_of([&] { batch.start({1}, {}); }), "all 1 places are taken");
  EXPECT_FALSE(batch.step().at(0).full);
  EXPECT_TRUE(batch.step().at(0).full);
  EXPECT_TRUE(batch.step().empty());
  batch.finish(first);
  // What agrees is not computed again, but for the last token, whose logits are wanted.
  EXPECT_EQ(batch.reused(batch.start({1, 2, 3}, {})), 2);
}

INSTANTIATE_TEST_SUITE_P(Families, DecoderFamilies,
                         ::testing::Values("llama", "mistral", "mixtral", "qwen2", "qwen3", "qwen3_moe",
                                           "phi3", "phi3_long", "gemma", "gemma2", "gemma3", "gpt2", "olmo2",
                                           "deepseek2", "deepseek2_groups", "deepseek3"),
                         [](const auto& family) { return std::string(family.param); });

} // namespace
} // namespace luminal::models
