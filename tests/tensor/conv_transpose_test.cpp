// tensor/conv_transpose_test.cpp -- transposed convolutions of any rank, kernel, stride, dilation,
// padding and number of groups, against loops that add every product where it belongs.
#include "luminal/luminal.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

namespace luminal::conv_transpose_test {
namespace {

struct Axis {
  int64_t size, kernel, stride, dilation, padding, extra;
  int64_t result() const { return (size - 1) * stride + (kernel - 1) * dilation + 1 - 2 * padding + extra; }
};

struct Transposed {
  int64_t batch, in, out, groups; ///< in and out: of each group
  std::vector<Axis> axes;
  /// NaN and infinities in x: they reach what they are multiplied into, and nothing else
  bool special = false;
  bool constant = false; ///< weights known when the plan is loaded
};

int64_t elements(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

/// Row by row over all places of the shape.
void each(const std::vector<int64_t>& shape, const auto& see) {
  std::vector<int64_t> at(shape.size());
  for (int64_t n = elements(shape); n-- > 0;) {
    see(at);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++at[d] < shape[d]) break;
      at[d] = 0;
    }
  }
}

int64_t offset(const std::vector<int64_t>& shape, const std::vector<int64_t>& at) {
  int64_t place = 0;
  for (size_t d = 0; d < shape.size(); d++) place = place * shape[d] + at[d];
  return place;
}

void expect_right(const Transposed& s, uint32_t seed) {
  testing::Message text;
  text << "seed " << seed << ": " << s.batch << "x" << s.in << "->" << s.out << " in " << s.groups
       << " groups";
  std::vector<int64_t> x_shape{s.batch, s.groups * s.in}, w_shape{s.groups * s.in, s.out},
      y_shape{s.batch, s.groups * s.out}, kernel;
  ConvTransposeOptions options;
  std::vector<int64_t> stride, dilation, padding, extra;
  for (const Axis& a : s.axes) {
    text << ", size " << a.size << " kernel " << a.kernel << " stride " << a.stride << " dilation "
         << a.dilation << " padding " << a.padding << " extra " << a.extra;
    x_shape.push_back(a.size), w_shape.push_back(a.kernel), y_shape.push_back(a.result());
    kernel.push_back(a.kernel), stride.push_back(a.stride), dilation.push_back(a.dilation);
    padding.push_back(a.padding), extra.push_back(a.extra);
  }
  SCOPED_TRACE(text);
  options.stride = Ints(stride), options.dilation = Ints(dilation), options.padding = Ints(padding);
  options.output_padding = Ints(extra), options.groups = s.groups;

  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> xs(size_t(elements(x_shape))), ws(size_t(elements(w_shape)));
  for (float& v : xs) v = uniform(random);
  for (float& v : ws) v = uniform(random);
  if (s.special)
    for (const float v : {NAN, INFINITY, -INFINITY}) xs[random() % xs.size()] = v;

  // x[b, i, at] * w[i, o, k] belongs to y[b, o, at * stride + k * dilation - padding].
  std::vector<double> sums(size_t(elements(y_shape))), sizes(sums.size(), 1e-3);
  each(x_shape, [&](const std::vector<int64_t>& from) {
    const double value = xs[size_t(offset(x_shape, from))];
    each(kernel, [&](const std::vector<int64_t>& k) {
      std::vector<int64_t> to{from[0], 0}, weight{from[1], 0};
      for (size_t d = 0; d < k.size(); d++) {
        to.push_back(from[2 + d] * stride[d] + k[d] * dilation[d] - padding[d]);
        weight.push_back(k[d]);
        if (to.back() < 0 || to.back() >= y_shape[2 + d]) return;
      }
      for (int64_t o = 0; o < s.out; o++) {
        to[1] = from[1] / s.in * s.out + o, weight[1] = o;
        const double product = value * double(ws[size_t(offset(w_shape, weight))]);
        sums[size_t(offset(y_shape, to))] += product;
        sizes[size_t(offset(y_shape, to))] += std::abs(product);
      }
    });
  });

  std::vector<float> before;
  for (const int threads : {1, 2}) {
    Graph g;
    const Dims ws_dims(w_shape.begin(), w_shape.end());
    Tensor x = g.tensor({x_shape.begin(), x_shape.end()}),
           w = s.constant ? g.weight("w", ws_dims) : g.tensor(ws_dims);
    Tensor y = conv_transpose(x, w, {}, options).keep();
    x.set(xs);
    w.set(ws);
    g.compile({.threads = threads});
    g.execute();
    const std::vector<float> got = y.data<float>();
    ASSERT_EQ(got.size(), sums.size());
    for (size_t i = 0; i < got.size(); i++) {
      if (std::isfinite(sums[i]))
        ASSERT_LE(std::abs(double(got[i]) - sums[i]) / sizes[i], 1e-6) << "at " << i;
      else
        ASSERT_TRUE(std::isnan(sums[i]) ? std::isnan(got[i]) : double(got[i]) == sums[i])
            << "at " << i << ": " << got[i] << " for " << sums[i];
    }
    if (threads == 2) {
      EXPECT_EQ(std::memcmp(got.data(), before.data(), got.size() * sizeof(float)), 0);
    }
    before = got;
  }
}

TEST(ConvTranspose, OfEveryKindEqualsLoops) {
  const Transposed cases[] = {
      // Gradients of convolutions with steps of 2: an odd kernel, one of 1 x 1 (three of four
      // results have no terms), a large one.
      {2, 20, 33, 1, {{7, 3, 2, 1, 1, 1}, {14, 3, 2, 1, 1, 1}}},
      {1, 40, 64, 1, {{9, 3, 2, 1, 1, 1}, {28, 3, 2, 1, 1, 1}}, false, true},
      {2, 16, 24, 1, {{8, 1, 2, 1, 0, 1}, {19, 1, 2, 1, 0, 1}}, true},
      {1, 64, 90, 1, {{7, 3, 2, 1, 1, 1}, {7, 3, 2, 1, 1, 1}}}, // weights in panels
      {1, 64, 90, 1, {{7, 3, 2, 1, 1, 1}, {7, 3, 2, 1, 1, 1}}, false, true},
      {1, 20, 3, 1, {{18, 7, 2, 1, 3, 1}, {35, 7, 2, 1, 3, 1}}},
      // Kernels of whole steps: all results of a step are channels of one convolution, or of two.
      {1, 24, 12, 1, {{16, 2, 2, 1, 0, 0}, {33, 2, 2, 1, 0, 0}}, true},
      {1, 16, 8, 1, {{13, 4, 2, 1, 1, 0}, {17, 4, 2, 1, 1, 0}}},
      {2, 5, 4, 1, {{3, 8, 8, 1, 0, 0}, {2, 8, 8, 1, 0, 0}}},
      {1, 9, 17, 1, {{40, 16, 8, 1, 4, 0}}, false, true},
      // Steps and dilation have a common factor: some results have no terms.
      {1, 6, 7, 2, {{5, 3, 4, 2, 1, 3}, {6, 2, 2, 3, 0, 2}}, true},
      {1, 1, 1, 20, {{9, 3, 2, 1, 1, 0}, {21, 5, 3, 1, 2, 1}}, true},
  };
  for (const Transposed& s : cases) expect_right(s, 1);
}

TEST(ConvTranspose, RandomOnesEqualLoops) {
  for (uint32_t seed = 1; seed <= 24; seed++) {
    std::mt19937 random(seed);
    const auto from = [&](int64_t low, int64_t high) {
      return low + int64_t(random() % uint32_t(high - low + 1));
    };
    const int64_t rank = from(1, 3);
    Transposed s{from(1, 2), from(1, 9),      from(1, 20),    from(1, 4) == 1 ? from(2, 3) : 1,
                 {},         from(1, 3) == 1, from(1, 3) == 1};
    for (int64_t d = 0; d < rank; d++) {
      Axis a{from(1, rank == 3 ? 5 : 18), from(1, 5), from(1, 5), from(1, 3), from(0, 3), 0};
      a.extra = from(0, std::max(a.stride, a.dilation) - 1);
      while (a.result() < 1) a.size++;
      s.axes.push_back(a);
    }
    expect_right(s, seed);
  }
}

} // namespace
} // namespace luminal::conv_transpose_test
