// tensor/reduce.cpp -- folds over axes, and what is made of them.
#include "luminal/functions.h"
#include "tensor/compose.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <numeric>

namespace luminal {
namespace {

std::vector<int> checked_axes(std::string_view op, std::vector<int> axes, int rank, Where where) {
  for (int& axis : axes) axis = axis_of(op, axis, rank, where);
  std::sort(axes.begin(), axes.end());
  if (auto twice = std::adjacent_find(axes.begin(), axes.end()); twice != axes.end())
    throw Error(op, fmt::format("axis {} is named twice", *twice), where);
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
               [&](FunctionBuilder& b) { return b.view(node_id(reduced), shape, map); });
}

/// How many elements the axes have together.
Expr count_of(const Tensor& x, const std::vector<int>& axes) {
  Expr n = 1;
  for (int axis : axes) n *= type_of(x).shape[size_t(axis)];
  return n;
}
Tensor scalar_of(Expr value, const Tensor& like, Where where) {
  return number_like(Operand(Dim::from_id(value.id())), like.graph(), like.dtype(), {}, where);
}

Tensor mean_of(std::string_view op, const Tensor& x, const std::vector<int>& axes, bool keep_dims,
               Where where) {
  return fold(Op::add, op, x, axes, keep_dims, where) / scalar_of(count_of(x, axes), x, where);
}

struct Moments {
  Tensor mean, var;
};
/// In two passes: the second sums squares of distances, which loses nothing.
Moments moments(std::string_view op, const Tensor& x, const std::vector<int>& axes, double correction,
                bool keep_dims, Where where) {
  Tensor mean = mean_of(op, x, axes, true, where), distance = x - mean;
  Tensor squares = fold(Op::add, op, distance * distance, axes, keep_dims, where);
  Tensor count = scalar_of(count_of(x, axes), x, where);
  Tensor divisor = correction == 0 ? count : maximum(count - correction, 0);
  if (!keep_dims && !axes.empty()) mean = mean_of(op, x, axes, false, where);
  return {mean, squares / divisor};
}

Tensor arg_best(Op best, std::string_view op, const Tensor& given, std::optional<int> axis, bool keep_dims,
                Where where) {
  auto graph = graph_of(op, {&given}, where);
  Tensor x = given;
  Dims kept(size_t(given.rank()), 1);
  if (axis) {
    axis = axis_of(op, *axis, given.rank(), where);
    kept = given.shape();
    kept[size_t(*axis)] = 1;
  } else {
    Dim count = 1;
    for (Dim d : given.shape()) count = count * d;
    x = given.reshape({count}, where);
    axis = 0;
  }
  const TensorType type = type_of(x);
  Tensor place = build(op, graph, where, [&](FunctionBuilder& b) {
    NodeId keys = type.dtype == DType::boolean ? b.cast(node_id(x), DType::u8) : node_id(x);
    DType key_type = b[keys].type().dtype;
    const Expr extent = type.shape[size_t(*axis)];
    NodeId index = b.iota({extent}, axis_symbol(0, extent), DType::i64);
    // The place of the best so far moves on only while it stays the best; NaN is better than all.
    const char* keep = is_float(key_type) ? "select(bit_or(old0 == new0, is_nan(old0)), self, inf)"
                                          : "select(old0 == new0, self, inf)";
    FoldAttr attr;
    attr.monoid = Monoid::intern(
        {{best, key_type, Scalar::leaf(0)}, {Op::min, DType::i64, parse_scalar(keep, monoid_leaf_names(1))}});
    attr.space = type.shape;
    attr.reduced = {*axis};
    std::vector<int> every(type.shape.size());
    std::iota(every.begin(), every.end(), 0);
    attr.body_axes = {every, {*axis}};
    return b.get(b.add(attr, {keys, index}, {}, where), 1);
  });
  return keep_dims ? place.reshape(kept, where) : place;
}

} // namespace

std::vector<int> axes_of(std::string_view op, const Axes& axes, int rank, Where where) {
  if (!axes.list.empty()) return checked_axes(op, axes.list, rank, where);
  std::vector<int> every(static_cast<size_t>(rank));
  std::iota(every.begin(), every.end(), 0);
  return every;
}

