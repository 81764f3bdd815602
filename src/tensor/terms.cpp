// tensor/terms.cpp -- terms as data: made from functions over axes, read back.
#include "luminal/terms.h"
#include "ir/scalar.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::terms {
namespace {

Dim to_dim(Expr e) { return Dim::from_id(e.id()); }

Dims axes_of(const Shape& space) {
  Dims axes;
  for (size_t d = 0; d < space.size(); d++) axes.push_back(to_dim(axis_symbol(int(d), space[d])));
  return axes;
}
Expr condition(const OverAxes& where, const Dims& axes) { return where ? to_expr(where(axes)) : Expr(1); }

std::vector<Expr> indices(std::string_view op, const MapOverAxes& map, const Dims& axes, const Tensor& x,
                          Where place) {
  if (!map) throw Error(op, "there is no map", place);
  std::vector<Expr> list;
  for (Dim at : map(axes)) list.push_back(to_expr(at));
  if (list.size() != type_of(x).shape.size())
    throw Error(op, fmt::format("the map gives {} indices for {}", list.size(), text_of(type_of(x).shape)),
                place);
  return list;
}

struct Parts {
  std::shared_ptr<GraphState> graph;
  std::vector<MonoidComponent> monoid;
  std::vector<std::vector<int>> body_axes;
  std::vector<NodeId> inputs;
};
Parts parts_of(std::string_view op, const std::vector<Component>& components, Where place) {
  Parts parts;
  if (components.empty()) throw Error(op, "there is no component", place);
  for (size_t c = 0; c < components.size(); c++) {
    const Component& component = components[c];
    parts.graph = graph_of(op, {&components[0].body, &component.body}, place);
    const auto combine = parse_monoid_word(component.op);
    if (!combine)
      throw Error(op, fmt::format("'{}' combines nothing: sum, prod, max, min, any, all do", component.op),
                  place);
    try {
      parts.monoid.push_back(
          {*combine, component.body.dtype(), parse_scalar(component.transform, monoid_leaf_names(int(c)))});
    } catch (const Error& error) {
      throw Error(op, fmt::format("the transform of component {}: {}", c, error.what()), place);
    }
    parts.body_axes.push_back(component.axes);
    parts.inputs.push_back(node_id(component.body));
  }
  return parts;
}
std::vector<Tensor> results(std::string_view op, const Parts& parts, Attr attr, Where place) {
  const NodeId node = node_id(build(op, parts.graph, place, [&](FunctionBuilder& b) {
    return b.add(std::move(attr), parts.inputs, {}, place);
  }));
  std::vector<Tensor> list;
  for (size_t c = 0; c < parts.monoid.size(); c++)
    list.push_back(build(op, parts.graph, place, [&](FunctionBuilder& b) { return b.get(node, int(c)); }));
  return list;
}

/// The term behind a value, of a kind; null: another kind.
template <class A> const A* term_of(const Tensor& tensor, const Node*& node, int& result) {
  const auto graph = graph_of("inspect", {&tensor}, Where::current());
  node = &graph->builder[node_id(tensor)];
  if (const auto* get = std::get_if<GetAttr>(&node->attr)) {
    result = get->index;
    node = &graph->builder[node->inputs[0]];
  }
  return std::get_if<A>(&node->attr);
}
Dims dims_of(const std::vector<Expr>& list) { return to_dims(list); }
std::vector<Component> components_of(const Tensor& tensor, const Node& node, const Monoid& monoid,
                                     const std::vector<std::vector<int>>& body_axes) {
  std::vector<Component> list;
  for (size_t c = 0; c < body_axes.size(); c++) {
    const MonoidComponent& own = monoid.components()[c];
    list.push_back({std::string(row(own.op).monoid), wrap(tensor.graph(), node.inputs[c]), body_axes[c],
                    to_string(own.transform, monoid_leaf_names(int(c)))});
  }
  return list;
}

} // namespace

