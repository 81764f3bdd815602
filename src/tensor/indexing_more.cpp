// tensor/indexing_more.cpp -- gather and scatter that are made of others, places of triangles,
// parts.
#include "luminal/functions.h"
#include "luminal/indexing.h"
#include "tensor/compose.h"
#include "tensor/views.h"

namespace luminal {

Tensor scatter_mean(const Tensor& x, int axis, const Tensor& index, const Tensor& values, bool include_self,
                    Where where) {
  Tensor sum = scatter_reduce(x, axis, index, values, ScatterOp::add, include_self, where);
  Tensor base = build("scatter_mean", x.graph(), where, [&](FunctionBuilder& b) {
    return b.iota(type_of(x).shape, int64_t(include_self), DType::i64);
  });
  Tensor count = base.scatter(axis, index, Operand(1, where), ScatterOp::add, where);
  count = maximum(count, 1);
  if (!is_float(x.dtype())) return floor_divide(sum, count.cast(x.dtype(), where));
  return (sum / count.cast(x.dtype(), where)).cast(x.dtype(), where);
}

Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source, Where where) {
  constexpr std::string_view op = "masked_scatter";
  graph_of(op, {&x, &mask, &source}, where);
  if (mask.dtype() != DType::boolean)
    throw Error(op, fmt::format("the mask must be bool, it is {}", to_string(mask.dtype())), where);
  if (source.dtype() != x.dtype())
    throw Error(op,
                fmt::format("x is {} and source {}: they must have one type", to_string(x.dtype()),
                            to_string(source.dtype())),
                where);
  const Shape shape = broadcast_shape(op, type_of(x).shape, type_of(mask).shape, where);
  Tensor old = broadcast_to(op, x, shape, where).flatten(0, -1, where),
         chosen = broadcast_to(op, mask, shape, where).flatten(0, -1, where);
  Tensor place = luminal::select(chosen, chosen.cumsum(0, where) - 1, 0);
  if (is_empty(type_of(source).shape)) { // nothing may be chosen: the place 0 is not there
    Tensor none = luminal::select(chosen, place, -1);
    Tensor filled = source.flatten(0, -1, where).pad(0, 1, 0, 0, where);
    return luminal::select(chosen, filled.gather(none + 1, where), old).reshape(to_dims(shape), where);
  }
  return luminal::select(chosen, source.flatten(0, -1, where).gather(place, where), old)
      .reshape(to_dims(shape), where);
}

Tensor take(const Tensor& x, const Tensor& index, Where where) {
  graph_of("take", {&x, &index}, where);
  return x.flatten(0, -1, where).gather(index, where);
}

Tensor select_scatter(const Tensor& x, const Tensor& values, int axis, int64_t index, Where where) {
  graph_of("select_scatter", {&x, &values}, where);
  axis = axis_of("select_scatter", axis, x.rank(), where);
  const Dim extent = x.dim(axis);
  if (index < 0 && extent.is_constant()) index += extent.value();
  return slice_scatter(x, values.unsqueeze(axis, where), axis, index, where);
}
Tensor slice_scatter(const Tensor& x, const Tensor& values, int axis, int64_t start, Where where) {
  constexpr std::string_view op = "slice_scatter";
  graph_of(op, {&x, &values}, where);
  axis = axis_of(op, axis, x.rank(), where);
  if (values.rank() != x.rank())
    throw Error(op,
                fmt::format("values {} must have the axes of x {}", text_of(type_of(values).shape),
                            text_of(type_of(x).shape)),
                where);
  const Dim extent = x.dim(axis), end = Dim(start) + values.dim(axis);
  if (start < 0 || prove(le(to_expr(end), to_expr(extent))) == Truth::no)
    throw Error(op,
                fmt::format("{} elements from {} do not lie in axis {} of {}", values.dim(axis).to_string(),
                            start, axis, text_of(type_of(x).shape)),
                where);
  return concat({x.slice(axis, 0, start, 1, where), values.cast(x.dtype(), where),
                 x.slice(axis, end, extent, 1, where)},
                axis, where);
}

