// tensor/movement.cpp -- views: each operation is one quasi-affine index map.
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {
namespace {

std::vector<Expr> identity_map(const Shape& shape) {
  std::vector<Expr> map;
  for (size_t d = 0; d < shape.size(); d++) map.push_back(axis_symbol(int(d), shape[d]));
  return map;
}

/// What is not proved for all dimensions is checked before each step.
void assume(GraphState& graph, Expr condition) {
  auto& known = graph.module.assumptions;
  if (prove(condition) != Truth::yes && std::find(known.begin(), known.end(), condition) == known.end())
    known.push_back(condition);
}

Expr product_of(const Shape& shape) {
  Expr n = 1;
  for (Expr e : shape) n *= e;
  return n;
}

} // namespace

Tensor Tensor::permute(std::vector<int> order, Where where) const {
  auto graph = graph_of("permute", {this}, where);
  if (int(order.size()) != rank())
    throw Error("permute", fmt::format("{} axes are named, the tensor has {}", order.size(), rank()), where);
  std::vector<bool> seen(order.size());
  for (int& axis : order) {
    axis = axis_of("permute", axis, rank(), where);
    if (seen[size_t(axis)]) throw Error("permute", fmt::format("axis {} is named twice", axis), where);
    seen[size_t(axis)] = true;
  }
  return build("permute", graph, where, [&](FunctionBuilder& b) { return b.permute(id_, order); });
}

Tensor Tensor::transpose(int a, int b, Where where) const {
  graph_of("transpose", {this}, where);
  std::vector<int> order;
  for (int d = 0; d < rank(); d++) order.push_back(d);
  std::swap(order[size_t(axis_of("transpose", a, rank(), where))],
            order[size_t(axis_of("transpose", b, rank(), where))]);
  return permute(order, where);
}

Tensor Tensor::reshape(Dims dims, Where where) const {
  auto graph = graph_of("reshape", {this}, where);
  const Shape from = type_of(*this).shape;
  Shape to = to_shape(dims);
  Expr known = 1;
  int open = -1;
  for (size_t d = 0; d < to.size(); d++) {
    if (!to[d].is_constant(-1))
      known *= to[d];
    else if (open >= 0)
      throw Error("reshape", "only one extent may be -1", where);
    else
      open = int(d);
  }
  if (open >= 0) to[size_t(open)] = floordiv(product_of(from), known);
  if (!proves_equal(product_of(from), product_of(to)))
    throw Error("reshape",
                fmt::format("{} has {} elements, {} has {}", text_of(from),
                            luminal::to_string(product_of(from)), text_of(to),
                            luminal::to_string(product_of(to))),
                where);
  return build("reshape", graph, where, [&](FunctionBuilder& b) { return b.reshape(id_, to); });
}

Tensor Tensor::unsqueeze(int axis, Where where) const {
  graph_of("unsqueeze", {this}, where);
  axis = axis_of("unsqueeze", axis, rank() + 1, where);
  Shape shape = type_of(*this).shape;
  std::vector<Expr> map;
  shape.insert(shape.begin() + axis, Expr(1));
  for (int d = 0; d < int(shape.size()); d++)
    if (d != axis) map.push_back(axis_symbol(d, shape[size_t(d)]));
  return build("unsqueeze", graph_, where, [&](FunctionBuilder& b) { return b.view(id_, shape, map); });
}

Tensor Tensor::squeeze(int axis, Where where) const {
  graph_of("squeeze", {this}, where);
  axis = axis_of("squeeze", axis, rank(), where);
  Shape shape = type_of(*this).shape;
  if (!shape[size_t(axis)].is_constant(1))
    throw Error("squeeze", fmt::format("axis {} of {} is not 1", axis, text_of(shape)), where);
  shape.erase(shape.begin() + axis);
  std::vector<Expr> map = identity_map(shape);
  map.insert(map.begin() + axis, Expr(0));
  return build("squeeze", graph_, where, [&](FunctionBuilder& b) { return b.view(id_, shape, map); });
}

Tensor Tensor::expand(Dims dims, Where where) const {
  graph_of("expand", {this}, where);
  return broadcast_to("expand", *this, to_shape(dims), where);
}

Tensor Tensor::merge_dims(int axis, Where where) const {
  graph_of("merge_dims", {this}, where);
  axis = axis_of("merge_dims", axis, rank() - 1, where);
  Dims dims = shape();
  dims[size_t(axis)] = dims[size_t(axis)] * dims[size_t(axis) + 1];
  dims.erase(dims.begin() + axis + 1);
  return reshape(dims, where);
}

Tensor Tensor::split_dims(int axis, Dim inner, Where where) const {
  graph_of("split_dims", {this}, where);
  axis = axis_of("split_dims", axis, rank(), where);
  Dims dims = shape();
  if (prove(eq(mod(to_expr(dims[size_t(axis)]), to_expr(inner)), 0)) != Truth::yes)
    throw Error("split_dims",
                fmt::format("{} does not divide {} of {}", inner.to_string(), dims[size_t(axis)].to_string(),
                            luminal::to_string(dims)),
                where);
  dims[size_t(axis)] = dims[size_t(axis)] / inner;
  dims.insert(dims.begin() + axis + 1, inner);
  return reshape(dims, where);
}

Tensor Tensor::slice(int axis, Dim start, Dim end, int64_t step, Where where) const {
  auto graph = graph_of("slice", {this}, where);
  axis = axis_of("slice", axis, rank(), where);
  if (step < 1)
    throw Error("slice", fmt::format("the step must be positive, it is {} (see flip)", step), where);
  const Expr extent = type_of(*this).shape[size_t(axis)];
  Expr first = to_expr(start), last = to_expr(end);
  if (first.is_constant() && first.value() < 0) first = extent + first;
  if (last.is_constant() && last.value() < 0) last = extent + last;
  if (prove(le(last, extent)) == Truth::no || prove(le(first, last)) == Truth::no ||
      prove(ge(first, 0)) == Truth::no)
    throw Error("slice",
                fmt::format("{}..{} is outside axis {} of {}", luminal::to_string(first),
                            luminal::to_string(last), axis, text_of(type_of(*this).shape)),
                where);
  for (Expr condition : {le(last, extent), le(first, last), ge(first, 0)}) assume(*graph, condition);
  return build("slice", graph, where, [&](FunctionBuilder& b) {
    return b.slice(id_, axis, first, ceildiv(last - first, step), step);
  });
}

Tensor Tensor::pad(int axis, Dim before, Dim after, double value, Where where) const {
  auto graph = graph_of("pad", {this}, where);
  axis = axis_of("pad", axis, rank(), where);
  if (prove(ge(to_expr(before), 0)) == Truth::no || prove(ge(to_expr(after), 0)) == Truth::no)
    throw Error("pad", "padding is negative (see slice)", where);
  return build("pad", graph, where,
               [&](FunctionBuilder& b) { return b.pad(id_, axis, to_expr(before), to_expr(after), value); });
}

Tensor Tensor::flip(int axis, Where where) const {
  auto graph = graph_of("flip", {this}, where);
  axis = axis_of("flip", axis, rank(), where);
  const Shape shape = type_of(*this).shape;
  std::vector<Expr> map = identity_map(shape);
  map[size_t(axis)] = shape[size_t(axis)] - 1 - map[size_t(axis)];
  return build("flip", graph, where, [&](FunctionBuilder& b) { return b.view(id_, shape, map); });
}

Tensor Tensor::windows(int axis, int64_t size, int64_t stride, int64_t dilation, Where where) const {
  auto graph = graph_of("windows", {this}, where);
  axis = axis_of("windows", axis, rank(), where);
  if (size < 1 || stride < 1 || dilation < 1)
    throw Error("windows",
                fmt::format("size {}, stride {} and dilation {} must be positive", size, stride, dilation),
                where);
  Shape shape = type_of(*this).shape;
  const Expr reach = Expr((size - 1) * dilation + 1), extent = shape[size_t(axis)];
  if (prove(ge(extent, reach)) == Truth::no)
    throw Error("windows",
                fmt::format("a window reaches over {} elements, axis {} has {}", luminal::to_string(reach),
                            axis, luminal::to_string(extent)),
                where);
  shape[size_t(axis)] = floordiv(extent - reach, stride) + 1;
  shape.push_back(size);
  std::vector<Expr> map;
  for (size_t d = 0; d + 1 < shape.size(); d++) {
    Expr i = axis_symbol(int(d), shape[d]);
    map.push_back(int(d) == axis ? i * stride + axis_symbol(int(shape.size()) - 1, size) * dilation : i);
  }
  return build("windows", graph, where, [&](FunctionBuilder& b) { return b.view(id_, shape, map); });
}

Tensor Tensor::gather(const Tensor& ids, Where where) const {
  auto graph = graph_of("gather", {this, &ids}, where);
  const Shape table = type_of(*this).shape, rows = type_of(ids).shape;
  if (table.empty()) throw Error("gather", "a scalar has no rows", where);
  if (!is_integer(ids.dtype()))
    throw Error("gather", fmt::format("ids must be integers, they are {}", luminal::to_string(ids.dtype())),
                where);
  return build("gather", graph, where, [&](FunctionBuilder& b) {
    ViewAttr view;
    view.shape = rows;
    view.shape.insert(view.shape.end(), table.begin() + 1, table.end());
    Interval range{0, table[0].range().high == unbounded_high ? unbounded_high : table[0].range().high - 1};
    view.map.push_back(hole_symbol(0, range));
    for (size_t d = 1; d < table.size(); d++)
      view.map.push_back(axis_symbol(int(rows.size() + d) - 1, table[d]));
    Hole hole{.input = 1, .axes = {}, .range = range, .policy = OutOfRange::error};
    for (size_t d = 0; d < rows.size(); d++) hole.axes.push_back(int(d));
    view.holes.push_back(hole);
    return b.add(view, {id_, ids.id()}, {}, where);
  });
}

Tensor Tensor::update(int axis, Dim start, const Tensor& values, Where where) const {
  auto graph = graph_of("update", {this, &values}, where);
  axis = axis_of("update", axis, rank(), where);
  const Shape base = type_of(*this).shape, part = type_of(values).shape;
  bool fits = base.size() == part.size();
  for (size_t d = 0; fits && d < base.size(); d++) fits = int(d) == axis || proves_equal(base[d], part[d]);
  if (!fits)
    throw Error("update",
                fmt::format("values {} do not fit {} along axis {}", text_of(part), text_of(base), axis),
                where);
  const Expr fits_in = le(to_expr(start) + part[size_t(axis)], base[size_t(axis)]);
  if (prove(fits_in) == Truth::no || prove(ge(to_expr(start), 0)) != Truth::yes)
    throw Error("update",
                fmt::format("{} values from {} on do not fit axis {} of {}",
                            luminal::to_string(part[size_t(axis)]), start.to_string(), axis, text_of(base)),
                where);
  assume(*graph, fits_in);
  Tensor cast_values = values.cast(dtype(), where);
  return build("update", graph, where, [&](FunctionBuilder& b) {
    ScatterAttr scatter;
    scatter.unique = true;
    scatter.map = identity_map(part);
    scatter.map[size_t(axis)] = to_expr(start) + scatter.map[size_t(axis)];
    return b.add(scatter, {id_, cast_values.id()}, {}, where);
  });
}

Tensor concat(const std::vector<Tensor>& parts, int axis, Where where) {
  if (parts.empty()) throw Error("concat", "nothing to join", where);
  Tensor joined = parts[0];
  auto graph = graph_of("concat", {&joined}, where);
  axis = axis_of("concat", axis, joined.rank(), where);
  for (size_t i = 1; i < parts.size(); i++) {
    graph_of("concat", {&joined, &parts[i]}, where);
    const Shape a = type_of(joined).shape, b = type_of(parts[i]).shape;
    bool fits = a.size() == b.size();
    for (size_t d = 0; fits && d < a.size(); d++) fits = int(d) == axis || proves_equal(a[d], b[d]);
    if (!fits)
      throw Error("concat",
                  fmt::format("shapes {} and {} differ outside axis {}", text_of(a), text_of(b), axis),
                  where);
    DType type = promote(joined.dtype(), parts[i].dtype());
    Tensor left = joined.cast(type, where).pad(axis, 0, Dim::from_id(b[size_t(axis)].id()), 0, where);
    Tensor right = parts[i].cast(type, where).pad(axis, Dim::from_id(a[size_t(axis)].id()), 0, 0, where);
    const Shape whole = type_of(left).shape;
    Tensor is_left = build("concat", graph, where, [&](FunctionBuilder& f) {
      return f.iota(whole, lt(axis_symbol(axis, whole[size_t(axis)]), a[size_t(axis)]), DType::boolean);
    });
    joined = elementwise(Op::select, "concat",
                         {Operand(is_left, where), Operand(left, where), Operand(right, where)}, where);
  }
  return joined;
}

} // namespace luminal
