// tests/train/window_gradients_test.cpp -- gradients of sums of products with windows: of any step,
// dilation, padding, groups and number of axes, against differences; the windows are not stored.
#include "gradient_support.h"
#include "luminal/inspect.h"
#include <algorithm>
#include <gmock/gmock.h>

namespace luminal::testing_train {
namespace {

TEST(WindowGradients, RandomConvolutions) {
  Probe choose(7);
  for (int round = 0; round < 60; ++round) {
    Probe p(100 + uint64_t(round));
    const int sizes = 1 + choose.pick(round % 4 == 0 ? 3 : 2);
    const int64_t groups = 1 + choose.pick(2), in = groups * (1 + choose.pick(2)),
                  out = groups * (1 + choose.pick(3)), batch = 1 + choose.pick(2);
    std::vector<int64_t> stride, padding, dilation, extra;
    Dims x{batch, in}, w, w_back;
    const bool back = round % 5 == 4;
    w = back ? Dims{in, out / groups} : Dims{out, in / groups};
    for (int d = 0; d < sizes; ++d) {
      const int64_t kernel = 1 + choose.pick(sizes == 3 ? 2 : 4);
      stride.push_back(1 + choose.pick(3));
      dilation.push_back(1 + choose.pick(2));
      padding.push_back(choose.pick(int(kernel)));
      const int64_t reach = (kernel - 1) * dilation.back() + 1;
      x.push_back(std::max<int64_t>(1, reach - 2 * padding.back()) + choose.pick(sizes == 1 ? 8 : 4));
      w.push_back(kernel);
    }
    SCOPED_TRACE(fmt::format(
        "round {}: {} sizes, {} groups, x {}, w {}, stride {}, dilation {}, padding {}{}", round, sizes,
        groups, to_string(x), to_string(w), stride[0], dilation[0], padding[0], back ? ", transposed" : ""));
    const Tensor image = p.input(x).exp(), weight = p.input(w);
    const Tensor y =
        back ? conv_transpose(image, weight, {},
                              {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups})
             : conv(image, weight, {},
                    {.stride = stride, .padding = padding, .dilation = dilation, .groups = groups});
    p.check({y}, {.most = 12, .second = round % 6 == 0});
  }
}

TEST(WindowGradients, OfAnyNumberOfImages) {
  Probe p;
  const Dim n = p.dim("n", 1, 8, 3);
  p.check({conv2d(p.input({n, 2, 5, 4}).exp(), p.input({3, 2, 3, 3}), {}, {.stride = 2, .padding = 1})});
}

// Along an axis with one element padding alone says which windows reach it.
TEST(WindowGradients, OfImagesWithOneColumn) {
  for (const int64_t padding : {1, 2, 3})
    for (const int64_t stride : {1, 2}) {
      SCOPED_TRACE(fmt::format("padding {}, stride {}", padding, stride));
      Probe p;
      p.check({conv(p.input({2, 2, 4, 1}).exp(), p.input({3, 2, 3, 3}), {},
                    {.stride = stride, .padding = padding})});
      p.check({conv(p.input({1, 1, 1, 4, 1}).exp(), p.input({2, 1, 3, 2, 3}), {},
                    {.stride = stride, .padding = padding})});
    }
}

// Windows that divide an axis unevenly: begin and length vary.
TEST(WindowGradients, OfUnevenWindows) {
  Probe choose(11);
  for (int round = 0; round < 40; ++round) {
    Probe p(200 + uint64_t(round));
    const int64_t rows = 1 + choose.pick(12), columns = 1 + choose.pick(31), high = 1 + choose.pick(9),
                  wide = 1 + choose.pick(9);
    SCOPED_TRACE(fmt::format("round {}: {}x{} to {}x{}", round, rows, columns, high, wide));
    const Tensor x = p.input({2, rows, columns}).exp();
    p.check({adaptive_avg_pool(x, {high, wide}), adaptive_max_pool(x, {wide})},
            {.most = 12, .second = round % 8 == 0});
  }
}

// An element lies in two windows at most, of 7 over 30: no more places are looked at along each axis.
TEST(WindowGradients, OfUnevenWindowsLookAtFew) {
  Graph g;
  const Tensor x = g.tensor({1, 2, 30, 30}, DType::f32, "x"), y = adaptive_avg_pool(x, {7, 7});
  Tensor dx = gradients({y}, {x}, {.upstream = {g.tensor(y.shape(), DType::f32, "dy")}})[0];
  dx.keep();
  EXPECT_THAT(g.to_string(), testing::HasSubstr("[i0: 2, i1: 30, i2: 30, i3: 2, i4: 2]"));
}

// Images of which new elements lie at uneven quotients of the old ones' places.
TEST(WindowGradients, OfImagesResizedUnevenly) {
  Probe choose(12);
  for (int round = 0; round < 40; ++round) {
    Probe p(300 + uint64_t(round));
    const int64_t rows = 1 + choose.pick(9), columns = 1 + choose.pick(13), high = 1 + choose.pick(15),
                  wide = 1 + choose.pick(15);
    const bool corners = choose.pick(2) == 0;
    SCOPED_TRACE(fmt::format("round {}: {}x{} to {}x{}{}", round, rows, columns, high, wide,
                             corners ? ", corners aligned" : ""));
    const Tensor x = p.input({2, rows, columns}).exp();
    p.check({interpolate(x, {high, wide}, Interpolation::linear, corners), interpolate(x, {wide})},
            {.most = 12, .second = round % 8 == 0});
  }
}

// Of 28 elements that become 41 each is the first neighbour of two at most.
TEST(WindowGradients, OfImagesResizedUnevenlyLookAtFew) {
  Graph g;
  const Tensor x = g.tensor({2, 28}, DType::f32, "x"), y = interpolate(x, {41}, Interpolation::linear, true);
  Tensor dx = gradients({y}, {x}, {.upstream = {g.tensor(y.shape(), DType::f32, "dy")}})[0];
  dx.keep();
  EXPECT_THAT(g.to_string(), testing::HasSubstr("[i0: 2, i1: 28, i2: 2]"));
  EXPECT_THAT(g.to_string(), testing::Not(testing::HasSubstr("i2: 40")));
}

// What a mask hides of the image has no gradient.
TEST(WindowGradients, OfMaskedImages) {
  Probe p;
  p.check({conv(p.input({1, 2, 5, 5}).exp().tril(), p.input({3, 2, 3, 3}), {}, {.padding = 1})});
  p.check({conv(p.input({2, 6, 1}).exp().triu(-2), p.input({3, 6, 2}), {}, {.padding = 1})});
}

// What lies between the image and the sum may be asked for as well.
TEST(WindowGradients, OfTheWindowsToo) {
  Probe p;
  const Tensor x = p.input({2, 9}), w = p.input({3, 4}), windows = x.windows(1, 4, 2); // [2, 3, 4]
  const Tensor loss = p.weighted({(windows.unsqueeze(1) * w.reshape({1, 3, 1, 4})).sum({3})});
  const std::vector<Tensor> g = gradients(loss, {x, windows});
  const std::vector<Numbers> value = p.evaluate({g[0], g[1]});
  Numbers sums(18);
  for (int64_t i = 0; i < 2; ++i)
    for (int64_t o = 0; o < 3; ++o)
      for (int64_t r = 0; r < 4; ++r)
        sums[size_t(i * 9 + o * 2 + r)] += value[1][size_t((i * 3 + o) * 4 + r)];
  for (size_t i = 0; i < sums.size(); ++i) EXPECT_NEAR(value[0][i], sums[i], 1e-12) << i;
  EXPECT_NE(sums[3], 0);
}

// Images of 64 KiB: their windows would take 576 KiB.
TEST(WindowGradients, WindowsAreNotStored) {
  for (const int64_t stride : {1, 2}) {
    Graph g;
    const Tensor x = g.tensor({4, 16, 16, 16}, DType::f32, "x"),
                 w = g.tensor({16, 16, 3, 3}, DType::f32, "w");
    const Tensor y = conv2d(x, w, {}, {.stride = stride, .padding = 1}),
                 dy = g.tensor(y.shape(), DType::f32, "dy");
    Tensor dx = gradients({y}, {x}, {.upstream = {dy}})[0];
    dx.keep();
    g.compile({.threads = 1, .cache = false});
    EXPECT_LT(g.memory().arena, 300 << 10) << "stride " << stride;
    EXPECT_GE(g.memory().arena, 64 << 10);
  }
}

struct Compiled {
  int64_t batch, in, out, size, kernel, stride = 1, groups = 1, dilation = 1;
  bool transposed = false;
};

/// Shapes that the schedules treat apart: steps along the sums of weights, parts by turns that do not come
/// out even, groups with panels and without, short rows.
TEST(WindowGradients, CompiledOnesEqualTheInterpreter) {
  const Compiled all[] = {
      {2, 4, 4, 33, 3, 2, 4},         {1, 3, 3, 28, 5, 3, 3},          {2, 2, 2, 29, 5, 3, 2},
      {1, 32, 32, 7, 3, 1, 2},        {1, 16, 32, 10, 5, 1, 2},        {2, 4, 8, 20, 5, 1, 2},
      {2, 8, 4, 17, 3, 1, 4},         {1, 4, 8, 30, 3, 2, 2},          {1, 4, 6, 15, 3, 3, 2, 2},
      {1, 3, 8, 9, 4, 3, 1, 1, true}, {2, 2, 4, 12, 3, 2, 1, 1, true}, {3, 5, 5, 16, 7, 4, 5},
  };
  Probe numbers(3);
  for (const Compiled& c : all) {
    const auto drawn = [&](Tensor t) {
      std::vector<float> values(size_t(t.element_count()));
      for (float& v : values) v = float(numbers.uniform(-1, 1));
      t.set(values);
    };
    Graph g;
    Tensor x = g.tensor({c.batch, c.in, c.size, c.size}),
           w = g.tensor(
               {c.transposed ? c.in : c.out, (c.transposed ? c.out : c.in) / c.groups, c.kernel, c.kernel});
    const Tensor y = c.transposed ? conv_transpose(x, w, {}, {.stride = c.stride})
                                  : conv(x, w, {},
                                         {.stride = c.stride,
                                          .padding = c.kernel / 2 * c.dilation,
                                          .dilation = c.dilation,
                                          .groups = c.groups});
    Tensor dy = g.tensor(y.shape());
    for (const Tensor& t : {x, w, dy}) drawn(t);
    std::vector<Tensor> results = gradients({y}, {x, w}, {.upstream = {dy}});
    results.push_back(y);
    for (Tensor& r : results) r.keep();
    const std::vector<ReferenceValue> meant = interpret(results);
    g.compile({.threads = 2, .cache = false});
    g.execute();
    for (size_t r = 0; r < results.size(); ++r) {
      const std::vector<float> found = results[r].data<float>();
      const std::vector<double> wanted = meant[r].numbers();
      ASSERT_EQ(found.size(), wanted.size());
      double apart = 0, largest = 0;
      for (size_t i = 0; i < found.size(); ++i) {
        ASSERT_FALSE(std::isnan(found[i]));
        apart = std::max(apart, std::abs(double(found[i]) - wanted[i]));
        largest = std::max(largest, std::abs(wanted[i]));
      }
      EXPECT_LE(apart, 5e-6 * largest) << fmt::format("result {} of {}x{} k{} s{} g{} @{}", r, c.in, c.out,
                                                      c.kernel, c.stride, c.groups, c.size);
    }
  }
}

} // namespace
} // namespace luminal::testing_train
