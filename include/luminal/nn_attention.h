// luminal/nn_attention.h -- attention and what is built of it: heads that share keys, rotary positions,
// caches, encoders and decoders, mixtures of experts. What is computed is softmax(q k^T) v, written out;
// how it runs is found by the compiler.
#pragma once
#include "luminal/nn_layers.h"

namespace luminal::nn {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

/// Angles of rotary positions (Su et al. 2021): pair i of position p turns by p * frequencies[i].
struct RotaryOptions {
  double base = 10000;
  int64_t rotated = 0;      ///< leading elements of a head that turn; 0: all
  bool interleaved = false; ///< pairs are (2i, 2i + 1), not (i, i + rotated / 2)
  /// In place of base^(-2i / rotated): one a pair.
  std::vector<double> frequencies = {};
  double magnitude = 1; ///< of cosine and sine
};
/// x [.., n, size], positions (integers, [n] or [.., n] that broadcast with the leading axes of x) -> x with
/// its pairs turned.
Tensor rotary(const Tensor& x, const Tensor& positions, const RotaryOptions& options = {}, LUMINAL_WHERE);

/// bool [queries, keys]: query i, which stands at position first + i, sees the keys up to its own place;
/// with a window only the last `window` of them, its own included.
Tensor causal_mask(Graph& graph, Dim queries, Dim keys, Dim first = 0, std::optional<int64_t> window = {},
                   LUMINAL_WHERE);

/// Keys and values of earlier steps: states [heads, capacity, size] of the graph.
class KvCache {
public:
  KvCache(Graph& graph, const std::string& name, int64_t heads, int64_t capacity, int64_t key_size,
          int64_t value_size, DType dtype = DType::f32, LUMINAL_WHERE);
  struct Filled {
    Tensor keys, values; ///< f32 [heads, past + n, size]
  };
  /// Keys and values [heads, n, size] are written at `past` (a dimension of the graph, or a number), in
  /// place; gives all so far.
  Filled append(const Tensor& keys, const Tensor& values, Dim past, LUMINAL_WHERE);

private:
  Graph graph_;
  Tensor keys_, values_;
};

struct MultiheadOptions {
  bool bias = true;
  double dropout = 0;                     ///< of the attention weights, while the scope trains
  int64_t key_width = 0, value_width = 0; ///< of what is attended to; 0: width
  bool batch_first = true;                ///< x is [batch, n, width]; else [n, batch, width]
};
struct AttentionMask {
  bool causal = false;
  /// bool [batch, keys], true where a key is padding and takes no part
  Tensor padding = {};
  /// broadcast to [batch, heads, queries, keys]: bool, true takes part; or numbers, which are added
  Tensor mask = {};
};
/// Vaswani et al. 2017, with the parameters of torch.nn.MultiheadAttention: in_proj_weight [3 width, width]
/// (or q_proj_weight, k_proj_weight, v_proj_weight where widths differ), in_proj_bias, out_proj.
class MultiheadAttention : public Module {
public:
  MultiheadAttention(const Scope& scope, int64_t width, int64_t heads, const MultiheadOptions& options = {},
                     LUMINAL_WHERE);
  /// query [batch, q, width], key and value [batch, k, width] -> [batch, q, width].
  Tensor operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const AttentionMask& mask = {}, LUMINAL_WHERE) const;
  Tensor operator()(const Tensor& x, const AttentionMask& mask = {}, LUMINAL_WHERE) const {
    return (*this)(x, x, x, mask, where);
  }

private:
  int64_t width_, heads_;
  MultiheadOptions options_;
  Parameter in_, q_, k_, v_, bias_;
  Linear out_;
};

struct GroupedOptions {
  int64_t kv_heads = 0;  ///< heads of keys and values, each for heads / kv_heads queries; 0: heads
  int64_t head_size = 0; ///< 0: width / heads
  bool qkv_bias = false, out_bias = false;
  std::optional<RotaryOptions> rotary = {};
  std::optional<int64_t> window = {};     ///< positions that a query sees, its own included
  std::optional<double> qk_norm_eps = {}; ///< q_norm, k_norm: RMS norms over a head, before rotation
  std::optional<double> scale = {};       ///< 1 / sqrt(head_size) by default
};
/// Causal self-attention of language models (Ainslie et al. 2023): q_proj, k_proj, v_proj, o_proj.
class GroupedAttention : public Module {
public:
  GroupedAttention(const Scope& scope, int64_t width, int64_t heads, const GroupedOptions& options = {},
                   LUMINAL_WHERE);
  /// x [.., n, width] -> the same shape; positions count from 0.
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const;
  /// x [n, width] behind `past` positions, whose keys and values the cache holds.
  Tensor operator()(const Tensor& x, KvCache& cache, Dim past, LUMINAL_WHERE) const;

private:
  using Where = std::source_location;
  struct Heads {
    Tensor q, k, v; // [.., heads, n, size]
  };
  Heads project(const Tensor& x, Dim first, Where where) const;
  int64_t heads_, kv_heads_, size_;
  GroupedOptions options_;
  Linear q_, k_, v_, out_;
  std::optional<RmsNorm> q_norm_, k_norm_;
};

