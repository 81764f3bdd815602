// models/convert_config.cpp -- a model's configuration as the metadata of GGUF, and as config.json.
#include "formats/json.h"
#include "formats/model_config_check.h"
#include "luminal/error.h"
#include "models/convert_plan.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal::models {
namespace {

using Metadata = std::vector<std::pair<std::string, GgufValue>>;

/// The period of layers without a window (the last of each), or 0 where there is none.
int64_t window_period(const ModelConfig& c) {
  const auto& windowed = c.windowed_layers;
  const auto first = std::find(windowed.begin(), windowed.end(), false);
  if (first == windowed.end()) return 0;
  const int64_t period = first - windowed.begin() + 1;
  for (size_t layer = 0; layer < windowed.size(); layer++)
    if (windowed[layer] == (int64_t(layer + 1) % period == 0)) return 0;
  return period;
}

/// A model that GGUF has no words for is not written as another one.
void refuse_what_gguf_lacks(const ModelConfig& c, const std::string& architecture) {
  const auto refuse = [&](const std::string& what) {
    throw Error(fmt::format("GGUF cannot say of a model of the architecture {}: {}", architecture, what));
  };
  const bool gemma = architecture.starts_with("gemma");
  const std::string usual = architecture == "gpt2" ? "gelu_new" : gemma ? "gelu_pytorch_tanh" : "silu";
  if (c.activation != usual) refuse(fmt::format("activation {} (in its place {})", c.activation, usual));
  if (c.rope_scaling.kind == RopeScaling::Kind::dynamic) refuse("rope scaling of type dynamic");
  if (c.num_experts > 0 && !c.normalised_experts && !c.latent)
    refuse("weights of experts that do not sum to 1");
  const bool some = !c.windowed_layers.empty();
  if (c.sliding_window && some && !(gemma && window_period(c) > 0) &&
      std::find(c.windowed_layers.begin(), c.windowed_layers.end(), false) != c.windowed_layers.end() &&
      std::find(c.windowed_layers.begin(), c.windowed_layers.end(), true) != c.windowed_layers.end())
    refuse("a window in some of the layers");
  const RopeScaling& rope = c.rope_scaling;
  if (c.latent && rope.mscale.value_or(0) != rope.mscale_all_dim.value_or(0))
    refuse(fmt::format("mscale {} beside mscale_all_dim {}", rope.mscale.value_or(0),
                       rope.mscale_all_dim.value_or(0)));
  const int64_t largest = architecture == "gemma2" ? 46 : architecture == "gemma3" ? 62 : 0;
  const double scale = c.latent                  ? detail::latent_attention_scale(c)
                       : largest == c.num_layers ? 1 / std::sqrt(double(c.hidden_size) / double(c.num_heads))
                                                 : 1 / std::sqrt(double(c.head_dim));
  if (c.attention_scale && std::fabs(*c.attention_scale / scale - 1) > 1e-6)
    refuse(fmt::format("scores times {:.6g} (in its place {:.6g})", *c.attention_scale, scale));
}

/// What files of DeepSeek's models state beside. Keys and values stay one matrix, as in llama.cpp's files of
/// before 2025, which later versions read as well.
void put_deepseek(const ModelConfig& c, const auto& number, const auto& real, const auto& put) {
  if (c.latent->query_rank > 0) number("attention.q_lora_rank", c.latent->query_rank);
  number("attention.kv_lora_rank", c.latent->rank);
  if (c.rope_scaling.mscale_all_dim)
    real("rope.scaling.yarn_log_multiplier", 0.1 * *c.rope_scaling.mscale_all_dim);
  number("leading_dense_block_count", c.dense_layers);
  if (c.num_experts == 0) return;
  number("expert_shared_count", c.shared_expert_size / c.expert_size);
  real("expert_weights_scale", c.expert_scale);
  put("expert_weights_norm", GgufValue::of_bool(c.normalised_experts));
  number("expert_gating_func", c.sigmoid_router ? 2 : 1);
  number("expert_group_count", c.expert_groups);
  number("expert_group_used_count", c.expert_groups_used);
}

} // namespace

