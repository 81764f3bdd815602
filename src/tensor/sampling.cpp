// tensor/sampling.cpp -- images read at points, windows as columns and back, normalisation over
// neighbouring channels.
#include "luminal/functions.h"
#include "luminal/graph.h"
#include "luminal/nn_functions.h"
#include "luminal/random.h"
#include "tensor/windows.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal {
namespace {

/// -1..1 to places of elements, brought inside as the padding says.
Tensor places_of(const Tensor& g, Dim size, GridPadding padding, bool align_corners) {
  const Operand n(size), last(size - 1);
  Tensor place = align_corners ? (g + 1) * 0.5 * last : ((g + 1) * n - 1) * 0.5;
  if (padding == GridPadding::zeros) return place;
  if (padding == GridPadding::reflection) {
    const double low = align_corners ? 0 : -0.5;
    Tensor span =
        number_like(align_corners ? last : n, g.graph(), g.dtype(), type_of(g).shape, Where::current());
    Tensor from = (place - low).abs(), rest = fmod(from, span), turns = (from / span).floor();
    place = select(equal(span, 0), 0, select(equal(fmod(turns, 2), 0), rest + low, span - rest + low));
  }
  return clip(place, Operand(0), last);
}

/// Convolution's result extents for sizes; with checks.
std::vector<int64_t> positions_of(std::string_view op, const std::vector<int64_t>& sizes,
                                  const std::vector<int64_t>& kernel, const std::vector<int64_t>& stride,
                                  const std::vector<int64_t>& padding, const std::vector<int64_t>& dilation,
                                  Where where) {
  std::vector<int64_t> out;
  for (size_t d = 0; d < kernel.size(); d++) {
    const int64_t room = sizes[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1;
    if (room < 0)
      throw Error(op,
                  fmt::format("a kernel of {} does not fit {} elements with a padding of {}", kernel[d],
                              sizes[d], padding[d]),
                  where);
    out.push_back(room / stride[d] + 1);
  }
  return out;
}

} // namespace

Tensor grid_sample(const Tensor& x, const Tensor& grid, Interpolation mode, GridPadding padding,
                   bool align_corners, Where where) {
  constexpr std::string_view op = "grid_sample";
  graph_of(op, {&x, &grid}, where);
  if (x.rank() != 4 || grid.rank() != 4 || !(grid.dim(3) == Dim(2)) ||
      !proves_equal(type_of(x).shape[0], type_of(grid).shape[0]))
    throw Error(op,
                fmt::format("x [n, c, h, w] is read at grid [n, y, x, 2], not {} at {}",
                            text_of(type_of(x).shape), text_of(type_of(grid).shape)),
                where);
  if (mode != Interpolation::linear && mode != Interpolation::nearest)
    throw Error(op, "the mode must be linear or nearest", where);
  Floats f(op, {Operand(x, where)}, where);
  Tensor g = grid.cast(f[0].dtype(), where);
  const Dim height = x.dim(2), width = x.dim(3), channels = x.dim(1), batch = x.dim(0);
  const Dims points{batch, 1, grid.dim(1) * grid.dim(2)}, all{batch, channels, grid.dim(1) * grid.dim(2)};
  Tensor px = places_of(g.select(3, 0, where), width, padding, align_corners).reshape(points, where),
         py = places_of(g.select(3, 1, where), height, padding, align_corners).reshape(points, where);
  Tensor flat = f[0].reshape({batch, channels, height * width}, where);
  const auto at = [&](const Tensor& y, const Tensor& column) {
    Tensor inside = (y >= 0) & (y <= Operand(height - 1)) & (column >= 0) & (column <= Operand(width - 1));
    Tensor index = select(inside, y, 0).cast(DType::i64, where) * Operand(width) +
                   select(inside, column, 0).cast(DType::i64, where);
    return select(inside, flat.gather(-1, index.expand(all, where), where), 0);
  };
  Tensor y;
  if (mode == Interpolation::nearest)
    y = at(py.round(where), px.round(where));
  else {
    Tensor x0 = px.floor(where), y0 = py.floor(where), wx = px - x0, wy = py - y0;
    y = at(y0, x0) * ((1 - wx) * (1 - wy)) + at(y0, x0 + 1) * (wx * (1 - wy)) +
        at(y0 + 1, x0) * ((1 - wx) * wy) + at(y0 + 1, x0 + 1) * (wx * wy);
  }
  return f.done(y.reshape({batch, channels, grid.dim(1), grid.dim(2)}, where));
}

Tensor affine_grid(const Tensor& theta, int64_t height, int64_t width, bool align_corners, Where where) {
  constexpr std::string_view op = "affine_grid";
  graph_of(op, {&theta}, where);
  if (theta.rank() != 3 || !(theta.dim(1) == Dim(2)) || !(theta.dim(2) == Dim(3)) || height < 1 || width < 1)
    throw Error(op,
                fmt::format("theta must be [n, 2, 3] and the sizes positive, not {}, {} and {}",
                            text_of(type_of(theta).shape), height, width),
                where);
  Floats f(op, {Operand(theta, where)}, where);
  Graph graph(theta.graph());
  const auto line = [&](int64_t n) {
    Tensor i = arange(graph, 0, n, 1, DType::i64, where).cast(f[0].dtype(), where);
    if (n == 1 && align_corners) return i;
    return align_corners ? i * (2.0 / double(n - 1)) - 1 : (i * 2 + 1) * (1.0 / double(n)) - 1;
  };
  Tensor column = line(width).reshape({1, 1, width, 1}, where),
         row = line(height).reshape({1, height, 1, 1}, where);
  const auto part = [&](int d) { return f[0].select(2, d, where).reshape({theta.dim(0), 1, 1, 2}, where); };
  return f.done(column * part(0) + row * part(1) + part(2));
}

Tensor unfold(const Tensor& x, const std::vector<int64_t>& kernel, const ConvOptions& options, Where where) {
  constexpr std::string_view op = "unfold";
  graph_of(op, {&x}, where);
  const size_t n = kernel.size();
  if (n == 0 || x.rank() != int(n) + 2)
    throw Error(
        op,
        fmt::format("x must have {} axes for a kernel of {}, it is {}", n + 2, n, text_of(type_of(x).shape)),
        where);
  const auto stride = for_axes(op, options.stride, n, 1, "stride", where),
             dilation = for_axes(op, options.dilation, n, 1, "dilation", where),
             padding = for_axes(op, options.padding, n, 0, "padding", where);
  Tensor y = x;
  for (size_t d = 0; d < n; d++)
    y = y.pad(int(2 + d), padding[d], padding[d], 0, where)
            .windows(int(2 + d), kernel[d], stride[d], dilation[d], where);
  std::vector<int> order{0, 1}; // [batch, channels, positions.., kernel..] -> kernel first
  Dim taps = x.dim(1), positions = 1;
  for (size_t d = 0; d < n; d++) order.push_back(int(2 + n + d)), taps = taps * kernel[d];
  for (size_t d = 0; d < n; d++) order.push_back(int(2 + d)), positions = positions * y.dim(int(2 + d));
  return y.permute(order, where).reshape({x.dim(0), taps, positions}, where);
}

Tensor fold(const Tensor& x, const std::vector<int64_t>& sizes, const std::vector<int64_t>& kernel,
            const ConvOptions& options, Where where) {
  constexpr std::string_view op = "fold";
  graph_of(op, {&x}, where);
  const size_t n = kernel.size();
  if (n == 0 || sizes.size() != n || x.rank() != 3)
    throw Error(op,
                fmt::format("x [batch, channels * kernel, positions] becomes as many sizes as the kernel "
                            "has, not {} with {} sizes and a kernel of {}",
                            text_of(type_of(x).shape), sizes.size(), n),
                where);
  const auto stride = for_axes(op, options.stride, n, 1, "stride", where),
             dilation = for_axes(op, options.dilation, n, 1, "dilation", where),
             padding = for_axes(op, options.padding, n, 0, "padding", where);
  const auto positions = positions_of(op, sizes, kernel, stride, padding, dilation, where);
  int64_t taps = 1, all = 1;
  for (size_t d = 0; d < n; d++) taps *= kernel[d], all *= positions[d];
  if (!x.dim(1).is_constant() || x.dim(1).value() % taps != 0 || !(x.dim(2) == Dim(all)))
    throw Error(op,
                fmt::format("x {} does not fit: axis 1 must be a multiple of {}, axis 2 must be {}",
                            text_of(type_of(x).shape), taps, all),
                where);
  // A transposed convolution of each channel by itself, in which every tap has a weight of its own.
  const int64_t channels = x.dim(1).value() / taps;
  Graph graph(x.graph());
  Dims weight{taps, 1}, spread{x.dim(0), x.dim(1)};
  ConvTransposeOptions back;
  back.stride = Ints(stride);
  back.padding = Ints(padding);
  back.dilation = Ints(dilation);
  back.groups = channels;
  std::vector<int64_t> extra;
  for (size_t d = 0; d < n; d++) {
    weight.push_back(kernel[d]);
    spread.push_back(positions[d]);
    extra.push_back((sizes[d] + 2 * padding[d] - dilation[d] * (kernel[d] - 1) - 1) % stride[d]);
  }
  back.output_padding = Ints(extra);
  Tensor each = eye(graph, taps, taps, x.dtype(), where).reshape(weight, where);
  Dims times(size_t(weight.size()), 1);
  times[0] = channels;
  return conv_transpose(x.reshape(spread, where), each.repeat(times, where), {}, back, where);
}

Tensor local_response_norm(const Tensor& x, int64_t size, double alpha, double beta, double k, Where where) {
  constexpr std::string_view op = "local_response_norm";
  Floats f(op, {Operand(x, where)}, where);
  if (x.rank() < 3 || size < 1)
    throw Error(op,
                fmt::format("x must be [n, channels, sizes..] and the size positive, not {} and {}",
                            text_of(type_of(x).shape), size),
                where);
  Tensor around = f[0].square(where)
                      .pad(1, size / 2, (size - 1) / 2, 0, where)
                      .windows(1, size, 1, 1, where)
                      .mean(-1, false, where);
  return f.done(f[0] / pow(around * alpha + k, beta));
}

Tensor channel_shuffle(const Tensor& x, int64_t groups, Where where) {
  constexpr std::string_view op = "channel_shuffle";
  graph_of(op, {&x}, where);
  if (x.rank() < 3 || groups < 1 || prove(eq(mod(type_of(x).shape[1], groups), 0)) != Truth::yes)
    throw Error(op,
                fmt::format("x must be [n, channels, sizes..] with a multiple of {} channels, it is {}",
                            groups, text_of(type_of(x).shape)),
                where);
  return x.unflatten(1, {groups, x.dim(1) / groups}, where).transpose(1, 2, where).flatten(1, 2, where);
}

} // namespace luminal
