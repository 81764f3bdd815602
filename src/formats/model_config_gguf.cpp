// formats/model_config_gguf.cpp -- the configuration in the metadata of a GGUF file. Keys:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, section "Standardized key-value
// pairs".
#include "formats/gguf.h"
#include "formats/model_config.h"
#include "formats/model_config_check.h"
#include "formats/parse.h"
#include "formats/quants.h"
#include <algorithm>
#include <array>
#include <cmath>
#include <map>

namespace luminal {
namespace {

using namespace detail;

/// Families whose rotary pairs are neighbours (LLAMA_ROPE_TYPE_NORM of llama.cpp). Their q and k
/// rows are permuted to it.
bool pairs_are_neighbours(std::string_view architecture) {
  constexpr std::string_view names[] = {
      "llama",     "llama4",     "deci",      "baichuan",   "starcoder", "internlm2", "minicpm",  "xverse",
      "command-r", "cohere2",    "olmo",      "arctic",     "deepseek",  "deepseek2", "plm",      "chatglm",
      "granite",   "granitemoe", "chameleon", "bailingmoe", "arcee",     "smollm3",   "mistral3", "ernie4_5"};
  return std::find(std::begin(names), std::end(names), architecture) != std::end(names);
}

class GgufConfigReader {
public:
  explicit GgufConfigReader(const Gguf& gguf) : gguf_(gguf) {}

  ModelConfig read() {
    ModelConfig c;
    const auto architecture = unwrap(gguf_.string("general.architecture"));
    if (!architecture)
      refuse(gguf_.file_name, "no metadata \"general.architecture\", expected the name of a model family");
    if (*architecture == "whisper")
      refuse(gguf_.file_name, "a Whisper model as GGUF, which whisper.cpp neither writes nor reads; luminal "
                              "transcribe takes its ggml files (ggml-base.en.bin) and Hugging Face folders");
    if (*architecture == "clip")
      refuse(gguf_.file_name, "the vision part of a model (mmproj), not a text model: luminal run TEXT.gguf "
                              "--mmproj FILE --image PICTURE, with Moondream 2");
    prefix_ = *architecture + ".";
    c.architecture = *architecture;
    c.name = unwrap(gguf_.string("general.name")).value_or("");
    c.hidden_size = required("embedding_length");
    c.num_layers = required("block_count");
    c.num_heads = same_in_all_layers("attention.head_count").value_or(0);
    if (c.num_heads < 1)
      refuse(gguf_.file_name, fmt::format("no metadata {}", in_quotes(prefix_ + "attention.head_count")));
    c.num_kv_heads = same_in_all_layers("attention.head_count_kv").value_or(c.num_heads);
    c.intermediate_size = same_in_all_layers("feed_forward_length").value_or(0);
    c.context_length = required("context_length");
    c.head_dim = integer("attention.key_length").value_or(c.hidden_size / c.num_heads);
    if (!integer("attention.key_length") && c.hidden_size % c.num_heads != 0)
      refuse(gguf_.file_name,
             fmt::format("hidden size {} and {} heads, expected a multiple", c.hidden_size, c.num_heads));
    const bool latent = c.architecture == "deepseek2";
    if (!latent && integer("attention.value_length").value_or(c.head_dim) != c.head_dim)
      refuse(gguf_.file_name, fmt::format("values of {} elements and keys of {} in a head, expected the same",
                                          *integer("attention.value_length"), c.head_dim));
    settle_architecture(c, false);
    const char* name_of_epsilon = c.norm == ModelConfig::Norm::layer ? "attention.layer_norm_epsilon"
                                                                     : "attention.layer_norm_rms_epsilon";
    const auto epsilon = real(name_of_epsilon);
    if (!epsilon)
      refuse(gguf_.file_name, fmt::format("no metadata {}", in_quotes(prefix_ + name_of_epsilon)));
    // 1e-5 in f32 is 9.99999975e-06: the decimal that was meant, so that both formats give the same
    // model.
    c.rms_norm_eps = shortest(*epsilon);
    c.rope_dim = integer("rope.dimension_count").value_or(c.head_dim);
    c.rope_theta = shortest(real("rope.freq_base").value_or(10000.0));
    c.rope_interleaved = pairs_are_neighbours(c.architecture);
    read_scaling(c);
    if (const TensorView* factors = gguf_.find_tensor("rope_freqs.weight"))
      c.rope_factors = unwrap(dequantize(*factors));
    c.vocab_size = vocabulary_size();
    c.tied_embeddings =
        gguf_.find_tensor("token_embd.weight") != nullptr && gguf_.find_tensor("output.weight") == nullptr;
    c.attention_bias = gguf_.find_tensor("blk.0.attn_q.bias") != nullptr;
    c.mlp_bias = gguf_.find_tensor("blk.0.ffn_up.bias") != nullptr ||
                 gguf_.find_tensor("blk.0.ffn_gate.bias") != nullptr;
    if (const auto window = integer("attention.sliding_window"); window && *window != 0)
      c.sliding_window = window;
    c.num_experts = integer("expert_count").value_or(0);
    c.num_experts_used = integer("expert_used_count").value_or(0);
    if (c.num_experts > 0)
      c.expert_size = integer("expert_feed_forward_length").value_or(c.intermediate_size);
    if (c.num_experts > 0 && c.intermediate_size == 0) c.intermediate_size = c.expert_size;
    read_gemma(c);
    if (latent) read_deepseek(c);
    add_token("tokenizer.ggml.bos_token_id", c.bos_tokens);
    for (const char* key : {"eos", "eot", "eom"})
      add_token(fmt::format("tokenizer.ggml.{}_token_id", key), c.eos_tokens);
    c.dtype = commonest_type();
    check_model_config(c, gguf_.file_name);
    return c;
  }

private:
  std::optional<int64_t> integer(std::string_view key) const {
    return unwrap(gguf_.integer(prefix_ + std::string(key)));
  }
  std::optional<double> real(std::string_view key) const {
    return unwrap(gguf_.real(prefix_ + std::string(key)));
  }

