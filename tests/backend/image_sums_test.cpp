// backend/image_sums_test.cpp -- sums over windows that are larger than their image become sums over the
// image, with the same bits, infinite weights included.
#include "compile/image_sums.h"
#include "composed_modules.h"
#include "ir/naive_interp.h"
#include "luminal/luminal.h"
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <limits>

namespace luminal {
namespace {

struct Windows {
  std::vector<int64_t> image, window;
  int64_t batch = 2, in = 3, out = 5, groups = 1, stride = 1, padding = 0, dilation = 1;
  bool transposed = false;
  int64_t products = 0; ///< of one result and one channel after the change; 0: none
  DType dtype = DType::f32;
};

Module windows_module(const Windows& s, bool weight) {
  Graph g;
  Dims image{s.batch, s.in}, window{s.out, s.in / s.groups};
  if (s.transposed) window = {s.in, s.out / s.groups};
  image.insert(image.end(), s.image.begin(), s.image.end());
  window.insert(window.end(), s.window.begin(), s.window.end());
  const Tensor x = g.tensor(image, s.dtype), b = g.weight("b", {s.out}, s.dtype),
               w = weight ? g.weight("w", window, s.dtype) : g.tensor(window, s.dtype);
  if (s.transposed)
    conv_transpose(x, w, b,
                   {.stride = s.stride, .padding = s.padding, .dilation = s.dilation, .groups = s.groups})
        .relu()
        .keep();
  else
    conv(x, w, b, {.stride = s.stride, .padding = s.padding, .dilation = s.dilation, .groups = s.groups})
        .relu()
        .keep();
  Module module = parse_module(g.to_string());
  passes::defaults().run(module);
  return module;
}

/// Of the largest fold of products.
int64_t products_of_one(const Function& f) {
  int64_t most = 0;
  for (NodeId id : f.nodes.ids()) {
    const auto* fold = std::get_if<FoldAttr>(&f[id].attr);
    const auto* map = fold ? std::get_if<MapAttr>(&f[f[id].inputs[0]].attr) : nullptr;
    if (!map || map->op != Op::mul) continue;
    int64_t n = 1;
    for (int a : fold->reduced) n *= fold->space[size_t(a)].value();
    most = std::max(most, n);
  }
  return most;
}

const std::vector<Windows>& changed_windows() {
  static const std::vector<Windows> list{
      {.image = {1, 1}, .window = {3, 3}, .padding = 1, .products = 1},
      {.image = {1, 1}, .window = {5, 5}, .padding = 2, .products = 1},
      {.image = {1, 1}, .window = {3, 3}, .in = 4, .out = 6, .groups = 2, .padding = 1, .products = 1},
      {.image = {2, 2}, .window = {3, 3}, .stride = 2, .padding = 1, .products = 4},
      {.image = {2, 2}, .window = {5, 5}, .padding = 2, .products = 4},
      {.image = {1, 8}, .window = {3, 3}, .padding = 1, .products = 3},
      {.image = {2, 2}, .window = {7, 7}, .padding = 3, .products = 4},
      {.image = {1, 1}, .window = {4, 4}, .transposed = true, .products = 1},
      {.image = {1, 1}, .window = {2, 3}, .in = 4, .out = 4, .groups = 2, .transposed = true, .products = 1},
      {.image = {1, 1, 1}, .window = {3, 3, 3}, .padding = 1, .products = 1},
      {.image = {1}, .window = {3}, .padding = 1, .products = 1},
      {.image = {1, 1}, .window = {3, 3}, .padding = 1, .products = 1, .dtype = DType::f64},
      {.image = {1, 1}, .window = {3, 3}, .padding = 1, .products = 1, .dtype = DType::bf16},
  };
  return list;
}

std::string text_of(const Windows& s) {
  return fmt::format("windows of {} over images of {}{}, {} bits", fmt::join(s.window, " x "),
                     fmt::join(s.image, " x "), s.transposed ? ", transposed" : "", bits(s.dtype));
}

TEST(ImageSums, EveryWeightThatIsLeftMeetsAnElement) {
  for (const Windows& s : changed_windows())
    for (const bool weight : {true, false}) {
      SCOPED_TRACE(text_of(s));
      const Module module = windows_module(s, weight);
      ASSERT_TRUE(compile::has_windows_beyond_images(module.entry()));
      const Function made = compile::sums_over_images(module, module.entry());
      EXPECT_EQ(products_of_one(made), s.products * (s.in / s.groups));
      EXPECT_FALSE(compile::has_windows_beyond_images(made));
    }
}

/// All weights of this one are used, in the order in which they lie: an argument is not copied.
TEST(ImageSums, ReadArgumentsAsTheyLie) {
  const Windows s{.image = {1, 1}, .window = {4, 4}, .transposed = true};
  const Module module = windows_module(s, false);
  const Function made = compile::sums_over_images(module, module.entry());
  for (const Node& node : made.nodes) EXPECT_NE(node.kind, NodeKind::fence);
}

TEST(ImageSums, OthersStayAsTheyAre) {
  const std::vector<Windows> list{
      {.image = {2, 2}, .window = {3, 3}, .padding = 1}, // 16 weights for 9
      {.image = {4, 4}, .window = {3, 3}, .padding = 1},
      {.image = {1, 1}, .window = {1, 1}},
      {.image = {2, 2}, .window = {2, 2}, .transposed = true},
  };
  for (const Windows& s : list)
    EXPECT_FALSE(compile::has_windows_beyond_images(windows_module(s, true).entry())) << text_of(s);
}

TEST(ImageSums, GiveTheSameBits) {
  unsigned seed = 1;
  for (const Windows& s : changed_windows())
    for (const bool special : {false, true}) {
      SCOPED_TRACE(text_of(s));
      Module module = windows_module(s, seed % 2);
      Bindings bindings = numbers(module, seed++);
      if (special) // whether a window's step meets the image or a zero beside it, this is seen
        for (auto& [name, t] : bindings.inputs)
          for (int64_t i = 0; i < t.count(); i += 7)
            store_f64(t.dtype, t.data.data(), i,
                      i % 2 ? std::numeric_limits<double>::infinity() : std::nan(""));
      const auto want = interpret_naively(module, bindings);
      Module other = module;
      other.functions.back() = compile::sums_over_images(module, module.entry());
      ASSERT_EQ(verify(other), std::vector<std::string>()) << to_string(other);
      int numbers_left = 0;
      for (const auto& [name, value] : interpret_naively(other, bindings)) {
        const HostTensor& before = want.at(name);
        ASSERT_EQ(value.count(), before.count());
        for (int64_t i = 0; i < value.count(); i++) {
          numbers_left += !std::isnan(before.at(i));
          EXPECT_TRUE(value.at(i) == before.at(i) || (std::isnan(value.at(i)) && std::isnan(before.at(i))))
              << name << " " << i << ": " << value.at(i) << " for " << before.at(i);
        }
      }
      if (!special) {
        EXPECT_GT(numbers_left, 0);
      }
    }
}

TEST(ImageSums, PlansAreWhatTheInterpreterSays) {
  unsigned seed = 1;
  for (const Windows& s : changed_windows()) {
    SCOPED_TRACE(text_of(s));
    expect_right(windows_module(s, seed % 2), seed);
    seed++;
  }
}

} // namespace
} // namespace luminal
