// tensor/reduce.cpp -- folds, scans, products, norms: each composed from primitives.
#include "tensor/graph_state.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {
namespace {

std::vector<int> checked_axes(std::string_view op, std::vector<int> axes, int rank, Where where) {
  for (int& axis : axes) axis = axis_of(op, axis, rank, where);
  std::sort(axes.begin(), axes.end());
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    throw Error(op, "an axis is named twice", where);
  return axes;
}

Tensor restore_dims(std::string_view op, const Tensor& reduced, const Shape& full,
                    const std::vector<int>& axes, Where where) {
  Shape shape;
  std::vector<Expr> map;
  for (size_t d = 0; d < full.size(); d++) {
    bool gone = std::find(axes.begin(), axes.end(), int(d)) != axes.end();
    shape.push_back(gone ? Expr(1) : full[d]);
    if (!gone) map.push_back(axis_symbol(int(d), full[d]));
  }
  return build(op, reduced.graph(), where,
               [&](FunctionBuilder& b) { return b.view(reduced.id(), shape, map); });
}

DType accumulator(DType type) { return is_float(type) && bits(type) < 32 ? DType::f32 : type; }

Tensor element_count_of(const Tensor& x, const std::vector<int>& axes, DType dtype, Where where) {
  Expr n = 1;
  for (int axis : axes) n *= type_of(x).shape[size_t(axis)];
  return build("mean", x.graph(), where, [&](FunctionBuilder& b) {
    return n.is_constant() ? b.constant(dtype, double(n.value())) : b.cast(b.iota({}, n, DType::i64), dtype);
  });
}

} // namespace

Tensor fold(Op op, std::string_view name, const Tensor& x, std::vector<int> axes, bool keep_dims,
            Where where) {
  auto graph = graph_of(name, {&x}, where);
  const TensorType type = type_of(x);
  axes = checked_axes(name, axes, int(type.shape.size()), where);
  DType sum_type = accumulator(
      type.dtype == DType::boolean && op != Op::bit_or && op != Op::bit_and ? DType::i64 : type.dtype);
  Tensor wide = x.cast(sum_type, where);
  Tensor result = axes.empty() ? wide : build(name, graph, where, [&](FunctionBuilder& b) {
    return b.reduce(op, wide.id(), axes);
  });
  if (keep_dims) result = restore_dims(name, result, type.shape, axes, where);
  return is_float(type.dtype) ? result.cast(type.dtype, where) : result;
}

Tensor Tensor::sum(std::vector<int> axes, bool keep_dims, Where where) const {
  return fold(Op::add, "sum", *this, axes, keep_dims, where);
}
Tensor Tensor::max(std::vector<int> axes, bool keep_dims, Where where) const {
  return fold(Op::max, "max", *this, axes, keep_dims, where);
}
Tensor Tensor::min(std::vector<int> axes, bool keep_dims, Where where) const {
  return fold(Op::min, "min", *this, axes, keep_dims, where);
}
Tensor Tensor::prod(std::vector<int> axes, bool keep_dims, Where where) const {
  return fold(Op::mul, "prod", *this, axes, keep_dims, where);
}

Tensor Tensor::mean(std::vector<int> axes, bool keep_dims, Where where) const {
  graph_of("mean", {this}, where);
  Tensor x = is_float(dtype()) ? *this : cast(DType::f32, where);
  axes = checked_axes("mean", axes, rank(), where);
  DType wide = accumulator(x.dtype());
  Tensor total = fold(Op::add, "mean", x.cast(wide, where), axes, keep_dims, where);
  Tensor count = element_count_of(x, axes, wide, where);
  return elementwise(Op::div, "mean", {Operand(total, where), Operand(count, where)}, where)
      .cast(x.dtype(), where);
}

Tensor Tensor::argmax(int axis, Where where) const {
  auto graph = graph_of("argmax", {this}, where);
  const TensorType type = type_of(*this);
  axis = axis_of("argmax", axis, int(type.shape.size()), where);
  return build("argmax", graph, where, [&](FunctionBuilder& b) {
    NodeId keys = type.dtype == DType::boolean ? b.cast(id_, DType::u8) : id_;
    DType key_type = b[keys].type().dtype;
    NodeId index = b.iota({type.shape[size_t(axis)]}, axis_symbol(0, type.shape[size_t(axis)]), DType::i64);
    // The place of the greatest so far moves on only while it stays the greatest; NaN is the greatest of all.
    const char* keep = is_float(key_type)
                           ? "select(bit_or(old0 == new0, is_nan(old0)), self, 4611686018427387904)"
                           : "select(old0 == new0, self, 4611686018427387904)";
    FoldAttr attr;
    attr.monoid = Monoid::intern({{Op::max, key_type, Scalar::leaf(0)},
                                  {Op::min, DType::i64, parse_scalar(keep, monoid_leaf_names(1))}});
    attr.space = type.shape;
    attr.reduced = {axis};
    std::vector<int> all;
    for (size_t d = 0; d < type.shape.size(); d++) all.push_back(int(d));
    attr.body_axes = {all, {axis}};
    return b.get(b.add(attr, {keys, index}, {}, where), 1);
  });
}

Tensor Tensor::softmax(int axis, Where where) const {
  Tensor shifted = elementwise(Op::sub, "softmax",
                               {Operand(*this, where), Operand(max({axis}, true, where), where)}, where);
  Tensor e = shifted.exp(where);
  // One division a row.
  Tensor scale = e.sum({axis}, true, where).recip(where);
  return elementwise(Op::mul, "softmax", {Operand(e, where), Operand(scale, where)}, where);
}

Tensor Tensor::log_softmax(int axis, Where where) const {
  Tensor shifted = elementwise(Op::sub, "log_softmax",
                               {Operand(*this, where), Operand(max({axis}, true, where), where)}, where);
  Tensor log_sum = shifted.exp(where).sum({axis}, true, where).log(where);
  return elementwise(Op::sub, "log_softmax", {Operand(shifted, where), Operand(log_sum, where)}, where);
}

Tensor Tensor::layer_norm(std::vector<int> axes, double eps, Where where) const {
  Tensor centred = elementwise(Op::sub, "layer_norm",
                               {Operand(*this, where), Operand(mean(axes, true, where), where)}, where);
  Tensor variance = centred.square(where).mean(axes, true, where);
  Tensor scale =
      elementwise(Op::add, "layer_norm", {Operand(variance, where), Operand(eps, where)}, where).rsqrt(where);
  return elementwise(Op::mul, "layer_norm", {Operand(centred, where), Operand(scale, where)}, where);
}

Tensor Tensor::rms_norm(double eps, Where where) const {
  Tensor power = square(where).mean({-1}, true, where);
  Tensor scale =
      elementwise(Op::add, "rms_norm", {Operand(power, where), Operand(eps, where)}, where).rsqrt(where);
  return elementwise(Op::mul, "rms_norm", {Operand(*this, where), Operand(scale, where)}, where);
}

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
