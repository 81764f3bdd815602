// models/llama.cpp -- the graph of a decoder: Llama, and what its relatives do otherwise.
#include "models/llama.h"
#include "base/check.h"
#include "luminal/indexing.h"
#include "models/decoder_weights.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <cmath>
#include <fmt/ranges.h>
#include <map>

namespace luminal::models {
namespace {

using Norm = ModelConfig::Norm;
using QkNorm = ModelConfig::QkNorm;

const std::vector<std::string> architectures{
    "gemma", "gemma2", "gemma3", "gemma3_text", "gpt2",     "llama",  "mistral", "mixtral",  "olmo2",
    "phi3",  "qwen2",  "qwen3",  "qwen3_moe",   "qwen3moe", "smollm", "smollm2", "tinyllama"};

/// Activations by the names of configurations.
const std::map<std::string, Tensor (*)(const Tensor&)> activations{
    {"gelu", [](const Tensor& x) { return x.gelu(); }},
    {"gelu_fast", [](const Tensor& x) { return x.gelu_tanh(); }},
    {"gelu_new", [](const Tensor& x) { return x.gelu_tanh(); }},
    {"gelu_pytorch_tanh", [](const Tensor& x) { return x.gelu_tanh(); }},
    {"relu", [](const Tensor& x) { return x.relu(); }},
    {"silu", [](const Tensor& x) { return x.silu(); }},
    {"swish", [](const Tensor& x) { return x.silu(); }}};
/// cap * tanh(x / cap)
Tensor capped(const Tensor& x, const std::optional<double>& cap) {
  return cap ? (x / *cap).tanh() * *cap : x;
}

class Builder {
public:
  Builder(const ModelFile& file, const LlamaOptions& options, std::source_location where)
      : file_(file), config_(file.require_config()), options_(options) {
    model_.graph.state()->made_at = where;
    refuse_what_is_not_known();
    model_.config = config_;
    model_.context = options.context > 0 ? options.context : config_.context_length;
    if (config_.learned_positions && model_.context > config_.context_length)
      throw Error(fmt::format("{}: a context of {}, the model has {} positions", file.path, model_.context,
                              config_.context_length));
    model_.chunk = std::min(options.chunk, model_.context);
  }

  Llama build() {
    Graph& g = model_.graph;
    weights_ = std::make_unique<DecoderWeights>(file_, g, options_.activations);
    n_ = std::make_unique<Dim>(g.dim("n", 1, model_.chunk));
    model_.tokens = g.tensor({*n_}, DType::i32, "tokens");
    if (options_.slots > 0) {
      filled_ = std::make_unique<Dim>(g.dim("filled", 1, model_.context));
      model_.slot = g.tensor({*n_}, DType::i32, "slot");
      model_.position = g.tensor({*n_}, DType::i32, "position");
    } else {
      past_ = std::make_unique<Dim>(g.dim("past", 0, model_.context - 1));
    }
    model_.most_rows = options_.slots > 0 ? options_.slots : std::min(options_.rows, model_.chunk);
    if (model_.most_rows > 0) model_.rows = g.tensor({g.dim("m", 1, model_.most_rows)}, DType::i32, "rows");
    if (!config_.learned_positions) make_rotary_tables();

    Tensor h = embedding().set_name("embedding"); // [n, hidden]
    for (int64_t layer = 0; layer < config_.num_layers; layer++) h = block(h, layer);
    if (model_.most_rows > 0)
      h = h.gather(model_.rows);
    else if (!options_.all_logits)
      h = h.slice(0, *n_ - 1, *n_);
    Tensor logits = capped(head(norm(h, Part::final_norm)), config_.logit_softcap); // [n or 1, vocab]
    model_.logits = options_.all_logits || model_.most_rows > 0 ? logits : logits.squeeze(0);
    model_.logits.set_name("logits").keep();
    weights_->refuse_unused();
    model_.step_weight_bytes = weights_->step_bytes();
    return std::move(model_);
  }

private:
  void refuse_what_is_not_known() {
    const auto refuse = [&](const std::string& what) {
      throw Error(fmt::format("{}: {} (architecture {})", file_.path, what, config_.architecture));
    };
    if (std::ranges::find(architectures, config_.architecture) == architectures.end())
      refuse(fmt::format("this architecture cannot be run yet, expected one of {}",
                         fmt::join(architectures, ", ")));
    if (!activations.contains(config_.activation)) {
      std::vector<std::string> known;
      for (const auto& [name, _] : activations) known.push_back(name);
      refuse(fmt::format("activation {} cannot be run yet, expected one of {}", config_.activation,
                         fmt::join(known, ", ")));
    }
    LUMINAL_CHECK(config_.rope_dim % 2 == 0, "{} rotating elements are not pairs", config_.rope_dim);
    if (config_.rope_scaling.kind == RopeScaling::Kind::dynamic)
      refuse("dynamic rotary scaling cannot be run yet");
  }

