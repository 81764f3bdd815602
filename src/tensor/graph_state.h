// tensor/graph_state.h -- what a Graph and its Tensors share.
#pragma once
#include "ir/placement.h"
#include "ir/term.h"
#include "luminal/graph.h"
#include <algorithm>
#include <functional>
#include <map>
#include <optional>

// What only the files that compile, run or hand memory over look into: tensor/graph_run.h.
namespace luminal::device {
class Device;
} // namespace luminal::device
namespace luminal::runtime {
class Context;
class Executable;
class Store;
} // namespace luminal::runtime

namespace luminal {

using Where = std::source_location;
struct OwnedBuffer;
struct Program;

/// Data of an input as the user gave it, in the input's dtype.
struct InputData {
  std::shared_ptr<std::vector<std::byte>> copy; // set again and again into the same memory
  std::span<const std::byte> bytes;             // of `copy` or `buffer`, or borrowed
  std::shared_ptr<OwnedBuffer> buffer;          // handed over from a result or a state
  std::shared_ptr<const void> owner;
  std::vector<int64_t> extents;      // stated by nested lists; checked at execute
  bool shaped = false;               // there are extents
  bool given = false, fresh = false; // fresh: not yet handed to the context
  std::function<void(Tensor&)> load; // deferred: makes it given
  Where set_at = {};                 // where the user gave it
  std::string gone;                  // why there is no value any more
};

struct GraphState {
  explicit GraphState(std::string function);
  GraphState(const GraphState&) = delete;

  std::string name;        // of the function
  Module module;           // dimension symbols and the functions of loops; the entry is made from `builder`
  FunctionBuilder builder; // grows with every operation
  std::map<std::string, Expr> dims;
  std::map<std::string, int64_t> dim_values;
  std::map<std::string, NodeId> inputs;
  std::map<std::string, InputData> data;
  std::map<std::string, std::string> packed_types; // of weights that hold packed blocks: "Q4_K"
  std::map<NodeId, std::string> kept;              // node -> result name
  std::vector<std::pair<NodeId, NodeId>> updates;  // state, next value
  bool weights_set_again = false; // they are not what CompileOptions::weights_id names any more
  std::vector<NodeId> effects;    // results of host nodes, in the order in which they happen
  NodeId end_node{0};             // behind the builder's last one
  std::map<Expr, std::string, ExprLess> reasons; // what needs an assumption of the module, with its line
  int unnamed = 0, loops = 0;
  GraphState* outer = nullptr; // of a loop's body
  /// One call of the user made the whole graph: that is the line of all its operations. Line 0:
  /// there is none to name.
  std::optional<Where> made_at;

  std::string device_name = "cpu";    // of inputs that no scope puts elsewhere
  std::vector<std::string> scopes;    // DeviceScope: the last one counts
  std::optional<Placement> placement; // from the moment on when a second device is named

  // after compile
  bool stale = true;
  std::vector<Pass> passes; // those of Graph::run
  CompileOptions options;
  std::vector<std::unique_ptr<Program>> programs; // for the typical sizes; see choose_program in run.cpp
  size_t running = 0;                             // of programs: the one of the last execute
  std::optional<SearchSummary> searched;          // of the last compile
  std::shared_ptr<runtime::Store> store;
  std::map<NodeId, std::string> readable;                    // kept at the last compile
  bool ran = false;                                          // the last execute came to its end
  std::map<NodeId, std::shared_ptr<const void>> host_copies; // of what Tensor::bytes read from a device
  std::map<NodeId, std::string> gone; // kept values that were dropped or handed over since the last execute

