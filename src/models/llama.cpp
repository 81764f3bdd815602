// models/llama.cpp -- the Llama graph.
#include "models/llama.h"
#include "base/check.h"
#include "luminal/indexing.h"
#include "models/weights.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <map>

namespace luminal::models {
namespace {

/// Names of one layer's tensors in the two worlds.
struct LayerNames {
  std::string_view gguf, hugging_face;
};
constexpr LayerNames attention_norm{"attn_norm.weight", "input_layernorm.weight"},
    q_proj{"attn_q.weight", "self_attn.q_proj.weight"}, k_proj{"attn_k.weight", "self_attn.k_proj.weight"},
    v_proj{"attn_v.weight", "self_attn.v_proj.weight"},
    o_proj{"attn_output.weight", "self_attn.o_proj.weight"},
    ffn_norm{"ffn_norm.weight", "post_attention_layernorm.weight"},
    gate_proj{"ffn_gate.weight", "mlp.gate_proj.weight"}, up_proj{"ffn_up.weight", "mlp.up_proj.weight"},
    down_proj{"ffn_down.weight", "mlp.down_proj.weight"};

constexpr int64_t widest_tile = 16; // of rows beside each other

class Builder {
public:
  Builder(const ModelFile& file, const LlamaOptions& options, std::source_location where)
      : file_(file), config_(file.require_config()), options_(options) {
    model_.graph.state()->made_at = where;
    gguf_ = file.kind == ModelFileKind::gguf;
    refuse_what_is_not_llama();
    model_.config = config_;
    model_.context = options.context > 0 ? options.context : config_.context_length;
    model_.chunk = std::min(options.chunk, model_.context);
  }

  Llama build() {
    Graph& g = model_.graph;
    n_ = std::make_unique<Dim>(g.dim("n", 1, model_.chunk));
    past_ = std::make_unique<Dim>(g.dim("past", 0, model_.context - 1));
    model_.tokens = g.tensor({*n_}, DType::i32, "tokens");
    make_rotary_tables();
    Tensor table = weight(gguf_ ? "token_embd.weight" : "model.embed_tokens.weight",
                          {config_.vocab_size, config_.hidden_size}, false);
    Tensor h = table.gather(model_.tokens).cast(DType::f32).set_name("embedding"); // [n, hidden]
    for (int64_t layer = 0; layer < config_.num_layers; layer++) h = block(h, layer);
    if (!options_.all_logits) h = h.slice(0, *n_ - 1, *n_);
    h = norm(h, weight(gguf_ ? "output_norm.weight" : "model.norm.weight", {config_.hidden_size}));
    const char* head_name = gguf_ ? "output.weight" : "lm_head.weight";
    bool tied = !file_.find(head_name);
    LUMINAL_CHECK(!tied || config_.tied_embeddings || gguf_, "{}: no head, and it is not tied", file_.path);
    Tensor head = tied ? table : weight(head_name, {config_.vocab_size, config_.hidden_size});
    if (tied)
      model_.step_weight_bytes +=
          int64_t(file_.tensor(gguf_ ? "token_embd.weight" : "model.embed_tokens.weight").bytes.size());
    Tensor logits = linear(h, head); // [n or 1, vocab]
    model_.logits = options_.all_logits ? logits : logits.squeeze(0);
    model_.logits.set_name("logits").keep();
    return std::move(model_);
  }

private:
  void refuse_what_is_not_llama() {
    static const std::vector<std::string> known{"llama", "mistral", "smollm", "smollm2", "tinyllama"};
    bool is_known = false;
    for (const auto& name : known) is_known |= config_.architecture == name;
    auto refuse = [&](const std::string& what) {
      throw Error(fmt::format("{}: {} (architecture {})", file_.path, what, config_.architecture));
    };
    if (!is_known)
      refuse("this architecture cannot be run yet, expected llama, mistral, smollm, smollm2 or tinyllama");
    if (config_.num_experts > 0) refuse("mixtures of experts cannot be run yet");
    if (config_.attention_bias || config_.mlp_bias) refuse("biases in projections cannot be run yet");
    if (config_.activation != "silu" && config_.activation != "swish")
      refuse(fmt::format("activation {} cannot be run yet, expected silu", config_.activation));
    if (config_.sliding_window && *config_.sliding_window < config_.context_length &&
        options_.context > *config_.sliding_window)
      refuse(fmt::format(
          "contexts beyond the sliding window of {} cannot be run yet; ask for a context of {} at most",
          *config_.sliding_window, *config_.sliding_window));
    LUMINAL_CHECK(config_.rope_dim % 2 == 0, "{} rotating elements are not pairs", config_.rope_dim);
    if (config_.rope_scaling.kind == RopeScaling::Kind::dynamic)
      refuse("dynamic rotary scaling cannot be run yet");
  }

  std::string layer_name(int64_t layer, const LayerNames& names) const {
    return gguf_ ? fmt::format("blk.{}.{}", layer, names.gguf)
                 : fmt::format("model.layers.{}.{}", layer, names.hugging_face);
  }

