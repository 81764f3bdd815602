// backend/narrow_windows_test.cpp -- convolutions of bf16: their sums take dot instructions, and the
// results are those of the interpreter.
#include "choose/contraction.h"
#include "composed_modules.h"
#include "luminal/luminal.h"
#include <fmt/format.h>
#include <random>

namespace luminal::narrow_windows_test {
namespace {

/// The first size of each pair is that of the images, the other one that of the windows.
struct Shape {
  std::vector<std::pair<int64_t, int64_t>> sizes;
  int64_t batch = 1, in = 1, out = 1, groups = 1, stride = 1, padding = 0, dilation = 1;
  bool weight = true, bias = false, residual = false, transposed = false;
  bool channels_last = false, last_of_weights = false, last_of_results = false; // of images
};

Module module_of(const Shape& s) {
  Graph g;
  std::vector<Dim> image{s.batch, s.in}, window{s.out, s.in / s.groups};
  if (s.transposed) window = {s.in, s.out / s.groups};
  for (const auto& [size, extent] : s.sizes) image.push_back(size), window.push_back(extent);
  if (s.channels_last) image = {s.batch, s.sizes[0].first, s.sizes[1].first, s.in};
  Tensor x = g.tensor(image, DType::bf16);
  if (s.channels_last) x = x.permute({0, 3, 1, 2});
  if (s.last_of_weights) window = {window[0], window[2], window[3], window[1]};
  Tensor w = s.weight ? g.weight("w", window, DType::bf16) : g.tensor(window, DType::bf16);
  if (s.last_of_weights) w = w.permute({0, 3, 1, 2});
  const Tensor b = s.bias ? g.weight("b", {s.out}, DType::bf16) : Tensor();
  Tensor y =
      s.transposed
          ? conv_transpose(
                x, w, b,
                {.stride = s.stride, .padding = s.padding, .dilation = s.dilation, .groups = s.groups})
          : conv(x, w, b,
                 {.stride = s.stride, .padding = s.padding, .dilation = s.dilation, .groups = s.groups});
  if (s.residual) y = (y + y.tanh()).relu();
  if (s.last_of_results) y = y.permute({0, 2, 3, 1});
  y.keep();
  return parse_module(g.to_string());
}

kernel::MachineLimits with_pairs() {
  kernel::MachineLimits limits = wide();
  limits.units = {"avx512.dpbf16"};
  return limits;
}

/// Do all kernels with a sum of products take the dot instruction?
bool takes_pairs(const Module& module) {
  bool any = false, all = true;
  each_kernel(module, with_pairs(), [&](const compile::PlannedKernel& kernel) {
    const auto problem = kernel.problem();
    ASSERT_TRUE(problem) << problem.error();
    const auto multiplies = [](const kernel::Stage& s) { return !kernel::factors_of(s).empty(); };
    if (std::ranges::none_of(problem->cone.stages, multiplies)) return;
    any = true;
    all &= kernel.schedule.find("avx512.dpbf16") != std::string::npos;
  });
  return any && all;
}

TEST(NarrowWindows, TakeDotInstructions) {
  const auto square = [](int64_t size, int64_t window, int64_t in, int64_t out) {
    return Shape{.sizes = {{size, window}, {size, window}}, .in = in, .out = out, .padding = window / 2};
  };
  std::vector<Shape> shapes{square(56, 3, 64, 64), square(28, 3, 128, 128), square(14, 3, 64, 256),
                            square(7, 3, 256, 64), square(32, 7, 3, 64),    square(28, 1, 64, 128),
                            square(14, 1, 32, 64), square(33, 5, 7, 32)};
  Shape step = square(28, 3, 64, 64);
  step.stride = 2;
  shapes.push_back(step);
  for (const Shape& shape : shapes)
    for (const bool weight : {true, false})
      for (const int64_t batch : {1, 4}) {
        Shape s = shape;
        s.weight = weight, s.batch = batch;
        const Module module = module_of(s);
        EXPECT_TRUE(takes_pairs(module)) << to_string(module);
      }
}

/// In whichever order images, weights that come with each call and results lie: in lanes.
TEST(NarrowWindows, InAnyOrderHaveLanes) {
  for (const auto& [size, in, out, batch, stride] : std::vector<std::array<int64_t, 5>>{{28, 64, 64, 1, 1},
                                                                                        {28, 128, 128, 4, 1},
                                                                                        {14, 256, 256, 1, 1},
                                                                                        {7, 512, 512, 1, 1},
                                                                                        {56, 64, 128, 1, 2},
                                                                                        {32, 32, 32, 2, 1}})
    for (int orders = 0; orders < 8; orders++) {
      Shape s{.sizes = {{size, 3}, {size, 3}}, .batch = batch, .in = in, .out = out, .stride = stride};
      s.padding = 1, s.weight = false, s.residual = true;
      s.channels_last = orders & 1, s.last_of_weights = orders & 2, s.last_of_results = orders & 4;
      const Module module = module_of(s);
      SCOPED_TRACE(to_string(module));
      EXPECT_TRUE(takes_pairs(module));
      each_kernel(module, with_pairs(), [&](const compile::PlannedKernel& kernel) {
        EXPECT_EQ(kernel.report.untiled, "") << kernel.schedule;
      });
    }
}

/// u8 images, i8 weights: sums of i32.
Module of_bytes(const Shape& s, bool two = false) {
  Graph g;
  const auto product = [&](const std::string& name) {
    std::vector<Dim> image{s.batch, s.in}, window{s.out, s.in / s.groups};
    for (const auto& [size, extent] : s.sizes) image.push_back(size), window.push_back(extent);
    const Tensor x = g.tensor(image, DType::u8), w = g.weight(name, window, DType::i8);
    return conv(x.cast(DType::i32), w.cast(DType::i32), Tensor(),
                {.stride = s.stride, .padding = s.padding, .dilation = s.dilation, .groups = s.groups});
  };
  Tensor y = product("w");
  if (two) y = (y.cast(DType::f32) * 0.5 + product("v").cast(DType::f32)).relu();
  y.keep();
  return parse_module(g.to_string());
}

/// Kernels with products, and those of them that take dot instructions.
std::pair<int, int> products_of(const Module& module) {
  kernel::MachineLimits limits = wide();
  limits.units = {"vnni.dpbusd"};
  std::pair<int, int> found{0, 0};
  each_kernel(module, limits, [&](const compile::PlannedKernel& kernel) {
    const auto problem = kernel.problem();
    ASSERT_TRUE(problem) << problem.error();
    const auto multiplies = [](const kernel::Stage& s) { return !kernel::factors_of(s).empty(); };
    if (std::ranges::none_of(problem->cone.stages, multiplies)) return;
    found.first++;
    found.second += kernel.schedule.find("vnni.dpbusd") != std::string::npos;
  });
  return found;
}

/// Whatever their windows and steps; two of them that meet in one sum are two kernels.
TEST(NarrowWindows, OfBytesTakeDotInstructions) {
  for (const int64_t size : {7, 14, 28, 56})
    for (const int64_t window : {1, 3, 5})
      for (const int64_t stride : {1, 2, 3})
        for (const int64_t batch : {1, 4})
          for (const auto& [in, out] :
               std::vector<std::pair<int64_t, int64_t>>{{64, 64}, {32, 256}, {256, 96}}) {
            Shape s{.sizes = {{size, window}, {size, window}}, .batch = batch, .in = in, .out = out};
            s.stride = stride, s.padding = window / 2;
            const int64_t side = (size + 2 * s.padding - window) / stride + 1;
            if (side * side < 32) continue; // words of weights are put together for few results
            EXPECT_EQ(products_of(of_bytes(s)), std::pair(1, 1))
                << fmt::format("{} x {} of {}, stride {}, {} -> {}", batch, window, size, stride, in, out);
          }
  for (const int64_t stride : {1, 2}) {
    const Shape s{.sizes = {{28, 1}, {28, 1}}, .in = 64, .out = 128, .stride = stride};
    EXPECT_EQ(products_of(of_bytes(s, true)), std::pair(2, 2)) << stride;
    expect_right(of_bytes({.sizes = {{9, 1}, {9, 1}}, .in = 16, .out = 20, .stride = stride}, true), 5);
  }
}

/// Pairs of weights that stay lie in panels, made at load.
TEST(NarrowWindows, ReadPairsOfWeightsFromPanels) {
  bool pairs = false;
  each_kernel(module_of({.sizes = {{14, 3}, {14, 3}}, .in = 64, .out = 256, .padding = 1}), with_pairs(),
              [&](const compile::PlannedKernel& kernel) {
                pairs |= kernel.schedule.find("unit_of_values") != std::string::npos &&
                         kernel.schedule.find("words2") == std::string::npos;
              });
  EXPECT_TRUE(pairs);
}

TEST(NarrowWindows, AreWhatTheInterpreterSays) {
  std::mt19937 random(11);
  const auto below = [&](int64_t n) { return int64_t(random() % uint64_t(n)); };
  for (int round = 0; round < 60; round++) {
    Shape s;
    const size_t axes = below(8) == 0 ? 1 : below(8) == 0 ? 3 : 2;
    for (size_t a = 0; a < axes; a++) s.sizes.push_back({1 + below(axes == 3 ? 9 : 20), 1 + below(4)});
    s.batch = 1 + below(3);
    s.groups = below(4) == 0 ? 1 + below(4) : 1;
    s.in = s.groups * (1 + below(12)), s.out = s.groups * (1 + below(below(2) ? 70 : 9));
    s.stride = 1 + below(3), s.padding = below(3), s.dilation = 1 + below(2);
    s.weight = below(4) > 0, s.bias = below(2), s.residual = below(2);
    s.channels_last = axes == 2 && below(3) == 0;
    s.last_of_weights = axes == 2 && below(3) == 0, s.last_of_results = axes == 2 && below(3) == 0;
    s.transposed = below(5) == 0;
    bool fits = true; // a window inside the padded image
    for (const auto& [size, window] : s.sizes)
      fits &= size + 2 * s.padding >= s.dilation * (window - 1) + 1 && s.padding <= s.dilation * (window - 1);
    if (!fits || (s.transposed && s.padding > 0)) continue;
    const Module module = module_of(s);
    SCOPED_TRACE(to_string(module));
    expect_right(module, unsigned(round));
    if (testing::Test::HasFailure()) return;
  }
}

} // namespace
} // namespace luminal::narrow_windows_test
