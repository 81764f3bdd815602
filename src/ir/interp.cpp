// ir/interp.cpp -- the interpreter's front: bindings, results, host functions.
#include "ir/interp.h"
#include "base/check.h"
#include "base/print.h"
#include "ir/host_text.h"
#include "ir/interp_engine.h"
#include <fmt/format.h>
#include <mutex>
#include <set>

namespace luminal {
namespace interp {

extern template class Frame<RoundedDomain>;
extern template class Frame<F64Domain>;
extern template class Frame<ExactDomain>;
extern template class Frame<BoundedDomain>;

CompiledFunction& Run::compiled(const std::string& name) {
  auto& slot = functions[name];
  if (!slot) {
    const Function* f = module.find(name);
    if (!f) throw Error(fmt::format("[interp] there is no function @{}", name));
    slot = std::make_unique<CompiledFunction>(module, *f, bindings.symbols, depths);
  }
  return *slot;
}

void unflatten(int64_t flat, const Extents& extents, int64_t* out) {
  for (size_t d = extents.size(); d-- > 0;) {
    out[d] = flat % extents[d];
    flat /= extents[d];
  }
}

std::vector<HostTensor> run_host(const Run& run, const Node& node, const std::vector<HostTensor>& inputs,
                                 const std::vector<Extents>& results) {
  auto write = [&](const std::string& text) {
    if (run.bindings.print)
      run.bindings.print(text);
    else
      print_stderr("{}\n", text);
  };
  auto* host = std::get_if<HostAttr>(&node.attr);
  const std::string& name = host ? host->kind : std::get<CustomAttr>(node.attr).name;
  if (host && name == "print")
    return write(printed_values(host->text, inputs[0].dtype, inputs[0].shape, inputs[0].data.data())),
           std::vector<HostTensor>{};
  if (host && name == "diff")
    return write(printed_difference(host->text, inputs[0].dtype, inputs[0].count(), inputs[0].data.data(),
                                    inputs[1].data.data())),
           std::vector<HostTensor>{};
  const HostFunction* function = find_host_function(name);
  if (!function)
    throw Error(fmt::format("[{}] '{}' is not registered: register_host_function gives it a meaning",
                            to_string(node.kind), name));
  std::vector<HostTensor> out = (*function)(host ? host->text : std::string(), inputs);
  if (host && passes_input_on(name) && out.empty()) return out;
  bool fits = out.size() == results.size();
  for (size_t k = 0; fits && k < out.size(); ++k)
    fits = out[k].dtype == node.types[k].dtype && out[k].shape == results[k] &&
           int64_t(out[k].data.size()) == storage_bytes(out[k].dtype, out[k].count());
  if (!fits)
    throw Error(
        fmt::format("[{}] '{}' gave results of other types than declared", to_string(node.kind), name));
  return out;
}

} // namespace interp

using namespace interp;

int64_t HostTensor::count() const {
  int64_t n = 1;
  for (int64_t e : shape) n *= e;
  return n;
}
HostTensor host_tensor(DType dtype, std::vector<int64_t> shape, std::span<const double> values) {
  HostTensor t{dtype, std::move(shape), {}};
  if (t.count() != int64_t(values.size()))
    throw Error(fmt::format("[host_tensor] {} numbers for {} elements", values.size(), t.count()));
  t.data.resize(size_t(storage_bytes(dtype, t.count())));
  for (size_t i = 0; i < values.size(); ++i) store_f64(dtype, t.data.data(), int64_t(i), values[i]);
  return t;
}

namespace {

/// One domain behind a common face.
struct EngineBase {
  virtual ~EngineBase() = default;
  virtual HostTensor result(Source s) = 0;
  virtual InterpValue element(Source s, int64_t flat) = 0;
  virtual std::vector<InterpValue> values(Source s) = 0;
  virtual void effects_before(NodeId id) = 0;

