// train/trainer.cpp -- one program for forward, backward and update, and the loop around it.
#include "base/file.h"
#include "base/print.h"
#include "base/text.h"
#include "luminal/autograd.h"
#include "luminal/files.h"
#include "luminal/functions.h"
#include "luminal/inspect.h"
#include "tensor/graph_state.h"
#include "train/checkpoint.h"
#include "train/model_scope.h"
#include "train/run_files.h"
#include <charconv>
#include <chrono>
#include <cmath>
#include <fmt/format.h>
#include <unistd.h>

namespace luminal {
namespace {

/// Scalar [] of floats, as f32.
Tensor scalar(const Tensor& x, const std::string& what, Where where) {
  if (!x.defined() || x.rank() != 0 || !is_float(x.dtype()))
    throw Error("Trainer",
                fmt::format("{} is {}: one floating-point number [] is expected", what,
                            x.defined() ? to_string(type_of(x)) : "not set"),
                where);
  return x.cast(DType::f32, where);
}

int64_t number(const train::Facts& facts, const std::string& name, const std::string& path, Where where) {
  const auto at = facts.find(name);
  int64_t value = 0;
  const bool there =
      at != facts.end() &&
      std::from_chars(at->second.data(), at->second.data() + at->second.size(), value).ec == std::errc();
  if (!there) throw Error("resume", fmt::format("{} does not say its {}", path, name), where);
  return value;
}

} // namespace

struct Trainer::State {
  ModelFunction model;
  TrainerOptions options;
  Graph graph;
  DataLoader loader;
  ModelScope::State scope;
  StepResults results;
  Tensor norm, rate, applied;
  std::vector<std::string> metrics;

  std::unique_ptr<Graph> validating; // made when it is needed
  std::optional<ModelScope::State> validation_scope;
  StepResults validation_results;

  int64_t segments = 1; // of the forward terms: values of all but the last one are computed again
  int64_t steps = 0;
  double best = INFINITY;
  bool resumed = false;
  std::optional<train::RunFiles> files;

  State(const ModelFunction& model_, DataSetPtr data, const TrainerOptions& options_, Where where)
      : model(model_), options(options_),
        loader(std::move(data), {.batch = options_.batch, .seed = options_.seed, .shuffle = options_.shuffle},
               where),
        scope{graph, true, options_.precision, options_.seed, options_.batch} {}

