// nn/attention.cpp -- rotary positions, caches, attention.
#include "luminal/indexing.h"
#include "luminal/nn_attention.h"
#include "luminal/random.h"
#include "nn/scope.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal::nn {

Tensor rotary(const Tensor& x, const Tensor& positions, const RotaryOptions& options,
              std::source_location where) {
  const Dims shape = x.shape(where);
  if (shape.size() < 2 || !shape.back().is_constant())
    throw Error("rotary", fmt::format("x must be [.., n, size], it is {}", luminal::to_string(shape)), where);
  const int64_t size = shape.back().value(), turning = options.rotated ? options.rotated : size,
                pairs = turning / 2;
  if (turning < 2 || turning > size || turning % 2)
    throw Error("rotary", fmt::format("{} of {} elements cannot turn in pairs", turning, size), where);
  std::vector<double> frequencies = options.frequencies;
  if (frequencies.empty())
    for (int64_t i = 0; i < pairs; i++)
      frequencies.push_back(std::pow(options.base, -2.0 * double(i) / double(turning)));
  if (frequencies.size() != size_t(pairs))
    throw Error("rotary", fmt::format("{} frequencies for {} pairs", frequencies.size(), pairs), where);
  Graph graph(x.graph(where));
  const Tensor frequency =
      graph.constant(std::vector<float>(frequencies.begin(), frequencies.end()), {pairs});
  const Tensor angle = positions.cast(DType::f32, where).unsqueeze(-1) * frequency; // [.., n, pairs]
  const Tensor c = angle.cos() * options.magnitude, s = angle.sin() * options.magnitude;
  const Tensor part = turning == size ? x : x.slice(-1, 0, turning);
  const Tensor split = options.interleaved ? part.unflatten(-1, {pairs, 2}) : part.unflatten(-1, {2, pairs});
  const int axis = options.interleaved ? -1 : -2; // where the two of a pair lie
  const Tensor a = split.select(axis, 0), b = split.select(axis, 1);
  const Tensor turned = stack({a * c - b * s, b * c + a * s}, axis).flatten(-2, -1).cast(x.dtype());
  return turning == size ? turned : concat({turned, x.slice(-1, turning, size)}, -1);
}

Tensor causal_mask(Graph& graph, Dim queries, Dim keys, Dim first, std::optional<int64_t> window,
                   std::source_location where) {
  const Tensor query = graph.arange(first, first + queries, DType::i64, where).unsqueeze(1),
               key = graph.arange(keys, DType::i64, where);
  Tensor seen = key <= query;
  if (window) seen = seen & (key > query - *window);
  return seen;
}

KvCache::KvCache(Graph& graph, const std::string& name, int64_t heads, int64_t capacity, int64_t key_size,
                 int64_t value_size, DType dtype, std::source_location where)
    : graph_(graph.state("KvCache", where)),
      keys_(graph.state(name + ".keys", {heads, capacity, key_size}, dtype, where)),
      values_(graph.state(name + ".values", {heads, capacity, value_size}, dtype, where)) {}

KvCache::Filled KvCache::append(const Tensor& keys, const Tensor& values, Dim past,
                                std::source_location where) {
  const auto written = [&](const Tensor& state, const Tensor& rows) {
    const Tensor next = state.update(1, past, rows.cast(state.dtype()), where);
    graph_.update(state, next, where);
    return next.slice(1, 0, past + rows.dim(1), 1, where).cast(DType::f32);
  };
  return {written(keys_, keys), written(values_, values)};
}

MultiheadAttention::MultiheadAttention(const Scope& scope, int64_t width, int64_t heads,
                                       const MultiheadOptions& options, std::source_location where)
    : Module(scope), width_(width), heads_(heads), options_(options),
      out_(scope / "out_proj", width, width, {.bias = options.bias}, where) {
  need_sizes("MultiheadAttention", {{"width", width}, {"heads", heads}}, where);
  if (width % heads)
    throw Error("MultiheadAttention", fmt::format("width {} is not a multiple of {} heads", width, heads),
                where);
  const int64_t keys = options.key_width ? options.key_width : width,
                values = options.value_width ? options.value_width : width;
  const auto parameter = [&](const char* name, int64_t rows, int64_t in) {
    return scope.parameter(name, {rows, in}, init::xavier_uniform(), where);
  };
  if (keys == width && values == width) {
    in_ = parameter("in_proj_weight", 3 * width, width);
  } else {
    q_ = parameter("q_proj_weight", width, width);
    k_ = parameter("k_proj_weight", width, keys);
    v_ = parameter("v_proj_weight", width, values);
  }
  if (options.bias) bias_ = scope.parameter("in_proj_bias", {3 * width}, init::zeros(), where);
}

