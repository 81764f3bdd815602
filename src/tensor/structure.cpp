// tensor/structure.cpp -- Graph: loops, and functions that are called.
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {
namespace {

/// A body is closed: what it reads comes in through its parameters.
void check_body(std::string_view op, const GraphState& inner, size_t params, Where where) {
  if (inner.inputs.size() == params) return;
  for (const auto& [name, id] : inner.inputs)
    if (id >= params || inner.builder[id].kind != NodeKind::input)
      throw Error(op, fmt::format("{} is made inside of the body: make it outside and pass it in", name),
                  where);
}

std::shared_ptr<GraphState> body_of(GraphState& outer, std::string name) {
  auto inner = std::make_shared<GraphState>(std::move(name));
  inner->outer = &outer;
  inner->dims = outer.dims;
  inner->module = outer.module;
  return inner;
}

/// What a body makes lies where it gets its values from; the call refuses those of two devices.
void place_body(GraphState& inner, GraphState& outer, const std::vector<NodeId>& inputs) {
  inner.device_name = outer.device_name;
  for (NodeId input : inputs)
    if (const std::string& device = device_of(outer, input); device != outer.device_name)
      inner.device_name = device;
}

/// What a caller can see of a function: the body, the parameters, the results.
bool same_function(const Function& a, const Function& b) {
  auto same_result = [](const FunctionResult& x, const FunctionResult& y) {
    return x.name == y.name && x.value == y.value;
  };
  return structural_hash(a) == structural_hash(b) && a.nodes.size() == b.nodes.size() &&
         std::equal(a.nodes.begin(), a.nodes.end(), b.nodes.begin(), same_node) &&
         std::equal(a.results.begin(), a.results.end(), b.results.begin(), b.results.end(), same_result);
}

} // namespace

Graph::LoopResult Graph::loop(Dim count, const std::vector<Tensor>& carried,
                              const std::vector<Tensor>& stepped, const std::vector<Tensor>& invariants,
                              const LoopBody& body, Where where) {
  auto inner = body_of(*state_, fmt::format("{}_loop{}", state_->name, state_->loops++));
  Graph inner_graph(inner);
  auto parameter = [&](std::string name, Shape shape, DType dtype) {
    return inner_graph.tensor(to_dims(shape), dtype, std::move(name), where);
  };
  Tensor step = parameter("step", {}, DType::i64);
  std::vector<Tensor> inner_carried, slices, inner_invariants;
  std::vector<NodeId> inputs;
  for (size_t i = 0; i < carried.size(); i++) {
    graph_of("loop", {&carried[i]}, where);
    inner_carried.push_back(
        parameter(fmt::format("carried{}", i), type_of(carried[i]).shape, carried[i].dtype()));
    inputs.push_back(carried[i].id());
  }
  for (size_t i = 0; i < stepped.size(); i++) {
    graph_of("loop", {&stepped[i]}, where);
    Shape shape = type_of(stepped[i]).shape;
    if (shape.empty() || !proves_equal(shape[0], to_expr(count)))
      throw Error("loop",
                  fmt::format("stepped tensor {} of shape {} must have {} rows", i, text_of(shape),
                              count.to_string()),
                  where);
    slices.push_back(
        parameter(fmt::format("slice{}", i), Shape(shape.begin() + 1, shape.end()), stepped[i].dtype()));
    inputs.push_back(stepped[i].id());
  }
  for (size_t i = 0; i < invariants.size(); i++) {
    graph_of("loop", {&invariants[i]}, where);
    inner_invariants.push_back(
        parameter(fmt::format("invariant{}", i), type_of(invariants[i]).shape, invariants[i].dtype()));
    inputs.push_back(invariants[i].id());
  }
  place_body(*inner, *state_, inputs);
  LoopResult values = body(inner_graph, step, inner_carried, slices, inner_invariants);
  if (values.carried.size() != carried.size())
    throw Error(
        "loop",
        fmt::format("the body returns {} carried values, {} go in", values.carried.size(), carried.size()),
        where);
  for (size_t i = 0; i < carried.size(); i++) {
    graph_of("loop", {&values.carried[i], &step}, where);
    if (!(type_of(values.carried[i]) == type_of(carried[i])))
      throw Error("loop",
                  fmt::format("carried value {} goes in as {} and comes back as {}", i,
                              luminal::to_string(type_of(carried[i])),
                              luminal::to_string(type_of(values.carried[i]))),
                  where);
  }
  check_body("loop", *inner, 1 + carried.size() + stepped.size() + invariants.size(), where);
  for (const Tensor& value : values.stacked) graph_of("loop", {&value, &step}, where);
  FunctionBuilder b = inner->builder;
  for (size_t i = 0; i < values.carried.size(); i++)
    b.result(fmt::format("carried{}_next", i), values.carried[i].id());
  for (size_t i = 0; i < values.stacked.size(); i++)
    b.result(fmt::format("stacked{}", i), values.stacked[i].id());
  Function function = b.finish();
  LoopAttr attr;
  attr.body = function.name;
  attr.count = to_expr(count);
  attr.carried = int(carried.size());
  attr.stepped = int(stepped.size());
  state_->module = inner->module; // functions of loops inside it, assumptions
  state_->module.functions.push_back(std::move(function));
  state_->stale = true;
  LoopResult result;
  NodeId loop = build("loop", state_, where, [&](FunctionBuilder& outer) {
                  return outer.add(attr, inputs, {}, where);
                }).id();
  for (size_t i = 0; i < carried.size() + values.stacked.size(); i++) {
    Tensor value =
        build("loop", state_, where, [&](FunctionBuilder& outer) { return outer.get(loop, int(i)); });
    (i < carried.size() ? result.carried : result.stacked).push_back(value);
  }
  return result;
}

std::vector<Tensor> Graph::function(const std::string& name, const std::vector<Tensor>& inputs,
                                    const FunctionBody& fn, Where where) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const bool identifier =
      !name.empty() && letter(name[0]) &&
      std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
  if (!identifier || name == state_->name)
    throw Error("function",
                fmt::format("'{}' cannot name a function: letters, digits and _ are expected, not {}", name,
                            state_->name),
                where);
  auto inner = body_of(*state_, name);
  Graph body(inner);
  std::vector<Tensor> stand_ins;
  std::vector<NodeId> arguments;
  for (size_t i = 0; i < inputs.size(); i++) {
    graph_of("function", {&inputs[i]}, where);
    if (inputs[i].graph() != state_) throw Error("function", "the tensors belong to another graph", where);
    stand_ins.push_back(body.tensor(inputs[i].shape(), inputs[i].dtype(), fmt::format("input{}", i), where));
    arguments.push_back(inputs[i].id());
  }
  place_body(*inner, *state_, arguments);
  const std::vector<Tensor> values = fn(body, stand_ins);
  if (values.empty()) throw Error("function", fmt::format("{} returns no tensor", name), where);
  check_body("function", *inner, inputs.size(), where);
  FunctionBuilder b = inner->builder;
  for (size_t i = 0; i < values.size(); i++) {
    if (graph_of("function", {&values[i]}, where) != inner)
      throw Error("function", fmt::format("result {} of {} was not made from its inputs", i, name), where);
    b.result(fmt::format("result{}", i), values[i].id());
  }
  Function made = b.finish();
  if (const Function* known = state_->module.find(name)) {
    if (!same_function(*known, made))
      throw Error("function",
                  fmt::format("there is a function {} with another body: give this one another name", name),
                  where);
  } else {
    state_->module = inner->module; // functions inside of it, assumptions
    state_->module.functions.push_back(std::move(made));
  }
  const NodeId call = build("function", state_, where, [&](FunctionBuilder& outer) {
                        return outer.add(CallAttr{name}, arguments, {}, where);
                      }).id();
  std::vector<Tensor> results;
  for (size_t i = 0; i < values.size(); i++)
    results.push_back(
        build("function", state_, where, [&](FunctionBuilder& outer) { return outer.get(call, int(i)); }));
  return results;
}

} // namespace luminal
