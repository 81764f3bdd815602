// models/bert.cpp -- BERT.
#include "luminal/models.h"
#include "luminal/random.h"
#include <fmt/format.h>

namespace luminal::models {

Bert::Layer::Layer(const nn::Scope& s, const BertConfig& c, std::source_location where)
    : query(s / "attention" / "self" / "query", c.width, c.width, {}, where),
      key(s / "attention" / "self" / "key", c.width, c.width, {}, where),
      value(s / "attention" / "self" / "value", c.width, c.width, {}, where),
      attention_out(s / "attention" / "output" / "dense", c.width, c.width, {}, where),
      attention_norm(s / "attention" / "output" / "LayerNorm", c.width, {.eps = c.eps}, where),
      up(s / "intermediate" / "dense", c.width, c.inner, {}, where),
      down(s / "output" / "dense", c.inner, c.width, {}, where),
      norm(s / "output" / "LayerNorm", c.width, {.eps = c.eps}, where) {}

Bert::Bert(const nn::Scope& s, const BertConfig& c, std::source_location where)
    : Module(s), config_(c), words_(s / "embeddings" / "word_embeddings", c.vocabulary, c.width, {}, where),
      positions_(s / "embeddings" / "position_embeddings", c.positions, c.width, {}, where),
      types_(s / "embeddings" / "token_type_embeddings", c.types, c.width, {}, where),
      norm_(s / "embeddings" / "LayerNorm", c.width, {.eps = c.eps}, where),
      pooler_(s / "pooler" / "dense", c.width, c.width, {}, where), activation_(c.activation, where) {
  if (c.heads < 1 || c.width % c.heads)
    throw Error("Bert", fmt::format("width {} is not a multiple of {} heads", c.width, c.heads), where);
  for (int64_t i = 0; i < c.layers; i++) layers_.emplace_back(s / "encoder" / "layer" / i, c, where);
}

BertResult Bert::operator()(const Tensor& ids, const Tensor& mask, const Tensor& types,
                            std::source_location where) const {
  return encode(words_(ids, where), mask, types, where);
}

BertResult Bert::encode(const Tensor& words, const Tensor& mask, const Tensor& types,
                        std::source_location where) const {
  if (words.rank(where) != 3)
    throw Error("Bert",
                fmt::format("[batch, n, width] is expected, not {}", luminal::to_string(words.shape())),
                where);
  Graph g = scope().graph();
  const Dim n = words.dim(1);
  const Tensor positions = Tensor(positions_.weight()).slice(0, 0, n, 1, where);
  const Tensor kinds = types.defined() ? types_(types, where) : Tensor(types_.weight()).select(0, 0);
  Tensor x = norm_(words + positions + kinds, where);
  BertResult result{{x}, {}};
  const int64_t size = config_.width / config_.heads;
  for (const Layer& layer : layers_) {
    const auto heads = [&](const nn::Linear& projection) {
      return projection(x, where)
          .unflatten(-1, {config_.heads, size})
          .transpose(1, 2); // [batch, heads, n, size]
    };
    const Tensor seen = mask.defined() ? mask.unsqueeze(1).unsqueeze(1) : Tensor();
    const Tensor mixed = scaled_dot_product_attention(heads(layer.query), heads(layer.key),
                                                      heads(layer.value), {.mask = seen}, where);
    x = layer.attention_norm(x + layer.attention_out(mixed.transpose(1, 2).flatten(2, 3), where), where);
    x = layer.norm(x + layer.down(activation_(layer.up(x, where)), where), where);
    result.hidden.push_back(x);
  }
  result.pooled = pooler_(x.select(1, 0), where).tanh();
  return result;
}

Tensor sentence_embedding(const Tensor& hidden, const Tensor& mask, std::source_location where) {
  const Tensor there = mask.cast(hidden.dtype(where), where).unsqueeze(-1);
  return ((hidden * there).sum(1) / there.sum(1)).normalize(2, -1);
}

} // namespace luminal::models