  Tensor weight(const std::string& name, std::vector<int64_t> shape, bool every_step = true) {
    const TensorView& view = file_.tensor(name);
    if (view.shape != shape) {
      std::string wanted;
      for (int64_t extent : shape) wanted += (wanted.empty() ? "" : ", ") + std::to_string(extent);
      throw Error(fmt::format("{}: tensor {} is {}, the configuration asks for [{}]", file_.path, name,
                              view.describe(), wanted));
    }
    if (every_step) model_.step_weight_bytes += int64_t(view.bytes.size());
    const bool eight_bits = options_.activations == Activations::q8;
    if (const int64_t unit = unit_beside(view)) {
      Tensor w = file_weight(model_.graph, file_, view);
      beside_.emplace(w.id(), unit);
      return w;
    }
    // Rows that fill no vector are unpacked as they stand in the file where activations are exact.
    if (shape.size() != 2 || (!eight_bits && row_tile(shape[0]) < widest_tile))
      return file_weight(model_.graph, file_, view);
    std::optional<QuantizedWeight> codes;
    Tensor w = file_weight(model_.graph, file_, view, &codes, eight_bits ? RowOrder::words : RowOrder::bytes);
    if (codes) packed_.emplace(w.id(), *codes);
    return w;
  }

  /// How many neighbours of a row stay together where a matrix is read with its rows beside each
  /// other: pairs of bf16, single f32. 0: it is read as it lies.
  int64_t unit_beside(const TensorView& view) const {
    if (view.shape.size() != 2) return 0;
    if (view.type == StorageType::f32) return row_tile(view.shape[0]) == widest_tile ? 1 : 0;
    const bool pairs =
        options_.activations == Activations::bf16 && view.type == StorageType::bf16 && view.shape[1] % 2 == 0;
    return pairs ? 2 : 0;
  }

  /// x [n, in] times w [out, in]: [n, out].
  Tensor linear(const Tensor& x, const Tensor& w) {
    const auto codes = packed_.find(w.id());
    if (const auto unit = beside_.find(w.id()); unit != beside_.end())
      return linear_beside(x, w, unit->second);
    if (codes == packed_.end()) return x.matmul(w.cast(DType::f32).transpose());
    if (options_.activations != Activations::q8) return matmul_transposed(x, codes->second);
    auto rows = quantized_rows_.find(x.id()); // once for all products that read it
    if (rows == quantized_rows_.end()) rows = quantized_rows_.emplace(x.id(), quantize_rows(x)).first;
    return matmul_transposed(rows->second, codes->second);
  }
  /// The same with rows of the weight beside each other, which lie on large pages and fill the
  /// lanes for one token as for many.
  Tensor linear_beside(const Tensor& x, const Tensor& w, int64_t unit) {
    const int64_t rows = w.shape()[0].value(), steps = w.shape()[1].value() / unit, tile = row_tile(rows);
    Tensor given = x;
    if (w.dtype() == DType::bf16) {
      auto rounded = rounded_.find(x.id()); // once for all products that read it
      if (rounded == rounded_.end()) rounded = rounded_.emplace(x.id(), x.cast(DType::bf16)).first;
      given = rounded->second;
    }
    Tensor weights = interleave_rows(w, tile, unit); // [rows / tile, steps, tile, unit]
    Tensor products = given.reshape({x.shape()[0], 1, steps, 1, unit}).cast(DType::f32) *
                      weights.unsqueeze(0).cast(DType::f32);
    return products.sum({2, 4}).reshape({x.shape()[0], rows});
  }
  Tensor norm(const Tensor& x, const Tensor& w) {
    return x.rms_norm(config_.rms_norm_eps) * w.cast(DType::f32);
  }

  /// cos and sin of position * frequency: [context, rope_dim / 2], computed once at load.
  void make_rotary_tables() {
    Graph& g = model_.graph;
    RopeTable table = rope_table(config_, model_.context);
    std::vector<float> frequencies(table.inverse_frequencies.begin(), table.inverse_frequencies.end());
    Tensor frequency = g.constant(frequencies, {int64_t(frequencies.size())});
    Tensor angle = g.arange(model_.context, DType::i32).cast(DType::f32).unsqueeze(1) * frequency;
    cos_ = (angle.cos() * table.magnitude)
               .set_name("rotary_cos")
               .slice(0, *past_, *past_ + *n_)
               .unsqueeze(1); // [n, 1, pairs]
    sin_ = (angle.sin() * table.magnitude).set_name("rotary_sin").slice(0, *past_, *past_ + *n_).unsqueeze(1);
  }

  /// Turns the pairs of x [n, heads, head_dim] by the angles of their positions.
  Tensor rotate(const Tensor& x, int64_t heads) {
    const int64_t pairs = config_.rope_dim / 2;
    const int axis = config_.rope_interleaved ? 3 : 2; // where the two parts of a pair lie
    Tensor turning = config_.rope_dim == config_.head_dim ? x : x.slice(2, 0, config_.rope_dim);
    Tensor parts = config_.rope_interleaved ? turning.reshape({*n_, heads, pairs, 2})
                                            : turning.reshape({*n_, heads, 2, pairs});
    Tensor c = cos_.unsqueeze(axis), s = sin_.unsqueeze(axis);
    Tensor sign = (model_.graph.arange(2, DType::i32).cast(DType::f32) * 2 - 1); // -1, +1
    sign = config_.rope_interleaved ? sign : sign.unsqueeze(1);
    Tensor turned = (parts * c + parts.flip(axis) * (sign * s)).reshape({*n_, heads, config_.rope_dim});
    if (config_.rope_dim == config_.head_dim) return turned;
    return concat({turned, x.slice(2, config_.rope_dim, config_.head_dim)}, 2);
  }

