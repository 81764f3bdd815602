// models/onnx_export_support.h -- modules as ONNX files: what they must give, and ONNX Runtime beside.
#pragma once
#include "formats/npy.h"
#include "formats/onnx_write.h"
#include "formats/util.h"
#include "ir/interp.h"
#include "luminal/inspect.h"
#include "luminal/onnx.h"
#include "models/onnx/exporter.h"
#include "tensor/graph_state.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal::testing_formats {

/// Python with onnx and onnxruntime, or empty. LUMINAL_PEER_PYTHON names another one. (A module of the
/// package is asked for: any folder named onnx can be imported, as is the one of these tests.)
inline std::string peer_python() {
  const char* named = std::getenv("LUMINAL_PEER_PYTHON");
  const char* home = std::getenv("HOME");
  const std::string path = named ? named : std::string(home ? home : "") + "/.cache/luminal/peers/bin/python";
  const std::string command = "'" + path + "' -c 'import onnx.helper, onnxruntime' > /dev/null 2>&1";
  return std::system(command.c_str()) == 0 ? path : "";
}

constexpr const char* no_peer_python =
    "no Python with onnx and onnxruntime: ./bench.sh peers makes one, LUMINAL_PEER_PYTHON names another";

/// What a result must be, element by element.
struct Expected {
  std::vector<int64_t> shape;
  std::vector<double> values, tolerances;
};
inline bool is_close(double got, double wanted, double tolerance) {
  if (std::isnan(wanted)) return std::isnan(got);
  return got == wanted || std::fabs(got - wanted) <= tolerance;
}

/// A module, its inputs, and what the reference interpreter says of it.
struct ExportCase {
  const Module& module;
  const Bindings& bindings;
  std::map<std::string, Expected> expected = {};

