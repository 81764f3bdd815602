// models/onnx/ops_slice.cpp -- Slice: between known places, or of a known length from a place that is known
// when the model runs.
#include "luminal/terms.h"
#include "models/onnx/operators.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::onnx::ops {
namespace {

bool is_one_integer(const TensorType& type) {
  return !is_float(type.dtype) && std::ranges::all_of(type.shape, [](Expr e) { return e.is_constant(1); });
}

/// What a value of one element moves or repeats, as far as it is one element.
NodeId below_views(const FunctionBuilder& b, NodeId id) {
  for (;;) {
    const auto* view = std::get_if<ViewAttr>(&b[id].attr);
    if (!view || !view->predicate.is_constant(1) || !view->holes.empty() ||
        !is_one_integer(b[b[id].inputs[0]].type()))
      return id;
    id = b[id].inputs[0];
  }
}

std::optional<int64_t> constant_integer(const FunctionBuilder& b, NodeId id) {
  const luminal::Node& node = b[below_views(b, id)];
  const auto* constant = std::get_if<ConstantAttr>(&node.attr);
  if (!constant) return {};
  return load_i64(constant->type.dtype, constant->data->data(), 0);
}

/// An integer as another one plus a number: a counter, and what is cut where it stands.
struct Displaced {
  NodeId from;
  int64_t by = 0;
};
Displaced displaced(const FunctionBuilder& b, NodeId id) {
  Displaced d{below_views(b, id)};
  for (;;) {
    const luminal::Node& node = b[d.from];
    const auto* map = std::get_if<MapAttr>(&node.attr);
    if (!map || (map->op != Op::add && map->op != Op::sub)) return d;
    NodeId next = node.inputs[0];
    auto number = constant_integer(b, node.inputs[1]);
    if (!number && map->op == Op::add) number = constant_integer(b, next), next = node.inputs[1];
    if (!number) return d;
    d = {below_views(b, next), map->op == Op::add ? d.by + *number : d.by - *number};
  }
}

/// Where the end is the start plus a number; undefined elsewhere. A place outside of the axis is an error
/// when the model runs: ONNX would make the result shorter.
Tensor slice_of_known_length(Node& n, const Tensor& x) {
  if (n.has(4) && n.ints(4) != std::vector<int64_t>{1}) return {};
  const std::vector<int64_t> axes = n.has(3) ? n.ints(3) : std::vector<int64_t>{0};
  const Tensor start = n.in(1), end = n.in(2);
  const FunctionBuilder& b = n.graph().state()->builder;
  const NodeId from = node_id(start), to = node_id(end);
  if (axes.size() != 1 || !is_one_integer(b[from].type()) || !is_one_integer(b[to].type())) return {};
  const Displaced first = displaced(b, from), last = displaced(b, to);
  const int64_t length = last.by - first.by;
  if (first.from != last.from || length < 1) return {};
  const Tensor places = start.reshape({1}).cast(DType::i64) + n.graph().arange(length);
  return x.index_select(axis_in(n, axes[0], x.rank()), places);
}

} // namespace

void Slice(Node& n) {
  Tensor x = n.in(0);
  if (n.opset() >= 10 && (!n.known(1) || !n.known(2)))
    if (const Tensor part = slice_of_known_length(n, x); part.defined()) return n.out(0, part, n.type(0));
  Dims starts, ends;
  std::vector<int64_t> axes, steps;
  if (n.opset() < 10) {
    for (const int64_t s : n.integers("starts")) starts.push_back(s);
    for (const int64_t e : n.integers("ends")) ends.push_back(e);
    axes = n.integers("axes");
  } else {
    starts = n.dims(1), ends = n.dims(2);
    if (n.has(3)) axes = n.ints(3);
    if (n.has(4)) steps = n.ints(4);
  }
  if (axes.empty())
    for (size_t i = 0; i < starts.size(); i++) axes.push_back(int64_t(i));
  if (starts.size() != ends.size() || axes.size() != starts.size() ||
      (!steps.empty() && steps.size() != starts.size()))
    n.refuse(fmt::format("has {} starts, {} ends, {} axes and {} steps: as many of each are expected",
                         starts.size(), ends.size(), axes.size(), steps.size()));
  for (size_t i = 0; i < axes.size(); i++) {
    const int axis = axis_in(n, axes[i], x.rank());
    const int64_t step = steps.empty() ? 1 : steps[i];
    const Dim extent = x.dim(axis);
    if (step == 0) n.refuse("has a step of 0");
    if (starts[i].is_constant() && ends[i].is_constant() && extent.is_constant()) {
      // Clamped as ONNX says: a negative step may end before the first element.
      const int64_t size = extent.value();
      const auto place = [&](int64_t at, int64_t low, int64_t high) {
        if (at < 0) at += size;
        return std::clamp(at, low, high);
      };
      const int64_t start = step > 0 ? place(starts[i].value(), 0, size)
                                     : place(starts[i].value(), 0, std::max<int64_t>(size - 1, 0));
      const int64_t end = step > 0 ? place(ends[i].value(), 0, size)
                                   : place(ends[i].value(), -1, std::max<int64_t>(size - 1, -1));
      const int64_t count =
          std::max<int64_t>(0, step > 0 ? (end - start + step - 1) / step : (start - end - step - 1) / -step);
      if (start == 0 && count == size && step == 1) continue;
      Dims shape = x.shape();
      shape[size_t(axis)] = size == 0 ? 0 : count;
      x = terms::view(x, shape, [&](const Dims& at) {
        Dims map = at;
        map[size_t(axis)] = at[size_t(axis)] * Dim(step) + Dim(start);
        return map;
      });
    } else {
      // Numbers are clamped by the slice; an expression that is never before the end of the axis is here.
      const auto clamped = [&](const Dim& at) {
        const bool behind = !at.is_constant() && step > 0;
        if (behind && prove(ge(to_expr(at), to_expr(extent))) == Truth::yes) return extent;
        return behind ? n.importer().cut_at(at, extent) : at;
      };
      const Dim end = clamped(ends[i]);
      const bool to_end = end.is_constant() && end.value() >= int64_t(1) << 30;
      std::vector<luminal::Slice> slices(size_t(axis) + 1);
      slices[size_t(axis)].start = clamped(starts[i]);
      if (!to_end) slices[size_t(axis)].end = end;
      slices[size_t(axis)].step = step;
      x = x.slice(slices);
    }
  }
  n.out(0, x, n.type(0));
}

} // namespace luminal::onnx::ops