  Module snapshot() const; // with the entry
  bool empty() const { return end_node == NodeId(0); }
  const runtime::Executable* executable() const; // null before compile
  runtime::Context* context() const;             // null before execute
  void drop_contexts();
  bool has_results() const { return !kept.empty() || !updates.empty() || !effects.empty(); }
  ~GraphState();
};

// ---- helpers of the operations ----
Expr to_expr(Dim dim);
Shape to_shape(const Dims& dims);
Dims to_dims(const Shape& shape);
std::string text_of(const Shape& shape);
const TensorType& type_of(const Tensor& t);
/// Throws Error("[op] ...") unless all tensors are defined and of one graph, which it returns.
std::shared_ptr<GraphState> graph_of(std::string_view op, std::initializer_list<const Tensor*> tensors,
                                     Where where);
/// Throws Error unless the tensor is defined and of this graph.
void check_graph(std::string_view op, const std::shared_ptr<GraphState>& graph, const Tensor& tensor,
                 Where where);
int axis_of(std::string_view op, int axis, int rank, Where where); // negative counts from the end
/// Throws Error("[op] ...") for a number that no enumerator has.
void check_dtype(std::string_view op, DType type, Where where);
/// "the graph has no dimension bacth; it has batch, n"
std::string no_dimension(const GraphState& graph, const std::string& name);
/// The result that a kept value is: by its own name, else by its place among those without one.
void name_result(GraphState& graph, NodeId kept);
/// "at FILE:LINE", as errors end.
std::string place_text(Where where);
/// " at FILE:LINE" of the user's call that made an operation; empty where there is none.
std::string maker_text(const GraphState& graph, Where where);
Tensor wrap(const std::shared_ptr<GraphState>& graph, NodeId node);
/// The builder's node that a tensor is.
inline NodeId node_id(const Tensor& t) { return NodeId(t.id()); }
/// Throws Error where the node's operands lie on two devices.
void check_placement(std::string_view op, GraphState& graph, NodeId node, Where where);
/// Where a node's value lies.
const std::string& device_of(GraphState& graph, NodeId node);
/// Runs `make`, giving a builder's error the caller's line.
template <class F>
Tensor build(std::string_view op, const std::shared_ptr<GraphState>& graph, Where where, F&& make) {
  graph->stale = true;
  try {
    const NodeId made = make(graph->builder);
    graph->end_node = std::max(graph->end_node, made + 1);
    if (graph->placement) check_placement(op, *graph, made, where);
    return wrap(graph, made);
  } catch (const Error& error) {
    std::string text = error.what();
    if (text.starts_with("[")) text = text.substr(text.find("] ") + 2);
    throw Error(op, text.substr(0, text.rfind(" at ")), where);
  }
}
Tensor elementwise(Op op, std::string_view name, std::vector<Operand> operands, Where where);
Tensor unary(Op op, const Tensor& x, Where where);
/// One-component fold; narrow floats accumulate in f32.
Tensor fold(Op op, std::string_view name, const Tensor& x, std::vector<int> axes, bool keep_dims,
            Where where);
Tensor broadcast_to(std::string_view op, const Tensor& x, const Shape& shape, Where where);
Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b, Where where);
/// What a compile sends the terms through: passes of the user are checked.
Pass passes_of(const GraphState& graph, const CompileOptions& options);

// ---- data ----
int64_t elements(const std::vector<int64_t>& extents);
/// "f32[2, n]" with the name: "x (f32[2, n])"; what a message calls a tensor.
std::string described(const GraphState& graph, NodeId id);
/// The shape with the present values of its dimensions. Throws Error where one has none.
std::vector<int64_t> present_shape(std::string_view op, const GraphState& graph, const Shape& shape,
                                   Where where);
const InputAttr& input_attr(const GraphState& graph, NodeId id, std::string_view op, Where where);
/// Packed elements of one dtype as another: numbers keep their value as far as the target holds it.
void convert_elements(DType to, std::byte* out, DType from, const std::byte* in, int64_t count);
/// Calls what set_deferred left.
void load_deferred(const std::shared_ptr<GraphState>& graph, const std::string& input);
/// The bytes of a readable value and its extents.
struct ReadableValue {
  std::span<const std::byte> bytes;
  std::vector<int64_t> extents;
  device::Device* device = nullptr;       // whose memory it is, where the host does not see it
  std::shared_ptr<const void> owner = {}; // of a copy for the host
};
/// For the host, which gets a copy where the value lies on a device. Throws Error("[op] ...") where there is
/// none.
ReadableValue readable_value(std::string_view op, const Tensor& tensor, Where where);
/// The same where it lies.
ReadableValue value_in_place(std::string_view op, const Tensor& tensor, Where where);

} // namespace luminal
