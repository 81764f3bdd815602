// tests/models/sampler_test.cpp -- sampling and stop strings.
#include "models/generator.h"
#include "models/sampler.h"
#include <cmath>
#include <gtest/gtest.h>

namespace luminal::models {
namespace {

TEST(Sampler, GreedyTakesTheFirstOfTheLikeliest) {
  Sampler sampler({.temperature = 0});
  EXPECT_EQ(sampler.sample(std::vector<float>{1, 3, 3, NAN}, {}), 1);
  EXPECT_THROW(sampler.sample(std::vector<float>{NAN, NAN}, {}), Error);
}

TEST(Sampler, FrequenciesFollowTheLogits) {
  Sampler sampler({.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 5});
  std::vector<float> logits{0, std::log(2.f), std::log(5.f)};
  int counts[3] = {};
  for (int i = 0; i < 8000; i++) counts[sampler.sample(logits, {})]++;
  EXPECT_NEAR(counts[0], 1000, 150);
  EXPECT_NEAR(counts[1], 2000, 200);
  EXPECT_NEAR(counts[2], 5000, 250);
}

TEST(Sampler, FiltersCutTheTail) {
  std::vector<float> logits{0, 1, 2, 3};
  for (auto options :
       {SamplerOptions{.temperature = 5, .top_k = 1}, SamplerOptions{.temperature = 5, .top_p = 0.01},
        SamplerOptions{.temperature = 5, .min_p = 0.99}}) {
    Sampler sampler(options);
    for (int i = 0; i < 100; i++) EXPECT_EQ(sampler.sample(logits, {}), 3);
  }
}

TEST(Sampler, PenaltyOfRecentTokens) {
  std::vector<float> logits{2, 1.9f};
  std::vector<int32_t> recent{0};
  EXPECT_EQ(Sampler({.temperature = 0}).sample(logits, recent), 0);
  EXPECT_EQ(Sampler({.temperature = 0, .repeat_penalty = 1.2}).sample(logits, recent), 1);
  EXPECT_EQ(Sampler({.temperature = 0, .repeat_penalty = 1.2, .repeat_last = 0}).sample(logits, recent), 0);
}

TEST(Sampler, BiasIsAddedToLogits) {
  const std::vector<float> logits{NAN, 2, 1, 3};
  EXPECT_EQ(Sampler({.temperature = 0, .logit_bias = {{3, -100}}}).sample(logits, {}), 1);
  EXPECT_EQ(Sampler({.temperature = 0, .logit_bias = {{0, 100}, {2, 2.5}, {9, 100}}}).sample(logits, {}), 2);
  for (const auto& share :
       Sampler({.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .logit_bias = {{1, 1}}})
           .distribution(logits, {}))
    EXPECT_NEAR(share.probability, share.token == 2 ? 1 / (1 + 2 * std::exp(2)) : 1 / (2 + std::exp(-2)),
                1e-6);
}

TEST(Sampler, LogarithmsOfProbabilities) {
  const std::vector<float> logits{0, std::log(5.f), NAN, std::log(2.f)};
  const TokenLogprobs own = token_logprobs(logits, 3, 2);
  EXPECT_EQ(own.token, 3);
  EXPECT_NEAR(own.logprob, std::log(2.0 / 8), 1e-6);
  ASSERT_EQ(own.likeliest.size(), 2U);
  EXPECT_EQ(own.likeliest[0].first, 1);
  EXPECT_NEAR(own.likeliest[0].second, std::log(5.0 / 8), 1e-6);
  EXPECT_EQ(own.likeliest[1].first, 3);
  EXPECT_EQ(token_logprobs(logits, 2, 9).likeliest.size(), 4U);
  EXPECT_LT(token_logprobs(logits, 2, 0).logprob, -1e300);
}

TEST(Sampler, SameSeedSameTokens) {
  Sampler a({.seed = 42}), b({.seed = 42});
  std::vector<float> logits(50, 0);
  for (int i = 0; i < 100; i++) EXPECT_EQ(a.sample(logits, {}), b.sample(logits, {}));
}

TEST(StopFinder, HoldsBackWhatMayBeAStop) {
  StopFinder finder({"END", "E.O.F"});
  EXPECT_EQ(finder.push("abc E"), "abc ");
  EXPECT_EQ(finder.push("x"), "Ex");
  EXPECT_EQ(finder.push("E"), "");
  EXPECT_EQ(finder.push("N"), "");
  EXPECT_FALSE(finder.stopped());
  EXPECT_EQ(finder.push("D tail"), "");
  EXPECT_TRUE(finder.stopped());
  EXPECT_EQ(finder.finish(), "");
  StopFinder open({"END"});
  EXPECT_EQ(open.push("the E"), "the ");
  EXPECT_EQ(open.finish(), "E");
}

} // namespace
} // namespace luminal::models
