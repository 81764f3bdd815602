// tensor/elementwise.cpp -- operators and functions of single elements, with NumPy broadcasting.
#include "tensor/compose.h"
#include "tensor/extents.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal {

namespace {

constexpr std::string_view empty_tensor = "a tensor is empty: it was never made from a graph";

bool is_inside(const GraphState& inner, const GraphState& outer) {
  for (const GraphState* g = inner.outer; g; g = g->outer)
    if (g == &outer) return true;
  return false;
}
[[noreturn]] void different_graphs(std::string_view op, const GraphState& a, const GraphState& b,
                                   Where where) {
  if (is_inside(a, b) || is_inside(b, a))
    throw Error(
        op,
        "a tensor from outside meets one of the body of a loop or function: pass it in, as an invariant "
        "of the loop or an input of the function, and use what the body is given for it",
        where);
  throw Error(op, "the tensors belong to different graphs", where);
}

} // namespace

std::shared_ptr<GraphState> Tensor::graph(Where where) const {
  if (!graph_) throw Error("tensor", empty_tensor, where);
  return graph_;
}

std::shared_ptr<GraphState> graph_of(std::string_view op, std::initializer_list<const Tensor*> tensors,
                                     Where where) {
  std::shared_ptr<GraphState> graph;
  for (const Tensor* t : tensors) {
    if (!t->defined()) throw Error(op, empty_tensor, where);
    if (graph && graph != t->graph()) different_graphs(op, *graph, *t->graph(), where);
    graph = t->graph();
  }
  return graph;
}

void check_graph(std::string_view op, const std::shared_ptr<GraphState>& graph, const Tensor& tensor,
                 Where where) {
  if (const auto its = graph_of(op, {&tensor}, where); its != graph)
    different_graphs(op, *graph, *its, where);
}

const TensorType& type_of(const Tensor& t) { return t.graph()->builder[node_id(t)].type(); }
Tensor wrap(const std::shared_ptr<GraphState>& graph, NodeId node) {
  return Tensor(graph, uint32_t(node.index()));
}

int axis_of(std::string_view op, int axis, int rank, Where where) {
  int positive = axis < 0 ? axis + rank : axis;
  if (positive < 0 || positive >= rank)
    throw Error(op, fmt::format("axis {} does not exist in a tensor of {} axes", axis, rank), where);
  return positive;
}

std::string place_text(Where where) {
  if (where.line() == 0) return "by the program";
  const std::string text = Error("", "", where).what();
  return text.substr(text.rfind("at "));
}

std::string maker_text(const GraphState& graph, Where where) {
  for (const GraphState* g = &graph; g; g = g->outer)
    if (g->made_at) where = *g->made_at;
  return where.line() ? " " + place_text(where) : "";
}

void check_dtype(std::string_view op, DType type, Where where) {
  if (int(type) >= dtype_count) throw Error(op, fmt::format("there is no dtype {}", int(type)), where);
}

Shape broadcast_shape(std::string_view op, const Shape& a, const Shape& b, Where where) {
  Shape out(std::max(a.size(), b.size()), Expr(1));
  for (size_t i = 0; i < out.size(); i++) {
    Expr x = i < out.size() - a.size() ? Expr(1) : a[i - (out.size() - a.size())];
    Expr y = i < out.size() - b.size() ? Expr(1) : b[i - (out.size() - b.size())];
    if (x.is_constant(1))
      out[i] = y;
    else if (y.is_constant(1) || equal_extents(x, y))
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
    else if (equal_extents(from[d], shape[skip + d]))
      map.push_back(axis_symbol(int(skip + d), shape[skip + d]));
    else
      throw Error(op, fmt::format("shape {} does not broadcast to {}", text_of(from), text_of(shape)), where);
  }
  return build(op, x.graph(), where, [&](FunctionBuilder& b) { return b.view(node_id(x), shape, map); });
}

