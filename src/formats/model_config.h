// formats/model_config.h -- hyper-parameters of a decoder-only transformer, from config.json or
// GGUF metadata.
#pragma once
#include "base/result.h"
#include "formats/storage_type.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

struct Gguf;

/// How rotary frequencies are stretched beyond the trained context. Unknown kinds are refused by
/// name when read.
struct RopeScaling {
  enum class Kind { none, linear, dynamic, llama3, yarn, longrope };
  Kind kind = Kind::none;
  double factor = 1.0;                    ///< linear, dynamic, llama3, yarn
  double low_freq_factor = 1.0;           ///< llama3
  double high_freq_factor = 4.0;          ///< llama3
  double beta_fast = 32.0;                ///< yarn
  double beta_slow = 1.0;                 ///< yarn
  std::optional<double> attention_factor; ///< yarn: factor of cos and sin; absent: 0.1 * ln(factor) + 1
  std::optional<double> mscale;           ///< yarn (DeepSeek form)
  std::optional<double> mscale_all_dim;   ///< yarn (DeepSeek form)
  bool truncate = true;                   ///< yarn: correction dims are rounded outwards
  /// llama3, yarn, dynamic, longrope: the context the model was trained with
  int64_t original_context = 0;
  /// longrope: frequency i is divided by these, in texts up to the original context and in longer ones
  std::vector<float> short_factors = {}, long_factors = {};
};
std::string_view rope_scaling_name(RopeScaling::Kind kind);

/// Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434): keys and values of all heads are products of
/// one vector a token, which is what the cache holds, beside one rotating part that all heads share.
struct LatentAttention {
  int64_t query_rank = 0; ///< queries are a product of two matrices with so many elements between; 0: of one
  int64_t rank = 0;       ///< elements of the vector that keys and values are made of
  int64_t plain_dim = 0;  ///< elements of a key that do not rotate; ModelConfig::rope_dim follow them
  int64_t value_dim = 0;  ///< elements of a value
};

/// Llama and its relatives. All sizes are positive and consistent when a reader returns it (heads
/// divide by kv_heads, ...).
struct ModelConfig {
  std::string architecture; ///< family, lower case: "llama", "qwen2", "mistral" (GGUF general.architecture,
                            ///< HF model_type)
  std::string architecture_class; ///< HF architectures[0] ("LlamaForCausalLM"), or empty
  std::string name;               ///< GGUF general.name, HF _name_or_path, or empty
  int64_t vocab_size = 0;
  int64_t hidden_size = 0;
  int64_t intermediate_size = 0;
  int64_t num_layers = 0;
  int64_t num_heads = 0;
  int64_t num_kv_heads = 0;
  int64_t head_dim = 0;
  int64_t rope_dim = 0;       ///< leading elements of a head that rotate; head_dim unless stated
  int64_t context_length = 0; ///< largest position the model declares
  double rms_norm_eps = 1e-5;
  double rope_theta = 10000.0;
  RopeScaling rope_scaling;
  /// Frequency i is divided by element i (GGUF rope_freqs.weight: Llama 3.1 files state their
  /// scaling so); or empty.
  std::vector<float> rope_factors;
  /// true: rotary pairs are (2i, 2i+1) (llama GGUF files, whose q and k rows are permuted for it);
  /// false: pairs are (i, i + rope_dim/2) (Hugging Face, and the other GGUF families).
  bool rope_interleaved = false;
  bool tied_embeddings = false; ///< the output head is the token embedding
  bool attention_bias = false;
  bool mlp_bias = false;
  std::string activation = "silu";
  bool gated = true; ///< the feed-forward part is down(activation(gate) * up), else down(activation(up))
  enum class Norm : uint8_t { rms, layer };
  Norm norm = Norm::rms;
  double norm_offset = 0; ///< added to the weights of norms (Gemma in the Hugging Face form: 1)
  bool pre_norms = true,
       post_norms = false; ///< of what goes into attention and feed-forward; of what they give
  /// RMS norms of queries and keys before rotation: over each head, or over all heads together.
  enum class QkNorm : uint8_t { none, head, all };
  QkNorm qk_norm = QkNorm::none;
  /// x + attention(norm(x)) + feed_forward(norm(x)), with one norm (Wang and Komatsuzaki 2021, GPT-J; Phi-2).
  bool parallel = false;
  bool learned_positions = false; ///< a table of positions is added to the embeddings, nothing rotates
  double embedding_scale = 1;
  std::optional<double> attention_scale;                  ///< of scores; 1 / sqrt(head_dim) unless stated
  std::optional<double> attention_softcap, logit_softcap; ///< x becomes cap * tanh(x / cap)
  std::optional<int64_t> sliding_window;                  ///< positions that a query sees, its own included
  std::vector<bool> windowed_layers;                      ///< which layers have the window; empty: all
  /// Rotary base of windowed layers, whose frequencies are not scaled; the same as all others' unless stated.
  std::optional<double> local_rope_theta;
  int64_t num_experts = 0; ///< mixture of experts; 0 where the feed-forward is dense
  int64_t num_experts_used = 0;
  int64_t expert_size = 0;        ///< inner size of one expert
  bool normalised_experts = true; ///< the weights of the used experts sum to 1
  double expert_scale = 1;        ///< of what all used experts give together
  bool sigmoid_router = false;    ///< weights of experts are sigmoids, not a softmax
  /// Experts lie in groups of equal size, and only those of the used groups may be chosen; 1 of 1: any.
  int64_t expert_groups = 1, expert_groups_used = 1;
  int64_t shared_expert_size = 0; ///< inner size of the experts that every token goes through; 0: none
  int64_t dense_layers = 0;       ///< so many layers at the begin have no experts
  std::optional<LatentAttention> latent;
  bool has_experts(int64_t layer) const { return num_experts > 0 && layer >= dense_layers; }
  // What a layer keeps of the text: so many caches [cache_heads, context, cache_width].
  int64_t caches_per_layer() const { return latent ? 1 : 2; }
  int64_t cache_heads() const { return latent ? 1 : num_kv_heads; }
  int64_t cache_width() const { return latent ? latent->rank + rope_dim : head_dim; }
  bool windowed(int64_t layer) const {
    return sliding_window && (windowed_layers.empty() || windowed_layers[size_t(layer)]);
  }
  std::vector<int32_t> bos_tokens;
  std::vector<int32_t> eos_tokens; ///< config and generation config joined, in that order, without repetition
  std::optional<StorageType> dtype; ///< HF torch_dtype, or the commonest type of the GGUF's matrices
};

/// Angles of the rotary embedding: position p turns pair i by p * inverse_frequencies[i]; cos and
/// sin are multiplied by `magnitude`. rope_dim / 2 pairs. `sequence_length` matters for the dynamic
/// kind only, which stretches with the text. Formulas: modeling_rope_utils.py of Hugging Face
/// transformers; https://arxiv.org/abs/2309.00071 (YaRN).
struct RopeTable {
  std::vector<double> inverse_frequencies;
  double magnitude = 1.0;
};
RopeTable rope_table(const ModelConfig& config, int64_t sequence_length = 0);

/// From the text of config.json and (or empty) generation_config.json. `file_name` is for messages.
Result<ModelConfig> parse_hf_config(std::string_view config_json, std::string_view file_name,
                                    std::string_view generation_config_json = {});

/// From GGUF metadata `<arch>.*`. The vocabulary size comes from `<arch>.vocab_size`, the tokenizer
/// or token_embd.weight.
Result<ModelConfig> config_from_gguf(const Gguf& gguf);

} // namespace luminal
