// models/decoder_attention.cpp -- attention of a decoder: rotary positions, the cache, grouped heads, latent
// keys and values.
#include "luminal/indexing.h"
#include "models/decoder_builder.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal::models {

DecoderBuilder::Angles DecoderBuilder::make_angles(const ModelConfig& config, const char* name) {
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

void DecoderBuilder::make_rotary_tables() {
  angles_ = make_angles(config_, "rotary");
  if (!config_.local_rope_theta || !config_.sliding_window) return;
  ModelConfig local = config_;
  local.rope_theta = *config_.local_rope_theta;
  local.rope_scaling = {};
  local.rope_factors.clear();
  local_angles_ = make_angles(local, "local_rotary");
}

Tensor DecoderBuilder::rotate(const Tensor& x, int64_t layer) {
  if (config_.learned_positions) return x;
  const Angles& angles = local_angles_ && config_.windowed(layer) ? *local_angles_ : angles_;
  const int64_t heads = x.shape()[1].value(), width = x.shape()[2].value(), pairs = config_.rope_dim / 2;
  const int axis = config_.rope_interleaved ? 3 : 2; // where the two parts of a pair lie
  Tensor turning = config_.rope_dim == width ? x : x.slice(2, 0, config_.rope_dim);
  Tensor parts = config_.rope_interleaved ? turning.reshape({*n_, heads, pairs, 2})
                                          : turning.reshape({*n_, heads, 2, pairs});
  Tensor c = angles.cos.unsqueeze(axis), s = angles.sin.unsqueeze(axis);
  Tensor sign = (model_.graph.arange(2, DType::i32).cast(DType::f32) * 2 - 1); // -1, +1
  sign = config_.rope_interleaved ? sign : sign.unsqueeze(1);
  Tensor turned = (parts * c + parts.flip(axis) * (sign * s)).reshape({*n_, heads, config_.rope_dim});
  if (config_.rope_dim == width) return turned;
  return concat({turned, x.slice(2, config_.rope_dim, width)}, 2);
}

Tensor DecoderBuilder::remember(const std::string& name, const Tensor& rows) {
  Graph& g = model_.graph;
  const int64_t heads = rows.shape()[1].value(), width = rows.shape()[2].value();
  Tensor cache = g.state(name, {heads, model_.context, width}, options_.cache_dtype);
  Tensor next = cache.update(1, *past_, rows.transpose(0, 1));
  g.update(cache, next);
  model_.caches.push_back(cache);
  model_.cache_bytes += heads * model_.context * width * (options_.cache_dtype == DType::f32 ? 4 : 2);
  return next.slice(1, 0, *past_ + *n_).cast(DType::f32);
}

Tensor DecoderBuilder::remember_in_slots(const std::string& name, const Tensor& rows) {
  Graph& g = model_.graph;
  const int64_t heads = rows.shape()[1].value(), width = rows.shape()[2].value();
  Tensor cache = g.state(name, {options_.slots, model_.context, heads, width}, options_.cache_dtype);
  Tensor next = index_put(cache, {model_.slot, model_.position}, rows.cast(options_.cache_dtype));
  g.update(cache, next);
  model_.caches.push_back(cache);
  model_.cache_bytes +=
      options_.slots * model_.context * heads * width * (options_.cache_dtype == DType::f32 ? 4 : 2);
  return next.gather(model_.slot).slice(1, 0, *filled_).cast(DType::f32);
}

Tensor DecoderBuilder::attend_in_slots(const Tensor& q, const Tensor& k, const std::optional<Tensor>& v,
                                       int64_t value, double scale, int64_t layer) {
  const int64_t heads = q.shape()[1].value(), kv_heads = k.shape()[1].value(), width = q.shape()[2].value();
  const Tensor keys = remember_in_slots(fmt::format("k{}", layer), k),
               values = v ? remember_in_slots(fmt::format("v{}", layer), *v) : keys.slice(3, 0, value);
  const Tensor grouped = q.reshape({*n_, kv_heads, heads / kv_heads, width});
  const Tensor scores = capped(grouped.matmul(keys.permute({0, 2, 3, 1})) * scale,
                               config_.attention_softcap); // [n, kv_heads, group, filled]
  const Tensor key = model_.graph.arange(*filled_, DType::i32), query = model_.position.unsqueeze(1);
  Tensor seen = key <= (model_.sees.defined() ? model_.sees.unsqueeze(1) : query); // [n, filled]
  if (config_.windowed(layer) && *config_.sliding_window < model_.context)
    seen = seen & (key > query - *config_.sliding_window);
  const Tensor weights = select(seen.unsqueeze(1).unsqueeze(1), scores, -INFINITY).softmax(-1);
  return weights.matmul(values.permute({0, 2, 1, 3})).reshape({*n_, heads * value});
}

Tensor DecoderBuilder::attend(const Tensor& query, const Tensor& k, const std::optional<Tensor>& v,
                              int64_t value, int64_t layer) {
  const int64_t heads = query.shape()[1].value(), kv_heads = k.shape()[1].value(), group = heads / kv_heads,
                width = query.shape()[2].value();
  const double scale = config_.attention_scale.value_or(1.0 / std::sqrt(double(config_.head_dim)));
  if (options_.slots > 0) return attend_in_slots(query, k, v, value, scale, layer);
  const Tensor keys = remember(fmt::format("k{}", layer), k), // [kv_heads, past + n, width]
      values = v ? remember(fmt::format("v{}", layer), *v) : keys.slice(2, 0, value);
  const Tensor q =
      query.reshape({*n_, kv_heads, group, width}).permute({1, 2, 0, 3}); // [kv_heads, group, n, width]
  const Tensor scores = capped(q.matmul(keys.unsqueeze(1).transpose()) * scale,
                               config_.attention_softcap); // [kv_heads, group, n, past + n]
  Graph& g = model_.graph;
  const Tensor key = g.arange(0, *past_ + *n_), position = g.arange(*past_, *past_ + *n_).unsqueeze(1);
  Tensor seen = key <= position; // [n, past + n]
  if (options_.prefix > 0) seen = seen | (key < options_.prefix);
  if (config_.windowed(layer) && *config_.sliding_window < model_.context)
    seen = seen & (key > position - *config_.sliding_window);
  const Tensor weights = select(seen, scores, -INFINITY).softmax(-1);
  const Tensor mixed = weights.matmul(values.unsqueeze(1)); // [kv_heads, group, n, value]
  return mixed.permute({2, 0, 1, 3}).reshape({*n_, heads * value});
}

std::array<Tensor, 3> DecoderBuilder::projections(const Tensor& x, int64_t layer) {
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

Tensor DecoderBuilder::attention(const Tensor& x, int64_t layer) { // x [n, hidden]
  using QkNorm = ModelConfig::QkNorm;
  if (config_.latent) return latent_attention(x, layer);
  const int64_t heads = config_.num_heads, kv_heads = config_.num_kv_heads, size = config_.head_dim;
  auto [q, k, v] = projections(x, layer);
  if (config_.qk_norm == QkNorm::all) q = norm(q, Part::q_norm, layer), k = norm(k, Part::k_norm, layer);
  q = q.reshape({*n_, heads, size}), k = k.reshape({*n_, kv_heads, size}),
  v = v.reshape({*n_, kv_heads, size});
  if (config_.qk_norm == QkNorm::head) q = norm(q, Part::q_norm, layer), k = norm(k, Part::k_norm, layer);
  const Tensor mixed = attend(rotate(q, layer), rotate(k, layer), v, size, layer);
  return weights_->linear(mixed, Part::attention_out, layer, config_.hidden_size, heads * size);
}

/// With K = W_k c and V = W_v c of the latent vector c: q . K = (W_k' q) . c, and the sum of values is W_v
/// times the sum of the c. So the cache holds c and the shared rotating part, and every head reads the same.
Tensor DecoderBuilder::latent_attention(const Tensor& x, int64_t layer) {
  const LatentAttention& latent = *config_.latent;
  const int64_t heads = config_.num_heads, hidden = config_.hidden_size, size = config_.head_dim,
                rank = latent.rank, plain = latent.plain_dim, value = latent.value_dim;
  const bool bias = config_.attention_bias;
  const Tensor q =
      (latent.query_rank > 0
           ? weights_->linear(norm(weights_->linear(x, Part::q_a, layer, latent.query_rank, hidden, bias),
                                   Part::q_a_norm, layer),
                              Part::q_b, layer, heads * size, latent.query_rank)
           : weights_->linear(x, Part::q, layer, heads * size, hidden))
          .reshape({*n_, heads, size});
  const Tensor joint = weights_->linear(x, Part::kv_a, layer, rank + config_.rope_dim, hidden, bias);
  const Tensor c = norm(joint.slice(1, 0, rank), Part::kv_a_norm, layer); // [n, rank]
  const Tensor turning = joint.slice(1, rank, rank + config_.rope_dim).unsqueeze(1);
  const auto [of_keys, of_values] =
      weights_->latent_heads(layer); // [heads, rank, plain], [heads, value, rank]
  const Tensor plain_q = q.slice(2, 0, plain).transpose(0, 1).matmul(of_keys.transpose()); // [heads, n, rank]
  const Tensor queries =
      concat({plain_q.transpose(0, 1), rotate(q.slice(2, plain, size), layer)}, 2); // [n, heads, width]
  const Tensor keys = concat({c.unsqueeze(1), rotate(turning, layer)}, 2);
  const Tensor mixed = attend(queries, keys, {}, rank, layer).reshape({*n_, heads, rank});
  const Tensor values = mixed.transpose(0, 1).matmul(of_values.transpose()); // [heads, n, value]
  return weights_->linear(values.transpose(0, 1).reshape({*n_, heads * value}), Part::attention_out, layer,
                          hidden, heads * value, bias);
}

} // namespace luminal::models