Tensor fold(Op op, std::string_view name, const Tensor& x, std::vector<int> axes, bool keep_dims,
            Where where) {
  auto graph = graph_of(name, {&x}, where);
  const TensorType type = type_of(x);
  axes = checked_axes(name, axes, int(type.shape.size()), where);
  const bool grows = op == Op::add || op == Op::mul;
  const DType wide =
      type.dtype == DType::boolean ? grows ? DType::i64 : DType::boolean : accumulator(type.dtype);
  if (type.dtype == DType::boolean && !grows)
    op = op == Op::max ? Op::bit_or : op == Op::min ? Op::bit_and : op;
  Tensor result = x.cast(wide, where);
  if (!axes.empty())
    result = build(name, graph, where, [&](FunctionBuilder& b) {
      const NodeId made = b.reduce(op, node_id(result), axes);
      b.origin(b[made].kind == NodeKind::get ? b[made].inputs[0] : made,
               fmt::format("{}{}", name, maker_text(*graph, where)));
      return made;
    });
  if (keep_dims) result = restore_dims(name, result, type.shape, axes, where);
  return is_float(type.dtype) ? result.cast(type.dtype, where) : result;
}

namespace {
Tensor summed(Op op, std::string_view name, const Tensor& x, const Axes& axes, bool keep_dims, Where where) {
  graph_of(name, {&x}, where);
  const DType type = x.dtype();
  const bool counts = !is_float(type) && type != DType::u64;
  return fold(op, name, counts ? x.cast(DType::i64, where) : x, axes_of(name, axes, x.rank(), where),
              keep_dims, where);
}
Tensor truth(Op op, std::string_view name, const Tensor& x, const Axes& axes, bool keep_dims, Where where) {
  graph_of(name, {&x}, where);
  Tensor flags = x.dtype() == DType::boolean ? x : not_equal(x, 0);
  return fold(op, name, flags, axes_of(name, axes, x.rank(), where), keep_dims, where);
}
} // namespace

Tensor Tensor::sum(const Axes& axes, bool keep_dims, Where where) const {
  return summed(Op::add, "sum", *this, axes, keep_dims, where);
}
Tensor Tensor::prod(const Axes& axes, bool keep_dims, Where where) const {
  return summed(Op::mul, "prod", *this, axes, keep_dims, where);
}
Tensor Tensor::max(const Axes& axes, bool keep_dims, Where where) const {
  graph_of("max", {this}, where);
  return fold(Op::max, "max", *this, axes_of("max", axes, rank(), where), keep_dims, where);
}
Tensor Tensor::min(const Axes& axes, bool keep_dims, Where where) const {
  graph_of("min", {this}, where);
  return fold(Op::min, "min", *this, axes_of("min", axes, rank(), where), keep_dims, where);
}
Tensor Tensor::all(const Axes& axes, bool keep_dims, Where where) const {
  return truth(Op::bit_and, "all", *this, axes, keep_dims, where);
}
Tensor Tensor::any(const Axes& axes, bool keep_dims, Where where) const {
  return truth(Op::bit_or, "any", *this, axes, keep_dims, where);
}
Tensor Tensor::count_nonzero(const Axes& axes, bool keep_dims, Where where) const {
  graph_of("count_nonzero", {this}, where);
  return fold(Op::add, "count_nonzero", not_equal(*this, 0), axes_of("count_nonzero", axes, rank(), where),
              keep_dims, where);
}

Tensor Tensor::mean(const Axes& axes, bool keep_dims, Where where) const {
  Floats f("mean", {Operand(*this, where)}, where);
  return f.done(mean_of("mean", f[0], axes_of("mean", axes, rank(), where), keep_dims, where));
}
Tensor Tensor::var(const Axes& axes, double correction, bool keep_dims, Where where) const {
  Floats f("var", {Operand(*this, where)}, where);
  return f.done(moments("var", f[0], axes_of("var", axes, rank(), where), correction, keep_dims, where).var);
}
Tensor Tensor::std(const Axes& axes, double correction, bool keep_dims, Where where) const {
  Floats f("std", {Operand(*this, where)}, where);
  return f.done(
      root(moments("std", f[0], axes_of("std", axes, rank(), where), correction, keep_dims, where).var));
}
VarMean var_mean(const Tensor& x, const Axes& axes, double correction, bool keep_dims, Where where) {
  Floats f("var_mean", {Operand(x, where)}, where);
  Moments m =
      moments("var_mean", f[0], axes_of("var_mean", axes, x.rank(), where), correction, keep_dims, where);
  return {f.done(m.var), f.done(m.mean)};
}

Tensor Tensor::logsumexp(const Axes& axes, bool keep_dims, Where where) const {
  Floats f("logsumexp", {Operand(*this, where)}, where);
  const std::vector<int> list = axes_of("logsumexp", axes, rank(), where);
  // An infinite maximum would make NaN of the differences.
  const auto finite = [](const Tensor& m) { return luminal::select(m.isinf(), 0.0, m); };
  Tensor shift = finite(fold(Op::max, "logsumexp", f[0], list, true, where));
  Tensor total = fold(Op::add, "logsumexp", (f[0] - shift).exp(), list, keep_dims, where);
  if (!keep_dims) shift = finite(fold(Op::max, "logsumexp", f[0], list, false, where));
  return f.done(total.log() + shift);
}