  /// Values as plans round them, within the bound of the rounding of all nodes.
  void interpret() {
    Interpreter rounded(module, bindings), bounded(module, bindings, InterpMode::bounded);
    for (const FunctionResult& result : module.entry().results) {
      const HostTensor value = rounded.result(result.name);
      Expected& e = expected[result.name];
      e.shape = value.shape;
      const auto bounds = bounded.values(result.name);
      const double unit = is_float(value.dtype) ? unit_roundoff(value.dtype) : 0;
      for (int64_t i = 0; i < value.count(); i++) {
        const double error = bounds[size_t(i)].error, own = value.at(i);
        e.values.push_back(own);
        // (Nothing is known of it, also where the value is NaN.)
        e.tolerances.push_back(std::isinf(error) ? error : 4 * error + 8 * unit * std::fabs(own) + 1e-7);
      }
    }
  }
  onnx::ModelData model() const {
    return onnx_export::Exporter(
               module,
               [&](const std::string& name) -> std::span<const std::byte> {
                 return bindings.inputs.at(name).data;
               },
               std::source_location::current())
        .run();
  }
  bool is_input(const std::string& name) const {
    for (const NodeId id : module.entry().params)
      if (const auto& input = std::get<InputAttr>(module.entry()[id].attr); input.name == name)
        return input.role != Role::weight || std::any_of(input.type.shape.begin(), input.type.shape.end(),
                                                         [](Expr e) { return !e.is_constant(); });
    return false;
  }
  /// The values that inputs and weights of the graph have.
  static Bindings bound(const Graph& graph) {
    Bindings bindings;
    const auto state = graph.state();
    for (const auto& [name, data] : state->data) {
      HostTensor value;
      const TensorType& type = state->builder[state->inputs.at(name)].type();
      value.dtype = type.dtype;
      for (const Expr e : type.shape) value.shape.push_back(e.value());
      value.data.assign(data.bytes.begin(), data.bytes.end());
      bindings.inputs[name] = std::move(value);
    }
    return bindings;
  }
  /// What the graph's last execute gave; `relative`: of the largest number of a result.
  static ExportCase executed(const Graph& graph, const Module& module, Bindings& bindings, double relative) {
    const auto state = graph.state();
    bindings = bound(graph);
    ExportCase made{module, bindings};
    for (const auto& [node, name] : state->kept) {
      const Tensor t = wrap(state, node);
      const ReadableValue value = readable_value("test", t, std::source_location::current());
      Expected& e = made.expected[name];
      e.shape = value.extents;
      double largest = 0;
      for (int64_t i = 0; i < elements(value.extents); i++) {
        e.values.push_back(load_f64(t.dtype(), value.bytes.data(), i));
        largest = std::max(largest, std::fabs(e.values.back()));
      }
      e.tolerances.assign(e.values.size(), relative * largest);
    }
    return made;
  }
  /// The file through our importer, and the interpreter or a plan; empty, or what differs.
  std::string imported(const std::string& path, bool by_plan = false) const {
    OnnxOptions options;
    for (const auto& [name, value] : bindings.inputs)
      if (is_input(name)) options.shapes[name] = value.shape;
    for (const auto& [name, value] : bindings.symbols) {
      std::vector<std::byte> bytes(8);
      std::memcpy(bytes.data(), &value, 8);
      options.values[name] = {DType::i64, {}, bytes};
    }
    OnnxModel m = load_onnx(path, options);
    for (const OnnxValue& input : m.inputs) {
      Tensor t = input.tensor;
      if (bindings.inputs.contains(input.name)) {
        t.set_bytes(bindings.inputs.at(input.name).data, t.dtype());
      } else {
        t.set(bindings.symbols.at(input.name));
      }
    }
    std::vector<Tensor> tensors;
    for (const OnnxValue& output : m.outputs) tensors.push_back(output.tensor);
    std::vector<ReferenceValue> values;
    if (by_plan) {
      m.graph.execute();
      for (const Tensor& t : tensors) {
        const ReadableValue value = readable_value("test", t, std::source_location::current());
        values.push_back({t.dtype(), value.extents, {value.bytes.begin(), value.bytes.end()}});
      }
    } else {
      values = m.graph.interpret(tensors);
    }
    for (size_t k = 0; k < values.size(); k++) {
      const Expected& e = expected.at(m.outputs[k].name);
      if (values[k].shape != e.shape) return m.outputs[k].name + " has another shape";
      const auto numbers = values[k].numbers();
      for (size_t i = 0; i < numbers.size(); i++)
        if (!std::isinf(e.tolerances[i]) && !is_close(numbers[i], e.values[i], e.tolerances[i]))
          return fmt::format("{}[{}] is {}, not {} (within {})", m.outputs[k].name, i, numbers[i],
                             e.values[i], e.tolerances[i]);
    }
    return "";
  }
  /// Writes what run_exported.py compares: NAME.npz beside NAME.onnx.
  void write_expected(const std::string& path) const {
    std::vector<TensorView> views;
    const auto add = [&](std::string name, StorageType type, std::vector<int64_t> shape,
                         std::span<const std::byte> bytes) {
      TensorView view;
      view.name = std::move(name);
      view.type = type;
      view.shape = std::move(shape);
      view.bytes = bytes;
      views.push_back(view);
    };
    for (const auto& [name, value] : bindings.inputs) {
      if (!is_input(name)) continue;
      add("input." + name, StorageType::u8, {int64_t(value.data.size())}, value.data);
      add("shape." + name, StorageType::i64, {int64_t(value.shape.size())},
          std::as_bytes(std::span(value.shape)));
    }
    for (const auto& [name, value] : bindings.symbols)
      add("size." + name, StorageType::i64, {}, std::as_bytes(std::span(&value, 1)));
    for (const auto& [name, e] : expected) {
      add("value." + name, StorageType::f64, e.shape, std::as_bytes(std::span(e.values)));
      add("within." + name, StorageType::f64, e.shape, std::as_bytes(std::span(e.tolerances)));
    }
    save_npz(path, views).value();
  }
};

/// The folder's files through onnx.checker and ONNX Runtime; empty, or what differs.
inline std::string run_exported(const std::string& python, const std::string& folder) {
  const std::string command =
      fmt::format("'{}' '{}/tests/onnx/run_exported.py' '{}' 2>&1", python, LUMINAL_SOURCE_DIR, folder);
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  char part[4096];
  while (const size_t n = fread(part, 1, sizeof part, pipe)) text.append(part, n);
  const int code = pclose(pipe);
  return code == 0 ? "" : text.empty() ? fmt::format("exit code {}", code) : text;
}

} // namespace luminal::testing_formats
