// fuzz/formats_onnx_fuzz.cpp -- ONNX models, and tensors of their own.
#include "formats/onnx.h"
#include <cstdlib>

using namespace luminal;

namespace {
void touch(const onnx::TensorData& tensor) {
  volatile unsigned sum = 0;
  for (const auto byte : tensor.bytes) sum = sum + std::to_integer<unsigned>(byte);
  const auto bits = uint64_t(tensor.elements()) * uint64_t(onnx::element_bits(tensor.type));
  if (tensor.bytes.size() != (bits + 7) / 8) std::abort();
}
void touch(const onnx::GraphData& graph);
void touch(const std::vector<onnx::NodeData>& nodes) {
  for (const auto& node : nodes)
    for (const auto& attribute : node.attributes) {
      for (const auto& tensor : attribute.tensors) touch(tensor);
      for (const auto& graph : attribute.graphs) touch(graph);
    }
}
void touch(const onnx::GraphData& graph) {
  for (const auto& tensor : graph.initializers) touch(tensor);
  touch(graph.nodes);
}
} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  if (const auto tensor = onnx::parse_onnx_tensor(bytes, "f")) touch(*tensor);
  if (const auto model = onnx::parse_onnx(bytes, "f")) {
    touch(model->graph);
    for (const auto& function : model->functions) touch(function.nodes);
  }
  return 0;
}
