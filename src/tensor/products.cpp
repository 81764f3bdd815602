// tensor/products.cpp -- products that sum over shared axes: each is one fold over the space of all axes.
#include "luminal/functions.h"
#include "tensor/compose.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {

Tensor Tensor::matmul(const Tensor& other, Where where) const {
  auto graph = graph_of("matmul", {this, &other}, where);
  Tensor a = rank() == 1 ? unsqueeze(0, where) : *this,
         b = other.rank() == 1 ? other.unsqueeze(1, where) : other;
  if (rank() == 0 || other.rank() == 0)
    throw Error("matmul", "a scalar has no axis to multiply along", where);
  const Shape x = type_of(a).shape, y = type_of(b).shape;
  const Expr m = x[x.size() - 2], k = x.back(), n = y.back();
  if (!proves_equal(k, y[y.size() - 2]))
    throw Error("matmul",
                fmt::format("inner sizes differ: {} x {} ({} != {})", text_of(type_of(*this).shape),
                            text_of(type_of(other).shape), to_string(k), to_string(y[y.size() - 2])),
                where);
  Shape batch =
      broadcast_shape("matmul", Shape(x.begin(), x.end() - 2), Shape(y.begin(), y.end() - 2), where);
  DType type = promote(a.dtype(), b.dtype()), wide = accumulator(type == DType::boolean ? DType::i64 : type);
  Tensor result = build("matmul", graph, where, [&](FunctionBuilder& f) {
    Shape space = batch;
    space.insert(space.end(), {m, n, k});
    const int outer = int(batch.size());
    std::vector<std::string> names;
    for (int d = 0; d < outer; d++) names.push_back(outer == 1 ? "b" : fmt::format("b{}", d));
    names.insert(names.end(), {"m", "n", "k"});
    auto operand = [&](const Tensor& t, const Shape& shape, int row, int column) {
      std::vector<Expr> map;
      const int skip = outer - (int(shape.size()) - 2);
      for (int d = skip; d < outer; d++)
        map.push_back(shape[size_t(d - skip)].is_constant(1) ? Expr(0) : axis_symbol(d, space[size_t(d)]));
      map.push_back(axis_symbol(row, space[size_t(row)]));
      map.push_back(axis_symbol(column, space[size_t(column)]));
      NodeId view = f.view(t.id(), space, map, 1, 0, names);
      return f[view].type().dtype == wide ? view : f.cast(view, wide);
    };
    NodeId product =
        f.map(Op::mul, {operand(a, x, outer, outer + 2), operand(b, y, outer + 2, outer + 1)}, where);
    FoldAttr fold;
    fold.monoid = Monoid::plain(Op::add, wide);
    fold.space = space;
    fold.reduced = {outer + 2};
    fold.body_axes.emplace_back();
    for (int d = 0; d < outer + 3; d++) fold.body_axes[0].push_back(d);
    NodeId value = f.get(f.add(fold, {product}, names, where), 0);
    return is_float(type) && wide != type ? f.cast(value, type) : value;
  });
  if (rank() == 1) result = result.squeeze(other.rank() == 1 ? -2 : int(result.rank()) - 2, where);
  if (other.rank() == 1) result = result.squeeze(-1, where);
  return result;
}

} // namespace luminal
