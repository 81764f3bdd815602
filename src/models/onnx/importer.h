// models/onnx/importer.h -- from the nodes of an ONNX file to terms: values, scopes, one node.
#pragma once
#include "formats/onnx.h"
#include "ir/interp.h"
#include "luminal/functions.h"
#include "luminal/graph.h"
#include "luminal/indexing.h"
#include "luminal/onnx.h"
#include <functional>
#include <initializer_list>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace luminal::onnx {

/// Numbers that are known while the graph is made, in their carrier type.
using Constant = std::shared_ptr<const HostTensor>;
/// Integers that are known, or expressions over dynamic dimensions, of rank 0 or 1.
struct KnownDims {
  Dims list;
  bool scalar = false;
};

/// Integers and what is subtracted from them.
struct Numbers {
  Graph* graph = nullptr;
  Tensor x, zero;                            ///< zero: one number, several along an axis, or undefined
  std::optional<std::vector<int64_t>> zeros; ///< where they are known
};
/// What the nodes of a file say of its dynamic dimensions, by the file's names.
struct SolvedDims {
  std::map<std::string, Expr> values;   ///< a number, or an expression over other dimensions
  std::map<std::string, int64_t> steps; ///< what they are multiples of
  bool inside = false; ///< dynamic places at which axes are cut lie on them: nodes fit only so
};
/// A node fits once a dimension is read otherwise: the graph is made anew.
struct Solved {};

struct Scope;
/// That a value was made from integers times scales, by a node DequantizeLinear of the same graph.
struct Quantised {
  const NodeData* made_by = nullptr;
  const Scope* scope = nullptr;
  int64_t opset = 0;
  int axis = 0;
};

/// A value of the file. A known one becomes a tensor when an operator asks for it.
struct Value {
  std::string name;
  ElementType type = ElementType::undefined;
  Tensor tensor;
  Constant constant;
  std::shared_ptr<const KnownDims> dims;
  std::set<std::string> depends; // inputs of the model that its numbers depend on
  bool carried = false;          // by a loop: it has no one value
  Quantised quantised = {};
  bool known() const { return constant || dims; }
};

/// The numbers of a value are needed to make the graph, and are not known.
struct NotKnown {
  std::string text;
  std::set<std::string> depends;
  bool carried = false;
};

/// The type that stands for an element type of the file; nothing where there is none.
std::optional<DType> carrier(ElementType type);
/// The element type of a tensor without a type of its own in the file.
ElementType element_type_of(DType type);
/// Its name as ONNX writes it, or its number.
std::string type_text(ElementType type);
/// Numbers of a file in their carrier type, which there must be.
HostTensor decode(const TensorData& data);
/// The nearest numbers of a narrow type (FLOAT8..., FLOAT4E2M1, INT2, ..) as their carrier type.
Tensor to_element_type(const Tensor& x, ElementType from, ElementType to, bool saturate,
                       bool round_up = true);

/// Names in one graph of the file. A body that is a function of its own has another Graph.
struct Scope {
  Scope* outer = nullptr;
  Graph* graph = nullptr;
  std::map<std::string, Value> values;
  const std::map<std::string, Attribute>* attributes = nullptr; // of the call, within a local function
  std::map<std::string, int64_t> opsets;
};

class Importer;

/// What the function of an operator sees of its node.
class Node {
public:
  Node(Importer& importer, Scope& scope, const NodeData& data, int64_t opset);
  Graph& graph() const { return *scope_.graph; }
  const NodeData& data() const { return data_; }
  int64_t opset() const { return opset_; }
  Scope& scope() const { return scope_; }
  Importer& importer() const { return importer_; }

  // ---- inputs ----
  size_t inputs() const { return data_.inputs.size(); }
  bool has(size_t i) const { return i < data_.inputs.size() && !data_.inputs[i].empty(); }
  Value& value(size_t i) const;
  Tensor in(size_t i) const;
  Tensor maybe(size_t i) const { return has(i) ? in(i) : Tensor(); } ///< undefined where it is left out
  ElementType type(size_t i) const { return value(i).type; }
  bool known(size_t i) const { return value(i).known(); }
  std::vector<int64_t> ints(size_t i) const; ///< known integers; throws NotKnown
  int64_t integer_at(size_t i) const;        ///< one of them
  Dims dims(size_t i) const;                 ///< known integers or expressions
  std::optional<KnownDims> known_dims(size_t i) const;
  std::vector<double> numbers(size_t i) const;         ///< known numbers
  std::vector<int64_t> extents(const Tensor& x) const; ///< a shape that must be constant