  Tensor embedding() {
    Tensor table = weights_->weight(Part::embedding, -1, {config_.vocab_size, config_.hidden_size}, false);
    Tensor h = table.gather(model_.tokens).cast(DType::f32);
    h = weights_->adapted_rows(h, model_.tokens, Part::embedding);
    if (config_.embedding_scale != 1) h = h * config_.embedding_scale;
    if (!config_.learned_positions) return h;
    const Tensor positions =
        weights_->weight(Part::positions, -1, {config_.context_length, config_.hidden_size}, false);
    return h + rows_of_step(positions.cast(DType::f32));
  }

  /// Rows of a table [context, ..] at the positions of the step's tokens.
  Tensor rows_of_step(const Tensor& table) const {
    return options_.slots > 0 ? table.gather(model_.position) : table.slice(0, *past_, *past_ + *n_);
  }

  Tensor head(const Tensor& h) {
    const int64_t vocabulary = config_.vocab_size, hidden = config_.hidden_size;
    if (weights_->has(Part::head))
      return weights_->adapted(weights_->product(h, weights_->weight(Part::head, -1, {vocabulary, hidden})),
                               h, Part::head, -1);
    LUMINAL_CHECK(config_.tied_embeddings || file_.kind == ModelFileKind::gguf,
                  "{}: no head, and it is not tied", file_.path);
    return weights_->product(h, weights_->weight(Part::embedding, -1, {vocabulary, hidden}));
  }

  Tensor block(const Tensor& h, int64_t layer) {
    const auto before = [&](const Tensor& x, Part part) {
      return config_.pre_norms ? norm(x, part, layer) : x;
    };
    const auto behind = [&](const Tensor& x, Part part) {
      return config_.post_norms ? norm(x, part, layer) : x;
    };
    const Tensor mixed =
        h + behind(attention(before(h, Part::attention_norm), layer), Part::post_attention_norm);
    const Tensor x = before(mixed, Part::feed_forward_norm);
    return mixed + behind(config_.num_experts > 0 ? experts(x, layer) : feed_forward(x, layer),
                          Part::post_feed_forward_norm);
  }

  Tensor norm(const Tensor& x, Part part, int64_t layer = -1) {
    const int64_t width = x.shape().back().value();
    const Tensor w = weights_->vector(part, layer, width);
    if (config_.norm == Norm::rms) return x.rms_norm(config_.rms_norm_eps) * w;
    return x.layer_norm(-1, config_.rms_norm_eps) * w + weights_->vector(part, layer, width, "bias");
  }

  /// cos and sin of position * frequency: [context, rope_dim / 2], computed once at load; the rows of
  /// this step.
  struct Angles {
    Tensor cos, sin; // [n, 1, pairs]
  };
  Angles make_angles(const ModelConfig& config, const char* name) {
    Graph& g = model_.graph;
    const RopeTable table = rope_table(config, model_.context);
    const std::vector<float> frequencies(table.inverse_frequencies.begin(), table.inverse_frequencies.end());
    const Tensor frequency = g.constant(frequencies, {int64_t(frequencies.size())});
    const Tensor angle = g.arange(model_.context, DType::i32).cast(DType::f32).unsqueeze(1) * frequency;
    const auto rows = [&](Tensor all, const char* what) {
      return rows_of_step((all * table.magnitude).set_name(fmt::format("{}_{}", name, what))).unsqueeze(1);
    };
    return {rows(angle.cos(), "cos"), rows(angle.sin(), "sin")};
  }
  void make_rotary_tables() {
    angles_ = make_angles(config_, "rotary");
    if (!config_.local_rope_theta || !config_.sliding_window) return;
    ModelConfig local = config_;
    local.rope_theta = *config_.local_rope_theta;
    local.rope_scaling = {};
    local.rope_factors.clear();
    local_angles_ = make_angles(local, "local_rotary");
  }

