// train/text_models.cpp -- GPT-2 and Llama for training: whole sequences, no cache.
#include "luminal/autograd.h"
#include "luminal/functions.h"
#include "luminal/indexing.h"
#include "luminal/losses.h"
#include "luminal/train_models.h"
#include "tensor/graph_state.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal::train_models {
namespace {

/// [n, t, heads * width] -> [n, heads, t, width].
Tensor heads_of(const Tensor& x, int64_t heads) { return x.unflatten(2, {heads, -1}).permute({0, 2, 1, 3}); }
/// Each token sees itself and those before it: [n, t, heads * width].
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v) {
  return scaled_dot_product_attention(q, k, v, {.causal = true}).permute({0, 2, 1, 3}).flatten(2);
}
StepResults next_token(ModelScope& m, const Tensor& logits) {
  return {cross_entropy(logits, m.input("targets"), {.axis = 2})};
}
void check_sizes(std::string_view op, int64_t vocabulary, int64_t width, int64_t heads) {
  if (vocabulary < 1 || heads < 1 || width % heads != 0)
    throw Error(fmt::format("[{}] vocabulary {}, width {}, {} heads: the heads must divide the width", op,
                            vocabulary, width, heads));
}

} // namespace

ModelFunction gpt(const GptOptions& o) {
  check_sizes("gpt", o.vocabulary, o.width, o.heads);
  return [o](ModelScope& m) {
    const Tensor tokens = m.input("tokens");
    const Dim time = tokens.dim(1);
    if (!time.is_constant() || time.value() > o.context)
      throw Error(fmt::format("[gpt] samples of {} tokens, a context of {}", time.to_string(), o.context));
    const auto weights = [&](const std::string& name, const Dims& shape, double deviation) {
      return m.parameter(name, shape, init::normal(deviation));
    };
    const auto zeros = [&](const std::string& name, const Dims& shape, double first) {
      const Tensor p = m.parameter(name, shape, init::constant(first));
      m.group({name}, {.weight_decay = 0});
      return p;
    };
    const auto layer = [&](const Tensor& x, const std::string& name, int64_t in, int64_t out,
                           double deviation) {
      const Tensor w = weights(name + ".weight", {out, in}, deviation);
      return linear(x.cast(w.dtype()), w, zeros(name + ".bias", {out}, 0));
    };
    const auto norm = [&](const Tensor& x, const std::string& name) {
      return layer_norm(x.cast(DType::f32), zeros(name + ".weight", {o.width}, 1).cast(DType::f32),
                        zeros(name + ".bias", {o.width}, 0).cast(DType::f32));
    };
    const double after = 0.02 / std::sqrt(2.0 * double(o.layers)); // of layers that add to the stream
    const Tensor embedding = weights("wte.weight", {o.vocabulary, o.width}, 0.02);
    const Tensor positions = weights("wpe.weight", {o.context, o.width}, 0.02);
    Tensor h =
        m.dropout((embedding.gather(tokens) + positions.slice(0, 0, time)).cast(DType::f32), o.dropout);
    for (int64_t k = 0; k < o.layers; ++k) {
      const std::string name = fmt::format("h.{}.", k);
      const std::vector<Tensor> qkv =
          layer(norm(h, name + "ln_1"), name + "attn.c_attn", o.width, 3 * o.width, 0.02).split(o.width, 2);
      const Tensor mixed =
          attention(heads_of(qkv[0], o.heads), heads_of(qkv[1], o.heads), heads_of(qkv[2], o.heads));
      h = h +
          m.dropout(layer(mixed, name + "attn.c_proj", o.width, o.width, after).cast(DType::f32), o.dropout);
      const Tensor wide =
          layer(norm(h, name + "ln_2"), name + "mlp.c_fc", o.width, 4 * o.width, 0.02).gelu_tanh();
      h = h + m.dropout(layer(wide, name + "mlp.c_proj", 4 * o.width, o.width, after).cast(DType::f32),
                        o.dropout);
    }
    return next_token(m, linear(norm(h, "ln_f").cast(embedding.dtype()), embedding));
  };
}

namespace {

/// Rotates pairs (i, i + width / 2) of the last axis by position * theta^(-2 i / width).
Tensor rotated(const Tensor& x, double theta) {
  Graph g(x.graph());
  const int64_t width = x.dim(3).value(), half = width / 2;
  const Tensor exponent = g.arange(half).cast(DType::f32) * (-2.0 / double(width));
  const Tensor angle =
      g.arange(x.dim(2)).cast(DType::f32).unsqueeze(1) * (exponent * std::log2(theta)).exp2();
  const Tensor cosine = angle.cos(), sine = angle.sin();
  const std::vector<Tensor> parts = x.cast(DType::f32).split(half, 3);
  return concat({parts[0] * cosine - parts[1] * sine, parts[1] * cosine + parts[0] * sine}, 3)
      .cast(x.dtype());
}

class LlamaLayers {
public:
  LlamaLayers(ModelScope& m, const LlamaOptions& o)
      : m_(m), o_(o), head_(o.head_width == 0 ? o.width / o.heads : o.head_width) {}

