// formats/model_config_hf.cpp -- config.json and generation_config.json of Hugging Face
// transformers.
#include "formats/json.h"
#include "formats/model_config.h"
#include "formats/model_config_check.h"
#include "formats/moondream_config.h"
#include <algorithm>
#include <cmath>

namespace luminal {
namespace {

using namespace detail;

class HfConfigReader {
public:
  HfConfigReader(const Json& json, std::string_view file) : json_(json), file_(file) {}

  const Json* find(std::string_view key) const { return json_.find(key); }
  static std::string named(std::string_view key) { return in_quotes(key); }

  int64_t required(std::string_view key) const {
    const Json* value = find(key);
    if (value == nullptr)
      refuse_at(file_, json_.offset,
                fmt::format("no {}, which a language model of type {} needs", named(key),
                            in_quotes(string("model_type", ""))));
    return value->as_int(file_, named(key));
  }
  int64_t integer(std::string_view key, int64_t otherwise) const {
    const Json* value = find(key);
    return value == nullptr ? otherwise : value->as_int(file_, named(key));
  }
  double real(std::string_view key, double otherwise) const {
    const Json* value = find(key);
    return value == nullptr ? otherwise : value->as_real(file_, named(key));
  }
  bool boolean(std::string_view key, bool otherwise) const {
    const Json* value = find(key);
    return value == nullptr ? otherwise : value->as_bool(file_, named(key));
  }
  std::string string(std::string_view key, std::string_view otherwise) const {
    const Json* value = find(key);
    return value == nullptr ? std::string(otherwise) : value->as_string(file_, named(key));
  }

