// models/sampler.h -- which token comes next: the samplers of llama.cpp, its defaults and its order
// (penalties, top-k, top-p, min-p, temperature).
#pragma once
#include "luminal/llama.h"
#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

namespace luminal::models {

/// Deterministic: equal options, logits and history give equal tokens on every machine.
class Sampler {
public:
  explicit Sampler(const SamplerOptions& options) : options_(options), random_(options.seed) {}
  /// logits: one for each token; NaN is never chosen. recent: the tokens so far, prompt included.
  /// allowed: others are passed over. Throws Error where no token is left.
  using Allowed = std::function<bool(int32_t token)>;
  int32_t sample(std::span<const float> logits, std::span<const int32_t> recent, const Allowed& allowed = {});

private:
  struct Candidate {
    int32_t token;
    double logit;
    double probability;
  };
  void penalize(std::span<const int32_t> recent);
  void keep_likeliest(size_t count, const Allowed& allowed);
  SamplerOptions options_;
  std::mt19937_64 random_;
  std::vector<Candidate> candidates_;
};

} // namespace luminal::models
