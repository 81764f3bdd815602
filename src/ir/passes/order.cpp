// ir/passes/order.cpp -- the order of nodes, and how much memory values need in it.
//
// Nodes are visited depth first from the results; of a node's inputs the one whose own peak exceeds
// what it leaves behind by most comes first (for trees this is the optimal order: R. Sethi, J. D.
// Ullman, "The generation of optimal code for arithmetic expressions", 1970, with sizes in place of
// registers).
#include "ir/most_bytes.h"
#include "ir/passes/edit.h"
#include <algorithm>

namespace luminal::passes {
namespace {

/// Bytes that a node's own values take: nothing for what is computed where it is read, and for
/// inputs, which lie in memory before.
double size_of(const Node& node) {
  switch (node.kind) {
  case NodeKind::input:
  case NodeKind::constant:
  case NodeKind::iota:
  case NodeKind::view:
  case NodeKind::cast:
  case NodeKind::bitcast:
  case NodeKind::fence:
  case NodeKind::get: return 0;
  default: {
    double total = 0;
    for (const TensorType& type : node.types) total += most_bytes(type);
    return total;
  }
  }
}

/// A view and its kin keep alive what they read.
bool is_alias(const Node& node) {
  return node.kind == NodeKind::view || node.kind == NodeKind::cast || node.kind == NodeKind::bitcast ||
         node.kind == NodeKind::fence || node.kind == NodeKind::get;
}

double peak_of(const Function& f, const std::vector<NodeId>& order) {
  const size_t n = f.nodes.size();
  IdVector<NodeId, size_t> position(n, 0), last(n, 0);
  for (size_t k = 0; k < order.size(); ++k) last[order[k]] = position[order[k]] = k;
  for (size_t k = order.size(); k-- > 0;) { // users before what they read: aliases pass their last use on
    const Node& node = f[order[k]];
    const size_t until = is_alias(node) ? last[order[k]] : k;
    for (NodeId input : node.inputs) last[input] = std::max(last[input], until);
  }
  for (const FunctionResult& result : f.results) last[result.value] = order.size();
  for (size_t k = order.size(); k-- > 0;)
    if (is_alias(f[order[k]]))
      for (NodeId input : f[order[k]].inputs) last[input] = std::max(last[input], last[order[k]]);
  std::vector<double> freed(order.size() + 1, 0);
  double alive = 0, peak = 0;
  for (size_t k = 0; k < order.size(); ++k) {
    const double size = size_of(f[order[k]]);
    alive += size;
    peak = std::max(peak, alive);
    freed[std::max(last[order[k]], k)] += size;
    alive -= freed[k];
  }
  return peak;
}

std::vector<NodeId> present_order(const Function& f) {
  std::vector<NodeId> order;
  for (NodeId id : f.nodes.ids()) order.push_back(id);
  return order;
}

std::vector<NodeId> depth_first_order(const Function& f) {
  const size_t n = f.nodes.size();
  IdVector<NodeId, double> need(
      n, 0); // the most memory while the node and what it reads are computed, as if nothing were shared
  IdVector<NodeId, std::vector<NodeId>> children(n);
  for (NodeId id : f.nodes.ids()) {
    auto& inputs = children[id];
    for (NodeId input : f[id].inputs)
      if (std::find(inputs.begin(), inputs.end(), input) == inputs.end()) inputs.push_back(input);
    std::stable_sort(inputs.begin(), inputs.end(),
                     [&](NodeId a, NodeId b) { return need[a] - size_of(f[a]) > need[b] - size_of(f[b]); });
    double held = 0, most = 0;
    for (NodeId input : inputs) {
      most = std::max(most, held + need[input]);
      held += size_of(f[input]);
    }
    need[id] = std::max(most, held + size_of(f[id]));
  }
  std::vector<NodeId> order;
  IdVector<NodeId, bool> seen(n, false);
  for (NodeId p : f.params) {
    order.push_back(p);
    seen[p] = true;
  }
  std::vector<std::pair<NodeId, size_t>> stack;
  for (const FunctionResult& result : f.results) {
    if (!seen[result.value]) stack.push_back({result.value, 0});
    while (!stack.empty()) {
      auto& [id, next] = stack.back();
      if (seen[id]) {
        stack.pop_back();
      } else if (next < children[id].size()) {
        const NodeId child = children[id][next++];
        if (!seen[child]) stack.push_back({child, 0});
      } else {
        seen[id] = true;
        order.push_back(id);
        stack.pop_back();
      }
    }
  }
  return order;
}

int64_t reorder(Function& f) {
  int hosts = 0; // effects keep their order
  for (const Node& node : f.nodes) hosts += node.kind == NodeKind::host;
  if (hosts > 1) return 0;
  sweep(f);
  const std::vector<NodeId> before = present_order(f), after = depth_first_order(f);
  if (after == before || !(peak_of(f, after) < peak_of(f, before))) return 0;
  IdVector<NodeId, NodeId> place(f.nodes.size());
  IdVector<NodeId, Node> nodes;
  int64_t moved = 0;
  for (NodeId id : after) {
    moved += id != nodes.end_id();
    place[id] = nodes.end_id();
    for (NodeId& input : f.nodes[id].inputs) input = place[input];
    nodes.push_back(std::move(f.nodes[id]));
  }
  f.nodes = std::move(nodes);
  for (NodeId& p : f.params) p = place[p];
  for (FunctionResult& result : f.results) result.value = place[result.value];
  return std::max<int64_t>(moved, 1);
}

} // namespace

Pass depth_first() {
  return Pass("depth-first", "an order of the nodes that needs less memory", [](Module& module) {
    int64_t changes = 0;
    for (Function& f : module.functions) changes += reorder(f);
    return changes;
  });
}

} // namespace luminal::passes

namespace luminal {

double peak_bytes(const Module& module) {
  double most = 0;
  for (const Function& f : module.functions)
    most = std::max(most, passes::peak_of(f, passes::present_order(f)));
  return most;
}

} // namespace luminal
