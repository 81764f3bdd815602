// tests/train/joint_graph_test.cpp -- what a step of forward and backward together stores beside its
// results: of formulas in which nothing says how.
#include "luminal/luminal.h"
#include "support/given_machine.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace luminal {
namespace {

std::vector<float> numbers(int64_t count, int64_t step) {
  std::vector<float> list;
  for (int64_t i = 0; i < count; ++i) list.push_back(float(i * step % 1013) / 1013 - 0.5f);
  return list;
}

/// Compiled and run, each result is what the interpreter makes of the terms, within rounding of its largest
/// element.
void expect_as_interpreted(Graph& g, std::vector<Tensor>& list, const CompileOptions& options,
                           const std::string& what) {
  const auto want = g.interpret(list);
  for (Tensor& one : list) one.keep();
  g.compile(options);
  g.execute();
  for (size_t k = 0; k < list.size(); ++k) {
    const auto found = list[k].data<float>();
    const std::vector<double> expected = want[k].numbers();
    ASSERT_EQ(found.size(), expected.size());
    double largest = 1e-3;
    for (const double one : expected) largest = std::max(largest, std::abs(one));
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], 1e-5 * largest) << what << ", result " << k << "[" << i << "]";
  }
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

/// A norm of rows as one may write it, with its weight.
Tensor norm_of(int kind, const Tensor& x, const Tensor& a) {
  const Tensor mean = x.mean({1}, true), d = x - mean;
  switch (kind) {
  case 0: return d * ((d * d).mean({1}, true) + 1e-5f).rsqrt() * a;
  case 1: return d / ((d * d).mean({1}, true) + 1e-5f).sqrt() * a;
  case 2: return d * ((x * x).mean({1}, true) - mean * mean + 1e-5f).rsqrt() * a;
  case 3: return layer_norm(x, a);
  case 4: return rms_norm(x, a);
  default: return x / ((x * x).mean({1}, true) + 1e-5f).sqrt() * a;
  }
}

// Two launches: one walks each row of x and of its gradient once and finishes both results of the row, one
// sums over rows for the weight. Statistics of rows lie between them, and no row of differences or normalised
// values. The rows are more than caches hold.
TEST(JointGraph, NormsAndTheirGradientsPassOverTheirRowsTwice) {
  const test::GivenMachine machine;
  constexpr int64_t rows = 4224, columns = 1024, bytes = rows * columns * 4;
  for (int kind = 0; kind < 6; ++kind) {
    Graph g;
    Tensor x = g.tensor({rows, columns}, DType::f32, "x"), a = g.tensor({columns}, DType::f32, "a"),
           dy = g.tensor({rows, columns}, DType::f32, "dy");
    const Tensor y = norm_of(kind, x, a);
    std::vector<Tensor> list = gradients({y}, {x, a}, {.upstream = {dy}});
    list.push_back(y);
    for (Tensor& one : list) one.keep();
    x.set(numbers(rows * columns, 7919)), a.set(numbers(columns, 17)), dy.set(numbers(rows * columns, 521));
    g.compile({.threads = 1, .cache = false});
    EXPECT_LT(g.memory().arena, 2 * bytes + (64 << 10)) << "norm " << kind << " stores rows beside dx and y";
    EXPECT_LE(g.execute_debug().steps.size(), 2u) << "norm " << kind;
  }
}

// The same terms, few rows: what is computed is what the terms say.
TEST(JointGraph, NormsAndTheirGradientsEqualTheInterpreter) {
  for (int kind = 0; kind < 6; ++kind) {
    const int64_t rows = 5 + kind, columns = 37 - kind;
    Graph g;
    Tensor x = g.tensor({rows, columns}, DType::f32, "x"), a = g.tensor({columns}, DType::f32, "a"),
           dy = g.tensor({rows, columns}, DType::f32, "dy");
    const Tensor y = norm_of(kind, x, a);
    std::vector<Tensor> list = gradients({y}, {x, a}, {.upstream = {dy}});
    list.push_back(y);
    x.set(numbers(rows * columns, 7919)), a.set(numbers(columns, 17)), dy.set(numbers(rows * columns, 521));
    expect_as_interpreted(g, list, {}, fmt::format("norm {}", kind));
  }
}