Tensor Tensor::norm(double p, const Axes& axes, bool keep_dims, Where where) const {
  Floats f("norm", {Operand(*this, where)}, where);
  const std::vector<int> list = axes_of("norm", axes, rank(), where);
  const auto over = [&](Op op, const Tensor& values) {
    return fold(op, "norm", values, list, keep_dims, where);
  };
  if (std::isnan(p)) throw Error("norm", "the order is NaN", where);
  if (p == 0) return f.done(over(Op::add, not_equal(f[0], 0).cast(f[0].dtype())));
  if (p == 2) return f.done(root(over(Op::add, f[0] * f[0])));
  Tensor size = f[0].abs();
  if (p == 1) return f.done(over(Op::add, size));
  if (std::isinf(p)) return f.done(over(p > 0 ? Op::max : Op::min, size));
  if (p < 0) { // 0 where an element is, and then without a gradient
    const Tensor some = equal(over(Op::min, size), 0);
    const Tensor sum = over(Op::add, luminal::pow(luminal::select(equal(size, 0), 1, size), p));
    return f.done(luminal::select(some, 0, luminal::pow(sum, 1 / p)));
  }
  // As with the square root: no gradient at 0, of all of it and, where powers are steep there, of elements.
  const auto power = [](const Tensor& x, double exponent) {
    if (exponent >= 1) return luminal::pow(x, exponent);
    const Tensor zero = equal(x, 0);
    return luminal::select(zero, 0, luminal::pow(luminal::select(zero, 1, x), exponent));
  };
  return f.done(power(over(Op::add, power(size, p)), 1 / p));
}

Tensor Tensor::argmax(std::optional<int> axis, bool keep_dims, Where where) const {
  return arg_best(Op::max, "argmax", *this, axis, keep_dims, where);
}
Tensor Tensor::argmin(std::optional<int> axis, bool keep_dims, Where where) const {
  return arg_best(Op::min, "argmin", *this, axis, keep_dims, where);
}

Tensor Tensor::softmax(int axis, Where where) const {
  Floats f("softmax", {Operand(*this, where)}, where);
  axis = axis_of("softmax", axis, rank(), where);
  Tensor e = (f[0] - fold(Op::max, "softmax", f[0], {axis}, true, where)).exp();
  // One division a row.
  return f.done(e * fold(Op::add, "softmax", e, {axis}, true, where).recip());
}

Tensor Tensor::log_softmax(int axis, Where where) const {
  Floats f("log_softmax", {Operand(*this, where)}, where);
  axis = axis_of("log_softmax", axis, rank(), where);
  Tensor shifted = f[0] - fold(Op::max, "log_softmax", f[0], {axis}, true, where);
  return f.done(shifted - fold(Op::add, "log_softmax", shifted.exp(), {axis}, true, where).log());
}

namespace {
Tensor centred(std::string_view op, const Tensor& x, const std::vector<int>& axes, Where where) {
  return x - mean_of(op, x, axes, true, where);
}
Tensor scaled(std::string_view op, const Tensor& x, const std::vector<int>& axes, double eps, Where where) {
  return x * (mean_of(op, x * x, axes, true, where) + eps).rsqrt();
}
} // namespace

Tensor Tensor::mean_norm(const Axes& axes, Where where) const {
  Floats f("mean_norm", {Operand(*this, where)}, where);
  return f.done(centred("mean_norm", f[0], axes_of("mean_norm", axes, rank(), where), where));
}
Tensor Tensor::std_norm(const Axes& axes, double eps, Where where) const {
  Floats f("std_norm", {Operand(*this, where)}, where);
  return f.done(scaled("std_norm", f[0], axes_of("std_norm", axes, rank(), where), eps, where));
}
Tensor Tensor::layer_norm(const Axes& axes, double eps, Where where) const {
  Floats f("layer_norm", {Operand(*this, where)}, where);
  const std::vector<int> list = axes_of("layer_norm", axes, rank(), where);
  return f.done(scaled("layer_norm", centred("layer_norm", f[0], list, where), list, eps, where));
}
Tensor Tensor::rms_norm(double eps, Where where) const {
  Floats f("rms_norm", {Operand(*this, where)}, where);
  return f.done(scaled("rms_norm", f[0], axes_of("rms_norm", -1, rank(), where), eps, where));
}
Tensor Tensor::normalize(double p, const Axes& axes, double eps, Where where) const {
  Floats f("normalize", {Operand(*this, where)}, where);
  return f.done(f[0] / maximum(f[0].norm(p, axes_of("normalize", axes, rank(), where), true, where), eps));
}

} // namespace luminal
