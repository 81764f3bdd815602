// cli/onnx_program.cpp -- ONNX models: opened with inputs from files, shown, timed.
#include "cli/onnx_program.h"
#include "base/clock.h"
#include "base/print.h"
#include "base/settings.h"
#include "base/text.h"
#include "formats/onnx.h"
#include "ir/dtype.h"
#include "models/onnx/importer.h"
#include "tensor/effects.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iostream>

namespace luminal::cli {
namespace {

std::string shape_text(const onnx::ValueData& value) {
  if (!value.has_shape) return "[?]";
  std::vector<std::string> list;
  for (const onnx::DimData& dim : value.shape)
    list.push_back(dim.value ? std::to_string(*dim.value) : dim.name.empty() ? "?" : printable(dim.name, 80));
  return fmt::format("[{}]", fmt::join(list, ", "));
}
std::string type_text(const onnx::ValueData& value) {
  using Kind = onnx::ValueData::Kind;
  switch (value.kind) {
  case Kind::tensor: return std::string(onnx::element_type_name(value.type));
  case Kind::sequence: return "sequence";
  case Kind::map: return "map";
  case Kind::optional: return "optional";
  case Kind::sparse_tensor: return "sparse tensor";
  default: return "?";
  }
}

struct OperatorCount {
  int count = 0;
  bool supported = false;
};
void count_operators(const onnx::ModelData& file, const std::vector<onnx::NodeData>& nodes,
                     std::map<std::string, OperatorCount>& counts) {
  for (const onnx::NodeData& node : nodes) {
    OperatorCount& row = counts[(node.domain.empty() ? "" : node.domain + ".") + node.op_type];
    row.count++;
    row.supported = onnx::find_operator(node.domain, node.op_type) != nullptr;
    for (const onnx::FunctionData& f : file.functions)
      row.supported |= f.name == node.op_type && f.domain == node.domain;
    for (const onnx::Attribute& attribute : node.attributes)
      for (const onnx::GraphData& graph : attribute.graphs) count_operators(file, graph.nodes, counts);
  }
}

} // namespace

bool is_onnx(const std::string& path) { return path.ends_with(".onnx"); }

OnnxModel open_onnx_model(const std::string& path, const TensorFiles& files,
                          const std::map<std::string, int64_t>& sizes) {
  OnnxOptions options;
  for (const auto& [name, size] : sizes) options.dims[name] = {size, size};
  for (const auto& [name, where] : files.tensors) {
    const TensorView& view = where.first;
    const auto type = dtype_of_storage(view.type);
    if (!type) continue;
    options.shapes[name] = view.shape;
    options.values[name] = {*type, view.shape, {view.bytes.begin(), view.bytes.end()}};
  }
  OnnxModel model = load_onnx(path, options, std::source_location());
  for (const std::string& name : model.fixed)
    print_stderr("note: input {} is fixed: shapes depend on its value\n", printable(name, 80));
  return model;
}

std::span<const std::byte> onnx_weight(const OnnxModel& model, const std::string& name) {
  return model.graph.state()->data.at(name).bytes; // load_onnx gives each weight its bytes
}

int inspect_onnx(const std::string& path, bool json) {
  const auto opened = onnx::open_onnx(path);
  if (!opened) throw Error(opened.error());
  const onnx::ModelData& file = *opened;
  std::map<std::string, OperatorCount> counts;
  count_operators(file, file.graph.nodes, counts);
  for (const auto& f : file.functions) count_operators(file, f.nodes, counts);
  std::set<std::string> weights;
  uint64_t bytes = 0;
  int64_t parameters = 0;
  for (const auto& t : file.graph.initializers) {
    weights.insert(t.name);
    bytes += t.bytes.size();
    parameters += t.elements();
  }
  if (json) {
    const auto values = [&](const std::vector<onnx::ValueData>& list) {
      Json rows = Json::array();
      for (const auto& v : list)
        if (!weights.contains(v.name))
          rows.push_back({{"name", v.name}, {"type", type_text(v)}, {"shape", shape_text(v)}});
      return rows;
    };
    Json out{{"path", path},
             {"kind", "ONNX"},
             {"producer", file.producer},
             {"opsets", file.opsets},
             {"parameters", parameters},
             {"tensor_bytes", bytes},
             {"inputs", values(file.graph.inputs)},
             {"outputs", values(file.graph.outputs)},
             {"operators", Json::array()},
             {"metadata", file.metadata},
             {"tensors", Json::array()}};
    for (const auto& [name, row] : counts)
      out["operators"].push_back({{"name", name}, {"count", row.count}, {"supported", row.supported}});
    for (const auto& t : file.graph.initializers)
      out["tensors"].push_back({{"name", t.name},
                                {"type", std::string(onnx::element_type_name(t.type))},
                                {"shape", t.shape},
                                {"bytes", t.bytes.size()}});
    std::cout << json_text(out) << std::endl;
    return ok;
  }
  std::vector<std::string> opsets;
  for (const auto& [domain, version] : file.opsets)
    opsets.push_back(fmt::format("{} {}", domain.empty() ? "ai.onnx" : printable(domain, 80), version));
  fmt::print("{}: ONNX by {}, opset {}, {} nodes, {} parameters, {}\n", path, printable(file.producer, 80),
             fmt::join(opsets, ", "), file.graph.nodes.size(), parameters, show_bytes(int64_t(bytes)));
  const auto show = [&](const char* title, const std::vector<onnx::ValueData>& list) {
    fmt::print("{}\n", title);
    for (const auto& v : list)
      if (!weights.contains(v.name))
        fmt::print("  {:<32} {} {}\n", printable(v.name, 80), type_text(v), shape_text(v));
  };
  show("inputs", file.graph.inputs);
  show("outputs", file.graph.outputs);
  fmt::print("operators\n");
  for (const auto& [name, row] : counts)
    fmt::print("  {:<32} {}{}\n", printable(name, 80), row.count, row.supported ? "" : "  not supported");
  if (!file.metadata.empty()) fmt::print("metadata\n");
  for (const auto& [key, value] : file.metadata)
    fmt::print("  {} = {}\n", printable(key, 80), printable(value, 400));
  return std::cout ? ok : failed;
}

int bench_onnx(const OnnxBench& a) {
  end_on_interrupt();
  TensorFiles files;
  for (const std::string& path : a.inputs) files.add(path);
  const double start = seconds_now();
  OnnxModel model = open_onnx_model(a.path, files, parse_sizes(a.sizes));
  const double imported = seconds_now();
  uint32_t random = 1;
  for (const OnnxValue& input : model.inputs) {
    Tensor tensor = input.tensor;
    if (const auto found = files.tensors.find(input.name); found != files.tensors.end()) {
      const TensorView& view = found->second.first;
      tensor.set_bytes(view.bytes, *dtype_of_storage(view.type));
      continue;
    }
    for (const Dim extent : tensor.shape())
      if (!extent.is_constant())
        throw UsageError(fmt::format("input {} has the shape {}: --size gives its dimensions, or --inputs",
                                     printable(input.name, 80), to_string(tensor.shape())));
    std::vector<float> values(size_t(tensor.element_count()));
    if (is_float(tensor.dtype()))
      for (float& x : values) x = float((random = random * 1664525 + 1013904223) >> 8) / float(1 << 24);
    tensor.set(values);
  }
  CompileOptions options;
  options.threads = a.threads;
  options.cache = !a.no_cache;
  options.max_memory = a.max_memory;
  if (a.tune > 0) {
    options.search.mode = SearchMode::budget;
    options.search.seconds = a.tune;
  }
  Progress progress("bench");
  progress.update(0.1, "compile");
  const double before = seconds_now();
  constexpr std::source_location nowhere; // errors are about the file
  model.graph.compile(options, nowhere);
  const double compiled = seconds_now();
  std::vector<double> seconds;
  for (int repeat = -1; a.repeats > 0 && repeat < a.repeats; repeat++) { // the first one is not counted
    const double begin = seconds_now();
    model.graph.execute(nowhere);
    if (repeat >= 0) seconds.push_back(seconds_now() - begin);
  }
  progress.done(fmt::format("peak memory {}", show_bytes(peak_memory())));
  if (a.report) print_stderr("{}", model.graph.report());
  double sum = 0, least = seconds.empty() ? 0 : *std::min_element(seconds.begin(), seconds.end());
  for (const double s : seconds) sum += s;
  const double mean = seconds.empty() ? 0 : sum / double(seconds.size());
  const int threads = a.threads > 0 ? a.threads : setting_threads();
  if (a.json)
    std::cout << json_text(Json{{"model", a.path},
                                {"threads", threads},
                                {"import_s", imported - start},
                                {"compile_s", compiled - before},
                                {"seconds", seconds},
                                {"mean_s", mean},
                                {"least_s", least},
                                {"peak_memory_bytes", peak_memory()}})
              << std::endl;
  else
    fmt::print("{}: {} threads, import {}, compile {}{}\n", a.path, threads, human_time(imported - start),
               human_time(compiled - before),
               seconds.empty() ? ""
                               : fmt::format(", run {} (least {}), {:.1f} runs/s", human_time(mean),
                                             human_time(least), 1 / mean));
  return std::cout ? ok : failed;
}

} // namespace luminal::cli
