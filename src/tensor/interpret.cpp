// tensor/interpret.cpp -- interpret: values by the naive interpreter, from what the graph's inputs
// hold at present.
#include "ir/naive_interp.h"
#include "luminal/inspect.h"
#include "tensor/graph_state.h"
#include <fmt/format.h>

namespace luminal {
namespace {

/// The value that an input has now; zeros of a state that no step has written, and of what no
/// result needs.
HostTensor present_value(const std::shared_ptr<GraphState>& graph, const InputAttr& input, bool needed,
                         Where where) {
  HostTensor t{input.type.dtype, present_shape("interpret", *graph, input.type.shape, where), {}};
  t.data.resize(size_t(storage_bytes(t.dtype, t.count())));
  const auto data = graph->data.find(input.name);
  const bool given = data != graph->data.end() && (data->second.given || data->second.load);
  if (!needed || (input.role == Role::state && !given && !graph->context())) return t;
  const auto value = readable_value("interpret", wrap(graph, graph->inputs.at(input.name)), where);
  std::copy_n(value.bytes.begin(), std::min(value.bytes.size(), t.data.size()), t.data.begin());
  return t;
}

} // namespace

std::vector<double> ReferenceValue::numbers() const {
  std::vector<double> list(size_t(elements(shape)));
  for (size_t i = 0; i < list.size(); i++) list[i] = load_f64(dtype, bytes.data(), int64_t(i));
  return list;
}

std::vector<ReferenceValue> Graph::interpret(const std::vector<Tensor>& tensors, Where where) const {
  for (const Tensor& t : tensors) check_graph("interpret", state("interpret", where), t, where);
  return luminal::interpret(tensors, where);
}

std::vector<ReferenceValue> interpret(const std::vector<Tensor>& tensors, Where where) {
  if (tensors.empty()) return {};
  const auto graph = graph_of("interpret", {&tensors[0]}, where);
  Module module = graph->module;
  FunctionBuilder b = graph->builder;
  for (size_t i = 0; i < tensors.size(); i++) {
    graph_of("interpret", {&tensors[0], &tensors[i]}, where);
    b.result(fmt::format("value{}", i), node_id(tensors[i]));
  }
  module.functions.push_back(b.finish());
  const Function& f = module.entry();
  IdVector<NodeId, bool> needed(f.nodes.size());
  for (const FunctionResult& r : f.results) needed[r.value] = true;
  for (NodeId id : f.nodes.ids_down())
    if (needed[id])
      for (NodeId input : f[id].inputs) needed[input] = true;
  Bindings bindings;
  for (Expr symbol : module.symbols)
    bindings.symbols[std::string(symbol.name())] = present_shape("interpret", *graph, {symbol}, where)[0];
  for (NodeId id : f.params) {
    const auto& input = std::get<InputAttr>(f[id].attr);
    bindings.inputs[input.name] = present_value(graph, input, needed[id], where);
  }
  auto values = interpret_naively(module, bindings);
  std::vector<ReferenceValue> list;
  for (const FunctionResult& r : f.results) {
    HostTensor& t = values.at(r.name);
    list.push_back({t.dtype, std::move(t.shape), std::move(t.data)});
  }
  return list;
}

} // namespace luminal
