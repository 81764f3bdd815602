// tensor/inspect.cpp -- the terms behind a graph.
#include "luminal/inspect.h"
#include "compile/rewrite.h"
#include "ir/infer.h"
#include "ir/text_names.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace luminal {

TermInfo inspect(const Tensor& tensor, Where where) {
  const auto graph = graph_of("inspect", {&tensor}, where);
  const Node& own = graph->builder[node_id(tensor)];
  TermInfo info;
  info.dtype = own.type().dtype;
  info.shape = to_dims(own.type().shape);
  info.name = own.kind == NodeKind::input ? std::get<InputAttr>(own.attr).name : own.name;
  const bool part = own.kind == NodeKind::get;
  if (part) info.result = std::get<GetAttr>(own.attr).index;
  const Node& term = part ? graph->builder[own.inputs[0]] : own;
  const auto* map = std::get_if<MapAttr>(&term.attr);
  info.op = map ? operation_name(term.attr) : std::string(to_string(term.kind));
  for (NodeId input : term.inputs) info.inputs.push_back(wrap(graph, input));
  Function f; // of this term alone, to be printed: what it is made from stands in as inputs
  f.name = "term";
  std::map<NodeId, NodeId> place;
  Node copy = term;
  for (NodeId& input : copy.inputs) {
    if (const auto known = place.find(input); known != place.end()) {
      input = known->second;
      continue;
    }
    const Node& from = graph->builder[input];
    const std::string given = from.kind == NodeKind::input ? std::get<InputAttr>(from.attr).name : from.name;
    Node stand_in{NodeKind::input,
                  InputAttr{fmt::format("v{}", input), Role::argument, from.type()},
                  {},
                  {from.type()},
                  given.empty() ? fmt::format("v{}", input) : given,
                  {},
                  {}};
    f.params.push_back(f.nodes.end_id());
    input = place[input] = f.nodes.add(std::move(stand_in));
  }
  f.nodes.push_back(std::move(copy));
  info.text = node_texts(f).back();
  return info;
}

std::vector<Tensor> values(const Graph& graph, Where where) {
  std::vector<Tensor> all;
  const auto& state = graph.state("values", where);
  for (NodeId id(0); id < state->end_node; ++id)
    if (!state->builder[id].is_tuple()) all.push_back(wrap(state, id));
  return all;
}

Tensor find(const Graph& graph, const std::string& name, Where where) {
  const auto& state = graph.state("find", where);
  auto found = state->inputs.find(name);
  if (found != state->inputs.end()) return wrap(state, found->second);
  std::string names;
  for (const auto& [other, _] : state->inputs) names += (names.empty() ? "" : ", ") + other;
  throw Error("find", fmt::format("there is no input {}; there are {}", name, names.empty() ? "none" : names),
              where);
}

std::vector<Tensor> add_terms(Graph& graph, std::string_view text,
                              const std::vector<std::pair<std::string, Tensor>>& inputs, Where where) {
  const auto& state = graph.state("add_terms", where);
  std::string head, params;
  int64_t lines = 1;
  for (Expr symbol : state->module.symbols) {
    head += fmt::format("symbol {}: {}..{}{}\n", symbol.name(), symbol.range().low, symbol.range().high,
                        symbol.multiple() > 1 ? fmt::format(" multiple {}", symbol.multiple()) : "");
    lines++;
  }
  std::vector<NodeId> arguments;
  for (const auto& [name, tensor] : inputs) {
    check_graph("add_terms", state, tensor, where);
    params += fmt::format("{}%{}: {}", params.empty() ? "" : ", ", name, to_string(type_of(tensor)));
    arguments.push_back(node_id(tensor));
  }
  Module module;
  try {
    module = parse_module(fmt::format("{}fn @terms({}) {{\n{}\n}}\n", head, params, text), "terms");
  } catch (const Error& error) { // its lines count from the head: tell the text's own
    std::string what = error.what();
    const size_t colon = what.find(':');
    char* end = nullptr;
    const int64_t line = colon == std::string::npos ? 0 : std::strtoll(what.c_str() + colon + 1, &end, 10);
    if (what.starts_with("terms:") && line > lines) what = fmt::format("line {}{}", line - lines, end);
    throw Error("add_terms", what, where);
  }
  const Function& function = module.entry();
  state->stale = true;
  std::vector<NodeId> made;
  try {
    made = compile::copy_into(state->builder, function, arguments);
    for (NodeId id : made) state->end_node = std::max(state->end_node, id + 1);
  } catch (const Error& error) {
    throw Error("add_terms", error.what(), where);
  }
  const bool moves = std::any_of(function.nodes.begin(), function.nodes.end(), [](const Node& node) {
    const auto* fence = std::get_if<FenceAttr>(&node.attr);
    return fence && !fence->device.empty();
  });
  std::vector<Tensor> results;
  for (NodeId id : made) {
    if (moves || state->placement) check_placement("add_terms", *state, id, where);
    results.push_back(wrap(state, id));
  }
  return results;
}

} // namespace luminal
