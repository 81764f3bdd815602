// tensor/resample.cpp -- interpolation axis by axis, with coordinates in whole numbers; pixel
// shuffles.
#include "luminal/nn_functions.h"
#include "tensor/compose.h"
#include <fmt/format.h>
#include <functional>

namespace luminal {
namespace {

/// x read at at(i) of one axis, i over its new extent.
Tensor read_axis(const Tensor& x, int axis, Expr extent, const std::function<Expr(Expr)>& at, Where where) {
  Shape shape = type_of(x).shape;
  shape[size_t(axis)] = extent;
  std::vector<Expr> map;
  for (size_t d = 0; d < shape.size(); d++) map.push_back(axis_symbol(int(d), shape[d]));
  map[size_t(axis)] = at(map[size_t(axis)]);
  return build("interpolate", x.graph(), where,
               [&](FunctionBuilder& b) { return b.view(node_id(x), shape, map); });
}

/// value(i) over the axis as numbers of x's type; the other axes stretch.
Tensor numbers_along(const Tensor& x, int axis, Expr extent, const std::function<Expr(Expr)>& value,
                     Where where) {
  Shape shape(size_t(x.rank()), Expr(1));
  shape[size_t(axis)] = extent;
  return build("interpolate", x.graph(), where, [&](FunctionBuilder& b) {
    return b.cast(b.iota(shape, value(axis_symbol(axis, extent)), DType::i64), x.dtype());
  });
}

/// The source coordinate of i is top(i) / bottom.
struct Coordinates {
  std::function<Expr(Expr)> top;
  Expr bottom;
};

Coordinates coordinates(Expr from, Expr to, bool align_corners) {
  if (!align_corners) return {[=](Expr i) { return (2 * i + 1) * from - to; }, 2 * to};
  if (to.is_constant(1)) return {[](Expr) { return Expr(0); }, 1};
  return {[=](Expr i) { return i * (from - 1); }, to - 1};
}

Tensor linear_axis(const Tensor& x, int axis, Expr to, bool align_corners, Where where) {
  const Expr from = type_of(x).shape[size_t(axis)];
  const Coordinates c = coordinates(from, to, align_corners);
  const auto top = [&](Expr i) { return align_corners ? c.top(i) : max(c.top(i), 0); };
  const auto low = [&](Expr i) { return min(floordiv(top(i), c.bottom), from - 1); };
  Tensor below = read_axis(x, axis, to, low, where);
  Tensor above = read_axis(x, axis, to, [&](Expr i) { return min(low(i) + 1, from - 1); }, where);
  Tensor weight = numbers_along(
                      x, axis, to, [&](Expr i) { return mod(top(i), c.bottom); }, where) /
                  Dim::from_id(c.bottom.id());
  return below * (1 - weight) + above * weight;
}

/// Keys' cubic convolution with a = -0.75; beyond the border the border's element.
Tensor cubic_axis(const Tensor& x, int axis, Expr to, bool align_corners, Where where) {
  const Expr from = type_of(x).shape[size_t(axis)];
  const Coordinates c = coordinates(from, to, align_corners);
  Tensor t = numbers_along(
                 x, axis, to, [&](Expr i) { return mod(c.top(i), c.bottom); }, where) /
             Dim::from_id(c.bottom.id());
  constexpr double a = -0.75;
  const auto near = [&](const Tensor& d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [&](const Tensor& d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  const Tensor weights[] = {far(t + 1), near(t), near(1 - t), far(2 - t)};
  Tensor sum;
  for (int tap = 0; tap < 4; tap++) {
    Tensor element = read_axis(
        x, axis, to, [&](Expr i) { return max(min(floordiv(c.top(i), c.bottom) + (tap - 1), from - 1), 0); },
        where);
    sum = tap == 0 ? element * weights[0] : sum + element * weights[tap];
  }
  return sum;
}

} // namespace

Tensor interpolate(const Tensor& x, const Dims& sizes, Interpolation mode, bool align_corners, Where where) {
  graph_of("interpolate", {&x}, where);
  if (sizes.empty() || sizes.size() > size_t(x.rank()))
    throw Error("interpolate",
                fmt::format("{} sizes are given, x is {}", sizes.size(), text_of(type_of(x).shape)), where);
  const bool nearest = mode == Interpolation::nearest || mode == Interpolation::nearest_exact;
  if (nearest && align_corners)
    throw Error("interpolate", "align_corners has no meaning for the nearest element", where);
  for (Dim size : sizes)
    if (prove(ge(to_expr(size), 1)) == Truth::no)
      throw Error("interpolate", fmt::format("sizes must be at least 1: {}", to_string(sizes)), where);
  Tensor y = x;
  if (!nearest) {
    Floats f("interpolate", {Operand(x, where)}, where);
    y = f[0];
  }
  for (size_t i = 0; i < sizes.size(); i++) {
    const int axis = x.rank() - int(sizes.size() - i);
    const Expr from = type_of(x).shape[size_t(axis)], to = to_expr(sizes[i]);
    if (prove(ge(from, 1)) == Truth::no)
      throw Error("interpolate",
                  fmt::format("axis {} of {} has no elements", axis, text_of(type_of(x).shape)), where);
    switch (mode) {
    case Interpolation::nearest:
      y = read_axis(y, axis, to, [&](Expr at) { return floordiv(at * from, to); }, where);
      break;
    case Interpolation::nearest_exact:
      y = read_axis(y, axis, to, [&](Expr at) { return floordiv((2 * at + 1) * from, 2 * to); }, where);
      break;
    case Interpolation::linear: y = linear_axis(y, axis, to, align_corners, where); break;
    case Interpolation::cubic: y = cubic_axis(y, axis, to, align_corners, where); break;
    }
  }
  return nearest || !is_float(x.dtype()) ? y : y.cast(x.dtype(), where);
}

Tensor pixel_shuffle(const Tensor& x, int64_t factor, Where where) {
  graph_of("pixel_shuffle", {&x}, where);
  const int rank = x.rank();
  if (factor < 1 || rank < 3 || prove(eq(mod(to_expr(x.dim(-3)), factor * factor), 0)) != Truth::yes)
    throw Error("pixel_shuffle",
                fmt::format("the channels (axis -3) of {} must be a multiple of {}^2",
                            text_of(type_of(x).shape), factor),
                where);
  Dims split = x.shape(), joined = split;
  const size_t c = size_t(rank) - 3;
  const Dim channels = split[c] / (factor * factor);
  split[c] = channels;
  split.insert(split.begin() + long(c) + 1, {Dim(factor), Dim(factor)});
  joined[c] = channels;
  joined[c + 1] = joined[c + 1] * factor;
  joined[c + 2] = joined[c + 2] * factor;
  std::vector<int> order;
  for (int d = 0; d < rank - 2; d++) order.push_back(d);
  const int first = rank - 2; // [.., c, r, r, h, w] -> [.., c, h, r, w, r]
  for (int d : {first + 2, first, first + 3, first + 1}) order.push_back(d);
  return x.reshape(split, where).permute(order, where).reshape(joined, where);
}

Tensor pixel_unshuffle(const Tensor& x, int64_t factor, Where where) {
  graph_of("pixel_unshuffle", {&x}, where);
  const int rank = x.rank();
  if (factor < 1 || rank < 3 || prove(eq(mod(to_expr(x.dim(-2)), factor), 0)) != Truth::yes ||
      prove(eq(mod(to_expr(x.dim(-1)), factor), 0)) != Truth::yes)
    throw Error(
        "pixel_unshuffle",
        fmt::format("the last two axes of {} must be multiples of {}", text_of(type_of(x).shape), factor),
        where);
  Dims split = x.shape(), joined = split;
  const size_t c = size_t(rank) - 3;
  const Dim height = split[c + 1] / factor, width = split[c + 2] / factor;
  split[c + 1] = height;
  split[c + 2] = width;
  split.insert(split.begin() + long(c) + 2, Dim(factor));
  split.emplace_back(factor);
  joined[c] = joined[c] * factor * factor;
  joined[c + 1] = height;
  joined[c + 2] = width;
  std::vector<int> order;
  for (int d = 0; d < rank - 2; d++) order.push_back(d);
  const int first = rank - 2; // [.., c, h, r, w, r] -> [.., c, r, r, h, w]
  for (int d : {first + 1, first + 3, first, first + 2}) order.push_back(d);
  return x.reshape(split, where).permute(order, where).reshape(joined, where);
}

} // namespace luminal
