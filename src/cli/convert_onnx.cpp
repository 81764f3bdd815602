// cli/convert_onnx.cpp -- luminal convert FROM TO.onnx: a language model, a module of terms or another ONNX
// model as an ONNX file.
#include "cli/convert_onnx.h"
#include "cli/onnx_program.h"
#include "cli/program_graph.h"
#include "cli/tensor_files.h"
#include "formats/onnx_write.h"
#include "ir/trust.h"
#include "models/onnx/exporter.h"
#include "tensor/effects.h"
#include <fmt/format.h>
#include <iostream>

namespace luminal::cli {
namespace {

void write(const onnx::ModelData& model, const std::string& path) {
  if (const auto done = onnx::write_onnx(model, path); !done) throw Error(done.error());
}

/// A module of terms; its weights are in the files, as far as there are any.
onnx::ModelData export_terms(const OnnxConversion& a, const TensorFiles& files) {
  const Module module = parse_module_from(read_text(a.from), a.from, false);
  if (module.functions.empty()) throw Error(fmt::format("{}: there is no function", a.from));
  const auto weight = [&](const std::string& name) -> std::span<const std::byte> {
    const auto found = files.tensors.find(name);
    if (found == files.tensors.end())
      throw Error(fmt::format("weight {} is missing: the files of --inputs have {}", name, files.names()));
    const TensorView& view = found->second.first;
    const Function& main = module.entry();
    for (const NodeId id : main.params) {
      const auto& input = std::get<InputAttr>(main[id].attr);
      if (input.name != name) continue;
      Shape shape;
      for (const int64_t extent : view.shape) shape.push_back(extent);
      if (dtype_of_storage(view.type) != input.type.dtype || shape != input.type.shape)
        throw Error(fmt::format("{}: {} is {}, the module wants {}", found->second.second, name,
                                view.describe(), to_string(input.type)));
    }
    return view.bytes;
  };
  onnx::ModelData model = onnx_export::Exporter(module, weight, std::source_location()).run();
  write(model, a.to);
  return model;
}

} // namespace

int convert_to_onnx(const OnnxConversion& a) {
  end_on_interrupt();
  Progress progress("convert");
  progress.update(0.1, "read");
  TensorFiles files;
  for (const std::string& path : a.inputs) files.add(path);
  onnx::ModelData model;
  const auto write_graph = [&](const Graph& graph) {
    model = onnx_export::export_graph(graph, std::source_location());
    write(model, a.to);
  };
  if (a.from.ends_with(".lum")) {
    model = export_terms(a, files);
  } else if (is_onnx(a.from)) {
    write_graph(open_onnx_model(a.from, files, parse_sizes(a.sizes)).graph);
  } else {
    auto opened = open_model(a.from);
    if (!opened) throw Error(opened.error());
    const ModelFile file = std::move(*opened);
    write_graph(models::make_llama(file, llama_options(file, a.context, 128, "f32", "exact")).graph);
  }
  size_t weights = 0;
  for (const onnx::TensorData& tensor : model.graph.initializers) weights += tensor.bytes.size();
  const size_t nodes = model.graph.nodes.size();
  progress.done(fmt::format("{} nodes", nodes));
  const int64_t opset = model.opsets.at("");
  if (a.json)
    std::cout << json_text(
                     Json{{"path", a.to}, {"nodes", nodes}, {"weight_bytes", weights}, {"opset", opset}})
              << std::endl;
  else
    fmt::print("{}: {} nodes, {} of weights, opset {}\n", a.to, nodes, show_bytes(int64_t(weights)), opset);
  std::fflush(stdout);
  return std::cout ? ok : failed;
}

} // namespace luminal::cli
