// cli/eval.cpp -- `luminal eval FILE.lum|MODEL.onnx`: runs a program on tensors from files, by a plan,
// by the interpreter, or both side by side.
#include "base/check.h"
#include "base/file.h"
#include "base/print.h"
#include "base/settings.h"
#include "base/thread_pool.h"
#include "cli/common.h"
#include "cli/onnx_program.h"
#include "cli/tensor_files.h"
#include "compile/compile.h"
#include "device/cpu/cpu_device.h"
#include "device/known_devices.h"
#include "formats/safetensors.h"
#include "ir/host_text.h"
#include "ir/interp.h"
#include "ir/trust.h"
#include "luminal/debug.h"
#include "runtime/context.h"
#include "tensor/effects.h"
#include "tensor/graph_state.h"
#include "tensor/values_text.h"
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iostream>
#include <optional>
#include <set>
#include <span>

namespace luminal::cli {
namespace {

struct EvalArguments {
  std::string path, output, partition, device = "cpu";
  std::vector<std::string> inputs, dims, schedules;
  int threads = 0;
  double slack = 4;
  bool interpret = false, check = false, json = false, no_cache = false, report = false, allow_custom = false;
};

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string extents_text(const std::vector<int64_t>& extents) {
  return fmt::format("[{}]", fmt::join(extents, ", "));
}

/// What runs: the module, its dimensions, its inputs in the module's types.
struct Task {
  Module module;
  std::map<std::string, int64_t> dims;
  std::map<std::string, HostTensor> inputs;
  std::set<std::string> from_files; // inputs that were there; states may start at zero
  /// Of an ONNX model, which has them; elsewhere weights are inputs.
  std::map<std::string, std::span<const std::byte>> weights;
  std::shared_ptr<const OnnxModel> model;
};

void set_dim(Task& task, const std::string& name, int64_t value, const std::string& from) {
  for (Expr symbol : task.module.symbols) {
    if (symbol.name() != name) continue;
    if (!symbol.range().contains(value) || value % symbol.multiple() != 0)
      throw Error(fmt::format("{}: dimension {} would be {}, declared is {}..{}{}", from, name, value,
                              symbol.range().low, symbol.range().high,
                              symbol.multiple() > 1 ? fmt::format(" multiple {}", symbol.multiple()) : ""));
    auto [at, fresh] = task.dims.emplace(name, value);
    if (!fresh && at->second != value)
      throw Error(
          fmt::format("{}: dimension {} would be {}, elsewhere it is {}", from, name, value, at->second));
    return;
  }
  throw Error(fmt::format("{}: the module has no dimension {}", from, name));
}

void read_dims(Task& task, const std::vector<std::string>& options) {
  for (const std::string& option : options) {
    const size_t cut = option.find('=');
    char* end = nullptr;
    const int64_t value = cut == std::string::npos ? 0 : std::strtoll(option.c_str() + cut + 1, &end, 10);
    if (cut == std::string::npos || cut == 0 || end == option.c_str() + cut + 1 || *end)
      throw UsageError(fmt::format("--dim {}: NAME=SIZE is expected, such as --dim S=3", option));
    set_dim(task, option.substr(0, cut), value, "--dim " + option);
  }
}

const std::vector<NodeId>& params(const Task& task) { return task.module.entry().params; }
const InputAttr& param(const Task& task, NodeId id) {
  return std::get<InputAttr>(task.module.entry()[id].attr);
}

void read_inputs(Task& task, const TensorFiles& files, const std::string& module_path) {
  for (NodeId id : params(task)) {
    const InputAttr& input = param(task, id);
    if (task.weights.contains(input.name)) continue;
    auto found = files.tensors.find(input.name);
    if (found == files.tensors.end()) {
      if (input.role == Role::state) continue;
      throw Error(fmt::format("input {} ({}) is missing: the files have {}", input.name,
                              to_string(input.type), files.names()));
    }
    const auto& [view, path] = found->second;
    auto dtype = dtype_of_storage(view.type);
    auto wrong = [&] {
      return Error(fmt::format("{}: {} is {}, the module wants {}", path, view.name, view.describe(),
                               to_string(input.type)));
    };
    if (!dtype || *dtype != input.type.dtype || view.shape.size() != input.type.shape.size()) throw wrong();
    for (size_t d = 0; d < view.shape.size(); d++) {
      const Expr extent = input.type.shape[d];
      if (extent.is_constant() && extent.value() != view.shape[d]) throw wrong();
      if (extent.is_symbol())
        set_dim(task, std::string(extent.name()), view.shape[d],
                fmt::format("{}: {} {}", path, view.name, extents_text(view.shape)));
    }
    task.inputs[input.name] = {*dtype, view.shape, {view.bytes.begin(), view.bytes.end()}};
    task.from_files.insert(input.name);
  }
  for (const auto& [name, where] : files.tensors)
    if (!task.from_files.contains(name) &&
        !(task.model && std::ranges::find(task.model->fixed, name) != task.model->fixed.end()))
      print_stderr("note: {} has a tensor {}, {} has no such input\n", where.second, name, module_path);
}

/// Sizes that are known now are held against the shapes; states without a value start at zero.
void check_sizes_of_task(Task& task) {
  ExprMap<int64_t> bindings;
  for (Expr symbol : task.module.symbols) {
    auto value = task.dims.find(std::string(symbol.name()));
    if (value == task.dims.end())
      throw Error(fmt::format(
          "dimension {} ({}..{}) has no value: no input has an axis of this size, say --dim {}=SIZE",
          symbol.name(), symbol.range().low, symbol.range().high, symbol.name()));
    bindings[symbol] = value->second;
  }
  for (Expr condition : task.module.assumptions) {
    auto holds = evaluate(condition, bindings);
    if (!holds) throw Error(holds.error());
    std::string sizes;
    for (Expr symbol : symbols_of(condition))
      sizes += fmt::format("{}{} = {}", sizes.empty() ? "" : ", ", symbol.name(), bindings.at(symbol));
    if (*holds == 0) throw Error(fmt::format("the module assumes {}, but {}", to_string(condition), sizes));
  }
  for (NodeId id : params(task)) {
    const InputAttr& input = param(task, id);
    if (task.weights.contains(input.name)) continue;
    std::vector<int64_t> extents;
    int64_t count = 1;
    for (Expr extent : input.type.shape) {
      auto value = evaluate(extent, bindings);
      if (!value) throw Error(value.error());
      extents.push_back(*value);
      if (__builtin_mul_overflow(count, *value, &count) || count > int64_t(1) << 40)
        throw Error(fmt::format("input {} ({}) has too many elements", input.name, to_string(input.type)));
    }
    auto given = task.inputs.find(input.name);
    if (given == task.inputs.end())
      task.inputs[input.name] = {input.type.dtype, extents,
                                 std::vector<std::byte>(size_t(storage_bytes(input.type.dtype, count)))};
    else if (given->second.shape != extents)
      throw Error(fmt::format("input {} has shape {}, the module wants {} = {}", input.name,
                              extents_text(given->second.shape), to_string(input.type),
                              extents_text(extents)));
  }
}

/// An ONNX model with the shapes of the files; dimensions that they do not tell are those of --dim.
Task read_onnx_task(const EvalArguments& a) {
  Task task;
  TensorFiles files;
  for (const std::string& path : a.inputs) files.add(path);
  auto model = std::make_shared<OnnxModel>(open_onnx_model(a.path, files, parse_sizes(a.dims)));
  task.module = model->graph.state()->snapshot();
  for (NodeId id : params(task))
    if (const InputAttr& input = param(task, id); input.role == Role::weight)
      task.weights[input.name] = onnx_weight(*model, input.name);
  task.model = std::move(model);
  read_inputs(task, files, a.path);
  check_sizes_of_task(task);
  return task;
}

Task read_task(const EvalArguments& a) {
  if (is_onnx(a.path)) return read_onnx_task(a);
  Task task;
  auto text = read_file(a.path);
  if (!text) throw Error(text.error());
  task.module = parse_module_from(*text, a.path, a.allow_custom);
  LUMINAL_CHECK(!task.module.functions.empty(), "the parser asks for a function");
  if (auto mistakes = verify(task.module); !mistakes.empty()) {
    for (size_t i = 1; i < mistakes.size(); i++) print_stderr("{}: {}\n", a.path, mistakes[i]);
    throw Error(fmt::format("{}: {}", a.path, mistakes[0]));
  }
  TensorFiles files;
  for (const std::string& path : a.inputs) files.add(path);
  read_dims(task, a.dims);
  read_inputs(task, files, a.path);
  check_sizes_of_task(task);
  return task;
}

using Results = std::map<std::string, HostTensor>;

/// The partition that a file has for the steps of this function; fusion decides for all others.
compile::Partitioner partition_from(const std::string& path, const std::string& function) {
  auto text = read_file(path);
  if (!text) throw Error(text.error());
  return [text = std::move(*text), path, function,
          done = false](const Region& region) mutable -> Result<std::optional<Partition>> {
    if (done || region.function->name != function) return std::optional<Partition>();
    done = true; // the same function is asked for what is computed at load after its steps
    try {
      return std::optional(parse_partition(text, *region.function, path));
    } catch (const Error& mistake) {
      return Failure{mistake.what()};
    }
  };
}

std::unique_ptr<device::Device> device_of(const std::string& name, ThreadPool& pool) {
  if (name == "cpu") return device::make_cpu_device(pool);
  auto made = device::make_known_device(name);
  if (!made) throw Error(made.error());
  return std::move(*made);
}

Results run_plan(const Task& task, const EvalArguments& a, Json& timings) {
  auto start = Clock::now();
  const int threads = a.threads > 0 ? a.threads : setting_threads();
  ThreadPool pool(threads);
  compile::Options options = compile::Options::for_device(a.device, threads);
  options.cache = !a.no_cache;
  options.kept_plans = !a.no_cache && !a.report;
  if (!a.no_cache) options.tuning = compile::usual_tuning_cache(false);
  options.pool = &pool;
  options.sizes = task.dims; // what was tuned for these sizes
  for (const std::string& given : a.schedules) {
    const size_t cut = given.find('=');
    if (cut == std::string::npos || cut == 0)
      throw UsageError(
          fmt::format("--schedule {}: KERNEL=FILE is expected, such as --schedule k0=schedule.txt", given));
    auto text = read_file(given.substr(cut + 1));
    if (!text) throw Error(text.error());
    options.schedules[given.substr(0, cut)] = *text;
  }
  if (!a.partition.empty()) {
    options.partitioner = partition_from(a.partition, task.module.entry().name);
    options.passes = passes::none(); // its values are those of the file
  }
  auto compiled = compile::compile(task.module, options);
  if (!compiled) throw Error(fmt::format("{}: {}", a.path, compiled.error()));
  timings["compile_s"] = seconds_since(start);
  if (a.report) print_stderr("{}", compiled->report());
  start = Clock::now();
  const auto device = device_of(a.device, pool);
  auto executable = runtime::Executable::load(compiled->plan, *device);
  if (!executable) throw Error(executable.error());
  auto store = std::make_shared<runtime::Store>(*device);
  for (NodeId id : params(task)) {
    const InputAttr& input = param(task, id);
    if (input.role != Role::weight) continue;
    const auto held = task.weights.find(input.name);
    store->borrow_weight(
        input.name, held != task.weights.end() ? held->second : task.inputs.at(input.name).data, nullptr);
  }
  auto context = runtime::Context::create(*executable, store, {.host = run_host_effect});
  if (!context) throw Error(context.error());
  auto check = [](const Result<void>& done) {
    if (!done) throw Error(done.error());
  };
  for (const auto& [name, size] : task.dims) check((*context)->set_symbol(name, size));
  for (NodeId id : params(task)) {
    const InputAttr& input = param(task, id);
    if (input.role == Role::weight) continue;
    const auto& data = task.inputs.at(input.name).data;
    if (input.role == Role::argument) check((*context)->bind_argument(input.name, data));
    if (input.role != Role::state) continue;
    check((*context)->set_state(input.name, data));
  }
  timings["load_s"] = seconds_since(start);
  start = Clock::now();
  check((*context)->run());
  timings["run_s"] = seconds_since(start);
  Results results;
  for (const FunctionResult& result : task.module.entry().results) {
    auto value = (*context)->result(result.name);
    if (!value) throw Error(value.error());
    results[result.name] = {value->dtype, value->shape, {value->bytes.begin(), value->bytes.end()}};
  }
  return results;
}

Bindings bindings_of(const Task& task, bool silent) {
  Bindings bindings;
  bindings.inputs = task.inputs;
  for (NodeId id : params(task)) { // fixed shapes: a model's weights have no dimension that changes
    const InputAttr& input = param(task, id);
    const auto held = task.weights.find(input.name);
    if (held == task.weights.end()) continue;
    HostTensor weight{input.type.dtype, {}, {held->second.begin(), held->second.end()}};
    for (Expr extent : input.type.shape) weight.shape.push_back(extent.value());
    bindings.inputs[input.name] = std::move(weight);
  }
  bindings.symbols = task.dims;
  if (silent) bindings.print = [](const std::string&) {};
  return bindings;
}

/// A plan's results against an interpreter that carries a bound of what rounding may change.
struct Judged {
  std::string name;
  int64_t count = 0, wrong = 0;
  int64_t unknown = 0; // not what the interpreter has, and rounding may change them in any way
  double largest = 0, bound = 0;
  std::string worst; // the first wrong element
  std::string text() const {
    if (wrong) return fmt::format("{} of {} elements are wrong; {}", wrong, count, worst);
    if (!unknown)
      return fmt::format("{} elements are right, largest error {:.3g} of {:.3g} allowed", count, largest,
                         bound);
    const std::string open = fmt::format("bound unknown for {} elements", unknown);
    if (unknown == count) return open + ": nothing could be judged";
    return fmt::format("{} of {} elements are right, largest error {:.3g} of {:.3g} allowed; {}",
                       count - unknown, count, largest, bound, open);
  }
};
std::vector<Judged> judge(const Task& task, const Results& results, double slack) {
  const Bindings bindings = bindings_of(task, true);
  Interpreter interpreter(task.module, bindings, InterpMode::bounded), rounded(task.module, bindings);
  std::vector<Judged> all;
  for (const FunctionResult& result : task.module.entry().results) {
    const HostTensor& got = results.at(result.name);
    Judged judged;
    judged.name = result.name;
    const std::vector<InterpValue> expected = interpreter.values(result.name);
    std::optional<HostTensor> likely; // an element that equals it is right, whatever rounding might do
    const auto same_as_rounded = [&](int64_t i) {
      if (!likely) likely = rounded.result(result.name);
      if (!is_float(got.dtype))
        return load_i64(got.dtype, got.data.data(), i) == load_i64(got.dtype, likely->data.data(), i);
      const double a = got.at(i), b = likely->at(i);
      return a == b || (std::isnan(a) && std::isnan(b));
    };
    judged.count = int64_t(expected.size());
    for (int64_t i = 0; i < judged.count; i++) {
      const InterpValue& want = expected[size_t(i)];
      bool right = true, known = want.error == 0;
      std::string text;
      if (is_float(got.dtype)) {
        const double value = got.at(i), error = std::fabs(value - want.value);
        const double allowed = slack * want.error + 4 * unit_roundoff(got.dtype) * std::fabs(want.value);
        known = std::isfinite(want.error);
        right = value == want.value || (std::isnan(value) && std::isnan(want.value)) ||
                (known && error <= allowed);
        if (!right)
          text = fmt::format("{:.9g} by the plan, {:.9g} by the interpreter, within {:.3g}", value,
                             want.value, allowed);
        if (known && std::isfinite(error)) judged.largest = std::max(judged.largest, error);
        if (std::isfinite(allowed)) judged.bound = std::max(judged.bound, allowed);
      } else {
        const int64_t value = load_i64(got.dtype, got.data.data(), i);
        right = value == want.integer;
        if (!right) text = fmt::format("{} by the plan, {} by the interpreter", value, want.integer);
      }
      if (right || (!known && same_as_rounded(i))) continue;
      if (!known)
        judged.unknown++;
      else if (judged.wrong++ == 0)
        judged.worst = fmt::format("element {}: {}", i, text);
    }
    all.push_back(std::move(judged));
  }
  return all;
}

void save(const std::string& path, const Results& results, const Module& module) {
  if (path.ends_with(".npy")) {
    if (results.size() != 1)
      throw Error(
          fmt::format("{}: an .npy file holds one array, the module has {} results", path, results.size()));
    const auto& [name, value] = *results.begin();
    if (auto done = write_tensor(path, name, value.dtype, value.shape, value.data); !done)
      throw Error(done.error());
    return;
  }
  std::vector<TensorView> views;
  for (const FunctionResult& result : module.entry().results) {
    const HostTensor& value = results.at(result.name);
    auto type = storage_of_dtype(value.dtype);
    if (!type)
      throw Error(fmt::format("{}: result {} is {}, which no file holds; cast it in the module", path,
                              result.name, to_string(value.dtype)));
    TensorView view;
    view.name = result.name;
    view.type = *type;
    view.shape = value.shape;
    view.bytes = value.data;
    views.push_back(std::move(view));
  }
  auto done = path.ends_with(".npz") ? save_npz(path, views) : save_safetensors(path, views);
  if (!done) throw Error(done.error());
}

Json description(const std::string& name, const HostTensor& value) {
  return {{"name", name}, {"dtype", std::string(to_string(value.dtype))}, {"shape", value.shape}};
}

int eval(const EvalArguments& a) {
  end_on_interrupt();
  register_file_effects();
  if (!a.output.empty() && !a.output.ends_with(".safetensors") && !a.output.ends_with(".npy") &&
      !a.output.ends_with(".npz") && !a.output.starts_with("/dev/"))
    throw UsageError(fmt::format("{}: the output must end in .safetensors, .npz or .npy", a.output));
  const Task task = read_task(a);
  Json timings = {{"compile_s", nullptr},
                  {"load_s", nullptr},
                  {"run_s", nullptr},
                  {"interpret_s", nullptr},
                  {"check_s", nullptr}};
  Results results;
  if (a.interpret) {
    const auto start = Clock::now();
    const Bindings bindings = bindings_of(task, false);
    results = Interpreter(task.module, bindings).run();
    timings["interpret_s"] = seconds_since(start);
  } else
    results = run_plan(task, a, timings);
  std::vector<Judged> judged;
  if (a.check) {
    const auto start = Clock::now();
    judged = judge(task, results, a.slack);
    timings["check_s"] = seconds_since(start);
  }
  if (!a.output.empty()) save(a.output, results, task.module);
  int64_t wrong = 0, unknown = 0, elements = 0;
  for (const Judged& j : judged) wrong += j.wrong, unknown += j.unknown, elements += j.count;

  if (a.json) {
    Json json = {{"file", a.path},
                 {"function", task.module.entry().name},
                 {"by", a.interpret ? "interpreter" : "plan"}};
    json["dims"] = Json::object();
    for (const auto& [name, size] : task.dims) json["dims"][name] = size;
    json["inputs"] = Json::array();
    for (NodeId id : params(task))
      if (!task.weights.contains(param(task, id).name))
        json["inputs"].push_back(description(param(task, id).name, task.inputs.at(param(task, id).name)));
    json["results"] = Json::array();
    for (const FunctionResult& result : task.module.entry().results)
      json["results"].push_back(description(result.name, results.at(result.name)));
    json["check"] = nullptr;
    if (a.check) {
      json["check"] = Json::array();
      for (const Judged& j : judged)
        json["check"].push_back({{"name", j.name},
                                 {"elements", j.count},
                                 {"wrong", j.wrong},
                                 {"unknown", j.unknown},
                                 {"largest_error", j.largest},
                                 {"bound", j.bound}});
    }
    json["timings"] = timings;
    std::cout << json_text(json) << std::endl;
  } else if (a.output.empty())
    for (const FunctionResult& result : task.module.entry().results) {
      const HostTensor& value = results.at(result.name);
      fmt::print("{}: {}{}\n{}\n", result.name, to_string(value.dtype),
                 value.shape.empty() ? "" : extents_text(value.shape),
                 values_text(value.dtype, value.shape, value.data, {}));
    }
  for (const Judged& j : judged)
    if (!a.json || j.wrong || j.unknown) print_stderr("check {}: {}\n", j.name, j.text());
  if (wrong)
    print_stderr("luminal: {}: the plan and the interpreter differ\n", a.path);
  else if (unknown > 0 && unknown == elements)
    print_stderr("luminal: {}: the check could judge no element\n", a.path);
  if (wrong || (unknown > 0 && unknown == elements)) return failed;
  return ok;
}

} // namespace

void add_eval(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<EvalArguments>();
  auto* verb =
      app.add_subcommand("eval", "Run a module of terms (.lum) or an ONNX model on tensors from files");
  verb->add_option("file", a->path, "Terms in text form, of which the last function is run; or .onnx")
      ->required();
  verb->add_option("--inputs,-i", a->inputs,
                   "Tensors by name: .safetensors, .npz, or .npy named like the input; may be repeated")
      ->allow_extra_args(false);
  verb->add_option("--output,-o", a->output,
                   "Write the results to this .safetensors, .npz (or .npy) file instead of showing them");
  verb->add_option("--dim,-d,--size", a->dims,
                   "NAME=SIZE of a dimension that no input's shape tells; may be repeated")
      ->allow_extra_args(false);
  auto* interpret =
      verb->add_flag("--interpret", a->interpret, "By the interpreter, which is the meaning of every term");
  auto* check = verb->add_flag(
      "--check", a->check, "Hold the plan's results against the interpreter; exit code 1 where they differ");
  check->excludes(interpret);
  verb->add_option("--slack", a->slack, "Of the error bounds of --check")
      ->check(between(1, 1e6))
      ->needs(check)
      ->capture_default_str();
  verb->add_option("--schedule", a->schedules,
                   "KERNEL=FILE: the text of a kernel's schedule, instead of the usual one; may be repeated")
      ->allow_extra_args(false)
      ->excludes(interpret);
  verb->add_option(
          "--partition", a->partition,
          "Which values are stored and which of them one kernel computes, in text form (docs/terms.md); "
          "the terms are compiled as they stand")
      ->excludes(interpret);
  verb->add_option("--threads,-t", a->threads, "Worker threads")->check(whole(1, 1024));
  verb->add_option("--device", a->device, "Where it runs: a name that `luminal devices` lists")
      ->excludes(interpret)
      ->capture_default_str();
  verb->add_flag("--report", a->report, "Print what was compiled and why")->excludes(interpret);
  verb->add_flag("--no-cache", a->no_cache, "Do not use machine code and tuning results kept on disk");
  add_allow_custom(*verb, a->allow_custom);
  verb->add_flag("--json", a->json,
                 "One JSON object: file, function, by, dims, inputs, results, check, timings");
  verb->callback([a, verb, &exit_code] {
    if (a->interpret)
      refuse_options(*verb, {"--threads", "--no-cache"}, "the interpreter has no threads and keeps nothing");
    exit_code = eval(*a);
  });
}

} // namespace luminal::cli
