// tensor/movement.cpp -- order and number of axes: permute, reshape, expand and their kin. Each is
// one quasi-affine index map.
#include "tensor/extents.h"
#include "tensor/views.h"
#include <algorithm>

namespace luminal {

std::vector<Expr> identity_map(const Shape& shape) {
  std::vector<Expr> map;
  for (size_t d = 0; d < shape.size(); d++) map.push_back(axis_symbol(int(d), shape[d]));
  return map;
}

Expr product_of(const Shape& shape) {
  Expr n = 1;
  for (Expr e : shape) n *= e;
  return n;
}

void assume(GraphState& graph, Expr condition, std::string_view what, Where where) {
  if (prove(condition) == Truth::yes) return;
  auto& known = graph.module.assumptions;
  if (std::find(known.begin(), known.end(), condition) == known.end()) known.push_back(condition);
  graph.reasons.try_emplace(condition, fmt::format("{}{}", what, maker_text(graph, where)));
}

std::vector<int> axes_of(std::string_view op, std::vector<int> axes, int rank, Where where) {
  std::vector<bool> seen(size_t(std::max(rank, 0)));
  for (int& axis : axes) {
    axis = axis_of(op, axis, rank, where);
    if (seen[size_t(axis)]) throw Error(op, fmt::format("axis {} is named twice", axis), where);
    seen[size_t(axis)] = true;
  }
  return axes;
}

Tensor view_of(std::string_view op, const Tensor& x, Shape shape, std::vector<Expr> map, Where where,
               Expr predicate, double fill) {
  return build(op, x.graph(), where, [&](FunctionBuilder& b) {
    return b.view(node_id(x), std::move(shape), std::move(map), predicate, fill);
  });
}

bool is_empty(const Shape& shape) {
  return std::any_of(shape.begin(), shape.end(), [](Expr extent) { return extent.is_constant(0); });
}

NodeId integer(FunctionBuilder& b, DType type, int64_t value, const Shape& shape) {
  std::vector<std::byte> bytes(size_t(storage_bytes(type, 1)));
  store_i64(type, bytes.data(), 0, value);
  NodeId scalar = b.constant({type, {}}, bytes);
  return shape.empty() ? scalar : b.view(scalar, shape, {});
}

Tensor number_of(std::string_view op, const std::shared_ptr<GraphState>& graph, DType type, double value,
                 const Shape& shape, Where where) {
  return build(op, graph, where, [&](FunctionBuilder& b) {
    NodeId number = b.constant(type, value);
    return shape.empty() ? number : b.view(number, shape, {});
  });
}

Expr smaller(Expr a, Expr b) {
  return prove(le(a, b)) == Truth::yes ? a : prove(le(b, a)) == Truth::yes ? b : min(a, b);
}
Expr larger(Expr a, Expr b) {
  return prove(ge(a, b)) == Truth::yes ? a : prove(ge(b, a)) == Truth::yes ? b : max(a, b);
}

Tensor Tensor::permute(std::vector<int> order, Where where) const {
  auto graph = graph_of("permute", {this}, where);
  if (int(order.size()) != rank())
    throw Error("permute",
                fmt::format("{} axes are named, {} has {}: name each once", order.size(),
                            text_of(type_of(*this).shape), rank()),
                where);
  order = axes_of("permute", order, rank(), where);
  return build("permute", graph, where, [&](FunctionBuilder& b) { return b.permute(node_id(*this), order); });
}

Tensor Tensor::transpose(int a, int b, Where where) const {
  graph_of("transpose", {this}, where);
  std::vector<int> order;
  for (int d = 0; d < rank(); d++) order.push_back(d);
  std::swap(order[size_t(axis_of("transpose", a, rank(), where))],
            order[size_t(axis_of("transpose", b, rank(), where))]);
  return permute(order, where);
}
Tensor Tensor::swapaxes(int a, int b, Where where) const { return transpose(a, b, where); }

Tensor Tensor::t(Where where) const {
  graph_of("t", {this}, where);
  if (rank() > 2)
    throw Error(
        "t", fmt::format("{} has more than two axes (see transpose, permute)", text_of(type_of(*this).shape)),
        where);
  return rank() < 2 ? *this : permute({1, 0}, where);
}

Tensor Tensor::movedim(std::vector<int> from, std::vector<int> to, Where where) const {
  graph_of("movedim", {this}, where);
  if (from.size() != to.size())
    throw Error("movedim", fmt::format("{} axes are to move to {} places", from.size(), to.size()), where);
  from = axes_of("movedim", from, rank(), where);
  to = axes_of("movedim", to, rank(), where);
  std::vector<int> order(size_t(rank()), -1);
  for (size_t i = 0; i < from.size(); i++) order[size_t(to[i])] = from[i];
  int next = 0;
  for (int& axis : order) {
    if (axis >= 0) continue;
    while (std::find(from.begin(), from.end(), next) != from.end()) next++;
    axis = next++;
  }
  return permute(order, where);
}

Tensor Tensor::reshape(Dims dims, Where where) const {
  auto graph = graph_of("reshape", {this}, where);
  const Shape from = type_of(*this).shape;
  Shape to = to_shape(dims);
  Expr known = 1;
  std::optional<size_t> open;
  for (size_t d = 0; d < to.size(); d++) {
    if (!to[d].is_constant(-1))
      known *= to[d];
    else if (open)
      throw Error("reshape", "only one extent may be -1", where);
    else
      open = d;
  }
  if (open && known.is_constant(0))
    throw Error(
        "reshape",
        fmt::format("{} to {}: beside an extent of 0, -1 could be anything", text_of(from), text_of(to)),
        where);
  if (open) to[*open] = floordiv(product_of(from), known);
  if (!equal_extents(product_of(from), product_of(to)))
    throw Error("reshape",
                fmt::format("{} has {} elements, {} has {}", text_of(from),
                            luminal::to_string(product_of(from)), text_of(to),
                            luminal::to_string(product_of(to))),
                where);
  return build("reshape", graph, where, [&](FunctionBuilder& b) { return b.reshape(node_id(*this), to); });
}

Tensor Tensor::contiguous(Where where) const {
  graph_of("contiguous", {this}, where);
  return build("contiguous", graph_, where,
               [&](FunctionBuilder& b) { return b.add(FenceAttr{}, {node_id(*this)}); });
}

Tensor Tensor::flatten(int first, int last, Where where) const {
  graph_of("flatten", {this}, where);
  if (rank() == 0) return reshape({1}, where);
  first = axis_of("flatten", first, rank(), where);
  last = axis_of("flatten", last, rank(), where);
  if (first > last)
    throw Error("flatten", fmt::format("the first axis {} comes after the last axis {}", first, last), where);
  Dims dims = shape(), merged(dims.begin(), dims.begin() + first);
  Dim product = 1;
  for (int d = first; d <= last; d++) product = product * dims[size_t(d)];
  merged.push_back(product);
  merged.insert(merged.end(), dims.begin() + last + 1, dims.end());
  return reshape(merged, where);
}

Tensor Tensor::unflatten(int axis, Dims into, Where where) const {
  graph_of("unflatten", {this}, where);
  axis = axis_of("unflatten", axis, rank(), where);
  const Expr extent = type_of(*this).shape[size_t(axis)];
  Expr known = 1;
  std::optional<size_t> open;
  for (size_t d = 0; d < into.size(); d++) {
    if (to_expr(into[d]).is_constant(-1) && !open)
      open = d;
    else
      known *= to_expr(into[d]);
  }
  if (open && !known.is_constant(0)) {
    into[*open] = Dim::from_id(floordiv(extent, known).id());
    known *= to_expr(into[*open]);
  }
  if (!equal_extents(known, extent))
    throw Error("unflatten",
                fmt::format("axis {} of {} has {} elements, {} has {}", axis, text_of(type_of(*this).shape),
                            luminal::to_string(extent), luminal::to_string(into), luminal::to_string(known)),
                where);
  Dims dims = shape();
  dims.erase(dims.begin() + axis);
  dims.insert(dims.begin() + axis, into.begin(), into.end());
  return reshape(dims, where);
}

Tensor Tensor::merge_dims(int axis, Where where) const {
  graph_of("merge_dims", {this}, where);
  axis = axis_of("merge_dims", axis, rank() - 1, where);
  return flatten(axis, axis + 1, where);
}

Tensor Tensor::split_dims(int axis, Dim inner, Where where) const {
  graph_of("split_dims", {this}, where);
  axis = axis_of("split_dims", axis, rank(), where);
  Dims dims = shape();
  if (to_expr(inner).is_constant(0) ||
      prove(eq(mod(to_expr(dims[size_t(axis)]), to_expr(inner)), 0)) != Truth::yes)
    throw Error("split_dims",
                fmt::format("{} does not divide {} of {}", inner.to_string(), dims[size_t(axis)].to_string(),
                            luminal::to_string(dims)),
                where);
  dims[size_t(axis)] = dims[size_t(axis)] / inner;
  dims.insert(dims.begin() + axis + 1, inner);
  return reshape(dims, where);
}

Tensor Tensor::unsqueeze(int axis, Where where) const { return expand_dim(axis, 1, where); }

Tensor Tensor::expand_dim(int axis, Dim extent, Where where) const {
  const char* name = extent == Dim(1) ? "unsqueeze" : "expand_dim";
  graph_of(name, {this}, where);
  axis = axis_of(name, axis, rank() + 1, where);
  Shape shape = type_of(*this).shape;
  shape.insert(shape.begin() + axis, to_expr(extent));
  std::vector<Expr> map = identity_map(shape);
  map.erase(map.begin() + axis);
  return view_of(name, *this, shape, map, where);
}

Tensor Tensor::squeeze(std::vector<int> axes, Where where) const {
  graph_of("squeeze", {this}, where);
  axes = axes_of("squeeze", axes, rank(), where);
  const Shape from = type_of(*this).shape;
  Shape to;
  std::vector<Expr> map(from.size(), Expr(0));
  for (int d = 0; d < int(from.size()); d++) {
    const bool gone = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (gone && !from[size_t(d)].is_constant(1))
      throw Error("squeeze",
                  fmt::format("axis {} of {} is not 1 (squeeze() drops those that are)", d, text_of(from)),
                  where);
    if (gone) continue;
    map[size_t(d)] = axis_symbol(int(to.size()), from[size_t(d)]);
    to.push_back(from[size_t(d)]);
  }
  return view_of("squeeze", *this, to, map, where);
}
Tensor Tensor::squeeze(Where where) const {
  graph_of("squeeze", {this}, where);
  std::vector<int> ones;
  const Shape& from = type_of(*this).shape;
  for (size_t d = 0; d < from.size(); d++)
    if (from[d].is_constant(1)) ones.push_back(int(d));
  return squeeze(ones, where);
}

Tensor Tensor::expand(Dims dims, Where where) const {
  graph_of("expand", {this}, where);
  const Shape from = type_of(*this).shape;
  Shape to = to_shape(dims);
  for (size_t d = 0; d < to.size(); d++) {
    if (!to[d].is_constant(-1)) continue;
    if (d + from.size() < to.size())
      throw Error("expand",
                  fmt::format("-1 keeps an extent, and the new axis {} of {} has none", d, text_of(to)),
                  where);
    to[d] = from[d + from.size() - to.size()];
  }
  return broadcast_to("expand", *this, to, where);
}
Tensor Tensor::expand_as(const Tensor& other, Where where) const {
  graph_of("expand_as", {this, &other}, where);
  return broadcast_to("expand_as", *this, type_of(other).shape, where);
}

} // namespace luminal