  int64_t required(std::string_view key) const {
    const auto value = integer(key);
    if (!value) refuse(gguf_.file_name, fmt::format("no metadata {}", in_quotes(prefix_ + std::string(key))));
    return *value;
  }

  /// A number, or an array with one number for each layer that must all be the same.
  std::optional<int64_t> same_in_all_layers(std::string_view key) const {
    const std::string full = prefix_ + std::string(key);
    const GgufValue* value = gguf_.find(full);
    if (value == nullptr || value->type != GgufType::array) return integer(key);
    const auto items = unwrap(gguf_.integers(full));
    if (items->empty())
      refuse(gguf_.file_name, fmt::format("metadata {} is an empty array", in_quotes(full)));
    for (const int64_t item : *items)
      if (item != items->front())
        refuse(gguf_.file_name,
               fmt::format("metadata {} differs from layer to layer ({}), expected one number",
                           in_quotes(full), value->describe()));
    return items->front();
  }

  /// What llama.cpp knows of Gemma 2 and 3 and no file states: which layers have the window, and the scale
  /// of the largest models.
  void read_gemma(ModelConfig& c) const {
    if (const auto cap = real("attn_logit_softcapping")) c.attention_softcap = shortest(*cap);
    if (const auto cap = real("final_logit_softcapping")) c.logit_softcap = shortest(*cap);
    const bool two = c.architecture == "gemma2", three = c.architecture == "gemma3";
    if (!two && !three) return;
    const int64_t period = integer("attention.sliding_window_pattern").value_or(two ? 2 : 6);
    if (period < 1)
      refuse(gguf_.file_name, fmt::format("a sliding window pattern of {}, expected 1 or more", period));
    if (c.sliding_window && c.num_layers >= 0 && c.num_layers <= 1 << 14)
      for (int64_t layer = 0; layer < c.num_layers; layer++)
        c.windowed_layers.push_back((layer + 1) % period != 0);
    if (three) c.local_rope_theta = shortest(real("rope.freq_base_swa").value_or(10000));
    if (c.num_layers == (two ? 46 : 62)) // 27B
      c.attention_scale = 1 / std::sqrt(double(c.hidden_size) / double(c.num_heads));
  }

  /// DeepSeek-V2 and V3. Files of llama.cpp of 2025 and later state the sizes of heads apart from those of
  /// the cache, which older ones do not know.
  void read_deepseek(ModelConfig& c) const {
    LatentAttention& latent = c.latent.emplace();
    latent.query_rank = integer("attention.q_lora_rank").value_or(0);
    latent.rank = required("attention.kv_lora_rank");
    c.head_dim = integer("attention.key_length_mla").value_or(c.head_dim);
    latent.plain_dim =
        std::clamp<int64_t>(c.head_dim, 0, 1 << 24) - std::clamp<int64_t>(c.rope_dim, 0, 1 << 24);
    const auto value = integer("attention.value_length_mla");
    latent.value_dim = value ? *value : required("attention.value_length");
    c.num_kv_heads = c.num_heads;
    c.attention_scale = latent_attention_scale(c);
    c.dense_layers = integer("leading_dense_block_count").value_or(0);
    if (c.num_experts == 0) return;
    c.shared_expert_size = std::clamp<int64_t>(integer("expert_shared_count").value_or(0), -1, 1 << 16) *
                           std::clamp<int64_t>(c.expert_size, 0, 1 << 26);
    if (const auto scale = real("expert_weights_scale"); scale && *scale != 0)
      c.expert_scale = shortest(*scale);
    c.normalised_experts = unwrap(gguf_.boolean(prefix_ + "expert_weights_norm")).value_or(false);
    const int64_t gating = integer("expert_gating_func").value_or(1); // files of V2 do not state it
    if (gating != 1 && gating != 2)
      refuse(gguf_.file_name, fmt::format("metadata {} is {}, expected 1 (softmax) or 2 (sigmoid)",
                                          in_quotes(prefix_ + "expert_gating_func"), gating));
    c.sigmoid_router = gating == 2;
    c.expert_groups = integer("expert_group_count").value_or(1);
    c.expert_groups_used = integer("expert_group_used_count").value_or(c.expert_groups);
  }

