// models/onnx/ops_fused.cpp -- operators that ONNX Runtime's optimiser makes of several (com.microsoft), as
// files that it saved have them.
#include "luminal/nn_functions.h"
#include "models/onnx/operators.h"
#include <fmt/format.h>

namespace luminal::onnx::ops {
namespace {

Tensor first_result(Node& n) { return n.scope().values.at(n.data().outputs.at(0)).tensor; }

/// The activation that a node names, with its numbers.
Tensor activated(Node& n, const Tensor& x, std::optional<double> alpha, std::optional<double> beta) {
  const std::string name =
      n.one_of("activation", "",
               {"", "Relu", "Tanh", "Sigmoid", "LeakyRelu", "Clip", "HardSigmoid", "Gelu", "QuickGelu"});
  if (name == "Relu") return x.relu();
  if (name == "Tanh") return x.tanh();
  if (name == "Sigmoid") return x.sigmoid();
  if (name == "LeakyRelu") return x.leaky_relu(alpha.value_or(0.01));
  if (name == "HardSigmoid") return clip(x * alpha.value_or(0.2) + beta.value_or(0.5), 0, 1);
  if (name == "Gelu") return x.gelu();
  if (name == "QuickGelu") return x * (x * alpha.value_or(1.702)).sigmoid();
  if (name == "Clip") {
    if (!alpha || !beta) n.refuse("clips, and the limits are not there");
    return clip(x, *alpha, *beta);
  }
  return x;
}

/// input + skip + bias, which is a result of its own; the others of the mean of squares or of deviations.
void skip_normalised(Node& n, size_t bias, bool centred) {
  const Tensor given = n.in(0);
  Tensor sum = given + n.in(1);
  if (n.has(bias)) sum = sum + n.in(bias);
  const Tensor x = sum.cast(DType::f32), mean = x.mean(-1, true), away = centred ? x - mean : x;
  const Tensor inverse = (away.square().mean(-1, true) + n.number("epsilon", double(1e-12F))).sqrt().recip();
  Tensor y = away * inverse * n.in(2).cast(DType::f32);
  if (centred && n.has(3)) y = y + n.in(3).cast(DType::f32);
  n.out(0, y.cast(given.dtype()));
  if (n.wants(1)) n.out(1, mean);
  if (n.wants(2)) n.out(2, inverse);
  if (n.wants(3)) n.out(3, sum);
}

} // namespace

void BiasGelu(Node& n) { n.out((n.in(0) + n.in(1)).gelu()); }
void FastGelu(Node& n) { n.out((n.has(1) ? n.in(0) + n.in(1) : n.in(0)).gelu_tanh()); }
void QuickGelu(Node& n) {
  const Tensor x = n.in(0);
  n.out((x * (x * n.number("alpha", double(1.702F))).sigmoid()).cast(x.dtype()));
}
void FusedConv(Node& n) { // behind the bias a tensor that is added
  Conv(n);
  Tensor y = first_result(n);
  if (n.has(3)) y = y + n.in(3);
  const auto numbers = n.reals("activation_params");
  const auto number = [&](size_t i) {
    return i < numbers.size() ? std::optional(numbers[i]) : std::optional<double>();
  };
  n.out(activated(n, y, number(0), number(1)).cast(n.in(0).dtype()));
}
void FusedGemm(Node& n) {
  Gemm(n);
  const auto number = [&](const char* name) {
    return n.attribute(name) ? std::optional(n.number(name)) : std::optional<double>();
  };
  n.out(activated(n, first_result(n), number("activation_alpha"), number("activation_beta"))
            .cast(n.in(0).dtype()));
}
void FusedMatMul(Node& n) {
  if (n.integer("transBatchA", 0) || n.integer("transBatchB", 0))
    n.refuse("moves batch axes behind the rows (transBatchA, transBatchB), which is not supported");
  const auto operand = [&](size_t i, const char* transposed) {
    const Tensor x = n.in(i);
    return n.integer(transposed, 0) && x.rank() > 1 ? x.transpose(-2, -1) : x;
  };
  const Tensor product = operand(0, "transA").matmul(operand(1, "transB"));
  n.out((product * n.number("alpha", 1)).cast(n.in(0).dtype()));
}
void SimplifiedLayerNormalization(Node& n) { RMSNormalization(n); }
void SkipLayerNormalization(Node& n) { skip_normalised(n, 4, true); }
void SkipSimplifiedLayerNormalization(Node& n) { skip_normalised(n, 3, false); }

} // namespace luminal::onnx::ops
