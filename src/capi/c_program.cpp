// capi/c_program.cpp -- a program of the C interface: reading, data, compiling, running.
#include "capi/c_program.h"
#include "base/settings.h"
#include "ir/dtype.h"
#include "tensor/effects.h"
#include "tensor/graph_run.h"
#include <charconv>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal::capi {
namespace {

[[noreturn]] void fail(const char* operation, const std::string& text) {
  throw Error(fmt::format("[{}] {}", operation, text));
}
template <class T> T checked(Result<T> result, const char* operation) {
  if (!result) fail(operation, result.error());
  return std::move(*result);
}
void check(const Result<void>& done, const char* operation) {
  if (!done) fail(operation, done.error());
}

std::string text_of(const std::vector<int64_t>& shape) { return fmt::format("[{}]", fmt::join(shape, ", ")); }

std::string names_of(const Module& module) {
  std::vector<std::string> names;
  for (NodeId id : module.entry().params) names.push_back(std::get<InputAttr>(module.entry()[id].attr).name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

int64_t count_of(const std::vector<int64_t>& shape, const char* operation) {
  int64_t count = 1;
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count) || count > int64_t(1) << 50)
      fail(operation, fmt::format("a shape {} cannot be", text_of(shape)));
  return count;
}

double number_of(const std::string& name, const std::string& value) {
  double number = 0;
  const auto [end, wrong] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (wrong != std::errc() || end != value.data() + value.size() || !(number >= 0))
    fail("set_option", fmt::format("{} takes a number that is not negative, not \"{}\"", name, value));
  return number;
}

} // namespace

CProgram::CProgram(Module module) : module_(std::move(module)) {
  if (module_.functions.empty()) throw Error("[program] the module has no function");
  if (auto mistakes = verify(module_); !mistakes.empty()) throw Error("[program] " + mistakes[0]);
}

const InputAttr& CProgram::input(const std::string& name, const char* operation) const {
  for (NodeId id : inputs())
    if (const auto& attr = std::get<InputAttr>(module_.entry()[id].attr); attr.name == name) return attr;
  fail(operation, fmt::format("there is no input {}; there are {}", name, names_of(module_)));
}

void CProgram::describe(luminal_value& value, std::string_view name, DType dtype, std::vector<int64_t> shape,
                        std::span<const std::byte> bytes) {
  name_ = name;
  dtype_ = to_string(dtype);
  shape_ = std::move(shape);
  value = {name_.c_str(), dtype_.c_str(), int(shape_.size()), shape_.data(), bytes.data(), bytes.size()};
}

void CProgram::describe_input(int index, luminal_value& value) {
  if (index < 0 || size_t(index) >= inputs().size())
    fail("input", fmt::format("there are {} inputs, no number {}", inputs().size(), index));
  const auto& attr = std::get<InputAttr>(module_.entry()[inputs()[size_t(index)]].attr);
  ExprMap<int64_t> bindings;
  for (Expr symbol : module_.symbols)
    if (auto size = dims_.find(std::string(symbol.name())); size != dims_.end())
      bindings[symbol] = size->second;
  std::vector<int64_t> shape;
  for (Expr extent : attr.type.shape) {
    const auto size = evaluate(extent, bindings);
    shape.push_back(size ? *size : -1);
  }
  const auto there = given_.find(attr.name);
  describe(value, attr.name, attr.type.dtype, std::move(shape),
           there == given_.end() ? std::span<const std::byte>() : there->second.bytes);
}