DType common_dtype(const std::vector<Operand>& operands) {
  std::optional<DType> type;
  bool real = false, whole = false;
  for (const Operand& operand : operands) {
    if (operand.tensor)
      type = type ? promote(*type, type_of(*operand.tensor).dtype) : type_of(*operand.tensor).dtype;
    else
      real |= operand.real, whole |= !operand.real && !operand.truth;
  }
  if (!type) return real ? DType::f32 : whole ? DType::i64 : DType::boolean;
  if (whole && type == DType::boolean) type = DType::i32;
  return real && !is_float(*type) ? DType::f32 : *type;
}

Tensor number_like(const Operand& number, const std::shared_ptr<GraphState>& graph, DType dtype,
                   const Shape& shape, Where where) {
  return build("number", graph, where, [&](FunctionBuilder& b) {
    const auto exact = [&](int64_t value) {
      std::vector<std::byte> bytes(size_t(storage_bytes(dtype, 1)));
      if (is_float(dtype))
        store_f64(dtype, bytes.data(), 0, integer_to_float(dtype, DType::i64, value));
      else
        store_i64(dtype, bytes.data(), 0, dtype == DType::boolean ? value != 0 : value);
      return b.constant(TensorType{dtype, {}}, std::move(bytes));
    };
    NodeId scalar;
    if (number.real)
      scalar = is_float(dtype) ? b.constant(dtype, number.number) : exact(truncate_to(dtype, number.number));
    else if (number.whole.is_constant())
      scalar = exact(number.whole.value());
    else
      scalar = b.cast(b.iota({}, to_expr(number.whole), DType::i64), dtype);
    return shape.empty() ? scalar : b.view(scalar, shape, {});
  });
}

namespace {

std::shared_ptr<GraphState> graph_of_operands(std::string_view op, const std::vector<Operand>& operands,
                                              Shape& shape, Where where) {
  std::shared_ptr<GraphState> graph;
  for (const Operand& operand : operands) {
    if (!operand.tensor) continue;
    auto its = graph_of(op, {operand.tensor}, where);
    if (graph && graph != its) different_graphs(op, *graph, *its, where);
    graph = its;
    shape = broadcast_shape(op, shape, type_of(*operand.tensor).shape, where);
  }
  if (!graph) throw Error(op, "one operand must be a tensor", where);
  return graph;
}

Tensor converted(const Tensor& x, DType to, Where where) {
  return type_of(x).dtype == to ? x : x.cast(to, where);
}

Tensor materialize(std::string_view op, const std::shared_ptr<GraphState>& graph, const Operand& operand,
                   DType dtype, const Shape& shape, Where where) {
  if (operand.tensor) return broadcast_to(op, converted(*operand.tensor, dtype, where), shape, where);
  return number_like(operand, graph, dtype, shape, where);
}

DType as_numbers(DType type, Numbers numbers) {
  if (numbers == Numbers::numeric && type == DType::boolean) return DType::i32;
  if (numbers == Numbers::floats && !is_float(type)) return DType::f32;
  return type;
}

} // namespace

std::vector<Tensor> common_operands(std::string_view op, const std::vector<Operand>& operands,
                                    Numbers numbers, Where where) {
  Shape shape;
  auto graph = graph_of_operands(op, operands, shape, where);
  const DType dtype = as_numbers(common_dtype(operands), numbers);
  std::vector<Tensor> list;
  for (const Operand& operand : operands)
    list.push_back(materialize(op, graph, operand, dtype, shape, where));
  return list;
}

void need_rank(std::string_view op, const Tensor& t, int rank, std::string_view what, Where where) {
  if (t.rank() != rank)
    throw Error(op,
                fmt::format("{} must have {} {}, it is {}", what, rank, rank == 1 ? "axis" : "axes",
                            text_of(type_of(t).shape)),
                where);
}

Floats::Floats(std::string_view op, const std::vector<Operand>& operands, Where place) : where(place) {
  in = common_operands(op, operands, Numbers::floats, where);
  result = in[0].dtype();
  for (Tensor& x : in) x = at_least_f32(x);
}

Tensor at_least_f32(const Tensor& x) { return x.cast(accumulator(x.dtype())); }
DType accumulator(DType type) { return is_float(type) && bits(type) < 32 ? DType::f32 : type; }

