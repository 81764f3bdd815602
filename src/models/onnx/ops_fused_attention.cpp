// models/onnx/ops_fused_attention.cpp -- attention and embeddings as ONNX Runtime's optimiser for
// transformers writes them (com.microsoft).
#include "luminal/nn_functions.h"
#include "luminal/random.h"
#include "models/onnx/heads.h"
#include "models/onnx/integers.h"
#include "models/onnx/operators.h"
#include <cmath>
#include <fmt/format.h>
#include <limits>

namespace luminal::onnx::ops {
namespace {

constexpr double hidden_score = std::numeric_limits<float>::lowest();

/// [1, 1, queries, 1] and [1, 1, 1, keys], counted from 0.
Tensor query_places(Node& n, Dim queries) {
  return n.graph().iota({1, 1, queries, 1}, [](const Dims& i) { return i[2]; });
}
Tensor key_places(Node& n, Dim keys) {
  return n.graph().iota({1, 1, 1, keys}, [](const Dims& i) { return i[3]; });
}
/// 0 where the condition holds, else the number.
Tensor unless(const Tensor& condition, double number) {
  const Tensor zero = zeros_like(condition.cast(DType::f32));
  return select(condition, zero, full_like(zero, number));
}
/// Which keys a mask of integers lets through: [batch, 1, queries or 1, keys].
Tensor seen_keys(Node& n, const Tensor& mask, Dim batch, Dim keys) {
  if (mask.rank() == 2) return (mask > 0).unsqueeze(1).unsqueeze(1);
  if (mask.rank() == 3) return (mask > 0).unsqueeze(1);
  const auto part = [&](Dim from) { // one number a sequence
    return mask.slice(0, from, from + batch).cast(DType::i64).reshape({batch, 1, 1, 1});
  };
  if (mask.rank() == 1 && mask.dim(0) == batch) return key_places(n, keys) < part(0);
  if (mask.rank() == 1 && mask.dim(0) == batch * Dim(2)) // ends, then starts
    return (key_places(n, keys) < part(0)) & (key_places(n, keys) >= part(batch));
  n.refuse(
      fmt::format("has a mask {}: [batch, keys], [batch, queries, keys], or lengths [batch], or ends and "
                  "starts [2 * batch] are expected",
                  luminal::to_string(mask.shape())));
}
double scale_of(Node& n, const Tensor& q) {
  const double given = n.number("scale", 0);
  if (given != 0) return given;
  const Dim size = q.dim(3);
  if (!size.is_constant())
    n.refuse(fmt::format("has heads of size {}: a fixed size is needed (OnnxOptions::shapes or dims)",
                         size.to_string()));
  return 1 / std::sqrt(double(size.value()));
}
/// Scores before the softmax: scaled products, masks and numbers of the file added.
Tensor masked_scores(Node& n, const Tensor& q, const Tensor& k, size_t mask, size_t bias) {
  const Dim queries = q.dim(2), keys = k.dim(2);
  const Tensor scores = q.matmul(k.transpose(-1, -2)).cast(DType::f32) * scale_of(n, q);
  Tensor added; // numbers of some size round what is added to them: what is small comes last
  const auto add = [&](const Tensor& more) { added = added.defined() ? added + more : more; };
  if (n.has(bias)) add(n.in(bias).cast(DType::f32));
  if (n.has(mask))
    add(unless(seen_keys(n, n.in(mask), q.dim(0), keys), n.number("mask_filter_value", double(-10000.F))));
  if (n.integer("unidirectional", 0))
    add(unless(key_places(n, keys) <= query_places(n, queries) + (keys - queries), hidden_score));
  return added.defined() ? scores + added : scores;
}
/// Of queries, keys and values joined in the last axis: heads apart, the past before them.
void joined_attention(Node& n, const Tensor& joined, const std::vector<int64_t>& sizes, size_t mask,
                      size_t past, size_t bias) {
  const int64_t heads = n.integer("num_heads");
  if (n.integer("do_rotary", 0)) n.refuse("turns queries and keys (do_rotary), which is not supported");
  if (n.integer("past_present_share_buffer", 0))
    n.refuse("keeps the past in a buffer (past_present_share_buffer), which is not supported");
  int64_t from = 0;
  std::vector<Tensor> parts;
  for (const int64_t size : sizes) {
    if (heads < 1 || size % heads) n.refuse(fmt::format("has {} heads for a hidden size of {}", heads, size));
    parts.push_back(heads_apart(joined.slice(2, from, from + size), heads));
    from += size;
  }
  Tensor k = parts[1], v = parts[2];
  if (n.has(past)) {
    k = concat({n.in(past).select(0, 0), k}, 2);
    v = concat({n.in(past).select(0, 1), v}, 2);
  }
  const Tensor weights = masked_scores(n, parts[0], k, mask, bias).softmax(-1);
  n.out(0, heads_together(weights.cast(v.dtype()).matmul(v)).cast(joined.dtype()));
  if (n.wants(1)) n.out(1, stack({k, v}, 0));
}
/// The normalised sum of rows of tables.
Tensor normalised(Node& n, const Tensor& x, size_t weight) {
  const Tensor away = x - x.mean(-1, true);
  const Tensor y = away / (away.square().mean(-1, true) + n.number("epsilon", double(1e-12F))).sqrt();
  return y * n.in(weight) + n.in(weight + 1);
}

} // namespace

void FusedAttention(Node& n) { // input, weight, bias, mask, past, bias of scores
  Tensor joined = n.in(0).matmul(n.in(1)).cast(n.in(0).dtype());
  if (n.has(2)) joined = joined + n.in(2);
  const int64_t whole = n.extents(n.in(1)).at(1);
  joined_attention(n, joined, n.integers("qkv_hidden_sizes", {whole / 3, whole / 3, whole / 3}), 3, 4, 5);
}
void QAttention(Node& n) { // input, weight, bias, two scales, mask, two zero points, past
  const Tensor sums = integer_matmul(numbers_of(n, 0, 6), numbers_of(n, 1, 7));
  Tensor scale = n.in(4);
  scale = scale.rank() == 1 && !(scale.dim(0) == Dim(1)) ? scale : scale.reshape({});
  const Tensor joined = sums.cast(DType::f32) * (scale * n.in(3).reshape({})) + n.in(2);
  const int64_t whole = n.extents(n.in(1)).at(1);
  joined_attention(n, joined, {whole / 3, whole / 3, whole / 3}, 5, 8, n.inputs());
}
void MultiHeadAttention(Node& n) { // query, key, value, bias, mask, bias of scores, past of keys and values
  const int64_t heads = n.integer("num_heads");
  if (heads < 1) n.refuse(fmt::format("has num_heads = {}", heads));
  for (const size_t i : {8, 9})
    if (n.has(i)) n.refuse("keeps the past in a buffer or follows beams, which is not supported");
  const Tensor query = n.in(0);
  std::vector<Tensor> parts; // [batch, n, heads * size], or with heads apart already
  const auto take = [&](const Tensor& packed, int64_t count) {
    for (int64_t i = 0; i < count; ++i) parts.push_back(packed.select(3, i).flatten(2, 3));
  };
  if (query.rank() == 5)
    take(query, 3);
  else {
    parts.push_back(query);
    if (!n.has(1)) n.refuse("has queries of 3 axes and no keys");
    if (n.in(1).rank() == 5)
      take(n.in(1), 2);
    else
      parts.insert(parts.end(), {n.in(1), n.in(2)});
  }
  const bool apart = parts[1].rank() == 4;
  if (n.has(3)) {
    if (apart) n.refuse("has a bias for keys whose heads are apart, which is not supported");
    Dim from = 0;
    for (Tensor& part : parts) {
      part = part + n.in(3).slice(0, from, from + part.dim(2));
      from = from + part.dim(2);
    }
  }
  const Tensor q = heads_apart(parts[0], heads);
  Tensor k = apart ? parts[1] : heads_apart(parts[1], heads),
         v = apart ? parts[2] : heads_apart(parts[2], heads);
  if (n.has(6)) k = concat({n.in(6), k}, 2), v = concat({n.in(7), v}, 2);
  const Tensor scores = masked_scores(n, q, k, 4, 5);
  n.out(0, heads_together(scores.softmax(-1).cast(v.dtype()).matmul(v)).cast(query.dtype()));
  if (n.wants(1)) n.out(1, k);
  if (n.wants(2)) n.out(2, v);
  if (n.wants(3)) n.out(3, scores.cast(query.dtype()));
}
/// query, key, value, two pasts, lengths less 1, the longest length, cosines, sines, places, bias of scores,
/// sinks. New keys and values stand behind as many of the past as a sequence has.
void GroupQueryAttention(Node& n) {
  const int64_t heads = n.integer("num_heads"), groups = n.integer("kv_num_heads");
  if (heads < 1 || groups < 1 || heads % groups)
    n.refuse(fmt::format("has {} query heads for {} key heads: a multiple is expected", heads, groups));
  if (n.wants(3)) n.refuse("gives the scores (qk_output), which is not supported");
  Tensor query = n.in(0);
  std::vector<Tensor> parts;
  if (!n.has(1)) {
    const Dim size = query.dim(2) / Dim(heads + 2 * groups), mid = size * Dim(heads),
              end = size * Dim(groups);
    parts = {query.slice(2, 0, mid), query.slice(2, mid, mid + end), query.slice(2, mid + end, query.dim(2))};
  } else
    parts = {query, n.in(1), n.in(2)};
  const Dim batch = query.dim(0), news = query.dim(1), longest = n.dims(6).at(0);
  const Dim before = n.has(3) ? n.in(3).dim(2) : Dim(0), keys = max(longest, before);
  // Of the past a sequence has its length without the new ones; at the beginning nothing.
  const Tensor rest = n.graph().iota(
      {batch, 1, 1, 1}, [&](const Dims&) { return n.has(3) ? Dim(1) - equal(news, longest) : Dim(0); });
  const Tensor past = rest * (n.in(5).cast(DType::i64).reshape({batch, 1, 1, 1}) + (Dim(1) - news));
  Tensor q = parts[0].reshape({batch, news, heads, parts[0].dim(2) / Dim(heads)}),
         k = parts[1].reshape({batch, news, groups, parts[1].dim(2) / Dim(groups)});
  if (n.integer("do_rotary", 0)) {
    const Tensor counted = query_places(n, news).reshape({1, news});
    Tensor places = past.reshape({batch, 1}) + counted;
    if (n.has(9)) { // of which the first alone is read at the beginning
      const Tensor given = n.in(9).cast(DType::i64), first = given.slice(0, 0, 1).slice(1, 0, 1) + counted;
      places = select(equal(rest.reshape({batch, 1}), 0), first, given);
    }
    const Tensor cosine = n.in(7).gather(places), sine = n.in(8).gather(places);
    const bool neighbours = n.integer("rotary_interleaved", 0) != 0;
    q = turned(q, cosine, sine, neighbours).cast(query.dtype());
    k = turned(k, cosine, sine, neighbours).cast(query.dtype());
  }
  const Tensor place = n.graph().iota({1, 1, keys, 1}, [](const Dims& i) { return i[2]; });
  const auto with_past = [&](const Tensor& x, size_t i) { // [batch, groups, keys, size]
    if (!n.has(i)) return keys == news ? x : x.pad(2, 0, keys - news);
    const Tensor from = minimum(select(place < past, place, place - past + before), before + news - Dim(1));
    const Tensor all = concat({n.in(i), x}, 2).take_along(from, 2);
    return select(place < past + news, all, zeros_like(all));
  };
  q = q.permute({0, 2, 1, 3});
  k = with_past(k.permute({0, 2, 1, 3}), 3);
  const Tensor v = with_past(heads_apart(parts[2], groups), 4);
  n.out(1, k);
  n.out(2, v);
  const auto read = [&](const Tensor& x) { return for_queries(n, x.slice(2, 0, longest), q); };
  Tensor scores = q.matmul(read(k).transpose(-1, -2)).cast(DType::f32) * scale_of(n, q);
  if (const double cap = n.number("softcap", 0); cap > 0) scores = (scores / cap).tanh() * cap;
  if (n.has(10)) scores = scores + n.in(10).cast(DType::f32);
  const Tensor last = past + query_places(n, news);
  Tensor allowed = key_places(n, longest) <= last;
  if (const int64_t window = n.integer("local_window_size", -1); window > 0)
    allowed = allowed & (last - key_places(n, longest) < window);
  scores = scores + unless(allowed, hidden_score);
  if (n.has(11) || n.integer("smooth_softmax", 0)) { // one more score, of nothing
    const Tensor sink =
        n.has(11) ? n.in(11).cast(DType::f32).reshape({1, heads, 1, 1}) : zeros(n.graph(), {1, heads, 1, 1});
    scores = concat({scores, sink.expand({batch, heads, news, 1})}, 3).softmax(-1).slice(3, 0, longest);
  } else
    scores = scores.softmax(-1);
  n.out(0, heads_together(scores.cast(v.dtype()).matmul(read(v))).cast(query.dtype()));
}
/// x, places, cosines, sines.
void FusedRotaryEmbedding(Node& n) {
  const Tensor given = n.in(0), places = n.in(1).cast(DType::i64), cosines = n.in(2), sines = n.in(3);
  if (const double scale = n.number("scale", 1); scale != 1)
    n.refuse(fmt::format("has scale = {}, which is not supported", scale));
  Tensor x = given;
  if (x.rank() == 4) {
    x = x.permute({0, 2, 1, 3}); // [batch, n, heads, size]
  } else {
    const int64_t heads = n.integer("num_heads", 0);
    const Dim size = heads > 0 ? x.dim(2) / Dim(heads) : cosines.dim(1) * Dim(2);
    x = x.reshape({x.dim(0), x.dim(1), x.dim(2) / size, size});
  }
  const Tensor at =
      places.rank() == 2 ? places : places.reshape({1, 1}) + query_places(n, x.dim(1)).reshape({1, x.dim(1)});
  const Tensor y = turned(x, cosines.gather(at), sines.gather(at), n.integer("interleaved", 0) != 0);
  n.out((given.rank() == 4 ? y.permute({0, 2, 1, 3}) : y.reshape(given.shape())).cast(given.dtype()));
}
/// ids, segments, three tables, weight and bias of the norm, mask, places.
void EmbedLayerNormalization(Node& n) {
  const Tensor ids = n.in(0);
  const Dim batch = ids.dim(0), count = ids.dim(1);
  Tensor sum = n.in(2).gather(ids.cast(DType::i64));
  sum = sum + (n.has(8) ? n.in(3).gather(n.in(8).cast(DType::i64)) : n.in(3).slice(0, 0, count));
  if (n.has(1)) sum = sum + n.in(4).gather(n.in(1).cast(DType::i64));
  n.out(0, normalised(n, sum.cast(DType::f32), 5).cast(sum.dtype()));
  if (n.wants(1)) // lengths
    n.out(1, n.has(7) ? n.in(7).sum(1).cast(DType::i32)
                      : n.graph().iota({batch}, [](const Dims&) { return Dim(0); }, DType::i32));
  if (n.wants(2)) n.out(2, sum);
}

} // namespace luminal::onnx::ops
