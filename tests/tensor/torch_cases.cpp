// tests/tensor/torch_cases.cpp -- reads the cases, builds them into graphs, runs plan and
// interpreter, compares.
#include "torch_cases.h"
#include "base/file.h"
#include "formats/safetensors.h"
#include "ir/interp.h"
#include "tensor/graph_state.h"
#include <cmath>
#include <cstring>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace luminal::test {
namespace {

std::map<std::string, TorchOp>& rows() {
  static std::map<std::string, TorchOp> instance;
  return instance;
}

template <class T> const T* get(const CaseAttrs& attrs, const std::string& name) {
  auto found = attrs.values.find(name);
  if (found == attrs.values.end()) return nullptr;
  const T* value = std::get_if<T>(&found->second);
  if (!value) throw std::runtime_error("attribute " + name + " is of another kind");
  return value;
}

std::optional<double> as_number(const CaseAttrs::Value& value) {
  if (const double* number = std::get_if<double>(&value)) return *number;
  if (const std::string* text = std::get_if<std::string>(&value)) {
    if (*text == "inf") return INFINITY;
    if (*text == "-inf") return -INFINITY;
    if (*text == "nan") return NAN;
  }
  return {};
}

CaseAttrs read_attrs(const nlohmann::json& json) {
  CaseAttrs attrs;
  for (const auto& [name, value] : json.items()) {
    if (value.is_null()) continue;
    CaseAttrs::Value& slot = attrs.values[name];
    if (value.is_boolean())
      slot = value.get<bool>();
    else if (value.is_number())
      slot = value.get<double>();
    else if (value.is_string())
      slot = value.get<std::string>();
    else if (value.is_array() && !value.empty() && value[0].is_string())
      slot = value.get<std::vector<std::string>>();
    else
      slot = value.get<std::vector<double>>();
  }
  return attrs;
}

DType dtype_of_storage(StorageType type) {
  switch (type) {
  case StorageType::boolean: return DType::boolean;
  case StorageType::i8: return DType::i8;
  case StorageType::u8: return DType::u8;
  case StorageType::i16: return DType::i16;
  case StorageType::u16: return DType::u16;
  case StorageType::i32: return DType::i32;
  case StorageType::u32: return DType::u32;
  case StorageType::i64: return DType::i64;
  case StorageType::u64: return DType::u64;
  case StorageType::f16: return DType::f16;
  case StorageType::bf16: return DType::bf16;
  case StorageType::f32: return DType::f32;
  case StorageType::f64: return DType::f64;
  default: throw std::runtime_error("a type that the cases do not use");
  }
}

HostTensor host_tensor_of(const Safetensors& file, const std::string& name) {
  const TensorView* view = file.find(name);
  if (!view) throw std::runtime_error("no tensor " + name);
  return {dtype_of_storage(view->type), view->shape, {view->bytes.begin(), view->bytes.end()}};
}

std::string text_of_shape(const std::vector<int64_t>& shape) {
  return fmt::format("[{}]", fmt::join(shape, ", "));
}

/// One case of the index, and what became of it.
struct Case {
  std::string name, op;
  CaseAttrs attrs;
  std::vector<HostTensor> inputs, expected;
  std::vector<HostTensor> upstream; // of gradients
  std::vector<size_t> wanted;       // the inputs that have one
  std::vector<Tensor> outputs;      // empty: failed while it was built
};

void compare(const Case& c, size_t output, const HostTensor& got, const char* by) {
  const HostTensor& want = c.expected[output];
  const std::string place = fmt::format("{} ({}), output {}, {}", c.name, c.op, output, by);
  const bool scalar =
      c.attrs.flag("scalar_axis") && got.shape.empty() && want.shape == std::vector<int64_t>{1};
  if (got.shape != want.shape && !scalar) {
    ADD_FAILURE() << place << ": shape " << text_of_shape(got.shape) << ", expected "
                  << text_of_shape(want.shape);
    return;
  }
  if (got.dtype != want.dtype && !c.attrs.flag("any_dtype")) {
    ADD_FAILURE() << place << ": dtype " << to_string(got.dtype) << ", expected " << to_string(want.dtype);
    return;
  }
  Tolerance tolerance = tolerance_of(is_float(got.dtype) ? want.dtype : got.dtype);
  if (is_float(want.dtype)) {
    tolerance.relative = c.attrs.number("rtol", tolerance.relative);
    tolerance.absolute = c.attrs.number("atol", tolerance.absolute);
  }
  const bool integers = !is_float(want.dtype) && !is_float(got.dtype);
  int wrong = 0;
  std::string text;
  for (int64_t i = 0; i < want.count(); ++i) {
    bool same = integers
                    ? load_i64(got.dtype, got.data.data(), i) == load_i64(want.dtype, want.data.data(), i)
                    : same_value(got.at(i), want.at(i), tolerance, c.attrs.flag("signed_zero"));
    if (!same && wrong++ < 4)
      text += fmt::format("\n  element {} is {:.9g}, PyTorch has {:.9g}", i, got.at(i), want.at(i));
  }
  if (wrong) ADD_FAILURE() << place << ": " << wrong << " of " << want.count() << " elements differ" << text;
}

std::vector<Tensor> gradients_of(Graph& graph, const Case& c, const std::vector<Tensor>& outputs,
                                 const std::vector<Tensor>& inputs, const Differentiate& differentiate) {
  std::vector<Tensor> upstream, wanted;
  for (size_t i = 0; i < c.upstream.size(); ++i) {
    const HostTensor& given = c.upstream[i];
    Tensor t = graph.tensor(Dims(given.shape.begin(), given.shape.end()), given.dtype,
                            fmt::format("{}.up{}", c.name, i));
    t.set_bytes(given.data, given.dtype);
    upstream.push_back(t.reshape(outputs.at(i).shape()));
  }
  for (size_t i : c.wanted) wanted.push_back(inputs.at(i));
  return differentiate(outputs, wanted, upstream);
}

/// Builds the cases into one graph; a case that cannot be built is reported and left out.
void build_cases(Graph& graph, std::span<Case> cases, const Differentiate& differentiate) {
  for (Case& c : cases) {
    try {
      auto row = rows().find(c.op);
      if (row == rows().end()) throw std::runtime_error("the operation " + c.op + " has no row");
      std::vector<Tensor> inputs;
      for (size_t i = 0; i < c.inputs.size(); ++i) {
        Dims shape(c.inputs[i].shape.begin(), c.inputs[i].shape.end());
        inputs.push_back(graph.tensor(shape, c.inputs[i].dtype, fmt::format("{}.in{}", c.name, i)));
        inputs.back().set_bytes(c.inputs[i].data, c.inputs[i].dtype);
      }
      std::vector<Tensor> outputs = row->second({graph, c.attrs, inputs}).list;
      if (differentiate) outputs = gradients_of(graph, c, outputs, inputs, differentiate);
      if (outputs.size() != c.expected.size())
        throw std::runtime_error(
            fmt::format("{} outputs, PyTorch has {}", outputs.size(), c.expected.size()));
      for (size_t i = 0; i < outputs.size(); ++i) outputs[i].keep();
      c.outputs = outputs;
    } catch (const std::exception& error) {
      ADD_FAILURE() << c.name << " (" << c.op << "): " << error.what();
    }
  }
}

void run_graph(std::span<Case> cases, const Differentiate& differentiate) {
  Graph graph;
  build_cases(graph, cases, differentiate);
  const Module module = graph.state()->snapshot();
  Bindings bindings;
  for (const Case& c : cases) {
    for (size_t i = 0; i < c.inputs.size(); ++i)
      bindings.inputs[fmt::format("{}.in{}", c.name, i)] = c.inputs[i];
    for (size_t i = 0; i < c.upstream.size(); ++i)
      bindings.inputs[fmt::format("{}.up{}", c.name, i)] = c.upstream[i];
  }
  Interpreter interpreter(module, bindings);
  try {
    graph.execute();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "the plan of the cases " << cases.front().name << " .. " << cases.back().name << ": "
                  << error.what();
    return;
  }
  for (const Case& c : cases)
    for (size_t i = 0; i < c.outputs.size(); ++i) {
      const Tensor& output = c.outputs[i];
      try {
        HostTensor got = interpreter.result(graph.state()->kept.at(node_id(output)));
        compare(c, i, got, "interpreter");
        std::vector<std::byte> data(size_t(storage_bytes(output.dtype(), output.element_count())));
        output.read(data.data(), output.dtype());
        got.data = std::move(data);
        compare(c, i, got, "plan");
      } catch (const std::exception& error) {
        ADD_FAILURE() << c.name << " (" << c.op << "): " << error.what();
      }
    }
}

} // namespace

