// nn/basic.cpp -- linear layers, embeddings, dropout, activations.
#include "luminal/indexing.h"
#include "luminal/random.h"
#include "luminal/tensor_functions.h"
#include "nn/scope.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal::nn {

Init uniform_of_fan(double fan) { return init::uniform(-1 / std::sqrt(fan), 1 / std::sqrt(fan)); }

namespace {

struct NamedFunction {
  std::string_view name;
  Tensor (*function)(const Tensor&, std::source_location);
};
#define LUMINAL_PLAIN(name) {#name, [](const Tensor& x, std::source_location w) { return x.name(w); }},
constexpr NamedFunction functions[] = {
    LUMINAL_UNARY_FUNCTIONS(LUMINAL_PLAIN) //
    {"leaky_relu", [](const Tensor& x, std::source_location w) { return x.leaky_relu(0.01, w); }},
    {"elu", [](const Tensor& x, std::source_location w) { return x.elu(1, w); }},
    {"celu", [](const Tensor& x, std::source_location w) { return x.celu(1, w); }},
    {"softplus", [](const Tensor& x, std::source_location w) { return x.softplus(1, 20, w); }},
    {"hardtanh", [](const Tensor& x, std::source_location w) { return x.hardtanh(-1, 1, w); }},
    {"hardshrink", [](const Tensor& x, std::source_location w) { return hardshrink(x, 0.5, w); }},
    {"softshrink", [](const Tensor& x, std::source_location w) { return softshrink(x, 0.5, w); }},
    {"tanhshrink", [](const Tensor& x, std::source_location w) { return tanhshrink(x, w); }},
    {"glu", [](const Tensor& x, std::source_location w) { return x.glu(-1, w); }},
    {"softmax", [](const Tensor& x, std::source_location w) { return x.softmax(-1, w); }},
    {"softmin", [](const Tensor& x, std::source_location w) { return softmin(x, -1, w); }},
    {"log_softmax", [](const Tensor& x, std::source_location w) { return x.log_softmax(-1, w); }},
    {"logsigmoid", [](const Tensor& x, std::source_location w) { return x.log_sigmoid(w); }},
    {"identity", [](const Tensor& x, std::source_location) { return x; }},
};
#undef LUMINAL_PLAIN

} // namespace

Linear::Linear(const Scope& scope, int64_t in, int64_t out, const LinearOptions& options,
               std::source_location where)
    : Module(scope), options_(options) {
  need_sizes("Linear", {{"in", in}, {"out", out}}, where);
  const std::vector<int64_t> shape =
      options.transposed ? std::vector<int64_t>{in, out} : std::vector<int64_t>{out, in};
  weight_ = scope.parameter("weight", shape, uniform_of_fan(double(in)), where);
  if (options.bias) bias_ = scope.parameter("bias", {out}, uniform_of_fan(double(in)), where);
}
Tensor Linear::operator()(const Tensor& x, std::source_location where) const {
  if (options_.transposed) return luminal::linear(x, weight_.value().t(), bias_, where);
  return weight_.linear(x, bias_, where);
}

Bilinear::Bilinear(const Scope& scope, int64_t m, int64_t n, int64_t out, bool bias,
                   std::source_location where)
    : Module(scope) {
  need_sizes("Bilinear", {{"m", m}, {"n", n}, {"out", out}}, where);
  weight_ = scope.parameter("weight", {out, m, n}, uniform_of_fan(double(m)), where);
  if (bias) bias_ = scope.parameter("bias", {out}, uniform_of_fan(double(m)), where);
}
Tensor Bilinear::operator()(const Tensor& a, const Tensor& b, std::source_location where) const {
  return bilinear(a, b, weight_, bias_, where);
}

Embedding::Embedding(const Scope& scope, int64_t rows, int64_t width, const EmbeddingOptions& options,
                     std::source_location where)
    : Module(scope), options_(options) {
  need_sizes("Embedding", {{"rows", rows}, {"width", width}}, where);
  const auto padding = options.padding_index;
  if (padding && (*padding < 0 || *padding >= rows))
    throw Error("Embedding", fmt::format("padding index {} of {} rows", *padding, rows), where);
  const bool turned = options.transposed;
  Init initial = [=, normal = init::normal()](const std::vector<int64_t>& shape, uint64_t seed) {
    std::vector<float> values = normal(shape, seed);
    for (int64_t i = 0; padding && i < width; i++)
      values[size_t(turned ? i * rows + *padding : *padding * width + i)] = 0;
    return values;
  };
  const std::vector<int64_t> shape =
      turned ? std::vector<int64_t>{width, rows} : std::vector<int64_t>{rows, width};
  weight_ = scope.parameter("weight", shape, std::move(initial), where);
}
Tensor Embedding::operator()(const Tensor& ids, std::source_location where) const {
  const Tensor table = weight_;
  return embedding(options_.transposed ? table.t() : table, ids, options_.padding_index, where);
}
Tensor Embedding::logits(const Tensor& x, std::source_location where) const {
  if (options_.transposed) return luminal::linear(x, weight_.value().t(), {}, where);
  return weight_.linear(x, {}, where);
}

Tensor Dropout::operator()(const Tensor& x, std::source_location where) const {
  if (!(p_ >= 0 && p_ <= 1))
    throw Error("Dropout", fmt::format("p = {}: a probability is expected", p_), where);
  if (!scope().training() || p_ == 0) return x;
  return dropout(scope().random_key(where), x, p_, where);
}

Activation::Activation(std::string_view name, std::source_location where) {
  const auto at = std::ranges::find(functions, name, &NamedFunction::name);
  if (at == std::end(functions))
    throw Error("Activation", fmt::format("{}: expected one of {}", name, fmt::join(names(), ", ")), where);
  function_ = at->function;
}
std::vector<std::string> Activation::names() {
  std::vector<std::string> all;
  for (const NamedFunction& f : functions) all.emplace_back(f.name);
  std::ranges::sort(all);
  return all;
}

PRelu::PRelu(const Scope& scope, int64_t channels, double initial, std::source_location where)
    : Module(scope) {
  need_sizes("PRelu", {{"channels", channels}}, where);
  weight_ = scope.parameter("weight", {channels}, init::constant(initial), where);
}
Tensor PRelu::operator()(const Tensor& x, std::source_location where) const {
  return prelu(x, weight_, where);
}

} // namespace luminal::nn