void CProgram::set_dim(const std::string& name, int64_t size) {
  for (Expr symbol : module_.symbols) {
    if (symbol.name() != name) continue;
    const Interval range = symbol.range();
    if (!range.contains(size) || size % symbol.multiple() != 0)
      fail("set_dim",
           fmt::format("{} = {} is outside of its range {}..{}", name, size, range.low, range.high));
    const auto before = dims_.find(name);
    const bool changed = before == dims_.end() || before->second != size;
    dims_[name] = size;
    // A weight of another size is given by another call.
    renew_ |= changed && std::any_of(inputs().begin(), inputs().end(), [&](NodeId id) {
                const auto& attr = std::get<InputAttr>(module_.entry()[id].attr);
                return attr.role == Role::weight &&
                       std::any_of(attr.type.shape.begin(), attr.type.shape.end(),
                                   [&](Expr extent) { return depends_on(extent, symbol); });
              });
    if (running_.context && !renew_) check(running_.context->set_symbol(name, size), "set_dim");
    return;
  }
  std::vector<std::string_view> names;
  for (Expr symbol : module_.symbols) names.push_back(symbol.name());
  fail("set_dim", fmt::format("there is no dimension {}; there are {}", name,
                              names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

void CProgram::store(const std::string& name, std::vector<int64_t> shape, std::span<const std::byte> bytes,
                     bool copy, const char* operation) {
  const InputAttr& attr = input(name, operation);
  bool fits = shape.size() == attr.type.shape.size();
  for (size_t axis = 0; fits && axis < shape.size(); axis++)
    fits = !attr.type.shape[axis].is_constant() || attr.type.shape[axis].value() == shape[axis];
  if (!fits)
    fail(operation,
         fmt::format("{} is {}, the value has shape {}", name, to_string(attr.type), text_of(shape)));
  for (size_t axis = 0; axis < shape.size(); axis++)
    if (attr.type.shape[axis].is_symbol()) set_dim(std::string(attr.type.shape[axis].name()), shape[axis]);
  Given value{.shape = std::move(shape)};
  if (copy) value.copy.assign(bytes.begin(), bytes.end());
  value.bytes = copy ? std::span<const std::byte>(value.copy) : bytes;
  Given& there = given_[name] = std::move(value);
  if (copy) there.bytes = there.copy;
  renew_ |= attr.role == Role::weight;
  if (running_.context && !renew_) give(name);
}

void CProgram::set_input(const std::string& name, std::string_view dtype, std::vector<int64_t> shape,
                         const void* data, bool copy) {
  const char* operation = copy ? "set_input" : "borrow_input";
  const InputAttr& attr = input(name, operation);
  const auto type = parse_dtype(dtype);
  if (!type || *type != attr.type.dtype)
    fail(operation, fmt::format("{} is {}, the value is {}", name, to_string(attr.type), dtype));
  const int64_t bytes = storage_bytes(*type, count_of(shape, operation));
  if (!data && bytes > 0) fail(operation, fmt::format("{}: data is null", name));
  store(name, std::move(shape), {static_cast<const std::byte*>(data), size_t(bytes)}, copy, operation);
}

void CProgram::load_inputs(const std::string& path) {
  Safetensors file = checked(open_safetensors(path), "load_inputs");
  for (NodeId id : inputs()) {
    const auto& attr = std::get<InputAttr>(module_.entry()[id].attr);
    const TensorView* view = file.find(attr.name);
    if (!view) continue;
    const auto dtype = dtype_of_storage(view->type);
    if (!dtype || *dtype != attr.type.dtype)
      fail("load_inputs", fmt::format("{}: {} is {}, the program takes {}", path, attr.name, view->describe(),
                                      to_string(attr.type)));
    store(attr.name, view->shape, view->bytes, false, "load_inputs");
  }
  files_.push_back(std::move(file));
}

void CProgram::set_option(const std::string& name, const std::string& value) {
  if (name == "passes")
    parse_passes(value);
  else if (name == "threads" || name == "seconds" || name == "max_memory" || name == "cache")
    number_of(name, value);
  else
    fail("set_option",
         fmt::format("there is no option {}; there are threads, cache, seconds, passes, max_memory", name));
  options_[name] = value;
  running_ = {};
  compiled_.reset();
}

double CProgram::number_option(const char* name, double usual) const {
  return options_.contains(name) ? number_of(name, options_.at(name)) : usual;
}

void CProgram::compile() {
  int threads = int(number_option("threads", 0));
  if (threads == 0) threads = setting_threads();
  compile::Options options = compile::Options::host(threads);
  options.max_memory = int64_t(number_option("max_memory", 0));
  options.cache = options.kept_plans = number_option("cache", 1) != 0;
  if (options.cache) options.tuning = compile::usual_tuning_cache(options_.contains("seconds"));
  options.pool = &shared_pool(threads);
  options.sizes = dims_;
  if (options_.contains("passes")) options.passes = parse_passes(options_.at("passes"));
  if (options_.contains("seconds")) {
    options.search.mode = SearchMode::budget;
    options.search.seconds = number_option("seconds", 10);
  }
  running_ = {};
  compiled_ = checked(compile::compile(module_, options), "compile");
  Running made;
  made.device = shared_device(threads);
  made.executable = checked(runtime::Executable::load(compiled_->plan, *made.device), "compile");
  made.store = std::make_shared<runtime::Store>(*made.device);
  running_ = std::move(made);
  for (auto& [name, value] : given_) value.fresh = true; // its states are in the new store
  make_context();
}

/// With the weights that are there; states are the store's.
void CProgram::make_context() {
  for (NodeId id : inputs()) {
    const auto& attr = std::get<InputAttr>(module_.entry()[id].attr);
    if (attr.role == Role::weight && given_.contains(attr.name))
      running_.store->borrow_weight(attr.name, given_.at(attr.name).bytes, nullptr);
  }
  running_.store->unload();
  running_.context.reset();
  running_.context = checked(runtime::Context::create(running_.executable, running_.store,
                                                      {.max_memory = int64_t(number_option("max_memory", 0)),
                                                       .host = run_host_effect}),
                             "compile");
  renew_ = false;
  for (const auto& [name, size] : dims_) check(running_.context->set_symbol(name, size), "compile");
  for (const auto& [name, value] : given_) give(name);
}

void CProgram::give(const std::string& name) {
  const InputAttr& attr = input(name, "set_input");
  Given& value = given_.at(name);
  if (attr.role == Role::weight || (attr.role == Role::state && !value.fresh)) return;
  check(attr.role == Role::state ? running_.context->set_state(name, value.bytes)
                                 : running_.context->bind_argument(name, value.bytes),
        "set_input");
  value.fresh = false;
}

void CProgram::execute() {
  for (NodeId id : inputs()) {
    const auto& attr = std::get<InputAttr>(module_.entry()[id].attr);
    if (attr.role != Role::state && !given_.contains(attr.name))
      fail("execute", fmt::format("{} ({}) has no value yet", attr.name, to_string(attr.type)));
  }
  if (!running_.executable)
    compile();
  else if (!running_.context || renew_)
    make_context();
  ran_ = false;
  check(running_.context->run(), "execute");
  ran_ = true;
}

void CProgram::output(const std::string& name, luminal_value& value) {
  if (!running_.context || !ran_) fail("output", "the program has not run yet");
  for (NodeId id : inputs())
    if (const auto& attr = std::get<InputAttr>(module_.entry()[id].attr);
        attr.name == name && attr.role == Role::state) {
      const auto state = checked(running_.context->state(name), "output");
      return describe(value, name, state.dtype, state.shape, state.bytes);
    }
  const bool there = std::any_of(outputs().begin(), outputs().end(),
                                 [&](const FunctionResult& result) { return result.name == name; });
  if (!there) {
    std::vector<std::string> names;
    for (const FunctionResult& result : outputs()) names.push_back(result.name);
    fail("output", fmt::format("there is no result {}; there are {}", name, fmt::join(names, ", ")));
  }
  const auto result = checked(running_.context->result(name), "output");
  describe(value, name, result.dtype, result.shape, result.bytes);
}

const char* CProgram::report() {
  report_ = compiled_ ? compiled_->report() : "";
  return report_.c_str();
}

} // namespace luminal::capi
