// tensor/statistics.cpp -- quantiles, the most frequent value, sums without NaN, covariances.
#include "luminal/statistics.h"
#include "luminal/functions.h"
#include "luminal/indexing.h"
#include "tensor/compose.h"
#include "tensor/views.h"
#include <cmath>

namespace luminal {
namespace {

/// The axis, or the flattened tensor.
Tensor along(std::string_view op, const Tensor& x, std::optional<int> axis, int& at, Where where) {
  graph_of(op, {&x}, where);
  if (!axis || x.rank() == 0) {
    at = axis_of(op, axis.value_or(0), 1, where);
    return x.rank() == 1 ? x : x.reshape({-1}, where);
  }
  at = axis_of(op, *axis, x.rank(), where);
  return x;
}
void need_elements(std::string_view op, const Tensor& x, int axis, Where where) {
  const Expr extent = type_of(x).shape[size_t(axis)];
  if (prove(ge(extent, 1)) == Truth::no)
    throw Error(op, fmt::format("axis {} of {} has no elements", axis, text_of(type_of(x).shape)), where);
  assume(*x.graph(), ge(extent, 1), on_axis(op, x, axis), where);
}

/// [number of q] + the shape of x with the axis of extent 1, or without it.
Tensor quantiles(const Tensor& given, const std::vector<double>& q, std::optional<int> axis, bool keep_dims,
                 Quantile between, Where where) {
  constexpr std::string_view op = "quantile";
  int at = 0;
  Tensor x = along(op, given, axis, at, where);
  if (!is_float(x.dtype()))
    throw Error(op, fmt::format("x must be of a float type, it is {}", to_string(x.dtype())), where);
  for (double each : q)
    if (!(each >= 0 && each <= 1)) throw Error(op, fmt::format("q must lie in 0..1, it is {}", each), where);
  need_elements(op, x, at, where);
  const Dim extent = x.dim(at);
  Floats f(op, {Operand(x, where)}, where);
  Tensor sorted = f[0].sort(at, false, where).values.movedim({at}, {-1}, where);
  Tensor broken = f[0].isnan(where).any(at, true, where).movedim({at}, {-1}, where);
  // Places between 0 and n - 1, in the type of x as PyTorch computes them.
  Tensor place = build(op, x.graph(), where,
                       [&](FunctionBuilder& b) {
                         std::vector<std::byte> bytes(size_t(storage_bytes(f[0].dtype(), int64_t(q.size()))));
                         for (size_t i = 0; i < q.size(); i++)
                           store_f64(f[0].dtype(), bytes.data(), int64_t(i), q[i]);
                         return b.constant(TensorType{f[0].dtype(), {int64_t(q.size())}}, std::move(bytes));
                       }) *
                 Operand(extent - 1, where);
  if (between == Quantile::lower) place = place.floor(where);
  if (between == Quantile::higher) place = place.ceil(where);
  if (between == Quantile::nearest) place = place.round(where);
  Dims shape = sorted.shape();
  shape.back() = int64_t(q.size());
  const auto element = [&](const Tensor& place_of) {
    return sorted.gather(-1, place_of.cast(DType::i64, where).expand(shape, where), where);
  };
  Tensor low = place.floor(where), value = element(low);
  if (between == Quantile::midpoint)
    value = lerp(value, element(place.ceil(where)), 0.5, where);
  else if (between == Quantile::linear)
    value = lerp(value, element(place.ceil(where)), place - low, where);
  value = luminal::select(broken, NAN, value);
  value = value.movedim({-1}, {0}, where); // [q, others..]
  if (keep_dims && given.rank() > 0) {
    if (axis)
      value = value.unsqueeze(at + 1, where);
    else
      for (int d = 0; d < given.rank(); d++) value = value.unsqueeze(1, where);
  }
  return f.done(value);
}

/// Centred rows and the divisor.
Tensor covariance(std::string_view op, const Tensor& x, double correction, Where where) {
  graph_of(op, {&x}, where);
  if (x.rank() > 2)
    throw Error(op, fmt::format("x must have one or two axes, it is {}", text_of(type_of(x).shape)), where);
  Floats f(op, {Operand(x.rank() == 0 ? x.reshape({1}, where) : x, where)}, where);
  Tensor rows = f[0].rank() == 1 ? f[0].unsqueeze(0, where) : f[0];
  Tensor centred = rows - rows.mean(-1, true, where);
  Tensor count = number_like(Operand(rows.dim(-1), where), x.graph(), rows.dtype(), {}, where);
  Tensor products = centred.matmul(centred.transpose(0, 1, where), where) / maximum(count - correction, 0);
  return f.done(f[0].rank() == 1 ? products.reshape({}, where) : products);
}

} // namespace

Tensor quantile(const Tensor& x, double q, std::optional<int> axis, bool keep_dims, Quantile between,
                Where where) {
  return quantiles(x, {q}, axis, keep_dims, between, where).squeeze(0, where);
}
Tensor quantile(const Tensor& x, const std::vector<double>& q, std::optional<int> axis, bool keep_dims,
                Quantile between, Where where) {
  return quantiles(x, q, axis, keep_dims, between, where);
}

Indexed mode(const Tensor& given, int axis, bool keep_dims, Where where) {
  constexpr std::string_view op = "mode";
  int at = 0;
  Tensor x = along(op, given, axis, at, where);
  need_elements(op, x, at, where);
  const Indexed sorted = x.sort(at, false, where);
  const Shape shape = type_of(x).shape;
  // How long the run of equal ones is up to each place: the longest one's last element is the most
  // frequent value.
  const Expr i = axis_symbol(at, shape[size_t(at)]);
  std::vector<Expr> map = identity_map(shape);
  map[size_t(at)] = larger(i - 1, 0);
  Tensor before = view_of(op, sorted.values, shape, map, where);
  Tensor places =
      build(op, x.graph(), where, [&](FunctionBuilder& b) { return b.iota(shape, i, DType::i64); });
  Tensor begins = luminal::select(not_equal(before, sorted.values), places, 0);
  Tensor last = (places - begins.cummax(at, where).values).argmax(at, true, where);
  Indexed result{sorted.values.gather(at, last, where), sorted.indices.gather(at, last, where)};
  if (!keep_dims || given.rank() == 0)
    result = {result.values.squeeze(at, where), result.indices.squeeze(at, where)};
  return result;
}

Tensor nansum(const Tensor& x, const Axes& axes, bool keep_dims, Where where) {
  graph_of("nansum", {&x}, where);
  return luminal::select(x.isnan(where), 0, x).sum(axes, keep_dims, where);
}
Tensor nanmean(const Tensor& x, const Axes& axes, bool keep_dims, Where where) {
  Floats f("nanmean", {Operand(x, where)}, where);
  Tensor count = (!f[0].isnan(where)).sum(axes, keep_dims, where);
  return f.done(nansum(f[0], axes, keep_dims, where) / count.cast(f[0].dtype(), where));
}

MinMax aminmax(const Tensor& x, const Axes& axes, bool keep_dims, Where where) {
  return {x.min(axes, keep_dims, where), x.max(axes, keep_dims, where)};
}
StdMean std_mean(const Tensor& x, const Axes& axes, double correction, bool keep_dims, Where where) {
  VarMean both = var_mean(x, axes, correction, keep_dims, where);
  return {root(both.var), both.mean};
}

Tensor cov(const Tensor& x, double correction, Where where) {
  return covariance("cov", x, correction, where);
}
Tensor corrcoef(const Tensor& x, Where where) {
  Tensor c = covariance("corrcoef", x, 1, where);
  if (c.rank() == 0) return c / c;
  Tensor deviation = c.diagonal(0, 0, 1, where).sqrt(where);
  return clip(c / deviation.unsqueeze(1, where) / deviation.unsqueeze(0, where), -1, 1, where);
}

Tensor trapezoid(const Tensor& y, double dx, int axis, Where where) {
  Floats f("trapezoid", {Operand(y, where)}, where);
  axis = axis_of("trapezoid", axis, y.rank(), where);
  need_elements("trapezoid", y, axis, where);
  const Dim n = y.dim(axis);
  Tensor pairs = f[0].slice(axis, 1, n, 1, where) + f[0].slice(axis, 0, n - 1, 1, where);
  return f.done(pairs.sum(axis, false, where) * (dx / 2));
}

} // namespace luminal