  /// Turns the pairs of x [n, heads, head_dim] by the angles of their positions.
  Tensor rotate(const Tensor& x, int64_t heads, int64_t layer) {
    if (config_.learned_positions) return x;
    const Angles& angles = local_angles_ && config_.windowed(layer) ? *local_angles_ : angles_;
    const int64_t pairs = config_.rope_dim / 2;
    const int axis = config_.rope_interleaved ? 3 : 2; // where the two parts of a pair lie
    Tensor turning = config_.rope_dim == config_.head_dim ? x : x.slice(2, 0, config_.rope_dim);
    Tensor parts = config_.rope_interleaved ? turning.reshape({*n_, heads, pairs, 2})
                                            : turning.reshape({*n_, heads, 2, pairs});
    Tensor c = angles.cos.unsqueeze(axis), s = angles.sin.unsqueeze(axis);
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
    model_.caches.push_back(cache);
    model_.cache_bytes += config_.num_kv_heads * model_.context * config_.head_dim *
                          (options_.cache_dtype == DType::f32 ? 4 : 2);
    return next.slice(1, 0, *past_ + *n_).cast(DType::f32);
  }

  /// The same of several texts: the cache [slots, context, kv_heads, head_dim], and for each token the
  /// filled part of its text [n, filled, kv_heads, head_dim].
  Tensor remember_in_slots(const std::string& name, const Tensor& rows) {
    Graph& g = model_.graph;
    Tensor cache = g.state(name, {options_.slots, model_.context, config_.num_kv_heads, config_.head_dim},
                           options_.cache_dtype);
    Tensor next = index_put(cache, {model_.slot, model_.position}, rows.cast(options_.cache_dtype));
    g.update(cache, next);
    model_.cache_bytes += options_.slots * model_.context * config_.num_kv_heads * config_.head_dim *
                          (options_.cache_dtype == DType::f32 ? 4 : 2);
    return next.gather(model_.slot).slice(1, 0, *filled_).cast(DType::f32);
  }
  /// q [n, heads, head_dim], k and v [n, kv_heads, head_dim]: each token with its own text.
  Tensor attend_in_slots(const Tensor& q, const Tensor& k, const Tensor& v, int64_t layer) {
    const int64_t heads = config_.num_heads, kv_heads = config_.num_kv_heads, size = config_.head_dim;
    const Tensor keys = remember_in_slots(fmt::format("k{}", layer), k),
                 values = remember_in_slots(fmt::format("v{}", layer), v);
    const double scale = config_.attention_scale.value_or(1.0 / std::sqrt(double(size)));
    const Tensor grouped = q.reshape({*n_, kv_heads, heads / kv_heads, size});
    const Tensor scores = capped(grouped.matmul(keys.permute({0, 2, 3, 1})) * scale,
                                 config_.attention_softcap); // [n, kv_heads, group, filled]
    const Tensor key = model_.graph.arange(*filled_, DType::i32), query = model_.position.unsqueeze(1);
    Tensor seen = key <= query; // [n, filled]
    if (config_.windowed(layer) && *config_.sliding_window < model_.context)
      seen = seen & (key > query - *config_.sliding_window);
    const Tensor weights = select(seen.unsqueeze(1).unsqueeze(1), scores, -INFINITY).softmax(-1);
    return weights.matmul(values.permute({0, 2, 1, 3})).reshape({*n_, heads * size});
  }

  /// Queries, keys and values of x [n, hidden], each [n, heads of its own * head_dim].
  std::array<Tensor, 3> projections(const Tensor& x, int64_t layer) {
    const int64_t size = config_.head_dim, hidden = config_.hidden_size, queries = config_.num_heads * size,
                  keys = config_.num_kv_heads * size;
    const bool bias = config_.attention_bias;
    if (!weights_->has(Part::qkv, layer))
      return {weights_->linear(x, Part::q, layer, queries, hidden, bias),
              weights_->linear(x, Part::k, layer, keys, hidden, bias),
              weights_->linear(x, Part::v, layer, keys, hidden, bias)};
    const Tensor all = weights_->linear(x, Part::qkv, layer, queries + 2 * keys, hidden, bias);
    return {all.slice(1, 0, queries), all.slice(1, queries, queries + keys),
            all.slice(1, queries + keys, queries + 2 * keys)};
  }

