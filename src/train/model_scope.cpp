// train/model_scope.cpp -- inputs, parameters, statistics and keys of a model; first values.
#include "train/model_scope.h"
#include "base/text.h"
#include "luminal/files.h"
#include "luminal/functions.h"
#include "luminal/inspect.h"
#include "luminal/lifetime.h"
#include "tensor/graph_state.h"
#include <cmath>
#include <fmt/format.h>
#include <set>

namespace luminal {
namespace init {
namespace {
double constant_size(const Dim& dim, std::string_view op) {
  if (!dim.is_constant()) throw Error(op, "the shape of a parameter is constant");
  return double(dim.value());
}
/// Products of the extents behind the first two axes, and of the second one.
double kernel(const Dims& shape, std::string_view op) {
  double size = 1;
  for (size_t d = 2; d < shape.size(); ++d) size *= constant_size(shape[d], op);
  return size;
}
double inputs(const Dims& shape, std::string_view op) {
  return shape.size() < 2 ? (shape.empty() ? 1 : constant_size(shape[0], op))
                          : constant_size(shape[1], op) * kernel(shape, op);
}
} // namespace

Init constant(double value) {
  return [=](const Tensor& key, const Dims& shape) {
    Graph g(key.graph());
    return full(g, shape, value);
  };
}
Init normal(double deviation, double mean) {
  return [=](const Tensor& key, const Dims& shape) { return random_normal(key, shape, mean, deviation); };
}
Init uniform(double bound) {
  return [=](const Tensor& key, const Dims& shape) { return random_uniform(key, shape, -bound, bound); };
}
Init fan_in() {
  return [](const Tensor& key, const Dims& shape) {
    const double bound = std::sqrt(1 / inputs(shape, "fan_in"));
    return random_uniform(key, shape, -bound, bound);
  };
}
Init he() {
  return [](const Tensor& key, const Dims& shape) {
    return random_normal(key, shape, 0, std::sqrt(2 / inputs(shape, "he")));
  };
}
Init xavier() {
  return [](const Tensor& key, const Dims& shape) {
    if (shape.size() < 2) throw Error("xavier", "it is for weights of two axes or more");
    const double both = constant_size(shape[0], "xavier") + constant_size(shape[1], "xavier");
    const double bound = std::sqrt(6 / both / kernel(shape, "xavier"));
    return random_uniform(key, shape, -bound, bound);
  };
}
} // namespace init

Graph& ModelScope::graph() const { return state_.graph; }
bool ModelScope::training() const { return state_.training; }
Dim ModelScope::batch() const { return state_.batch; }

Tensor ModelScope::input(const std::string& field, Where where) const {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : state_.inputs) {
    if (name == field) return tensor;
    names.push_back(name);
  }
  throw Error("input", fmt::format("the data set has no field {}; it has {}", printable(field), join(names)),
              where);
}

Tensor ModelScope::parameter(const std::string& name, const Dims& shape, const Init& first, Where where) {
  Graph& g = state_.graph;
  const Tensor stored =
      state_.training ? g.state(name, shape, DType::f32, where) : g.weight(name, shape, DType::f32, where);
  state_.parameters.push_back({name, stored, first});
  return stored.cast(state_.precision, where);
}

void ModelScope::group(const std::vector<std::string>& names, const Group& group, Where where) {
  for (const std::string& name : names) {
    bool found = false;
    for (auto& p : state_.parameters)
      if (p.name == name) {
        p.group = group;
        found = true;
      }
    if (!found) throw Error("group", fmt::format("there is no parameter {}", printable(name)), where);
  }
}

Tensor ModelScope::frozen(const std::string& name, const Dims& shape, DType dtype, Where where) {
  state_.frozen.push_back(name);
  return state_.graph.weight(name, shape, dtype, where);
}

Tensor ModelScope::running(const std::string& name, const Dims& shape, double first, Where where) {
  Graph& g = state_.graph;
  state_.running.push_back(
      {name,
       state_.training ? g.state(name, shape, DType::f32, where) : g.weight(name, shape, DType::f32, where),
       first});
  return state_.running.back().stored;
}

void ModelScope::update(const Tensor& running, const Tensor& next, Where where) {
  if (state_.training) state_.graph.update(running, next.cast(DType::f32, where), where);
}

Tensor ModelScope::key(const std::string& name, Where where) const {
  // The name is part of the seed: keys of two names are independent.
  uint64_t seed = state_.seed;
  for (unsigned char c : name) seed = (seed ^ c) * 0x100000001B3;
  if (!state_.training) return random_key(state_.graph, seed, where);
  state_.keys.push_back(name);
  return random_state_key(state_.graph, name, seed, where);
}

Tensor ModelScope::dropout(const Tensor& x, double p, Where where) {
  if (!state_.training || p == 0) return x;
  return luminal::dropout(key(fmt::format("dropout{}.key", state_.keys.size()), where), x, p, where);
}

