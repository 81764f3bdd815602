// tensor/linalg.cpp -- products of matrices and vectors that are made of matmul and einsum,
// distances.
#include "luminal/linalg.h"
#include "luminal/functions.h"
#include "luminal/graph.h"
#include "luminal/indexing.h"
#include "luminal/random.h"
#include "tensor/compose.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {
namespace {

/// beta x + alpha product, x broadcast to the product.
Tensor added(std::string_view op, const Tensor& x, const Tensor& product, double beta, double alpha,
             Where where) {
  graph_of(op, {&x, &product}, where);
  const DType type = promote(x.dtype(), product.dtype());
  Tensor result = alpha == 1 ? product : (product * alpha).cast(type, where);
  if (beta == 0) return result.cast(type, where);
  const Shape shape = broadcast_shape(op, type_of(x).shape, type_of(product).shape, where);
  if (shape.size() != type_of(product).shape.size())
    throw Error(op,
                fmt::format("x {} does not broadcast to {}", text_of(type_of(x).shape),
                            text_of(type_of(product).shape)),
                where);
  Tensor base = beta == 1 ? x : (x * beta).cast(type, where);
  return elementwise(Op::add, op, {Operand(base, where), Operand(result, where)}, where);
}

} // namespace

Tensor addmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha, Where where) {
  need_rank("addmm", a, 2, "a", where);
  need_rank("addmm", b, 2, "b", where);
  return added("addmm", x, a.matmul(b, where), beta, alpha, where);
}
Tensor addmv(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha, Where where) {
  return added("addmv", x, mv(a, b, where), beta, alpha, where);
}
Tensor addr(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha, Where where) {
  return added("addr", x, outer(a, b, where), beta, alpha, where);
}
Tensor baddbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha, Where where) {
  return added("baddbmm", x, bmm(a, b, where), beta, alpha, where);
}
Tensor addbmm(const Tensor& x, const Tensor& a, const Tensor& b, double beta, double alpha, Where where) {
  need_rank("addbmm", a, 3, "a", where);
  need_rank("addbmm", b, 3, "b", where);
  return added("addbmm", x, einsum("bnm,bmp->np", {a, b}, where), beta, alpha, where);
}

Tensor multi_dot(const std::vector<Tensor>& matrices, Where where) {
  if (matrices.size() < 2) throw Error("multi_dot", "at least two tensors are multiplied", where);
  Tensor product = matrices[0];
  for (size_t i = 1; i < matrices.size(); i++) product = product.matmul(matrices[i], where);
  return product;
}

Tensor matrix_power(const Tensor& x, int64_t power, Where where) {
  graph_of("matrix_power", {&x}, where);
  if (x.rank() < 2 || !proves_equal(type_of(x).shape.end()[-1], type_of(x).shape.end()[-2]))
    throw Error("matrix_power",
                fmt::format("x must be of square matrices, it is {}", text_of(type_of(x).shape)), where);
  if (power < 0)
    throw Error("matrix_power", fmt::format("the power is {}: it must not be negative", power), where);
  if (power == 0) {
    Graph graph(x.graph());
    return eye(graph, x.dim(-1), x.dim(-1), x.dtype(), where).expand(x.shape(), where);
  }
  Tensor result, base = x;
  for (; power > 0; power >>= 1) {
    if (power & 1) result = result.defined() ? result.matmul(base, where) : base;
    if (power > 1) base = base.matmul(base, where);
  }
  return result;
}

Tensor vecdot(const Tensor& a, const Tensor& b, int axis, Where where) {
  auto in = common_operands("vecdot", {Operand(a, where), Operand(b, where)}, Numbers::any, where);
  return (in[0] * in[1])
      .sum(axis_of("vecdot", axis, in[0].rank(), where), false, where)
      .cast(in[0].dtype(), where);
}

Tensor kron(const Tensor& a, const Tensor& b, Where where) {
  graph_of("kron", {&a, &b}, where);
  const int rank = std::max(a.rank(), b.rank());
  Tensor x = a, y = b;
  while (x.rank() < rank) x = x.unsqueeze(0, where);
  while (y.rank() < rank) y = y.unsqueeze(0, where);
  Dims shape;
  for (int d = 0; d < rank; d++) {
    shape.push_back(x.dim(2 * d) * y.dim(2 * d));
    x = x.unsqueeze(2 * d + 1, where);
    y = y.unsqueeze(2 * d, where);
  }
  return (x * y).reshape(shape, where);
}

Tensor cross(const Tensor& a, const Tensor& b, int axis, Where where) {
  auto in = common_operands("cross", {Operand(a, where), Operand(b, where)}, Numbers::any, where);
  axis = axis_of("cross", axis, in[0].rank(), where);
  if (!(in[0].dim(axis) == Dim(3)))
    throw Error("cross", fmt::format("axis {} of {} must be 3", axis, text_of(type_of(in[0]).shape)), where);
  const auto turned = [&](const Tensor& t, int by) { return t.roll(by, axis, where); };
  return turned(in[0], -1) * turned(in[1], -2) - turned(in[0], -2) * turned(in[1], -1);
}

Tensor vander(const Tensor& x, int64_t columns, bool increasing, Where where) {
  graph_of("vander", {&x}, where);
  need_rank("vander", x, 1, "x", where);
  if (columns < 0) throw Error("vander", fmt::format("{} columns", columns), where);
  Graph graph(x.graph());
  const Dim count = columns ? Dim(columns) : x.dim(0);
  Tensor powers = arange(graph, 0, count, 1, DType::i64, where);
  if (!increasing) powers = powers.flip(0, where);
  return pow(x.unsqueeze(1, where), is_float(x.dtype()) ? powers.cast(x.dtype(), where) : powers);
}

Tensor cdist(const Tensor& a, const Tensor& b, double p, Where where) {
  graph_of("cdist", {&a, &b}, where);
  if (a.rank() < 2 || b.rank() < 2 || !proves_equal(type_of(a).shape.back(), type_of(b).shape.back()))
    throw Error("cdist",
                fmt::format("rows [.., m, k] and [.., n, k] are compared, not {} and {}",
                            text_of(type_of(a).shape), text_of(type_of(b).shape)),
                where);
  Floats f("cdist", {Operand(a.unsqueeze(-2, where), where), Operand(b.unsqueeze(-3, where), where)}, where);
  return f.done((f[0] - f[1]).norm(p, -1, false, where));
}
Tensor pairwise_distance(const Tensor& a, const Tensor& b, double p, double eps, bool keep_dims,
                         Where where) {
  Floats f("pairwise_distance", {Operand(a, where), Operand(b, where)}, where);
  return f.done((f[0] - f[1] + eps).norm(p, -1, keep_dims, where));
}

Tensor block_diag(const std::vector<Tensor>& matrices, Where where) {
  if (matrices.empty()) throw Error("block_diag", "no tensors are given", where);
  Dim width = 0;
  std::vector<Tensor> rows;
  for (const Tensor& t : matrices) {
    graph_of("block_diag", {&matrices[0], &t}, where);
    if (t.rank() > 2)
      throw Error("block_diag", fmt::format("a tensor must be a matrix, it is {}", text_of(type_of(t).shape)),
                  where);
    rows.push_back(t.rank() == 2 ? t : t.reshape({1, -1}, where));
    width = width + rows.back().dim(1);
  }
  Dim before = 0;
  for (Tensor& row : rows) {
    const Dim own = row.dim(1);
    row = row.pad(1, before, width - before - own, 0, where);
    before = before + own;
  }
  return concat(rows, 0, where);
}

} // namespace luminal
