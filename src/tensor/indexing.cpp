// tensor/indexing.cpp -- elements at places that data name: gather in its conventions, scatter in
// its conventions.
#include "luminal/indexing.h"
#include "ir/identity.h"
#include "tensor/extents.h"
#include "tensor/views.h"
#include <algorithm>

namespace luminal {

void check_ids(std::string_view op, const Tensor& ids, Where where) {
  if (!is_integer(ids.dtype()))
    throw Error(op, fmt::format("ids must be integers, they are {}", luminal::to_string(ids.dtype())), where);
}

Interval index_interval(Expr extent) {
  const int64_t high = extent.range().high;
  return {0, high == unbounded_high ? unbounded_high : std::max<int64_t>(high - 1, 0)};
}

namespace {

/// Adds a node that reads indices; what is found out of range when it runs names the operation and
/// the user's line.
Tensor add_indexed(std::string_view op, const Tensor& x, Attr attr, std::vector<NodeId> inputs, Where where) {
  return build(op, x.graph(), where, [&](FunctionBuilder& b) {
    NodeId node = b.add(std::move(attr), std::move(inputs), {}, where);
    b.origin(node, fmt::format("{}{}", op, maker_text(*x.graph(), where)));
    return node;
  });
}

void needs_axis(std::string_view op, const Tensor& x, Where where) {
  if (x.rank() == 0) throw Error(op, "a scalar has no axis to be indexed", where);
}

std::vector<int> count_up(int first, int count) {
  std::vector<int> axes;
  for (int d = 0; d < count; d++) axes.push_back(first + d);
  return axes;
}

std::string shape_of(const Tensor& x) { return text_of(type_of(x).shape); }

/// The index of torch's convention: as many axes as x, and except along `axis` no longer than x
/// (or, in a scatter, than the values).
void check_index(std::string_view op, const Tensor& x, int axis, const Tensor& index, bool along_too,
                 Where where) {
  check_ids(op, index, where);
  const Shape &of_x = type_of(x).shape, &of_index = type_of(index).shape;
  bool fits = of_x.size() == of_index.size();
  std::vector<Expr> open; // what the sizes of dimensions decide
  for (size_t d = 0; fits && d < of_x.size(); d++) {
    if (int(d) == axis && !along_too) continue;
    const Expr shorter = le(of_index[d], of_x[d]);
    const Truth truth = prove(shorter);
    fits = truth != Truth::no;
    if (truth == Truth::unknown) open.push_back(shorter);
  }
  if (!fits)
    throw Error(op,
                fmt::format("an index of shape {} does not fit {}: it has the same axes, none longer{}",
                            text_of(of_index), text_of(of_x),
                            along_too ? "" : fmt::format(" except axis {}", axis)),
                where);
  for (const Expr condition : open) assume(*x.graph(), condition, on_axis(op, x, axis), where);
}

/// The values of a scatter in the type of what they go into.
Tensor values_for(std::string_view op, const Tensor& x, const Tensor& values, Where where) {
  if (values.dtype() == x.dtype()) return values;
  if (promote(values.dtype(), x.dtype()) != x.dtype())
    throw Error(op,
                fmt::format("values of type {} do not go into {} without loss: cast them",
                            luminal::to_string(values.dtype()), luminal::to_string(x.dtype())),
                where);
  return values.cast(x.dtype(), where);
}

std::optional<Op> combining(ScatterOp how, DType type) {
  const bool truth = type == DType::boolean;
  switch (how) {
  case ScatterOp::set: break;
  case ScatterOp::add: return truth ? Op::bit_or : Op::add;
  case ScatterOp::mul: return truth ? Op::bit_and : Op::mul;
  case ScatterOp::min: return truth ? Op::bit_and : Op::min;
  case ScatterOp::max: return truth ? Op::bit_or : Op::max;
  }
  return std::nullopt;
}

/// x with `values` written or combined at `map`, whose holes are read from `ids` at the axes
/// `hole_axes`.
Tensor scatter_at(std::string_view op, const Tensor& x, const Tensor& values, std::vector<Expr> map,
                  const std::vector<Tensor>& ids, const std::vector<int>& hole_axes, ScatterOp how,
                  Where where) {
  if (is_empty(type_of(values).shape)) return x;
  ScatterAttr scatter;
  scatter.map = std::move(map);
  scatter.op = combining(how, x.dtype());
  std::vector<NodeId> inputs{node_id(x), node_id(values)};
  for (size_t h = 0; h < ids.size(); h++) {
    scatter.holes.push_back({.input = int(inputs.size()),
                             .axes = hole_axes,
                             .range = index_interval(type_of(x).shape[h]),
                             .policy = OutOfRange::error});
    inputs.push_back(node_id(ids[h]));
  }
  return add_indexed(op, x, scatter, std::move(inputs), where);
}

/// The same with one hole for one axis.
Tensor scatter_axis(std::string_view op, const Tensor& x, int axis, const Tensor& ids,
                    const std::vector<int>& hole_axes, const Tensor& values, ScatterOp how, Where where) {
  if (is_empty(type_of(values).shape)) return x;
  const Shape target = type_of(x).shape;
  ScatterAttr scatter;
  scatter.map = identity_map(type_of(values).shape);
  const Interval range = index_interval(target[size_t(axis)]);
  scatter.map[size_t(axis)] = hole_symbol(0, range);
  scatter.op = combining(how, x.dtype());
  scatter.holes.push_back({.input = 2, .axes = hole_axes, .range = range, .policy = OutOfRange::error});
  return add_indexed(op, x, scatter, {node_id(x), node_id(values), node_id(ids)}, where);
}

Tensor number_like(std::string_view op, const Tensor& x, double value, const Shape& shape, Where where) {
  return number_of(op, x.graph(), x.dtype(), value, shape, where);
}

/// Ids of shape [n] and values of shape x with n along `axis`.
Tensor values_of_rows(std::string_view op, const Tensor& x, int axis, const Tensor& ids, const Tensor& values,
                      Where where) {
  graph_of(op, {&x, &ids, &values}, where);
  check_ids(op, ids, where);
  Shape wanted = type_of(x).shape;
  if (ids.rank() == 1) wanted[size_t(axis)] = type_of(ids).shape[0];
  const Shape have = type_of(values).shape;
  bool fits = ids.rank() == 1 && have.size() == wanted.size();
  for (size_t d = 0; fits && d < have.size(); d++) fits = equal_extents(have[d], wanted[d]);
  if (!fits)
    throw Error(
        op,
        fmt::format("ids {} and values {} do not fit axis {} of {}: ids have one axis, values as many "
                    "entries along axis {}",
                    shape_of(ids), text_of(have), axis, shape_of(x), axis),
        where);
  return values_for(op, x, values, where);
}

} // namespace

Tensor gather_axis(std::string_view op, const Tensor& x, int axis, const Tensor& ids, OutOfRange policy,
                   double fill, Where where) {
  const Shape table = type_of(x).shape, rows = type_of(ids).shape;
  check_ids(op, ids, where);
  const Interval range = index_interval(table[size_t(axis)]);
  ViewAttr view;
  view.fill = fill;
  view.shape.assign(table.begin(), table.begin() + axis);
  view.shape.insert(view.shape.end(), rows.begin(), rows.end());
  view.shape.insert(view.shape.end(), table.begin() + axis + 1, table.end());
  for (int d = 0; d < int(table.size()); d++) {
    const int at = d < axis ? d : d + int(rows.size()) - 1;
    view.map.push_back(d == axis ? hole_symbol(0, range) : axis_symbol(at, table[size_t(d)]));
  }
  view.holes.push_back(
      {.input = 1, .axes = count_up(axis, int(rows.size())), .range = range, .policy = policy});
  return add_indexed(op, x, view, {node_id(x), node_id(ids)}, where);
}

Tensor Tensor::gather(const Tensor& ids, Where where) const {
  graph_of("gather", {this, &ids}, where);
  if (rank() == 0) throw Error("gather", "a scalar has no rows", where);
  return gather_axis("gather", *this, 0, ids, OutOfRange::error, 0, where);
}

Tensor Tensor::index_select(int axis, const Tensor& ids, Where where) const {
  graph_of("index_select", {this, &ids}, where);
  needs_axis("index_select", *this, where);
  axis = axis_of("index_select", axis, rank(), where);
  return gather_axis("index_select", *this, axis, ids, OutOfRange::error, 0, where);
}

Tensor Tensor::gather(int axis, const Tensor& index, Where where) const {
  graph_of("gather", {this, &index}, where);
  needs_axis("gather", *this, where);
  axis = axis_of("gather", axis, rank(), where);
  check_index("gather", *this, axis, index, false, where);
  const Interval range = index_interval(type_of(*this).shape[size_t(axis)]);
  ViewAttr view;
  view.shape = type_of(index).shape;
  view.map = identity_map(view.shape);
  view.map[size_t(axis)] = hole_symbol(0, range);
  view.holes.push_back(
      {.input = 1, .axes = count_up(0, rank()), .range = range, .policy = OutOfRange::error});
  return add_indexed("gather", *this, view, {node_id(*this), node_id(index)}, where);
}

Tensor Tensor::take_along(const Tensor& index, int axis, Where where) const {
  graph_of("take_along", {this, &index}, where);
  needs_axis("take_along", *this, where);
  axis = axis_of("take_along", axis, rank(), where);
  if (index.rank() != rank())
    throw Error("take_along",
                fmt::format("an index of shape {} does not fit {}: it has as many axes", shape_of(index),
                            shape_of(*this)),
                where);
  Shape of_x = type_of(*this).shape, of_index = type_of(index).shape;
  const Expr rows = of_x[size_t(axis)], picked = of_index[size_t(axis)];
  of_x[size_t(axis)] = of_index[size_t(axis)] = 1;
  Shape common = broadcast_shape("take_along", of_x, of_index, where);
  common[size_t(axis)] = rows;
  Tensor x = broadcast_to("take_along", *this, common, where);
  common[size_t(axis)] = picked;
  return x.gather(axis, broadcast_to("take_along", index, common, where), where);
}

Tensor embedding(const Tensor& table, const Tensor& ids, std::optional<int64_t> padding_idx, Where where) {
  graph_of("embedding", {&table, &ids}, where);
  if (table.rank() != 2)
    throw Error("embedding", fmt::format("the table is {}, expected [rows, width]", shape_of(table)), where);
  const Expr rows = type_of(table).shape[0];
  if (padding_idx && (prove(ge(rows, std::max(*padding_idx + 1, -*padding_idx))) != Truth::yes))
    throw Error("embedding", fmt::format("padding_idx {} is not a row of {}", *padding_idx, shape_of(table)),
                where);
  return gather_axis("embedding", table, 0, ids, OutOfRange::error, 0, where);
}

static Tensor elements_named(std::string_view op, const Tensor& x, const std::vector<Tensor>& ids,
                             Where where) {
  graph_of(op, {&x}, where);
  const Shape from = type_of(x).shape;
  if (ids.empty() || ids.size() > from.size())
    throw Error(op, fmt::format("{} index tensors for {}", ids.size(), text_of(from)), where);
  Shape common;
  for (const Tensor& i : ids) {
    graph_of(op, {&x, &i}, where);
    check_ids(op, i, where);
    common = broadcast_shape(op, common, type_of(i).shape, where);
  }
  ViewAttr view;
  view.shape = common;
  view.shape.insert(view.shape.end(), from.begin() + long(ids.size()), from.end());
  std::vector<NodeId> inputs{node_id(x)};
  for (size_t d = 0; d < from.size(); d++) {
    if (d >= ids.size()) {
      view.map.push_back(axis_symbol(int(common.size() + d - ids.size()), from[d]));
      continue;
    }
    const Interval range = index_interval(from[d]);
    view.map.push_back(hole_symbol(int(d), range));
    view.holes.push_back({.input = int(d) + 1,
                          .axes = count_up(0, int(common.size())),
                          .range = range,
                          .policy = OutOfRange::error});
    inputs.push_back(node_id(broadcast_to(op, ids[d], common, where)));
  }
  return add_indexed(op, x, view, std::move(inputs), where);
}

Tensor index_get(const Tensor& x, const std::vector<Tensor>& ids, Where where) {
  return elements_named("index_get", x, ids, where);
}

namespace {
/// The columns of an index [.., k].
std::vector<Tensor> columns_of(std::string_view op, const Tensor& x, const Tensor& index, Where where) {
  graph_of(op, {&x, &index}, where);
  const Shape shape = type_of(index).shape;
  if (shape.empty() || !shape.back().is_constant() || shape.back().value() < 1 ||
      shape.back().value() > x.rank())
    throw Error(op,
                fmt::format("the last axis of the index {} holds 1 to {} coordinates of {}", text_of(shape),
                            x.rank(), shape_of(x)),
                where);
  return index.unbind(-1, where);
}
} // namespace

Tensor gather_nd(const Tensor& x, const Tensor& index, Where where) {
  return elements_named("gather_nd", x, columns_of("gather_nd", x, index, where), where);
}

static Tensor put_elements(std::string_view op, const Tensor& x, const std::vector<Tensor>& ids,
                           Operand values, ScatterOp how, Where where) {
  graph_of(op, {&x}, where);
  const Shape target = type_of(x).shape;
  if (ids.empty() || ids.size() > target.size())
    throw Error(op, fmt::format("{} index tensors for {}", ids.size(), text_of(target)), where);
  Shape space;
  for (const Tensor& i : ids) {
    graph_of(op, {&x, &i}, where);
    check_ids(op, i, where);
    space = broadcast_shape(op, space, type_of(i).shape, where);
  }
  const Shape common = space;
  space.insert(space.end(), target.begin() + long(ids.size()), target.end());
  Tensor written = values.tensor ? values_for(op, x, *values.tensor, where)
                                 : number_like(op, x, values.number, space, where);
  graph_of(op, {&x, &written}, where);
  written = broadcast_to(op, written, space, where);
  std::vector<Expr> map;
  std::vector<Tensor> wide;
  for (size_t d = 0; d < target.size(); d++) {
    map.push_back(d < ids.size() ? hole_symbol(int(d), index_interval(target[d]))
                                 : axis_symbol(int(common.size() + d - ids.size()), target[d]));
    if (d < ids.size()) wide.push_back(broadcast_to(op, ids[d], common, where));
  }
  return scatter_at(op, x, written, map, wide, count_up(0, int(common.size())), how, where);
}

Tensor index_put(const Tensor& x, const std::vector<Tensor>& ids, Operand values, ScatterOp how,
                 Where where) {
  return put_elements("index_put", x, ids, values, how, where);
}

Tensor scatter_nd(const Tensor& x, const Tensor& index, const Tensor& updates, ScatterOp how, Where where) {
  return put_elements("scatter_nd", x, columns_of("scatter_nd", x, index, where), Operand(updates, where),
                      how, where);
}

Tensor Tensor::scatter(int axis, const Tensor& index, Operand values, ScatterOp how, Where where) const {
  graph_of("scatter", {this, &index}, where);
  needs_axis("scatter", *this, where);
  axis = axis_of("scatter", axis, rank(), where);
  check_index("scatter", *this, axis, index, false, where);
  const Shape space = type_of(index).shape;
  Tensor written;
  if (values.tensor) {
    graph_of("scatter", {this, values.tensor}, where);
    check_index("scatter", *values.tensor, axis, index, true, where);
    written = values_for("scatter", *this, *values.tensor, where);
    if (!(type_of(written).shape == space)) // more values than indices: the first ones
      written = view_of("scatter", written, space, identity_map(space), where);
  } else {
    written = number_like("scatter", *this, values.number, space, where);
  }
  return scatter_axis("scatter", *this, axis, index, count_up(0, rank()), written, how, where);
}

Tensor scatter_reduce(const Tensor& x, int axis, const Tensor& index, const Tensor& values, ScatterOp how,
                      bool include_self, Where where) {
  if (include_self || how == ScatterOp::set)
    return x.scatter(axis, index, Operand(values, where), how, where);
  graph_of("scatter_reduce", {&x, &index, &values}, where);
  Tensor none = build("scatter_reduce", x.graph(), where, [&](FunctionBuilder& b) {
    return b.view(b.constant(DType::boolean, 0), type_of(x).shape, {});
  });
  Tensor touched = none.scatter(axis, index, Operand(1, where), ScatterOp::set, where);
  const Op op = *combining(how, x.dtype());
  Tensor neutral = build("scatter_reduce", x.graph(), where, [&](FunctionBuilder& b) {
    if (is_float(x.dtype())) return b.constant(x.dtype(), identity_f64(op, x.dtype()));
    return integer(b, x.dtype(), identity_i64(op, x.dtype()), {});
  });
  Tensor base = elementwise(Op::select, "scatter_reduce",
                            {Operand(touched, where), Operand(neutral, where), Operand(x, where)}, where);
  return base.scatter(axis, index, Operand(values, where), how, where);
}

Tensor index_add(const Tensor& x, int axis, const Tensor& ids, const Tensor& values, double alpha,
                 Where where) {
  graph_of("index_add", {&x, &ids, &values}, where);
  needs_axis("index_add", x, where);
  axis = axis_of("index_add", axis, x.rank(), where);
  Tensor scaled =
      alpha == 1 ? values
                 : elementwise(Op::mul, "index_add", {Operand(values, where), Operand(alpha, where)}, where);
  return scatter_axis("index_add", x, axis, ids, {axis},
                      values_of_rows("index_add", x, axis, ids, scaled, where), ScatterOp::add, where);
}
Tensor index_copy(const Tensor& x, int axis, const Tensor& ids, const Tensor& values, Where where) {
  graph_of("index_copy", {&x, &ids, &values}, where);
  needs_axis("index_copy", x, where);
  axis = axis_of("index_copy", axis, x.rank(), where);
  return scatter_axis("index_copy", x, axis, ids, {axis},
                      values_of_rows("index_copy", x, axis, ids, values, where), ScatterOp::set, where);
}
Tensor index_fill(const Tensor& x, int axis, const Tensor& ids, double value, Where where) {
  graph_of("index_fill", {&x, &ids}, where);
  needs_axis("index_fill", x, where);
  axis = axis_of("index_fill", axis, x.rank(), where);
  Shape space = type_of(x).shape;
  if (ids.rank() == 1) space[size_t(axis)] = type_of(ids).shape[0];
  Tensor values = number_like("index_fill", x, value, space, where);
  return scatter_axis("index_fill", x, axis, ids, {axis},
                      values_of_rows("index_fill", x, axis, ids, values, where), ScatterOp::set, where);
}

Tensor Tensor::operator[](Operand index) const {
  graph_of("select", {this}, index.where);
  if (index.tensor) return gather(*index.tensor, index.where);
  if (index.real)
    throw Error("index", fmt::format("an index is a whole number or a tensor of them, not {}", index.number),
                index.where);
  return select(0, index.whole, index.where);
}

Tensor Tensor::update(int axis, Dim start, const Tensor& values, Where where) const {
  auto graph = graph_of("update", {this, &values}, where);
  axis = axis_of("update", axis, rank(), where);
  const Shape base = type_of(*this).shape, part = type_of(values).shape;
  bool fits = base.size() == part.size();
  for (size_t d = 0; fits && d < base.size(); d++) fits = int(d) == axis || equal_extents(base[d], part[d]);
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
  assume(*graph, fits_in, on_axis("update", *this, axis), where);
  Tensor cast_values = values.cast(dtype(), where);
  return build("update", graph, where, [&](FunctionBuilder& b) {
    ScatterAttr scatter;
    scatter.unique = true;
    scatter.map = identity_map(part);
    scatter.map[size_t(axis)] = to_expr(start) + scatter.map[size_t(axis)];
    return b.add(scatter, {node_id(*this), node_id(cast_values)}, {}, where);
  });
}

} // namespace luminal