Tensor view(const Tensor& x, const Dims& shape, const MapOverAxes& map, const OverAxes& where, double fill,
            Where place) {
  const auto graph = graph_of("view", {&x}, place);
  const Dims axes = axes_of(to_shape(shape));
  auto at = indices("view", map, axes, x, place);
  return build("view", graph, place, [&](FunctionBuilder& b) {
    return b.view(node_id(x), to_shape(shape), std::move(at), condition(where, axes), fill);
  });
}
std::vector<Tensor> fold(const Dims& space, const std::vector<int>& over,
                         const std::vector<Component>& components, const OverAxes& where, Where place) {
  const Parts parts = parts_of("fold", components, place);
  FoldAttr attr{.monoid = Monoid::intern(parts.monoid),
                .space = to_shape(space),
                .reduced = over,
                .body_axes = parts.body_axes,
                .where = condition(where, axes_of(to_shape(space))),
                .holes = {}};
  return results("fold", parts, std::move(attr), place);
}
std::vector<Tensor> scan(const Dims& space, int along, const std::vector<Component>& components,
                         bool exclusive, bool reverse, Where place) {
  const Parts parts = parts_of("scan", components, place);
  ScanAttr attr{.monoid = Monoid::intern(parts.monoid),
                .space = to_shape(space),
                .axis = along,
                .body_axes = parts.body_axes,
                .exclusive = exclusive,
                .reverse = reverse};
  return results("scan", parts, std::move(attr), place);
}
Tensor scatter(const Tensor& base, const Tensor& values, const MapOverAxes& map, ScatterOp how,
               const OverAxes& where, Where place) {
  const auto graph = graph_of("scatter", {&base, &values}, place);
  const bool truth = base.dtype() == DType::boolean;
  const Dims axes = axes_of(type_of(values).shape);
  ScatterAttr attr;
  attr.map = indices("scatter", map, axes, base, place);
  attr.predicate = condition(where, axes);
  switch (how) { // on bool: as the operations say it
  case ScatterOp::set: break;
  case ScatterOp::add: attr.op = truth ? Op::bit_or : Op::add; break;
  case ScatterOp::mul: attr.op = truth ? Op::bit_and : Op::mul; break;
  case ScatterOp::min: attr.op = truth ? Op::bit_and : Op::min; break;
  case ScatterOp::max: attr.op = truth ? Op::bit_or : Op::max; break;
  }
  return build("scatter", graph, place, [&](FunctionBuilder& b) {
    return b.add(std::move(attr), {node_id(base), node_id(values)}, {}, place);
  });
}

std::optional<ViewTerm> as_view(const Tensor& tensor) {
  const Node* node = nullptr;
  int result = 0;
  const auto* attr = term_of<ViewAttr>(tensor, node, result);
  if (!attr) return {};
  return ViewTerm{wrap(tensor.graph(), node->inputs[0]), axes_of(attr->shape), dims_of(attr->map),
                  to_dim(attr->predicate), attr->fill};
}
std::optional<FoldTerm> as_fold(const Tensor& tensor) {
  const Node* node = nullptr;
  int result = 0;
  const auto* attr = term_of<FoldAttr>(tensor, node, result);
  if (!attr) return {};
  return FoldTerm{result,
                  dims_of(attr->space),
                  axes_of(attr->space),
                  attr->reduced,
                  components_of(tensor, *node, attr->monoid, attr->body_axes),
                  to_dim(attr->where)};
}
std::optional<ScanTerm> as_scan(const Tensor& tensor) {
  const Node* node = nullptr;
  int result = 0;
  const auto* attr = term_of<ScanAttr>(tensor, node, result);
  if (!attr) return {};
  return ScanTerm{result,          dims_of(attr->space),
                  attr->axis,      components_of(tensor, *node, attr->monoid, attr->body_axes),
                  attr->exclusive, attr->reverse};
}
std::optional<ScatterTerm> as_scatter(const Tensor& tensor) {
  const Node* node = nullptr;
  int result = 0;
  const auto* attr = term_of<ScatterAttr>(tensor, node, result);
  if (!attr) return {};
  const bool truth = tensor.dtype() == DType::boolean;
  ScatterOp how = ScatterOp::set;
  if (attr->op == Op::add || (truth && attr->op == Op::bit_or)) how = ScatterOp::add;
  if (attr->op == Op::mul || (truth && attr->op == Op::bit_and)) how = ScatterOp::mul;
  if (attr->op == Op::min) how = ScatterOp::min;
  if (attr->op == Op::max) how = ScatterOp::max;
  const Tensor values = wrap(tensor.graph(), node->inputs[1]);
  return ScatterTerm{wrap(tensor.graph(), node->inputs[0]),
                     values,
                     axes_of(type_of(values).shape),
                     dims_of(attr->map),
                     how,
                     to_dim(attr->predicate)};
}
std::optional<double> as_number(const Tensor& tensor) {
  const auto graph = graph_of("inspect", {&tensor}, Where::current());
  const Node* node = &graph->builder[node_id(tensor)];
  while (const auto* view = std::get_if<ViewAttr>(&node->attr)) {
    if (!view->predicate.is_constant(1)) return {};
    node = &graph->builder[node->inputs[0]];
  }
  const auto* constant = std::get_if<ConstantAttr>(&node->attr);
  if (!constant || !constant->type.shape.empty()) return {};
  return load_f64(constant->type.dtype, constant->data->data(), 0);
}

} // namespace luminal::terms
