// models/onnx/ops_resize.cpp -- Resize and Upsample: along each axis a sum of elements with weights.
#include "luminal/nn_functions.h"
#include "luminal/random.h"
#include "models/onnx/operators.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace luminal::onnx::ops {
namespace {

// ---- sizes that are known: so are places and weights ----

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
/// The same where sizes may be expressions over dynamic dimensions; scale: as the node gives it.
struct AxisDims {
  Dim from, to;
  std::optional<double> scale = {};
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

// ---- the same for sizes that change: places and weights are computed ----

Tensor number_of(Node& n, Dim value) {
  return n.graph().iota({}, [&](const Dims&) { return value; }).cast(DType::f64);
}
/// source() for all elements of an axis: f64 [to].
Tensor sources(Node& n, const ResizeOptions& o, const AxisDims& a) {
  const Tensor i = n.graph().arange(a.to).cast(DType::f64), from = number_of(n, a.from),
               scale = a.scale ? number_tensor(n.graph(), *a.scale, DType::f64) : number_of(n, a.to) / from,
               width = a.scale ? from * scale : number_of(n, a.to), half = (i + 0.5) / scale - 0.5;
  if (o.coordinates == "align_corners")
    return select(equal(width, 1), zeros_like(i), i * (from - 1) / (width - 1));
  if (o.coordinates == "asymmetric") return i / scale;
  if (o.coordinates == "tf_half_pixel_for_nn") return (i + 0.5) / scale;
  if (o.coordinates == "pytorch_half_pixel") return select(equal(width, 1), zeros_like(i) - 0.5, half);
  if (o.coordinates == "half_pixel_symmetric") return from / 2 * (1 - number_of(n, a.to) / width) + half;
  return half;
}
Tensor cubic(const Tensor& x, double a) {
  return select(x <= 1, ((a + 2) * x - (a + 3)) * x * x + 1, ((a * x - 5 * a) * x + 8 * a) * x - 4 * a);
}
Tensor resize_axis(Node& n, const Tensor& x, int axis, const AxisDims& a, const ResizeOptions& o) {
  const Tensor at = sources(n, o, a), left = at.ceil() - 1, ratio = at - left,
               last = number_of(n, a.from) - 1;
  const auto taken = [&](const Tensor& place) {
    return x.index_select(axis, minimum(maximum(place, 0), last).cast(DType::i64));
  };
  if (o.mode == "nearest") {
    Tensor right = equal(ratio, 1);
    if (o.nearest == "round_prefer_floor") right = right | (ratio > 0.5);
    if (o.nearest == "round_prefer_ceil") right = ratio >= 0.5;
    if (o.nearest == "ceil") right = ratio > 0;
    return taken(select(right, left + 1, left));
  }
  const int taps = o.mode == "cubic" ? 4 : 2;
  std::vector<Tensor> places, weights;
  Tensor sum;
  for (int k = 0; k < taps; k++) {
    const int away = k + 1 - taps / 2;
    const Tensor place = left + double(away), off = (double(away) - ratio).abs();
    Tensor weight = taps == 4 ? cubic(off, o.cubic_a) : 1 - off;
    if (o.exclude_outside) weight = select((place < 0) | (place > last), zeros_like(weight), weight);
    sum = sum.defined() ? sum + weight : weight;
    places.push_back(place), weights.push_back(weight);
  }
  Tensor y;
  for (size_t k = 0; k < places.size(); k++) {
    const Tensor weight = (o.exclude_outside ? weights[k] / sum : weights[k]).cast(x.dtype());
    const Tensor term = taken(places[k]) * along(weight, axis, x.rank());
    y = y.defined() ? y + term : term;
  }
  return y;
}
/// floor(extent * scale) of a scale that is a fraction of small numbers.
Dim scaled(Node& n, const Tensor& x, int axis, double scale) {
  for (int64_t parts = 1; parts <= 64; parts++)
    if (const double times = scale * double(parts); times == std::floor(times))
      return x.dim(axis) * Dim(int64_t(times)) / Dim(parts);
  n.refuse(
      fmt::format("scales a size that changes, {} along axis {}, by {}, which is not a fraction of small "
                  "numbers: OnnxOptions::shapes or dims fix the size",
                  luminal::to_string(x.shape()), axis, scale));
}

void resize(Node& n, const ResizeOptions& o, const std::vector<int>& axes, const std::vector<double>& scales,
            const Dims& sizes, const std::vector<double>& roi) {
  Tensor x = n.in(0);
  const std::string policy =
      n.one_of("keep_aspect_ratio_policy", "stretch", {"stretch", "not_larger", "not_smaller"});
  // What weighs over windows, crops or keeps a ratio is computed for known sizes only.
  const bool fixed =
      o.antialias || o.coordinates == "tf_crop_and_resize" || (!sizes.empty() && policy != "stretch");
  std::vector<int64_t> extents, wanted;
  if (fixed) extents = n.extents(x);
  if (fixed && !sizes.empty()) wanted = n.ints(3);
  std::vector<AxisDims> list;
  for (size_t i = 0; i < axes.size(); i++) {
    AxisDims a{x.dim(axes[i]), x.dim(axes[i])};
    if (sizes.empty()) a.scale = scales[i];
    if (!sizes.empty())
      a.to = sizes[i];
    else if (a.from.is_constant())
      a.to = int64_t(std::floor(scales[i] * double(a.from.value())));
    else
      a.to = scaled(n, x, axes[i], scales[i]);
    list.push_back(a);
  }
  std::optional<double> common; // the scale of all axes, where they keep their ratio
  if (!sizes.empty() && policy != "stretch")
    for (size_t i = 0; i < axes.size(); i++) {
      const double each = double(wanted[i]) / double(extents[size_t(axes[i])]);
      if (!common || (policy == "not_larger" ? each < *common : each > *common)) common = each;
    }
  const DType type = x.dtype();
  if (o.mode != "nearest" && !is_float_type(type)) x = x.cast(DType::f32);
  for (size_t i = 0; i < axes.size(); i++) {
    const AxisDims& dims = list[i];
    if (!dims.from.is_constant() || !dims.to.is_constant()) {
      if (!(dims.from == dims.to && dims.scale.value_or(1) == 1)) x = resize_axis(n, x, axes[i], dims, o);
      continue;
    }
    AxisSize a;
    a.from = dims.from.value(), a.to = dims.to.value();
    a.scale = dims.scale.value_or(double(a.to) / double(a.from));
    if (common) a.scale = *common, a.to = std::llround(*common * double(a.from));
    if (roi.size() == 2 * axes.size() && !roi.empty()) a.begin = roi[i], a.end = roi[i + axes.size()];
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
  Dims sizes;
  if (n.has(scale_input)) scales = n.numbers(scale_input);
  if (n.opset() >= 11 && n.has(3)) {
    sizes = n.dims(3);
    if (repeated(n, o, axes, {}, sizes)) return;
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

} // namespace luminal::onnx::ops
