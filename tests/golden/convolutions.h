// golden/convolutions.h -- terms of convolutions over any number of axes, of f32 and of narrower
// numbers that are converted first.
#pragma once
#include "ir/dtype.h"
#include <array>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <random>
#include <string>
#include <vector>

namespace luminal::kernel {

constexpr char kept_names[] = "ijk", summed_names[] = "rst"; ///< of the spatial axes

/// One spatial axis.
struct WindowAxis {
  int64_t size = 9, kernel = 3, stride = 1, gap = 1, pad = 1;
  int64_t out() const { return (size + 2 * pad - (kernel - 1) * gap - 1) / stride + 1; }
};
struct WindowedSum {
  int64_t images = 1, channels = 4, results = 32;
  std::vector<WindowAxis> axes;
  int64_t panel = 0; ///< columns of the panels of the weight; 0: as it is
  DType dtype = DType::f32;
  bool channels_last = false; ///< of the images
  bool results_last = false;  ///< the same of what is made of them
  bool backwards = false;     ///< images are read from their ends
};

inline std::string term_of(const WindowedSum& c) {
  std::vector<std::string> sizes, kernels, kept{fmt::format("b: {}, o: {}", c.images, c.results)},
      summed{fmt::format("c: {}", c.channels)}, places, conditions, windows;
  for (size_t d = 0; d < c.axes.size(); d++) {
    const WindowAxis& a = c.axes[d];
    sizes.push_back(fmt::format("{}", a.size));
    kernels.push_back(fmt::format("{}", a.kernel));
    kept.push_back(fmt::format("{}: {}", kept_names[d], a.out()));
    summed.push_back(fmt::format("{}: {}", summed_names[d], a.kernel));
    windows.push_back(std::string(1, summed_names[d]));
    places.push_back(
        fmt::format("{}*{} + {}*{} - {}", a.stride, kept_names[d], a.gap, summed_names[d], a.pad));
    if (c.backwards) places.back() = fmt::format("{} - ({})", a.size - 1, places.back());
    if (a.pad) conditions.push_back(fmt::format("0 <= {0} and {0} < {1}", places.back(), a.size));
  }
  const auto with_channels = [&](const std::string& channels, const std::vector<std::string>& others) {
    return c.channels_last ? fmt::format("{}, {}", fmt::join(others, ", "), channels)
                           : fmt::format("{}, {}", channels, fmt::join(others, ", "));
  };
  const bool converts = c.dtype != DType::f32;
  std::string out = "b, o", over = "c";
  for (size_t d = 0; d < c.axes.size(); d++) {
    out += fmt::format(", {}", kept_names[d]);
    over += fmt::format(", {}", summed_names[d]);
  }
  std::string last; // the view with the channels behind
  if (c.results_last) {
    std::string axes = fmt::format("b: {}", c.images);
    for (size_t d = 0; d < c.axes.size(); d++)
      axes += fmt::format(", {}: {}", kept_names[d], c.axes[d].out());
    last = fmt::format("  %l = view %g [{}, o: {}] -> [{}]\n", axes, c.results, out);
  }
  return fmt::format(
      "fn @conv(%X: {type}[{images}, {shape}], %W: {type}[{weight}]) {{\n{cast}  %x = view %X{f} "
      "[{axes}] "
      "-> [b, {places}]{where}\n  %w = view %W{f} [{axes}] -> [{read}]\n  %p = mul %x, %w\n  %f = fold "
      "[{axes}] over "
      "[{over}] {{ sum %p[{out}, {over}] }}\n  %g = get %f, 0\n{last}  %y = abs %{y}\n  return y = %y\n}}\n",
      fmt::arg("type", to_string(c.dtype)), fmt::arg("images", c.images),
      fmt::arg("shape", with_channels(std::to_string(c.channels), sizes)),
      fmt::arg("weight", c.panel
                             ? fmt::format("{}, {}, {}, {}", (c.results + c.panel - 1) / c.panel, c.channels,
                                           fmt::join(kernels, ", "), c.panel)
                             : fmt::format("{}, {}, {}", c.results, c.channels, fmt::join(kernels, ", "))),
      fmt::arg("read", c.panel ? fmt::format("o // {0}, c, {1}, o % {0}", c.panel, fmt::join(windows, ", "))
                               : fmt::format("o, c, {}", fmt::join(windows, ", "))),
      fmt::arg("cast", converts ? "  %Xf = cast f32 %X\n  %Wf = cast f32 %W\n" : ""),
      fmt::arg("f", converts ? "f" : ""),
      fmt::arg("axes", fmt::format("{}, {}", fmt::join(kept, ", "), fmt::join(summed, ", "))),
      fmt::arg("places", with_channels("c", places)),
      fmt::arg("where", conditions.empty() ? "" : fmt::format(" where {}", fmt::join(conditions, " and "))),
      fmt::arg("last", last), fmt::arg("y", c.results_last ? "l" : "g"), fmt::arg("over", over),
      fmt::arg("out", out));
}

/// Of one to three axes with steps, gaps and zeros around, of f32, bf16 or f16; the weight as it is
/// or in panels of so many columns.
inline WindowedSum random_windows(std::mt19937_64& random, int64_t panel) {
  const auto in = [&](int64_t low, int64_t high) {
    return low + int64_t(random() % uint64_t(high - low + 1));
  };
  WindowedSum c{.images = in(1, 4) > 2 ? in(2, 3) : 1,
                .channels = in(1, 9),
                .results = in(1, 80),
                .axes = {},
                .panel = in(0, 1) ? panel : 0,
                .dtype = std::array{DType::f32, DType::bf16, DType::f16}[size_t(in(0, 2))],
                .channels_last = in(0, 3) == 0,
                .results_last = in(0, 3) == 0,
                .backwards = in(0, 3) == 0};
  const int64_t axes = in(1, 3), all_kernel = in(1, 3), stride = in(1, 2), pad = in(0, 2);
  for (int64_t d = 0; d < axes; d++) {
    const bool last = d + 1 == axes;
    c.axes.push_back({.size = last && in(0, 2) == 0 ? in(16, 40) : in(5, axes > 2 ? 8 : 14),
                      .kernel = in(0, 4) == 0 ? 1 : all_kernel,
                      .stride = stride,
                      .gap = in(0, 3) == 0 ? 2 : 1,
                      .pad = in(0, 4) == 0 ? 0 : pad});
  }
  return c;
}

} // namespace luminal::kernel
