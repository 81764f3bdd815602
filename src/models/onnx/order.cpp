// models/onnx/order.cpp -- the nodes of a graph in an order in which each comes after those that it reads.
#include "models/onnx/importer.h"

namespace luminal::onnx {
namespace {

void collect_free(const GraphData& graph, std::set<std::string>& free) {
  std::set<std::string> made;
  for (const ValueData& input : graph.inputs) made.insert(input.name);
  for (const TensorData& tensor : graph.initializers) made.insert(tensor.name);
  const auto read = [&](const std::string& name) {
    if (!name.empty() && !made.contains(name)) free.insert(name);
  };
  for (const NodeData& node : graph.nodes) {
    for (const std::string& name : names_read(node)) read(name);
    made.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const ValueData& output : graph.outputs) read(output.name);
}

using Readers = std::vector<std::vector<size_t>>;

/// For each node those of the list that make what it reads, if one of them stands behind its reader.
std::optional<Readers> makers_of(const std::vector<NodeData>& nodes) {
  std::map<std::string_view, size_t> maker;
  for (size_t k = 0; k < nodes.size(); k++)
    for (const std::string& name : nodes[k].outputs)
      if (!name.empty()) maker.try_emplace(name, k);
  Readers makers(nodes.size());
  bool behind = false;
  for (size_t k = 0; k < nodes.size(); k++)
    for (const std::string& name : names_read(nodes[k]))
      if (const auto found = maker.find(name); found != maker.end()) {
        makers[k].push_back(found->second);
        behind |= found->second > k;
      }
  if (!behind) return {};
  return makers;
}

/// Each node after what it reads, otherwise in the order of the file. Nodes that read each other in a circle
/// stay where they are: building them names the value.
void put_in_order(std::vector<NodeData>& nodes) {
  for (NodeData& node : nodes)
    for (Attribute& attribute : node.attributes)
      for (GraphData& graph : attribute.graphs) put_in_order(graph.nodes);
  const auto makers = makers_of(nodes);
  if (!makers) return;
  std::vector<NodeData> ordered;
  std::vector<bool> begun(nodes.size());
  struct Step {
    size_t node, next;
  };
  for (size_t first = 0; first < nodes.size(); first++) {
    if (begun[first]) continue;
    begun[first] = true;
    std::vector<Step> stack{{first, 0}}; // chains of nodes are too long for calls
    while (!stack.empty()) {
      Step& top = stack.back();
      if (top.next == (*makers)[top.node].size()) {
        ordered.push_back(std::move(nodes[top.node]));
        stack.pop_back();
      } else if (const size_t read = (*makers)[top.node][top.next++]; !begun[read]) {
        begun[read] = true;
        stack.push_back({read, 0});
      }
    }
  }
  nodes = std::move(ordered);
}

} // namespace

std::set<std::string> names_read(const NodeData& node) {
  std::set<std::string> names;
  for (const std::string& name : node.inputs)
    if (!name.empty()) names.insert(name);
  for (const Attribute& attribute : node.attributes)
    for (const GraphData& graph : attribute.graphs) names.merge(free_names(graph));
  return names;
}

std::set<std::string> free_names(const GraphData& graph) {
  std::set<std::string> free;
  collect_free(graph, free);
  return free;
}

void put_in_order(ModelData& model) {
  put_in_order(model.graph.nodes);
  for (FunctionData& function : model.functions) put_in_order(function.nodes);
}

} // namespace luminal::onnx