  /// The cache [kv_heads, context, head_dim] with the step's rows, and its filled part as f32
  /// [kv_heads, past + n, head_dim].
  Tensor remember(const std::string& name, const Tensor& rows) { // rows [n, kv_heads, head_dim]
    Graph& g = model_.graph;
    Tensor cache =
        g.state(name, {config_.num_kv_heads, model_.context, config_.head_dim}, options_.cache_dtype);
    Tensor next = cache.update(1, *past_, rows.transpose(0, 1));
    g.update(cache, next);
    model_.cache_bytes += config_.num_kv_heads * model_.context * config_.head_dim *
                          (options_.cache_dtype == DType::f32 ? 4 : 2);
    return next.slice(1, 0, *past_ + *n_).cast(DType::f32);
  }

  Tensor attention(const Tensor& x, int64_t layer) { // x [n, hidden]
    const int64_t heads = config_.num_heads, kv_heads = config_.num_kv_heads, group = heads / kv_heads,
                  size = config_.head_dim, hidden = config_.hidden_size;
    auto projection = [&](const LayerNames& names, int64_t count) {
      return linear(x, weight(layer_name(layer, names), {count * size, hidden})).reshape({*n_, count, size});
    };
    Tensor q = rotate(projection(q_proj, heads), heads), k = rotate(projection(k_proj, kv_heads), kv_heads),
           v = projection(v_proj, kv_heads);
    Tensor keys = remember(fmt::format("k{}", layer), k),
           values = remember(fmt::format("v{}", layer), v);            // [kv_heads, past + n, size]
    q = q.reshape({*n_, kv_heads, group, size}).permute({1, 2, 0, 3}); // [kv_heads, group, n, size]
    Tensor scores = q.matmul(keys.unsqueeze(1).transpose()) *
                    (1.0 / std::sqrt(double(size))); // [kv_heads, group, n, past + n]
    Graph& g = model_.graph;
    Tensor seen = g.arange(0, *past_ + *n_) <= g.arange(*past_, *past_ + *n_).unsqueeze(1); // [n, past + n]
    Tensor weights = select(seen, scores, -INFINITY).softmax(-1);
    Tensor mixed = weights.matmul(values.unsqueeze(1)); // [kv_heads, group, n, size]
    mixed = mixed.permute({2, 0, 1, 3}).reshape({*n_, heads * size});
    return linear(mixed, weight(layer_name(layer, o_proj), {hidden, heads * size}));
  }

  Tensor feed_forward(const Tensor& x, int64_t layer) {
    const int64_t hidden = config_.hidden_size, inner = config_.intermediate_size;
    Tensor gate = linear(x, weight(layer_name(layer, gate_proj), {inner, hidden})),
           up = linear(x, weight(layer_name(layer, up_proj), {inner, hidden}));
    return linear(gate.silu() * up, weight(layer_name(layer, down_proj), {hidden, inner}));
  }

  Tensor block(const Tensor& h, int64_t layer) {
    Tensor mixed =
        h + attention(norm(h, weight(layer_name(layer, attention_norm), {config_.hidden_size})), layer);
    return mixed +
           feed_forward(norm(mixed, weight(layer_name(layer, ffn_norm), {config_.hidden_size})), layer);
  }

  const ModelFile& file_;
  const ModelConfig& config_;
  LlamaOptions options_;
  bool gguf_ = false;
  Llama model_;
  std::unique_ptr<Dim> n_, past_;
  std::map<uint32_t, QuantizedWeight> packed_;       // by the tensor of their values
  std::map<uint32_t, QuantizedRows> quantized_rows_; // by the tensor they are made of
  std::map<uint32_t, int64_t> beside_;               // unit_beside, by the weight
  std::map<uint32_t, Tensor> rounded_;               // to bf16, by the tensor they are made of
  Tensor cos_, sin_;
};

} // namespace

Llama make_llama(const ModelFile& file, const LlamaOptions& options, std::source_location where) {
  return Builder(file, options, where).build();
}

const std::vector<std::string>& activations_names() {
  static const std::vector<std::string> names{"exact", "bf16", "q8"};
  return names;
}

Activations activations_from_name(std::string_view name) {
  const auto& names = activations_names();
  const auto at = std::ranges::find(names, name);
  if (at == names.end())
    throw Error(fmt::format("activations {}: {} are known", name, fmt::join(names, ", ")));
  return Activations(at - names.begin());
}

std::map<std::string, int64_t> typical_sizes(const Llama& model) {
  return {{"n", 1}, {"past", model.context / 4}};
}

} // namespace luminal::models