Tensor accuracy(const Tensor& logits, const Tensor& targets, Where where) {
  const auto graph = graph_of("accuracy", {&logits, &targets}, where);
  if (logits.rank() != 2 || targets.rank() != 1)
    throw Error("accuracy",
                fmt::format("logits [n, classes] and targets [n] are expected, not {} and {}",
                            to_string(type_of(logits)), to_string(type_of(targets))),
                where);
  return equal(logits.argmax(1, false, where), targets.cast(DType::i64, where))
      .cast(DType::f32, where)
      .mean({}, false, where);
}

namespace train {

void add_inputs(ModelScope::State& scope, const DataSet& data) {
  for (const DataField& field : data.fields()) {
    Dims shape{scope.batch};
    for (int64_t extent : field.shape) shape.emplace_back(extent);
    scope.inputs.emplace_back(field.name, scope.graph.tensor(shape, field.dtype, field.name));
  }
}

void set_first_values(ModelScope::State& scope, const std::string& weights, const CompileOptions& compile,
                      Where where) {
  std::map<std::string, Tensor> from_file;
  Graph file;
  if (!weights.empty() && !scope.parameters.empty()) {
    for (const auto& p : scope.parameters)
      from_file.emplace(p.name, file.weight(p.name, p.stored.shape(), DType::f32, where));
    const LoadReport report = load(file, weights, {.strict = false, .convert = true}, where);
    if (!report.mismatching.empty())
      throw Error(
          "Trainer",
          fmt::format("{}: {}: {}", weights, report.mismatching[0].name, report.mismatching[0].reason),
          where);
    for (const std::string& name : report.missing) from_file.erase(name);
  }
  std::vector<Tensor> values, targets; // that are made
  Graph made;
  {
    // The key of each parameter is an input: what differs in its key only is one kernel.
    Graph keys;
    const Tensor seed = random_key(keys, scope.seed, where);
    std::vector<Tensor> children, inputs;
    for (size_t i = 0; i < scope.parameters.size(); ++i) {
      const auto& p = scope.parameters[i];
      if (from_file.contains(p.name)) continue;
      children.push_back(child_key(seed, int64_t(i), where));
      inputs.push_back(made.tensor({2}, DType::u32, "", where));
      values.push_back(p.first(inputs.back(), p.stored.shape()).keep(where));
      targets.push_back(p.stored);
      if (values.back().dtype() != DType::f32 ||
          !same_shape(type_of(values.back()).shape, type_of(p.stored).shape))
        throw Error("Trainer",
                    fmt::format("the first value of {} is {}, the parameter {}", p.name,
                                to_string(type_of(values.back())), to_string(type_of(p.stored))),
                    where);
    }
    const std::vector<ReferenceValue> words = interpret(children, where);
    for (size_t i = 0; i < inputs.size(); ++i) inputs[i].set_bytes(words[i].bytes, DType::u32, where);
  }
  if (!values.empty()) {
    CompileOptions options = compile;
    options.search = {};
    options.max_memory = 0; // these values take as much as the parameters that they become
    made.compile(options, where);
    made.execute(where);
    // Handed over, but for one that several parameters begin with (zeros of one shape).
    std::set<uint32_t> given;
    std::vector<Tensor> from, to;
    for (size_t i = 0; i < values.size(); ++i)
      if (given.insert(values[i].id()).second) {
        from.push_back(values[i]);
        to.push_back(targets[i]);
      } else {
        targets[i].set(values[i].data<float>(where), where);
      }
    transfer(from, to, where);
  }
  for (const auto& p : scope.parameters)
    if (const auto found = from_file.find(p.name); found != from_file.end())
      transfer(found->second, p.stored, where);
  for (const auto& r : scope.running) {
    Tensor stored = r.stored;
    stored.set(std::vector<float>(size_t(stored.element_count()), float(r.first)), where);
  }
}

void load_frozen(ModelScope::State& scope, const std::string& weights, Where where) {
  if (scope.frozen.empty()) return;
  if (weights.empty())
    throw Error("Trainer",
                fmt::format("the model has frozen values ({}, ..): TrainerOptions::weights names their file",
                            scope.frozen[0]),
                where);
  const LoadReport report = load(scope.graph, weights, {.strict = false, .convert = true}, where);
  for (const auto& [name, reason] : report.mismatching)
    throw Error("Trainer", fmt::format("{}: {}: {}", weights, name, reason), where);
  for (const std::string& name : report.missing)
    if (std::find(scope.frozen.begin(), scope.frozen.end(), name) != scope.frozen.end())
      throw Error("Trainer", fmt::format("{} has no tensor {}", weights, name), where);
}

} // namespace train
} // namespace luminal
