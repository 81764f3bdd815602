// models/onnx/ops_vision.cpp -- elements at computed places: GridSample, RoiAlign, DeformConv.
#include "luminal/nn_functions.h"
#include "luminal/random.h"
#include "models/onnx/operators.h"
#include "models/onnx/windows.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal::onnx::ops {
namespace {

// ---- elements at places that are computed ----

enum class Outside : uint8_t { zeros, border, reflection };

Tensor reflect(const Tensor& x, double low, double high) {
  const double span = high - low;
  if (span <= 0) return zeros_like(x) + low;
  const Tensor away = select(x < low, low - x, x - low);
  const Tensor times = (away / span).floor(), rest = away - times * span;
  return select(equal(times % 2.0, 0), low + rest, high - rest);
}
/// x [n, c, sizes..] at whole places (f32 [n, p] an axis) -> [n, c, p].
Tensor pixels(Node& n, const Tensor& x, const std::vector<Tensor>& at, Outside outside,
              const std::vector<std::pair<double, double>>& border) {
  const auto extents = n.extents(x);
  Tensor flat, inside;
  for (size_t d = 0; d < at.size(); d++) {
    const int64_t size = extents[d + 2];
    Tensor i = at[d];
    if (outside == Outside::zeros) {
      const Tensor in = (i >= 0) & (i < size);
      inside = inside.defined() ? inside & in : in;
    } else if (outside == Outside::reflection)
      i = select((i < border[d].first) | (i > border[d].second),
                 reflect(i, border[d].first, border[d].second).trunc(), i);
    i = clip(i, 0, double(size - 1)).cast(DType::i64);
    flat = flat.defined() ? flat * size + i : i;
  }
  int64_t inner = 1;
  for (size_t d = 2; d < extents.size(); d++) inner *= extents[d];
  const Tensor line = x.reshape({extents[0], extents[1], inner});
  const Tensor index = flat.unsqueeze(1).expand({flat.dim(0), x.dim(1), flat.dim(1)});
  const Tensor value = line.gather(2, index);
  return inside.defined() ? select(inside.unsqueeze(1), value, zeros_like(value)) : value;
}
/// The same at broken places, as a sum over neighbours: 1 (nearest), 2 (linear), 4 (cubic) an axis.
Tensor sampled(Node& n, const Tensor& x, const std::vector<Tensor>& at, int taps, Outside outside,
               const std::vector<std::pair<double, double>>& border) {
  if (taps == 1) return pixels(n, x, at, outside, border);
  std::vector<Tensor> floor, ratio;
  for (const Tensor& a : at) floor.push_back(a.floor()), ratio.push_back(a - a.floor());
  const auto weight = [&](size_t d, int k) {
    if (taps == 2) return k == 0 ? 1 - ratio[d] : ratio[d];
    const Tensor away = (ratio[d] - double(k - 1)).abs();
    const double a = -0.75;
    return k == 1 || k == 2 ? ((a + 2) * away - (a + 3)) * away * away + 1
                            : ((a * away - 5 * a) * away + 8 * a) * away - 4 * a;
  };
  int all = 1;
  for (size_t d = 0; d < at.size(); d++) all *= taps;
  Tensor sum;
  for (int c = 0; c < all; c++) {
    std::vector<Tensor> place;
    Tensor w;
    int rest = c;
    for (size_t d = 0; d < at.size(); d++, rest /= taps) {
      const int k = rest % taps;
      place.push_back(floor[d] + double(taps == 2 ? k : k - 1));
      const Tensor each = weight(d, k);
      w = w.defined() ? w * each : each;
    }
    const Tensor term = pixels(n, x, place, outside, border) * w.unsqueeze(1);
    sum = sum.defined() ? sum + term : term;
  }
  return sum;
}

} // namespace

