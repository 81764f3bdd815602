// ir/passes/scan_order.cpp -- a scan of a value that is read backwards, whose results are read backwards,
// is a scan in the other direction: the gradient of a running sum. Each result combines the same elements
// in the same order, so no bit changes.
#include "ir/passes/edit.h"
#include <algorithm>

namespace luminal::passes {
namespace {

constexpr int most_between = 8; // maps between the views and the scan

/// The only axis along which the view is not plain: there it goes backwards.
std::optional<int> reversed_axis(const ViewAttr& view, const Shape& source) {
  if (!view.predicate.is_constant(1) || !view.holes.empty() || view.shape != source) return {};
  std::optional<int> reversed;
  for (size_t d = 0; d < source.size(); ++d) {
    const Expr axis = axis_symbol(int(d), source[d]);
    if (view.map[d] == axis) continue;
    if (reversed || view.map[d] != source[d] - 1 - axis) return {};
    reversed = int(d);
  }
  return reversed;
}

bool elementwise_node(const Node& node) { return node.kind == NodeKind::map || node.kind == NodeKind::cast; }

/// Is it read backwards along the axis, behind maps?
bool is_reversed(const Rebuild& r, NodeId id, int axis, int depth = 0) {
  const Node& node = r[id];
  if (const auto* view = std::get_if<ViewAttr>(&node.attr)) {
    const Expr along = axis_symbol(axis, view->shape[size_t(axis)]);
    return view->predicate.is_constant(1) && std::ranges::any_of(view->map, [&](Expr e) {
             const auto step = coefficient_of(e, along);
             return step && step->is_constant() && step->value() < 0;
           });
  }
  return depth < most_between && elementwise_node(node) &&
         std::ranges::any_of(node.inputs, [&](NodeId in) { return is_reversed(r, in, axis, depth + 1); });
}

/// The scan along the axis whose only result this is, where it reads its values backwards.
std::optional<NodeId> reversed_scan(const Rebuild& r, NodeId get, int axis) {
  if (r[get].kind != NodeKind::get || !r.used_once(get)) return {};
  const NodeId tuple = r[get].inputs[0];
  const auto* scan = std::get_if<ScanAttr>(&r[tuple].attr);
  if (!scan || scan->monoid.size() != 1 || scan->axis != axis ||
      scan->body_axes[0].size() != scan->space.size())
    return {};
  return is_reversed(r, r[tuple].inputs[0], axis) ? std::optional(tuple) : std::nullopt;
}

bool made_of_scan(const Rebuild& r, NodeId id, int axis, int depth = 0) {
  if (reversed_scan(r, id, axis)) return true;
  return depth < most_between && elementwise_node(r[id]) && r.used_once(id) &&
         std::ranges::any_of(r[id].inputs, [&](NodeId in) { return made_of_scan(r, in, axis, depth + 1); });
}

} // namespace

std::optional<NodeId> scan_from_end(Rebuild& r, NodeId get, const ViewAttr& view) {
  const auto axis = reversed_axis(view, r.type(get).shape);
  const auto tuple = axis ? reversed_scan(r, get, *axis) : std::nullopt;
  if (!tuple) return {};
  const Node scan = r[*tuple]; // a copy: what is put down may move it
  const auto body = viewed(r, scan.inputs[0], view);
  if (!body) return {};
  auto attr = std::get<ScanAttr>(scan.attr);
  attr.reverse = !attr.reverse;
  const auto turned = r.add(std::move(attr), {*body}, scan.axis_names);
  return turned ? r.add(GetAttr{0}, {*turned}) : std::nullopt;
}

std::optional<NodeId> scan_order_rule(Rebuild& r, const Node& node) {
  const auto* view = std::get_if<ViewAttr>(&node.attr);
  const auto axis = view ? reversed_axis(*view, r.type(node.inputs[0]).shape) : std::nullopt;
  if (!axis || !made_of_scan(r, node.inputs[0], *axis)) return {};
  return viewed(r, node.inputs[0], *view);
}

} // namespace luminal::passes