struct AttentionCase {
  int64_t heads, groups, queries, keys, width;
  bool causal = false, mask = false, plain = true;
  double scale = 0.3;
};
/// Naive formulas, or the operation of the interface, which is one of these; with the gradients of inputs.
struct AttentionStep {
  Graph g;
  std::vector<Tensor> results;
  explicit AttentionStep(const AttentionCase& c) {
    Tensor q = g.tensor({c.heads, c.queries, c.width}, DType::f32, "q"),
           k = g.tensor({c.groups, c.keys, c.width}, DType::f32, "k"),
           v = g.tensor({c.groups, c.keys, c.width}, DType::f32, "v"),
           dy = g.tensor({c.heads, c.queries, c.width}, DType::f32, "dy"), mask;
    if (c.mask) mask = g.tensor({c.queries, c.keys}, DType::f32, "mask");
    Tensor y;
    if (c.plain) {
      Tensor s = q.matmul(k.transpose(-1, -2)) * c.scale;
      if (c.mask) s = s + mask;
      const Tensor e = (s - s.max({-1}, true)).exp();
      y = (e / e.sum({-1}, true)).matmul(v);
    } else {
      y = scaled_dot_product_attention(q, k, v, {.mask = mask, .causal = c.causal, .scale = c.scale});
    }
    results = gradients({y}, {q, k, v}, {.upstream = {dy}});
    results.push_back(y);
    q.set(numbers(c.heads * c.queries * c.width, 7919)), k.set(numbers(c.groups * c.keys * c.width, 521));
    v.set(numbers(c.groups * c.keys * c.width, 31)), dy.set(numbers(c.heads * c.queries * c.width, 613));
    if (c.mask) mask.set(numbers(c.queries * c.keys, 71));
  }
  static std::string name(const AttentionCase& c) {
    return fmt::format("{} heads of {} groups, {} x {} x {}{}{}", c.heads, c.groups, c.queries, c.keys,
                       c.width, c.causal ? ", causal" : "", c.mask ? ", a mask" : "");
  }
};

// A limit of memory that the scores of the heads do not fit into: probabilities are computed again for the
// gradients, of statistics of rows.
TEST(JointGraph, AttentionUnderALimitOfMemoryStoresNoScores) {
  const test::GivenMachine small_caches(8 << 10);
  for (const AttentionCase& c : std::vector<AttentionCase>{
           {.heads = 2, .groups = 2, .queries = 64, .keys = 64, .width = 4},
           {.heads = 2, .groups = 2, .queries = 72, .keys = 72, .width = 4, .causal = true, .plain = false},
           {.heads = 3, .groups = 3, .queries = 50, .keys = 70, .width = 3, .mask = true, .scale = 1},
           {.heads = 2, .groups = 2, .queries = 61, .keys = 67, .width = 4, .mask = true, .plain = false},
           {.heads = 4, .groups = 2, .queries = 48, .keys = 64, .width = 4, .plain = false, .scale = 0.5}}) {
    const int64_t scores = c.heads * c.queries * c.keys * 4;
    AttentionStep step(c);
    expect_as_interpreted(step.g, step.results, {.threads = 1, .cache = false, .max_memory = scores - 1},
                          AttentionStep::name(c));
    EXPECT_LT(step.g.memory().arena, scores) << AttentionStep::name(c);
  }
}

// A maximum whose gradient does not cancel: who is the largest is asked of the scores of which it was found,
// not of others that differ by roundings, and none of them is.
TEST(JointGraph, TiesAreCountedAmongTheSameScores) {
  const test::GivenMachine small_caches(8 << 10);
  constexpr int64_t heads = 2, rows = 67, width = 5, scores = heads * rows * rows * 4;
  Graph g;
  Tensor q = g.tensor({heads, rows, width}, DType::f32, "q"),
         k = g.tensor({heads, rows, width}, DType::f32, "k"),
         v = g.tensor({heads, rows, width}, DType::f32, "v");
  const Tensor s = q.matmul(k.transpose(-1, -2)) * 0.7 + 0.1;
  const Tensor y = (s - s.max({-1}, true)).exp().matmul(v);
  std::vector<Tensor> list = gradients({(y * y).sum()}, {q, k, v});
  list.push_back(y);
  q.set(numbers(heads * rows * width, 7919)), k.set(numbers(heads * rows * width, 521));
  v.set(numbers(heads * rows * width, 31));
  expect_as_interpreted(g, list, {.threads = 1, .cache = false, .max_memory = 2 * scores}, "ties");
  EXPECT_LT(g.memory().arena, 2 * scores);
}

// Long rows: all that lies between the launches is less than one row of scores for each query.
TEST(JointGraph, LongAttentionUnderALimitOfMemory) {
  const test::GivenMachine machine;
  for (const bool causal : {false, true}) {
    const AttentionCase c{.heads = 1,
                          .groups = 1,
                          .queries = 1536,
                          .keys = 1536,
                          .width = 16,
                          .causal = causal,
                          .plain = false};
    const int64_t row = c.queries * c.width * 4, scores = c.queries * c.keys * 4;
    AttentionStep usual(c), sparing(c);
    for (Tensor& one : usual.results) one.keep();
    for (Tensor& one : sparing.results) one.keep();
    usual.g.compile({.threads = 1, .cache = false});
    sparing.g.compile({.threads = 1, .cache = false, .max_memory = scores / 4});
    const int64_t results = 4 * row;
    EXPECT_LT(sparing.g.memory().arena, results + 2 * row + (128 << 10)) << "causal " << causal;
    EXPECT_LE(sparing.g.execute_debug().steps.size(), 4u) << "causal " << causal;
    usual.g.execute();
    for (size_t k = 0; k < usual.results.size(); ++k) {
      const auto want = usual.results[k].data<float>(), found = sparing.results[k].data<float>();
      for (size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(found[i], want[i], 2e-5) << "causal " << causal << ", result " << k << "[" << i << "]";
    }
  }
}

} // namespace
} // namespace luminal
