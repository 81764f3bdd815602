// ir/passes/scatter_order.cpp -- a scatter whose result is read with its axes in another order writes in that
// order. What is updated along a middle axis, with that axis brought to the front and back again (rows of a
// cache), lies as it did before, and neither it nor the result is copied.
#include "ir/passes/edit.h"

namespace luminal::passes {
std::optional<NodeId> scatter_order_rule(Rebuild& r, const Node& node) {
  const auto* view = std::get_if<ViewAttr>(&node.attr);
  if (!view || !r.used_once(node.inputs[0])) return {};
  const Node scatter = r[node.inputs[0]]; // a copy: what is put down may move it
  const auto* attr = std::get_if<ScatterAttr>(&scatter.attr);
  if (!attr) return {};
  const auto order = permutation_of(*view, scatter.type().shape, /*singles=*/true);
  if (!order) return {};
  ScatterAttr made = *attr;
  for (size_t d = 0; d < order->size(); d++) made.map[size_t((*order)[d])] = attr->map[d];
  const auto base = viewed(r, scatter.inputs[0], *view);
  if (!base) return {};
  std::vector<NodeId> inputs = scatter.inputs;
  inputs[0] = *base;
  return r.add(std::move(made), std::move(inputs), scatter.axis_names, scatter.origin);
}

} // namespace luminal::passes
