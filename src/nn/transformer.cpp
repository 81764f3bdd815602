// nn/transformer.cpp -- encoders, decoders, mixtures of experts.
#include "luminal/indexing.h"
#include "luminal/nn_attention.h"
#include "luminal/tensor_functions.h"
#include "nn/scope.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal::nn {
namespace {

MultiheadOptions heads_of(const TransformerOptions& o) {
  return {.dropout = o.dropout, .batch_first = o.batch_first};
}

} // namespace

TransformerEncoderLayer::TransformerEncoderLayer(const Scope& scope, int64_t width, int64_t heads,
                                                 const TransformerOptions& o, std::source_location where)
    : Module(scope), norm_first_(o.norm_first),
      self_attn_(scope / "self_attn", width, heads, heads_of(o), where),
      linear1_(scope / "linear1", width, o.inner, {}, where),
      linear2_(scope / "linear2", o.inner, width, {}, where),
      norm1_(scope / "norm1", width, {.eps = o.eps}, where),
      norm2_(scope / "norm2", width, {.eps = o.eps}, where), dropout_(scope, o.dropout),
      activation_(o.activation, where) {}

Tensor TransformerEncoderLayer::operator()(const Tensor& x, const AttentionMask& mask,
                                           std::source_location where) const {
  const auto attend = [&](const Tensor& t) { return dropout_(self_attn_(t, mask, where), where); };
  const auto feed_forward = [&](const Tensor& t) {
    return dropout_(linear2_(dropout_(activation_(linear1_(t, where)), where), where), where);
  };
  if (norm_first_) {
    const Tensor y = x + attend(norm1_(x, where));
    return y + feed_forward(norm2_(y, where));
  }
  const Tensor y = norm1_(x + attend(x), where);
  return norm2_(y + feed_forward(y), where);
}

TransformerDecoderLayer::TransformerDecoderLayer(const Scope& scope, int64_t width, int64_t heads,
                                                 const TransformerOptions& o, std::source_location where)
    : Module(scope), norm_first_(o.norm_first),
      self_attn_(scope / "self_attn", width, heads, heads_of(o), where),
      multihead_attn_(scope / "multihead_attn", width, heads, heads_of(o), where),
      linear1_(scope / "linear1", width, o.inner, {}, where),
      linear2_(scope / "linear2", o.inner, width, {}, where),
      norm1_(scope / "norm1", width, {.eps = o.eps}, where),
      norm2_(scope / "norm2", width, {.eps = o.eps}, where),
      norm3_(scope / "norm3", width, {.eps = o.eps}, where), dropout_(scope, o.dropout),
      activation_(o.activation, where) {}

Tensor TransformerDecoderLayer::operator()(const Tensor& x, const Tensor& memory, const AttentionMask& mask,
                                           const AttentionMask& memory_mask,
                                           std::source_location where) const {
  const auto attend = [&](const Tensor& t) { return dropout_(self_attn_(t, mask, where), where); };
  const auto cross = [&](const Tensor& t) {
    return dropout_(multihead_attn_(t, memory, memory, memory_mask, where), where);
  };
  const auto feed_forward = [&](const Tensor& t) {
    return dropout_(linear2_(dropout_(activation_(linear1_(t, where)), where), where), where);
  };
  if (norm_first_) {
    Tensor y = x + attend(norm1_(x, where));
    y = y + cross(norm2_(y, where));
    return y + feed_forward(norm3_(y, where));
  }
  Tensor y = norm1_(x + attend(x), where);
  y = norm2_(y + cross(y), where);
  return norm3_(y + feed_forward(y), where);
}

TransformerEncoder::TransformerEncoder(const Scope& scope, int64_t layers, int64_t width, int64_t heads,
                                       const TransformerOptions& o, std::source_location where)
    : Module(scope) {
  need_sizes("TransformerEncoder", {{"layers", layers}}, where);
  for (int64_t i = 0; i < layers; i++) layers_.emplace_back(scope / "layers" / i, width, heads, o, where);
  if (o.final_norm) norm_.emplace(scope / "norm", width, NormOptions{.eps = o.eps}, where);
}
Tensor TransformerEncoder::operator()(const Tensor& x, const AttentionMask& mask,
                                      std::source_location where) const {
  Tensor y = x;
  for (const auto& layer : layers_) y = layer(y, mask, where);
  return norm_ ? (*norm_)(y, where) : y;
}

