// tensor/custom.cpp -- operations, kernels and host functions of the user.
#include "luminal/custom.h"
#include "ir/interp.h"
#include "ir/scalar.h"
#include "ir/user_ops.h"
#include "tensor/custom_rules.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {
namespace {

Signature signature_of(OperationTypes types) {
  switch (types) {
  case OperationTypes::numeric: return Signature::numeric;
  case OperationTypes::floating: return Signature::floating;
  case OperationTypes::bits: return Signature::bits;
  case OperationTypes::comparison: return Signature::comparison;
  case OperationTypes::test: return Signature::test;
  }
  return Signature::floating;
}

std::vector<TensorType> types_of(const std::vector<OutputType>& outputs) {
  std::vector<TensorType> types;
  for (const OutputType& output : outputs) types.push_back({output.dtype, to_shape(output.shape)});
  return types;
}

/// The results of a tuple node.
std::vector<Tensor> results_of(std::string_view op, const std::shared_ptr<GraphState>& graph, NodeId node,
                               size_t count, Where where) {
  std::vector<Tensor> results;
  for (size_t i = 0; i < count; i++)
    results.push_back(build(op, graph, where, [&](FunctionBuilder& b) { return b.get(node, int(i)); }));
  return results;
}

std::vector<NodeId> ids_of(std::string_view op, const std::shared_ptr<GraphState>& graph,
                           const std::vector<Tensor>& tensors, Where where) {
  std::vector<NodeId> ids;
  for (const Tensor& tensor : tensors) {
    check_graph(op, graph, tensor, where);
    ids.push_back(node_id(tensor));
  }
  return ids;
}

/// The text of an error without its operation and place.
std::string own_text(const Error& error) {
  std::string text = error.what();
  if (text.starts_with("[")) text = text.substr(text.find("] ") + 2);
  return text.substr(0, text.rfind(" at "));
}

/// Throws Error unless it can be read as a program over the arguments a, b, c, and, in a
/// derivative, the result out.
void check_program(const std::string& what, const std::string& text, int arity, bool derivative,
                   Where where) {
  if (text.empty()) return;
  std::vector<std::string> leaves;
  for (int a = 0; a < std::clamp(arity, 1, 3); a++) leaves.push_back(std::string(1, "abc"[a]));
  if (derivative) leaves.push_back("out");
  try {
    parse_scalar(text, leaves);
  } catch (const Error& error) {
    throw Error("register_operation", fmt::format("{}: {}", what, error.what()), where);
  }
}

} // namespace

void register_operation(Operation operation, Where where) {
  const std::string of = fmt::format(" of '{}'", operation.name);
  check_program("the definition" + of, operation.definition, operation.arity, false, where);
  for (int d = 0; d < 3; d++)
    check_program(fmt::format("derivative {}{}", d + 1, of), operation.derivative[d], operation.arity, true,
                  where);
  UserOp op;
  op.name = std::move(operation.name);
  op.arity = operation.arity;
  op.signature = signature_of(operation.types);
  op.f64 = std::move(operation.f64);
  op.i64 = std::move(operation.i64);
  op.text = std::move(operation.text);
  op.definition = std::move(operation.definition);
  op.ulp = operation.ulp;
  op.low = operation.low;
  op.high = operation.high;
  op.commutative = operation.commutative;
  op.doc = std::move(operation.doc);
  for (size_t i = 0; i < 3; i++) op.derivative[i] = std::move(operation.derivative[i]);
  const std::string name = op.name, rules = op.rules = std::move(operation.rules);
  const bool known = find_user_op(name) != nullptr;
  try {
    register_op(std::move(op));
  } catch (const Error& error) {
    throw Error("register_operation", own_text(error), where);
  }
  if (rules.empty()) return;
  std::vector<std::string> mistakes;
  std::optional<Rules> read;
  try { // they name the operation itself, so that it must be known by now
    read = Rules::parse(rules, name);
    mistakes = read->test(12);
  } catch (const Error& error) {
    mistakes = {error.what()};
  }
  if (mistakes.empty()) return remember_rules(name, std::move(*read));
  if (!known) forget_op(name);
  throw Error("register_operation", fmt::format("the rules of '{}': {}", name, mistakes[0]), where);
}

