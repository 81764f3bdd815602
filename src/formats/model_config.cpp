// formats/model_config.cpp -- consistency of a configuration; the frequencies of rotary embeddings.
#include "formats/model_config.h"
#include "base/check.h"
#include "formats/model_config_check.h"
#include "formats/parse.h"
#include <algorithm>
#include <cmath>
#include <numbers>

namespace luminal {

std::string_view rope_scaling_name(RopeScaling::Kind kind) {
  switch (kind) {
  case RopeScaling::Kind::none: return "none";
  case RopeScaling::Kind::linear: return "linear";
  case RopeScaling::Kind::dynamic: return "dynamic";
  case RopeScaling::Kind::llama3: return "llama3";
  case RopeScaling::Kind::yarn: return "yarn";
  case RopeScaling::Kind::longrope: return "longrope";
  }
  return "none";
}

void detail::settle_architecture(ModelConfig& c, bool hugging_face) {
  const std::string& name = c.architecture;
  if (name.starts_with("gemma")) {
    c.embedding_scale = std::sqrt(double(c.hidden_size));
    c.norm_offset = hugging_face ? 1 : 0; // GGUF files have it added
    c.activation = "gelu_pytorch_tanh";
    c.post_norms = name != "gemma";
  }
  if (name == "gemma2") c.attention_softcap = 50, c.logit_softcap = 30;
  if (name.starts_with("gemma3") || name.starts_with("qwen3")) c.qk_norm = ModelConfig::QkNorm::head;
  if (name == "olmo2") c.qk_norm = ModelConfig::QkNorm::all, c.pre_norms = false, c.post_norms = true;
  if (name == "gpt2") {
    c.norm = ModelConfig::Norm::layer;
    c.gated = false;
    c.learned_positions = true;
    c.activation = "gelu_new";
  }
  if (name == "phi2") {
    c.norm = ModelConfig::Norm::layer;
    c.gated = false;
    c.parallel = true;
    c.activation = "gelu_new";
  }
}

void detail::check_model_config(const ModelConfig& c, std::string_view file) {
  const auto positive = [&](const char* what, int64_t value, int64_t most) {
    if (value < 1 || value > most) refuse(file, fmt::format("{} is {}, expected 1 to {}", what, value, most));
  };
  constexpr int64_t large = int64_t{1} << 31;
  positive("the vocabulary size", c.vocab_size, large - 1);
  positive("the hidden size", c.hidden_size, 1 << 24);
  positive("the intermediate size", c.intermediate_size, 1 << 26);
  positive("the number of layers", c.num_layers, 1 << 14);
  positive("the number of attention heads", c.num_heads, 1 << 16);
  positive("the number of key and value heads", c.num_kv_heads, 1 << 16);
  positive("the size of a head", c.head_dim, 1 << 16);
  positive("the context length", c.context_length, large);
  if (c.num_heads % c.num_kv_heads != 0)
    refuse(file, fmt::format("{} attention heads and {} key and value heads, expected a multiple",
                             c.num_heads, c.num_kv_heads));
  if (c.rope_dim < 2 || c.rope_dim > c.head_dim || c.rope_dim % 2 != 0)
    refuse(file, fmt::format("{} rotary elements in a head of {}, expected an even number from 2 on",
                             c.rope_dim, c.head_dim));
  if (!c.rope_factors.empty() && static_cast<int64_t>(c.rope_factors.size()) != c.rope_dim / 2)
    refuse(file,
           fmt::format("{} rotary frequency factors, expected {}", c.rope_factors.size(), c.rope_dim / 2));
  for (const float factor : c.rope_factors)
    if (!(factor > 0) || !std::isfinite(factor))
      refuse(file, fmt::format("rotary frequency factor {}, expected above 0", factor));
  const auto real = [&](const char* what, double value, double least, double most) {
    if (!(value >= least) || !(value <= most))
      refuse(file, fmt::format("{} is {}, expected {} to {}", what, value, least, most));
  };
  real("the epsilon of the norms", c.rms_norm_eps, 0, 1);
  real("the rotary base", c.rope_theta, 1e-6, 1e15);
  const auto& s = c.rope_scaling;
  if (s.kind != RopeScaling::Kind::none) real("the factor of the rope scaling", s.factor, 1e-6, 1e9);
  if (s.kind == RopeScaling::Kind::llama3) {
    real("low_freq_factor", s.low_freq_factor, 1e-6, 1e9);
    real("high_freq_factor", s.high_freq_factor, 1e-6, 1e9);
    if (s.low_freq_factor >= s.high_freq_factor)
      refuse(file,
             fmt::format("low_freq_factor {} and high_freq_factor {}, expected the first below the second",
                         s.low_freq_factor, s.high_freq_factor));
  }
  if (s.kind == RopeScaling::Kind::yarn) {
    real("beta_fast", s.beta_fast, 1e-6, 1e9);
    real("beta_slow", s.beta_slow, 1e-6, 1e9);
  }
  if (s.kind == RopeScaling::Kind::longrope)
    for (const auto* factors : {&s.short_factors, &s.long_factors}) {
      if (int64_t(factors->size()) != c.rope_dim / 2)
        refuse(file,
               fmt::format("{} rotary frequency factors, expected {}", factors->size(), c.rope_dim / 2));
      for (const float factor : *factors)
        if (!(factor > 0) || !std::isfinite(factor))
          refuse(file, fmt::format("rotary frequency factor {}, expected above 0", factor));
    }
  if (s.kind == RopeScaling::Kind::llama3 || s.kind == RopeScaling::Kind::yarn ||
      s.kind == RopeScaling::Kind::dynamic || s.kind == RopeScaling::Kind::longrope)
    positive("the original context of the rope scaling", s.original_context, large);
  if (c.local_rope_theta) real("the rotary base of windowed layers", *c.local_rope_theta, 1e-6, 1e15);
  if (c.attention_scale) real("the scale of attention", *c.attention_scale, 1e-9, 1e9);
  if (c.attention_softcap) real("the limit of attention scores", *c.attention_softcap, 1e-9, 1e9);
  if (c.logit_softcap) real("the limit of logits", *c.logit_softcap, 1e-9, 1e9);
  if (!c.windowed_layers.empty() && int64_t(c.windowed_layers.size()) != c.num_layers)
    refuse(file, fmt::format("{} types of layers for {} layers", c.windowed_layers.size(), c.num_layers));
  if (c.sliding_window) positive("the sliding window", *c.sliding_window, large);
  if (c.num_experts < 0 || c.num_experts_used < 0 || c.num_experts_used > c.num_experts)
    refuse(file,
           fmt::format("{} of {} experts used, expected at most all", c.num_experts_used, c.num_experts));
  if (c.num_experts > 0) positive("the size of an expert", c.expert_size, 1 << 26);
  if (c.num_experts > 0) positive("the number of experts used", c.num_experts_used, c.num_experts);
  const auto least = [&](const char* what, int64_t value, int64_t from, int64_t most) {
    if (value < from || value > most)
      refuse(file, fmt::format("{} is {}, expected {} to {}", what, value, from, most));
  };
  least("the size of shared experts", c.shared_expert_size, 0, int64_t{1} << 32);
  least("the number of layers without experts", c.dense_layers, 0, c.num_layers);
  if (c.num_experts > 0) {
    real("the scale of the experts", c.expert_scale, 1e-9, 1e9);
    positive("the number of groups of experts", c.expert_groups, c.num_experts);
    positive("the number of groups used", c.expert_groups_used, c.expert_groups);
    if (c.num_experts % c.expert_groups != 0)
      refuse(file, fmt::format("{} experts in {} groups, expected groups of one size", c.num_experts,
                               c.expert_groups));
    if (c.num_experts / c.expert_groups * c.expert_groups_used < c.num_experts_used)
      refuse(file, fmt::format("{} experts used, and {} in the groups that are used", c.num_experts_used,
                               c.num_experts / c.expert_groups * c.expert_groups_used));
  }
  if (!c.latent) return;
  least("the rank of queries", c.latent->query_rank, 0, 1 << 24);
  positive("the rank of keys and values", c.latent->rank, 1 << 24);
  positive("the part of a key that does not rotate", c.latent->plain_dim, 1 << 16);
  positive("the size of a value", c.latent->value_dim, 1 << 16);
}

namespace {

/// Llama 3.1: long waves are stretched by `factor`, short ones kept, those between interpolated.
double llama3_frequency(double frequency, const RopeScaling& s) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto context = static_cast<double>(s.original_context);
  if (wavelength < context / s.high_freq_factor) return frequency;
  if (wavelength > context / s.low_freq_factor) return frequency / s.factor;
  const double smooth = (context / wavelength - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * frequency / s.factor + smooth * frequency;
}

double yarn_magnitude(double factor, double scale) {
  return factor <= 1 ? 1.0 : 0.1 * scale * std::log(factor) + 1.0;
}

} // namespace

double detail::latent_attention_scale(const ModelConfig& c) {
  const RopeScaling& s = c.rope_scaling;
  const double more =
      s.kind == RopeScaling::Kind::yarn && s.mscale_all_dim ? yarn_magnitude(s.factor, *s.mscale_all_dim) : 1;
  return more * more / std::sqrt(double(std::max<int64_t>(c.head_dim, 1)));
}

RopeTable rope_table(const ModelConfig& config, int64_t sequence_length) {
  using Kind = RopeScaling::Kind;
  const RopeScaling& s = config.rope_scaling;
  const auto dim = static_cast<double>(config.rope_dim);
  double base = config.rope_theta;
  if (s.kind == Kind::dynamic && sequence_length > s.original_context) {
    const double stretched =
        s.factor * static_cast<double>(sequence_length) / static_cast<double>(s.original_context) -
        (s.factor - 1);
    // With one pair the exponent is infinite; the only frequency is 1 whatever the base.
    if (config.rope_dim > 2) base *= std::pow(stretched, dim / (dim - 2));
  }
  RopeTable table;
  const auto pairs = static_cast<size_t>(config.rope_dim / 2);
  for (size_t i = 0; i < pairs; ++i)
    table.inverse_frequencies.push_back(std::pow(base, -2.0 * static_cast<double>(i) / dim));

  if (s.kind == Kind::linear)
    for (double& f : table.inverse_frequencies) f /= s.factor;
  if (s.kind == Kind::llama3)
    for (double& f : table.inverse_frequencies) f = llama3_frequency(f, s);
  if (s.kind == Kind::yarn) {
    // The pair that turns `rotations` times within the original context.
    const auto pair_of = [&](double rotations) {
      return dim * std::log(static_cast<double>(s.original_context) / (rotations * 2 * std::numbers::pi)) /
             (2 * std::log(config.rope_theta));
    };
    double low = pair_of(s.beta_fast), high = pair_of(s.beta_slow);
    if (s.truncate) low = std::floor(low), high = std::ceil(high);
    low = std::max(low, 0.0);
    high = std::min(high, dim - 1);
    if (low == high) high += 0.001;
    for (size_t i = 0; i < pairs; ++i) {
      double& f = table.inverse_frequencies[i];
      const double ramp = std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
      f = f / s.factor * ramp + f * (1 - ramp);
    }
    if (s.attention_factor)
      table.magnitude = *s.attention_factor;
    else if (s.mscale && s.mscale_all_dim && *s.mscale != 0 && *s.mscale_all_dim != 0)
      table.magnitude = yarn_magnitude(s.factor, *s.mscale) / yarn_magnitude(s.factor, *s.mscale_all_dim);
    else
      table.magnitude = yarn_magnitude(s.factor, 1.0);
  }
  if (s.kind == Kind::longrope) {
    const auto& factors = sequence_length > s.original_context ? s.long_factors : s.short_factors;
    LUMINAL_CHECK(factors.size() == pairs, "{} rotary factors for {} pairs", factors.size(), pairs);
    for (size_t i = 0; i < pairs; ++i) table.inverse_frequencies[i] /= double(factors[i]);
    const double longer = s.factor;
    table.magnitude = s.attention_factor ? *s.attention_factor
                      : longer <= 1      ? 1.0
                                    : std::sqrt(1 + std::log(longer) / std::log(double(s.original_context)));
  }
  if (!config.rope_factors.empty()) {
    LUMINAL_CHECK(config.rope_factors.size() == pairs, "{} rotary factors for {} pairs",
                  config.rope_factors.size(), pairs);
    for (size_t i = 0; i < pairs; ++i)
      table.inverse_frequencies[i] /= static_cast<double>(config.rope_factors[i]);
  }
  return table;
}

} // namespace luminal
