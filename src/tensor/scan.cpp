// tensor/scan.cpp -- every prefix along an axis: sums, products, extremes and their places,
// log-sums; differences.
#include "luminal/indexing.h"
#include "tensor/views.h"
#include <algorithm>

namespace luminal {
namespace {

/// Narrow floats accumulate in f32 and are rounded at the end; integers count in 64 bits.
DType scan_accumulator(DType type) {
  if (is_float(type)) return bits(type) < 32 ? DType::f32 : type;
  return type == DType::u64 ? type : DType::i64;
}

/// The results of a scan over `axis`; the bodies are tensors of x's shape, or of its one axis.
std::vector<Tensor> scan(std::string_view op, const Shape& space, int axis, Monoid monoid,
                         const std::vector<Tensor>& bodies, ScanOptions options, Where where) {
  const auto graph = bodies[0].graph();
  std::vector<Tensor> results;
  if (is_empty(space)) {
    for (const Tensor& body : bodies) results.push_back(number_of(op, graph, body.dtype(), 0, space, where));
    return results;
  }
  const Tensor tuple = build(op, graph, where, [&](FunctionBuilder& b) {
    ScanAttr attr;
    attr.monoid = monoid;
    attr.space = space;
    attr.axis = axis;
    attr.exclusive = options.exclusive;
    attr.reverse = options.reverse;
    std::vector<int> all;
    for (size_t d = 0; d < space.size(); d++) all.push_back(int(d));
    std::vector<NodeId> inputs;
    for (const Tensor& body : bodies) {
      attr.body_axes.push_back(body.rank() == 1 && space.size() > 1 ? std::vector<int>{axis} : all);
      inputs.push_back(node_id(body));
    }
    return b.add(std::move(attr), std::move(inputs), {}, where);
  });
  for (int c = 0; c < monoid.size(); c++)
    results.push_back(build(op, graph, where, [&](FunctionBuilder& b) { return b.get(node_id(tuple), c); }));
  return results;
}

/// A scan of one component. A scalar counts as one element along axis 0 or -1, as in PyTorch.
Tensor plain_scan(Op op, std::string_view name, const Tensor& x, int axis, DType type, ScanOptions options,
                  Where where) {
  graph_of(name, {&x}, where);
  if (x.rank() == 0) {
    axis_of(name, axis, 1, where);
    return plain_scan(op, name, x.reshape({1}, where), 0, type, options, where).reshape({}, where);
  }
  axis = axis_of(name, axis, x.rank(), where);
  return scan(name, type_of(x).shape, axis, Monoid::plain(op, type), {x.cast(type, where)}, options,
              where)[0];
}

Tensor iota_of(std::string_view op, const Tensor& x, int axis, Where where) {
  const Expr extent = type_of(x).shape[size_t(axis)];
  return build(op, x.graph(), where,
               [&](FunctionBuilder& b) { return b.iota({extent}, axis_symbol(0, extent), DType::i64); });
}

Indexed extreme_scan(Op op, std::string_view name, const Tensor& x, int axis, Where where) {
  graph_of(name, {&x}, where);
  if (x.rank() == 0) {
    axis_of(name, axis, 1, where);
    Indexed one = extreme_scan(op, name, x.reshape({1}, where), 0, where);
    return {one.values.reshape({}, where), one.indices.reshape({}, where)};
  }
  axis = axis_of(name, axis, x.rank(), where);
  Tensor keys = x.dtype() == DType::boolean ? x.cast(DType::u8, where) : x;
  const DType type = keys.dtype();
  // The place moves on to each element that is as extreme as the one before; NaN is the most
  // extreme, and stays.
  const char* keep = is_float(type) ? "select(bit_or(old0 == new0, is_nan(old0)), self, -1)"
                                    : "select(old0 == new0, self, -1)";
  Monoid monoid = Monoid::intern(
      {{op, type, Scalar::leaf(0)}, {Op::max, DType::i64, parse_scalar(keep, monoid_leaf_names(1))}});
  auto results = scan(name, type_of(x).shape, axis, monoid, {keys, iota_of(name, x, axis, where)}, {}, where);
  return {results[0].cast(x.dtype(), where), results[1]};
}

} // namespace

Tensor cumsum(const Tensor& x, int axis, ScanOptions options, Where where) {
  graph_of("cumsum", {&x}, where);
  const DType type = x.dtype();
  Tensor result = plain_scan(Op::add, "cumsum", x, axis, scan_accumulator(type), options, where);
  return is_float(type) ? result.cast(type, where) : result;
}
Tensor cumprod(const Tensor& x, int axis, ScanOptions options, Where where) {
  graph_of("cumprod", {&x}, where);
  const DType type = x.dtype();
  Tensor result = plain_scan(Op::mul, "cumprod", x, axis, scan_accumulator(type), options, where);
  return is_float(type) ? result.cast(type, where) : result;
}
Tensor Tensor::cumsum(int axis, Where where) const { return luminal::cumsum(*this, axis, {}, where); }
Tensor Tensor::cumprod(int axis, Where where) const { return luminal::cumprod(*this, axis, {}, where); }
Indexed Tensor::cummax(int axis, Where where) const {
  return extreme_scan(Op::max, "cummax", *this, axis, where);
}
Indexed Tensor::cummin(int axis, Where where) const {
  return extreme_scan(Op::min, "cummin", *this, axis, where);
}

Tensor Tensor::logcumsumexp(int axis, Where where) const {
  graph_of("logcumsumexp", {this}, where);
  if (rank() == 0) {
    axis_of("logcumsumexp", axis, 1, where);
    return reshape({1}, where).logcumsumexp(0, where).reshape({}, where);
  }
  axis = axis_of("logcumsumexp", axis, rank(), where);
  const DType type = is_float(dtype()) ? dtype() : DType::f32, wide = scan_accumulator(type);
  // The sum is kept in the frame of the largest so far; an infinite one is a frame of its own.
  Monoid monoid = Monoid::intern(
      {{Op::max, wide, Scalar::leaf(0)},
       {Op::add, wide,
        parse_scalar("self * exp(select(bit_and(old0 == new0, abs(old0) == inf), 0, old0 - new0))",
                     monoid_leaf_names(1))}});
  Tensor x = cast(wide, where);
  Tensor one = build("logcumsumexp", graph_, where, [&](FunctionBuilder& b) {
    const Expr extent = type_of(*this).shape[size_t(axis)];
    return b.view(b.constant(wide, 1), {extent}, {});
  });
  auto results = scan("logcumsumexp", type_of(*this).shape, axis, monoid, {x, one}, {}, where);
  return elementwise(Op::add, "logcumsumexp",
                     {Operand(results[1].log(where), where), Operand(results[0], where)}, where)
      .cast(type, where);
}

Tensor diff(const Tensor& x, int times, int axis, Where where) {
  graph_of("diff", {&x}, where);
  if (x.rank() == 0) throw Error("diff", "a scalar has no neighbours", where);
  axis = axis_of("diff", axis, x.rank(), where);
  if (times < 0) throw Error("diff", fmt::format("{} times: the count may not be negative", times), where);
  Tensor result = x;
  for (int k = 0; k < times; k++) {
    const Dim extent = result.shape()[size_t(axis)];
    if (to_expr(extent).is_constant(0)) return result;
    Tensor later = result.slice(axis, 1, extent, 1, where),
           earlier = result.slice(axis, 0, extent - 1, 1, where);
    result = x.dtype() == DType::boolean
                 ? elementwise(Op::bit_xor, "diff", {Operand(later, where), Operand(earlier, where)}, where)
                 : elementwise(Op::sub, "diff", {Operand(later, where), Operand(earlier, where)}, where);
  }
  return result;
}

} // namespace luminal
