// models/onnx/ops_reduce.cpp -- reductions, softmax and its kin, running sums, order.
#include "luminal/random.h"
#include "models/onnx/integers.h"
#include "models/onnx/operators.h"
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace luminal::onnx::ops {
namespace {

using Reduction = Tensor (*)(const Tensor& x, const Axes& axes, bool keep);
void reduce(Node& n, int64_t axes_input_since, Reduction how) {
  const Tensor x = n.in(0);
  std::vector<int64_t> axes = n.integers("axes");
  if (n.opset() >= axes_input_since) axes = n.has(1) ? n.ints(1) : std::vector<int64_t>();
  const bool keep = n.integer("keepdims", 1) != 0;
  std::vector<int> list;
  for (const int64_t axis : axes) list.push_back(axis_in(n, axis, x.rank()));
  if (list.empty() && n.integer("noop_with_empty_axes", 0) != 0) {
    // No axis is reduced: each element is a reduction of itself.
    const Tensor y = how(x.unsqueeze(x.rank()), Axes(x.rank()), false);
    return n.out(0, y.cast(x.dtype()), n.type(0));
  }
  if (list.empty()) {
    list.resize(size_t(x.rank()));
    std::iota(list.begin(), list.end(), 0);
  }
  if (list.empty()) return n.out(0, how(x.unsqueeze(0), Axes(0), false).cast(x.dtype()), n.type(0));
  n.out(0, how(x, Axes(list), keep).cast(x.dtype()), n.type(0));
}
Tensor wide(const Tensor& x) { return is_float_type(x.dtype()) ? x : x.cast(DType::f64); }

/// Until opset 12 these flattened everything from the axis on into one.
Tensor over_axis(Node& n, const Tensor& x, Tensor (*how)(const Tensor&, int), int64_t opset) {
  if (opset >= 13) return how(x, axis_in(n, n.integer("axis", -1), x.rank()));
  const int axis = axis_in(n, n.integer("axis", 1), x.rank());
  Dim outer = 1, inner = 1;
  for (int d = 0; d < x.rank(); d++) (d < axis ? outer : inner) = (d < axis ? outer : inner) * x.dim(d);
  return how(x.reshape({outer, inner}), 1).reshape(x.shape());
}

void arg(Node& n, bool largest) {
  const Tensor x = n.in(0);
  const int axis = axis_in(n, n.integer("axis", 0), x.rank());
  const bool keep = n.integer("keepdims", 1) != 0;
  if (n.integer("select_last_index", 0) == 0)
    return n.out(largest ? x.argmax(axis, keep) : x.argmin(axis, keep));
  const Tensor back = x.flip({axis});
  n.out(x.dim(axis) - 1 - (largest ? back.argmax(axis, keep) : back.argmin(axis, keep)));
}

Tensor running(Node& n, Tensor (*how)(const Tensor&, int, ScanOptions, std::source_location)) {
  const Tensor x = n.in(0);
  const int axis = axis_in(n, n.integer_at(1), x.rank());
  return how(x, axis, {n.integer("exclusive", 0) != 0, n.integer("reverse", 0) != 0},
             std::source_location::current())
      .cast(x.dtype());
}

} // namespace

void ReduceSum(Node& n) {
  reduce(n, 13, [](const Tensor& x, const Axes& a, bool k) { return x.sum(a, k); });
}
void ReduceMean(Node& n) {
  reduce(n, 18, [](const Tensor& x, const Axes& a, bool k) { return x.mean(a, k); });
}
void ReduceMax(Node& n) {
  reduce(n, 18, [](const Tensor& x, const Axes& a, bool k) { return x.max(a, k); });
}
void ReduceMin(Node& n) {
  reduce(n, 18, [](const Tensor& x, const Axes& a, bool k) { return x.min(a, k); });
}
void ReduceProd(Node& n) {
  reduce(n, 18, [](const Tensor& x, const Axes& a, bool k) { return x.prod(a, k); });
}
void ReduceL1(Node& n) {
  reduce(n, 18, [](const Tensor& x, const Axes& a, bool k) { return x.abs().sum(a, k); });
}
void ReduceL2(Node& n) {
  reduce(n, 18, [](const Tensor& x, const Axes& a, bool k) { return wide(x).square().sum(a, k).sqrt(); });
}
void ReduceSumSquare(Node& n) {
  reduce(n, 18, [](const Tensor& x, const Axes& a, bool k) { return x.square().sum(a, k); });
}
void ReduceLogSum(Node& n) {
  reduce(n, 18, [](const Tensor& x, const Axes& a, bool k) { return wide(x).sum(a, k).log(); });
}
void ReduceLogSumExp(Node& n) {
  reduce(n, 18, [](const Tensor& x, const Axes& a, bool k) { return wide(x).logsumexp(a, k); });
}
void ArgMax(Node& n) { arg(n, true); }
void ArgMin(Node& n) { arg(n, false); }
void Softmax(Node& n) {
  n.out(over_axis(n, n.in(0), [](const Tensor& x, int axis) { return x.softmax(axis); }, n.opset()));
}
void QLinearSoftmax(Node& n) { // its node says of which opset its axis is
  const auto softmax = [](const Tensor& x, int axis) { return x.softmax(axis); };
  out_quantised(n, over_axis(n, dequantised(n, 0), softmax, n.integer("opset")), 3);
}
void LogSoftmax(Node& n) {
  n.out(over_axis(n, n.in(0), [](const Tensor& x, int axis) { return x.log_softmax(axis); }, n.opset()));
}
void Hardmax(Node& n) {
  n.out(over_axis(
      n, n.in(0),
      [](const Tensor& x, int axis) {
        const Tensor best = x.argmax(axis, true);
        Dims shape(size_t(x.rank()), Dim(1));
        shape[size_t(axis)] = x.dim(axis);
        Graph g(x.graph());
        const Tensor place = g.iota(shape, [&](const Dims& i) { return i[size_t(axis)]; });
        return equal(place, best).cast(x.dtype());
      },
      n.opset()));
}
void CumSum(Node& n) { n.out(running(n, cumsum)); }
void CumProd(Node& n) { n.out(running(n, cumprod)); }
void TopK(Node& n) {
  const Tensor x = n.in(0);
  const int axis = axis_in(n, n.integer("axis", -1), x.rank());
  const bool largest = n.integer("largest", 1) != 0;
  if (n.opset() >= 10)
    if (const auto k = n.known_dims(1); k && k->list.size() == 1 && !k->list[0].is_constant()) {
      const Indexed all = x.sort(axis, largest);
      n.out(0, all.values.narrow(axis, 0, k->list[0]));
      n.out(1, all.indices.narrow(axis, 0, k->list[0]));
      return;
    }
  const int64_t k = n.opset() < 10 ? n.integer("k") : n.integer_at(1);
  const Indexed top = x.topk(k, axis, largest);
  n.out(0, top.values);
  n.out(1, top.indices);
}
void LpNormalization(Node& n) {
  const Tensor x = n.in(0);
  const int axis = axis_in(n, n.integer("axis", -1), x.rank());
  const Tensor norm = n.integer("p", 2) == 1 ? x.abs().sum(axis, true) : x.square().sum(axis, true).sqrt();
  n.out(select(equal(norm, 0), zeros_like(x), x / norm).cast(x.dtype()));
}
void MeanVarianceNormalization(Node& n) {
  const Tensor x = n.in(0);
  std::vector<int> axes;
  for (const int64_t axis : n.integers("axes", {0, 2, 3})) axes.push_back(axis_in(n, axis, x.rank()));
  const Tensor away = x - x.mean(axes, true);
  n.out((away / (away.square().mean(axes, true).sqrt() + 1e-9)).cast(x.dtype()));
}

} // namespace luminal::onnx::ops
