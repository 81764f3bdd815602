// tests/train/joint_graph_test.cpp -- what a step of forward and backward together stores beside its
// results: of formulas in which nothing says how.
#include "luminal/luminal.h"
#include <cmath>
#include <gtest/gtest.h>

namespace luminal {
namespace {

std::vector<float> numbers(int64_t count, int64_t step) {
  std::vector<float> list;
  for (int64_t i = 0; i < count; ++i) list.push_back(float(i * step % 1013) / 1013 - 0.5f);
  return list;
}

// Neither probabilities nor their logarithms: the gradient is made from the logits (8 MiB) once more.
TEST(JointGraph, CrossEntropyStoresNoProbabilities) {
  constexpr int64_t rows = 256, classes = 8192, bytes = rows * classes * 4;
  Graph g;
  Tensor z = g.tensor({rows, classes}, DType::f32, "z"), y = g.tensor({rows}, DType::i64, "y");
  Tensor loss = cross_entropy(z, y), dz = gradient(loss, z);
  loss.keep(), dz.keep();
  const std::vector<float> logits = numbers(rows * classes, 7919);
  std::vector<int64_t> targets;
  for (int64_t i = 0; i < rows; ++i) targets.push_back(i * 31 % classes);
  z.set(logits), y.set(targets);
  g.compile({.threads = 1, .cache = false});
  EXPECT_GE(g.memory().arena, bytes);
  EXPECT_LT(g.memory().arena, bytes + (64 << 10));
  g.execute();
  const auto found = dz.data<float>();
  for (int64_t i = 0; i < rows; i += 51) {
    double sum = 0;
    for (int64_t k = 0; k < classes; ++k) sum += std::exp(double(logits[size_t(i * classes + k)]));
    for (const int64_t k : {targets[size_t(i)], i, classes - 1}) {
      const double p = std::exp(double(logits[size_t(i * classes + k)])) / sum;
      EXPECT_NEAR(found[size_t(i * classes + k)], (p - (k == targets[size_t(i)])) / double(rows), 1e-8)
          << i << ", " << k;
    }
  }
}

// Differences from the mean (8 MiB) once, no normalised values, and no row of the gradient is begun in one
// kernel and finished in another: two for statistics, one for the weight, one for the gradient.
TEST(JointGraph, LayerNormGradientIsMadeRowByRow) {
  constexpr int64_t rows = 2048, columns = 1024, bytes = rows * columns * 4;
  Graph g;
  Tensor x = g.tensor({rows, columns}, DType::f32, "x"), a = g.tensor({columns}, DType::f32, "a"),
         dy = g.tensor({rows, columns}, DType::f32, "dy");
  const Tensor d = x - x.mean({1}, true), scale = ((d * d).mean({1}, true) + 1e-5f).rsqrt();
  const Tensor y = d * scale * a;
  std::vector<Tensor> back = gradients({y}, {x, a}, {.upstream = {dy}});
  for (Tensor& one : back) one.keep();
  const std::vector<float> xs = numbers(rows * columns, 7919), as = numbers(columns, 17),
                           gs = numbers(rows * columns, 521);
  x.set(xs), a.set(as), dy.set(gs);
  g.compile({.threads = 1, .cache = false});
  EXPECT_GE(g.memory().arena, bytes);
  EXPECT_LT(g.memory().arena, 2 * bytes + (128 << 10));
  EXPECT_LE(g.execute_debug().steps.size(), 4u);
  const auto found = back[0].data<float>();
  for (int64_t i = 0; i < rows; i += 409) {
    const float *row = &xs[size_t(i * columns)], *given = &gs[size_t(i * columns)];
    double mean = 0, square = 0, sum = 0, along = 0;
    for (int64_t k = 0; k < columns; ++k) mean += row[k];
    mean /= columns;
    for (int64_t k = 0; k < columns; ++k) square += (row[k] - mean) * (row[k] - mean);
    const double s = 1 / std::sqrt(square / columns + 1e-5);
    for (int64_t k = 0; k < columns; ++k) {
      const double one = double(given[k]) * double(as[size_t(k)]);
      sum += one, along += one * (row[k] - mean) * s;
    }
    for (const int64_t k : {int64_t(0), i % columns, columns - 1}) {
      const double one = double(given[k]) * double(as[size_t(k)]);
      const double want = s * (one - sum / columns - (row[k] - mean) * s * along / columns);
      EXPECT_NEAR(found[size_t(i * columns + k)], want, 1e-5) << i << ", " << k;
    }
  }
}

} // namespace
} // namespace luminal