Tensor elementwise(Op op, std::string_view name, std::vector<Operand> operands, Where where) {
  Shape shape;
  auto graph = graph_of_operands(name, operands, shape, where);
  const Signature signature = row(op).signature;
  const bool choice = signature == Signature::choice;
  if (choice && operands[0].tensor && type_of(*operands[0].tensor).dtype != DType::boolean)
    throw Error(name,
                fmt::format("the condition must be bool, it is {} (compare it with something)",
                            to_string(type_of(*operands[0].tensor).dtype)),
                where);
  DType dtype = common_dtype(choice ? std::vector<Operand>(operands.begin() + 1, operands.end()) : operands);
  if (signature == Signature::numeric) dtype = as_numbers(dtype, Numbers::numeric);
  if (signature == Signature::floating) dtype = as_numbers(dtype, Numbers::floats);
  if ((signature == Signature::bits || signature == Signature::shift) && is_float(dtype))
    throw Error(name,
                fmt::format("the operands must be integers{}, they are {}",
                            signature == Signature::bits ? " or bool" : "", to_string(dtype)),
                where);
  if (signature == Signature::shift && dtype == DType::boolean) dtype = DType::i32;
  std::vector<NodeId> inputs;
  for (size_t i = 0; i < operands.size(); i++)
    inputs.push_back(node_id(
        materialize(name, graph, operands[i], choice && i == 0 ? DType::boolean : dtype, shape, where)));
  return build(name, graph, where, [&](FunctionBuilder& b) {
    const NodeId made = b.map(op, inputs, where);
    b.origin(made, fmt::format("{}{}", name, maker_text(*graph, where)));
    return made;
  });
}

Tensor unary(Op op, const Tensor& x, Where where) {
  graph_of(to_string(op), {&x}, where);
  return elementwise(op, to_string(op), {Operand(x, where)}, where);
}