  Tensor weight(const std::string& name, const Dims& shape, double deviation = 0.02) {
    if (o_.lora_rank > 0) return m_.frozen(name, shape);
    return m_.parameter(name, shape, init::normal(deviation));
  }
  Tensor gain(const std::string& name) {
    if (o_.lora_rank > 0) return m_.frozen(name, {o_.width});
    const Tensor p = m_.parameter(name, {o_.width}, init::constant(1));
    m_.group({name}, {.weight_decay = 0});
    return p.cast(DType::f32);
  }
  Tensor layer(const Tensor& h, const std::string& name) {
    struct Weights {
      Tensor attention_gain, q, k, v, o, mlp_gain, gate, up, down;
      std::vector<Tensor> low_rank;
    } w;
    const int64_t q = o_.heads * head_, kv = o_.kv_heads * head_;
    const double after = 0.02 / std::sqrt(2.0 * double(o_.layers));
    w.attention_gain = gain(name + "input_layernorm.weight");
    w.q = weight(name + "self_attn.q_proj.weight", {q, o_.width});
    w.k = weight(name + "self_attn.k_proj.weight", {kv, o_.width});
    w.v = weight(name + "self_attn.v_proj.weight", {kv, o_.width});
    w.o = weight(name + "self_attn.o_proj.weight", {o_.width, q}, after);
    w.mlp_gain = gain(name + "post_attention_layernorm.weight");
    w.gate = weight(name + "mlp.gate_proj.weight", {o_.hidden, o_.width});
    w.up = weight(name + "mlp.up_proj.weight", {o_.hidden, o_.width});
    w.down = weight(name + "mlp.down_proj.weight", {o_.width, o_.hidden}, after);
    for (const char* which : {"q_proj", "v_proj"}) {
      if (o_.lora_rank == 0) break;
      const std::string at = name + "self_attn." + which;
      w.low_rank.push_back(m_.parameter(at + ".lora_A.weight", {o_.lora_rank, o_.width}, init::fan_in()));
      w.low_rank.push_back(
          m_.parameter(at + ".lora_B.weight", {which[0] == 'q' ? q : kv, o_.lora_rank}, init::constant(0)));
    }
    std::vector<Tensor> inputs{h, w.attention_gain, w.q, w.k, w.v, w.o, w.mlp_gain, w.gate, w.up, w.down};
    inputs.insert(inputs.end(), w.low_rank.begin(), w.low_rank.end());
    const auto body = [this](Graph&, const std::vector<Tensor>& x) { return std::vector<Tensor>{block(x)}; };
    if (o_.checkpoint_layers && m_.training()) return checkpoint(m_.graph(), "llama_layer", inputs, body)[0];
    return block(inputs);
  }

private:
  Tensor normed(const Tensor& x, const Tensor& gain, const Tensor& like) const {
    return rms_norm(x, gain, o_.eps).cast(like.dtype());
  }
  Tensor projected(const Tensor& x, const Tensor& weight, const std::vector<Tensor>& in,
                   size_t low_rank) const {
    const Tensor y = linear(x, weight);
    if (o_.lora_rank == 0) return y;
    return y + linear(linear(x, in[low_rank]), in[low_rank + 1]) * (o_.lora_alpha / double(o_.lora_rank));
  }
  Tensor block(const std::vector<Tensor>& in) const {
    Tensor h = in[0];
    const Tensor x = normed(h, in[1], in[2]);
    const Tensor q = rotated(heads_of(projected(x, in[2], in, 10), o_.heads), o_.rope_theta);
    const Tensor k = rotated(heads_of(linear(x, in[3]), o_.kv_heads), o_.rope_theta);
    const Tensor v = heads_of(projected(x, in[4], in, 12), o_.kv_heads);
    h = h + linear(attention(q, k, v), in[5]).cast(DType::f32);
    const Tensor y = normed(h, in[6], in[7]);
    return h + linear(linear(y, in[7]).silu() * linear(y, in[8]), in[9]).cast(DType::f32);
  }

  ModelScope& m_;
  const LlamaOptions& o_;
  int64_t head_;
};

} // namespace

ModelFunction llama(const LlamaOptions& o) {
  check_sizes("llama", o.vocabulary, o.head_width == 0 ? o.width : o.heads, o.heads);
  if (o.kv_heads < 1 || o.heads % o.kv_heads != 0 || o.lora_rank < 0)
    throw Error(
        fmt::format("[llama] {} heads of keys for {} of queries, rank {}", o.kv_heads, o.heads, o.lora_rank));
  return [o](ModelScope& m) {
    LlamaLayers layers(m, o);
    const Tensor embedding = layers.weight("model.embed_tokens.weight", {o.vocabulary, o.width});
    Tensor h = embedding.gather(m.input("tokens")).cast(DType::f32);
    for (int64_t k = 0; k < o.layers; ++k) h = layers.layer(h, fmt::format("model.layers.{}.", k));
    h = rms_norm(h, layers.gain("model.norm.weight"), o.eps);
    const Tensor head = o.tied ? embedding : layers.weight("lm_head.weight", {o.vocabulary, o.width});
    return next_token(m, linear(h.cast(head.dtype()), head));
  };
}

} // namespace luminal::train_models
