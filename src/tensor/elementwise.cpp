// tensor/elementwise.cpp -- operators and functions of single elements, with NumPy broadcasting.
#include "tensor/graph_state.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal {

std::shared_ptr<GraphState> graph_of(std::string_view op, std::initializer_list<const Tensor*> tensors,
                                     Where where) {
  std::shared_ptr<GraphState> graph;
  for (const Tensor* t : tensors) {
    if (!t->defined()) throw Error(op, "a tensor is empty: it was never made from a graph", where);
    if (graph && graph != t->graph()) throw Error(op, "the tensors belong to different graphs", where);
    graph = t->graph();
  }
  return graph;
}

const TensorType& type_of(const Tensor& t) { return t.graph()->builder[t.id()].type(); }
Tensor wrap(const std::shared_ptr<GraphState>& graph, NodeId node) { return Tensor(graph, node); }

int axis_of(std::string_view op, int axis, int rank, Where where) {
  int positive = axis < 0 ? axis + rank : axis;
  if (positive < 0 || positive >= rank)
    throw Error(op, fmt::format("axis {} does not exist in a tensor of {} axes", axis, rank), where);
  return positive;
}

Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b, Where where) {
  Shape out(std::max(a.size(), b.size()), Expr(1));
  for (size_t i = 0; i < out.size(); i++) {
    Expr x = i < out.size() - a.size() ? Expr(1) : a[i - (out.size() - a.size())];
    Expr y = i < out.size() - b.size() ? Expr(1) : b[i - (out.size() - b.size())];
    if (x.is_constant(1))
      out[i] = y;
    else if (y.is_constant(1) || proves_equal(x, y))
      out[i] = x;
    else
      throw Error(op,
                  fmt::format("shapes {} and {} do not broadcast: {} and {} differ (axes are aligned from "
                              "the right; an extent of 1 stretches)",
                              text_of(a), text_of(b), to_string(x), to_string(y)),
                  where);
  }
  return out;
}

Tensor broadcast_to(std::string_view op, const Tensor& x, const Shape& shape, Where where) {
  const Shape from = type_of(x).shape;
  if (from == shape) return x;
  if (from.size() > shape.size())
    throw Error(op, fmt::format("shape {} does not broadcast to {}", text_of(from), text_of(shape)), where);
  std::vector<Expr> map;
  const size_t skip = shape.size() - from.size();
  for (size_t d = 0; d < from.size(); d++) {
    if (from[d].is_constant(1) && !shape[skip + d].is_constant(1))
      map.push_back(0);
    else if (proves_equal(from[d], shape[skip + d]))
      map.push_back(axis_symbol(int(skip + d), shape[skip + d]));
    else
      throw Error(op, fmt::format("shape {} does not broadcast to {}", text_of(from), text_of(shape)), where);
  }
  return build(op, x.graph(), where, [&](FunctionBuilder& b) { return b.view(x.id(), shape, map); });
}

namespace {

/// The dtype of numbers among operands: that of the tensors, but a fraction beside integers makes f32.
DType common_dtype(std::string_view op, const std::vector<Operand>& operands, size_t first, Where where) {
  std::optional<DType> type;
  bool fraction = false;
  for (size_t i = first; i < operands.size(); i++) {
    if (operands[i].tensor)
      type = type ? promote(*type, type_of(*operands[i].tensor).dtype) : type_of(*operands[i].tensor).dtype;
    else
      fraction |= operands[i].number != std::floor(operands[i].number) || std::isinf(operands[i].number);
  }
  if (!type) throw Error(op, "one operand must be a tensor", where);
  if (fraction && !is_float(*type)) return DType::f32;
  return *type;
}

Tensor converted(const Tensor& x, DType to, Where where) {
  return type_of(x).dtype == to ? x : x.cast(to, where);
}

Tensor materialize(std::string_view name, const std::shared_ptr<GraphState>& graph, const Operand& operand,
                   DType dtype, const Shape& shape, Where where) {
  if (operand.tensor) return broadcast_to(name, converted(*operand.tensor, dtype, where), shape, where);
  return build(name, graph, where, [&](FunctionBuilder& b) {
    NodeId number = b.constant(dtype, operand.number);
    return shape.empty() ? number : b.view(number, shape, {});
  });
}

} // namespace

