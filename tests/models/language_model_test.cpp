// tests/models/language_model_test.cpp -- the language model of the public interface: steps,
// sampling, texts, mistakes.
#include "luminal/llama.h"
#include "models/data.h"
#include "models/generator.h"
#include "support/error_of.h"
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal {
namespace {

using testing::HasSubstr;

std::string model_path() { return test_data() + "/llm/stories260K.gguf"; }

class LanguageModels : public testing::Test {
protected:
  void SetUp() override { LUMINAL_NEEDS_DATA_FOLDER(data); }
};

TEST_F(LanguageModels, StepsGiveTheLogitsOfTheGenerator) {
  LanguageModel model(model_path(), {.sampler = {.temperature = 0}});
  const auto file = open_model(model_path());
  ASSERT_TRUE(file);
  models::Generator generator(*file, {});
  const std::vector<int32_t> prompt = model.encode("Once upon a time");
  EXPECT_EQ(prompt, file->tokenizer->encode("Once upon a time"));
  EXPECT_EQ(model.decode(prompt), "Once upon a time");
  const auto want = generator.feed(prompt);
  const auto got = model.step(prompt);
  ASSERT_EQ(got.size(), size_t(model.vocabulary()));
  EXPECT_TRUE(std::equal(got.begin(), got.end(), want.begin(), want.end()));
  EXPECT_EQ(model.position(), int64_t(prompt.size()));
  const int32_t next = model.sample();
  EXPECT_EQ(next, int32_t(std::max_element(want.begin(), want.end()) - want.begin()));
  EXPECT_EQ(model.position(), int64_t(prompt.size())) << "a token is not appended by sampling it";
  // A step of several tokens is those steps one by one.
  const auto last = model.step({next, 5});
  const std::vector<float> both(last.begin(), last.end());
  model.reset();
  EXPECT_EQ(model.position(), 0);
  model.step(prompt);
  model.step({next});
  const auto single = model.step({5});
  for (size_t i = 0; i < both.size(); i++) EXPECT_NEAR(both[i], single[i], 1e-3) << i;
}

TEST_F(LanguageModels, TextsAreThoseOfTheGeneratorWithTheSameSeed) {
  LanguageModel model(model_path(), {.sampler = {.temperature = 0.9, .seed = 7}});
  std::string pieces;
  const std::string text = model.generate("Once upon a time", 30, [&](std::string_view piece) {
    pieces += piece;
    return true;
  });
  EXPECT_EQ(text, pieces);
  EXPECT_GT(text.size(), 20u);
  model.reset();
  EXPECT_EQ(model.generate("Once upon a time", 30), text) << "the seed is the same again";
  int calls = 0;
  model.reset();
  model.generate("Once upon a time", 30, [&](std::string_view) { return ++calls < 3; });
  EXPECT_EQ(calls, 3);
  LanguageModel moved = std::move(model);
  moved.reset();
  EXPECT_EQ(moved.generate("Once upon a time", 30), text);
  const auto file = open_model(model_path());
  models::Generator generator(*file, {});
  models::Sampler sampler({.temperature = 0.9, .seed = 7});
  std::vector<int32_t> tokens;
  generator.generate(
      file->tokenizer->encode("Once upon a time"), 30, sampler, [](int32_t) { return false; },
      [&](int32_t token) {
        tokens.push_back(token);
        return true;
      });
  StreamDecoder decoder(*file->tokenizer, false, true);
  std::string want;
  for (int32_t token : tokens) want += decoder.push(token);
  EXPECT_EQ(want + decoder.finish(), text);
}

TEST_F(LanguageModels, MistakesHaveTheCallersLine) {
  const std::string here = " at language_model_test.cpp:";
  EXPECT_THAT(error_of([] { LanguageModel("/nowhere.gguf"); }), HasSubstr(here));
  EXPECT_THAT(error_of([] { LanguageModel(model_path(), {.cache_type = DType::i8}); }),
              HasSubstr("[LanguageModel] cache_type i8: f32 and f16 are expected" + here));
  EXPECT_THAT(error_of([] { LanguageModel(model_path(), {.chunk = 0}); }),
              HasSubstr("[LanguageModel] context = 0, chunk = 0: sizes are expected" + here));
  LanguageModel model(model_path(), {.context = 4});
  EXPECT_THAT(error_of([&] { model.sample(); }),
              HasSubstr("[sample] there are no logits yet: step comes first" + here));
  EXPECT_THAT(error_of([&] { model.step(std::span<const int32_t>()); }),
              HasSubstr("[step] there are no tokens to begin with" + here));
  EXPECT_THAT(error_of([&] { model.step({9999}); }),
              HasSubstr("[step] token 9999 is outside the vocabulary of 512" + here));
  EXPECT_THAT(
      error_of([&] { model.step({1, 2, 3, 4, 5}); }),
      HasSubstr("[step] 5 tokens behind 0 do not fit the context of 4 (LanguageModelOptions::context)" +
                here));
  EXPECT_EQ(model.context(), 4);
}

} // namespace
} // namespace luminal
