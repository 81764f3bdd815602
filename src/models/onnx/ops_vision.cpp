// models/onnx/ops_vision.cpp -- elements at computed places: Resize, GridSample, RoiAlign, DeformConv.
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

// ---- Resize: along each axis a sum of elements with weights that are known ----

struct ResizeOptions {
  std::string mode, coordinates, nearest;
  double cubic_a = -0.75, extrapolation = 0;
  bool exclude_outside = false, antialias = false;
};
struct AxisSize {
  double scale = 1;
  int64_t from = 1, to = 1;
  double begin = 0, end = 1; // of the region of tf_crop_and_resize
};

double source(const ResizeOptions& o, const AxisSize& a, double x) {
  const double width = a.scale * double(a.from), last = double(a.from - 1);
  if (o.coordinates == "align_corners") return width == 1 ? 0 : x * last / (width - 1);
  if (o.coordinates == "asymmetric") return x / a.scale;
  if (o.coordinates == "tf_crop_and_resize")
    return (width == 1 ? (a.end - a.begin) * last / 2 : x * (a.end - a.begin) * last / (width - 1)) +
           a.begin * last;
  if (o.coordinates == "tf_half_pixel_for_nn") return (x + 0.5) / a.scale;
  if (o.coordinates == "pytorch_half_pixel" && width == 1) return -0.5;
  const double half = (x + 0.5) / a.scale - 0.5;
  if (o.coordinates == "half_pixel_symmetric") return double(a.from) / 2 * (1 - double(a.to) / width) + half;
  return half;
}
double cubic(double x, double a) {
  x = std::fabs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}
/// Weights of the elements around a place whose left neighbour is `ratio` away, 0 < ratio <= 1.
std::vector<double> tap_weights(const ResizeOptions& o, double ratio, double scale) {
  if (o.mode == "nearest") {
    const bool right = ratio == 1 || (o.nearest == "round_prefer_floor"  ? ratio > 0.5
                                      : o.nearest == "round_prefer_ceil" ? ratio >= 0.5
                                                                         : o.nearest == "ceil");
    return {right ? 0.0 : 1.0, right ? 1.0 : 0.0};
  }
  const double reach = o.mode == "cubic" ? 2 : 1, shrink = o.antialias ? std::min(scale, 1.0) : 1;
  const auto first = int64_t(std::floor(-reach / shrink)) + 1;
  std::vector<double> list;
  double sum = 0;
  for (int64_t i = first; i < 2 - first; i++) {
    const double at = shrink * (double(i) - ratio);
    list.push_back(o.mode == "cubic" ? cubic(at, o.cubic_a) : std::max(0.0, 1 - std::fabs(at)));
    sum += list.back();
  }
  if (o.antialias)
    for (double& w : list) w /= sum;
  return list;
}
Tensor resize_axis(Node& n, const Tensor& x, int axis, const AxisSize& a, const ResizeOptions& o) {
  std::vector<std::vector<int64_t>> places;
  std::vector<std::vector<double>> weights;
  std::vector<double> outside;
  for (int64_t i = 0; i < a.to; i++) {
    const double at = source(o, a, double(i));
    const double left = std::ceil(at) - 1;
    std::vector<double> w = tap_weights(o, at - left, a.scale);
    const auto taps = int64_t(w.size());
    places.resize(size_t(taps)), weights.resize(size_t(taps));
    double sum = 0;
    for (int64_t k = 0; k < taps; k++) {
      const int64_t place = int64_t(left) + 1 - taps / 2 + k;
      if (o.exclude_outside && (place < 0 || place >= a.from)) w[size_t(k)] = 0;
      sum += w[size_t(k)];
      places[size_t(k)].push_back(std::clamp<int64_t>(place, 0, a.from - 1));
    }
    for (int64_t k = 0; k < taps; k++)
      weights[size_t(k)].push_back(o.exclude_outside ? w[size_t(k)] / sum : w[size_t(k)]);
    outside.push_back(o.coordinates == "tf_crop_and_resize" && (at < 0 || at > double(a.from - 1)));
  }
  const auto list = [&](const std::vector<int64_t>& at) {
    return n.graph().constant(at, {a.to}, DType::i64);
  };
  Tensor y;
  if (o.mode == "nearest") {
    std::vector<int64_t> at;
    for (size_t i = 0; i < places[0].size(); i++)
      at.push_back(weights[1][i] != 0 ? places[1][i] : places[0][i]);
    y = x.index_select(axis, list(at));
  } else
    for (size_t k = 0; k < places.size(); k++) {
      if (std::all_of(weights[k].begin(), weights[k].end(), [](double w) { return w == 0; })) continue;
      const Tensor w = along(n.graph().constant(weights[k], {a.to}, x.dtype()), axis, x.rank());
      const Tensor term = x.index_select(axis, list(places[k])) * w;
      y = y.defined() ? y + term : term;
    }
  if (std::any_of(outside.begin(), outside.end(), [](double v) { return v != 0; })) {
    const Tensor out = along(n.graph().constant(outside, {a.to}, DType::f32), axis, x.rank()) > 0;
    y = select(out, full_like(y, o.extrapolation), y);
  }
  return y;
}
void resize(Node& n, const ResizeOptions& o, const std::vector<int>& axes, const std::vector<double>& scales,
            const std::vector<int64_t>& sizes, const std::vector<double>& roi) {
  Tensor x = n.in(0);
  const auto extents = n.extents(x);
  std::vector<AxisSize> list;
  for (size_t i = 0; i < axes.size(); i++) {
    AxisSize a;
    a.from = extents[size_t(axes[i])];
    a.scale = sizes.empty() ? scales.at(i) : double(sizes.at(i)) / double(a.from);
    a.to = sizes.empty() ? int64_t(std::floor(a.scale * double(a.from))) : sizes[i];
    if (!roi.empty() && roi.size() == 2 * axes.size()) a.begin = roi[i], a.end = roi[i + axes.size()];
    list.push_back(a);
  }
  const std::string policy =
      n.one_of("keep_aspect_ratio_policy", "stretch", {"stretch", "not_larger", "not_smaller"});
  if (!sizes.empty() && policy != "stretch") {
    double scale = list.at(0).scale;
    for (const AxisSize& a : list)
      scale = policy == "not_larger" ? std::min(scale, a.scale) : std::max(scale, a.scale);
    for (AxisSize& a : list) a.scale = scale, a.to = std::llround(scale * double(a.from));
  }
  const DType type = x.dtype();
  if (o.mode != "nearest" && !is_float_type(type)) x = x.cast(DType::f32);
  for (size_t i = 0; i < axes.size(); i++) {
    const AxisSize& a = list[i];
    if (a.to < 0 || (a.to > 0 && a.from == 0))
      n.refuse(fmt::format("makes {} elements of {} along axis {}", a.to, a.from, axes[i]));
    if (a.to == 0) {
      x = x.narrow(axes[i], 0, 0);
      continue;
    }
    if (a.to == a.from && std::fabs(a.scale - 1) < 1e-9 && a.begin == 0 && a.end == 1) continue;
    x = resize_axis(n, x, axes[i], a, o);
  }
  n.out(x.dtype() == type ? x : to_element_type(x, ElementType::f32, n.type(0), true));
}

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