TorchOps::TorchOps(std::initializer_list<std::pair<const char*, TorchOp>> list) {
  for (const auto& [name, op] : list)
    if (!rows().emplace(name, op).second) {
      std::fprintf(stderr, "two rows for the operation %s\n", name);
      std::abort();
    }
}

bool CaseAttrs::flag(const std::string& name, bool fallback) const {
  const bool* value = get<bool>(*this, name);
  return value ? *value : fallback;
}
double CaseAttrs::number(const std::string& name) const {
  auto found = values.find(name);
  auto value = found == values.end() ? std::nullopt : as_number(found->second);
  if (!value) throw std::runtime_error("attribute " + name + " is not a number, or absent");
  return *value;
}
double CaseAttrs::number(const std::string& name, double fallback) const {
  return has(name) ? number(name) : fallback;
}
std::string CaseAttrs::text(const std::string& name, const std::string& fallback) const {
  const auto* value = get<std::string>(*this, name);
  return value ? *value : fallback;
}
std::vector<double> CaseAttrs::numbers(const std::string& name) const {
  auto found = values.find(name);
  if (found == values.end()) return {};
  if (auto one = as_number(found->second)) return {*one};
  return *get<std::vector<double>>(*this, name);
}
std::vector<int> CaseAttrs::integers(const std::string& name) const {
  std::vector<int> list;
  for (double value : numbers(name)) list.push_back(int(value));
  return list;
}
std::vector<std::string> CaseAttrs::texts(const std::string& name) const {
  const auto* value = get<std::vector<std::string>>(*this, name);
  return value ? *value : std::vector<std::string>();
}

