// models/onnx/ops_qlinear.cpp -- quantised operators of ONNX Runtime (com.microsoft): x, its scale and its
// zero point for each operand, then those of the result.
#include "luminal/indexing.h"
#include "luminal/nn_functions.h"
#include "models/onnx/integers.h"
#include "models/onnx/operators.h"
#include <fmt/format.h>
#include <numeric>

namespace luminal::onnx::ops {

void QLinearAdd(Node& n) { out_quantised(n, dequantised(n, 0) + dequantised(n, 3), 6); }
void QLinearMul(Node& n) { out_quantised(n, dequantised(n, 0) * dequantised(n, 3), 6); }
void QLinearSigmoid(Node& n) { out_quantised(n, dequantised(n, 0).sigmoid(), 3); }
void QLinearLeakyRelu(Node& n) { out_quantised(n, dequantised(n, 0).leaky_relu(n.number("alpha", 0.01)), 3); }
void QLinearGlobalAveragePool(Node& n) {
  const Tensor x = dequantised(n, 0);
  const bool last = n.integer("channels_last", 0) != 0;
  if (x.rank() < 3)
    n.refuse(fmt::format("averages over sizes behind batch and channels, its input {} has none",
                         luminal::to_string(x.shape())));
  std::vector<int> sizes(size_t(x.rank() - 2));
  std::iota(sizes.begin(), sizes.end(), last ? 1 : 2);
  out_quantised(n, x.mean(sizes, true), 3);
}
void QLinearConcat(Node& n) { // the result's scale and zero point first
  std::vector<Tensor> parts;
  for (size_t k = 2; k + 1 < n.inputs(); k += 3) parts.push_back(dequantised(n, k));
  if (parts.empty())
    n.refuse("has nothing to join: behind scale and zero point a tensor, its scale and its zero point are "
             "expected");
  out_quantised(n, concat(parts, int(n.integer("axis"))), 0);
}
void QLinearWhere(Node& n) { out_quantised(n, select(n.in(0), dequantised(n, 1), dequantised(n, 4)), 7); }
void QGemm(Node& n) { // a, scale, zero, b, scale, zero, bias in i32, then the result's
  const Tensor b = n.in(3);
  Numbers left = numbers_of(n, 0, 2), right = numbers_of(n, 3, 5);
  if (n.integer("transA", 0)) left.x = left.x.t();
  if (n.integer("transB", 0)) right.x = right.x.t();
  Tensor sums = integer_matmul(left, right);
  if (n.has(6)) sums = sums + n.in(6);
  const Tensor own = n.in(4).cast(DType::f32),
               scale = own.rank() == 1 && own.dim(0) != Dim(1) ? along(own, 1, 2) : own.reshape({});
  const Tensor value =
      sums.cast(DType::f32) * (n.in(1).reshape({}).cast(DType::f32) * scale * n.number("alpha", 1));
  if (!n.has(7)) return n.out(value);
  out_quantised(n, value, 7);
}

} // namespace luminal::onnx::ops
