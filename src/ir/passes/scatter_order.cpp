// ir/passes/scatter_order.cpp -- a scatter whose result is read with its axes in another order writes in that
// order. What is updated along a middle axis, with that axis brought to the front and back again (rows of a
// cache), lies as it did before, and neither it nor the result is copied.
#include "ir/passes/edit.h"
#include <algorithm>

namespace luminal::passes {
namespace {

/// Of a view that only puts axes in another order: for each dimension of the operand the result's axis.
/// Axes of one element keep their order among each other.
std::optional<std::vector<int>> order_of(const ViewAttr& view, const Shape& operand) {
  if (!view.predicate.is_constant(1) || !view.holes.empty() || view.shape.size() != operand.size()) return {};
  std::vector<bool> used(view.shape.size(), false);
  std::vector<int> order;
  for (size_t d = 0; d < operand.size(); d++) {
    const bool one = operand[d].is_constant(1);
    int axis = -1;
    for (size_t a = 0; a < view.shape.size() && axis < 0; a++)
      if (!used[a] &&
          (one ? view.shape[a].is_constant(1)
               : view.map[d] == axis_symbol(int(a), view.shape[a]) && view.shape[a] == operand[d]))
        axis = int(a);
    if (axis < 0) return {};
    used[size_t(axis)] = true;
    order.push_back(axis);
  }
  return order;
}

} // namespace

std::optional<NodeId> scatter_order_rule(Rebuild& r, const Node& node) {
  const auto* view = std::get_if<ViewAttr>(&node.attr);
  if (!view || !r.used_once(node.inputs[0])) return {};
  const Node scatter = r[node.inputs[0]]; // a copy: what is put down may move it
  const auto* attr = std::get_if<ScatterAttr>(&scatter.attr);
  if (!attr) return {};
  const auto order = order_of(*view, scatter.type().shape);
  if (!order || std::ranges::is_sorted(*order)) return {};
  ScatterAttr made = *attr;
  for (size_t d = 0; d < order->size(); d++) made.map[size_t((*order)[d])] = attr->map[d];
  const auto base = viewed(r, scatter.inputs[0], *view);
  if (!base) return {};
  std::vector<NodeId> inputs = scatter.inputs;
  inputs[0] = *base;
  return r.add(std::move(made), std::move(inputs), scatter.axis_names, scatter.origin);
}

} // namespace luminal::passes