void GridSample(Node& n) {
  const Tensor x = n.in(0), grid = n.in(1);
  const auto extents = n.extents(x), points = n.extents(grid);
  if (extents.size() < 3 || points.size() != extents.size() || points.back() + 2 != int64_t(extents.size()))
    n.refuse(fmt::format("has a grid {} for {}: [batch, sizes.., a place for each size] is expected",
                         luminal::to_string(grid.shape()), luminal::to_string(x.shape())));
  const size_t axes = extents.size() - 2;
  const bool corners = n.integer("align_corners", 0) != 0;
  std::string mode = n.one_of("mode", "linear", {"linear", "bilinear", "nearest", "cubic", "bicubic"});
  if (mode == "bilinear") mode = "linear";
  if (mode == "bicubic") mode = "cubic";
  const std::string padding = n.one_of("padding_mode", "zeros", {"zeros", "border", "reflection"});
  const Outside outside = padding == "zeros"    ? Outside::zeros
                          : padding == "border" ? Outside::border
                                                : Outside::reflection;
  std::vector<Tensor> at;
  std::vector<std::pair<double, double>> border;
  int64_t count = 1;
  for (size_t d = 1; d + 1 < points.size(); d++) count *= points[d];
  const Tensor list = grid.cast(DType::f32).reshape({points[0], count, int64_t(axes)});
  for (size_t d = 0; d < axes; d++) {
    const auto size = double(extents[d + 2]);
    const Tensor g = list.select(-1, int64_t(axes - 1 - d)); // the last axis comes first
    Tensor place = corners ? (g + 1) / 2 * (size - 1) : ((g + 1) * size - 1) / 2;
    border.emplace_back(corners ? 0 : -0.5, corners ? size - 1 : size - 0.5);
    if (mode == "nearest") place = place.round();
    const Tensor away = (place < border[d].first) | (place > border[d].second);
    if (outside == Outside::border) place = select(away, clip(place, 0, size - 1), place);
    if (outside == Outside::reflection)
      place = select(away, reflect(place, border[d].first, border[d].second), place);
    if (mode == "nearest" && outside == Outside::reflection) place = place.trunc();
    at.push_back(place);
  }
  const Tensor y = sampled(n, x, at, mode == "nearest" ? 1 : mode == "linear" ? 2 : 4, outside, border);
  Dims shape{extents[0], extents[1]};
  for (size_t d = 1; d + 1 < points.size(); d++) shape.push_back(points[d]);
  n.out(y.reshape(shape).cast(x.dtype()));
}
void AffineGrid(Node& n) {
  const Tensor theta = n.in(0);
  const auto size = n.ints(1);
  if (size.size() < 3)
    n.refuse(fmt::format("has a size [{}]: [batch, channels, sizes..] is expected", fmt::join(size, ", ")));
  const size_t axes = size.size() - 2;
  const bool corners = n.integer("align_corners", 0) != 0;
  Dims shape;
  for (size_t d = 0; d < axes; d++) shape.push_back(size[d + 2]);
  std::vector<Tensor> parts; // x first, that is the last axis; and 1
  for (size_t k = 0; k < axes; k++) {
    const size_t d = axes - 1 - k;
    const auto extent = double(size[d + 2]);
    const Tensor i = n.graph().iota(shape, [&](const Dims& at) { return at[d]; }).cast(theta.dtype());
    parts.push_back((corners ? (extent > 1 ? i * (2 / (extent - 1)) - 1 : i - 1) : (i * 2.0 + 1) / extent - 1)
                        .reshape({-1}));
  }
  parts.push_back(ones_like(parts[0]));
  const Tensor points = stack(parts, 0); // [axes + 1, p]
  Dims out{size[0]};
  out.insert(out.end(), shape.begin(), shape.end());
  out.push_back(int64_t(axes));
  n.out(theta.matmul(points).transpose(-1, -2).reshape(out).cast(theta.dtype()));
}
namespace {
/// Regions [r, 4] of x [r, c, h, w], `samples` places an axis in each of the bins.
Tensor aligned(Node& n, const Tensor& x, const Tensor& rois, std::array<int64_t, 2> bins,
               std::array<int64_t, 2> samples, bool half_pixel, bool average) {
  const auto extents = n.extents(x);
  std::array<Tensor, 2> low, high, fraction, valid;
  for (size_t d = 0; d < 2; d++) { // height, width
    const auto size = double(extents[d + 2]);
    const double shift = half_pixel ? 0.5 : 0, scale = n.number("spatial_scale", 1);
    const Tensor begin = rois.select(1, int64_t(1 - d)) * scale - shift,
                 end = rois.select(1, int64_t(3 - d)) * scale - shift;
    Tensor length = end - begin;
    if (!half_pixel) length = maximum(length, 1.0);
    const int64_t count = bins[d] * samples[d];
    const Tensor step =
        n.graph().arange(Dim(count)).cast(DType::f32) + 0.5; // samples are evenly spaced over all bins
    Tensor at = begin.unsqueeze(1) + step.unsqueeze(0) * (length / double(count)).unsqueeze(1);
    valid[d] = (at >= -1.0) & (at <= size);
    at = maximum(at, 0.0);
    Tensor l = at.floor();
    const Tensor last = l >= size - 1;
    l = select(last, full_like(l, size - 1), l);
    high[d] = select(last, l, l + 1);
    fraction[d] = select(last, zeros_like(at), at - l);
    low[d] = l;
  }
  const int64_t rows = bins[0] * samples[0], columns = bins[1] * samples[1];
  const auto grid = [&](const Tensor& t, bool row) {
    const Tensor wide = row ? t.unsqueeze(2).expand({t.dim(0), rows, columns})
                            : t.unsqueeze(1).expand({t.dim(0), rows, columns});
    return wide.reshape({t.dim(0), rows * columns});
  };
  const Tensor inside = (grid(valid[0], true) & grid(valid[1], false)).unsqueeze(1);
  std::vector<Tensor> corners;
  for (int c = 0; c < 4; c++) {
    const Tensor y = grid(c < 2 ? low[0] : high[0], true), column = grid(c % 2 ? high[1] : low[1], false);
    const Tensor fy = grid(fraction[0], true), fx = grid(fraction[1], false);
    const Tensor weight = (c < 2 ? 1 - fy : fy) * (c % 2 ? fx : 1 - fx);
    const Tensor v = pixels(n, x, {y, column}, Outside::border, {}) * weight.unsqueeze(1);
    corners.push_back(select(inside, v, zeros_like(v)));
  }
  Tensor all = average ? corners[0] + corners[1] + corners[2] + corners[3]
                       : maximum(maximum(corners[0], corners[1]), maximum(corners[2], corners[3]));
  all = all.reshape({x.dim(0), x.dim(1), bins[0], samples[0], bins[1], samples[1]});
  return average ? all.mean({3, 5}) : all.max({3, 5});
}
} // namespace
void RoiAlign(Node& n) {
  const Tensor x = n.in(0), rois = n.in(1).cast(DType::f32);
  const bool half =
      n.one_of("coordinate_transformation_mode", n.opset() < 16 ? "output_half_pixel" : "half_pixel",
               {"half_pixel", "output_half_pixel"}) == "half_pixel";
  const std::string mode = n.one_of("mode", "avg", {"avg", "max"});
  const std::array<int64_t, 2> bins{n.integer("output_height", 1), n.integer("output_width", 1)};
  const int64_t ratio = n.integer("sampling_ratio", 0);
  if (bins[0] < 1 || bins[1] < 1)
    n.refuse(fmt::format("has an output of {} x {}, at least 1 x 1 is expected", bins[0], bins[1]));
  const Tensor chosen = x.gather(n.in(2).cast(DType::i64));
  if (ratio > 0)
    return n.out(aligned(n, chosen, rois, bins, {ratio, ratio}, half, mode == "avg").cast(x.dtype()));
  // How many places a bin has depends on the size of its region.
  const auto numbers = n.numbers(1);
  const double scale = n.number("spatial_scale", 1);
  std::vector<Tensor> parts;
  for (size_t r = 0; r * 4 < numbers.size(); r++) {
    std::array<int64_t, 2> samples{};
    for (size_t d = 0; d < 2; d++) {
      double length = (numbers[r * 4 + 3 - d] - numbers[r * 4 + 1 - d]) * scale;
      if (!half) length = std::max(length, 1.0);
      samples[d] = std::max<int64_t>(1, int64_t(std::ceil(length / double(bins[d]))));
    }
    const auto row = int64_t(r);
    parts.push_back(aligned(n, chosen.slice(0, row, row + 1), rois.slice(0, row, row + 1), bins, samples,
                            half, mode == "avg"));
  }
  n.out(concat(parts, 0).cast(x.dtype()));
}
void DeformConv(Node& n) {
  const Tensor x = n.in(0), weight = n.in(1), offset = n.in(2);
  const auto in = n.extents(x), w = n.extents(weight), out = n.extents(offset);
  if (in.size() != 4 || w.size() != 4 || out.size() != 4)
    n.refuse(fmt::format("of {} by {} at {} is not supported: all must have 4 axes",
                         luminal::to_string(x.shape()), luminal::to_string(weight.shape()),
                         luminal::to_string(offset.shape())));
  const Windows windows = windows_of(n, x, 2, n.integers("kernel_shape", {w[2], w[3]}));
  if (n.integer("group", 1) < 1 || n.integer("offset_group", 1) < 1)
    n.refuse(fmt::format("has group = {} and offset_group = {}, at least 1 is expected",
                         n.integer("group", 1), n.integer("offset_group", 1)));
  const int64_t groups = n.integer("group", 1), parts = n.integer("offset_group", 1), batch = in[0],
                channels = in[1];
  const int64_t kernel = windows.kernel[0] * windows.kernel[1], rows = out[2], columns = out[3];
  const Tensor moved = offset.reshape({batch * parts, kernel, 2, rows, columns});
  std::vector<Tensor> at;
  for (size_t d = 0; d < 2; d++) {
    const Tensor base = n.graph().iota({kernel, rows, columns}, [&](const Dims& i) {
      const Dim tap = d == 0 ? i[0] / Dim(windows.kernel[1]) : i[0] % Dim(windows.kernel[1]);
      return i[1 + d] * Dim(windows.stride[d]) + tap * Dim(windows.dilation[d]) - Dim(windows.before[d]);
    });
    at.push_back((moved.select(2, int64_t(d)) + base.cast(offset.dtype()))
                     .reshape({batch * parts, kernel * rows * columns}));
  }
  Tensor values =
      sampled(n, x.reshape({batch * parts, channels / parts, in[2], in[3]}), at, 2, Outside::zeros, {});
  values = values.reshape({batch, parts, channels / parts, kernel, rows * columns});
  if (n.has(4)) values = values * n.in(4).reshape({batch, parts, 1, kernel, rows * columns});
  values = values.reshape({batch, groups, channels / groups * kernel, rows * columns});
  const Tensor matrix = weight.reshape({groups, w[0] / groups, w[1] * kernel});
  Tensor y = einsum("ngkp,gok->ngop", {values, matrix}).reshape({batch, w[0], rows, columns});
  if (n.has(3)) y = y + along(n.in(3), 1, 4);
  n.out(y.cast(x.dtype()));
}

} // namespace luminal::onnx::ops