Tensor apply_operation(const std::string& operation, const std::vector<Tensor>& operands, Where where) {
  std::vector<Operand> list;
  for (const Tensor& t : operands) list.emplace_back(t, where);
  if (operands.empty()) throw Error(operation, "one operand must be a tensor", where);
  if (auto op = parse_op(operation)) {
    if (row(*op).arity != int(operands.size()))
      throw Error(operation, fmt::format("takes {} operands, {} were given", row(*op).arity, operands.size()),
                  where);
    return elementwise(*op, operation, list, where);
  }
  const UserOp* user = find_user_op(operation);
  if (!user)
    throw Error("apply_operation",
                fmt::format("there is no operation '{}'; register_operation makes one known", operation),
                where);
  if (user->arity != int(operands.size()))
    throw Error(operation, fmt::format("takes {} operands, {} were given", user->arity, operands.size()),
                where);
  std::shared_ptr<GraphState> graph;
  Shape shape;
  DType dtype = graph_of(operation, {&operands[0]}, where) ? operands[0].dtype() : DType::f32;
  for (const Tensor& t : operands) {
    graph = graph_of(operation, {&operands[0], &t}, where);
    shape = broadcast_shape(operation, shape, type_of(t).shape, where);
    dtype = promote(dtype, t.dtype());
  }
  if ((user->signature == Signature::floating || user->signature == Signature::test) && !is_float(dtype))
    dtype = DType::f32;
  if (user->signature == Signature::numeric && dtype == DType::boolean) dtype = DType::i32;
  if (user->signature == Signature::bits && is_float(dtype))
    throw Error(operation, fmt::format("takes integers or bool, not {}", to_string(dtype)), where);
  std::vector<NodeId> inputs;
  for (const Tensor& t : operands)
    inputs.push_back(node_id(broadcast_to(operation, t.cast(dtype, where), shape, where)));
  return build(operation, graph, where,
               [&](FunctionBuilder& b) { return b.add(MapAttr{Op::add, operation}, inputs, {}, where); });
}

int64_t HostArray::count() const { return elements(shape); }
double HostArray::at(int64_t index) const { return load_f64(dtype, data.data(), index); }
void HostArray::put(int64_t index, double value) { store_f64(dtype, data.data(), index, value); }
HostArray HostArray::zeros(DType dtype, std::vector<int64_t> shape) {
  HostArray array{dtype, std::move(shape), {}};
  array.data.resize(size_t(storage_bytes(dtype, array.count())));
  return array;
}

void register_host(std::string name, HostFunctionBody body, Where where) {
  HostFunction function = [body = std::move(body)](const std::string&, std::span<const HostTensor> in) {
    std::vector<HostArray> arrays;
    for (const HostTensor& t : in) arrays.push_back({t.dtype, t.shape, t.data});
    std::vector<HostTensor> out;
    for (HostArray& array : body(arrays))
      out.push_back({array.dtype, std::move(array.shape), std::move(array.data)});
    return out;
  };
  try {
    register_host_function(std::move(name), std::move(function));
  } catch (const Error& error) {
    throw Error("register_host", own_text(error), where);
  }
}

std::vector<Tensor> host_call(const std::string& name, const std::vector<Tensor>& inputs,
                              const std::vector<OutputType>& outputs, Where where) {
  if (inputs.empty()) throw Error("host_call", fmt::format("{} needs an input", name), where);
  if (outputs.empty()) throw Error("host_call", fmt::format("{} needs an output", name), where);
  if (!find_host_function(name))
    throw Error("host_call", fmt::format("'{}' is not registered: register_host makes it known", name),
                where);
  const auto graph = graph_of("host_call", {&inputs[0]}, where);
  const auto ids = ids_of("host_call", graph, inputs, where);
  const NodeId node = node_id(build("host_call", graph, where, [&](FunctionBuilder& b) {
    const NodeId made = b.add(HostAttr{name, "", types_of(outputs)}, ids, {}, where);
    b.origin(made, "host_call" + maker_text(*graph, where));
    return made;
  }));
  return results_of("host_call", graph, node, outputs.size(), where);
}

std::vector<Tensor> custom_kernel(Graph& graph, const CustomKernel& kernel, const std::vector<Tensor>& inputs,
                                  Where where) {
  const auto& state = graph.state("custom_kernel", where);
  const auto ids = ids_of("custom_kernel", state, inputs, where);
  if (kernel.outputs.empty())
    throw Error("custom_kernel", fmt::format("{} has no output", kernel.name), where);
  CustomAttr attr;
  attr.name = kernel.name;
  attr.text = kernel.text;
  for (const auto* extents : {&kernel.grid, &kernel.block}) {
    if (extents->size() > 3)
      throw Error("custom_kernel",
                  fmt::format("{}: {} has more than three axes", kernel.name, luminal::to_string(*extents)),
                  where);
    for (size_t d = 0; d < 3; d++)
      attr.grid.push_back(d < extents->size() ? to_expr((*extents)[d]) : Expr(1));
  }
  attr.grid.push_back(to_expr(kernel.shared_bytes));
  for (Dim integer : kernel.integers) attr.grid.push_back(to_expr(integer));
  attr.results = types_of(kernel.outputs);
  const NodeId node = node_id(build("custom_kernel", state, where, [&](FunctionBuilder& b) {
    const NodeId made = b.add(attr, ids, {}, where);
    b.origin(made, "custom_kernel" + maker_text(*state, where));
    return made;
  }));
  return results_of("custom_kernel", state, node, kernel.outputs.size(), where);
}

} // namespace luminal