  static double shortest(double value) { return std::stod(fmt::format("{}", static_cast<float>(value))); }

  void read_scaling(ModelConfig& c) const {
    RopeScaling& s = c.rope_scaling;
    const std::string key = prefix_ + "rope.scaling.type";
    const auto kind = unwrap(gguf_.string(key));
    const auto old_linear = real("rope.scale_linear");
    const TensorView *long_factors = gguf_.find_tensor("rope_factors_long.weight"),
                     *short_factors = gguf_.find_tensor("rope_factors_short.weight");
    if (long_factors != nullptr && short_factors != nullptr) {
      s.kind = RopeScaling::Kind::longrope;
      s.long_factors = unwrap(dequantize(*long_factors));
      s.short_factors = unwrap(dequantize(*short_factors));
      s.original_context = integer("rope.scaling.original_context_length").value_or(c.context_length);
      s.factor = s.original_context > 0 ? double(c.context_length) / double(s.original_context) : 1;
      if (const auto magnitude = real("rope.scaling.attn_factor")) s.attention_factor = shortest(*magnitude);
      return;
    }
    if (!kind) {
      if (old_linear && *old_linear != 0 && *old_linear != 1)
        s.kind = RopeScaling::Kind::linear, s.factor = *old_linear;
      // llama.cpp: a factor without a type is linear.
      if (const auto factor = real("rope.scaling.factor"); factor && *factor != 0 && *factor != 1)
        s.kind = RopeScaling::Kind::linear, s.factor = *factor;
      return;
    }
    if (*kind == "none") return;
    if (*kind == "linear")
      s.kind = RopeScaling::Kind::linear;
    else if (*kind == "yarn")
      s.kind = RopeScaling::Kind::yarn;
    else
      refuse(gguf_.file_name, fmt::format("metadata {} is {}, expected none, linear or yarn", in_quotes(key),
                                          in_quotes(*kind)));
    const auto factor = real("rope.scaling.factor");
    if (!factor)
      refuse(gguf_.file_name, fmt::format("no metadata {}", in_quotes(prefix_ + "rope.scaling.factor")));
    s.factor = shortest(*factor);
    if (s.kind != RopeScaling::Kind::yarn) return;
    const auto log_multiplier = real("rope.scaling.yarn_log_multiplier"); // 0.1 times DeepSeek's mscale
    const bool stated = log_multiplier && *log_multiplier != 0;
    if (stated && c.architecture == "deepseek2")
      s.mscale = s.mscale_all_dim = 10 * shortest(*log_multiplier);
    else if (stated)
      refuse(gguf_.file_name,
             fmt::format("metadata {} is {}, expected none",
                         in_quotes(prefix_ + "rope.scaling.yarn_log_multiplier"), *log_multiplier));
    s.original_context = integer("rope.scaling.original_context_length").value_or(c.context_length);
    s.beta_fast = shortest(real("rope.scaling.yarn_beta_fast").value_or(32));
    s.beta_slow = shortest(real("rope.scaling.yarn_beta_slow").value_or(1));
    if (const auto factor_of_attention = real("rope.scaling.attn_factor"))
      s.attention_factor = shortest(*factor_of_attention) * (0.1 * std::log(std::max(s.factor, 1.0)) + 1.0);
  }

  int64_t vocabulary_size() const {
    if (const TensorView* embedding = gguf_.find_tensor("token_embd.weight");
        embedding != nullptr && embedding->shape.size() == 2)
      return embedding->shape[0];
    if (const auto size = integer("vocab_size")) return *size;
    if (const auto* tokens = unwrap(gguf_.strings("tokenizer.ggml.tokens")))
      return static_cast<int64_t>(tokens->size());
    refuse(gguf_.file_name,
           fmt::format("neither tensor \"token_embd.weight\" nor metadata {} nor \"tokenizer.ggml.tokens\"",
                       in_quotes(prefix_ + "vocab_size")));
  }

  void add_token(const std::string& key, std::vector<int32_t>& out) const {
    const auto id = unwrap(gguf_.integer(key));
    if (!id || *id < 0 || *id >= INT32_MAX) return; // 2^32-1 stands for "none" in older files
    if (std::find(out.begin(), out.end(), *id) == out.end()) out.push_back(static_cast<int32_t>(*id));
  }

  std::optional<StorageType> commonest_type() const {
    std::map<StorageType, uint64_t> bytes;
    for (const auto& tensor : gguf_.tensors)
      if (tensor.shape.size() >= 2) bytes[tensor.type] += tensor.bytes.size();
    const auto most = std::max_element(bytes.begin(), bytes.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    return most == bytes.end() ? std::nullopt : std::optional(most->first);
  }

  const Gguf& gguf_;
  std::string prefix_;
};

} // namespace

Result<ModelConfig> config_from_gguf(const Gguf& gguf) {
  return guarded(gguf.file_name, [&] { return GgufConfigReader(gguf).read(); });
}

} // namespace luminal