Metadata metadata_of(const ModelConfig& c, const std::string& architecture) {
  refuse_what_gguf_lacks(c, architecture);
  Metadata out;
  const auto put = [&](const std::string& key, GgufValue value) {
    out.emplace_back(architecture + "." + key, std::move(value));
  };
  const auto number = [&](const std::string& key, int64_t value) {
    put(key, GgufValue::of_u32(static_cast<uint32_t>(value)));
  };
  const auto real = [&](const std::string& key, double value) {
    put(key, GgufValue::of_f32(static_cast<float>(value)));
  };
  out.emplace_back("general.architecture", GgufValue::of_string(architecture));
  if (!c.name.empty()) out.emplace_back("general.name", GgufValue::of_string(c.name));
  number("context_length", c.context_length);
  number("embedding_length", c.hidden_size);
  number("block_count", c.num_layers);
  number("feed_forward_length", c.intermediate_size);
  number("attention.head_count", c.num_heads);
  number("attention.head_count_kv", c.num_kv_heads);
  number("attention.key_length", c.head_dim);
  number("attention.value_length", c.latent ? c.latent->value_dim : c.head_dim);
  real(c.norm == ModelConfig::Norm::layer ? "attention.layer_norm_epsilon"
                                          : "attention.layer_norm_rms_epsilon",
       c.rms_norm_eps);
  number("vocab_size", c.vocab_size);
  if (!c.learned_positions) {
    number("rope.dimension_count", c.rope_dim);
    real("rope.freq_base", c.rope_theta);
  }
  const RopeScaling& s = c.rope_scaling;
  if (s.kind == RopeScaling::Kind::linear || s.kind == RopeScaling::Kind::yarn) {
    put("rope.scaling.type", GgufValue::of_string(std::string(rope_scaling_name(s.kind))));
    real("rope.scaling.factor", s.factor);
  }
  if (s.kind == RopeScaling::Kind::yarn) {
    number("rope.scaling.original_context_length", s.original_context);
    real("rope.scaling.yarn_beta_fast", s.beta_fast);
    real("rope.scaling.yarn_beta_slow", s.beta_slow);
    if (s.attention_factor)
      real("rope.scaling.attn_factor", *s.attention_factor / (0.1 * std::log(std::max(s.factor, 1.0)) + 1.0));
  }
  if (s.kind == RopeScaling::Kind::longrope) {
    number("rope.scaling.original_context_length", s.original_context);
    if (s.attention_factor) real("rope.scaling.attn_factor", *s.attention_factor);
  }
  const bool gemma = architecture.starts_with("gemma");
  const bool none =
      !c.windowed_layers.empty() &&
      std::find(c.windowed_layers.begin(), c.windowed_layers.end(), true) == c.windowed_layers.end();
  if (c.sliding_window && !none) {
    number("attention.sliding_window", *c.sliding_window);
    if (gemma && window_period(c) > 0) number("attention.sliding_window_pattern", window_period(c));
  }
  if (c.local_rope_theta && architecture == "gemma3") real("rope.freq_base_swa", *c.local_rope_theta);
  if (c.attention_softcap) real("attn_logit_softcapping", *c.attention_softcap);
  if (c.logit_softcap) real("final_logit_softcapping", *c.logit_softcap);
  if (c.num_experts > 0) {
    number("expert_count", c.num_experts);
    number("expert_used_count", c.num_experts_used);
    number("expert_feed_forward_length", c.expert_size);
  }
  if (c.latent) put_deepseek(c, number, real, put);
  return out;
}

namespace {

struct Family {
  const char *type, *architecture_class;
};

std::string in_json(double value) { return fmt::format("{}", value); }
std::string in_json(bool value) { return value ? "true" : "false"; }
template <class Value>
  requires std::is_integral_v<Value>
std::string in_json(Value value) {
  return fmt::format("{}", value);
}
std::string in_json(const char* text) { return detail::json_string(text); }
std::string in_json(const std::string& text) { return detail::json_string(text); }

/// Llama 3.1 states the factors of its frequencies; the context that they are made of is a power of two.
bool is_llama3(const ModelConfig& c, ModelConfig& with) {
  if (c.rope_factors.empty()) return false;
  with = c;
  with.rope_factors.clear();
  with.rope_scaling = {};
  with.rope_scaling.kind = RopeScaling::Kind::llama3;
  with.rope_scaling.factor = *std::max_element(c.rope_factors.begin(), c.rope_factors.end());
  with.rope_scaling.low_freq_factor = 1;
  const auto stated = rope_table(c).inverse_frequencies;
  for (int64_t context = 8192, i = 0; i < 32; context = int64_t(1) << i++) { // 8192 first: the usual one
    with.rope_scaling.original_context = context;
    const auto made = rope_table(with).inverse_frequencies;
    bool same = true;
    for (size_t k = 0; k < stated.size(); k++) same = same && std::fabs(stated[k] / made[k] - 1) < 1e-5;
    if (same) return true;
  }
  return false;
}

} // namespace