Tensor elementwise(Op op, std::string_view name, std::vector<Operand> operands, Where where) {
  std::shared_ptr<GraphState> graph;
  Shape shape;
  for (const Operand& operand : operands) {
    if (!operand.tensor) continue;
    auto its = graph_of(name, {operand.tensor}, where);
    if (graph && graph != its) throw Error(name, "the tensors belong to different graphs", where);
    graph = its;
    shape = broadcast_shape(name, shape, type_of(*operand.tensor).shape, where);
  }
  const bool choice = row(op).signature == Signature::choice;
  DType dtype = common_dtype(name, operands, choice ? 1 : 0, where);
  const Signature signature = row(op).signature;
  if (signature == Signature::numeric && dtype == DType::boolean) dtype = DType::i32;
  if (signature == Signature::floating && !is_float(dtype)) dtype = DType::f32;
  std::vector<NodeId> inputs;
  for (size_t i = 0; i < operands.size(); i++) {
    DType wanted = choice && i == 0 ? DType::boolean : dtype;
    if (choice && i == 0 && operands[0].tensor && type_of(*operands[0].tensor).dtype != DType::boolean)
      throw Error(
          name,
          fmt::format("the condition must be bool, it is {}", to_string(type_of(*operands[0].tensor).dtype)),
          where);
    inputs.push_back(materialize(name, graph, operands[i], wanted, shape, where).id());
  }
  return build(name, graph, where, [&](FunctionBuilder& b) { return b.map(op, inputs, where); });
}

Tensor unary(Op op, const Tensor& x, Where where) {
  graph_of(to_string(op), {&x}, where);
  return elementwise(op, to_string(op), {Operand(x, where)}, where);
}

Tensor operator+(Operand a, Operand b) { return elementwise(Op::add, "add", {a, b}, a.where); }
Tensor operator-(Operand a, Operand b) { return elementwise(Op::sub, "sub", {a, b}, a.where); }
Tensor operator*(Operand a, Operand b) { return elementwise(Op::mul, "mul", {a, b}, a.where); }
Tensor operator/(Operand a, Operand b) {
  // True division: integers divide as f32, as in NumPy and PyTorch.
  auto as_float = [](const Operand& o) {
    return o.tensor && !is_float(type_of(*o.tensor).dtype) ? o.tensor->cast(DType::f32, o.where)
           : o.tensor                                      ? *o.tensor
                                                           : Tensor();
  };
  Tensor x = as_float(a), y = as_float(b);
  return elementwise(Op::div, "div", {a.tensor ? Operand(x, a.where) : a, b.tensor ? Operand(y, b.where) : b},
                     a.where);
}
Tensor operator%(Operand a, Operand b) { return elementwise(Op::rem, "rem", {a, b}, a.where); }
Tensor operator-(Operand a) { return elementwise(Op::neg, "neg", {a}, a.where); }
Tensor operator<(Operand a, Operand b) { return elementwise(Op::lt, "lt", {a, b}, a.where); }
Tensor operator<=(Operand a, Operand b) { return elementwise(Op::le, "le", {a, b}, a.where); }
Tensor operator>(Operand a, Operand b) { return elementwise(Op::lt, "gt", {b, a}, a.where); }
Tensor operator>=(Operand a, Operand b) { return elementwise(Op::le, "ge", {b, a}, a.where); }
Tensor equal(Operand a, Operand b) { return elementwise(Op::eq, "equal", {a, b}, a.where); }
Tensor not_equal(Operand a, Operand b) { return elementwise(Op::ne, "not_equal", {a, b}, a.where); }
Tensor maximum(Operand a, Operand b) { return elementwise(Op::max, "maximum", {a, b}, a.where); }
Tensor minimum(Operand a, Operand b) { return elementwise(Op::min, "minimum", {a, b}, a.where); }
Tensor pow(Operand a, Operand b) { return elementwise(Op::pow, "pow", {a, b}, a.where); }
Tensor operator&(Operand a, Operand b) { return elementwise(Op::bit_and, "and", {a, b}, a.where); }
Tensor operator|(Operand a, Operand b) { return elementwise(Op::bit_or, "or", {a, b}, a.where); }
Tensor operator^(Operand a, Operand b) { return elementwise(Op::bit_xor, "xor", {a, b}, a.where); }
Tensor operator<<(Operand a, Operand b) { return elementwise(Op::shl, "shl", {a, b}, a.where); }
Tensor operator>>(Operand a, Operand b) { return elementwise(Op::shr, "shr", {a, b}, a.where); }
Tensor select(Operand condition, Operand a, Operand b) {
  return elementwise(Op::select, "select", {condition, a, b}, condition.where);
}