  EngineBase(const Module& module, const Bindings& bindings) : run{module, bindings} {}
  const FunctionResult& find(std::string_view name) const {
    for (const FunctionResult& r : run.module.entry().results)
      if (r.name == name) return r;
    throw Error(fmt::format("[interp] @{} has no result '{}'", run.module.entry().name, name));
  }
  Run run;
};

template <class D> struct Engine final : EngineBase {
  Engine(const Module& module, const Bindings& bindings)
      : EngineBase(module, bindings), f(run.compiled(module.entry().name)), frame(run, f, arguments()) {}

  HostTensor result(Source s) override {
    std::vector<typename D::Value> all = frame.values(s);
    HostTensor t;
    const DType type = f.function()[s.node].types[size_t(s.result)].dtype;
    const bool widened = is_float(type) && !std::is_same_v<D, RoundedDomain>;
    t.dtype = widened ? DType::f64 : type;
    t.shape = f.extents(s);
    t.data.resize(size_t(storage_bytes(t.dtype, int64_t(all.size()))));
    for (size_t i = 0; i < all.size(); ++i) {
      if (is_float(type))
        store_f64(t.dtype, t.data.data(), int64_t(i), D::f64(type, all[i]));
      else
        store_i64(type, t.data.data(), int64_t(i), all[i].i);
    }
    return t;
  }
  InterpValue element(Source s, int64_t flat) override {
    return D::result(f.function()[s.node].types[size_t(s.result)].dtype, frame.element(s, flat));
  }
  void effects_before(NodeId id) override { frame.effects_before(id); }
  std::vector<InterpValue> values(Source s) override {
    std::vector<InterpValue> list;
    for (const auto& v : frame.values(s))
      list.push_back(D::result(f.function()[s.node].types[size_t(s.result)].dtype, v));
    return list;
  }

  std::vector<typename Frame<D>::Argument> arguments() {
    std::vector<typename Frame<D>::Argument> list;
    for (NodeId p : f.function().params) {
      const auto& attr = std::get<InputAttr>(f.function()[p].attr);
      auto at = run.bindings.inputs.find(attr.name);
      if (at == run.bindings.inputs.end())
        throw Error(
            fmt::format("[interp] input '{}' is not bound; it is {}", attr.name, to_string(attr.type)));
      const HostTensor& t = at->second;
      const Extents& expected = f.extents({p, 0});
      auto text = [](DType dtype, const std::vector<int64_t>& shape) {
        return fmt::format("{}[{}]", to_string(dtype), fmt::join(shape, ", "));
      };
      if (t.dtype != attr.type.dtype || t.shape != expected)
        throw Error(fmt::format("[interp] input '{}' is {}, expected {}", attr.name, text(t.dtype, t.shape),
                                text(attr.type.dtype, expected)));
      if (int64_t(t.data.size()) != storage_bytes(t.dtype, t.count()))
        throw Error(fmt::format("[interp] input '{}' has {} bytes, {} needs {}", attr.name, t.data.size(),
                                text(t.dtype, t.shape), storage_bytes(t.dtype, t.count())));
      typename Frame<D>::Argument a;
      a.packed = t.data.data();
      a.dtype = t.dtype;
      list.push_back(std::move(a));
    }
    return list;
  }

  CompiledFunction& f;
  Frame<D> frame;
};

/// Symbols have values within their facts, and what the module assumes is true.
void check_symbols(const Module& module, const Bindings& bindings) {
  ExprMap<int64_t> values;
  for (Expr s : module.symbols) {
    auto at = bindings.symbols.find(std::string(s.name()));
    if (at == bindings.symbols.end()) throw Error(fmt::format("[interp] symbol {} is not bound", s.name()));
    if (!s.range().contains(at->second) || (s.multiple() > 1 && at->second % s.multiple() != 0))
      throw Error(fmt::format("[interp] symbol {} is {}, its range is {}..{}{}", s.name(), at->second,
                              s.range().low, s.range().high,
                              s.multiple() > 1 ? fmt::format(", a multiple of {}", s.multiple()) : ""));
    values[s] = at->second;
  }
  for (Expr e : module.assumptions) {
    auto holds = evaluate(e, values);
    if (!holds) throw Error(fmt::format("[interp] the assumption {}: {}", to_string(e), holds.error()));
    if (*holds == 0) throw Error(fmt::format("[interp] the assumption {} does not hold", to_string(e)));
  }
}

/// Each call inside of a call takes a piece of the stack.
void check_nesting(const Module& module) {
  constexpr int most = 8000;
  std::map<std::string_view, int> depths; // callees come first
  for (const Function& f : module.functions) {
    int deepest = 0;
    const auto calls = [&](const std::string& name) {
      if (auto at = depths.find(name); at != depths.end()) deepest = std::max(deepest, at->second + 1);
    };
    for (const Node& node : f.nodes) {
      if (auto* call = std::get_if<CallAttr>(&node.attr)) calls(call->function);
      if (auto* loop = std::get_if<LoopAttr>(&node.attr)) calls(loop->body), calls(loop->condition);
      if (auto* cond = std::get_if<CondAttr>(&node.attr))
        calls(cond->then_function), calls(cond->else_function);
    }
    depths[f.name] = deepest;
  }
  if (const int deepest = depths[module.entry().name]; deepest > most)
    throw Error(fmt::format("[call] @{}: its calls are nested {} deep, at most {} are interpreted",
                            module.entry().name, deepest, most));
}

struct HostRegistry {
  std::mutex mutex;
  std::map<std::string, std::unique_ptr<const HostFunction>, std::less<>> functions;
};
HostRegistry& host_registry() {
  static HostRegistry instance;
  return instance;
}

} // namespace

void register_host_function(std::string name, HostFunction function) {
  if (name == "print" || name == "diff")
    throw Error("register_host_function", fmt::format("'{}' is built in", name));
  HostRegistry& r = host_registry();
  std::lock_guard lock(r.mutex);
  auto [at, fresh] = r.functions.try_emplace(name);
  if (!fresh) throw Error("register_host_function", fmt::format("'{}' is registered already", name));
  at->second = std::make_unique<const HostFunction>(std::move(function));
}
const HostFunction* find_host_function(std::string_view name) {
  HostRegistry& r = host_registry();
  std::lock_guard lock(r.mutex);
  auto at = r.functions.find(name);
  return at == r.functions.end() ? nullptr : at->second.get();
}

struct Interpreter::Impl {
  std::unique_ptr<EngineBase> engine;
  CompiledFunction& entry() { return engine->run.compiled(engine->run.module.entry().name); }
  Source source(std::string_view name) { return entry().resolve(engine->find(name).value); }
};

Interpreter::Interpreter(const Module& module, const Bindings& bindings, InterpMode mode) {
  if (module.functions.empty()) throw Error("[interp] the module has no function");
  check_symbols(module, bindings);
  check_nesting(module);
  impl_ = std::make_unique<Impl>();
  auto& engine = impl_->engine;
  switch (mode) {
  case InterpMode::rounded: engine = std::make_unique<Engine<RoundedDomain>>(module, bindings); break;
  case InterpMode::f64: engine = std::make_unique<Engine<F64Domain>>(module, bindings); break;
  case InterpMode::exact: engine = std::make_unique<Engine<ExactDomain>>(module, bindings); break;
  case InterpMode::bounded: engine = std::make_unique<Engine<BoundedDomain>>(module, bindings); break;
  }
}
Interpreter::~Interpreter() = default;

HostTensor Interpreter::result(std::string_view name) { return impl_->engine->result(impl_->source(name)); }
std::vector<InterpValue> Interpreter::values(std::string_view name) {
  return impl_->engine->values(impl_->source(name));
}
InterpValue Interpreter::element(std::string_view name, std::span<const int64_t> index) {
  Source s = impl_->source(name);
  const Extents& extents = impl_->entry().extents(s);
  if (index.size() != extents.size())
    throw Error(
        fmt::format("[interp] {} indices for '{}', which has {} axes", index.size(), name, extents.size()));
  int64_t flat = 0;
  for (size_t d = 0; d < index.size(); ++d) {
    if (index[d] < 0 || index[d] >= extents[d])
      throw Error(fmt::format("[interp] index {} of axis {} of '{}', whose extent is {}", index[d], d, name,
                              extents[d]));
    flat = flat * extents[d] + index[d];
  }
  return impl_->engine->element(s, flat);
}
std::map<std::string, HostTensor> Interpreter::run() {
  std::map<std::string, HostTensor> done;
  const auto& results = impl_->entry().function().results;
  while (done.size() < results.size()) {
    size_t before = done.size();
    for (const FunctionResult& r : results) {
      bool ready = !done.contains(r.name);
      for (const std::string& name : r.after) ready &= done.contains(name);
      if (!ready) continue;
      impl_->engine->effects_before(r.value);
      done[r.name] = result(r.name);
    }
    if (done.size() == before)
      throw Error(
          fmt::format("[interp] the results of @{} wait for one another", impl_->entry().function().name));
  }
  return done;
}

} // namespace luminal
