// models/onnx/ops_attention.cpp -- attention in its forms, rotary embeddings, linear attention.
#include "luminal/nn_functions.h"
#include "luminal/random.h"
#include "models/onnx/heads.h"
#include "models/onnx/operators.h"
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace luminal::onnx::ops {
namespace {

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// bool, broadcast to [batch, 1, queries, keys]: what causality and the window allow; undefined: all.
Tensor allowed_pairs(Node& n, Dim queries, Dim keys, const Tensor& offset) {
  const int64_t left = n.integer("left_window_size", -1), right = n.integer("right_window_size", -1);
  const bool causal = n.integer("is_causal", 0) != 0;
  Tensor allowed;
  const auto add = [&](const Tensor& condition) {
    allowed = allowed.defined() ? allowed & condition : condition;
  };
  const Tensor key = n.graph().iota({1, 1, 1, keys}, [](const Dims& i) { return i[3]; });
  const Tensor query = n.graph().iota({1, 1, queries, 1}, [](const Dims& i) { return i[2]; }) + offset;
  if (causal) add(key <= query);
  if (left >= 0) add(query - key <= left);
  if (right >= 0) add(key - query <= right);
  return allowed;
}
/// Numbers that are added to scores: 0 or -inf for a bool mask.
Tensor bias_of(const Tensor& mask, DType type) {
  if (mask.dtype() != DType::boolean) return mask.cast(type);
  return select(mask, full_like(mask.cast(type), 0), full_like(mask.cast(type), minus_infinity));
}

} // namespace

Tensor heads_apart(const Tensor& x, int64_t heads) {
  return x.reshape({x.dim(0), x.dim(1), heads, x.dim(2) / Dim(heads)}).permute({0, 2, 1, 3});
}
Tensor heads_together(const Tensor& x) {
  return x.permute({0, 2, 1, 3}).reshape({x.dim(0), x.dim(2), x.dim(1) * x.dim(3)});
}
Tensor for_queries(Node& n, const Tensor& x, const Tensor& query) {
  const Dim q = query.dim(1), k = x.dim(1);
  if (q == k) return x;
  if (!q.is_constant() || !k.is_constant() || k.value() == 0 || q.value() % k.value())
    n.refuse(fmt::format("has {} query heads for {} key heads: a fixed multiple is expected", q.to_string(),
                         k.to_string()));
  return x.repeat_interleave(q / k, 1);
}
Tensor turned(const Tensor& x, const Tensor& cosine, const Tensor& sine, bool neighbours) {
  const Tensor c = cosine.unsqueeze(2), s = sine.unsqueeze(2);
  const Dim size = x.dim(3), half = cosine.dim(-1), count = half * Dim(2);
  const Tensor front = x.slice(3, 0, count);
  const Tensor a = neighbours ? front.slice(3, 0, count, 2) : front.slice(3, 0, half);
  const Tensor b = neighbours ? front.slice(3, 1, count, 2) : front.slice(3, half, count);
  const Tensor real = c * a - s * b, imaginary = s * a + c * b;
  const Tensor y =
      neighbours ? stack({real, imaginary}, 4).reshape(front.shape()) : concat({real, imaginary}, 3);
  return count == size ? y : concat({y, x.slice(3, count, size)}, 3);
}

void Attention(Node& n) {
  Tensor q = n.in(0), k = n.in(1), v = n.in(2);
  const bool flat = q.rank() == 3;
  if (flat) {
    const int64_t heads = n.integer("q_num_heads"), groups = n.integer("kv_num_heads");
    q = heads_apart(q, heads), k = heads_apart(k, groups), v = heads_apart(v, groups);
  }
  if (q.rank() != 4)
    n.refuse(fmt::format("has queries {}: 3 or 4 axes are expected", luminal::to_string(q.shape())));
  const DType type = q.dtype();
  const Tensor past = n.maybe(4);
  if (past.defined()) k = concat({past, k}, 2), v = concat({n.in(5), v}, 2);
  n.out(1, k);
  n.out(2, v);
  const double given = n.number("scale", 0);
  const Dim size = q.dim(3);
  if (!size.is_constant())
    n.refuse(fmt::format("has heads of size {}: a fixed size is needed (OnnxOptions::shapes or dims)",
                         size.to_string()));
  const double scale = std::sqrt(given != 0 ? given : 1 / std::sqrt(double(size.value())));
  const Dim queries = q.dim(2), keys = k.dim(2);
  const Tensor root = n.graph().constant(scale, type);
  Tensor scores = (q * root).matmul((for_queries(n, k, q) * root).transpose(-1, -2)).cast(type);
  const int64_t mode = n.integer("qk_matmul_output_mode", 0);
  if (mode == 0) n.out(3, scores);
  const double cap = n.number("softcap", 0);
  if (cap > 0) scores = ((scores / cap).tanh() * cap).cast(type);
  if (mode == 1) n.out(3, scores);
  Tensor bias;
  const auto add = [&](const Tensor& more) { bias = bias.defined() ? (bias + more).cast(type) : more; };
  if (n.has(3)) {
    Tensor mask = bias_of(n.in(3), type);
    const Dim have = mask.dim(-1);
    if (!(have == keys) && !(have == Dim(1)))
      mask = mask.pad(mask.rank() - 1, 0, keys - have, minus_infinity);
    add(mask);
  }
  const Tensor lengths = n.has(6) ? n.in(6).cast(DType::i64).reshape({-1, 1, 1, 1}) : Tensor();
  const Tensor offset =
      past.defined()      ? n.graph().iota({1, 1, 1, 1}, [&](const Dims&) { return past.dim(2); })
      : lengths.defined() ? lengths - queries
                          : n.graph().iota({1, 1, 1, 1}, [](const Dims&) { return Dim(0); });
  if (const Tensor allowed = allowed_pairs(n, queries, keys, offset); allowed.defined())
    add(bias_of(allowed, type));
  if (lengths.defined())
    add(bias_of(n.graph().iota({1, 1, 1, keys}, [](const Dims& i) { return i[3]; }) < lengths, type));
  if (bias.defined()) scores = (scores + bias).cast(type);
  if (mode == 2) n.out(3, scores);
  const auto precise = carrier(ElementType(int32_t(n.integer("softmax_precision", 0))));
  Tensor weights = (precise ? scores.cast(*precise) : scores).softmax(-1);
  if (bias.defined()) { // a query that sees no key gives 0
    const Tensor none = equal(bias.max(-1, true), minus_infinity);
    weights = select(none, zeros_like(weights), weights);
  }
  weights = weights.cast(type);
  if (mode == 3) n.out(3, weights);
  Tensor y = weights.matmul(for_queries(n, v, q)).cast(type);
  n.out(0, flat ? heads_together(y) : y);
}
void FlexAttention(Node& n) {
  const Tensor q = n.in(0), k = n.in(1), v = n.in(2);
  const DType type = q.dtype();
  const double given = n.number("scale", 0);
  const Dim size = q.dim(3);
  if (!size.is_constant())
    n.refuse(fmt::format("has heads of size {}: a fixed size is needed (OnnxOptions::shapes or dims)",
                         size.to_string()));
  const float scale = std::sqrt(float(given != 0 ? given : 1 / std::sqrt(double(size.value()))));
  const Tensor root = n.graph().constant(double(scale), type);
  const DType precise = carrier(ElementType(int32_t(n.integer("softmax_precision", 0))))
                            .value_or(type == DType::f64 ? type : DType::f32);
  const auto modified = [&](const std::string& name, const Tensor& x) {
    const luminal::onnx::Attribute* a = n.attribute(name);
    if (!a) return x;
    const GraphData& body = n.body(name);
    if (body.inputs.size() != 1 || body.outputs.size() != 1)
      n.refuse(fmt::format("has a graph {} of {} inputs and {} results: one of each is expected", name,
                           body.inputs.size(), body.outputs.size()));
    Scope scope;
    scope.outer = &n.scope();
    scope.graph = &n.graph();
    scope.attributes = n.scope().attributes;
    scope.opsets = n.scope().opsets;
    Value value;
    value.name = body.inputs[0].name;
    value.type = element_type_of(x.dtype());
    value.tensor = x;
    scope.values[value.name] = value;
    n.importer().add_initializers(scope, body);
    n.importer().build_nodes(scope, body.nodes);
    return n.importer()
        .tensor_of(scope, n.importer().find(scope, body.outputs[0].name, n.title()))
        .cast(precise);
  };
  Tensor scores = (q * root).matmul((for_queries(n, k, q) * root).transpose(-1, -2)).cast(type).cast(precise);
  scores = modified("score_mod", scores);
  const Tensor weights = modified("prob_mod", scores.softmax(-1));
  n.out(weights.matmul(for_queries(n, v, q).cast(precise)).cast(v.dtype()));
}
void RotaryEmbedding(Node& n) {
  const Tensor given = n.in(0);
  Tensor x = given; // [batch, n, heads, size]
  if (x.rank() == 4) {
    x = x.permute({0, 2, 1, 3});
  } else {
    const int64_t heads = n.integer("num_heads", 0);
    if (heads < 1) n.refuse(fmt::format("has num_heads = {}: an input of 3 axes needs at least 1", heads));
    x = x.reshape({x.dim(0), x.dim(1), heads, x.dim(2) / Dim(heads)});
  }
  int64_t size = n.integer("rotary_embedding_dim", 0);
  if (size == 0) size = n.extents(x)[3];
  Tensor cosine = n.in(1), sine = n.in(2);
  if (n.has(3)) cosine = cosine.gather(n.in(3)), sine = sine.gather(n.in(3));
  if (!(cosine.dim(-1) * Dim(2) == Dim(size)))
    n.refuse(fmt::format("turns {} elements of a head, and has cosines {}: half as many are expected", size,
                         luminal::to_string(cosine.shape())));
  const Tensor y = turned(x, cosine, sine, n.integer("interleaved", 0) != 0);
  n.out((given.rank() == 4 ? y.permute({0, 2, 1, 3}) : y.reshape(given.shape())).cast(given.dtype()));
}
void LinearAttention(Node& n) {
  const int64_t heads = n.integer("q_num_heads"), groups = n.integer("kv_num_heads");
  const std::string rule =
      n.one_of("update_rule", "gated_delta", {"linear", "gated", "delta", "gated_delta"});
  const bool gated = rule == "gated" || rule == "gated_delta",
             delta = rule == "delta" || rule == "gated_delta";
  const Tensor query = n.in(0);
  const DType type = query.dtype();
  // Time comes first: [time, batch, heads, size]
  const auto steps = [](const Tensor& x, int64_t count) {
    return heads_apart(x.cast(DType::f32), count).permute({2, 0, 1, 3});
  };
  std::vector<Tensor> stepped{steps(query, heads), steps(n.in(1), groups), steps(n.in(2), groups)};
  const Dim keys = stepped[1].dim(3), values = stepped[2].dim(3), batch = query.dim(0);
  size_t decay_at = 0, beta_at = 0;
  if (gated) decay_at = stepped.size(), stepped.push_back(steps(n.in(4), groups));
  if (delta) {
    beta_at = stepped.size();
    const Dim last = n.in(5).dim(2);
    stepped.push_back(steps(n.in(5), last.is_constant() ? last.value() : groups));
  }
  Tensor state = n.has(3) ? n.in(3).cast(DType::f32) : zeros(n.graph(), {batch, groups, keys, values});
  const double given = n.number("scale", 0);
  if (!keys.is_constant())
    n.refuse(fmt::format("has heads of size {}: a fixed size is needed (OnnxOptions::shapes or dims)",
                         keys.to_string()));
  const double scale = given != 0 ? given : 1 / std::sqrt(double(keys.value()));
  const auto made =
      n.graph().loop(query.dim(1), {state}, stepped, {},
                     [&](Graph&, Tensor, const std::vector<Tensor>& carried, const std::vector<Tensor>& at,
                         const std::vector<Tensor>&) {
                       Tensor s = carried[0], v = at[2];
                       if (gated) s = s * at[decay_at].exp().unsqueeze(-1);
                       if (delta) v = at[beta_at] * (v - (s * at[1].unsqueeze(-1)).sum(2));
                       s = s + at[1].unsqueeze(-1) * v.unsqueeze(-2);
                       const Tensor read = heads == groups ? s : s.repeat_interleave(heads / groups, 1);
                       return Graph::LoopResult{{s}, {(at[0].unsqueeze(-1) * read).sum(2) * scale}};
                     });
  const Tensor y = made.stacked[0].permute({1, 0, 2, 3}); // [batch, time, heads, values]
  n.out(0, y.reshape({y.dim(0), y.dim(1), y.dim(2) * y.dim(3)}).cast(type));
  n.out(1, made.carried[0].cast(n.has(3) ? n.in(3).dtype() : type));
}
void CausalConvWithState(Node& n) {
  const Tensor x = n.in(0), weight = n.in(1);
  const int64_t kernel = n.extents(weight).at(2);
  const Tensor all = n.has(3) ? concat({n.in(3), x}, 2) : x.pad(2, kernel - 1, 0);
  ConvOptions options;
  const Dim channels = x.dim(1);
  if (!channels.is_constant())
    n.refuse(fmt::format("has {} channels: a fixed number is needed (OnnxOptions::shapes or dims)",
                         channels.to_string()));
  options.groups = channels.value();
  Tensor y = conv(all, weight, n.maybe(2), options).cast(x.dtype());
  const std::string activation = n.one_of("activation", "none", {"none", "silu", "swish"});
  if (activation != "none") y = y.silu();
  n.out(0, y);
  n.out(1, all.slice(2, all.dim(2) - Dim(kernel - 1), all.dim(2)));
}

} // namespace luminal::onnx::ops