Tensor operator+(Operand a, Operand b) { return elementwise(Op::add, "add", {a, b}, a.where); }
Tensor operator-(Operand a, Operand b) { return elementwise(Op::sub, "sub", {a, b}, a.where); }
Tensor operator*(Operand a, Operand b) { return elementwise(Op::mul, "mul", {a, b}, a.where); }
Tensor operator/(Operand a, Operand b) {
  auto in = common_operands("div", {a, b}, Numbers::floats, a.where);
  return elementwise(Op::div, "div", {Operand(in[0], a.where), Operand(in[1], a.where)}, a.where);
}
Tensor operator%(Operand a, Operand b) { return elementwise(Op::rem, "rem", {a, b}, a.where); }
Tensor operator-(Operand a) { return elementwise(Op::neg, "neg", {a}, a.where); }
Tensor operator!(Operand a) {
  if (a.tensor && a.tensor->defined() && a.tensor->dtype() == DType::boolean)
    return elementwise(Op::bit_not, "logical_not", {a}, a.where);
  return elementwise(Op::eq, "logical_not", {a, Operand(0, a.where)}, a.where);
}
Tensor operator~(Operand a) { return elementwise(Op::bit_not, "bit_not", {a}, a.where); }
Tensor& operator+=(Tensor& a, Operand b) { return a = Operand(a, b.where) + b; }
Tensor& operator-=(Tensor& a, Operand b) { return a = Operand(a, b.where) - b; }
Tensor& operator*=(Tensor& a, Operand b) { return a = Operand(a, b.where) * b; }
Tensor& operator/=(Tensor& a, Operand b) { return a = Operand(a, b.where) / b; }
Tensor& operator%=(Tensor& a, Operand b) { return a = Operand(a, b.where) % b; }
Tensor& operator&=(Tensor& a, Operand b) { return a = Operand(a, b.where) & b; }
Tensor& operator|=(Tensor& a, Operand b) { return a = Operand(a, b.where) | b; }
Tensor& operator^=(Tensor& a, Operand b) { return a = Operand(a, b.where) ^ b; }
Tensor operator<(Operand a, Operand b) { return elementwise(Op::lt, "lt", {a, b}, a.where); }
Tensor operator<=(Operand a, Operand b) { return elementwise(Op::le, "le", {a, b}, a.where); }
Tensor operator>(Operand a, Operand b) { return elementwise(Op::lt, "gt", {b, a}, a.where); }
Tensor operator>=(Operand a, Operand b) { return elementwise(Op::le, "ge", {b, a}, a.where); }
Tensor equal(Operand a, Operand b) { return elementwise(Op::eq, "equal", {a, b}, a.where); }
Tensor not_equal(Operand a, Operand b) { return elementwise(Op::ne, "not_equal", {a, b}, a.where); }
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
Tensor Tensor::sign(Where where) const { return unary(Op::sign, *this, where); }
Tensor Tensor::sqrt(Where where) const { return unary(Op::sqrt, *this, where); }
Tensor Tensor::rsqrt(Where where) const { return unary(Op::rsqrt, *this, where); }
Tensor Tensor::recip(Where where) const { return unary(Op::recip, *this, where); }
Tensor Tensor::reciprocal(Where where) const { return unary(Op::recip, *this, where); }
Tensor Tensor::exp(Where where) const { return unary(Op::exp, *this, where); }
Tensor Tensor::exp2(Where where) const { return unary(Op::exp2, *this, where); }
Tensor Tensor::expm1(Where where) const { return unary(Op::expm1, *this, where); }
Tensor Tensor::log(Where where) const { return unary(Op::log, *this, where); }
Tensor Tensor::log2(Where where) const { return unary(Op::log2, *this, where); }
Tensor Tensor::log1p(Where where) const { return unary(Op::log1p, *this, where); }
Tensor Tensor::sin(Where where) const { return unary(Op::sin, *this, where); }
Tensor Tensor::cos(Where where) const { return unary(Op::cos, *this, where); }
Tensor Tensor::tan(Where where) const { return unary(Op::tan, *this, where); }
Tensor Tensor::tanh(Where where) const { return unary(Op::tanh, *this, where); }
Tensor Tensor::erf(Where where) const { return unary(Op::erf, *this, where); }
Tensor Tensor::sigmoid(Where where) const { return unary(Op::sigmoid, *this, where); }
Tensor Tensor::silu(Where where) const { return unary(Op::silu, *this, where); }
Tensor Tensor::swish(Where where) const { return unary(Op::silu, *this, where); }
Tensor Tensor::gelu(Where where) const { return unary(Op::gelu, *this, where); }
Tensor Tensor::gelu_tanh(Where where) const { return unary(Op::gelu_tanh, *this, where); }
Tensor Tensor::square(Where where) const {
  return elementwise(Op::mul, "square", {Operand(*this, where), Operand(*this, where)}, where);
}
Tensor Tensor::logical_not(Where where) const { return !Operand(*this, where); }

namespace {
/// Integers are their own floor, ceiling, ...
Tensor rounding(Op op, const Tensor& x, Where where) {
  graph_of(to_string(op), {&x}, where);
  return is_float(x.dtype()) ? unary(op, x, where) : x;
}
} // namespace

Tensor Tensor::floor(Where where) const { return rounding(Op::floor, *this, where); }
Tensor Tensor::ceil(Where where) const { return rounding(Op::ceil, *this, where); }
Tensor Tensor::round(Where where) const { return rounding(Op::round, *this, where); }
Tensor Tensor::trunc(Where where) const { return rounding(Op::trunc, *this, where); }
Tensor Tensor::frac(Where where) const {
  graph_of("frac", {this}, where);
  return *this - trunc(where);
}

Tensor Tensor::cast(DType to, Where where) const {
  auto graph = graph_of("cast", {this}, where);
  check_dtype("cast", to, where);
  if (type_of(*this).dtype == to) return *this;
  return build("cast", graph, where, [&](FunctionBuilder& b) { return b.cast(node_id(*this), to); });
}
Tensor Tensor::bitcast(DType to, Where where) const {
  auto graph = graph_of("bitcast", {this}, where);
  check_dtype("bitcast", to, where);
  return build("bitcast", graph, where, [&](FunctionBuilder& b) { return b.bitcast(node_id(*this), to); });
}

} // namespace luminal