TransformerDecoder::TransformerDecoder(const Scope& scope, int64_t layers, int64_t width, int64_t heads,
                                       const TransformerOptions& o, std::source_location where)
    : Module(scope) {
  need_sizes("TransformerDecoder", {{"layers", layers}}, where);
  for (int64_t i = 0; i < layers; i++) layers_.emplace_back(scope / "layers" / i, width, heads, o, where);
  if (o.final_norm) norm_.emplace(scope / "norm", width, NormOptions{.eps = o.eps}, where);
}
Tensor TransformerDecoder::operator()(const Tensor& x, const Tensor& memory, const AttentionMask& mask,
                                      const AttentionMask& memory_mask, std::source_location where) const {
  Tensor y = x;
  for (const auto& layer : layers_) y = layer(y, memory, mask, memory_mask, where);
  return norm_ ? (*norm_)(y, where) : y;
}

namespace {
TransformerOptions with_final_norm(TransformerOptions o) {
  o.final_norm = true;
  return o;
}
} // namespace

Transformer::Transformer(const Scope& scope, int64_t width, int64_t heads, int64_t encoder_layers,
                         int64_t decoder_layers, const TransformerOptions& o, std::source_location where)
    : Module(scope), encoder_(scope / "encoder", encoder_layers, width, heads, with_final_norm(o), where),
      decoder_(scope / "decoder", decoder_layers, width, heads, with_final_norm(o), where) {}
Tensor Transformer::operator()(const Tensor& source, const Tensor& target, const AttentionMask& source_mask,
                               const AttentionMask& target_mask, const AttentionMask& memory_mask,
                               std::source_location where) const {
  return decoder_(target, encoder_(source, source_mask, where), target_mask, memory_mask, where);
}

MixtureOfExperts::MixtureOfExperts(const Scope& scope, int64_t width, int64_t inner, int64_t experts,
                                   const ExpertsOptions& o, std::source_location where)
    : Module(scope), options_(o), gate_(scope / "gate", width, experts, {.bias = false}, where),
      activation_(o.activation, where) {
  need_sizes("MixtureOfExperts", {{"inner", inner}, {"experts", experts}, {"used", o.used}}, where);
  if (o.used > experts)
    throw Error("MixtureOfExperts", fmt::format("{} of {} experts cannot be used", o.used, experts), where);
  // Each expert is a matrix of its own: the fans are those of one.
  const auto parameter = [&](const char* name, int64_t rows, int64_t in) {
    const double bound = 1 / std::sqrt(double(in));
    return scope.parameter(name, {experts, rows, in}, init::uniform(-bound, bound), where);
  };
  w1_ = parameter("w1", inner, width);
  w2_ = parameter("w2", width, inner);
  w3_ = parameter("w3", inner, width);
}

Tensor MixtureOfExperts::operator()(const Tensor& x, std::source_location where) const {
  const Dims shape = x.shape(where);
  if (shape.empty()) throw Error("MixtureOfExperts", "x must be [.., width], it has no axes", where);
  const Tensor tokens = x.reshape({-1, shape.back()}, where);                          // [n, width]
  const auto [chosen, experts] = gate_(tokens, where).softmax(-1).topk(options_.used); // [n, used]
  Tensor share = chosen;
  if (options_.normalised) share = share / share.sum(-1, true);
  // Rows of the chosen experts: gathers that the products read through.
  const auto product = [&](const Tensor& given, const Parameter& w) { // [n, used, in] -> [n, used, out]
    return (w.value().gather(experts) * given.unsqueeze(2)).sum(-1);
  };
  const Tensor each = tokens.unsqueeze(1);
  const Tensor inner = activation_(product(each, w1_), where) * product(each, w3_);
  return (product(inner, w2_) * share.unsqueeze(-1)).sum(1).reshape(shape);
}

} // namespace luminal::nn