Tolerance tolerance_of(DType type) {
  switch (type) {
  case DType::f64: return {1e-12, 1e-13};
  case DType::f32: return {1e-5, 1e-6};
  case DType::f16: return {2e-3, 1e-4};
  case DType::bf16: return {1.6e-2, 1e-4};
  default: return {0, 0};
  }
}

bool same_value(double got, double expected, Tolerance tolerance, bool signed_zero) {
  if (std::isnan(got) || std::isnan(expected)) return std::isnan(got) && std::isnan(expected);
  if (signed_zero && expected == 0 && got == 0) return std::signbit(got) == std::signbit(expected);
  if (std::isinf(got) || std::isinf(expected)) return got == expected;
  return std::fabs(got - expected) <= tolerance.absolute + tolerance.relative * std::fabs(expected);
}

namespace {
void run_file(const std::string& stem, size_t cases_in_a_graph, bool scalar_axis,
              const std::set<std::string>& without, const Differentiate& differentiate) {
  auto index = read_file(stem + ".json");
  auto file = open_safetensors(stem + ".safetensors");
  ASSERT_TRUE(index) << index.error();
  ASSERT_TRUE(file) << file.error();
  std::vector<Case> cases;
  for (const auto& json : nlohmann::json::parse(*index)) {
    Case c;
    c.name = json.at("name");
    if (without.contains(c.name)) continue;
    c.op = json.at("op");
    c.attrs = read_attrs(json.at("attrs"));
    for (const std::string name : json.at("inputs")) c.inputs.push_back(host_tensor_of(*file, name));
    if (differentiate) {
      for (const std::string name : json.at("upstream")) c.upstream.push_back(host_tensor_of(*file, name));
      const auto& grads = json.at("grads");
      for (size_t i = 0; i < grads.size(); ++i) {
        if (grads[i].is_null()) continue;
        c.wanted.push_back(i);
        c.expected.push_back(host_tensor_of(*file, grads[i]));
      }
    } else {
      for (const std::string name : json.at("outputs")) c.expected.push_back(host_tensor_of(*file, name));
    }
    if (scalar_axis) c.attrs.values["scalar_axis"] = true;
    cases.push_back(std::move(c));
  }
  for (size_t at = 0; at < cases.size(); at += cases_in_a_graph)
    run_graph(std::span(cases).subspan(at, std::min(cases_in_a_graph, cases.size() - at)), differentiate);
}
} // namespace

void run_torch_cases(const std::string& stem, size_t cases_in_a_graph, bool scalar_axis,
                     const std::set<std::string>& without) {
  run_file(stem, cases_in_a_graph, scalar_axis, without, {});
}
void run_torch_gradients(const std::string& stem, const Differentiate& differentiate,
                         const std::set<std::string>& without) {
  run_file(stem, 24, true, without, differentiate);
}

} // namespace luminal::test
