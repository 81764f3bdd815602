// ir/passes/hole_axes.cpp -- an index operand that is the same along some of its axes, as one that was
// expanded to the shape of what it places, is read along the others only. Whole rows are gathered and
// scattered then, and what is checked before it is used is each index once.
#include "ir/infer.h"
#include "ir/passes/edit.h"
#include <algorithm>

namespace luminal::passes {
namespace {

constexpr int deepest = 8; // maps of an index, one above the other

/// The value without these axes, where it is made of what does not vary along them.
std::optional<NodeId> without_axes(Rebuild& r, NodeId id, const std::vector<bool>& dropped, int depth = 0) {
  const Node node = r[id]; // a copy: what is put down may move it
  if (node.is_tuple() || depth > deepest) return {};
  const Shape& shape = node.type().shape;
  Shape left;
  std::vector<Expr> at(shape.size(), Expr(0));
  for (size_t d = 0; d < shape.size(); d++)
    if (!dropped[d]) {
      at[d] = axis_symbol(int(left.size()), shape[d]);
      left.push_back(shape[d]);
    }
  const auto varies = [&](Expr e) {
    for (size_t d = 0; d < shape.size(); d++)
      if (const Expr axis = axis_symbol(int(d), shape[d]);
          dropped[d] && axis.is_symbol() && depends_on(e, axis))
        return true;
    return false;
  };
  const AxisReplacement replace(shape, at);
  if (node.kind == NodeKind::iota) {
    auto iota = std::get<IotaAttr>(node.attr);
    const auto value = varies(iota.value) ? std::nullopt : replace(iota.value);
    if (!value) return {};
    iota.type.shape = left;
    return r.add(IotaAttr{*value, iota.type}, {});
  }
  if (node.kind == NodeKind::view) {
    auto view = std::get<ViewAttr>(node.attr);
    if (!view.holes.empty() || varies(view.predicate)) return {};
    for (Expr& e : view.map) {
      const auto moved = varies(e) ? std::nullopt : replace(e);
      if (!moved) return {};
      e = *moved;
    }
    const auto predicate = replace(view.predicate);
    if (!predicate) return {};
    view.predicate = *predicate;
    view.shape = left;
    const auto made = r.add(std::move(view), {node.inputs[0]});
    if (!made) return {};
    const Node put = r[*made];
    const auto simpler = view_rule(r, put, Numerics::exact);
    return simpler ? simpler : made;
  }
  if (node.kind != NodeKind::map && node.kind != NodeKind::cast) return {};
  std::vector<NodeId> inputs;
  for (const NodeId in : node.inputs) {
    const auto made = without_axes(r, in, dropped, depth + 1);
    if (!made) return {};
    inputs.push_back(*made);
  }
  return r.put({node.kind,
                node.attr,
                std::move(inputs),
                {TensorType{node.type().dtype, std::move(left)}},
                {},
                {},
                node.origin});
}

} // namespace

std::optional<NodeId> hole_axes_rule(Rebuild& r, const Node& node) {
  // (A fold has results for the axes that its domain reads, indices of it included.)
  if (node.kind != NodeKind::view && node.kind != NodeKind::scatter) return {};
  if (holes_of(node.attr).empty()) return {};
  Node made = node;
  bool changed = false;
  for (size_t h = 0; h < holes_of(node.attr).size(); h++) {
    Hole hole = holes_of(made.attr)[h];
    const auto input = size_t(hole.input);
    const auto reads_too = [&](const Hole& other) { return other.input == hole.input; };
    if (hole.axes.empty() || std::ranges::count_if(holes_of(made.attr), reads_too) > 1) continue;
    // One axis at a time: which of them do not matter is for the value to say.
    for (size_t d = hole.axes.size(); d-- > 0;) {
      // (An index that nothing is placed by is not checked.)
      if (r.type(made.inputs[input]).shape[d].range().low < 1) continue;
      std::vector<bool> dropped(hole.axes.size());
      dropped[d] = true;
      const auto value = without_axes(r, made.inputs[input], dropped);
      if (!value) continue;
      made.inputs[input] = *value;
      hole.axes.erase(hole.axes.begin() + long(d));
      changed = true;
    }
    auto* view = std::get_if<ViewAttr>(&made.attr);
    (view ? view->holes : std::get<ScatterAttr>(made.attr).holes)[h] = hole;
  }
  if (!changed) return {};
  return r.put(std::move(made));
}

} // namespace luminal::passes
