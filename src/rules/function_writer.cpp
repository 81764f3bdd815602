// rules/function_writer.cpp -- hash-consed nodes, copies of those outside of the e-graph, names.
#include "rules/function_writer.h"
#include "egraph/types.h"
#include "ir/passes/edit.h"

namespace luminal::rules {

using egraph::absent;

FunctionWriter::FunctionWriter(const Function& source)
    : source_(source), place_(source.nodes.size(), absent), named_(source.nodes.size()) {
  out_.name = source.name;
  out_.nodes.reserve(source.nodes.size());
  for (const NodeId id : source.params) {
    out_.params.push_back(NodeId(out_.nodes.size()));
    place_[id] = NodeId(out_.nodes.size());
    named_[id] = true;
    out_.nodes.push_back(source[id]);
  }
}

NodeId FunctionWriter::put(Node node) {
  const auto id = NodeId(out_.nodes.size());
  if (node.kind != NodeKind::host) {
    const uint64_t hash = passes::quick_hash(node);
    if (const auto known = table_.find(hash, [&](NodeId k) { return same_node(out_.nodes[k], node); }))
      return *known;
    table_.add(hash, id);
  }
  out_.nodes.push_back(std::move(node));
  return id;
}

void FunctionWriter::name(NodeId made, NodeId source, bool with_axes) {
  Node& node = out_.nodes[made];
  const Node& from = source_[source];
  if (node.origin.empty()) node.origin = from.origin;
  if (with_axes && node.axis_names.empty()) node.axis_names = from.axis_names;
  if (named_[source] || !node.name.empty() || node.kind == NodeKind::input) return;
  node.name = from.name;
  named_[source] = true;
}

NodeId FunctionWriter::at(NodeId source) {
  if (place_[source] != absent) return place_[source];
  std::vector<NodeId> stack{source}; // inputs before users
  while (!stack.empty()) {
    const NodeId id = stack.back();
    if (place_[id] == absent) {
      const size_t before = stack.size();
      for (const NodeId in : source_[id].inputs)
        if (place_[in] == absent) stack.push_back(in);
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

Function FunctionWriter::finish() {
  for (FunctionResult result : source_.results) {
    result.value = at(result.value);
    out_.results.push_back(std::move(result));
  }
  passes::sweep(out_);
  return std::move(out_);
}

} // namespace luminal::rules