Tensor Tensor::neg(Where where) const { return unary(Op::neg, *this, where); }
Tensor Tensor::abs(Where where) const { return unary(Op::abs, *this, where); }
Tensor Tensor::sqrt(Where where) const { return unary(Op::sqrt, *this, where); }
Tensor Tensor::rsqrt(Where where) const { return unary(Op::rsqrt, *this, where); }
Tensor Tensor::recip(Where where) const { return unary(Op::recip, *this, where); }
Tensor Tensor::exp(Where where) const { return unary(Op::exp, *this, where); }
Tensor Tensor::exp2(Where where) const { return unary(Op::exp2, *this, where); }
Tensor Tensor::log(Where where) const { return unary(Op::log, *this, where); }
Tensor Tensor::log2(Where where) const { return unary(Op::log2, *this, where); }
Tensor Tensor::sin(Where where) const { return unary(Op::sin, *this, where); }
Tensor Tensor::cos(Where where) const { return unary(Op::cos, *this, where); }
Tensor Tensor::tanh(Where where) const { return unary(Op::tanh, *this, where); }
Tensor Tensor::erf(Where where) const { return unary(Op::erf, *this, where); }
Tensor Tensor::sigmoid(Where where) const { return unary(Op::sigmoid, *this, where); }
Tensor Tensor::silu(Where where) const { return unary(Op::silu, *this, where); }
Tensor Tensor::gelu(Where where) const { return unary(Op::gelu, *this, where); }
Tensor Tensor::gelu_tanh(Where where) const { return unary(Op::gelu_tanh, *this, where); }
Tensor Tensor::floor(Where where) const { return unary(Op::floor, *this, where); }
Tensor Tensor::ceil(Where where) const { return unary(Op::ceil, *this, where); }
Tensor Tensor::round(Where where) const { return unary(Op::round, *this, where); }
Tensor Tensor::trunc(Where where) const { return unary(Op::trunc, *this, where); }
Tensor Tensor::relu(Where where) const {
  return elementwise(Op::max, "relu", {Operand(*this, where), Operand(0, where)}, where);
}
Tensor Tensor::square(Where where) const {
  return elementwise(Op::mul, "square", {Operand(*this, where), Operand(*this, where)}, where);
}

Tensor Tensor::cast(DType to, Where where) const {
  auto graph = graph_of("cast", {this}, where);
  if (type_of(*this).dtype == to) return *this;
  return build("cast", graph, where, [&](FunctionBuilder& b) { return b.cast(id_, to); });
}
Tensor Tensor::bitcast(DType to, Where where) const {
  auto graph = graph_of("bitcast", {this}, where);
  return build("bitcast", graph, where, [&](FunctionBuilder& b) { return b.bitcast(id_, to); });
}

} // namespace luminal
