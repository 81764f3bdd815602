// models/onnx/ops_loss.cpp -- losses, and random numbers.
#include "luminal/random.h"
#include "models/onnx/operators.h"
#include <fmt/format.h>

namespace luminal::onnx::ops {
namespace {

/// -log of the target's probability: scores [n, c, ..] of logarithms, target [n, ..].
Tensor likelihood_loss(Node& n, const Tensor& logs, const Tensor& target, const Tensor& weight) {
  const std::optional<int64_t> ignored =
      n.attribute("ignore_index") ? std::optional(n.integer("ignore_index")) : std::nullopt;
  const Tensor t = target.cast(DType::i64);
  const Tensor counts = ignored ? not_equal(t, *ignored) : Tensor();
  const Tensor safe = ignored ? select(counts, t, zeros_like(t)) : t;
  Tensor loss = -logs.gather(1, safe.unsqueeze(1)).squeeze({1});
  Tensor each = weight.defined() ? weight.gather(safe) : ones_like(loss);
  if (ignored) each = select(counts, each, zeros_like(each));
  loss = select(equal(each, 0), zeros_like(loss), loss * each);
  const std::string how = n.one_of("reduction", "mean", {"none", "sum", "mean"});
  if (how == "none") return loss;
  if (how == "sum") return loss.sum();
  return weight.defined() || ignored ? loss.sum() / each.sum() : loss.mean();
}
ElementType dtype_of_result(Node& n, ElementType otherwise) {
  return ElementType(int32_t(n.integer("dtype", int64_t(otherwise))));
}
Tensor key_of(Node& n) {
  const auto seed = uint64_t(n.number("seed", 0) * 1048576.0);
  return random_state_key(n.graph(), "random." + n.data().outputs.at(0), seed);
}
Dims given_shape(Node& n) {
  Dims shape;
  for (const int64_t extent : n.integers("shape")) shape.push_back(extent);
  return shape;
}
void uniform(Node& n, const Dims& shape, ElementType type) {
  const DType dtype = carrier(type).value_or(DType::f32);
  n.out(0, random_uniform(key_of(n), shape, n.number("low", 0), n.number("high", 1), dtype), type);
}
void normal(Node& n, const Dims& shape, ElementType type) {
  const DType dtype = carrier(type).value_or(DType::f32);
  n.out(0, random_normal(key_of(n), shape, n.number("mean", 0), n.number("scale", 1), dtype), type);
}

} // namespace

void NegativeLogLikelihoodLoss(Node& n) {
  n.out(likelihood_loss(n, n.in(0), n.in(1), n.maybe(2)).cast(n.in(0).dtype()));
}
void SoftmaxCrossEntropyLoss(Node& n) {
  const Tensor logs = n.in(0).log_softmax(1);
  n.out(0, likelihood_loss(n, logs, n.in(1), n.maybe(2)).cast(n.in(0).dtype()));
  n.out(1, logs);
}
void RandomUniform(Node& n) { uniform(n, given_shape(n), dtype_of_result(n, ElementType::f32)); }
void RandomNormal(Node& n) { normal(n, given_shape(n), dtype_of_result(n, ElementType::f32)); }
void RandomUniformLike(Node& n) { uniform(n, n.in(0).shape(), dtype_of_result(n, n.type(0))); }
void RandomNormalLike(Node& n) { normal(n, n.in(0).shape(), dtype_of_result(n, n.type(0))); }
void Bernoulli(Node& n) {
  const ElementType type = dtype_of_result(n, n.type(0));
  n.out(0, random_bernoulli(key_of(n), n.in(0)).cast(carrier(type).value_or(DType::f32)), type);
}
void Multinomial(Node& n) {
  const ElementType type = dtype_of_result(n, ElementType::i32);
  const Tensor chosen =
      random_multinomial(key_of(n), n.in(0).cast(DType::f32).softmax(-1), n.integer("sample_size", 1), true);
  n.out(0, chosen.cast(carrier(type).value_or(DType::i32)), type);
}

} // namespace luminal::onnx::ops