  /// `parts`: segments of the forward terms; see GradientOptions.
  void build(int64_t parts, Where where);
  void set_values(Where where);
  void build_validation(Where where);
  StepRecord step(Where where);
  ValidationRecord validate(Where where);
  void save(const std::string& path, Where where) const;
  void checkpoint(bool best_one, TrainSummary& summary, Where where);
  std::vector<float> averaged(const std::string& name, Where where) const;
  [[noreturn]] void stop_at(const StepRecord& record,
                            const std::map<std::string, std::vector<uint32_t>>& keys, Where where);
};

void Trainer::State::build(int64_t parts, Where where) {
  constexpr std::string_view op = "Trainer";
  const auto check = [&](bool fits, std::string_view what) {
    if (!fits) throw Error(op, what, where);
  };
  check(options.steps >= 0 && options.accumulate >= 1 && options.log_every >= 1,
        "steps, accumulate and log_every must be at least 0, 1 and 1");
  check(options.validate_every >= 0 && options.save_every >= 0 && options.keep_checkpoints >= 1,
        "validate_every, save_every and keep_checkpoints must be at least 0, 0 and 1");
  check(options.recompute >= 0 && options.recompute <= 1024, "recompute lies in 0..1024");
  check(options.clip_norm >= 0 && options.ema >= 0 && options.ema < 1,
        "clip_norm must be at least 0, ema lie in 0..1");
  check(options.precision == DType::f32 || options.precision == DType::bf16 ||
            options.precision == DType::f16,
        "the precision is f32, bf16 or f16");
  train::add_inputs(scope, loader.data());
  ModelScope models_view(scope);
  results = model(models_view);
  check(!scope.parameters.empty(), "the model has no parameters");
  results.loss = scalar(results.loss, "the loss", where).keep(where);
  for (auto& [name, value] : results.metrics) {
    value = scalar(value, "the metric " + name, where).keep(where);
    metrics.push_back(name);
  }
  std::vector<Tensor> parameters;
  for (const auto& p : scope.parameters) parameters.push_back(p.stored);
  std::vector<Tensor> grads;
  const GradientOptions back{.segments = parts};
  if (options.precision == DType::f16) {
    GradScaler scaler(graph);
    grads = scaler.unscaled(gradients(scaler.scaled(results.loss), parameters, back, where)).gradients;
  } else {
    grads = gradients(results.loss, parameters, back, where);
  }
  std::optional<Tensor> ready;
  if (options.accumulate > 1) {
    const Accumulated sums = accumulate(graph, grads, options.accumulate);
    grads = sums.gradients;
    ready = sums.ready;
  }
  ClippedGradients clipped = clip_grad_norm(grads, options.clip_norm > 0 ? options.clip_norm : 1, 2, where);
  if (options.clip_norm > 0) grads = clipped.gradients;
  norm = clipped.norm.keep(where);
  const Tensor finite = norm.isfinite() & results.loss.isfinite();
  applied = finite.cast(DType::i32).keep(where);
  const Tensor when = ready ? *ready & finite : finite;
  Optimizer optimizer = options.optimizer ? options.optimizer(graph) : adamw(graph, 1e-3);
  rate = optimizer.learning_rate();
  rate.keep(where);
  for (size_t i = 0; i < parameters.size(); ++i)
    optimizer.update({parameters[i]}, {grads[i]},
                     {.rate = scope.parameters[i].group.rate,
                      .weight_decay = scope.parameters[i].group.weight_decay,
                      .when = when},
                     where);
  if (options.ema > 0) moving_averages(graph, parameters, options.ema, when, where);
}

/// All other states begin with zeros.
void Trainer::State::set_values(Where where) {
  train::load_frozen(scope, options.weights, where);
  train::set_first_values(scope, options.weights, options.compile, where);
}

StepRecord Trainer::State::step(Where where) {
  const auto begin = std::chrono::steady_clock::now();
  StepRecord record{.step = steps + 1};
  for (const std::string& name : metrics) record.metrics.emplace_back(name, 0);
  std::map<std::string, std::vector<uint32_t>> keys; // as they were before the execute
  bool finite = true;
  for (int64_t k = 0; k < options.accumulate; ++k) {
    for (const std::string& name : scope.keys)
      keys[name] = wrap(graph.state(), graph.state()->inputs.at(name)).data<uint32_t>();
    const std::shared_ptr<const Batch> batch = loader.next();
    for (auto& [name, input] : scope.inputs) give(batch, name, input, where);
    if (graph.state()->stale) graph.compile(options.compile, where);
    graph.execute(where);
    const double share = 1.0 / double(options.accumulate);
    record.loss += results.loss.item<double>() * share;
    for (size_t m = 0; m < metrics.size(); ++m)
      record.metrics[m].second += results.metrics[m].second.item<double>() * share;
    finite = finite && applied.item<int>() != 0;
    if (!finite && options.on_nonfinite == OnNonFinite::stop) {
      record.gradient_norm = norm.item<double>();
      stop_at(record, keys, where);
    }
  }
  record.gradient_norm = norm.item<double>();
  record.learning_rate = rate.item<double>();
  record.skipped = !finite;
  record.milliseconds =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
  ++steps;
  return record;
}

/// No parameter was updated, so that the step can be looked at again: with its keys.
void Trainer::State::stop_at(const StepRecord& record,
                             const std::map<std::string, std::vector<uint32_t>>& keys, Where where) {
  for (const auto& [name, value] : keys) wrap(graph.state(), graph.state()->inputs.at(name)).set(value);
  const auto shown = [](double x) {
    return std::isnan(x) ? std::string("nan") : fmt::format("{}", x);
  }; // not "-nan"
  std::string text = fmt::format("step {}: the loss is {}", record.step, shown(record.loss));
  if (std::isfinite(record.loss)) text += ", but the norm of its gradients is " + shown(record.gradient_norm);
  for (const NonFinite& found : find_nonfinite(graph, where)) {
    text += fmt::format("; the first {} comes from {} ({})", found.nan ? "NaN" : "infinite number",
                        found.operation, found.type);
    if (std::isinf(record.loss)) break;
  }
  throw Error("Trainer", text, where);
}

std::vector<float> Trainer::State::averaged(const std::string& name, Where where) const {
  const auto& inputs = graph.state()->inputs;
  const Tensor own = wrap(graph.state(), inputs.at(name));
  const auto ema = inputs.find(name + ".ema");
  if (options.ema == 0 || ema == inputs.end() || steps == 0) return own.data<float>(where);
  const double weight = wrap(graph.state(), inputs.at("ema.weight")).item<double>(where);
  if (weight == 0) return own.data<float>(where); // no step was applied yet
  std::vector<float> values = wrap(graph.state(), ema->second).data<float>(where);
  for (float& value : values) value = float(double(value) / weight);
  return values;
}

void Trainer::State::build_validation(Where where) {
  validating = std::make_unique<Graph>();
  const int64_t most = std::min(options.batch, options.validation->size());
  const Dim batch = most > 1 ? validating->dim("batch", 1, most, where) : Dim(1);
  validation_scope.emplace(ModelScope::State{*validating, false, options.precision, options.seed, batch});
  train::add_inputs(*validation_scope, *options.validation);
  ModelScope models_view(*validation_scope);
  validation_results = model(models_view);
  validation_results.loss = scalar(validation_results.loss, "the loss", where).keep(where);
  for (auto& [name, value] : validation_results.metrics)
    value = scalar(value, "the metric " + name, where).keep(where);
  train::load_frozen(*validation_scope, options.weights, where);
  CompileOptions compile = options.compile;
  compile.sizes["batch"] = {most};
  compile.weights_id.clear(); // they change each time
  if (most == 1) compile.sizes.erase("batch");
  for (const auto& p : validation_scope->parameters) Tensor(p.stored).set(averaged(p.name, where), where);
  for (const auto& r : validation_scope->running) Tensor(r.stored).set(averaged(r.name, where), where);
  validating->compile(compile, where);
}

ValidationRecord Trainer::State::validate(Where where) {
  if (!options.validation)
    throw Error("validate", "there is no data set for it: TrainerOptions::validation", where);
  if (!validating) build_validation(where);
  for (const auto& p : validation_scope->parameters) Tensor(p.stored).set(averaged(p.name, where), where);
  for (const auto& r : validation_scope->running) Tensor(r.stored).set(averaged(r.name, where), where);
  const int64_t most = std::min(options.batch, options.validation->size());
  DataLoader batches(options.validation, {.batch = most, .shuffle = false, .endless = false}, where);
  ValidationRecord record{.step = steps};
  for (const std::string& name : metrics) record.metrics.emplace_back(name, 0);
  while (const auto batch = batches.next()) {
    if (most > 1) validating->set_dim("batch", batch->count, where);
    for (auto& [name, input] : validation_scope->inputs) give(batch, name, input, where);
    validating->execute(where);
    const double share = double(batch->count) / double(options.validation->size());
    record.loss += validation_results.loss.item<double>() * share;
    for (size_t m = 0; m < metrics.size(); ++m)
      record.metrics[m].second += validation_results.metrics[m].second.item<double>() * share;
  }
  record.best = record.loss < best;
  if (record.best) best = record.loss;
  return record;
}

void Trainer::State::save(const std::string& path, Where where) const {
  train::save_states(graph, path,
                     {{"step", std::to_string(steps)},
                      {"position", std::to_string(loader.position())},
                      {"samples", std::to_string(loader.data().size())},
                      {"batch", std::to_string(options.batch)},
                      {"accumulate", std::to_string(options.accumulate)},
                      {"seed", std::to_string(options.seed)},
                      {"best", fmt::format("{}", best)}},
                     where);
}

void Trainer::State::checkpoint(bool best_one, TrainSummary& summary, Where where) {
  if (options.folder.empty()) return;
  const train::CheckpointFolder folder(options.folder + "/checkpoints");
  const std::string path = folder.path(steps);
  if (summary.checkpoint != path) save(path, where);
  folder.note(steps, best_one, options.keep_checkpoints);
  if (summary.checkpoint != path && options.on_checkpoint) options.on_checkpoint(path);
  summary.checkpoint = path;
  files->plot();
}

/// The least segments with which a step keeps within the limit of memory, by plans of it.
Trainer::Trainer(const ModelFunction& model, DataSetPtr data, const TrainerOptions& options, Where where) {
  constexpr int64_t most_segments = 64;
  const int64_t limit = options.compile.max_memory;
  int64_t segments = std::max<int64_t>(1, options.recompute), least = INT64_MAX, least_at = 1;
  for (;; segments *= 2) {
    state_ = std::make_unique<State>(model, data, options, where);
    state_->build(segments, where);
    if (limit <= 0 || options.recompute > 0) break;
    const MemoryUse use = planned_memory(state_->graph, options.compile, where);
    const int64_t needed = use.arena + use.states + use.loaded;
    if (needed <= limit) break;
    if (needed < least) least = needed, least_at = segments;
    if (segments == most_segments)
      throw OutOfMemoryError(
          "Trainer",
          fmt::format("a step needs {}, the limit is {}: {} of it are parameters and what the "
                      "optimizer remembers, {} values in between{}; a smaller batch needs less",
                      human_bytes(uint64_t(least)), human_bytes(uint64_t(limit)),
                      human_bytes(uint64_t(use.states + use.loaded)),
                      human_bytes(uint64_t(least - use.states - use.loaded)),
                      least_at > 1 ? fmt::format(", computed again in {} segments", least_at) : ""),
          {.needed = least, .available = limit}, where);
  }
  state_->segments = segments;
  state_->set_values(where);
}
Trainer::Trainer(Trainer&&) noexcept = default;
Trainer::~Trainer() = default;

void Trainer::resume(const std::string& path, Where where) {
  State& s = *state_;
  std::string file = path;
  if (is_directory(path)) {
    file = train::CheckpointFolder(path + "/checkpoints").last();
    if (file.empty()) file = train::CheckpointFolder(path).last();
    if (file.empty()) throw Error("resume", fmt::format("there is no checkpoint in {}", path), where);
  }
  int64_t steps = 0, position = 0;
  double best = INFINITY;
  const auto check = [&](const train::Facts& facts) {
    steps = number(facts, "step", file, where);
    position = number(facts, "position", file, where);
    const auto same = [&](const std::string& name, int64_t own, std::string_view unit) {
      const int64_t theirs = number(facts, name, file, where);
      if (theirs != own)
        throw Error("resume",
                    fmt::format("{} was written with {} {}, now there are {}", file, theirs, unit, own),
                    where);
    };
    same("samples", s.loader.data().size(), "samples");
    same("batch", s.options.batch, "samples a batch");
    same("accumulate", s.options.accumulate, "batches a step");
    const auto seed = facts.find("seed");
    if (seed == facts.end() || seed->second != std::to_string(s.options.seed))
      throw Error("resume",
                  fmt::format("{} was written with seed {}, now it is {}", file,
                              seed == facts.end() ? "?" : seed->second, s.options.seed),
                  where);
    if (const auto at = facts.find("best"); at != facts.end())
      best = std::strtod(at->second.c_str(), nullptr);
  };
  train::load_states(s.graph, file, check, where);
  s.steps = steps;
  s.best = best;
  s.loader.seek(position);
  s.resumed = true;
}

TrainSummary Trainer::run(Where where) {
  State& s = *state_;
  const TrainerOptions& o = s.options;
  TrainSummary summary;
  if (!o.folder.empty() && !s.files) s.files.emplace(o.folder, s.metrics, s.steps, s.resumed, where);
  const bool terminal = o.progress && isatty(STDERR_FILENO) == 1;
  std::optional<int64_t> validated; // after how many steps
  const auto validate = [&] {
    const ValidationRecord record = s.validate(where);
    validated = s.steps;
    summary.validation_loss = record.loss;
    if (s.files) s.files->add(record);
    if (o.progress) {
      std::string text = fmt::format("step {}/{} validation loss {:.4g}", record.step, o.steps, record.loss);
      for (const auto& [name, value] : record.metrics) text += fmt::format(" {} {:.4g}", name, value);
      print_stderr("{}{}{}\n", terminal ? "\r\033[K" : "", text,
                   record.best && record.step > 0 ? " (best)" : "");
    }
    if (o.on_validation) o.on_validation(record);
    if (record.best && record.step > 0) s.checkpoint(true, summary, where);
  };
  if (o.validation && s.steps == 0) validate();
  while (s.steps < o.steps && !summary.stopped) {
    const StepRecord record = s.step(where);
    summary.loss = record.loss;
    const bool line = s.steps % o.log_every == 0 || s.steps == o.steps || s.steps == 1;
    if (s.files) s.files->add(record);
    if (o.progress && (line || terminal))
      print_stderr("{}{}{}", terminal ? "\r\033[K" : "",
                   train::progress_line(record, o.steps, double(o.batch * o.accumulate)), line ? "\n" : "");
    if (o.on_step) o.on_step(record);
    if (o.validation && o.validate_every > 0 && s.steps % o.validate_every == 0) validate();
    if (o.save_every > 0 && s.steps % o.save_every == 0) s.checkpoint(false, summary, where);
    summary.stopped = s.steps < o.steps && o.stop && o.stop();
  }
  if (o.validation && !summary.stopped && validated != s.steps) validate();
  s.checkpoint(false, summary, where);
  if (!o.folder.empty() && !summary.stopped) save_model(o.folder + "/model.safetensors", where);
  summary.steps = s.steps;
  if (std::isfinite(s.best)) summary.best_validation_loss = s.best;
  return summary;
}

StepRecord Trainer::step(Where where) { return state_->step(where); }
ValidationRecord Trainer::validate(Where where) { return state_->validate(where); }
int64_t Trainer::steps_done() const { return state_->steps; }
int64_t Trainer::segments() const { return state_->segments; }
void Trainer::save(const std::string& path, Where where) const { state_->save(path, where); }

void Trainer::save_model(const std::string& path, Where where) const {
  const State& s = *state_;
  Graph model;
  const auto add = [&](const std::string& name, const Tensor& stored) {
    Tensor weight = model.weight(name, stored.shape(), DType::f32, where);
    weight.set(s.averaged(name, where), where);
  };
  for (const auto& p : s.scope.parameters) add(p.name, p.stored);
  for (const auto& r : s.scope.running) add(r.name, r.stored);
  luminal::save(model, path, {.metadata = {{"step", std::to_string(s.steps)}}}, where);
}

Graph Trainer::with_values(const std::function<void(ModelScope& scope)>& make, Where where) const {
  const State& s = *state_;
  Graph graph;
  ModelScope::State scope{graph, false, s.options.precision, s.options.seed, 1};
  ModelScope view(scope);
  make(view);
  const auto give_value = [&](const std::string& name, Tensor stored) {
    if (!s.graph.state()->inputs.contains(name))
      throw Error("with_values", fmt::format("the training has no {}", name), where);
    stored.set(s.averaged(name, where), where);
  };
  for (const auto& p : scope.parameters) give_value(p.name, p.stored);
  for (const auto& r : scope.running) give_value(r.name, r.stored);
  train::load_frozen(scope, s.options.weights, where);
  return graph;
}

Graph& Trainer::graph() { return state_->graph; }
std::vector<std::string> Trainer::parameter_names() const {
  std::vector<std::string> names;
  for (const auto& p : state_->scope.parameters) names.push_back(p.name);
  return names;
}
Tensor Trainer::parameter(const std::string& name, Where where) const {
  for (const auto& p : state_->scope.parameters)
    if (p.name == name) return p.stored;
  throw Error("parameter", fmt::format("there is no parameter {}", name), where);
}
const DataLoader& Trainer::loader() const { return state_->loader; }

} // namespace luminal