std::string config_json_of(const ModelConfig& c, const std::string& file) {
  const std::string& type = c.architecture;
  constexpr std::pair<std::string_view, const char*> classes[] = {{"llama", "LlamaForCausalLM"},
                                                                  {"mistral", "MistralForCausalLM"},
                                                                  {"mixtral", "MixtralForCausalLM"},
                                                                  {"qwen2", "Qwen2ForCausalLM"},
                                                                  {"qwen3", "Qwen3ForCausalLM"},
                                                                  {"qwen3_moe", "Qwen3MoeForCausalLM"},
                                                                  {"phi3", "Phi3ForCausalLM"},
                                                                  {"gemma", "GemmaForCausalLM"},
                                                                  {"gemma2", "Gemma2ForCausalLM"},
                                                                  {"gemma3_text", "Gemma3ForCausalLM"},
                                                                  {"olmo2", "Olmo2ForCausalLM"},
                                                                  {"gpt2", "GPT2LMHeadModel"},
                                                                  {"deepseek_v2", "DeepseekV2ForCausalLM"},
                                                                  {"deepseek_v3", "DeepseekV3ForCausalLM"}};
  const auto* const row = std::ranges::find(classes, type, &std::pair<std::string_view, const char*>::first);
  if (row == std::end(classes))
    throw Error(fmt::format("{}: models of the architecture {} are not written as a folder", file, type));
  std::vector<std::pair<std::string, std::string>> fields;
  const auto put = [&](const char* key, const auto& value) { fields.emplace_back(key, in_json(value)); };
  const auto put_text = [&](const char* key, std::string text) { fields.emplace_back(key, std::move(text)); };
  put_text("architectures", fmt::format("[\"{}\"]", row->second));
  put("model_type", type);
  put("vocab_size", c.vocab_size);
  put("tie_word_embeddings", c.tied_embeddings);
  if (type == "gpt2") {
    put("n_embd", c.hidden_size);
    put("n_inner", c.intermediate_size);
    put("n_layer", c.num_layers);
    put("n_head", c.num_heads);
    put("n_positions", c.context_length);
    put("n_ctx", c.context_length);
    put("layer_norm_epsilon", c.rms_norm_eps);
    put("activation_function", c.activation);
  } else {
    put("hidden_size", c.hidden_size);
    put("intermediate_size", c.intermediate_size);
    put("num_hidden_layers", c.num_layers);
    put("num_attention_heads", c.num_heads);
    put("num_key_value_heads", c.num_kv_heads);
    put("head_dim", c.latent ? c.rope_dim : c.head_dim);
    put("max_position_embeddings", c.context_length);
    put("rms_norm_eps", c.rms_norm_eps);
    put("rope_theta", c.rope_theta);
    put("attention_bias", c.attention_bias);
    put("mlp_bias", c.mlp_bias);
    put(type.starts_with("gemma") ? "hidden_activation" : "hidden_act", c.activation);
    if (c.rope_dim != c.head_dim && !c.latent)
      put("partial_rotary_factor", double(c.rope_dim) / double(c.head_dim));
  }
  ModelConfig with;
  const RopeScaling& s = c.rope_scaling;
  const auto floats = [](const std::vector<float>& values) {
    return fmt::format("[{}]", fmt::join(values, ","));
  };
  if (is_llama3(c, with))
    put_text("rope_scaling",
             fmt::format(R"({{"rope_type":"llama3","factor":{},"low_freq_factor":1.0,"high_freq_factor":4.0,)"
                         R"("original_max_position_embeddings":{}}})",
                         with.rope_scaling.factor, with.rope_scaling.original_context));
  else if (!c.rope_factors.empty())
    throw Error(
        fmt::format("{}: factors of rotary frequencies that are not those of Llama 3, which config.json "
                    "cannot say",
                    file));
  else if (s.kind == RopeScaling::Kind::linear)
    put_text("rope_scaling", fmt::format(R"({{"rope_type":"linear","factor":{}}})", s.factor));
  else if (s.kind == RopeScaling::Kind::yarn)
    put_text(
        "rope_scaling",
        fmt::format(R"({{"rope_type":"yarn","factor":{},"original_max_position_embeddings":{},)"
                    R"("beta_fast":{},"beta_slow":{}{}}})",
                    s.factor, s.original_context, s.beta_fast, s.beta_slow,
                    (s.attention_factor ? fmt::format(",\"attention_factor\":{}", *s.attention_factor) : "") +
                        (s.mscale_all_dim
                             ? fmt::format(",\"mscale\":{0},\"mscale_all_dim\":{0}", *s.mscale_all_dim)
                             : "")));
  else if (s.kind == RopeScaling::Kind::longrope) {
    put("original_max_position_embeddings", s.original_context);
    put_text(
        "rope_scaling",
        fmt::format(R"({{"rope_type":"longrope","short_factor":{},"long_factor":{}{}}})",
                    floats(s.short_factors), floats(s.long_factors),
                    s.attention_factor ? fmt::format(",\"attention_factor\":{}", *s.attention_factor) : ""));
  }
  if (c.sliding_window) {
    put("sliding_window", *c.sliding_window);
    if (type.starts_with("qwen")) put("use_sliding_window", true);
    if (!c.windowed_layers.empty()) {
      std::vector<std::string> types;
      for (const bool windowed : c.windowed_layers)
        types.emplace_back(windowed ? "\"sliding_attention\"" : "\"full_attention\"");
      put_text("layer_types", fmt::format("[{}]", fmt::join(types, ",")));
    }
  }
  if (c.local_rope_theta) put("rope_local_base_freq", *c.local_rope_theta);
  if (type == "gemma2" || type.starts_with("gemma3")) {
    const double scale = c.attention_scale.value_or(1 / std::sqrt(double(c.head_dim)));
    put("query_pre_attn_scalar", std::round(1 / (scale * scale) * 1e6) / 1e6);
    if (c.attention_softcap) put("attn_logit_softcapping", *c.attention_softcap);
    if (c.logit_softcap) put("final_logit_softcapping", *c.logit_softcap);
  }
  if (c.latent) {
    if (c.latent->query_rank > 0)
      put("q_lora_rank", c.latent->query_rank);
    else
      put_text("q_lora_rank", "null");
    put("kv_lora_rank", c.latent->rank);
    put("qk_nope_head_dim", c.latent->plain_dim);
    put("qk_rope_head_dim", c.rope_dim);
    put("v_head_dim", c.latent->value_dim);
    put("n_routed_experts", c.num_experts);
    put("first_k_dense_replace", c.dense_layers);
  }
  if (c.latent && c.num_experts > 0) {
    put("num_experts_per_tok", c.num_experts_used);
    put("moe_intermediate_size", c.expert_size);
    put("n_shared_experts", c.shared_expert_size / c.expert_size);
    put("routed_scaling_factor", c.expert_scale);
    put("norm_topk_prob", c.normalised_experts);
    put("n_group", c.expert_groups);
    put("topk_group", c.expert_groups_used);
    put("topk_method", c.sigmoid_router      ? "noaux_tc"
                       : c.expert_groups > 1 ? "group_limited_greedy"
                                             : "greedy");
    put("scoring_func", c.sigmoid_router ? "sigmoid" : "softmax");
  } else if (c.num_experts > 0) {
    put(type == "mixtral" ? "num_local_experts" : "num_experts", c.num_experts);
    put("num_experts_per_tok", c.num_experts_used);
    if (type != "mixtral") put("moe_intermediate_size", c.expert_size);
    put("norm_topk_prob", c.normalised_experts);
  }
  const auto tokens = [&](const char* key, const std::vector<int32_t>& ids) {
    if (ids.size() == 1) put(key, ids[0]);
    if (ids.size() > 1) put_text(key, fmt::format("[{}]", fmt::join(ids, ",")));
  };
  tokens("bos_token_id", c.bos_tokens);
  tokens("eos_token_id", c.eos_tokens);
  std::string out = "{\n";
  for (const auto& [key, value] : fields)
    out += fmt::format("{}  \"{}\": {}", out.size() > 2 ? ",\n" : "", key, value);
  return out + "\n}\n";
}

} // namespace luminal::models
