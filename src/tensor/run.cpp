// tensor/run.cpp -- Graph: execute, what a run cost.
#include "base/log.h"
#include "base/settings.h"
#include "base/thread_pool.h"
#include "device/cpu/cpu_device.h"
#include "device/known_devices.h"
#include "device/null/null_device.h"
#include "luminal/debug.h"
#include "tensor/effects.h"
#include "tensor/graph_run.h"
#include <algorithm>
#include <fmt/format.h>
#include <mutex>

namespace luminal {
namespace {

/// Uses, or makes, the file of what load steps compute from weights of this name.
void keep_loaded_values(GraphState& g) {
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

/// Why an input has no value, for a message.
std::string missing(const GraphState& g, const runtime::Slot& slot, std::string_view word) {
  auto data = g.data.find(slot.name);
  const bool gone = data != g.data.end() && !data->second.gone.empty();
  return fmt::format("{} {} ({}) {}", word, slot.name, to_string(slot.type),
                     gone ? data->second.gone + "; set it again" : "was never set");
}

void give_weights(const std::shared_ptr<GraphState>& graph, Where where) {
  GraphState& g = *graph;
  bool changed = false;
  for (const auto& slot : g.executable()->plan().slots) {
    if (slot.kind != runtime::SlotKind::weight || !slot.used) continue;
    load_deferred(graph, slot.name);
    InputData& data = g.data[slot.name];
    if (!data.given) throw Error("execute", missing(g, slot, "weight"), where);
    if (!data.fresh) continue;
    g.store->borrow_weight(slot.name, data.bytes, data.owner);
    data.fresh = false;
    changed = true;
  }
  if (!changed) return;
  g.store->unload();
  g.drop_contexts();
  if (!g.options.weights_id.empty() && g.options.cache && !g.weights_set_again) keep_loaded_values(g);
}

void make_context(const std::shared_ptr<GraphState>& graph, Where where) {
  GraphState& g = *graph;
  runtime::ContextOptions options;
  options.max_memory = g.options.max_memory;
  options.host = run_host_effect;
  options.stop = g.options.stop;
  Program& program = *g.programs[g.running];
  auto context = runtime::Context::create(program.executable, g.store, options);
  if (!context) throw_failure("execute", context.failure(), where);
  program.context = std::move(*context);
}

/// Does anything that runs depend on the dimension? One of unused inputs only need not be set.
bool matters(const runtime::Plan& plan, Expr symbol) {
  auto in = [&](Expr e) { return depends_on(e, symbol); };
  bool counted = false;
  for_each_step(plan.steps, [&](const runtime::Step& step) {
    if (const auto* loop = step.as<runtime::Loop>()) counted |= in(loop->count);
  });
  return std::any_of(plan.slots.begin(), plan.slots.end(),
                     [&](const runtime::Slot& slot) {
                       return slot.used && std::any_of(slot.type.shape.begin(), slot.type.shape.end(), in);
                     }) ||
         std::any_of(plan.kernels.begin(), plan.kernels.end(),
                     [&](const runtime::KernelCode& kernel) {
                       return std::any_of(kernel.symbols.begin(), kernel.symbols.end(), in);
                     }) ||
         std::any_of(plan.assumptions.begin(), plan.assumptions.end(), in) ||
         std::any_of(plan.conditions.begin(), plan.conditions.end(), in) || counted;
}

/// " with batch = 100, n = 3": the present sizes of the dimensions in a shape; empty where there
/// are none.
std::string sizes_text(const GraphState& g, const Shape& shape) {
  std::string text;
  for (Expr symbol : symbols_of(shape))
    if (auto value = g.dim_values.find(std::string(symbol.name())); value != g.dim_values.end())
      text += fmt::format("{} {} = {}", text.empty() ? " with" : ",", symbol.name(), value->second);
  return text;
}

/// What of the user's needs sizes that the present ones are not: more than a plan can say.
void check_reasons(const GraphState& g, Where where) {
  ExprMap<int64_t> bindings;
  for (const auto& [name, symbol] : g.dims)
    if (auto value = g.dim_values.find(name); value != g.dim_values.end()) bindings[symbol] = value->second;
  for (const auto& [condition, reason] : g.reasons) {
    const auto holds = evaluate(condition, bindings);
    if (!holds || *holds) continue;
    const std::vector<Expr> parts = {condition};
    throw Error("execute",
                fmt::format("{} is needed by {}; here{}", luminal::to_string(condition), reason,
                            sizes_text(g, parts).substr(5)),
                where);
  }
}

void give_dims(GraphState& g, Where where) {
  const auto& symbols = g.executable()->plan().symbols;
  for (const auto& [name, symbol] : g.dims) {
    if (std::find(symbols.begin(), symbols.end(), symbol) == symbols.end()) continue;
    auto value = g.dim_values.find(name);
    if (value == g.dim_values.end() && !matters(g.executable()->plan(), symbol)) continue;
    if (value == g.dim_values.end())
      throw Error("execute", fmt::format("dimension {} has no value (see set_dim)", name), where);
    check_run(g, g.context()->set_symbol(name, value->second), where);
  }
}

void give_state(GraphState& g, const runtime::Slot& slot, Where where) {
  InputData& data = g.data[slot.name];
  if (!data.fresh) return;
  if (data.buffer) data.owner = nullptr; // the buffer itself, held a second time
  if (data.buffer && data.buffer.use_count() == 1 && data.buffer->buffer.bytes() >= slot.max_bytes &&
      data.buffer->buffer.serves(g.store->device())) {
    g.store->exchange_state(slot.name, std::move(data.buffer->buffer));
  } else {
    check_run(g, g.context()->set_state(slot.name, data.bytes), where);
  }
  data = {}; // the store has it now
}

std::string count_text(int64_t count) { return fmt::format("{} element{}", count, count == 1 ? "" : "s"); }

void give_argument(const std::shared_ptr<GraphState>& graph, const runtime::Slot& slot, Where where) {
  GraphState& g = *graph;
  load_deferred(graph, slot.name);
  InputData& data = g.data[slot.name];
  if (!data.given) throw Error("execute", missing(g, slot, "tensor"), where);
  const std::vector<int64_t> extents = present_shape("execute", g, slot.type.shape, where);
  const int64_t wanted = storage_bytes(slot.type.dtype, elements(extents));
  if (wanted != int64_t(data.bytes.size()))
    throw Error("execute",
                fmt::format("tensor {} is {}: {}{}; {} were given {}", slot.name,
                            luminal::to_string(slot.type), count_text(elements(extents)),
                            sizes_text(g, slot.type.shape),
                            int64_t(data.bytes.size()) * 8 / bits(slot.type.dtype), place_text(data.set_at)),
                where);
  if (data.shaped && data.extents != extents)
    throw Error("execute",
                fmt::format("tensor {} is {}: {}{}; the values that were set have shape {} ({})", slot.name,
                            luminal::to_string(slot.type),
                            luminal::to_string(to_dims({extents.begin(), extents.end()})),
                            sizes_text(g, slot.type.shape),
                            luminal::to_string(to_dims({data.extents.begin(), data.extents.end()})),
                            place_text(data.set_at)),
                where);
  check_run(g, g.context()->bind_argument(slot.name, data.bytes), where);
}

/// Everything that would run lies where something runs.
void check_devices(GraphState& g, Where where) {
  for (const std::string& name : g.executable()->plan().devices)
    if (!device::find_known_device(name)->executes)
      throw Error(
          "execute",
          fmt::format("values lie on the device {}, which runs nothing: report() and memory() tell what was "
                      "compiled; to run it, make the tensors on cpu",
                      name),
          where);
}

/// All but the run itself.
void prepare(Graph& graph, Where where) {
  const auto& state = graph.state("execute", where);
  prepare_program(state, where);
  if (state->empty()) return;
  for (const auto& slot : state->executable()->plan().slots)
    if (slot.kind == runtime::SlotKind::argument && slot.used) give_argument(state, slot, where);
}

} // namespace

void check_run(const GraphState& g, const Result<void>& done, Where where) {
  if (done) return;
  check_reasons(g, where);
  throw_failure("execute", done.failure(), where);
}

void prepare_program(const std::shared_ptr<GraphState>& state, Where where) {
  GraphState& g = *state;
  g.ran = false;
  if (g.stale || (g.programs.empty() && !g.empty())) Graph(state).compile(g.options, where);
  if (g.empty()) return;
  choose_program(g);
  check_devices(g, where);
  give_weights(state, where);
  if (!g.context()) make_context(state, where);
  give_dims(g, where);
  for (const auto& slot : g.executable()->plan().slots) {
    if (slot.kind != runtime::SlotKind::state) continue;
    load_deferred(state, slot.name);
    give_state(g, slot, where);
  }
}

ThreadPool& shared_pool(int threads) {
  static std::mutex mutex;
  static std::map<int, std::unique_ptr<ThreadPool>> pools;
  std::lock_guard lock(mutex);
  auto& pool = pools[threads];
  if (!pool) pool = std::make_unique<ThreadPool>(threads);
  return *pool;
}

std::shared_ptr<device::Device> shared_device(int threads) {
  if (threads <= 0) threads = setting_threads();
  static std::mutex mutex;
  static std::map<int, std::shared_ptr<device::Device>> devices;
  ThreadPool& pool = shared_pool(threads);
  std::lock_guard lock(mutex);
  auto& device = devices[threads];
  if (!device) device = device::make_cpu_device(pool);
  return device;
}

std::shared_ptr<device::Device> shared_device(const std::string& name, int threads) {
  const device::KnownDevice* known = device::find_known_device(name);
  if (!known) throw Error("device", device::no_such_device(name));
  if (known->language.empty()) return shared_device(threads);
  static std::mutex mutex;
  // Never destroyed: at the end of the process a driver may be gone first; it takes back what they have.
  static auto& devices = *new std::map<std::string, std::shared_ptr<device::Device>>;
  std::lock_guard lock(mutex);
  auto& device = devices[name];
  if (device) return device;
  if (!known->executes) return device = device::make_null_device(known->language);
  auto made = device::make_known_device(name);
  if (!made) throw Error("device", made.error());
  return device = std::move(*made);
}

std::shared_ptr<runtime::Store> store_on(std::shared_ptr<device::Device> device) {
  struct Kept {
    std::shared_ptr<device::Device> device; // goes after the store
    runtime::Store store;
  };
  auto kept = std::make_shared<Kept>(Kept{device, runtime::Store(*device)});
  return {kept, &kept->store};
}

void Graph::execute(Where where) {
  prepare(*this, where);
  if (state_->empty()) return;
  check_run(*state_, state_->context()->run(), where);
  state_->ran = true;
  state_->gone.clear();
}

ExecutionTable Graph::execute_debug(Where where) {
  prepare(*this, where);
  GraphState& g = *state_;
  if (g.empty()) return {};
  g.context()->clear_events();
  g.context()->trace(true);
  auto done = g.context()->run();
  g.context()->trace(false);
  check_run(g, done, where);
  g.ran = true;
  g.gone.clear();
  ExecutionTable table;
  int64_t begin = 0, end = 0; // of the launch: its parts run side by side, or one after the other
  for (const runtime::TraceEvent& event : g.context()->events()) {
    const int64_t event_end = event.begin_ns + event.duration_ns;
    begin = event.more ? std::min(begin, event.begin_ns) : event.begin_ns;
    end = event.more ? std::max(end, event_end) : event_end;
    if (event.more) {
      table.steps.back().milliseconds = double(end - begin) / 1e6;
      continue;
    }
    StepCost row;
    row.name = event.name;
    row.milliseconds = double(event.duration_ns) / 1e6;
    for (const auto& operand : event.operands) {
      row.shapes += fmt::format("{}{} {}{}", row.shapes.empty() ? "" : ", ", operand.name,
                                luminal::to_string(operand.dtype),
                                luminal::to_string(to_dims({operand.shape.begin(), operand.shape.end()})));
      row.bytes += int64_t(operand.bytes.size());
    }
    table.steps.push_back(std::move(row));
  }
  g.context()->clear_events();
  return table;
}

void Graph::reset_states(Where where) {
  state("reset_states", where);
  if (state_->store) state_->store->reset_states();
  for (auto& [name, id] : state_->inputs)
    if (std::get<InputAttr>(state_->builder[id].attr).role == Role::state) state_->data.erase(name);
}

void Graph::reset(Where where) {
  GraphState& g = *state("reset", where);
  g.drop_contexts();
  g.data.clear();
  g.dim_values.clear();
  g.gone.clear();
  g.ran = false;
  g.weights_set_again = false;
  if (g.store) g.store = store_on(shared_device(g.device_name, g.options.threads));
}

std::string Graph::to_string(Where where) const {
  return luminal::to_string(state("to_string", where)->snapshot());
}
std::string Graph::to_dot(Where where) const { return luminal::to_dot(state("to_dot", where)->snapshot()); }
std::string Graph::to_html(Where where) const {
  return luminal::to_html(state("to_html", where)->snapshot());
}

} // namespace luminal
