// rules/fragment.cpp -- hash-consed nodes, instances of fragments, copies of what stays as it is.
#include "rules/fragment.h"
#include "egraph/types.h"
#include "ir/passes/edit.h"
#include <algorithm>

namespace luminal::rules {

using egraph::absent;

namespace {

/// The number of an equal node, or that of the new one.
NodeId put_once(IdVector<NodeId, Node>& nodes, IdTable<NodeId>& table, Node node) {
  const NodeId id = nodes.end_id();
  if (node.kind != NodeKind::host &&
      node.kind != NodeKind::input) { // an effect happens as often as it stands
    const uint64_t hash = passes::quick_hash(node);
    if (const auto known = table.find(hash, [&](NodeId k) { return same_node(nodes[k], node); }))
      return *known;
    table.add(hash, id);
  }
  nodes.push_back(std::move(node));
  return id;
}

} // namespace

NodeId Fragment::put(Node node) { return put_once(nodes_, table_, std::move(node)); }

NodeId Fragment::leaf(NodeId node) {
  const auto [at, made] = leaves_.try_emplace(node, nodes_.end_id());
  if (made) {
    leaf_list_.emplace_back(at->second, node);
    nodes_.push_back({NodeKind::input, InputAttr{}, {}, (*function_)[node].types, {}, {}, {}});
  }
  return at->second;
}

FunctionWriter::FunctionWriter(const Function& source)
    : source_(source), place_(source.nodes.size()), named_(source.nodes.size()) {
  out_.name = source.name;
  out_.nodes.reserve(source.nodes.size());
  for (const NodeId id : source.params) {
    place_[id] = out_.nodes.end_id();
    named_[id] = true;
    out_.params.push_back(place_[id]);
    out_.nodes.push_back(source[id]);
  }
}

NodeId FunctionWriter::put(Node node) { return put_once(out_.nodes, table_, std::move(node)); }

IdVector<NodeId, NodeId> FunctionWriter::place(const Fragment& fragment,
                                               const IdVector<NodeId, NodeId>& instance) {
  const auto bound = [&](NodeId id) { return instance.empty() ? id : instance[id]; };
  IdVector<NodeId, NodeId> made(fragment.nodes().size());
  for (const auto& [leaf, node] : fragment.leaf_list_) made[leaf] = at(bound(node));
  for (NodeId id : made.ids()) {
    if (made[id]) continue;
    Node node = fragment[id];
    for (NodeId& in : node.inputs) in = made[in];
    made[id] = put(std::move(node));
    if (!fragment.decided_) continue;
    decided_.resize(out_.nodes.size());
    decided_[made[id]] = true;
  }
  for (const NodeId id : fragment.open_) decided_[made[id]] = false;
  for (const Fragment::Name& n : fragment.names_) name(made[n.made], bound(n.node), n.with_axes);
  for (const auto& [node, root] : fragment.roots_) place_[bound(node)] = made[root];
  for (std::vector<NodeId> kernel : fragment.kernels_) {
    for (NodeId& value : kernel) value = made[value];
    kernels_.push_back(std::move(kernel));
  }
  return made;
}

void FunctionWriter::name(NodeId made, NodeId source, bool with_axes) {
  Node& node = out_.nodes[made];
  const Node& from = source_[source];
  if (node.origin.empty()) // a fold has one, what reads it has none
    node.origin =
        from.kind == NodeKind::get && from.origin.empty() ? source_[from.inputs[0]].origin : from.origin;
  if (with_axes && node.axis_names.empty()) node.axis_names = from.axis_names;
  if (named_[source] || !node.name.empty() || node.kind == NodeKind::input) return;
  node.name = from.name;
  named_[source] = true;
}

NodeId FunctionWriter::at(NodeId source) {
  if (place_[source]) return place_[source];
  std::vector<NodeId> stack{source}; // inputs before users
  while (!stack.empty()) {
    const NodeId id = stack.back();
    if (!place_[id]) {
      const size_t before = stack.size();
      for (const NodeId in : source_[id].inputs)
        if (!place_[in]) stack.push_back(in);
      if (stack.size() > before) continue;
      place_[id] = copy(id);
    }
    stack.pop_back();
  }
  return place_[source];
}

NodeId FunctionWriter::copy(NodeId source) {
  Node node = source_[source];
  node.name.clear();
  for (NodeId& in : node.inputs) in = place_[in];
  const NodeId made = put(std::move(node));
  name(made, source, true);
  return made;
}

Function FunctionWriter::finish(Partition* partition, IdVector<NodeId, bool>* decided) {
  for (FunctionResult result : source_.results) {
    result.value = at(result.value);
    out_.results.push_back(std::move(result));
  }
  IdVector<NodeId, bool> needed(out_.nodes.size());
  for (const NodeId id : out_.params) needed[id] = true;
  for (const FunctionResult& r : out_.results) needed[r.value] = true;
  for (NodeId id : out_.nodes.ids_down())
    if (needed[id])
      for (const NodeId in : out_.nodes[id].inputs) needed[in] = true;
  IdVector<NodeId, NodeId> number(out_.nodes.size());
  NodeId next(0);
  for (NodeId id : out_.nodes.ids()) {
    if (!needed[id]) continue;
    for (NodeId& in : out_.nodes[id].inputs) in = number[in];
    number[id] = next;
    if (next != id) out_.nodes[next] = std::move(out_.nodes[id]);
    ++next;
  }
  if (decided) {
    decided->assign(next.index(), false);
    for (NodeId id : decided_.ids())
      if (decided_[id] && number[id]) (*decided)[number[id]] = true;
  }
  out_.nodes.resize(next.index());
  for (FunctionResult& r : out_.results) r.value = number[r.value];
  if (partition)
    for (const auto& kernel : kernels_) {
      std::vector<NodeId> values;
      for (const NodeId value : kernel)
        if (number[value]) values.push_back(number[value]);
      std::ranges::sort(values);
      values.erase(std::ranges::unique(values).begin(), values.end());
      if (!values.empty()) partition->kernels.push_back(std::move(values));
    }
  return std::move(out_);
}

} // namespace luminal::rules
