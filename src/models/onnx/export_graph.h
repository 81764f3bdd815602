// models/onnx/export_graph.h -- the nodes of an ONNX file in the making: equal nodes are one, bodies of
// loops and branches are scopes, and what nobody reads is left out.
#pragma once
#include "formats/onnx.h"
#include "ir/term.h"
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace luminal::onnx_export {

using onnx::Attribute;
using onnx::DimData;
using onnx::ElementType;
using onnx::GraphData;
using onnx::ModelData;
using onnx::NodeData;
using onnx::TensorData;
using onnx::ValueData;

Attribute attribute(std::string name, int64_t integer);
Attribute attribute(std::string name, float number);
Attribute attribute(std::string name, std::string text);
Attribute attribute(std::string name, std::vector<int64_t> integers);
Attribute attribute(std::string name, GraphData graph);

/// Type and shape of a value of the graph.
struct ValueType {
  DType dtype = DType::f32;
  Shape shape;
};

class ExportGraph {
public:
  ExportGraph() : scopes_(1) {}
  /// A name that nobody gave yet, from this one.
  std::string free_name(const std::string& wish);
  /// One node of the present scope, and the names of its results. A node that is there already, here or in
  /// a scope around it, is that one.
  std::vector<std::string> nodes(const std::string& op, std::vector<std::string> inputs, size_t results,
                                 std::vector<Attribute> attributes = {});
  std::string node(const std::string& op, std::vector<std::string> inputs,
                   std::vector<Attribute> attributes = {}) {
    return nodes(op, std::move(inputs), 1, std::move(attributes))[0];
  }
  /// A tensor of the outermost graph; equal ones are one.
  std::string constant(DType type, std::vector<int64_t> shape, std::vector<std::byte> bytes);
  std::string integers(const std::vector<int64_t>& values); ///< i64, one axis
  std::string integer(int64_t value);                       ///< i64, no axis
  /// The value of a constant with one element.
  std::optional<double> known(const std::string& name) const;
  /// The values of a tensor that `integers` made; else none.
  std::vector<int64_t> integers_of(const std::string& name) const;
  /// What all elements of an f32 constant are.
  std::optional<float> filled_with(const std::string& name) const;
  void weight(TensorData tensor);

  void begin_scope() { scopes_.emplace_back(); }
  /// The scope's graph; the outputs have names of its own.
  GraphData end_scope(std::vector<ValueData> inputs, std::vector<ValueData> outputs);
  /// The whole graph; results have these names as far as no input or weight has them. `types` has the
  /// values that are known.
  GraphData finish(std::vector<ValueData> inputs, std::vector<ValueData> outputs,
                   const std::vector<std::string>& values, const std::map<std::string, ValueType>& types);
  /// The least version of ONNX's operators that has all nodes of the graph.
  static int64_t opset_of(const GraphData& graph);
  /// Leaves out nodes whose results nobody reads.
  static void prune(GraphData& graph);
  /// Does a node of it, or of a body, read the name? Is it an output?
  static bool reads(const GraphData& graph, const std::string& name);

private:
  struct Scope {
    GraphData graph;
    std::map<std::string, std::vector<std::string>> made; // by what makes it
  };
  std::vector<Scope> scopes_;
  std::map<std::string, std::string> constants_; // by type, shape and bytes
  std::map<std::string, double> known_;
  std::map<std::string, std::vector<int64_t>> lists_; // by the name of a constant
  std::set<std::string> names_;
  std::map<std::string, int> numbers_; // of names that differ in their number
};

} // namespace luminal::onnx_export
