// tensor/graph_state.h -- what a Graph and its Tensors share.
#pragma once
#include "compile/compile.h"
#include "device/cpu/cpu_device.h"
#include "ir/term.h"
#include "luminal/graph.h"
#include "runtime/context.h"
#include <map>
#include <optional>

namespace luminal {

using Where = std::source_location;

/// Data of an input as the user gave it, in the input's dtype.
struct InputData {
  std::vector<std::byte> copy;
  std::span<const std::byte> bytes; // of `copy`, or borrowed
  std::shared_ptr<const void> owner;
  bool given = false, fresh = false; // fresh: not yet handed to the context
};

struct GraphState {
  explicit GraphState(std::string function) : name(function), builder(std::move(function), &module) {}
  GraphState(const GraphState&) = delete;

  std::string name;        // of the function
  Module module;           // dimension symbols and the functions of loops; the entry is made from `builder`
  FunctionBuilder builder; // grows with every operation
  std::map<std::string, Expr> dims;
  std::map<std::string, int64_t> dim_values;
  std::map<std::string, NodeId> inputs;
  std::map<std::string, InputData> data;
  std::map<NodeId, std::string> kept;             // node -> result name
  std::vector<std::pair<NodeId, NodeId>> updates; // state, next value
  bool weights_set_again = false; // they are not what CompileOptions::weights_id names any more
  int unnamed = 0, loops = 0;
  GraphState* outer = nullptr; // of a loop's body

  // after compile
  bool stale = true;
  CompileOptions options;
  std::optional<compile::Compiled> compiled;
  std::unique_ptr<device::CpuDevice> device;
  std::shared_ptr<runtime::Store> store;
  std::shared_ptr<const runtime::Executable> executable;
  std::unique_ptr<runtime::Context> context;
  std::map<NodeId, std::string> readable; // kept at the last compile

  Module snapshot() const; // with the entry
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
int axis_of(std::string_view op, int axis, int rank, Where where); // negative counts from the end
Tensor wrap(const std::shared_ptr<GraphState>& graph, NodeId node);
/// Runs `make`, giving a builder's error the caller's line.
template <class F>
Tensor build(std::string_view op, const std::shared_ptr<GraphState>& graph, Where where, F&& make) {
  graph->stale = true;
  try {
    return wrap(graph, make(graph->builder));
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
ThreadPool& shared_pool(int threads);

} // namespace luminal
