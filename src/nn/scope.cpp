// nn/scope.cpp -- names and values of parameters.
#include "nn/scope.h"
#include "base/hash.h"
#include "luminal/random.h"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <numeric>

namespace luminal::nn {
namespace {

std::string joined(std::string_view prefix, std::string_view name) {
  return prefix.empty() ? std::string(name) : fmt::format("{}.{}", prefix, name);
}

int64_t count_of(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Tensor make_input(const Registry& r, const std::string& name, const std::vector<int64_t>& shape, DType dtype,
                  std::source_location where) {
  Graph graph(r.graph);
  const Dims dims(shape.begin(), shape.end());
  return r.options.trained ? graph.state(name, dims, dtype, where) : graph.weight(name, dims, dtype, where);
}

} // namespace

void need_sizes(std::string_view op, std::initializer_list<std::pair<const char*, int64_t>> sizes,
                std::source_location where) {
  for (const auto& [name, size] : sizes)
    if (size < 1) throw Error(op, fmt::format("{} = {}: at least 1 is expected", name, size), where);
}

Tensor Parameter::value() const {
  if (!entry_) return {};
  if (!entry_->codes) return entry_->tensor;
  const Dims shape(entry_->shape.begin(), entry_->shape.end());
  return dequantize(*entry_->codes).reshape(shape).cast(entry_->tensor.dtype());
}

std::vector<int64_t> Parameter::shape() const { return entry_ ? entry_->shape : std::vector<int64_t>(); }

Tensor Parameter::linear(const Tensor& x, const Tensor& bias, std::source_location where) const {
  if (!entry_) throw Error("linear", "there is no parameter", where);
  if (!entry_->codes || entry_->shape.size() != 2 || x.dtype(where) != DType::f32 || x.rank(where) < 1)
    return luminal::linear(x, value(), bias, where);
  Dims shape = x.shape(where);
  const Dim in = shape.back();
  shape.back() = entry_->shape[0];
  Tensor y = matmul_transposed(x.reshape({-1, in}, where), *entry_->codes, where).reshape(shape, where);
  return bias.defined() ? y + bias : y;
}

Scope::Scope(Graph& graph, const ScopeOptions& options)
    : Scope(std::make_shared<Registry>(graph.state("Scope"), options), "") {}
Scope::Scope(std::shared_ptr<Registry> registry, std::string prefix)
    : registry_(std::move(registry)), prefix_(std::move(prefix)) {}

Scope Scope::operator/(std::string_view name) const { return Scope(registry_, joined(prefix_, name)); }
Graph Scope::graph() const { return Graph(registry_->graph); }
DType Scope::dtype() const { return registry_->options.dtype; }
void Scope::train(bool on) const { registry_->training = on; }
bool Scope::training() const { return registry_->training; }

Parameter Scope::parameter(std::string_view name, std::vector<int64_t> shape, Init initial,
                           Where where) const {
  const std::string full = joined(prefix_, name);
  auto& entry = registry_->entries[full];
  Parameter result;
  if (entry) {
    if (entry->shape != shape || entry->is_buffer)
      throw Error("parameter",
                  fmt::format("{} is [{}] already, [{}] is asked for", full, fmt::join(entry->shape, ", "),
                              fmt::join(shape, ", ")),
                  where);
    result.entry_ = entry;
    return result;
  }
  Tensor tensor = make_input(*registry_, full, shape, dtype(), where);
  // Asked for only where nobody sets or loads a value.
  tensor.set_deferred(
      [shape, initial = std::move(initial), seed = hash64(full, registry_->options.seed), where](Tensor& t) {
        const std::vector<float> values = initial(shape, seed);
        t.set_bytes(std::as_bytes(std::span(values)), DType::f32, where);
      },
      where);
  entry = std::make_shared<Entry>(Entry{full, tensor, std::move(shape), false, {}});
  result.entry_ = entry;
  return result;
}

Tensor Scope::buffer(std::string_view name, std::vector<int64_t> shape, double initial, DType type,
                     Where where) const {
  const std::string full = joined(prefix_, name);
  auto& entry = registry_->entries[full];
  if (entry) {
    if (entry->shape != shape || !entry->is_buffer)
      throw Error("buffer",
                  fmt::format("{} is [{}] already, [{}] is asked for", full, fmt::join(entry->shape, ", "),
                              fmt::join(shape, ", ")),
                  where);
    return entry->tensor;
  }
  Tensor tensor = make_input(*registry_, full, shape, type, where);
  const std::vector<double> values(size_t(count_of(shape)), initial);
  tensor.set_bytes(std::as_bytes(std::span(values)), DType::f64, where);
  entry = std::make_shared<Entry>(Entry{full, tensor, std::move(shape), true, {}});
  return tensor;
}

void Scope::update(const Tensor& buffer, const std::function<Tensor(const Tensor& old)>& next,
                   Where where) const {
  GraphState& g = *registry_->graph;
  if (!registry_->options.trained) return;
  for (auto& [state, value] : g.updates)
    if (state == node_id(buffer)) { // another call of the step has made a value already
      const Tensor made = next(wrap(registry_->graph, value));
      value = node_id(made);
      g.stale = true;
      return;
    }
  graph().update(buffer, next(buffer), where);
}

Tensor Scope::random_key(Where where) const {
  Registry& r = *registry_;
  Graph g = graph();
  if (!r.key.defined()) r.key = random_state_key(g, "random_key", r.options.seed, where);
  return child_key(r.key, r.keys++, where);
}

StateDict Scope::state_dict() const {
  StateDict all = parameters();
  all.merge(buffers());
  return all;
}

namespace {
/// f(name from the prefix on, entry) for each below it.
template <class F> void each_below(const Registry& r, const std::string& prefix, F&& f) {
  const std::string start = prefix.empty() ? "" : prefix + ".";
  for (auto it = r.entries.lower_bound(start); it != r.entries.end() && it->first.starts_with(start); ++it)
    f(it->first.substr(start.size()), *it->second);
}
} // namespace

StateDict Scope::parameters() const {
  StateDict result;
  each_below(*registry_, prefix_, [&](const std::string& name, const Entry& entry) {
    if (entry.is_buffer) return;
    if (!entry.codes) {
      result.emplace(name, entry.tensor);
      return;
    }
    for (const char* part : {".codes", ".scales", ".offsets"})
      if (auto at = registry_->graph->inputs.find(entry.name + part); at != registry_->graph->inputs.end())
        result.emplace(name + part, wrap(registry_->graph, at->second));
  });
  return result;
}

StateDict Scope::buffers() const {
  StateDict result;
  each_below(*registry_, prefix_, [&](const std::string& name, const Entry& entry) {
    if (entry.is_buffer) result.emplace(name, entry.tensor);
  });
  return result;
}

std::vector<Tensor> Scope::parameter_list() const {
  std::vector<Tensor> list;
  for (const auto& [_, tensor] : parameters()) list.push_back(tensor);
  return list;
}

LoadReport Scope::load(const std::string& path, const LoadOptions& options, Where where) const {
  return luminal::load(state_dict(), path, options, where);
}
void Scope::save(const std::string& path, const SaveOptions& options, Where where) const {
  luminal::save(state_dict(), path, options, where);
}

void Scope::quantize(const WeightFormat& format, Where where) const {
  if (registry_->options.trained)
    throw Error("quantize", "parameters that are trained stay floating-point numbers", where);
  Graph g = graph();
  each_below(*registry_, prefix_, [&](const std::string&, Entry& entry) {
    if (entry.is_buffer || entry.codes || entry.shape.size() < 2) return;
    const int64_t rows = entry.shape[0], count = count_of(entry.shape);
    if (rows < 1 || count < 1) return;
    const PackedWeight packed =
        quantize_weight(entry.tensor.data<float>(where), rows, count / rows, format, where);
    entry.codes = quantized_weight(g, entry.name, packed, RowOrder::bytes, where);
    entry.tensor.drop(where);
  });
}

} // namespace luminal::nn