  /// A token id, a list of them, or nothing.
  void add_tokens(std::string_view key, std::vector<int32_t>& out) const {
    const Json* value = find(key);
    if (value == nullptr) return;
    const auto add = [&](const Json& json) {
      const int64_t id = json.as_int(file_, named(key));
      if (id < 0 || id > INT32_MAX)
        refuse_at(file_, json.offset, fmt::format("{} is {}, expected a token id", named(key), id));
      if (std::find(out.begin(), out.end(), id) == out.end()) out.push_back(static_cast<int32_t>(id));
    };
    if (!value->is_array()) return add(*value);
    for (const Json& item : value->as_array(file_, named(key))) add(item);
  }

private:
  const Json& json_;
  std::string_view file_;
};

void read_rope_scaling(const Json& json, ModelConfig& config, std::string_view file,
                       int64_t original_context) {
  using Kind = RopeScaling::Kind;
  RopeScaling& s = config.rope_scaling;
  const HfConfigReader in(json, file);
  std::string kind = in.string("rope_type", in.string("type", "default"));
  if (kind == "default")
    s.kind = Kind::none;
  else if (kind == "linear")
    s.kind = Kind::linear;
  else if (kind == "dynamic")
    s.kind = Kind::dynamic;
  else if (kind == "llama3")
    s.kind = Kind::llama3;
  else if (kind == "yarn")
    s.kind = Kind::yarn;
  else if (kind == "longrope" || kind == "su")
    s.kind = Kind::longrope;
  else
    refuse_at(
        file, json.offset,
        fmt::format("rope scaling of type {}, expected default, linear, dynamic, llama3, yarn or longrope",
                    in_quotes(kind)));
  const auto applies = [&](std::string_view key) {
    if (key == "rope_type" || key == "type" || key == "rope_theta" || key == "partial_rotary_factor" ||
        key == "finetuned")
      return true;
    if (key == "factor") return s.kind != Kind::none;
    if (key == "original_max_position_embeddings") return s.kind != Kind::none && s.kind != Kind::linear;
    if (key == "short_factor" || key == "long_factor") return s.kind == Kind::longrope;
    if (key == "attention_factor" && s.kind == Kind::longrope) return true;
    if (key == "low_freq_factor" || key == "high_freq_factor") return s.kind == Kind::llama3;
    return s.kind == Kind::yarn && (key == "beta_fast" || key == "beta_slow" || key == "attention_factor" ||
                                    key == "mscale" || key == "mscale_all_dim" || key == "truncate");
  };
  for (const auto& [key, value] : json.as_object(file, "the rope scaling")) {
    if (value.is_object())
      refuse_at(
          file, value.offset,
          fmt::format("rope parameters for {} alone, expected the same for every layer", in_quotes(key)));
    if (!applies(key) && !value.is_null())
      refuse_at(file, value.offset,
                fmt::format("rope scaling of type {} with {}, whose meaning is not known", in_quotes(kind),
                            in_quotes(key)));
  }
  if (s.kind == Kind::longrope) {
    const auto factors = [&](const char* key) {
      const Json* list = in.find(key);
      if (list == nullptr)
        refuse_at(file, json.offset,
                  fmt::format("rope scaling of type {} has no {}", in_quotes(kind), in_quotes(key)));
      std::vector<float> values;
      for (const Json& item : list->as_array(file, in_quotes(key)))
        values.push_back(float(item.as_real(file, in_quotes(key))));
      return values;
    };
    s.short_factors = factors("short_factor");
    s.long_factors = factors("long_factor");
    // Phi-3 states the trained context beside the scaling, and the factor by both contexts.
    s.original_context = in.integer("original_max_position_embeddings", original_context);
    s.factor = in.real(
        "factor", s.original_context > 0 ? double(config.context_length) / double(s.original_context) : 1);
    if (in.find("attention_factor") != nullptr) s.attention_factor = in.real("attention_factor", 1);
  } else if (s.kind != Kind::none) {
    if (in.find("factor") == nullptr)
      refuse_at(file, json.offset, fmt::format("rope scaling of type {} has no \"factor\"", in_quotes(kind)));
    s.factor = in.real("factor", 1);
  }
  if (s.kind == Kind::llama3) {
    for (const char* key : {"low_freq_factor", "high_freq_factor", "original_max_position_embeddings"})
      if (in.find(key) == nullptr)
        refuse_at(file, json.offset,
                  fmt::format("rope scaling of type \"llama3\" has no {}", in_quotes(key)));
    s.low_freq_factor = in.real("low_freq_factor", 0);
    s.high_freq_factor = in.real("high_freq_factor", 0);
  }
  if (s.kind == Kind::yarn) {
    s.beta_fast = in.real("beta_fast", 32);
    s.beta_slow = in.real("beta_slow", 1);
    s.truncate = in.boolean("truncate", true);
    const auto optional = [&](const char* key) {
      return in.find(key) == nullptr ? std::nullopt : std::optional<double>(in.real(key, 0));
    };
    s.attention_factor = optional("attention_factor");
    s.mscale = optional("mscale");
    s.mscale_all_dim = optional("mscale_all_dim");
  }
  if (s.kind == Kind::llama3 || s.kind == Kind::yarn || s.kind == Kind::dynamic)
    s.original_context = in.integer("original_max_position_embeddings", config.context_length);
  config.rope_theta = in.real("rope_theta", config.rope_theta);
}

void read_sliding_window(const HfConfigReader& in, ModelConfig& config, std::string_view file) {
  const Json* window = in.find("sliding_window");
  // Only Qwen has the switch, off unless stated.
  const bool used = in.boolean("use_sliding_window", !config.architecture.starts_with("qwen"));
  if (window == nullptr || !used) return;
  config.sliding_window = window->as_int(file, "\"sliding_window\"");
  if (const Json* types = in.find("layer_types")) {
    for (const Json& type : types->as_array(file, "\"layer_types\"")) {
      const std::string& name = type.as_string(file, "a layer type");
      if (name != "sliding_attention" && name != "full_attention")
        refuse_at(
            file, type.offset,
            fmt::format("a layer of type {}, expected sliding_attention or full_attention", in_quotes(name)));
      config.windowed_layers.push_back(name == "sliding_attention");
    }
    return;
  }
  const bool two = config.architecture == "gemma2", three = config.architecture.starts_with("gemma3");
  const int64_t layers = std::clamp<int64_t>(config.num_layers, 0, 1 << 14);
  const int64_t period = in.integer("sliding_window_pattern", two ? 2 : three ? 6 : 0);
  const int64_t first = config.architecture.starts_with("qwen") ? in.integer("max_window_layers", 0) : 0;
  for (int64_t layer = 0; layer < layers && (period > 0 || first > 0); layer++)
    config.windowed_layers.push_back(layer >= first && (period <= 0 || (layer + 1) % period != 0));
}

/// Latent attention, and which experts a token goes through (DeepSeek-V2 and V3).
void read_deepseek(const HfConfigReader& in, ModelConfig& c, std::string_view file) {
  const bool third = c.architecture == "deepseek_v3";
  LatentAttention& latent = c.latent.emplace();
  latent.query_rank = in.integer("q_lora_rank", 0);
  latent.rank = in.required("kv_lora_rank");
  latent.plain_dim = in.required("qk_nope_head_dim");
  latent.value_dim = in.required("v_head_dim");
  c.rope_dim = in.required("qk_rope_head_dim");
  c.head_dim =
      std::clamp<int64_t>(latent.plain_dim, 0, 1 << 24) + std::clamp<int64_t>(c.rope_dim, 0, 1 << 24);
  c.num_kv_heads = c.num_heads;
  c.rope_interleaved = true;
  c.attention_scale = latent_attention_scale(c);
  c.num_experts = in.integer("n_routed_experts", 0);
  c.num_experts_used = c.num_experts == 0 ? 0 : in.required("num_experts_per_tok");
  if (c.num_experts == 0) return;
  c.expert_size = in.required("moe_intermediate_size");
  c.shared_expert_size = std::clamp<int64_t>(in.integer("n_shared_experts", 0), -1, 1 << 16) *
                         std::clamp<int64_t>(c.expert_size, 0, 1 << 26);
  c.dense_layers = in.integer("first_k_dense_replace", 0);
  c.expert_scale = in.real("routed_scaling_factor", 1);
  c.normalised_experts = in.boolean("norm_topk_prob", third);
  const std::string scores = in.string("scoring_func", third ? "sigmoid" : "softmax");
  if (scores != "sigmoid" && scores != "softmax")
    refuse_at(file, in.find("scoring_func")->offset,
              fmt::format("experts scored by {}, expected softmax or sigmoid", in_quotes(scores)));
  c.sigmoid_router = scores == "sigmoid";
  if (in.integer("moe_layer_freq", 1) != 1)
    refuse_at(file, in.find("moe_layer_freq")->offset,
              "experts in some layers only, expected in all behind the first");
  if (third || in.string("topk_method", "greedy") != "greedy") {
    c.expert_groups = in.integer("n_group", 1);
    c.expert_groups_used = in.integer("topk_group", c.expert_groups);
  }
}

std::optional<StorageType> dtype_named(std::string_view name) {
  if (name.starts_with("torch.")) name.remove_prefix(6);
  if (name == "float32" || name == "float") return StorageType::f32;
  if (name == "float16" || name == "half") return StorageType::f16;
  if (name == "bfloat16") return StorageType::bf16;
  if (name == "float64" || name == "double") return StorageType::f64;
  return std::nullopt;
}

ModelConfig read(const Json& json, std::string_view file) {
  const HfConfigReader in(json, file);
  json.as_object(file, "the configuration");
  ModelConfig c;
  c.architecture = in.string("model_type", "");
  c.name = in.string("_name_or_path", "");
  if (const Json* classes = in.find("architectures")) {
    const auto& list = classes->as_array(file, "\"architectures\"");
    if (!list.empty()) c.architecture_class = list[0].as_string(file, "\"architectures\"");
  }
  if (c.architecture.empty())
    refuse_at(file, json.offset, "no \"model_type\", expected the configuration of a Hugging Face model");
  if (const Json* quantization = in.find("quantization_config")) {
    const HfConfigReader inner(*quantization, file);
    refuse_at(file, quantization->offset,
              fmt::format("weights quantized by the method {}, expected plain weights (or a GGUF file)",
                          in_quotes(inner.string("quant_method", "?"))));
  }
  const bool gpt2 = c.architecture == "gpt2"; // which has names of its own
  c.vocab_size = in.required("vocab_size");
  c.hidden_size = in.required(gpt2 ? "n_embd" : "hidden_size");
  c.intermediate_size = gpt2 ? in.integer("n_inner", 4 * std::min<int64_t>(c.hidden_size, 1 << 24))
                             : in.required("intermediate_size");
  c.num_layers = in.required(gpt2 ? "n_layer" : "num_hidden_layers");
  c.num_heads = in.required(gpt2 ? "n_head" : "num_attention_heads");
  c.num_kv_heads = gpt2 ? c.num_heads : in.integer("num_key_value_heads", c.num_heads);
  settle_architecture(c, true);
  if (c.num_heads < 1)
    refuse(file, fmt::format("\"num_attention_heads\" is {}, expected 1 or more", c.num_heads));
  if (in.find("head_dim") == nullptr && c.hidden_size % c.num_heads != 0)
    refuse(file, fmt::format("hidden size {} and {} heads without \"head_dim\", expected a multiple",
                             c.hidden_size, c.num_heads));
  c.head_dim = in.integer("head_dim", c.hidden_size / c.num_heads);
  c.context_length = in.integer(gpt2 ? "n_positions" : "max_position_embeddings", gpt2 ? 1024 : 2048);
  c.rms_norm_eps = gpt2 ? in.real("layer_norm_epsilon", 1e-5) : in.real("rms_norm_eps", 1e-6);
  c.rope_theta = in.real("rope_theta", 10000.0);
  const Json* rope = in.find("rope_parameters");
  if (rope == nullptr) rope = in.find("rope_scaling");
  if (rope != nullptr && rope->find("full_attention") != nullptr &&
      rope->find("sliding_attention") != nullptr) {
    const Json& local = *rope->find("sliding_attention");
    c.local_rope_theta = HfConfigReader(local, file).real("rope_theta", 10000.0);
    if (HfConfigReader(local, file).string("rope_type", "default") != "default")
      refuse_at(file, local.offset, "scaled rotary frequencies of windowed layers, expected plain ones");
    rope = rope->find("full_attention");
  } else if (c.architecture.starts_with("gemma3"))
    c.local_rope_theta = in.real("rope_local_base_freq", 10000.0);
  if (rope != nullptr)
    read_rope_scaling(*rope, c, file, in.integer("original_max_position_embeddings", c.context_length));
  const Json* partial = in.find("partial_rotary_factor");
  if (rope != nullptr && rope->find("partial_rotary_factor") != nullptr)
    partial = rope->find("partial_rotary_factor");
  c.rope_dim = c.head_dim;
  if (partial != nullptr) {
    const double share = partial->as_real(file, "\"partial_rotary_factor\"");
    if (!(share > 0) || !(share <= 1))
      refuse_at(file, partial->offset,
                fmt::format("\"partial_rotary_factor\" is {}, expected above 0 and at most 1", share));
    c.rope_dim =
        static_cast<int64_t>(static_cast<double>(std::clamp<int64_t>(c.head_dim, 0, 1 << 20)) * share);
  }
  c.tied_embeddings = in.boolean("tie_word_embeddings", c.architecture.starts_with("gemma") || gpt2);
  c.attention_bias = in.boolean("attention_bias", c.architecture == "qwen2" || gpt2);
  c.mlp_bias = in.boolean("mlp_bias", gpt2);
  // Gemma's files of old say gelu and mean its approximation.
  const std::string usual = c.activation;
  c.activation = in.string(gpt2 ? "activation_function" : "hidden_activation",
                           c.architecture.starts_with("gemma") ? usual : in.string("hidden_act", usual));
  const auto optional = [&](const char* key, std::optional<double> otherwise) {
    if (in.find(key) == nullptr) return otherwise;
    return std::optional(in.real(key, 0));
  };
  if (c.architecture == "gemma2" || c.architecture.starts_with("gemma3")) {
    c.attention_softcap = optional("attn_logit_softcapping", {});
    c.logit_softcap = optional("final_logit_softcapping", {});
    if (const auto scalar = optional("query_pre_attn_scalar", 256.0); *scalar > 0)
      c.attention_scale = 1 / std::sqrt(*scalar);
  }
  read_sliding_window(in, c, file);
  c.num_experts = in.integer("num_local_experts", in.integer("num_experts", 0));
  c.num_experts_used = c.num_experts == 0 ? 0 : in.required("num_experts_per_tok");
  if (c.num_experts > 0) c.expert_size = in.integer("moe_intermediate_size", c.intermediate_size);
  c.normalised_experts = in.boolean("norm_topk_prob", c.architecture == "mixtral");
  if (c.architecture.starts_with("deepseek_v")) read_deepseek(in, c, file);
  if (c.architecture == "qwen3_moe" &&
      (in.integer("decoder_sparse_step", 1) != 1 ||
       (in.find("mlp_only_layers") != nullptr &&
        !in.find("mlp_only_layers")->as_array(file, "\"mlp_only_layers\"").empty())))
    refuse(file, "experts in some layers only, expected in all of them");
  in.add_tokens("bos_token_id", c.bos_tokens);
  in.add_tokens("eos_token_id", c.eos_tokens);
  c.dtype = dtype_named(in.string("dtype", in.string("torch_dtype", "")));
  return c;
}

} // namespace

Result<ModelConfig> parse_hf_config(std::string_view config_json, std::string_view file_name,
                                    std::string_view generation_config_json) {
  return guarded(file_name, [&] {
    const Json json = parse_json(config_json, file_name);
    const bool moondream =
        json.is_object() && HfConfigReader(json, file_name).string("model_type", "") == "moondream1";
    ModelConfig config =
        moondream ? unwrap(parse_moondream_text(config_json, file_name)) : read(json, file_name);
    if (!generation_config_json.empty()) {
      const std::string beside =
          std::string(file_name.substr(0, file_name.find_last_of('/') + 1)) + "generation_config.json";
      const Json generation = parse_json(generation_config_json, beside);
      generation.as_object(beside, "the configuration");
      HfConfigReader(generation, beside).add_tokens("eos_token_id", config.eos_tokens);
      if (config.bos_tokens.empty())
        HfConfigReader(generation, beside).add_tokens("bos_token_id", config.bos_tokens);
    }
    check_model_config(config, file_name);
    return config;
  });
}

} // namespace luminal
