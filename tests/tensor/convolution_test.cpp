// tensor/convolution_test.cpp -- convolutions as people write them (pad, windows, product, sum),
// large enough for windows to be copied and products to be blocked, against loops.
#include "luminal/luminal.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace luminal {
namespace {

struct Convolution {
  int batch, in, out, height, width, kernel, stride, dilation, padding;
  double fill;
  bool constant = false; // weights known when the plan is loaded
};

std::vector<float> random_values(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> values(count);
  for (float& v : values) v = uniform(random);
  return values;
}

void expect_right(const Convolution& s, int threads) {
  SCOPED_TRACE(testing::Message() << s.batch << "x" << s.in << "->" << s.out << " " << s.height << "x"
                                  << s.width << " kernel " << s.kernel << " stride " << s.stride
                                  << " dilation " << s.dilation << " padding " << s.padding << " fill "
                                  << s.fill << (s.constant ? ", constant weights, " : ", ") << threads
                                  << " threads");
  const int reach = (s.kernel - 1) * s.dilation + 1;
  const int rows = (s.height + 2 * s.padding - reach) / s.stride + 1,
            columns = (s.width + 2 * s.padding - reach) / s.stride + 1;
  ASSERT_GT(rows, 0);
  ASSERT_GT(columns, 0);
  Graph g;
  Tensor x = g.tensor({s.batch, s.in, s.height, s.width}),
         w = s.constant ? g.weight("w", {s.out, s.in, s.kernel, s.kernel})
                        : g.tensor({s.out, s.in, s.kernel, s.kernel});
  Tensor padded = s.padding ? x.pad(2, s.padding, s.padding, s.fill).pad(3, s.padding, s.padding, s.fill) : x;
  Tensor windows =
      padded.windows(2, s.kernel, s.stride, s.dilation).windows(3, s.kernel, s.stride, s.dilation);
  Tensor y = (windows.unsqueeze(1) * w.unsqueeze(2).unsqueeze(2)).sum({2, 5, 6}).keep();
  const auto xs = random_values(size_t(s.batch) * size_t(s.in * s.height * s.width), 1),
             ws = random_values(size_t(s.out) * size_t(s.in * s.kernel * s.kernel), 2);
  x.set(xs);
  w.set(ws);
  g.compile({.threads = threads});
  g.execute();
  const auto got = y.data<float>();
  ASSERT_EQ(got.size(), size_t(s.batch) * size_t(s.out * rows * columns));
  size_t at = 0;
  double worst = 0;
  for (int b = 0; b < s.batch; ++b)
    for (int o = 0; o < s.out; ++o)
      for (int i = 0; i < rows; ++i)
        for (int j = 0; j < columns; ++j, ++at) {
          double sum = 0, size = 1e-3;
          for (int c = 0; c < s.in; ++c)
            for (int r = 0; r < s.kernel; ++r)
              for (int q = 0; q < s.kernel; ++q) {
                const int y0 = i * s.stride + r * s.dilation - s.padding,
                          x0 = j * s.stride + q * s.dilation - s.padding;
                const bool inside = y0 >= 0 && y0 < s.height && x0 >= 0 && x0 < s.width;
                const double value =
                    inside ? double(xs[size_t(((b * s.in + c) * s.height + y0) * s.width + x0)]) : s.fill;
                const double product =
                    value * double(ws[size_t(((o * s.in + c) * s.kernel + r) * s.kernel + q)]);
                sum += product;
                size += std::abs(product);
              }
          const double error = std::abs(double(got[at]) - sum) / size;
          worst = error <= worst ? worst : error; // NaN stays
        }
  EXPECT_LE(worst, 1e-6);
}

TEST(Convolution, OfEveryKindEqualsLoops) {
  const Convolution cases[] = {
      {1, 16, 32, 14, 14, 3, 1, 1, 1, 0},
      {2, 20, 33, 7, 7, 3, 1, 1, 1, 0},
      {1, 3, 24, 37, 41, 7, 2, 1, 3, 0},
      {1, 64, 40, 28, 28, 1, 2, 1, 0, 0},
      {1, 12, 16, 15, 17, 3, 2, 1, 1, 0},
      {1, 8, 16, 30, 45, 3, 1, 2, 2, 0},
      {2, 70, 64, 12, 9, 1, 1, 1, 0, 0},
      {1, 16, 17, 20, 20, 5, 3, 1, 2, 0},
      {1, 16, 16, 19, 19, 3, 1, 1, 1, 0.5},
      {3, 8, 16, 10, 50, 3, 1, 1, 0, 0},
      {1, 1, 1, 9, 9, 3, 1, 1, 1, 0},
      {1, 9, 48, 8, 33, 2, 4, 3, 4, -1},
      // Lanes along the channels: panels at load, whole and with an end.
      {1, 40, 64, 7, 7, 3, 1, 1, 1, 0, true},
      {2, 33, 81, 7, 9, 3, 1, 2, 2, 0, true},
      {3, 128, 96, 7, 7, 1, 1, 1, 0, 0, true},
      {1, 70, 130, 13, 13, 1, 2, 1, 0, 0, true},
      {2, 24, 50, 11, 5, 5, 2, 1, 2, -1, true},
      {4, 16, 70, 14, 14, 3, 1, 1, 1, 0, true},
      {1, 64, 64, 9, 14, 5, 1, 1, 2, 0, true},
      {8, 32, 96, 7, 7, 3, 2, 1, 1, 0, true},
      // Few channels of results.
      {2, 20, 3, 20, 33, 3, 1, 1, 1, 0},
      {1, 17, 5, 19, 40, 4, 1, 1, 2, 0.5},
      {1, 30, 2, 17, 64, 3, 2, 1, 1, 0},
      {2, 9, 13, 18, 21, 5, 1, 2, 4, 0, true},
      // Blocks of rows.
      {2, 8, 24, 30, 28, 3, 1, 1, 1, 0},
      {3, 10, 20, 26, 27, 3, 2, 1, 1, 0.5},
  };
  for (const Convolution& s : cases)
    for (int threads : {1, 2}) expect_right(s, threads);
}

/// What lies beside the image is 0 also where a weight is infinite or no number: 0 times that is
/// not a number.
TEST(Convolution, ZerosBesideTheImageMeetWeightsThatAreNoNumbers) {
  constexpr int in = 40, out = 70, size = 7;
  std::vector<float> ws = random_values(size_t(out) * in * 9, 2);
  // By result and place in the window: where the result is not a number.
  ws[size_t((3 * in + 5) * 9 + 1)] = std::numeric_limits<float>::infinity();    // above
  ws[size_t((20 * in + 39) * 9 + 7)] = std::numeric_limits<float>::quiet_NaN(); // below
  ws[size_t((66 * in + 0) * 9 + 3)] = -std::numeric_limits<float>::infinity();  // left
  const auto xs = random_values(2 * in * size * size, 1);
  std::vector<float> before;
  for (int threads : {1, 2}) {
    Graph g;
    Tensor x = g.tensor({2, in, size, size}), w = g.weight("w", {out, in, 3, 3});
    Tensor windows = x.pad(2, 1, 1).pad(3, 1, 1).windows(2, 3, 1).windows(3, 3, 1);
    Tensor y = (windows.unsqueeze(1) * w.unsqueeze(2).unsqueeze(2)).sum({2, 5, 6}).relu().keep();
    x.set(xs);
    w.set(ws);
    g.compile({.threads = threads});
    g.execute();
    const auto got = y.data<float>();
    for (int at = 0; at < 2 * out * size * size; at++) {
      const int j = at % size, i = at / size % size, o = at / size / size % out;
      const bool none = (o == 3 && i == 0) || o == 20 || (o == 66 && j == 0);
      ASSERT_EQ(std::isnan(got[size_t(at)]), none) << "result " << o << " at " << i << ", " << j;
    }
    std::vector<float> now(got.begin(), got.end());
    if (!before.empty()) {
      EXPECT_EQ(std::memcmp(before.data(), now.data(), now.size() * 4), 0)
          << "with another number of workers";
    }
    before = std::move(now);
  }
}

TEST(Convolution, RandomOnesEqualLoops) {
  std::mt19937 random(5);
  const auto from = [&](int low, int high) { return low + int(random() % uint32_t(high - low + 1)); };
  for (int i = 0; i < 20; ++i) {
    Convolution s{from(1, 2), from(1, 40), from(1, 40), from(1, 30), from(1, 40),
                  from(1, 5), from(1, 3),  from(1, 3),  from(0, 4),  i % 3 == 0 ? 0.25 : 0.0};
    const int reach = (s.kernel - 1) * s.dilation + 1;
    if (std::min(s.height, s.width) + 2 * s.padding < reach) continue;
    expect_right(s, 1 + i % 2);
  }
}

} // namespace
} // namespace luminal
