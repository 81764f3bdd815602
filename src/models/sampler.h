// models/sampler.h -- which token comes next: the samplers of llama.cpp, its defaults and its order
// (penalties, top-k, top-p, min-p, temperature).
#pragma once
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace luminal::models {

struct SamplerOptions {
  double temperature = 0.8;     ///< 0: the likeliest token, always
  int top_k = 40;               ///< only the k likeliest; 0: all
  double top_p = 0.95;          ///< only the likeliest that together reach p; 1: all
  double min_p = 0.05;          ///< only those at least this fraction of the likeliest; 0: all
  double repeat_penalty = 1.0;  ///< divides positive and multiplies negative logits of recent tokens; 1: off
  int repeat_last = 64;         ///< how many tokens are recent; 0: none, -1: all
  double frequency_penalty = 0; ///< subtracted once for each occurrence
  double presence_penalty = 0;  ///< subtracted once if it occurs
  uint64_t seed = 0;
};

/// Deterministic: equal options, logits and history give equal tokens on every machine.
class Sampler {
public:
  explicit Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {}
  /// logits: one for each token; NaN is never chosen. recent: the tokens so far, prompt included.
  int32_t sample(std::span<const float> logits, std::span<const int32_t> recent);

private:
  struct Candidate {
    int32_t token;
    double logit;
    double probability;
  };
  void penalize(std::span<const int32_t> recent);
  SamplerOptions options_;
  std::mt19937_64 random_;
  std::vector<Candidate> candidates_;
};

} // namespace luminal::models
