// tensor/graph.cpp -- Graph: dimensions, inputs, states, constants, loops.
#include "luminal/device.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {

Module GraphState::snapshot() const {
  Module result = module;
  FunctionBuilder b = builder;
  const auto free_name = [&](std::string wish) { // the user may have called a kept value so
    while (std::any_of(kept.begin(), kept.end(), [&](const auto& k) { return k.second == wish; }))
      wish += "_";
    return wish;
  };
  for (const auto& [node, label] : kept) b.result(label, node);
  for (const auto& [state, next] : updates) {
    const std::string& label = std::get<InputAttr>(builder[state].attr).name;
    b.result(free_name(label + "_next"), next, label);
  }
  for (size_t i = 0; i < effects.size(); i++)
    b.result(free_name(fmt::format("effect{}", i)), effects[i], "",
             i ? std::vector<std::string>{free_name(fmt::format("effect{}", i - 1))}
               : std::vector<std::string>{});
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

const std::shared_ptr<GraphState>& Graph::state(std::string_view operation, Where where) const {
  if (!state_)
    throw Error(operation, "the graph was moved from: what it was moved to has its tensors", where);
  return state_;
}

namespace {
std::string in_steps(Expr symbol) {
  return symbol.multiple() > 1 ? fmt::format(" in steps of {}", symbol.multiple()) : "";
}
} // namespace

Dim Graph::dim(std::string name, int64_t low, int64_t high, Where where) {
  return dim(std::move(name), low, high, 1, where);
}

Dim Graph::dim(std::string name, int64_t low, int64_t high, int64_t multiple_of, Where where) {
  GraphState& g = *state("dim", where);
  if (low < 0 || high < low)
    throw Error("dim", fmt::format("{}: {}..{} is not a range of sizes", name, low, high), where);
  if (multiple_of < 1 || high / multiple_of * multiple_of < low)
    throw Error("dim", fmt::format("{}: {}..{} holds no multiple of {}", name, low, high, multiple_of),
                where);
  if (auto known = g.dims.find(name); known != g.dims.end()) {
    const Expr was = known->second;
    const int64_t first = (low + multiple_of - 1) / multiple_of * multiple_of;
    if (was.range() == Interval{first, high / multiple_of * multiple_of} && was.multiple() == multiple_of)
      return Dim::from_id(was.id());
    throw Error("dim",
                fmt::format("dimension {} is declared with another range, {}..{}{}", name, was.range().low,
                            was.range().high, in_steps(was)),
                where);
  }
  Expr symbol;
  try {
    symbol = Expr::symbol(name, {low, high}, multiple_of);
  } catch (const Error&) {
    throw Error("dim", fmt::format("'{}' cannot name a dimension: letters, digits and _ are expected", name),
                where);
  }
  g.dims[name] = symbol;
  auto& symbols = g.module.symbols;
  symbols.insert(std::upper_bound(symbols.begin(), symbols.end(), symbol,
                                  [](Expr a, Expr b) { return a.name() < b.name(); }),
                 symbol);
  return Dim::from_id(symbol.id());
}

void Graph::set_dim(const std::string& name, int64_t value, Where where) {
  GraphState& g = *state("set_dim", where);
  auto known = g.dims.find(name);
  if (known == g.dims.end()) throw Error("set_dim", no_dimension(g, name), where);
  Interval range = known->second.range();
  if (!range.contains(value) || value % known->second.multiple() != 0)
    throw Error("set_dim",
                fmt::format("{} = {} is outside its range {}..{}{}", name, value, range.low, range.high,
                            in_steps(known->second)),
                where);
  g.dim_values[name] = value;
}

namespace {
Tensor add_input(const std::shared_ptr<GraphState>& graph, std::string name, const Dims& dims, DType dtype,
                 Role role, std::string_view op, Where where) {
  check_dtype(op, dtype, where);
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
  graph->inputs[name] = node_id(t);
  return t;
}
} // namespace

std::string no_dimension(const GraphState& graph, const std::string& name) {
  std::string names;
  for (const auto& [known, symbol] : graph.dims) names += (names.empty() ? "" : ", ") + known;
  return fmt::format("the graph has no dimension {}; it has {}", name, names.empty() ? "none" : names);
}

Tensor Graph::tensor(Dims shape, DType dtype, std::string name, Where where) {
  return add_input(state("tensor", where), std::move(name), shape, dtype, Role::argument, "tensor", where);
}
Tensor Graph::weight(std::string name, Dims shape, DType dtype, Where where) {
  return add_input(state("weight", where), std::move(name), shape, dtype, Role::weight, "weight", where);
}
Tensor Graph::state(std::string name, Dims shape, DType dtype, Where where) {
  return add_input(state("state", where), std::move(name), shape, dtype, Role::state, "state", where);
}

void Graph::update(const Tensor& state, const Tensor& next, Where where) {
  if (this->state("update", where)->outer)
    throw Error("update", "inside of a loop or function there are no states: carry the value", where);
  check_graph("update", state_, state, where);
  check_graph("update", state_, next, where);
  if (input_attr(*state_, node_id(state), "update", where).role != Role::state)
    throw Error("update", "only a tensor made by Graph::state can be updated", where);
  if (!(type_of(state) == type_of(next)))
    throw Error("update",
                fmt::format("the state is {}, its next value {}", luminal::to_string(type_of(state)),
                            luminal::to_string(type_of(next))),
                where);
  if (const std::string &from = device_of(*state_, node_id(next)), &to = device_of(*state_, node_id(state));
      from != to)
    throw Error("update",
                fmt::format("the state lies on {}, its next value on {}: nothing moves by itself", to, from),
                where);
  for (auto& [s, _] : state_->updates)
    if (s == node_id(state)) throw Error("update", "the state has a next value already", where);
  state_->updates.push_back({node_id(state), node_id(next)});
  state_->stale = true;
}

Tensor Graph::constant(HostNumber value, DType dtype, Where where) {
  check_dtype("constant", dtype, where);
  return build("constant", state("constant", where), where, [&](FunctionBuilder& b) {
    if (value.real) return b.constant(dtype, value.value);
    std::vector<std::byte> bytes(size_t(storage_bytes(dtype, 1)));
    convert_elements(dtype, bytes.data(), value.above ? DType::u64 : DType::i64,
                     reinterpret_cast<const std::byte*>(&value.whole), 1);
    return b.constant(TensorType{dtype, {}}, std::move(bytes));
  });
}
Tensor Graph::constant_bytes(std::span<const std::byte> bytes, DType dtype, Dims shape, Where where) {
  check_dtype("constant", dtype, where);
  TensorType type{dtype, to_shape(shape)};
  int64_t count = elements(present_shape("constant", *state("constant", where), type.shape, where));
  if (int64_t(bytes.size()) != storage_bytes(dtype, count))
    throw Error("constant",
                fmt::format("{} needs {} bytes, {} were given", luminal::to_string(type),
                            storage_bytes(dtype, count), bytes.size()),
                where);
  return build("constant", state_, where,
               [&](FunctionBuilder& b) { return b.constant(type, {bytes.begin(), bytes.end()}); });
}
Tensor Graph::constant(const HostValues& values, Dims shape, std::optional<DType> dtype, Where where) {
  if (!values.ragged().empty()) throw Error("constant", values.ragged(), where);
  const Shape wanted = to_shape(shape);
  const std::vector<int64_t> extents = present_shape("constant", *state("constant", where), wanted, where);
  if (values.shape().size() > 1 ? values.shape() != extents : values.count() != elements(extents))
    throw Error("constant",
                fmt::format("the shape is {}, the values have shape {}", text_of(wanted),
                            text_of({values.shape().begin(), values.shape().end()})),
                where);
  const bool unchosen = values.literal() && values.dtype() == DType::f64;
  const DType type = dtype ? *dtype : unchosen ? DType::f32 : values.dtype();
  check_dtype("constant", type, where);
  std::vector<std::byte> converted(size_t(storage_bytes(type, values.count())));
  convert_elements(type, converted.data(), values.dtype(), values.bytes().data(), values.count());
  return constant_bytes(converted, type, std::move(shape), where);
}
Tensor Graph::iota(Dims shape, const std::function<Dim(const Dims& axes)>& value, DType dtype, Where where) {
  const auto graph = state("iota", where);
  check_dtype("iota", dtype, where);
  const Shape extents = to_shape(shape);
  Dims axes;
  for (size_t d = 0; d < extents.size(); d++)
    axes.push_back(Dim::from_id(axis_symbol(int(d), extents[d]).id()));
  const Expr element = to_expr(value(axes));
  return build("iota", graph, where, [&](FunctionBuilder& b) { return b.iota(extents, element, dtype); });
}
Tensor Graph::arange(Dim count, DType dtype, Where where) { return arange(0, count, dtype, where); }
Tensor Graph::arange(Dim start, Dim end, DType dtype, Where where) {
  check_dtype("arange", dtype, where);
  Expr first = to_expr(start), n = to_expr(end) - first;
  return build("arange", state("arange", where), where,
               [&](FunctionBuilder& b) { return b.iota({n}, first + axis_symbol(0, n), dtype); });
}

} // namespace luminal
