// tensor/graph.cpp -- Graph: inputs, states, compile, execute; and the data of tensors.
#include "base/log.h"
#include "base/settings.h"
#include "base/thread_pool.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <mutex>

namespace luminal {
namespace {

int64_t elements(const std::vector<int64_t>& shape) {
  int64_t n = 1;
  for (int64_t extent : shape) n *= extent;
  return n;
}

/// Packed elements of one dtype as another: numbers keep their value as far as the target holds it.
void convert(DType to, std::byte* out, DType from, const std::byte* in, int64_t count) {
  if (count == 0) return; // no elements may come with no address
  if (to == from) {
    std::memcpy(out, in, size_t(storage_bytes(to, count)));
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    if (is_float(from)) {
      double value = load_f64(from, in, i);
      if (is_float(to))
        store_f64(to, out, i, value);
      else
        store_i64(to, out, i, to == DType::boolean ? value != 0 : int64_t(value));
    } else if (is_float(to))
      store_f64(to, out, i, load_f64(from, in, i));
    else
      store_i64(to, out, i, to == DType::boolean ? load_i64(from, in, i) != 0 : load_i64(from, in, i));
  }
}

std::vector<int64_t> present_shape(const GraphState& graph, const Shape& shape, Where where) {
  ExprMap<int64_t> bindings;
  for (const auto& [name, symbol] : graph.dims)
    if (auto value = graph.dim_values.find(name); value != graph.dim_values.end())
      bindings[symbol] = value->second;
  std::vector<int64_t> result;
  for (Expr extent : shape) {
    auto value = evaluate(extent, bindings);
    if (!value)
      throw Error("shape", fmt::format("{}: {} (see Graph::set_dim)", text_of(shape), value.error()), where);
    result.push_back(*value);
  }
  return result;
}

void check(const Result<void>& done, std::string_view op, Where where) {
  if (!done) throw Error(op, done.error(), where);
}

} // namespace

ThreadPool& shared_pool(int threads) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<ThreadPool>> pools;
  std::lock_guard lock(mutex);
  auto& pool = pools[threads];
  if (!pool) pool = std::make_unique<ThreadPool>(threads);
  return *pool;
}

GraphState::~GraphState() {
  context.reset(); // before the executable, the store and the device that they use
  executable.reset();
  store.reset();
}

Module GraphState::snapshot() const {
  Module result = module;
  FunctionBuilder b = builder;
  for (const auto& [node, label] : kept) b.result(label, node);
  for (const auto& [state, next] : updates) {
    const std::string& label = std::get<InputAttr>(builder[state].attr).name;
    b.result(label + "_next", next, label);
  }
  result.functions.push_back(b.finish());
  return result;
}