namespace {
/// Whole multiples of sizes that change, by the nearest element: each is repeated. False for others.
bool repeated(Node& n, const ResizeOptions& o, const std::vector<int>& axes,
              const std::vector<double>& scales, const Dims& sizes) {
  const Tensor x = n.in(0);
  const Dims shape = x.shape();
  const bool exact = (o.coordinates == "asymmetric" && o.nearest == "floor") ||
                     (o.coordinates == "half_pixel" && o.nearest.starts_with("round"));
  if (o.mode != "nearest" || !exact || (sizes.empty() ? scales.size() : sizes.size()) != axes.size() ||
      std::all_of(shape.begin(), shape.end(), [](Dim extent) { return extent.is_constant(); }))
    return false;
  Tensor y = x;
  for (size_t i = 0; i < axes.size(); i++) {
    int64_t times = 0;
    for (int64_t t = 1; t <= 32 && times == 0; t++)
      if (sizes.empty() ? scales[i] == double(t) : shape[size_t(axes[i])] * Dim(t) == sizes[i]) times = t;
    if (times == 0) return false;
    if (times > 1) y = y.repeat_interleave(times, axes[i]);
  }
  n.out(y);
  return true;
}
} // namespace

void Resize(Node& n) {
  ResizeOptions o;
  o.mode = n.one_of("mode", "nearest", {"nearest", "linear", "cubic"});
  o.coordinates = n.one_of("coordinate_transformation_mode", n.opset() < 11 ? "asymmetric" : "half_pixel",
                           {"half_pixel", "half_pixel_symmetric", "pytorch_half_pixel", "align_corners",
                            "asymmetric", "tf_half_pixel_for_nn", "tf_crop_and_resize"});
  o.nearest = n.one_of("nearest_mode", n.opset() < 11 ? "floor" : "round_prefer_floor",
                       {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"});
  o.cubic_a = n.number("cubic_coeff_a", -0.75);
  o.extrapolation = n.number("extrapolation_value", 0);
  o.exclude_outside = n.integer("exclude_outside", 0) != 0;
  o.antialias = n.integer("antialias", 0) != 0 && o.mode != "nearest";
  const int rank = n.in(0).rank();
  std::vector<int> axes;
  for (const int64_t axis : n.integers("axes")) axes.push_back(axis_in(n, axis, rank));
  if (axes.empty())
    for (int d = 0; d < rank; d++) axes.push_back(d);
  const size_t scale_input = n.opset() < 11 ? 1 : 2;
  std::vector<double> scales, roi;
  std::vector<int64_t> sizes;
  if (n.has(scale_input)) scales = n.numbers(scale_input);
  if (n.opset() >= 11 && n.has(3)) {
    const auto wanted = n.known_dims(3);
    if (wanted && repeated(n, o, axes, {}, wanted->list)) return;
    sizes = n.ints(3);
  } else if (repeated(n, o, axes, scales, {})) {
    return;
  }
  if (o.coordinates == "tf_crop_and_resize" && n.has(1)) roi = n.numbers(1);
  if ((sizes.empty() ? scales.size() : sizes.size()) != axes.size())
    n.refuse(fmt::format("has {} scales and {} sizes for {} axes: one of them is expected for each",
                         scales.size(), sizes.size(), axes.size()));
  resize(n, o, axes, scales, sizes, roi);
}
void Upsample(Node& n) {
  ResizeOptions o;
  o.mode = n.one_of("mode", "nearest", {"nearest", "linear"});
  o.coordinates = "asymmetric";
  o.nearest = "floor";
  const auto scales = n.opset() < 9 ? n.reals("scales") : n.numbers(1);
  std::vector<int> axes;
  for (int d = 0; d < n.in(0).rank(); d++) axes.push_back(d);
  if (scales.size() != axes.size())
    n.refuse(fmt::format("has {} scales for {} axes: one is expected for each", scales.size(), axes.size()));
  if (!repeated(n, o, axes, scales, {})) resize(n, o, axes, scales, {}, {});
}
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