struct TransformerOptions {
  int64_t inner = 2048; ///< width of the feed-forward part
  double dropout = 0.1;
  std::string activation = "relu"; ///< a name of Activation
  double eps = 1e-5;
  bool norm_first = false; ///< norms before the parts, not behind the sums
  bool final_norm = false; ///< of stacks of layers: `norm` behind the last one
  bool batch_first = true;
};
/// torch.nn.TransformerEncoderLayer: self_attn, linear1, linear2, norm1, norm2.
class TransformerEncoderLayer : public Module {
public:
  TransformerEncoderLayer(const Scope& scope, int64_t width, int64_t heads,
                          const TransformerOptions& options = {}, LUMINAL_WHERE);
  Tensor operator()(const Tensor& x, const AttentionMask& mask = {}, LUMINAL_WHERE) const;

private:
  bool norm_first_;
  MultiheadAttention self_attn_;
  Linear linear1_, linear2_;
  LayerNorm norm1_, norm2_;
  Dropout dropout_;
  Activation activation_;
};
/// torch.nn.TransformerDecoderLayer: self_attn, multihead_attn, linear1, linear2, norm1, norm2, norm3.
class TransformerDecoderLayer : public Module {
public:
  TransformerDecoderLayer(const Scope& scope, int64_t width, int64_t heads,
                          const TransformerOptions& options = {}, LUMINAL_WHERE);
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionMask& mask = {.causal = true},
                    const AttentionMask& memory_mask = {}, LUMINAL_WHERE) const;

private:
  bool norm_first_;
  MultiheadAttention self_attn_, multihead_attn_;
  Linear linear1_, linear2_;
  LayerNorm norm1_, norm2_, norm3_;
  Dropout dropout_;
  Activation activation_;
};
/// layers.0, layers.1, .. and, with final_norm, norm.
class TransformerEncoder : public Module {
public:
  TransformerEncoder(const Scope& scope, int64_t layers, int64_t width, int64_t heads,
                     const TransformerOptions& options = {}, LUMINAL_WHERE);
  Tensor operator()(const Tensor& x, const AttentionMask& mask = {}, LUMINAL_WHERE) const;

private:
  std::vector<TransformerEncoderLayer> layers_;
  std::optional<LayerNorm> norm_;
};
class TransformerDecoder : public Module {
public:
  TransformerDecoder(const Scope& scope, int64_t layers, int64_t width, int64_t heads,
                     const TransformerOptions& options = {}, LUMINAL_WHERE);
  Tensor operator()(const Tensor& x, const Tensor& memory, const AttentionMask& mask = {.causal = true},
                    const AttentionMask& memory_mask = {}, LUMINAL_WHERE) const;

private:
  std::vector<TransformerDecoderLayer> layers_;
  std::optional<LayerNorm> norm_;
};

/// torch.nn.Transformer (Vaswani et al. 2017): encoder and decoder, both with a final norm.
class Transformer : public Module {
public:
  Transformer(const Scope& scope, int64_t width, int64_t heads, int64_t encoder_layers,
              int64_t decoder_layers, const TransformerOptions& options = {}, LUMINAL_WHERE);
  Tensor operator()(const Tensor& source, const Tensor& target, const AttentionMask& source_mask = {},
                    const AttentionMask& target_mask = {.causal = true},
                    const AttentionMask& memory_mask = {}, LUMINAL_WHERE) const;

private:
  TransformerEncoder encoder_;
  TransformerDecoder decoder_;
};

struct ExpertsOptions {
  int64_t used = 2;       ///< experts for each token
  bool normalised = true; ///< their weights sum to 1
  std::string activation = "silu";
};
/// Shazeer et al. 2017: a router (gate [experts, width]) chooses experts for each token, which are gated
/// feed-forward networks (Shazeer 2020): w1 and w3 [experts, inner, width], w2 [experts, width, inner].
/// Products are computed for the chosen experts only.
class MixtureOfExperts : public Module {
public:
  MixtureOfExperts(const Scope& scope, int64_t width, int64_t inner, int64_t experts,
                   const ExpertsOptions& options = {}, LUMINAL_WHERE);
  Tensor operator()(const Tensor& x, LUMINAL_WHERE) const; ///< [.., width] -> [.., width]

private:
  ExpertsOptions options_;
  Linear gate_;
  Parameter w1_, w2_, w3_;
  Activation activation_;
};

#undef LUMINAL_WHERE
} // namespace luminal::nn
