// models/onnx/export_graph.cpp -- nodes, constants and scopes of an ONNX file in the making.
#include "models/onnx/export_graph.h"
#include "models/onnx/export_patterns.h"
#include "models/onnx/importer.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>

namespace luminal::onnx_export {

using onnx::element_type_of;
namespace {

/// What tells the node from others; empty: it is like no other.
std::string key_of(const std::string& op, const std::vector<std::string>& inputs,
                   const std::vector<Attribute>& attributes) {
  std::string key = op;
  for (const std::string& input : inputs) key += '\n' + input;
  for (const Attribute& a : attributes) {
    if (a.kind == Attribute::Kind::graph) return {};
    key += fmt::format("\n={} {} {} {}", a.name, a.integer, a.number, a.text);
    for (const int64_t n : a.integers) key += fmt::format(" {}", n);
  }
  return key;
}

/// Adds the names that the graph reads and does not make.
void add_read(const GraphData& graph, std::set<std::string>& read) {
  std::set<std::string> inside, made;
  for (const ValueData& output : graph.outputs) inside.insert(output.name);
  for (const ValueData& input : graph.inputs) made.insert(input.name);
  for (const NodeData& node : graph.nodes) {
    inside.insert(node.inputs.begin(), node.inputs.end());
    for (const Attribute& a : node.attributes)
      for (const GraphData& inner : a.graphs) add_read(inner, inside);
    made.insert(node.outputs.begin(), node.outputs.end());
  }
  for (const std::string& name : inside)
    if (!made.contains(name)) read.insert(name);
}

void rename(GraphData& graph, const std::string& from, const std::string& to) {
  for (NodeData& node : graph.nodes) {
    std::replace(node.inputs.begin(), node.inputs.end(), from, to);
    std::replace(node.outputs.begin(), node.outputs.end(), from, to);
    for (Attribute& a : node.attributes)
      for (GraphData& inner : a.graphs) rename(inner, from, to);
  }
  for (ValueData& output : graph.outputs)
    if (output.name == from) output.name = to;
}

} // namespace

Attribute attribute(std::string name, int64_t integer) {
  Attribute a;
  a.name = std::move(name);
  a.kind = Attribute::Kind::integer;
  a.integer = integer;
  return a;
}
Attribute attribute(std::string name, float number) {
  Attribute a;
  a.name = std::move(name);
  a.kind = Attribute::Kind::number;
  a.number = number;
  return a;
}
Attribute attribute(std::string name, std::string text) {
  Attribute a;
  a.name = std::move(name);
  a.kind = Attribute::Kind::text;
  a.text = std::move(text);
  return a;
}
Attribute attribute(std::string name, std::vector<int64_t> integers) {
  Attribute a;
  a.name = std::move(name);
  a.kind = Attribute::Kind::integers;
  a.integers = std::move(integers);
  return a;
}
Attribute attribute(std::string name, GraphData graph) {
  Attribute a;
  a.name = std::move(name);
  a.kind = Attribute::Kind::graph;
  a.graphs.push_back(std::move(graph));
  return a;
}

std::string ExportGraph::free_name(const std::string& wish) {
  if (names_.insert(wish).second) return wish;
  for (int& number = numbers_[wish];;) {
    std::string name = fmt::format("{}_{}", wish, ++number);
    if (names_.insert(name).second) return name;
  }
}

std::vector<std::string> ExportGraph::nodes(const std::string& op, std::vector<std::string> inputs,
                                            size_t results, std::vector<Attribute> attributes) {
  const std::string key = key_of(op, inputs, attributes);
  if (!key.empty())
    for (const Scope& scope : scopes_)
      if (const auto found = scope.made.find(key); found != scope.made.end()) return found->second;
  NodeData node;
  node.op_type = op;
  node.inputs = std::move(inputs);
  node.attributes = std::move(attributes);
  for (size_t i = 0; i < results; i++) node.outputs.push_back(free_name(op));
  node.name = node.outputs[0];
  const auto names = node.outputs;
  scopes_.back().graph.nodes.push_back(std::move(node));
  if (!key.empty()) scopes_.back().made.emplace(key, names);
  return names;
}

std::string ExportGraph::constant(DType type, std::vector<int64_t> shape, std::vector<std::byte> bytes) {
  std::string key = fmt::format("{}", int(type));
  for (const int64_t extent : shape) key += fmt::format(" {}", extent);
  key += '\n';
  key.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto [place, added] = constants_.try_emplace(key);
  if (!added) return place->second;
  TensorData tensor;
  tensor.name = place->second = free_name("constant");
  tensor.type = element_type_of(type);
  tensor.shape = std::move(shape);
  if (tensor.elements() == 1) known_[tensor.name] = load_f64(type, bytes.data(), 0);
  tensor.owned = std::make_shared<const std::vector<std::byte>>(std::move(bytes));
  tensor.bytes = *tensor.owned;
  scopes_[0].graph.initializers.push_back(std::move(tensor));
  return place->second;
}
std::vector<int64_t> ExportGraph::integers_of(const std::string& name) const {
  const auto found = lists_.find(name);
  return found == lists_.end() ? std::vector<int64_t>{} : found->second;
}
std::optional<float> ExportGraph::filled_with(const std::string& name) const {
  for (const TensorData& tensor : scopes_[0].graph.initializers) {
    if (tensor.name != name || !tensor.owned || tensor.type != ElementType::f32 || tensor.elements() == 0)
      continue;
    const double first = load_f64(DType::f32, tensor.bytes.data(), 0);
    for (int64_t i = 1; i < tensor.elements(); i++)
      if (load_f64(DType::f32, tensor.bytes.data(), i) != first) return {};
    return float(first);
  }
  return {};
}
std::string ExportGraph::integers(const std::vector<int64_t>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(int64_t));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  std::string name = constant(DType::i64, {int64_t(values.size())}, std::move(bytes));
  lists_[name] = values;
  return name;
}
std::string ExportGraph::integer(int64_t value) {
  std::vector<std::byte> bytes(sizeof value);
  std::memcpy(bytes.data(), &value, sizeof value);
  return constant(DType::i64, {}, std::move(bytes));
}
std::optional<double> ExportGraph::known(const std::string& name) const {
  const auto found = known_.find(name);
  return found == known_.end() ? std::nullopt : std::optional(found->second);
}
void ExportGraph::weight(TensorData tensor) { scopes_[0].graph.initializers.push_back(std::move(tensor)); }