Graph::Graph() : state_(std::make_shared<GraphState>("main")) {}
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
  Tensor t = build(op, graph, where,
                   [&](FunctionBuilder& b) { return b.input(name, {dtype, to_shape(dims)}, role); });
  graph->inputs[name] = t.id();
  return t;
}
const InputAttr& input_attr(const GraphState& graph, uint32_t id, std::string_view op, Where where) {
  const Node& node = graph.builder[id];
  if (node.kind != NodeKind::input)
    throw Error(op, "data can only be given to a tensor made by tensor, weight or state", where);
  return std::get<InputAttr>(node.attr);
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
  if (state.graph() != state_) throw Error("update", "the tensors belong to another graph", where);
  if (input_attr(*state_, state.id(), "update", where).role != Role::state)
    throw Error("update", "only a tensor made by Graph::state can be updated", where);
  if (!(type_of(state) == type_of(next)))
    throw Error("update",
                fmt::format("the state is {}, its next value {}", luminal::to_string(type_of(state)),
                            luminal::to_string(type_of(next))),
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
  int64_t count = elements(present_shape(*state_, type.shape, where));
  if (int64_t(bytes.size()) != storage_bytes(dtype, count))
    throw Error("constant",
                fmt::format("{} needs {} bytes, {} were given", luminal::to_string(type),
                            storage_bytes(dtype, count), bytes.size()),
                where);
  return build("constant", state_, where,
               [&](FunctionBuilder& b) { return b.constant(type, {bytes.begin(), bytes.end()}); });
}
Tensor Graph::arange(Dim count, DType dtype, Where where) { return arange(0, count, dtype, where); }
Tensor Graph::arange(Dim start, Dim end, DType dtype, Where where) {
  Expr first = to_expr(start), n = to_expr(end) - first;
  return build("arange", state_, where,
               [&](FunctionBuilder& b) { return b.iota({n}, first + axis_symbol(0, n), dtype); });
}

Graph::LoopResult Graph::loop(Dim count, const std::vector<Tensor>& carried,
                              const std::vector<Tensor>& stepped, const std::vector<Tensor>& invariants,
                              const LoopBody& body, Where where) {
  auto inner = std::make_shared<GraphState>(fmt::format("{}_loop{}", state_->name, state_->loops++));
  inner->outer = state_.get();
  inner->dims = state_->dims;
  inner->module = state_->module;
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

void Graph::compile(const CompileOptions& options, Where where) {
  GraphState& g = *state_;
  int threads = options.threads > 0 ? options.threads : setting_threads();
  ThreadPool& pool = shared_pool(threads);
  compile::Options inner = compile::Options::host(threads);
  inner.cache = options.cache;
  inner.pool = &pool;
  auto compiled = compile::compile(g.snapshot(), inner);
  if (!compiled) throw Error("compile", compiled.error(), where);
  g.context.reset();
  g.executable.reset();
  if (!g.device || g.options.threads != options.threads) {
    g.store.reset();
    g.device = device::make_cpu_device(pool);
    g.store = std::make_shared<runtime::Store>(*g.device);
    for (auto& [_, data] : g.data) data.fresh = data.given;
  }
  g.options = options;
  g.compiled = std::move(*compiled);
  auto executable = runtime::Executable::load(g.compiled->plan, *g.device);
  if (!executable) throw Error("compile", executable.error(), where);
  g.executable = *executable;
  g.readable = g.kept;
  g.stale = false;
}

/// Uses, or makes, the file of what load steps compute from weights of this name.
static void keep_loaded_values(GraphState& g) {
  const std::string folder = cache_folder();
  if (folder.empty()) return;
  const uint64_t source =
      compile::load_source(g.options.weights_id, compile::Options::host(g.options.threads));
  auto found = g.store->keep_loaded_in(runtime::load_file_path(folder, source), source);
  if (!found) {
    log_debug("loaded values are computed: {}", found.error());
    runtime::trim_load_files(folder);
  }
}

void Graph::execute(Where where) {
  GraphState& g = *state_;
  if (g.stale || !g.executable) compile(g.options, where);
  const runtime::Plan& plan = g.executable->plan();
  bool weights_changed = false;
  for (const auto& slot : plan.slots) {
    if (slot.kind != runtime::SlotKind::weight) continue;
    InputData& data = g.data[slot.name];
    if (!data.given)
      throw Error("execute",
                  fmt::format("weight {} ({}) was never set", slot.name, luminal::to_string(slot.type)),
                  where);
    if (!data.fresh) continue;
    g.store->borrow_weight(slot.name, data.bytes, data.owner);
    data.fresh = false;
    weights_changed = true;
  }
  if (weights_changed) {
    g.store->unload();
    g.context.reset();
    if (!g.options.weights_id.empty() && g.options.cache && !g.weights_set_again) keep_loaded_values(g);
  }
  if (!g.context) {
    runtime::ContextOptions options;
    options.max_memory = g.options.max_memory;
    auto context = runtime::Context::create(g.executable, g.store, options);
    if (!context) throw Error("execute", context.error(), where);
    g.context = std::move(*context);
  }
  for (const auto& [name, symbol] : g.dims) {
    auto value = g.dim_values.find(name);
    bool used = std::find(plan.symbols.begin(), plan.symbols.end(), symbol) != plan.symbols.end();
    if (!used) continue;
    if (value == g.dim_values.end())
      throw Error("execute", fmt::format("dimension {} has no value (see set_dim)", name), where);
    check(g.context->set_symbol(name, value->second), "execute", where);
  }
  for (size_t i = 0; i < plan.slots.size(); i++) {
    const auto& slot = plan.slots[i];
    if (slot.kind != runtime::SlotKind::argument && slot.kind != runtime::SlotKind::state) continue;
    InputData& data = g.data[slot.name];
    if (slot.kind == runtime::SlotKind::state) {
      if (!data.fresh) continue;
      auto memory = g.context->state(slot.name);
      if (!memory) throw Error("execute", memory.error(), where);
      if (memory->bytes.size() != data.bytes.size())
        throw Error("execute",
                    fmt::format("state {} takes {} bytes, {} were given", slot.name, memory->bytes.size(),
                                data.bytes.size()),
                    where);
      if (!data.bytes.empty()) std::memcpy(memory->bytes.data(), data.bytes.data(), data.bytes.size());
      data.fresh = false;
      continue;
    }
    if (!data.given)
      throw Error("execute",
                  fmt::format("tensor {} ({}) was never set", slot.name, luminal::to_string(slot.type)),
                  where);
    int64_t wanted = storage_bytes(slot.type.dtype, elements(present_shape(g, slot.type.shape, where)));
    if (wanted != int64_t(data.bytes.size()))
      throw Error("execute",
                  fmt::format("tensor {} is {} with the present dimensions {} bytes, {} were given",
                              slot.name, luminal::to_string(slot.type), wanted, data.bytes.size()),
                  where);
    check(g.context->bind_argument(slot.name, data.bytes), "execute", where);
  }
  check(g.context->run(), "execute", where);
}

void Graph::reset_states() {
  if (state_->store) state_->store->reset_states();
}
std::string Graph::report() const {
  return state_->compiled ? state_->compiled->report() : "not compiled yet\n";
}
std::string Graph::to_string() const { return luminal::to_string(state_->snapshot()); }
std::string Graph::to_dot() const { return luminal::to_dot(state_->snapshot()); }
std::string Graph::to_html() const { return luminal::to_html(state_->snapshot()); }

// ---- data of tensors ----
DType Tensor::dtype() const { return type_of(*this).dtype; }
Dims Tensor::shape() const { return to_dims(type_of(*this).shape); }
Dim Tensor::dim(int axis) const { return shape()[size_t(axis_of("dim", axis, rank(), Where::current()))]; }
std::string Tensor::name() const { return graph_->builder[id_].name; }
Tensor& Tensor::set_name(std::string name) {
  graph_->builder.name(id_, std::move(name));
  return *this;
}

int64_t Tensor::element_count(Where where) const {
  graph_of("element_count", {this}, where);
  return elements(present_shape(*graph_, type_of(*this).shape, where));
}

void Tensor::set_bytes(std::span<const std::byte> bytes, DType type, Where where) {
  graph_of("set", {this}, where);
  const InputAttr& input = input_attr(*graph_, id_, "set", where);
  const std::string& name = input.name;
  const int64_t count = int64_t(bytes.size()) * 8 / bits(type);
  const Shape& shape = type_of(*this).shape;
  bool fixed = std::all_of(shape.begin(), shape.end(), [](Expr e) { return e.is_constant(); });
  if (fixed && count != elements(present_shape(*graph_, shape, where)))
    throw Error("set",
                fmt::format("{} is {}, {} elements; {} were given", name, luminal::to_string(type_of(*this)),
                            elements(present_shape(*graph_, shape, where)), count),
                where);
  InputData& data = graph_->data[name];
  data.copy.resize(size_t(storage_bytes(dtype(), count)));
  convert(dtype(), data.copy.data(), type, bytes.data(), count);
  data.bytes = data.copy;
  data.owner = nullptr;
  graph_->weights_set_again |= data.given && input.role == Role::weight;
  data.given = data.fresh = true;
}

void Tensor::borrow(const void* pointer, size_t bytes, std::shared_ptr<const void> owner, Where where) {
  graph_of("borrow", {this}, where);
  const InputAttr& input = input_attr(*graph_, id_, "borrow", where);
  InputData& data = graph_->data[input.name];
  data.copy.clear();
  data.bytes = {static_cast<const std::byte*>(pointer), bytes};
  data.owner = std::move(owner);
  graph_->weights_set_again |= data.given && input.role == Role::weight;
  data.given = data.fresh = true;
}

Tensor& Tensor::keep(Where where) {
  graph_of("keep", {this}, where);
  auto [it, fresh] = graph_->kept.try_emplace(id_, "");
  if (fresh) {
    it->second = fmt::format("kept{}", id_);
    graph_->stale = true;
  }
  return *this;
}

void Tensor::read(void* destination, DType as, Where where) const {
  graph_of("data", {this}, where);
  const GraphState& g = *graph_;
  const Node& node = g.builder[id_];
  std::span<const std::byte> bytes;
  int64_t count = element_count(where);
  if (auto kept = g.readable.find(id_); kept != g.readable.end() && g.context) {
    auto value = g.context->result(kept->second);
    if (!value) throw Error("data", value.error(), where);
    bytes = value->bytes;
    count = elements(value->shape);
  } else if (node.kind == NodeKind::input && std::get<InputAttr>(node.attr).role == Role::state &&
             g.context) {
    auto value = g.context->state(std::get<InputAttr>(node.attr).name);
    if (!value) throw Error("data", value.error(), where);
    bytes = value->bytes;
  } else if (node.kind == NodeKind::input && g.data.contains(std::get<InputAttr>(node.attr).name)) {
    bytes = g.data.at(std::get<InputAttr>(node.attr).name).bytes;
  } else if (g.kept.contains(id_)) {
    throw Error("data", "the value is not there yet: execute the graph first", where);
  } else {
    throw Error("data", "the value was not kept: call keep() on the tensor before execute", where);
  }
  convert(as, static_cast<std::byte*>(destination), node.type().dtype, bytes.data(), count);
}

} // namespace luminal
