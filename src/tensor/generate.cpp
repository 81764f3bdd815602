// tensor/generate.cpp -- tensors from nothing: ranges and constants of a shape.
#include "luminal/random.h"
#include "tensor/views.h"
#include <cmath>

namespace luminal {
namespace {

/// Extents that may be negative are refused, or assumed not to be.
Shape checked_shape(std::string_view op, Graph& graph, const Dims& dims, Where where) {
  Shape shape = to_shape(dims);
  for (Expr extent : shape) {
    if (prove(ge(extent, 0)) == Truth::no)
      throw Error(op, fmt::format("a shape of {}: an extent may not be negative", text_of(shape)), where);
    assume(*graph.state(op, where), ge(extent, 0), op, where);
  }
  return shape;
}

Tensor iota_of(std::string_view op, Graph& graph, Shape shape, Expr value, DType dtype, Where where) {
  return build(op, graph.state(op, where), where,
               [&](FunctionBuilder& b) { return b.iota(std::move(shape), value, dtype); });
}

Tensor pairwise(Op op, std::string_view name, Operand a, Operand b, Where where) {
  return elementwise(op, name, {a, b}, where);
}

int64_t checked_count(std::string_view op, double count, Where where) {
  if (!(count < 0x1p52))
    throw Error(op, fmt::format("{} numbers are too many (or the step is not a number)", count), where);
  return int64_t(count);
}

} // namespace

Tensor arange(Graph& graph, Dim start, Dim end, int64_t step, DType dtype, Where where) {
  if (step == 0) throw Error("arange", "the step is 0", where);
  const Expr first = to_expr(start), way = step > 0 ? to_expr(end) - first : first - to_expr(end);
  if (prove(ge(way, 0)) == Truth::no)
    throw Error(
        "arange",
        fmt::format("steps of {} do not lead from {} to {}", step, start.to_string(), end.to_string()),
        where);
  assume(*graph.state("arange", where), ge(way, 0), "arange", where);
  const Expr count = ceildiv(way, step > 0 ? step : -step);
  return iota_of("arange", graph, {count}, first + axis_symbol(0, count) * step, dtype, where);
}

Tensor arange_float(Graph& graph, double start, double end, double step, DType dtype, Where where) {
  const double count = std::ceil((end - start) / step);
  if (step == 0 || count < 0 || std::isnan(count))
    throw Error("arange", fmt::format("steps of {} do not lead from {} to {}", step, start, end), where);
  const Expr n = checked_count("arange", count, where);
  Tensor i = iota_of("arange", graph, {n}, axis_symbol(0, n), DType::f64, where);
  Tensor scaled = pairwise(Op::mul, "arange", Operand(i, where), Operand(step, where), where);
  return pairwise(Op::add, "arange", Operand(scaled, where), Operand(start, where), where).cast(dtype, where);
}

Tensor linspace(Graph& graph, double start, double end, int64_t count, DType dtype, Where where) {
  if (count < 0)
    throw Error("linspace", fmt::format("{} numbers: the count may not be negative", count), where);
  const double step = count > 1 ? (end - start) / double(count - 1) : 0;
  const Expr i = axis_symbol(0, count);
  auto part = [&](Expr steps, double from, double by) {
    Tensor far = iota_of("linspace", graph, {count}, steps, DType::f64, where);
    Tensor scaled = pairwise(Op::mul, "linspace", Operand(far, where), Operand(by, where), where);
    return pairwise(Op::add, "linspace", Operand(scaled, where), Operand(from, where), where);
  };
  Tensor in_front = iota_of("linspace", graph, {count}, lt(i, (count + 1) / 2), DType::boolean, where);
  Tensor front = part(i, start, step), back = part(Expr(count - 1) - i, end, -step);
  return elementwise(Op::select, "linspace",
                     {Operand(in_front, where), Operand(front, where), Operand(back, where)}, where)
      .cast(dtype, where);
}

Tensor logspace(Graph& graph, double start, double end, int64_t count, double base, DType dtype,
                Where where) {
  if (count < 0)
    throw Error("logspace", fmt::format("{} numbers: the count may not be negative", count), where);
  Tensor exponents = linspace(graph, start, end, count, DType::f64, where);
  return pairwise(Op::pow, "logspace", Operand(base, where), Operand(exponents, where), where)
      .cast(dtype, where);
}

Tensor full(Graph& graph, Dims dims, double value, DType dtype, Where where) {
  return number_of("full", graph.state("full", where), dtype, value,
                   checked_shape("full", graph, dims, where), where);
}
Tensor zeros(Graph& graph, Dims dims, DType dtype, Where where) {
  return number_of("zeros", graph.state("zeros", where), dtype, 0, checked_shape("zeros", graph, dims, where),
                   where);
}
Tensor ones(Graph& graph, Dims dims, DType dtype, Where where) {
  return number_of("ones", graph.state("ones", where), dtype, 1, checked_shape("ones", graph, dims, where),
                   where);
}
Tensor full_like(const Tensor& x, double value, Where where) {
  auto graph = graph_of("full_like", {&x}, where);
  return number_of("full_like", graph, x.dtype(), value, type_of(x).shape, where);
}
Tensor zeros_like(const Tensor& x, Where where) { return full_like(x, 0, where); }
Tensor ones_like(const Tensor& x, Where where) { return full_like(x, 1, where); }

namespace {
Tensor matrix_of(std::string_view op, Graph& graph, Dim rows, Dim columns, DType dtype, Where where,
                 const std::function<Expr(Expr row, Expr column)>& holds) {
  const Shape shape = checked_shape(op, graph, {rows, columns}, where);
  return iota_of(op, graph, shape, holds(axis_symbol(0, shape[0]), axis_symbol(1, shape[1])), DType::boolean,
                 where)
      .cast(dtype, where);
}
} // namespace

Tensor eye(Graph& graph, Dim rows, Dim columns, DType dtype, Where where) {
  return matrix_of("eye", graph, rows, columns, dtype, where,
                   [](Expr row, Expr column) { return eq(row, column); });
}
Tensor tri(Graph& graph, Dim rows, Dim columns, Dim diagonal, DType dtype, Where where) {
  return matrix_of("tri", graph, rows, columns, dtype, where,
                   [&](Expr row, Expr column) { return le(column - row, to_expr(diagonal)); });
}

} // namespace luminal