GraphData ExportGraph::end_scope(std::vector<ValueData> inputs, std::vector<ValueData> outputs) {
  // An output is the result of a node of this scope, each of another one.
  for (size_t i = 0; i < outputs.size(); i++) {
    NodeData same;
    same.op_type = "Identity";
    same.inputs = {outputs[i].name};
    same.outputs = {free_name("Identity")};
    same.name = outputs[i].name = same.outputs[0];
    scopes_.back().graph.nodes.push_back(std::move(same));
  }
  GraphData graph = std::move(scopes_.back().graph);
  scopes_.pop_back();
  graph.name = free_name("body");
  graph.inputs = std::move(inputs);
  graph.outputs = std::move(outputs);
  prune(graph);
  return graph;
}

GraphData ExportGraph::finish(std::vector<ValueData> inputs, std::vector<ValueData> outputs,
                              const std::vector<std::string>& values,
                              const std::map<std::string, ValueType>& types) {
  GraphData& graph = scopes_[0].graph;
  graph.outputs.resize(values.size());
  for (size_t i = 0; i < values.size(); i++) graph.outputs[i].name = values[i];
  join_operators(*this, graph, types);
  std::set<std::string> taken;
  for (const ValueData& input : inputs) taken.insert(input.name);
  for (const TensorData& tensor : graph.initializers) taken.insert(tensor.name);
  for (size_t i = 0; i < outputs.size(); i++) {
    while (taken.contains(outputs[i].name)) outputs[i].name += "_result";
    NodeData same;
    same.op_type = "Identity";
    same.inputs = {values[i]};
    same.outputs = {outputs[i].name};
    same.name = outputs[i].name;
    // A value of one output alone has its name, and needs no node.
    const bool made = std::any_of(graph.nodes.begin(), graph.nodes.end(), [&](const NodeData& node) {
      return std::find(node.outputs.begin(), node.outputs.end(), values[i]) != node.outputs.end();
    });
    if (made && std::count(values.begin(), values.end(), values[i]) == 1 && !taken.contains(values[i]))
      rename(graph, values[i], outputs[i].name);
    else
      graph.nodes.push_back(std::move(same));
    taken.insert(outputs[i].name);
  }
  graph.inputs = std::move(inputs);
  graph.outputs = std::move(outputs);
  prune(graph);
  std::set<std::string> read;
  add_read(graph, read);
  std::erase_if(graph.initializers, [&](const TensorData& t) { return !read.contains(t.name); });
  return std::move(graph);
}

void ExportGraph::prune(GraphData& graph) {
  std::set<std::string> read;
  for (const ValueData& output : graph.outputs) read.insert(output.name);
  std::vector<NodeData> kept;
  for (size_t i = graph.nodes.size(); i-- > 0;) {
    NodeData& node = graph.nodes[i];
    if (std::none_of(node.outputs.begin(), node.outputs.end(),
                     [&](const std::string& name) { return read.contains(name); }))
      continue;
    read.insert(node.inputs.begin(), node.inputs.end());
    for (const Attribute& a : node.attributes)
      for (const GraphData& inner : a.graphs) add_read(inner, read);
    kept.push_back(std::move(node));
  }
  std::reverse(kept.begin(), kept.end());
  graph.nodes = std::move(kept);
}

bool ExportGraph::reads(const GraphData& graph, const std::string& name) {
  std::set<std::string> read;
  GraphData inside = graph; // its inputs count as what others make
  inside.inputs.clear();
  add_read(inside, read);
  return read.contains(name);
}

int64_t ExportGraph::opset_of(const GraphData& graph) {
  int64_t opset = 20; // Gelu, IsNaN of all floats, AveragePool with dilations
  const auto narrow = [&](ElementType type) {
    if (type == ElementType::i4 || type == ElementType::u4) opset = std::max<int64_t>(opset, 21);
  };
  for (const TensorData& tensor : graph.initializers) narrow(tensor.type);
  for (const ValueData& value : graph.inputs) narrow(value.type);
  for (const NodeData& node : graph.nodes) {
    if (node.op_type == "BitCast") opset = std::max<int64_t>(opset, 26);
    for (const Attribute& a : node.attributes) {
      if (node.op_type == "Cast" && a.name == "to") narrow(ElementType(int32_t(a.integer)));
      for (const GraphData& inner : a.graphs) opset = std::max(opset, opset_of(inner));
    }
  }
  return opset;
}

} // namespace luminal::onnx_export