  Tensor attention(const Tensor& x, int64_t layer) { // x [n, hidden]
    const int64_t heads = config_.num_heads, kv_heads = config_.num_kv_heads, group = heads / kv_heads,
                  size = config_.head_dim, hidden = config_.hidden_size;
    auto [q, k, v] = projections(x, layer);
    if (config_.qk_norm == QkNorm::all) q = norm(q, Part::q_norm, layer), k = norm(k, Part::k_norm, layer);
    q = q.reshape({*n_, heads, size}), k = k.reshape({*n_, kv_heads, size}),
    v = v.reshape({*n_, kv_heads, size});
    if (config_.qk_norm == QkNorm::head) q = norm(q, Part::q_norm, layer), k = norm(k, Part::k_norm, layer);
    q = rotate(q, heads, layer), k = rotate(k, kv_heads, layer);
    if (options_.slots > 0)
      return weights_->linear(attend_in_slots(q, k, v, layer), Part::attention_out, layer, hidden,
                              heads * size);

    Tensor keys = remember(fmt::format("k{}", layer), k),
           values = remember(fmt::format("v{}", layer), v);            // [kv_heads, past + n, size]
    q = q.reshape({*n_, kv_heads, group, size}).permute({1, 2, 0, 3}); // [kv_heads, group, n, size]
    const double scale = config_.attention_scale.value_or(1.0 / std::sqrt(double(size)));
    Tensor scores = capped(q.matmul(keys.unsqueeze(1).transpose()) * scale,
                           config_.attention_softcap); // [kv_heads, group, n, past + n]
    Graph& g = model_.graph;
    const Tensor key = g.arange(0, *past_ + *n_), query = g.arange(*past_, *past_ + *n_).unsqueeze(1);
    Tensor seen = key <= query; // [n, past + n]
    if (config_.windowed(layer) && *config_.sliding_window < model_.context)
      seen = seen & (key > query - *config_.sliding_window);
    Tensor weights = select(seen, scores, -INFINITY).softmax(-1);
    Tensor mixed = weights.matmul(values.unsqueeze(1)); // [kv_heads, group, n, size]
    mixed = mixed.permute({2, 0, 1, 3}).reshape({*n_, heads * size});
    return weights_->linear(mixed, Part::attention_out, layer, hidden, heads * size);
  }

  Tensor activated(const Tensor& x) const { return activations.at(config_.activation)(x); }

  Tensor feed_forward(const Tensor& x, int64_t layer) {
    const int64_t hidden = config_.hidden_size, inner = config_.intermediate_size;
    const bool bias = config_.mlp_bias;
    Tensor y;
    if (!config_.gated) {
      y = activated(weights_->linear(x, Part::up, layer, inner, hidden, bias));
    } else if (weights_->has(Part::gate_up, layer)) {
      const Tensor both = weights_->linear(x, Part::gate_up, layer, 2 * inner, hidden, bias);
      y = activated(both.slice(1, 0, inner)) * both.slice(1, inner, 2 * inner);
    } else {
      y = activated(weights_->linear(x, Part::gate, layer, inner, hidden, bias)) *
          weights_->linear(x, Part::up, layer, inner, hidden, bias);
    }
    return weights_->linear(y, Part::down, layer, hidden, inner, bias);
  }

  /// Each token goes through the experts that the router gives the largest weights (Shazeer et al. 2017,
  /// arXiv:1701.06538): products are computed with the rows of these only.
  Tensor experts(const Tensor& x, int64_t layer) { // x [n, hidden]
    const int64_t count = config_.num_experts, hidden = config_.hidden_size, inner = config_.expert_size;
    const Tensor shares = weights_->linear(x, Part::router, layer, count, hidden).softmax(-1); // [n, count]
    const auto [largest, chosen] = shares.topk(config_.num_experts_used);                      // [n, used]
    const Tensor share = config_.normalised_experts ? largest / largest.sum(-1, true) : largest;
    const auto product = [&](const Tensor& given, Part part, int64_t out,
                             int64_t in) { // given [n, used or 1, in]
      return (weights_->experts(part, layer, count, out, in).gather(chosen) * given.unsqueeze(2)).sum(-1);
    };
    const Tensor each = x.unsqueeze(1);
    const Tensor y = activated(product(each, Part::expert_gate, inner, hidden)) *
                     product(each, Part::expert_up, inner, hidden); // [n, used, inner]
    return (product(y, Part::expert_down, hidden, inner) * share.unsqueeze(-1)).sum(1);
  }

  const ModelFile& file_;
  const ModelConfig& config_;
  LlamaOptions options_;
  Llama model_;
  std::unique_ptr<DecoderWeights> weights_;
  std::unique_ptr<Dim> n_, past_, filled_;
  Angles angles_;
  std::optional<Angles> local_angles_;
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
  if (model.slot.defined()) return {{"n", 1}, {"m", 1}, {"filled", model.context / 4}};
  if (model.most_rows > 0) // as many tokens as logits: what is asked of several rows at once
    return {{"n", model.most_rows},
            {"m", model.most_rows},
            {"past", std::min(model.context / 4, model.context - model.most_rows)}};
  return {{"n", 1}, {"past", model.context / 4}};
}

} // namespace luminal::models
