// luminal/onnx.h -- ONNX models as graphs: a file's nodes become terms that the compiler sees
// through. docs/onnx.md lists the operators.
//
//   OnnxModel model = load_onnx("model.onnx");
//   model.input("image").set(pixels);
//   model.graph.execute();
//   std::vector<float> scores = model.output("scores").data<float>();
#pragma once
#include "luminal/graph.h"
#include <map>
#include <string>
#include <vector>

namespace luminal {

/// Numbers for an input of a model, row-major and packed.
struct OnnxNumbers {
  DType dtype = DType::f32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;
};

struct OnnxOptions {
  /// Least and greatest size of the file's dynamic dimensions by name; equal ones fix it. An extent
  /// without a name is called INPUT.AXIS. Others: 1..4096.
  std::map<std::string, std::pair<int64_t, int64_t>> dims;
  /// Shapes of inputs by name; they fix the dimensions.
  std::map<std::string, std::vector<int64_t>> shapes;
  /// Values of inputs by name, used only where the shape of a tensor, or which nodes run, depends
  /// on one: such an input is fixed, and the model is that of this value.
  std::map<std::string, OnnxNumbers> values;
};

struct OnnxValue {
  std::string name; ///< as in the file
  Tensor tensor;
};

struct OnnxModel {
  Graph graph;
  std::vector<OnnxValue> inputs, outputs; ///< in the file's order, without fixed inputs; outputs are kept
  std::vector<std::string> fixed;         ///< inputs whose values in OnnxOptions shapes depend on
  std::map<std::string, int64_t> opsets;  ///< by domain
  std::map<std::string, std::string> metadata;
  std::string producer;
  Tensor input(const std::string& name, std::source_location where = std::source_location::current()) const;
  Tensor output(const std::string& name, std::source_location where = std::source_location::current()) const;
};

/// Maps the file (and those it names for its weights), makes the graph and gives weights their
/// values where they lie. Element types that DType lacks have a wider one: FLOAT8E4M3FNUZ,
/// FLOAT8E5M2FNUZ, FLOAT8E8M0 and FLOAT4E2M1 are f32, INT2 is i8, UINT2 is u8. Throws Error for a
/// file that cannot be read, lists all operators that are not supported, and names the node of what
/// else does not fit.
OnnxModel load_onnx(const std::string& path, const OnnxOptions& options = {},
                    std::source_location where = std::source_location::current());

struct OnnxSaveOptions {
  /// Weights of more bytes than this go to PATH.data beside the model, which must stay there.
  uint64_t external_above = uint64_t(1) << 30;
  std::map<std::string, std::string> metadata = {};
};

/// Writes the graph's kept values, and all that they depend on, as an ONNX model: inputs and weights
/// under their names, kept values as outputs, a state as an input and its next value as the output
/// NAME_next; dimensions are named. Sums of products are MatMul or Conv, the largest element and the
/// sum of windows are MaxPool and AveragePool. docs/onnx.md says what each term becomes. Throws Error
/// before anything is written: a term that ONNX cannot say (random numbers, functions of the host,
/// custom kernels, collectives), with its source line; a weight without a value. Throws Error where
/// the file cannot be written.
void save_onnx(const Graph& graph, const std::string& path, const OnnxSaveOptions& options = {},
               std::source_location where = std::source_location::current());

} // namespace luminal
