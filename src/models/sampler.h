// models/sampler.h -- which token comes next: the samplers of llama.cpp, its defaults and its order
// (penalties, top-k, top-p, min-p, temperature).
#pragma once
#include "luminal/llama.h"
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace luminal::models {

struct TokenShare {
  int32_t token;
  double probability;
};

/// What the model itself gives a token, before all sampling, and the tokens that it gives most.
struct TokenLogprobs {
  int32_t token = 0;
  double logprob = 0;                                ///< natural logarithm of the probability
  std::vector<std::pair<int32_t, double>> likeliest; ///< the likeliest first
};
/// logits: one for each token, not all of them NaN; the least finite number for a token whose logit is NaN.
TokenLogprobs token_logprobs(std::span<const float> logits, int32_t token, size_t likeliest);

/// Deterministic: equal options, logits and history give equal tokens on every machine.
class Sampler {
public:
  explicit Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {}
  /// logits: one for each token; NaN is never chosen. recent: the tokens so far, prompt included.
  /// allowed: others are passed over. Throws Error where no token is left.
  using Allowed = std::function<bool(int32_t token)>;
  int32_t sample(std::span<const float> logits, std::span<const int32_t> recent, const Allowed& allowed = {});

  /// What `sample` draws from: the tokens that are left with their probabilities, the likeliest first. The
  /// one token where the temperature is 0. Throws as `sample`.
  std::vector<TokenShare> distribution(std::span<const float> logits, std::span<const int32_t> recent,
                                       const Allowed& allowed = {});
  /// A token of such a distribution.
  int32_t draw(std::span<const TokenShare> from);
  /// A number in [0, 1), the same on every machine.
  double uniform() { return double(random_() >> 11) * 0x1p-53; }

private:
  struct Candidate {
    int32_t token;
    double logit;
    double probability;
  };
  void choose_candidates(std::span<const float> logits, std::span<const int32_t> recent,
                         const Allowed& allowed);
  void penalize(std::span<const int32_t> recent);
  void keep_likeliest(size_t count, const Allowed& allowed);
  SamplerOptions options_;
  std::mt19937_64 random_;
  std::vector<Candidate> candidates_;
};

} // namespace luminal::models
