// compile/rewrite.cpp -- inlining, and sorts as what kernels compute.
#include "compile/rewrite.h"
#include "base/check.h"
#include "compile/sort.h"
#include <algorithm>
#include <set>

namespace luminal::compile {
namespace {

std::vector<NodeId> copies_of(const std::vector<NodeId>& nodes, const std::vector<NodeId>& copies) {
  std::vector<NodeId> out;
  for (NodeId id : nodes) out.push_back(copies[id]);
  return out;
}

struct Copier {
  FunctionBuilder& target;
  const Function& source;
  const Replace& replace;
  std::vector<NodeId> copies = {};
  std::map<NodeId, std::vector<NodeId>> tuples = {};

  void run(const std::vector<NodeId>& params) {
    std::set<NodeId> needed;
    std::vector<NodeId> stack;
    for (const auto& result : source.results) stack.push_back(result.value);
    while (!stack.empty()) {
      NodeId id = stack.back();
      stack.pop_back();
      if (!needed.insert(id).second) continue;
      for (NodeId input : source[id].inputs) stack.push_back(input);
    }
    copies.assign(source.nodes.size(), 0);
    for (size_t i = 0; i < source.params.size(); i++) copies[source.params[i]] = params[i];
    for (NodeId id = 0; id < source.nodes.size(); id++) {
      const Node& node = source[id];
      if (!needed.contains(id) || node.kind == NodeKind::input) continue;
      if (node.kind == NodeKind::get)
        if (auto tuple = tuples.find(node.inputs[0]); tuple != tuples.end()) {
          copies[id] = tuple->second[size_t(std::get<GetAttr>(node.attr).index)];
          continue;
        }
      std::vector<NodeId> values;
      if (replace && replace(target, id, copies, values)) {
        if (node.is_tuple())
          tuples[id] = values;
        else
          copies[id] = values[0];
        continue;
      }
      copies[id] = target.add(node.attr, copies_of(node.inputs, copies), node.axis_names);
      if (!node.origin.empty()) target.origin(copies[id], node.origin);
      if (!node.name.empty() && target[copies[id]].name.empty()) target.name(copies[id], node.name);
    }
  }
};

bool holds(const Function& function, NodeKind kind) {
  return std::any_of(function.nodes.begin(), function.nodes.end(),
                     [&](const Node& node) { return node.kind == kind; });
}

} // namespace

Function rebuild(const Module& module, const Function& function, const Replace& replace) {
  FunctionBuilder builder(function.name, &module);
  std::vector<NodeId> params;
  for (NodeId id : function.params) {
    const auto& attr = std::get<InputAttr>(function[id].attr);
    params.push_back(builder.input(attr.name, function[id].type(), attr.role));
  }
  Copier copier{builder, function, replace};
  copier.run(params);
  for (const auto& result : function.results)
    builder.result(result.name, copier.copies[result.value], result.state, result.after);
  return builder.finish();
}

std::vector<NodeId> copy_into(FunctionBuilder& target, const Function& source,
                              const std::vector<NodeId>& params) {
  Copier copier{target, source, {}};
  copier.run(params);
  std::vector<NodeId> results;
  for (const auto& result : source.results) results.push_back(copier.copies[result.value]);
  return results;
}

Function inline_calls(const Module& module, const Function& function) {
  if (!holds(function, NodeKind::call)) return function;
  Replace replace = [&](FunctionBuilder& b, NodeId id, const std::vector<NodeId>& copies,
                        std::vector<NodeId>& values) {
    const Node& node = function[id];
    if (node.kind != NodeKind::call) return false;
    const Function* callee = module.find(std::get<CallAttr>(node.attr).function);
    LUMINAL_CHECK(callee, "call of unknown function {}", std::get<CallAttr>(node.attr).function);
    values = copy_into(b, inline_calls(module, *callee), copies_of(node.inputs, copies));
    return true;
  };
  return rebuild(module, function, replace);
}

Function expand_sorts(const Module& module, const Function& function) {
  if (!holds(function, NodeKind::sort)) return function;
  Replace replace = [&](FunctionBuilder& b, NodeId id, const std::vector<NodeId>& copies,
                        std::vector<NodeId>& values) {
    const Node& node = function[id];
    if (node.kind != NodeKind::sort) return false;
    values = sorted_operands(b, std::get<SortAttr>(node.attr), copies_of(node.inputs, copies));
    return true;
  };
  return rebuild(module, function, replace);
}

} // namespace luminal::compile
