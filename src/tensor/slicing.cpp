// tensor/slicing.cpp -- which elements of an axis: slices, padding, flips, rolls, repetitions,
// windows.
#include "luminal/indexing.h"
#include "tensor/views.h"
#include <algorithm>

namespace luminal {
namespace {

/// One bound of a slice as a position between `low` and `high`.
Expr bound(std::string_view op, const Tensor& x, int axis, std::optional<Dim> given, Expr by_default,
           Expr extent, Expr low, Expr high, Where where) {
  if (!given) return by_default;
  Expr at = to_expr(*given);
  if (at.is_constant()) {
    if (at.value() >= 0 && extent.range().high != unbounded_high && at.value() > extent.range().high)
      return high;
    return smaller(larger(at.value() < 0 ? extent + at : at, low), high);
  }
  for (Expr condition : {ge(at, low), le(at, high)}) {
    if (prove(condition) == Truth::no)
      throw Error(op,
                  fmt::format("{} is outside axis {} of {}: only constants are clamped", given->to_string(),
                              axis, text_of(type_of(x).shape)),
                  where);
    assume(*x.graph(), condition, on_axis(op, x, axis), where);
  }
  return at;
}

} // namespace

std::string on_axis(std::string_view op, const Tensor& x, int axis) {
  return fmt::format("{} of {} along axis {}", op, described(*x.graph(), node_id(x)), axis);
}

IndexRange index_range(std::string_view op, const Tensor& x, int axis, std::optional<Dim> start,
                       std::optional<Dim> end, int64_t step, Where where) {
  if (step == 0) throw Error(op, "the step is 0", where);
  const Expr extent = type_of(x).shape[size_t(axis)];
  const bool symbolic = (start && !to_expr(*start).is_constant()) || (end && !to_expr(*end).is_constant());
  Expr first, last;
  if (step > 0) {
    first = bound(op, x, axis, start, 0, extent, 0, extent, where);
    last = bound(op, x, axis, end, extent, extent, 0, extent, where);
  } else {
    first = bound(op, x, axis, start, extent - 1, extent, -1, extent - 1, where);
    last = bound(op, x, axis, end, -1, extent, -1, extent - 1, where);
  }
  Expr length = step > 0 ? last - first : first - last;
  if (prove(ge(length, 0)) != Truth::yes) {
    if (symbolic) {
      if (prove(ge(length, 0)) == Truth::no)
        throw Error(op,
                    fmt::format("{}..{} of axis {} of {} ends before it begins", luminal::to_string(first),
                                luminal::to_string(last), axis, text_of(type_of(x).shape)),
                    where);
      assume(*x.graph(), ge(length, 0), on_axis(op, x, axis), where);
    } else {
      length = larger(length, 0);
    }
  }
  return {first, ceildiv(length, step > 0 ? step : -step)};
}

Tensor Tensor::slice(int axis, Dim start, Dim end, int64_t step, Where where) const {
  auto graph = graph_of("slice", {this}, where);
  axis = axis_of("slice", axis, rank(), where);
  auto [first, count] = index_range("slice", *this, axis, start, end, step, where);
  return build("slice", graph, where,
               [&](FunctionBuilder& b) { return b.slice(node_id(*this), axis, first, count, step); });
}

Tensor Tensor::slice(std::vector<Slice> slices, Where where) const {
  graph_of("slice", {this}, where);
  if (int(slices.size()) > rank())
    throw Error("slice",
                fmt::format("{} slices for {}, which has {} axes", slices.size(),
                            text_of(type_of(*this).shape), rank()),
                where);
  Shape shape = type_of(*this).shape;
  std::vector<IndexRange> ranges;
  for (size_t d = 0; d < slices.size(); d++) {
    ranges.push_back(
        index_range("slice", *this, int(d), slices[d].start, slices[d].end, slices[d].step, where));
    shape[d] = ranges[d].count;
  }
  std::vector<Expr> map = identity_map(shape);
  for (size_t d = 0; d < slices.size(); d++) map[d] = ranges[d].first + map[d] * slices[d].step;
  return view_of("slice", *this, shape, map, where);
}

Tensor Tensor::narrow(int axis, Dim start, Dim length, Where where) const {
  auto graph = graph_of("narrow", {this}, where);
  axis = axis_of("narrow", axis, rank(), where);
  const Expr extent = type_of(*this).shape[size_t(axis)], count = to_expr(length);
  Expr first = to_expr(start);
  if (first.is_constant() && first.value() < 0) first = extent + first;
  for (Expr condition : {ge(first, 0), ge(count, 0), le(first + count, extent)}) {
    if (prove(condition) == Truth::no)
      throw Error("narrow",
                  fmt::format("{} elements from {} on are outside axis {} of {}", length.to_string(),
                              start.to_string(), axis, text_of(type_of(*this).shape)),
                  where);
    assume(*graph, condition, on_axis("narrow", *this, axis), where);
  }
  return build("narrow", graph, where,
               [&](FunctionBuilder& b) { return b.slice(node_id(*this), axis, first, count); });
}

Tensor Tensor::select(int axis, Dim index, Where where) const {
  auto graph = graph_of("select", {this}, where);
  axis = axis_of("select", axis, rank(), where);
  Shape shape = type_of(*this).shape;
  const Expr extent = shape[size_t(axis)];
  Expr at = to_expr(index);
  if (at.is_constant() && at.value() < 0) at = extent + at;
  for (Expr condition : {ge(at, 0), lt(at, extent)}) {
    if (prove(condition) == Truth::no)
      throw Error("select",
                  fmt::format("index {} is outside axis {} of {}", index.to_string(), axis, text_of(shape)),
                  where);
    assume(*graph, condition, on_axis("select", *this, axis), where);
  }
  shape.erase(shape.begin() + axis);
  std::vector<Expr> map = identity_map(shape);
  map.insert(map.begin() + axis, at);
  return view_of("select", *this, shape, map, where);
}

Tensor Tensor::pad(int axis, Dim before, Dim after, double value, Where where) const {
  return pad({{axis, before, after}}, PadMode::constant, value, where);
}

Tensor Tensor::pad(std::vector<Padding> padding, PadMode mode, double value, Where where) const {
  auto graph = graph_of("pad", {this}, where);
  const Shape from = type_of(*this).shape;
  std::vector<int> axes;
  for (const Padding& p : padding) axes.push_back(p.axis);
  axes = axes_of("pad", axes, rank(), where);
  Shape shape = from;
  for (size_t k = 0; k < axes.size(); k++) {
    const size_t d = size_t(axes[k]);
    const Expr before = to_expr(padding[k].before), after = to_expr(padding[k].after);
    shape[d] = from[d] + before + after;
    std::vector<Expr> needed{ge(shape[d], 0)};
    if (mode != PadMode::constant) needed = {ge(before, 0), ge(after, 0)};
    if (mode == PadMode::reflect) needed.insert(needed.end(), {lt(before, from[d]), lt(after, from[d])});
    if (mode == PadMode::circular) needed.insert(needed.end(), {le(before, from[d]), le(after, from[d])});
    if (mode == PadMode::replicate) needed.push_back(ge(from[d], 1));
    static constexpr const char* limits[] = {"more cannot be cut off than is there",
                                             "reflection needs fewer than the axis has, and none negative",
                                             "replication needs an element to repeat, and none negative",
                                             "circular padding takes at most the axis, and none negative"};
    for (Expr condition : needed) {
      if (prove(condition) == Truth::no)
        throw Error("pad",
                    fmt::format("({}, {}) does not fit axis {} of {}: {}", padding[k].before.to_string(),
                                padding[k].after.to_string(), d, text_of(from), limits[size_t(mode)]),
                    where);
      assume(*graph, condition, on_axis("pad", *this, int(d)), where);
    }
  }
  std::vector<Expr> map = identity_map(shape);
  Expr inside = 1;
  for (size_t k = 0; k < axes.size(); k++) {
    const size_t d = size_t(axes[k]);
    const Expr before = to_expr(padding[k].before), i = map[d], at = i - before, n = from[d];
    switch (mode) {
    case PadMode::constant:
      map[d] = at;
      inside = logical_and(inside, logical_and(ge(i, before), lt(i, before + n)));
      break;
    case PadMode::reflect: { // |at|, then the same from the other end
      const Expr left = to_expr(padding[k].before).is_constant(0) ? at : luminal::max(at, -at);
      map[d] = to_expr(padding[k].after).is_constant(0) ? left : luminal::min(left, (n - 1) * 2 - left);
      break;
    }
    case PadMode::replicate: map[d] = smaller(larger(at, 0), n - 1); break;
    case PadMode::circular: map[d] = n.is_constant(0) ? Expr(0) : mod(at, n); break;
    }
  }
  return view_of("pad", *this, shape, map, where, inside, value);
}

Tensor Tensor::flip(std::vector<int> axes, Where where) const {
  graph_of("flip", {this}, where);
  const Shape shape = type_of(*this).shape;
  std::vector<Expr> map = identity_map(shape);
  for (int axis : axes_of("flip", axes, rank(), where))
    map[size_t(axis)] = shape[size_t(axis)] - 1 - map[size_t(axis)];
  return view_of("flip", *this, shape, map, where);
}

Tensor Tensor::roll(Dims shifts, std::vector<int> axes, Where where) const {
  graph_of("roll", {this}, where);
  if (axes.empty() && shifts.size() == 1)
    return flatten(0, -1, where).roll(shifts, {0}, where).reshape(shape(), where);
  if (shifts.size() != axes.size())
    throw Error("roll", fmt::format("{} shifts for {} axes", shifts.size(), axes.size()), where);
  const Shape shape = type_of(*this).shape;
  std::vector<Expr> map = identity_map(shape);
  for (size_t k = 0; k < axes.size(); k++) {
    const size_t d = size_t(axis_of("roll", axes[k], rank(), where));
    if (!shape[d].is_constant(0)) map[d] = mod(map[d] - to_expr(shifts[k]), shape[d]);
  }
  return view_of("roll", *this, shape, map, where);
}

Tensor Tensor::tile(Dims times, Where where) const {
  graph_of("tile", {this}, where);
  const Shape from = type_of(*this).shape;
  while (times.size() < from.size()) times.insert(times.begin(), 1);
  const size_t skip = times.size() - from.size();
  Shape shape = to_shape(times);
  for (Expr count : shape)
    if (prove(ge(count, 0)) != Truth::yes)
      throw Error("tile", fmt::format("{} times: a count may not be negative", luminal::to_string(count)),
                  where);
  for (size_t d = 0; d < from.size(); d++) shape[skip + d] *= from[d];
  std::vector<Expr> map;
  for (size_t d = 0; d < from.size(); d++) {
    const Expr i = axis_symbol(int(skip + d), shape[skip + d]);
    const bool once = to_expr(times[skip + d]).is_constant(1);
    map.push_back(once ? i : from[d].is_constant(0) ? Expr(0) : mod(i, from[d]));
  }
  return view_of("tile", *this, shape, map, where);
}
Tensor Tensor::repeat(Dims times, Where where) const {
  graph_of("repeat", {this}, where);
  if (int(times.size()) < rank())
    throw Error("repeat",
                fmt::format("{} counts for {}: give one for each axis, new axes first (see tile)",
                            times.size(), text_of(type_of(*this).shape)),
                where);
  return tile(times, where);
}

Tensor Tensor::repeat_interleave(Dim times, int axis, Where where) const {
  graph_of("repeat_interleave", {this}, where);
  axis = axis_of("repeat_interleave", axis, rank(), where);
  if (prove(ge(to_expr(times), 0)) != Truth::yes)
    throw Error("repeat_interleave",
                fmt::format("{} times: the count may not be negative", times.to_string()), where);
  Shape shape = type_of(*this).shape;
  shape[size_t(axis)] *= to_expr(times);
  std::vector<Expr> map = identity_map(shape);
  if (!to_expr(times).is_constant(0)) map[size_t(axis)] = floordiv(map[size_t(axis)], to_expr(times));
  return view_of("repeat_interleave", *this, shape, map, where);
}

Tensor Tensor::windows(int axis, int64_t size, int64_t stride, int64_t dilation, Where where) const {
  graph_of("windows", {this}, where);
  axis = axis_of("windows", axis, rank(), where);
  if (size < 1 || stride < 1 || dilation < 1)
    throw Error("windows",
                fmt::format("size {}, stride {} and dilation {} must be positive", size, stride, dilation),
                where);
  Shape shape = type_of(*this).shape;
  const Expr reach = Expr((size - 1) * dilation + 1), extent = shape[size_t(axis)];
  if (prove(ge(extent, reach)) == Truth::no)
    throw Error("windows",
                fmt::format("a window reaches over {} elements, axis {} has {}", luminal::to_string(reach),
                            axis, luminal::to_string(extent)),
                where);
  assume(*graph_, ge(extent, reach), on_axis("windows", *this, axis), where);
  shape[size_t(axis)] = floordiv(extent - reach, stride) + 1;
  shape.push_back(size);
  std::vector<Expr> map = identity_map(shape);
  map[size_t(axis)] = map[size_t(axis)] * stride + map.back() * dilation;
  map.pop_back();
  return view_of("windows", *this, shape, map, where);
}

Tensor windows(const Tensor& x, std::vector<int> axes, std::vector<int64_t> sizes,
               std::vector<int64_t> strides, std::vector<int64_t> dilations, Where where) {
  graph_of("windows", {&x}, where);
  axes = axes_of("windows", axes, x.rank(), where);
  if (strides.empty()) strides.assign(axes.size(), 1);
  if (dilations.empty()) dilations.assign(axes.size(), 1);
  if (sizes.size() != axes.size() || strides.size() != axes.size() || dilations.size() != axes.size())
    throw Error("windows",
                fmt::format("{} sizes, {} strides and {} dilations for {} axes", sizes.size(), strides.size(),
                            dilations.size(), axes.size()),
                where);
  Tensor result = x;
  for (size_t k = 0; k < axes.size(); k++)
    result = result.windows(axes[k], sizes[k], strides[k], dilations[k], where);
  return result;
}

Tensor excise(const Tensor& x, int64_t spacing, int64_t size, int axis, Where where) {
  graph_of("excise", {&x}, where);
  axis = axis_of("excise", axis, x.rank(), where);
  if (spacing < 1 || size < 0)
    throw Error("excise",
                fmt::format("{} elements are kept and {} left out: the first must be positive, the second "
                            "not negative",
                            spacing, size),
                where);
  Shape shape = type_of(x).shape;
  const int64_t period = spacing + size;
  Expr& extent = shape[size_t(axis)];
  extent = floordiv(extent, period) * spacing + smaller(mod(extent, period), spacing);
  std::vector<Expr> map = identity_map(shape);
  Expr& at = map[size_t(axis)];
  at = floordiv(at, spacing) * period + mod(at, spacing);
  return view_of("excise", x, shape, map, where);
}

Tensor rot90(const Tensor& x, int times, int a, int b, Where where) {
  graph_of("rot90", {&x}, where);
  a = axis_of("rot90", a, x.rank(), where);
  b = axis_of("rot90", b, x.rank(), where);
  if (a == b) throw Error("rot90", fmt::format("axis {} is named twice", a), where);
  switch (((times % 4) + 4) % 4) {
  case 1: return x.flip(b, where).transpose(a, b, where);
  case 2: return x.flip(std::vector<int>{a, b}, where);
  case 3: return x.flip(a, where).transpose(a, b, where);
  default: return x;
  }
}

} // namespace luminal
