// tests/models/draft_support.h -- what tests of speculative decoding share: a model whose texts can be
// summed over, and frequencies against probabilities.
#pragma once
#include "models/draft.h"
#include "models/random_model.h"
#include <array>
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace luminal::models::draft_test {

inline const SamplerOptions plain{.temperature = 1, .top_k = 0, .top_p = 1, .min_p = 0, .seed = 11};
inline const auto no_end = [](int32_t) { return false; };

inline constexpr ModelShape small{.name = "small",
                                  .what = "of tests",
                                  .layers = 1,
                                  .hidden = 32,
                                  .heads = 2,
                                  .kv_heads = 2,
                                  .head_dim = 16,
                                  .inner = 32,
                                  .vocabulary = 6,
                                  .context = 64,
                                  .rope_theta = 10000,
                                  .tied = true};

inline std::vector<double> probabilities(std::span<const float> logits) {
  std::vector<double> p;
  double total = 0;
  for (const float logit : logits) total += p.emplace_back(std::exp(double(logit)));
  for (double& x : p) x /= total;
  return p;
}

/// Every frequency within 4.5 standard deviations of what is expected.
inline void expect_frequencies(const std::vector<int64_t>& counts, const std::vector<double>& expected,
                               const std::string& what) {
  int64_t total = 0;
  for (const int64_t count : counts) total += count;
  for (size_t i = 0; i < counts.size(); i++) {
    const double mean = double(total) * expected[i], deviation = std::sqrt(mean * (1 - expected[i]));
    EXPECT_LE(std::abs(double(counts[i]) - mean), 4.5 * deviation + 1e-9)
        << what << ": token " << i << " came " << counts[i] << " times of " << total << ", expected " << mean;
  }
}

inline GeneratorOptions with_rows(int64_t count, int64_t context) {
  GeneratorOptions options;
  options.model = {.context = context, .chunk = 16, .rows = count + 1};
  return options;
}

/// How the three tokens behind a prompt are distributed, by a model whose vocabulary is small enough to sum
/// over all texts.
inline std::array<std::vector<double>, 3> three_tokens(Generator& generator,
                                                       const std::vector<int32_t>& prompt) {
  const auto follows = [&](std::vector<int32_t> more) {
    generator.reset();
    std::vector<int32_t> text = prompt;
    text.insert(text.end(), more.begin(), more.end());
    return probabilities(generator.feed(text));
  };
  std::array<std::vector<double>, 3> expected;
  for (auto& row : expected) row.resize(6);
  const auto first = follows({});
  for (int32_t a = 0; a < 6; a++) {
    expected[0][size_t(a)] += first[size_t(a)];
    const auto second = follows({a});
    for (int32_t b = 0; b < 6; b++) {
      const double here = first[size_t(a)] * second[size_t(b)];
      expected[1][size_t(b)] += here;
      const auto third = follows({a, b});
      for (size_t c = 0; c < 6; c++) expected[2][c] += here * third[c];
    }
  }
  return expected;
}

} // namespace luminal::models::draft_test