Tensor MultiheadAttention::operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                                      const AttentionMask& mask, std::source_location where) const {
  for (const Tensor* x : {&query, &key, &value})
    if (x->rank(where) != 3)
      throw Error(
          "MultiheadAttention",
          fmt::format("tensors of three axes are expected, one is {}", luminal::to_string(x->shape(where))),
          where);
  const int64_t size = width_ / heads_;
  const auto heads = [&](const Tensor& given, const Parameter& own, int64_t part) {
    const Tensor x = options_.batch_first ? given : given.transpose(0, 1);
    const auto rows = [&](const Tensor& all) { return all.slice(0, part * width_, (part + 1) * width_); };
    const Tensor bias = bias_.defined() ? rows(bias_) : Tensor();
    const Tensor y = linear(x, in_.defined() ? rows(in_) : own.value(), bias, where);
    return y.unflatten(-1, {heads_, size}).transpose(1, 2); // [batch, heads, n, size]
  };
  const Tensor q = heads(query, q_, 0), k = heads(key, k_, 1), v = heads(value, v_, 2);
  AttentionOptions how{.mask = mask.mask, .causal = mask.causal};
  if (mask.padding.defined()) {
    const Tensor there = (!Operand(mask.padding, where)).unsqueeze(1).unsqueeze(1); // [batch, 1, 1, keys]
    how.mask = !how.mask.defined()                  ? there
               : how.mask.dtype() == DType::boolean ? (how.mask & there)
                                                    : select(there, how.mask, -double(INFINITY));
  }
  Tensor mixed;
  if (options_.dropout > 0 && scope().training()) {
    // Dropout stands between the weights and the values: the weights are those of attention to the unit
    // matrix.
    Graph graph = scope().graph();
    const Tensor unit =
        luminal::eye(graph, k.dim(2), k.dim(2), v.dtype(), where).expand({k.dim(0), k.dim(1), -1, -1});
    const Tensor weights = scaled_dot_product_attention(q, k, unit, how, where);
    mixed = dropout(scope().random_key(where), weights, options_.dropout, where).matmul(v, where);
  } else {
    mixed = scaled_dot_product_attention(q, k, v, how, where);
  }
  mixed = mixed.transpose(1, 2).flatten(2, 3);
  const Tensor y = out_(mixed, where);
  return options_.batch_first ? y : y.transpose(0, 1);
}

GroupedAttention::GroupedAttention(const Scope& scope, int64_t width, int64_t heads, const GroupedOptions& o,
                                   Where where)
    : Module(scope), heads_(heads), kv_heads_(o.kv_heads ? o.kv_heads : heads),
      size_(o.head_size ? o.head_size : width / std::max<int64_t>(heads, 1)), options_(o),
      q_(scope / "q_proj", width, heads * size_, {.bias = o.qkv_bias}, where),
      k_(scope / "k_proj", width, kv_heads_ * size_, {.bias = o.qkv_bias}, where),
      v_(scope / "v_proj", width, kv_heads_ * size_, {.bias = o.qkv_bias}, where),
      out_(scope / "o_proj", heads * size_, width, {.bias = o.out_bias}, where) {
  if (heads % kv_heads_)
    throw Error("GroupedAttention",
                fmt::format("{} heads are not a multiple of {} heads of keys and values", heads, kv_heads_),
                where);
  if (!o.qk_norm_eps) return;
  q_norm_.emplace(scope / "q_norm", size_, *o.qk_norm_eps, 0, where);
  k_norm_.emplace(scope / "k_norm", size_, *o.qk_norm_eps, 0, where);
}

GroupedAttention::Heads GroupedAttention::project(const Tensor& x, Dim first, Where where) const {
  const auto heads = [&](const Linear& projection, int64_t count) {
    return projection(x, where).unflatten(-1, {count, size_}).transpose(-3, -2); // [.., heads, n, size]
  };
  Heads h{heads(q_, heads_), heads(k_, kv_heads_), heads(v_, kv_heads_)};
  if (q_norm_) h.q = (*q_norm_)(h.q, where), h.k = (*k_norm_)(h.k, where);
  if (options_.rotary) {
    const Tensor positions = scope().graph().arange(first, first + x.dim(-2), DType::i64, where);
    h.q = rotary(h.q, positions, *options_.rotary, where);
    h.k = rotary(h.k, positions, *options_.rotary, where);
  }
  return h;
}

Tensor GroupedAttention::operator()(const Tensor& x, Where where) const {
  const Heads h = project(x, 0, where);
  Graph graph = scope().graph();
  AttentionOptions how{.causal = !options_.window, .scale = options_.scale};
  if (options_.window) how.mask = causal_mask(graph, x.dim(-2), x.dim(-2), 0, options_.window, where);
  const Tensor mixed = scaled_dot_product_attention(h.q, h.k, h.v, how, where);
  return out_(mixed.transpose(-3, -2).flatten(-2, -1), where);
}

Tensor GroupedAttention::operator()(const Tensor& x, KvCache& cache, Dim past, Where where) const {
  if (x.rank(where) != 2)
    throw Error("GroupedAttention",
                fmt::format("with a cache x must be [n, width], it is {}", luminal::to_string(x.shape())),
                where);
  const Heads h = project(x, past, where);
  const KvCache::Filled all = cache.append(h.k, h.v, past, where);
  Graph graph = scope().graph();
  const Tensor mask = causal_mask(graph, x.dim(0), past + x.dim(0), past, options_.window, where);
  const Tensor mixed =
      scaled_dot_product_attention(h.q, all.keys, all.values, {.mask = mask, .scale = options_.scale}, where);
  return out_(mixed.transpose(0, 1).flatten(1, 2), where);
}

} // namespace luminal::nn
