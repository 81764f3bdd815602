// tensor/pooling.cpp -- pooling: windows of the last axes and a reduction over them.
#include "ir/identity.h"
#include "tensor/windows.h"
#include <cmath>
#include <fmt/format.h>
#include <functional>
#include <numeric>

namespace luminal {
namespace {

/// The windows of one axis: element j of window i lies at i * stride - padding + j * dilation.
struct AxisWindows {
  int axis = 0;
  int64_t size = 1, stride = 1, padding = 0, dilation = 1;
  Dim extent = 1, count = 1;
};

std::vector<AxisWindows> windows_of(std::string_view op, const Tensor& x, const std::vector<int64_t>& kernel,
                                    const PoolOptions& options, Where where) {
  graph_of(op, {&x}, where);
  const size_t n = kernel.size();
  if (n == 0 || n > size_t(x.rank()))
    throw Error(op, fmt::format("the kernel has {} sizes, x is {}", n, text_of(type_of(x).shape)), where);
  for_axes(op, kernel, n, 1, "kernel", where);
  const auto stride =
                 options.stride.list.empty() ? kernel : for_axes(op, options.stride, n, 1, "stride", where),
             padding = for_axes(op, options.padding, n, 0, "padding", where),
             dilation = for_axes(op, options.dilation, n, 1, "dilation", where);
  std::vector<AxisWindows> list;
  for (size_t d = 0; d < n; d++) {
    const int axis = x.rank() - int(n) + int(d);
    const Expr extent = type_of(x).shape[size_t(axis)];
    const int64_t reach = (kernel[d] - 1) * dilation[d] + 1;
    if (2 * padding[d] > reach)
      throw Error(op,
                  fmt::format("padding {} is more than half of the {} elements that the kernel reaches over",
                              padding[d], reach),
                  where);
    const Expr room = extent + 2 * padding[d] - reach;
    if (prove(ge(room, 0)) == Truth::no &&
        !(options.ceil_mode && prove(ge(room + stride[d], 1)) != Truth::no))
      throw Error(op,
                  fmt::format("the kernel reaches over {} elements, axis {} of {} has {} with padding", reach,
                              axis, text_of(type_of(x).shape), to_string(extent + 2 * padding[d])),
                  where);
    Expr count = floordiv(room, stride[d]) + 1;
    if (options.ceil_mode) count = min(ceildiv(room, stride[d]) + 1, ceildiv(extent + padding[d], stride[d]));
    list.push_back({axis, kernel[d], stride[d], padding[d], dilation[d], Dim::from_id(extent.id()),
                    Dim::from_id(count.id())});
  }
  return list;
}

/// [.., count.., size..]: elements outside of x are `fill`.
Tensor windowed(std::string_view op, const Tensor& x, const std::vector<AxisWindows>& windows, double fill,
                Where where) {
  const Shape from = type_of(x).shape;
  Shape shape = from;
  for (const AxisWindows& w : windows) shape[size_t(w.axis)] = to_expr(w.count);
  for (const AxisWindows& w : windows) shape.push_back(w.size);
  std::vector<Expr> map;
  Expr inside = 1;
  for (size_t d = 0; d < from.size(); d++) map.push_back(axis_symbol(int(d), shape[d]));
  for (size_t i = 0; i < windows.size(); i++) {
    const AxisWindows& w = windows[i];
    const Expr extent = from[size_t(w.axis)];
    const Expr place =
        map[size_t(w.axis)] * w.stride - w.padding + axis_symbol(int(from.size() + i), w.size) * w.dilation;
    map[size_t(w.axis)] = place;
    if (w.padding > 0) inside = logical_and(inside, ge(place, 0));
    const Expr last = (to_expr(w.count) - 1) * w.stride - w.padding + (w.size - 1) * w.dilation;
    if (prove(lt(last, extent)) != Truth::yes) inside = logical_and(inside, lt(place, extent));
  }
  return build(op, x.graph(), where,
               [&](FunctionBuilder& b) { return b.view(node_id(x), shape, map, inside, fill); });
}

std::vector<int> last_axes(const Tensor& x, size_t count) {
  std::vector<int> axes(count);
  std::iota(axes.begin(), axes.end(), x.rank() - int(count));
  return axes;
}

double least_value(DType type) {
  return is_float(type) ? identity_f64(Op::max, type) : integer_to_f64(type, identity_i64(Op::max, type));
}

/// A tensor over one axis of the result: value(i), in a shape that stretches over the others.
Tensor along(const Tensor& like, int axis, int rank, const Dim& count, const std::function<Expr(Expr)>& value,
             DType type, Where where) {
  Shape shape(size_t(rank), Expr(1));
  shape[size_t(axis)] = to_expr(count);
  return build("pool", like.graph(), where, [&](FunctionBuilder& b) {
    return b.cast(b.iota(shape, value(axis_symbol(axis, shape[size_t(axis)])), DType::i64), type);
  });
}

// Windows from floor(i n / size) to ceil((i + 1) n / size).
Expr adaptive_begin(Expr i, Expr n, int64_t size) { return floordiv(i * n, size); }
Expr adaptive_length(Expr i, Expr n, int64_t size) {
  return ceildiv((i + 1) * n, size) - adaptive_begin(i, n, size);
}

Tensor adaptive(std::string_view op, const Tensor& x, const std::vector<int64_t>& sizes, double fill,
                Where where) {
  const Shape from = type_of(x).shape;
  const size_t n = sizes.size();
  Shape shape = from;
  std::vector<Expr> map;
  Expr inside = 1;
  for (size_t d = 0; d < from.size(); d++) {
    const size_t first = from.size() - n;
    if (d >= first) shape[d] = sizes[d - first];
    map.push_back(axis_symbol(int(d), shape[d]));
  }
  for (size_t i = 0; i < n; i++) {
    const size_t axis = from.size() - n + i;
    const Expr extent = from[axis];
    const bool even = prove(eq(mod(extent, sizes[i]), 0)) == Truth::yes;
    Expr longest = even ? floordiv(extent, sizes[i]) : ceildiv(extent, sizes[i]) + 1;
    if (!even && extent.is_constant()) {
      int64_t most = 0;
      for (int64_t at = 0; at < sizes[i]; at++)
        most = std::max(most, adaptive_length(at, extent, sizes[i]).value());
      longest = most;
    }
    shape.push_back(longest);
    const Expr j = axis_symbol(int(from.size() + i), longest), window = map[axis];
    map[axis] = (even ? window * longest : adaptive_begin(window, extent, sizes[i])) + j;
    if (!even) inside = logical_and(inside, lt(j, adaptive_length(window, extent, sizes[i])));
  }
  return build(op, x.graph(), where,
               [&](FunctionBuilder& b) { return b.view(node_id(x), shape, map, inside, fill); });
}

void check_adaptive(std::string_view op, const Tensor& x, const std::vector<int64_t>& sizes, Where where) {
  graph_of(op, {&x}, where);
  if (sizes.empty() || sizes.size() > size_t(x.rank()))
    throw Error(op, fmt::format("{} sizes are given, x is {}", sizes.size(), text_of(type_of(x).shape)),
                where);
  for_axes(op, sizes, sizes.size(), 1, "size", where);
}

} // namespace

std::vector<int64_t> detail::pool_sizes(std::string_view op, const Tensor& x, const Ints& sizes, int axes,
                                        Where where) {
  graph_of(op, {&x}, where);
  const int rank = x.rank();
  if (axes == 0 ? rank < 3 : rank != axes + 1 && rank != axes + 2)
    throw Error(op,
                fmt::format("x is {}: {} behind batch and channels are expected", text_of(type_of(x).shape),
                            axes == 0   ? "axes"
                            : axes == 1 ? "one axis"
                                        : fmt::format("{} axes", axes)),
                where);
  return for_axes(op, sizes, size_t(axes == 0 ? rank - 2 : axes), 1, "kernel", where);
}

Tensor max_pool(const Tensor& x, const std::vector<int64_t>& kernel, const PoolOptions& options,
                Where where) {
  const auto windows = windows_of("max_pool", x, kernel, options, where);
  Tensor all = windowed("max_pool", x, windows, least_value(x.dtype()), where);
  return all.max(last_axes(all, kernel.size()), false, where);
}

MaxPool max_pool_with_indices(const Tensor& x, const std::vector<int64_t>& kernel, const PoolOptions& options,
                              Where where) {
  constexpr std::string_view op = "max_pool_with_indices";
  const auto windows = windows_of(op, x, kernel, options, where);
  Tensor all = windowed(op, x, windows, least_value(x.dtype()), where);
  Tensor values = all.max(last_axes(all, kernel.size()), false, where);
  // The least place among the elements that equal the greatest; those outside have the greatest
  // place of all.
  Shape plane(type_of(x).shape.end() - long(kernel.size()), type_of(x).shape.end());
  Tensor place = build(op, x.graph(), where, [&](FunctionBuilder& b) {
    Expr flat = 0;
    for (size_t d = 0; d < plane.size(); d++) flat = flat * plane[d] + axis_symbol(int(d), plane[d]);
    return b.iota(plane, flat, DType::i64);
  });
  auto of_plane = windows;
  for (AxisWindows& w : of_plane) w.axis -= x.rank() - int(kernel.size());
  Tensor places = windowed(op, place, of_plane, 0x1p62, where);
  Tensor best = values;
  for (size_t d = 0; d < kernel.size(); d++) best = best.unsqueeze(-1, where);
  Tensor chosen = equal(all, best);
  if (is_float(x.dtype())) chosen = chosen | (all.isnan() & best.isnan());
  Tensor indices =
      luminal::select(chosen, places, int64_t(1) << 62).min(last_axes(all, kernel.size()), false, where);
  return {values, indices};
}

Tensor avg_pool(const Tensor& x, const std::vector<int64_t>& kernel, const PoolOptions& options,
                bool count_include_pad, int64_t divisor, Where where) {
  for (int64_t d : options.dilation.list)
    if (d != 1) throw Error("avg_pool", "windows are not dilated", where);
  const auto windows = windows_of("avg_pool", x, kernel, options, where);
  Floats f("avg_pool", {Operand(x, where)}, where);
  Tensor all = windowed("avg_pool", f[0], windows, 0, where);
  Tensor total = all.sum(last_axes(all, kernel.size()), false, where);
  if (divisor != 0) return f.done(total / divisor);
  for (const AxisWindows& w : windows) {
    const Expr extent = to_expr(w.extent);
    total = total / along(
                        x, w.axis, x.rank(), w.count,
                        [&](Expr i) {
                          const Expr begin = i * w.stride - w.padding;
                          return count_include_pad ? min(begin + w.size, extent + w.padding) - begin
                                                   : min(begin + w.size, extent) - max(begin, 0);
                        },
                        f[0].dtype(), where);
  }
  return f.done(total);
}

Tensor lp_pool(const Tensor& x, double p, const std::vector<int64_t>& kernel, const PoolOptions& options,
               Where where) {
  if (p == 0 || !std::isfinite(p))
    throw Error("lp_pool", fmt::format("the order must be finite and not 0, it is {}", p), where);
  for (int64_t n : options.padding.list)
    if (n != 0) throw Error("lp_pool", "windows are not padded", where);
  const auto windows = windows_of("lp_pool", x, kernel, options, where);
  Floats f("lp_pool", {Operand(x, where)}, where);
  Tensor all = windowed("lp_pool", pow(f[0], p), windows, 0, where);
  return f.done(pow(all.sum(last_axes(all, kernel.size()), false, where).relu(where), 1 / p));
}

Tensor adaptive_avg_pool(const Tensor& x, const std::vector<int64_t>& sizes, Where where) {
  check_adaptive("adaptive_avg_pool", x, sizes, where);
  Floats f("adaptive_avg_pool", {Operand(x, where)}, where);
  Tensor all = adaptive("adaptive_avg_pool", f[0], sizes, 0, where);
  Tensor total = all.sum(last_axes(all, sizes.size()), false, where);
  for (size_t i = 0; i < sizes.size(); i++) {
    const int axis = x.rank() - int(sizes.size() - i);
    const Expr extent = type_of(x).shape[size_t(axis)];
    total = total / along(
                        x, axis, x.rank(), sizes[i],
                        [&](Expr at) { return adaptive_length(at, extent, sizes[i]); }, f[0].dtype(), where);
  }
  return f.done(total);
}

Tensor adaptive_max_pool(const Tensor& x, const std::vector<int64_t>& sizes, Where where) {
  check_adaptive("adaptive_max_pool", x, sizes, where);
  Tensor all = adaptive("adaptive_max_pool", x, sizes, least_value(x.dtype()), where);
  return all.max(last_axes(all, sizes.size()), false, where);
}

Tensor pool_last_dim(const Tensor& x, int64_t kernel, int64_t stride, int64_t dilation, Where where) {
  graph_of("pool_last_dim", {&x}, where);
  return x.windows(-1, kernel, stride, dilation, where);
}

} // namespace luminal