  // ---- attributes ----
  const Attribute* attribute(const std::string& name) const;
  int64_t integer(const std::string& name, std::optional<int64_t> otherwise = {}) const;
  double number(const std::string& name, std::optional<double> otherwise = {}) const;
  std::string text(const std::string& name, const std::string& otherwise) const;
  /// A text that must be one of these.
  std::string one_of(const std::string& name, const std::string& otherwise,
                     std::initializer_list<std::string_view> known) const;
  std::vector<int64_t> integers(const std::string& name, std::vector<int64_t> otherwise = {}) const;
  std::vector<double> reals(const std::string& name) const;
  const GraphData& body(const std::string& name) const;

  // ---- results ----
  size_t outputs() const { return data_.outputs.size(); }
  bool wants(size_t i) const { return i < data_.outputs.size() && !data_.outputs[i].empty(); }
  void out(size_t i, const Tensor& tensor, ElementType type = ElementType::undefined);
  void out(const Tensor& tensor) { out(0, tensor); }
  void out_constant(size_t i, HostTensor numbers, ElementType type);
  void out_dims(size_t i, Dims list, bool scalar);
  void out_value(size_t i, Value value);       ///< a value as it is, under this name
  void made_from_integers(size_t i, int axis); ///< of a result that is there

  [[noreturn]] void refuse(const std::string& text) const;
  std::string title() const; ///< "node 'conv1' (Conv)"

private:
  Value& result(size_t i);
  Importer& importer_;
  Scope& scope_;
  const NodeData& data_;
  int64_t opset_;
  std::set<std::string> depends_;
  bool carried_ = false;
};

using Build = void (*)(Node& node);
/// Does the same with integers that are known; false: it cannot.
using BuildDims = bool (*)(Node& node);
/// One operator.
struct Operator {
  std::string_view domain, name;
  int since; ///< the first opset that has it
  Build build;
  BuildDims dims = nullptr;
  bool opaque = false; ///< never folded: random numbers, and what looks at known values itself
};
std::span<const Operator> operators();
const Operator* find_operator(std::string_view domain, std::string_view name);

class Importer {
public:
  Importer(const ModelData& file, const OnnxOptions& options, std::set<std::string> fixed, SolvedDims& solved,
           std::source_location where);
  OnnxModel run();

  void build_nodes(Scope& scope, const std::vector<NodeData>& nodes);
  void add_initializers(Scope& scope, const GraphData& graph);
  Value& find(Scope& scope, const std::string& name, const std::string& reader);
  Tensor tensor_of(Scope& scope, Value& value);
  /// Where an axis is cut: at a dynamic place, or at its end, if that comes first.
  Dim cut_at(const Dim& place, const Dim& extent);
  const ModelData& file() const { return file_; }
  std::source_location where() const { return where_; }
  const FunctionData* function(const NodeData& node) const;
  int depth = 0;    // of graphs within graphs
  int64_t made = 0; // nodes: a model that asks for too many by its loops is refused

private:
  void check_operators() const;
  void add_inputs(Scope& scope);
  Dim dimension(const std::string& name);
  void check_dimensions() const;       // those of the options are the file's
  std::string open_dimensions() const; // behind the text of an error: their names
  bool solve(Expr a, Expr b);
  void build_node(Scope& scope, const NodeData& data);
  bool fold_node(Scope& scope, const NodeData& data, const Operator& row, int64_t opset);
  const ModelData& file_;
  const OnnxOptions& options_;
  std::set<std::string> fixed_, used_fixed_;
  SolvedDims& solved_;
  bool has_cut_ = false; // at one of two
  std::source_location where_;
  OnnxModel model_;
  std::map<std::string, Dim> dims_;               // by the file's names
  std::map<std::string, std::string> names_ = {}; // of symbols: the file's names
};

/// As the file names an extent of an input, or INPUT.AXIS.
std::string dimension_name(const ValueData& input, size_t axis);
/// Names that a graph reads and does not make itself.
std::set<std::string> free_names(const GraphData& graph);
/// Names that a node reads, those of its bodies included.
std::set<std::string> names_read(const NodeData& node);
/// Each node after those whose results it reads: ONNX asks for this order, but converters append nodes and
/// ONNX Runtime sorts them.
void put_in_order(ModelData& model);
/// The nodes of a local function in place of its call.
void call_function(Node& node, const FunctionData& function);

// ---- small things that operators share ----
int axis_in(const Node& node, int64_t axis, int rank);
Tensor number_tensor(Graph& graph, double value, DType type);
/// One number an element along one axis of x, stretched over the others.
Tensor along(const Tensor& values, int axis, int rank);
bool is_float_type(DType type);

} // namespace luminal::onnx
