// tensor/graph.cpp -- Graph: dimensions, inputs, states, constants, loops.
#include "luminal/device.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {

Module GraphState::snapshot() const {
  Module result = module;
  FunctionBuilder b = builder;
  for (const auto& [node, label] : kept) b.result(label, node);
  for (const auto& [state, next] : updates) {
    const std::string& label = std::get<InputAttr>(builder[state].attr).name;
    b.result(label + "_next", next, label);
  }
  for (size_t i = 0; i < effects.size(); i++)
    b.result(fmt::format("effect{}", i), effects[i], "",
             i ? std::vector<std::string>{fmt::format("effect{}", i - 1)} : std::vector<std::string>{});
  result.functions.push_back(b.finish());
  return result;
}

Graph::Graph() : Graph(default_device()) {}
Graph::Graph(const Device& device) : state_(std::make_shared<GraphState>("main")) {
  state_->device_name = device.name();
}
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

Dim Graph::dim(std::string name, int64_t low, int64_t high, Where where) {
  if (low < 0 || high < low)
    throw Error("dim", fmt::format("{}: {}..{} is no range of sizes", name, low, high), where);
  if (auto known = state_->dims.find(name); known != state_->dims.end()) {
    if (known->second.range() == Interval{low, high}) return Dim::from_id(known->second.id());
    throw Error("dim",
                fmt::format("dimension {} is declared with another range, {}..{}", name,
                            known->second.range().low, known->second.range().high),
                where);
  }
  Expr symbol = Expr::symbol(name, {low, high});
  state_->dims[name] = symbol;
  auto& symbols = state_->module.symbols;
  symbols.insert(std::upper_bound(symbols.begin(), symbols.end(), symbol,
                                  [](Expr a, Expr b) { return a.name() < b.name(); }),
                 symbol);
  return Dim::from_id(symbol.id());
}

void Graph::set_dim(const std::string& name, int64_t value, Where where) {
  auto known = state_->dims.find(name);
  if (known == state_->dims.end())
    throw Error("set_dim", fmt::format("the graph has no dimension {}", name), where);
  Interval range = known->second.range();
  if (!range.contains(value))
    throw Error("set_dim",
                fmt::format("{} = {} is outside its range {}..{}", name, value, range.low, range.high),
                where);
  state_->dim_values[name] = value;
}

namespace {
Tensor add_input(const std::shared_ptr<GraphState>& graph, std::string name, const Dims& dims, DType dtype,
                 Role role, std::string_view op, Where where) {
  if (name.empty()) name = fmt::format("input{}", graph->unnamed++);
  if (graph->inputs.contains(name))
    throw Error(op, fmt::format("there is a tensor named {} already", name), where);
  Tensor t = build(op, graph, where, [&](FunctionBuilder& b) {
    const std::string& device = graph->scopes.empty() ? graph->device_name : graph->scopes.back();
    const bool named = !graph->outer && device != "cpu";
    const NodeId id =
        b.add(InputAttr{name, role, {dtype, to_shape(dims)}, named ? device : ""}, {}, {}, where);
    b.name(id, name);
    return id;
  });
  graph->inputs[name] = t.id();
  return t;
}
} // namespace

Tensor Graph::tensor(Dims shape, DType dtype, std::string name, Where where) {
  return add_input(state_, std::move(name), shape, dtype, Role::argument, "tensor", where);
}
Tensor Graph::weight(std::string name, Dims shape, DType dtype, Where where) {
  return add_input(state_, std::move(name), shape, dtype, Role::weight, "weight", where);
}
Tensor Graph::state(std::string name, Dims shape, DType dtype, Where where) {
  return add_input(state_, std::move(name), shape, dtype, Role::state, "state", where);
}

void Graph::update(const Tensor& state, const Tensor& next, Where where) {
  graph_of("update", {&state, &next}, where);
  if (state_->outer)
    throw Error("update", "inside of a loop or function there are no states: carry the value", where);
  if (state.graph() != state_) throw Error("update", "the tensors belong to another graph", where);
  if (input_attr(*state_, state.id(), "update", where).role != Role::state)
    throw Error("update", "only a tensor made by Graph::state can be updated", where);
  if (!(type_of(state) == type_of(next)))
    throw Error("update",
                fmt::format("the state is {}, its next value {}", luminal::to_string(type_of(state)),
                            luminal::to_string(type_of(next))),
                where);
  if (const std::string &from = device_of(*state_, next.id()), &to = device_of(*state_, state.id());
      from != to)
    throw Error("update",
                fmt::format("the state lies on {}, its next value on {}: nothing moves by itself", to, from),
                where);
  for (auto& [s, _] : state_->updates)
    if (s == state.id()) throw Error("update", "the state has a next value already", where);
  state_->updates.push_back({state.id(), next.id()});
  state_->stale = true;
}

Tensor Graph::constant(double value, DType dtype, Where where) {
  return build("constant", state_, where, [&](FunctionBuilder& b) { return b.constant(dtype, value); });
}
Tensor Graph::constant_bytes(std::span<const std::byte> bytes, DType dtype, Dims shape, Where where) {
  TensorType type{dtype, to_shape(shape)};
  int64_t count = elements(present_shape("constant", *state_, type.shape, where));
  if (int64_t(bytes.size()) != storage_bytes(dtype, count))
    throw Error("constant",
                fmt::format("{} needs {} bytes, {} were given", luminal::to_string(type),
                            storage_bytes(dtype, count), bytes.size()),
                where);
  return build("constant", state_, where,
               [&](FunctionBuilder& b) { return b.constant(type, {bytes.begin(), bytes.end()}); });
}
Tensor Graph::constant(const HostValues& values, Dims shape, Where where) {
  if (!values.ragged().empty()) throw Error("constant", values.ragged(), where);
  const Shape wanted = to_shape(shape);
  const std::vector<int64_t> extents = present_shape("constant", *state_, wanted, where);
  if (values.shape().size() > 1 ? values.shape() != extents : values.count() != elements(extents))
    throw Error("constant",
                fmt::format("the shape is {}, the values have shape {}", text_of(wanted),
                            text_of({values.shape().begin(), values.shape().end()})),
                where);
  return constant_bytes(values.bytes(), values.dtype(), std::move(shape), where);
}
Tensor Graph::iota(Dims shape, const std::function<Dim(const Dims& axes)>& value, DType dtype, Where where) {
  const Shape extents = to_shape(shape);
  Dims axes;
  for (size_t d = 0; d < extents.size(); d++)
    axes.push_back(Dim::from_id(axis_symbol(int(d), extents[d]).id()));
  const Expr element = to_expr(value(axes));
  return build("iota", state_, where, [&](FunctionBuilder& b) { return b.iota(extents, element, dtype); });
}
Tensor Graph::arange(Dim count, DType dtype, Where where) { return arange(0, count, dtype, where); }
Tensor Graph::arange(Dim start, Dim end, DType dtype, Where where) {
  Expr first = to_expr(start), n = to_expr(end) - first;
  return build("arange", state_, where,
               [&](FunctionBuilder& b) { return b.iota({n}, first + axis_symbol(0, n), dtype); });
}

} // namespace luminal
