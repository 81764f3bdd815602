// ir/passes/compose_views.cpp -- a view of a view is one view: out[i] = P(i) ? (Q(m(i)) ?
// x[n(m(i))] : g) : f.
//
// One predicate has one fill: P and Q may both be conditions only where f and g are the same bits.
// Holes are kept where they are read under the same conditions as before: those of the outer view
// always, those of the inner one where the outer one always reads it and leaves their axes alone.
#include "ir/infer.h"
#include "ir/passes/edit.h"
#include <bit>
#include <cmath>

namespace luminal::passes {
namespace {

bool same_number(double a, double b) {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b) || (std::isnan(a) && std::isnan(b));
}

bool is_identity(const ViewAttr& view, const TensorType& from, const TensorType& to) {
  if (!view.predicate.is_constant(1) || !view.holes.empty() || !(from == to)) return false;
  for (size_t d = 0; d < view.map.size(); ++d)
    if (view.map[d] != axis_symbol(int(d), to.shape[d])) return false;
  return true;
}

bool ends_by_fill(const std::vector<Hole>& holes) {
  for (const Hole& hole : holes)
    if (hole.policy == OutOfRange::fill) return true;
  return false;
}

/// Every index is proved to lie in its extent.
bool proved(const ViewAttr& view, const Shape& source, const Module* module) {
  if (plainly_inside(view.map, view.shape, source)) return true;
  for (const BoundCheck& check : bound_checks(view, view.shape, source, module))
    if (in_bounds(check) != Truth::yes) return false;
  return true;
}

/// Indices of the outer view that are not proved become the same indices of equal extents: what is
/// checked of one view is checked of both in one.
bool checks_move(const ViewAttr& outer, const ViewAttr& inner, const Shape& source, const Module* module) {
  if (plainly_inside(outer.map, outer.shape, inner.shape)) return true;
  for (const BoundCheck& check : bound_checks(outer, outer.shape, inner.shape, module)) {
    if (in_bounds(check) == Truth::yes) continue;
    const Expr axis = axis_symbol(check.axis, inner.shape[size_t(check.axis)]);
    if (!axis.is_symbol() || depends_on(inner.predicate, axis)) return false;
    bool moved = false;
    for (size_t k = 0; k < inner.map.size(); ++k) {
      if (inner.map[k] == axis && source[k] == inner.shape[size_t(check.axis)])
        moved = true;
      else if (depends_on(inner.map[k], axis))
        return false;
    }
    if (!moved) return false;
  }
  return true;
}

std::optional<NodeId> compose(Rebuild& r, const Node& node) {
  const auto& outer = std::get<ViewAttr>(node.attr);
  const Node& below = r[node.inputs[0]];
  const auto& inner = std::get<ViewAttr>(below.attr);
  const bool always_read = outer.predicate.is_constant(1) && !ends_by_fill(outer.holes);
  const bool always_given = inner.predicate.is_constant(1) && !ends_by_fill(inner.holes);
  if (!always_read && !always_given && !same_number(outer.fill, inner.fill)) return {};
  if (!inner.holes.empty() && (!always_read || !outer.holes.empty())) return {};

  const AxisReplacement replace(inner.shape, outer.map);
  ViewAttr both;
  both.shape = outer.shape;
  both.fill = always_given ? outer.fill : inner.fill;
  for (Expr e : inner.map) {
    auto moved = replace(e);
    if (!moved) return {};
    both.map.push_back(simplified_within(*moved, both.shape));
  }
  auto predicate = replace(inner.predicate);
  if (!predicate) return {};
  both.predicate = logical_and(outer.predicate, simplified_within(*predicate, both.shape));
  for (size_t h = 0; h < outer.holes.size();
       ++h) // its check is against the padded extent, which would be gone
    if (outer.holes[h].policy == OutOfRange::error &&
        depends_on(*predicate, hole_symbol(int(h), outer.holes[h].range)))
      return {};
  std::vector<NodeId> inputs{below.inputs[0]};
  both.holes = outer.holes;
  inputs.insert(inputs.end(), node.inputs.begin() + 1, node.inputs.end());
  for (Hole hole : inner.holes) { // the outer view has none: numbers of inputs and holes stay
    for (int& axis : hole.axes) {
      const Expr at = outer.map[size_t(axis)];
      std::optional<int> found;
      for (size_t d = 0; d < outer.shape.size(); ++d)
        if (at.is_symbol() && at == axis_symbol(int(d), outer.shape[d])) found = int(d);
      if (!found) return {};
      axis = *found;
    }
    both.holes.push_back(hole);
  }
  if (!inner.holes.empty()) inputs.insert(inputs.end(), below.inputs.begin() + 1, below.inputs.end());
  // What was proved stays proved: a check at run time must not come from a pass.
  const Shape source = r.type(inputs[0]).shape;
  const Module* module = r.module();
  const bool sound = proved(both, source, module);
  if (!checks_move(outer, inner, source, module)) return {};
  if (!sound && proved(outer, inner.shape, module) && proved(inner, source, module)) return {};
  if (both.predicate.is_constant(1) && !ends_by_fill(both.holes)) both.fill = 0; // it is never read
  if (is_identity(both, r.type(inputs[0]), node.type())) return inputs[0];
  if (!sound || !both.holes.empty()) return r.add(std::move(both), std::move(inputs), node.axis_names);
  return r.put({NodeKind::view, std::move(both), std::move(inputs), {node.type()}, {}, node.axis_names});
}

} // namespace

std::optional<NodeId> view_rule(Rebuild& r, const Node& node, Numerics) {
  if (node.kind != NodeKind::view) return {};
  const auto& view = std::get<ViewAttr>(node.attr);
  const Node& below = r[node.inputs[0]];
  if (is_identity(view, below.type(), node.type())) return node.inputs[0];
  if (below.kind == NodeKind::iota && view.predicate.is_constant(1) && view.holes.empty()) {
    const auto& iota = std::get<IotaAttr>(below.attr);
    auto value = AxisReplacement(iota.type.shape, view.map)(iota.value);
    if (!value) return {};
    return r.add(IotaAttr{simplified_within(*value, node.type().shape), node.type()}, {}, node.axis_names);
  }
  if (below.kind != NodeKind::view) return {};
  auto id = compose(r, node);
  if (!id || !(r.type(*id) == node.type())) return {};
  return id;
}

} // namespace luminal::passes
