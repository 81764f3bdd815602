// models/onnx/ops_signal.cpp -- windows of signals and Fourier transforms.
#include "luminal/nn_functions.h"
#include "luminal/random.h"
#include "models/onnx/operators.h"
#include <cmath>
#include <fmt/format.h>
#include <numbers>

namespace luminal::onnx::ops {
namespace {

/// a0 - a1 cos(2 pi i / d) + a2 cos(4 pi i / d)
void window(Node& n, double a0, double a1, double a2) {
  const int64_t size = n.integer_at(0);
  const double divisor = n.integer("periodic", 1) ? double(size) : double(size - 1);
  const auto type = ElementType(int32_t(n.integer("output_datatype", 1)));
  const DType dtype = carrier(type).value_or(DType::f32);
  std::vector<double> values;
  for (int64_t i = 0; i < size; i++) {
    const double angle = 2 * std::numbers::pi * double(i) / divisor;
    values.push_back(a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle));
  }
  n.out(0, n.graph().constant(values, {size}, dtype), type);
}

/// Along the last axis but one of x [.., n, 1 or 2], from and to pairs in the last axis.
Tensor transform(Node& n, Tensor x, int axis, std::optional<int64_t> size, bool inverse, bool one_sided) {
  const auto type = x.dtype();
  const int pair = x.rank() - 1;
  const int64_t have = n.extents(x)[size_t(axis)];
  const int64_t count = size.value_or(inverse && one_sided ? 2 * (have - 1) : have);
  const bool complex = x.dim(pair) == Dim(2);
  if (inverse && one_sided) { // half a spectrum makes real numbers
    if (count / 2 + 1 > have) x = x.pad(axis, 0, count / 2 + 1 - have);
    if (count / 2 + 1 < have) x = x.slice(axis, 0, count / 2 + 1);
    x = x.movedim({axis}, {pair - 1});
    return irfft(x, count).unsqueeze(-1).movedim({pair - 1}, {axis}).cast(type);
  }
  if (count > have) x = x.pad(axis, 0, count - have);
  if (count < have) x = x.slice(axis, 0, count);
  x = x.movedim({axis}, {pair - 1});
  Tensor y;
  if (!complex && !inverse) {
    const Tensor line = x.squeeze({pair});
    y = one_sided ? rfft(line) : fft(concat({x, zeros_like(x)}, -1));
  } else {
    if (!complex) x = concat({x, zeros_like(x)}, -1);
    y = inverse ? ifft(x) : fft(x);
    if (one_sided) y = y.slice(pair - 1, 0, count / 2 + 1);
  }
  return y.movedim({pair - 1}, {axis}).cast(type);
}

} // namespace

void HannWindow(Node& n) { window(n, 0.5, 0.5, 0); }
void HammingWindow(Node& n) { window(n, 25.0 / 46, 1 - 25.0 / 46, 0); }
void BlackmanWindow(Node& n) { window(n, 0.42, 0.5, 0.08); }

void DFT(Node& n) {
  const Tensor x = n.in(0);
  std::optional<int64_t> size;
  if (n.has(1)) size = n.integer_at(1);
  const int64_t axis = n.opset() < 20 ? n.integer("axis", 1) : n.has(2) ? n.integer_at(2) : -2;
  n.out(transform(n, x, axis_in(n, axis, x.rank()), size, n.integer("inverse", 0) != 0,
                  n.integer("onesided", 0) != 0));
}
void STFT(Node& n) {
  const Tensor signal = n.in(0); // [batch, n, 1 or 2] or [batch, n]
  const Tensor x = signal.rank() == 2 ? signal.unsqueeze(-1) : signal;
  const int64_t step = n.integer_at(1);
  int64_t frame = n.has(3) ? n.integer_at(3) : n.has(2) ? n.extents(n.in(2)).at(0) : 0;
  if (frame < 1 || step < 1)
    n.refuse(
        fmt::format("has frames of {} elements in steps of {}, at least 1 is expected of both", frame, step));
  Tensor frames = x.windows(1, frame, step).transpose(-1, -2); // [batch, frames, frame, 1 or 2]
  if (n.has(2)) frames = frames * n.in(2).reshape({n.in(2).dim(0), 1});
  n.out(transform(n, frames, 2, {}, false, n.integer("onesided", 1) != 0));
}
void MelWeightMatrix(Node& n) {
  const auto bins = n.integer_at(0), length = n.integer_at(1), rate = n.integer_at(2);
  if (bins < 1 || length < 1 || rate < 1)
    n.refuse(fmt::format("has {} bins, a length of {} and a rate of {}: at least 1 is expected of each", bins,
                         length, rate));
  const double low = n.numbers(3).at(0), high = n.numbers(4).at(0);
  const auto type = ElementType(int32_t(n.integer("output_datatype", 1)));
  const int64_t spectrum = length / 2 + 1;
  const auto mel = [](double hz) { return 2595 * std::log10(1 + hz / 700); };
  std::vector<int64_t> edges;
  const double from = mel(low), step = (mel(high) - from) / double(bins + 2);
  for (int64_t i = 0; i < bins + 2; i++) {
    const double hz = 700 * (std::pow(10, (double(i) * step + from) / 2595) - 1);
    edges.push_back(int64_t(std::floor(double(length + 1) * hz / double(rate))));
  }
  std::vector<double> values(size_t(spectrum * bins), 0);
  const auto put = [&](int64_t row, int64_t column, double value) {
    if (row >= 0 && row < spectrum) values[size_t(row * bins + column)] = value;
  };
  for (int64_t i = 0; i < bins; i++) {
    const int64_t lower = edges[size_t(i)], center = edges[size_t(i + 1)], upper = edges[size_t(i + 2)];
    if (center == lower)
      put(center, i, 1);
    else
      for (int64_t j = lower; j <= center; j++) put(j, i, double(j - lower) / double(center - lower));
    if (upper > center)
      for (int64_t j = center; j < upper; j++) put(j, i, double(upper - j) / double(upper - center));
  }
  n.out(0, n.graph().constant(values, {spectrum, bins}, carrier(type).value_or(DType::f32)), type);
}

} // namespace luminal::onnx::ops
