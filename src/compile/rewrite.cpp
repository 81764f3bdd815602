// compile/rewrite.cpp -- inlining, and sorts as folds and scatters.
#include "compile/rewrite.h"
#include "base/check.h"
#include <algorithm>
#include <functional>
#include <set>

namespace luminal::compile {
namespace {

/// Copies a function node by node; `replace` may give the copy of a node itself (for a tuple: the values that its `get`s become).
using Replace = std::function<bool(FunctionBuilder&, const Node&, const std::vector<NodeId>& inputs,
                                   std::vector<NodeId>& values)>;

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
      std::vector<NodeId> inputs;
      for (NodeId input : node.inputs) inputs.push_back(copies[input]);
      std::vector<NodeId> values;
      if (replace && replace(target, node, inputs, values)) {
        if (node.is_tuple())
          tuples[id] = values;
        else
          copies[id] = values[0];
        continue;
      }
      copies[id] = target.add(node.attr, inputs, node.axis_names);
      if (!node.origin.empty()) target.origin(copies[id], node.origin);
      if (!node.name.empty() && target[copies[id]].name.empty()) target.name(copies[id], node.name);
    }
  }
};

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

bool holds(const Function& function, NodeKind kind) {
  return std::any_of(function.nodes.begin(), function.nodes.end(),
                     [&](const Node& node) { return node.kind == kind; });
}

/// The permuted operands of a sort.
std::vector<NodeId> sort_by_rank(FunctionBuilder& b, const SortAttr& sort,
                                 const std::vector<NodeId>& inputs) {
  NodeId keys = inputs[0];
  const TensorType type = b[keys].type();
  const int rank = int(type.shape.size()), axis = sort.axis;
  const Expr extent = type.shape[size_t(axis)];
  // Space: the axes of the keys, then j along the sorted axis.
  Shape space = type.shape;
  space.push_back(extent);
  std::vector<Expr> at_i, at_j;
  for (int d = 0; d < rank; d++) {
    at_i.push_back(axis_symbol(d, space[size_t(d)]));
    at_j.push_back(d == axis ? axis_symbol(rank, extent) : at_i.back());
  }
  NodeId x = b.view(keys, space, at_i), y = b.view(keys, space, at_j);
  NodeId before = sort.descending ? b.map(Op::lt, {x, y}) : b.map(Op::lt, {y, x});
  NodeId equal = b.map(Op::eq, {x, y});
  if (is_float(type.dtype)) { // NaN comes after every number, and is equal to NaN
    NodeId x_nan = b.map(Op::is_nan, {x}), y_nan = b.map(Op::is_nan, {y});
    before = b.map(Op::bit_or, {before, b.map(Op::bit_and, {x_nan, b.map(Op::bit_not, {y_nan})})});
    equal = b.map(Op::bit_or, {equal, b.map(Op::bit_and, {x_nan, y_nan})});
  }
  NodeId earlier = b.iota(space, lt(axis_symbol(rank, extent), axis_symbol(axis, extent)), DType::boolean);
  NodeId counts = b.cast(b.map(Op::bit_or, {before, b.map(Op::bit_and, {equal, earlier})}), DType::i64);
  NodeId position = b.reduce(Op::add, counts, {rank});
  std::vector<NodeId> sorted;
  for (NodeId input : inputs) {
    std::vector<int> all;
    ScatterAttr scatter;
    for (int d = 0; d < rank; d++) {
      all.push_back(d);
      scatter.map.push_back(axis_symbol(d, type.shape[size_t(d)]));
    }
    const int64_t most = extent.range().high; // an axis without elements has no places, and asks for none
    Interval range{0, most == unbounded_high ? most : std::max<int64_t>(most - 1, 0)};
    scatter.map[size_t(axis)] = hole_symbol(0, range);
    scatter.holes.push_back({.input = 2, .axes = all, .range = range, .policy = OutOfRange::clamp});
    scatter.unique = true;
    NodeId zero = b.constant(b[input].type().dtype, 0);
    NodeId base = b.view(zero, type.shape, {});
    sorted.push_back(b.add(scatter, {base, input, position}));
  }
  return sorted;
}

} // namespace

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
  Replace replace = [&](FunctionBuilder& b, const Node& node, const std::vector<NodeId>& inputs,
                        std::vector<NodeId>& values) {
    if (node.kind != NodeKind::call) return false;
    const Function* callee = module.find(std::get<CallAttr>(node.attr).function);
    LUMINAL_CHECK(callee, "call of unknown function {}", std::get<CallAttr>(node.attr).function);
    values = copy_into(b, inline_calls(module, *callee), inputs);
    return true;
  };
  return rebuild(module, function, replace);
}

Function expand_sorts(const Module& module, const Function& function) {
  if (!holds(function, NodeKind::sort)) return function;
  Replace replace = [](FunctionBuilder& b, const Node& node, const std::vector<NodeId>& inputs,
                       std::vector<NodeId>& values) {
    if (node.kind != NodeKind::sort) return false;
    values = sort_by_rank(b, std::get<SortAttr>(node.attr), inputs);
    return true;
  };
  return rebuild(module, function, replace);
}

} // namespace luminal::compile
