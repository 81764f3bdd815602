// tensor/triangles.cpp -- matrices by their diagonals: tril, triu, diagonal, diag, diag_embed,
// trace.
#include "luminal/indexing.h"
#include "tensor/views.h"
#include <algorithm>

namespace luminal {
namespace {

void needs_matrix(std::string_view op, const Tensor& x, Where where) {
  graph_of(op, {&x}, where);
  if (x.rank() < 2)
    throw Error(op, fmt::format("{} is not a matrix: two axes are needed", text_of(type_of(x).shape)), where);
}

} // namespace

Tensor Tensor::tril(Dim diagonal, Where where) const {
  needs_matrix("tril", *this, where);
  const Shape shape = type_of(*this).shape;
  const std::vector<Expr> map = identity_map(shape);
  const size_t r = map.size();
  return view_of("tril", *this, shape, map, where, le(map[r - 1] - map[r - 2], to_expr(diagonal)));
}
Tensor Tensor::triu(Dim diagonal, Where where) const {
  needs_matrix("triu", *this, where);
  const Shape shape = type_of(*this).shape;
  const std::vector<Expr> map = identity_map(shape);
  const size_t r = map.size();
  return view_of("triu", *this, shape, map, where, ge(map[r - 1] - map[r - 2], to_expr(diagonal)));
}

Tensor Tensor::diagonal(int64_t offset, int a, int b, Where where) const {
  needs_matrix("diagonal", *this, where);
  a = axis_of("diagonal", a, rank(), where);
  b = axis_of("diagonal", b, rank(), where);
  if (a == b) throw Error("diagonal", fmt::format("axis {} is named twice", a), where);
  const Shape from = type_of(*this).shape;
  const Expr rows = from[size_t(a)] + std::min<int64_t>(offset, 0),
             columns = from[size_t(b)] - std::max<int64_t>(offset, 0);
  Shape shape;
  std::vector<Expr> map(from.size());
  for (int d = 0; d < int(from.size()); d++) {
    if (d == a || d == b) continue;
    map[size_t(d)] = axis_symbol(int(shape.size()), from[size_t(d)]);
    shape.push_back(from[size_t(d)]);
  }
  shape.push_back(larger(smaller(rows, columns), 0));
  const Expr i = axis_symbol(int(shape.size()) - 1, shape.back());
  map[size_t(a)] = i - std::min<int64_t>(offset, 0);
  map[size_t(b)] = i + std::max<int64_t>(offset, 0);
  return view_of("diagonal", *this, shape, map, where);
}

Tensor diag_embed(const Tensor& x, int64_t offset, int a, int b, Where where) {
  graph_of("diag_embed", {&x}, where);
  if (x.rank() < 1) throw Error("diag_embed", "a scalar has no axis to be put on a diagonal", where);
  const int rank = x.rank() + 1;
  a = axis_of("diag_embed", a, rank, where);
  b = axis_of("diag_embed", b, rank, where);
  if (a == b) throw Error("diag_embed", fmt::format("axis {} is named twice", a), where);
  const Shape from = type_of(x).shape;
  const Expr n = from.back() + (offset < 0 ? -offset : offset);
  Shape shape;
  std::vector<Expr> map;
  for (int d = 0, next = 0; d < rank; d++) {
    shape.push_back(d == a || d == b ? n : from[size_t(next++)]);
    if (d != a && d != b) map.push_back(axis_symbol(d, shape.back()));
  }
  const Expr i = axis_symbol(a, n), j = axis_symbol(b, n);
  map.push_back(offset >= 0 ? i : j);
  return view_of("diag_embed", x, shape, map, where, eq(j, i + offset));
}

Tensor diag(const Tensor& x, int64_t offset, Where where) {
  graph_of("diag", {&x}, where);
  if (x.rank() == 1) return diag_embed(x, offset, -2, -1, where);
  if (x.rank() == 2) return x.diagonal(offset, 0, 1, where);
  throw Error(
      "diag",
      fmt::format("{} has neither one nor two axes (see diagonal, diag_embed)", text_of(type_of(x).shape)),
      where);
}

Tensor trace(const Tensor& x, Where where) {
  graph_of("trace", {&x}, where);
  if (x.rank() != 2)
    throw Error(
        "trace",
        fmt::format("{} is not a matrix: two axes are needed (see diagonal)", text_of(type_of(x).shape)),
        where);
  Tensor line = x.diagonal(0, 0, 1, where);
  if (is_integer(line.dtype()) || line.dtype() == DType::boolean) line = line.cast(DType::i64, where);
  return line.sum({0}, false, where);
}

} // namespace luminal