namespace {
Tensor triangle(std::string_view op, Graph& graph, int64_t rows, int64_t columns, int64_t offset, bool lower,
                Where where) {
  if (rows < 0 || columns < 0) throw Error(op, fmt::format("a triangle of {} x {}", rows, columns), where);
  std::vector<int64_t> at[2];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t c = 0; c < columns; c++)
      if (lower ? c - r <= offset : c - r >= offset) at[0].push_back(r), at[1].push_back(c);
  const auto count = int64_t(at[0].size());
  at[0].insert(at[0].end(), at[1].begin(), at[1].end());
  return graph.constant_bytes(std::as_bytes(std::span(at[0])), DType::i64, {2, count}, where);
}
} // namespace
Tensor tril_indices(Graph& graph, int64_t rows, int64_t columns, int64_t offset, Where where) {
  return triangle("tril_indices", graph, rows, columns, offset, true, where);
}
Tensor triu_indices(Graph& graph, int64_t rows, int64_t columns, int64_t offset, Where where) {
  return triangle("triu_indices", graph, rows, columns, offset, false, where);
}

Tensor dstack(const std::vector<Tensor>& parts, Where where) {
  std::vector<Tensor> deep;
  for (const Tensor& part : parts) {
    graph_of("dstack", {&part}, where);
    Tensor t = part;
    if (t.rank() == 0) t = t.unsqueeze(0, where);
    if (t.rank() == 1) t = t.unsqueeze(0, where);
    deep.push_back(t.rank() == 2 ? t.unsqueeze(2, where) : t);
  }
  return concat(deep, 2, where);
}
Tensor column_stack(const std::vector<Tensor>& parts, Where where) {
  std::vector<Tensor> columns;
  for (const Tensor& part : parts) {
    graph_of("column_stack", {&part}, where);
    columns.push_back(part.rank() <= 1 ? part.reshape({-1, 1}, where) : part);
  }
  return concat(columns, 1, where);
}

std::vector<Tensor> tensor_split(const Tensor& x, int64_t parts, int axis, Where where) {
  constexpr std::string_view op = "tensor_split";
  graph_of(op, {&x}, where);
  axis = axis_of(op, axis, x.rank(), where);
  const Dim extent = x.dim(axis);
  if (parts < 1 || !extent.is_constant())
    throw Error(
        op,
        fmt::format(
            "axis {} of {} in {} parts: the axis must have a known size, and there must be at least one part",
            axis, text_of(type_of(x).shape), parts),
        where);
  Dims sizes;
  for (int64_t i = 0; i < parts; i++) sizes.push_back(extent.value() / parts + (i < extent.value() % parts));
  return x.split(sizes, axis, where);
}
namespace {
std::vector<Tensor> equal_parts(std::string_view op, const Tensor& x, int64_t parts, int axis, Where where) {
  graph_of(op, {&x}, where);
  if (x.rank() <= axis || parts < 1 || !x.dim(axis).is_constant() || x.dim(axis).value() % parts != 0)
    throw Error(op,
                fmt::format("axis {} of {} does not fall into {} equal parts", axis,
                            text_of(type_of(x).shape), parts),
                where);
  return x.split(Dims(size_t(parts), x.dim(axis) / parts), axis, where);
}
} // namespace
std::vector<Tensor> hsplit(const Tensor& x, int64_t parts, Where where) {
  graph_of("hsplit", {&x}, where);
  return equal_parts("hsplit", x, parts, x.rank() == 1 ? 0 : 1, where);
}
std::vector<Tensor> vsplit(const Tensor& x, int64_t parts, Where where) {
  if (x.defined() && x.rank() < 2)
    throw Error("vsplit", fmt::format("{} has fewer than two axes", text_of(type_of(x).shape)), where);
  return equal_parts("vsplit", x, parts, 0, where);
}
std::vector<Tensor> dsplit(const Tensor& x, int64_t parts, Where where) {
  return equal_parts("dsplit", x, parts, 2, where);
}

} // namespace luminal
