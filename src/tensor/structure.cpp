// tensor/structure.cpp -- Graph: loops, and functions that are called.
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {
namespace {

/// A function of the module in the making. It is closed: what it reads comes in through its
/// parameters.
class Body {
public:
  Body(std::string_view op, const std::shared_ptr<GraphState>& outer, std::string name, Where where)
      : op_(op), outer_(*outer), inner_(std::make_shared<GraphState>(std::move(name))), graph_(inner_),
        where_(where) {
    inner_->outer = &outer_;
    inner_->dims = outer_.dims;
    inner_->module = outer_.module;
    inner_->device_name = outer_.device_name;
  }
  Graph& graph() { return graph_; }
  const std::string& name() const { return inner_->name; }

  Tensor parameter(std::string name, Shape shape, DType dtype) {
    ++end_of_parameters_;
    return graph_.tensor(to_dims(shape), dtype, std::move(name), where_);
  }
  /// What a body makes lies where it gets its values from; the call refuses those of two devices.
  Tensor stand_in(std::string name, const Tensor& value, Shape shape) {
    if (const std::string& device = device_of(outer_, node_id(value)); device != outer_.device_name)
      inner_->device_name = device;
    return parameter(std::move(name), std::move(shape), type_of(value).dtype);
  }
  std::vector<Tensor> stand_ins(const std::string& name, const std::vector<Tensor>& values) {
    std::vector<Tensor> list;
    for (size_t i = 0; i < values.size(); i++) {
      const Shape shape = type_of(values[i]).shape;
      list.push_back(stand_in(fmt::format("{}{}", name, i), values[i], shape));
    }
    return list;
  }
  /// The value is made in this body.
  void check(const Tensor& value) { check_graph(op_, inner_, value, where_); }
  Function finish(const std::vector<std::pair<std::string, Tensor>>& results) {
    for (const auto& [name, id] : inner_->inputs)
      if (id >= end_of_parameters_ || inner_->builder[id].kind != NodeKind::input)
        throw Error(op_, fmt::format("{} is made inside of the body: make it outside and pass it in", name),
                    where_);
    FunctionBuilder b = inner_->builder;
    for (const auto& [name, value] : results) b.result(name, node_id(value));
    return b.finish();
  }
  /// Into the module of the graph around it, with the functions inside of it and their assumptions.
  void add(Function function) {
    outer_.module = inner_->module;
    outer_.reasons.merge(inner_->reasons);
    outer_.module.functions.push_back(std::move(function));
    outer_.stale = true;
  }

private:
  std::string op_;
  GraphState& outer_;
  std::shared_ptr<GraphState> inner_;
  Graph graph_;
  Where where_;
  NodeId end_of_parameters_{0};
};

std::vector<NodeId> ids_of(const std::vector<Tensor>& tensors) {
  std::vector<NodeId> ids;
  for (const Tensor& t : tensors) ids.push_back(node_id(t));
  return ids;
}
void check_all(std::string_view op, const std::shared_ptr<GraphState>& graph,
               const std::vector<Tensor>& tensors, Where where) {
  for (const Tensor& t : tensors) check_graph(op, graph, t, where);
}

void check_carried(std::string_view op, const std::vector<Tensor>& in, const std::vector<Tensor>& out,
                   Body& body, Where where) {
  if (in.size() != out.size())
    throw Error(op, fmt::format("the body returns {} carried values, {} go in", out.size(), in.size()),
                where);
  for (size_t i = 0; i < in.size(); i++) {
    body.check(out[i]);
    if (!(type_of(out[i]) == type_of(in[i])))
      throw Error(op,
                  fmt::format("carried value {} goes in as {} and comes back as {}", i,
                              to_string(type_of(in[i])), to_string(type_of(out[i]))),
                  where);
  }
}

std::vector<std::pair<std::string, Tensor>> named(const std::string& format,
                                                  const std::vector<Tensor>& values) {
  std::vector<std::pair<std::string, Tensor>> list;
  for (size_t i = 0; i < values.size(); i++)
    list.emplace_back(fmt::format(fmt::runtime(format), i), values[i]);
  return list;
}

/// The results of a node that has several.
std::vector<Tensor> results_of(std::string_view op, const std::shared_ptr<GraphState>& graph, Attr attr,
                               const std::vector<NodeId>& inputs, size_t count, Where where) {
  const NodeId node = node_id(
      build(op, graph, where, [&](FunctionBuilder& b) { return b.add(std::move(attr), inputs, {}, where); }));
  std::vector<Tensor> results;
  for (size_t i = 0; i < count; i++)
    results.push_back(build(op, graph, where, [&](FunctionBuilder& b) { return b.get(node, int(i)); }));
  return results;
}

void check_truth(std::string_view op, const Tensor& value, std::string_view what, Where where) {
  if (!(type_of(value) == TensorType{DType::boolean, {}}))
    throw Error(op, fmt::format("{} must be one bool, it is {}", what, to_string(type_of(value))), where);
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
  const auto graph = state("loop", where);
  for (const auto* list : {&carried, &stepped, &invariants}) check_all("loop", graph, *list, where);
  Body inner("loop", graph, fmt::format("{}_loop{}", graph->name, graph->loops++), where);
  Tensor step = inner.parameter("step", {}, DType::i64);
  const std::vector<Tensor> inner_carried = inner.stand_ins("carried", carried);
  std::vector<Tensor> slices;
  for (size_t i = 0; i < stepped.size(); i++) {
    Shape shape = type_of(stepped[i]).shape;
    if (shape.empty() || !proves_equal(shape[0], to_expr(count)))
      throw Error("loop",
                  fmt::format("stepped tensor {} of shape {} must have {} rows", i, text_of(shape),
                              count.to_string()),
                  where);
    slices.push_back(
        inner.stand_in(fmt::format("slice{}", i), stepped[i], Shape(shape.begin() + 1, shape.end())));
  }
  const LoopResult values =
      body(inner.graph(), step, inner_carried, slices, inner.stand_ins("invariant", invariants));
  check_carried("loop", carried, values.carried, inner, where);
  for (const Tensor& value : values.stacked) inner.check(value);
  auto results = named("carried{}_next", values.carried);
  for (auto& stacked : named("stacked{}", values.stacked)) results.push_back(std::move(stacked));
  inner.add(inner.finish(results));
  LoopAttr attr;
  attr.body = inner.name();
  attr.count = to_expr(count);
  attr.carried = int(carried.size());
  attr.stepped = int(stepped.size());
  std::vector<NodeId> inputs = ids_of(carried);
  for (const auto* list : {&stepped, &invariants})
    for (const Tensor& t : *list) inputs.push_back(node_id(t));
  std::vector<Tensor> made = results_of("loop", graph, attr, inputs, results.size(), where);
  const auto middle = made.begin() + std::ptrdiff_t(carried.size());
  return {{made.begin(), middle}, {middle, made.end()}};
}

Graph::WhileResult Graph::while_loop(Dim most, const std::vector<Tensor>& carried,
                                     const std::vector<Tensor>& invariants, const WhileCondition& condition,
                                     const WhileBody& body, Where where) {
  const auto graph = state("while_loop", where);
  for (const auto* list : {&carried, &invariants}) check_all("while_loop", graph, *list, where);
  const std::string name = fmt::format("{}_while{}", graph->name, graph->loops++);
  Body test("while_loop", graph, name + "_condition", where);
  const std::vector<Tensor> test_carried = test.stand_ins("carried", carried);
  const Tensor holds = condition(test.graph(), test_carried, test.stand_ins("invariant", invariants));
  test.check(holds);
  check_truth("while_loop", holds, "the condition", where);
  test.add(test.finish({{"holds", holds}}));
  Body inner("while_loop", graph, name, where);
  Tensor step = inner.parameter("step", {}, DType::i64);
  const std::vector<Tensor> inner_carried = inner.stand_ins("carried", carried);
  const std::vector<Tensor> next =
      body(inner.graph(), step, inner_carried, inner.stand_ins("invariant", invariants));
  check_carried("while_loop", carried, next, inner, where);
  inner.add(inner.finish(named("carried{}_next", next)));
  LoopAttr attr;
  attr.body = inner.name();
  attr.condition = test.name();
  attr.count = to_expr(most);
  attr.carried = int(carried.size());
  std::vector<NodeId> inputs = ids_of(carried);
  for (const Tensor& t : invariants) inputs.push_back(node_id(t));
  std::vector<Tensor> made = results_of("while_loop", graph, attr, inputs, carried.size() + 1, where);
  Tensor steps = made.back();
  made.pop_back();
  return {std::move(made), steps};
}

std::vector<Tensor> Graph::cond(const Tensor& predicate, const std::vector<Tensor>& inputs,
                                const FunctionBody& then, const FunctionBody& otherwise, Where where) {
  const auto graph = state("cond", where);
  check_graph("cond", graph, predicate, where);
  check_truth("cond", predicate, "the predicate", where);
  check_all("cond", graph, inputs, where);
  const std::string name = fmt::format("{}_cond{}", graph->name, graph->loops++);
  CondAttr attr{name + "_then", name + "_else"};
  std::vector<TensorType> types[2];
  for (int side = 0; side < 2; side++) {
    Body inner("cond", graph, side == 0 ? attr.then_function : attr.else_function, where);
    const std::vector<Tensor> values =
        (side == 0 ? then : otherwise)(inner.graph(), inner.stand_ins("input", inputs));
    for (const Tensor& value : values) {
      inner.check(value);
      types[side].push_back(type_of(value));
    }
    inner.add(inner.finish(named("result{}", values)));
  }
  const auto text = [](const std::vector<TensorType>& list) {
    std::string out;
    for (const TensorType& type : list) out += (out.empty() ? "" : ", ") + luminal::to_string(type);
    return out.empty() ? std::string("nothing") : out;
  };
  if (types[0] != types[1])
    throw Error("cond", fmt::format("one side gives {}, the other one {}", text(types[0]), text(types[1])),
                where);
  if (types[0].empty()) throw Error("cond", "both sides give nothing", where);
  std::vector<NodeId> operands = {node_id(predicate)};
  for (const Tensor& t : inputs) operands.push_back(node_id(t));
  return results_of("cond", graph, attr, operands, types[0].size(), where);
}

std::vector<Tensor> Graph::function(const std::string& name, const std::vector<Tensor>& inputs,
                                    const FunctionBody& fn, Where where) {
  auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const bool identifier =
      !name.empty() && letter(name[0]) &&
      std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
  const auto graph = state("function", where);
  if (!identifier || name == graph->name)
    throw Error("function",
                fmt::format("'{}' cannot name a function: letters, digits and _ are expected, not {}", name,
                            graph->name),
                where);
  check_all("function", graph, inputs, where);
  Body inner("function", graph, name, where);
  const std::vector<Tensor> values = fn(inner.graph(), inner.stand_ins("input", inputs));
  if (values.empty()) throw Error("function", fmt::format("{} returns no tensor", name), where);
  for (const Tensor& value : values) inner.check(value);
  Function made = inner.finish(named("result{}", values));
  if (const Function* known = graph->module.find(name)) {
    if (!same_function(*known, made))
      throw Error("function",
                  fmt::format("there is a function {} with another body: give this one another name", name),
                  where);
  } else {
    inner.add(std::move(made));
  }
  return results_of("function", graph, CallAttr{name}, ids_of(inputs), values.size(), where);
}

} // namespace luminal
