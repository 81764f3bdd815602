// tests/tensor/random_test.cpp -- random numbers: the same bits by plan and interpreter,
// distributions, keys, errors.
#include "ir/interp.h"
#include "ir/philox.h"
#include "luminal/luminal.h"
#include "tensor/graph_state.h"
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

namespace luminal::random_test {
namespace {

/// Every kept tensor of the graph has the same bits by the plan and by the interpreter.
void expect_equal_bits(Graph& g, const std::vector<Tensor>& kept, const Bindings& bindings = {}) {
  g.execute();
  const Module module = g.state()->snapshot();
  Interpreter interpreter(module, bindings);
  for (const Tensor& t : kept) {
    std::vector<std::byte> got(size_t(storage_bytes(t.dtype(), t.element_count())));
    t.read(got.data(), t.dtype());
    EXPECT_TRUE(interpreter.result(g.state()->kept.at(node_id(t))).data == got) << "result " << t.id();
  }
}

TEST(Random, PlanAndInterpreterGiveTheSameBits) {
  Graph g;
  Tensor key = random_key(g, 20250203);
  auto keys = split_key(key, 12);
  Tensor p = (random_uniform(keys[10], {40}) * 1.0f).set_name("p");
  std::vector<Tensor> all{random_bits(keys[0], {3, 50}),
                          random_uniform(keys[1], {301}, -3, 5),
                          random_uniform(keys[1], {300}, 0, 1, DType::f16),
                          random_uniform(keys[1], {300}, -1, 1, DType::bf16),
                          random_uniform(keys[1], {300}, 0, 1, DType::f64),
                          random_normal(keys[2], {2000}),
                          random_normal(keys[2], {500}, 3, 0.5, DType::f64),
                          random_normal(keys[2], {500}, 0, 1, DType::f16),
                          random_exponential(keys[3], {2000}, 2),
                          random_bernoulli(keys[4], {500}, 0.3),
                          random_bernoulli(keys[4], p),
                          random_int(keys[5], {500}, -7, 12),
                          random_int(keys[5], {500}, INT64_MIN, INT64_MAX),
                          random_int(keys[5], {100}, 0, 200, DType::u8),
                          random_permutation(keys[6], 77),
                          shuffle(keys[7], arange(g, 0, 60, 1).reshape({20, 3})),
                          random_categorical(keys[8], random_normal(keys[9], {64, 9})),
                          random_multinomial(keys[8], random_uniform(keys[9], {5, 9}), 4),
                          random_multinomial(keys[8], random_uniform(keys[9], {5, 9}), 40, true),
                          dropout(keys[11], random_normal(keys[9], {333}), 0.25)};
  for (Tensor& t : all) t.keep();
  expect_equal_bits(g, all);
}

TEST(Random, RowsOfWholeBlocksHaveTheSameBits) {
  Graph g;
  const auto keys = split_key(random_key(g, 11), 5);
  std::vector<Tensor> all;
  for (const int64_t columns : {64, 76, 200, 204}) {
    all.push_back(random_normal(keys[0], {5, columns}, 1, 2));
    all.push_back(random_bits(keys[1], {3, columns}));
    const Tensor x = random_uniform(keys[2], {7, columns}).keep();
    all.push_back(dropout(keys[3], x + 1, 0.25));
    all.push_back(x);
  }
  for (Tensor& t : all) t.keep();
  g.compile({.threads = 2, .cache = false});
  expect_equal_bits(g, all);
}

TEST(Random, TheNumbersAreThoseOfPhilox) {
  Graph g;
  const uint64_t seed = 0x123456789abcdef0;
  Tensor key = random_key(g, seed);
  Tensor bits = random_bits(key, {2, 3}).keep(), uniform = random_uniform(key, {5}).keep(),
         child = child_key(key, 7).keep();
  g.execute();
  const std::array<uint32_t, 2> words{0x9abcdef0u, 0x12345678u};
  for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(bits.data<uint32_t>()[size_t(i)], random_word(i, words));
  for (int64_t i = 0; i < 5; ++i)
    EXPECT_EQ(uniform.data<float>()[size_t(i)], float(random_uniform(random_word(i, words))));
  for (int64_t i = 0; i < 2; ++i)
    EXPECT_EQ(child.data<uint32_t>()[size_t(i)], random_word(split_counter + 7 * 4 + i, words));
}

struct Moments {
  double mean = 0, variance = 0, skew = 0, kurtosis = 0;
};
Moments moments(const std::vector<double>& x) {
  Moments m;
  for (double v : x) m.mean += v / double(x.size());
  double m2 = 0, m3 = 0, m4 = 0;
  for (double v : x) {
    const double d = v - m.mean;
    m2 += d * d, m3 += d * d * d, m4 += d * d * d * d;
  }
  m.variance = m2 / double(x.size());
  m.skew = m3 / double(x.size()) / std::pow(m.variance, 1.5);
  m.kurtosis = m4 / double(x.size()) / (m.variance * m.variance);
  return m;
}

/// Sum of (observed - expected)^2 / expected over cells of equal probability.
double chi_square(const std::vector<double>& uniform, int cells) {
  std::vector<double> count(static_cast<size_t>(cells));
  for (double u : uniform) count[size_t(std::min(int(u * cells), cells - 1))]++;
  const double expected = double(uniform.size()) / cells;
  double sum = 0;
  for (double n : count) sum += (n - expected) * (n - expected) / expected;
  return sum;
}

TEST(Random, GumbelSoftmaxIsASoftenedDraw) {
  constexpr int64_t n = 20000;
  Graph g;
  const Tensor key = random_key(g, 5);
  const Tensor logits =
      g.constant(std::vector<float>{0, std::log(2.f), std::log(3.f), -INFINITY, std::log(4.f)}, {5})
          .expand({n, 5});
  const std::vector<Tensor> kept{gumbel_softmax(key, logits),
                                 gumbel_softmax(key, logits, 2),
                                 gumbel_softmax(key, logits, 1, true),
                                 random_categorical(key, logits),
                                 gumbel_softmax(key, logits.transpose(), 1, false, 0),
                                 gumbel_softmax(key, logits.cast(DType::f16), 0.5)};
  for (Tensor t : kept) t.keep();
  expect_equal_bits(g, {kept[2], kept[3]}); // exp is not the same to the bit
  const auto soft = kept[0].data<double>(), flatter = kept[1].data<double>(), hard = kept[2].data<double>(),
             columns = kept[4].data<double>();
  const auto drawn = kept[3].data<int64_t>();
  EXPECT_EQ(kept[5].dtype(), DType::f16);
  std::vector<double> count(5);
  for (size_t r = 0; r < size_t(n); r++) {
    const double* row = &soft[5 * r];
    double sum = 0, roots = 0, down = 0;
    for (size_t k = 0; k < 5; k++) sum += row[k], roots += std::sqrt(row[k]), down += columns[k * n + r];
    ASSERT_NEAR(sum, 1, 1e-6) << "row " << r;
    ASSERT_NEAR(down, 1, 1e-6) << "column " << r;
    const size_t best = size_t(std::max_element(row, row + 5) - row);
    ASSERT_EQ(size_t(drawn[r]), best) << "the same key draws the same";
    for (size_t k = 0; k < 5; k++) {
      ASSERT_EQ(hard[5 * r + k], k == best ? 1 : 0);
      // Twice the temperature is the root of each weight.
      ASSERT_NEAR(flatter[5 * r + k], std::sqrt(row[k]) / roots, 1e-5);
    }
    count[best]++;
  }
  // Five standard deviations at this n; the seed is fixed.
  for (auto [k, p] : {std::pair{0, 0.1}, {1, 0.2}, {2, 0.3}, {3, 0.0}, {4, 0.4}})
    EXPECT_NEAR(count[size_t(k)] / double(n), p, 0.0175) << "index " << k;
}

TEST(Random, Distributions) {
  constexpr int64_t n = 200000;
  Graph g;
  auto keys = split_key(random_key(g, 99), 8);
  Tensor uniform = random_uniform(keys[0], {n}).keep(), normal = random_normal(keys[1], {n}).keep(),
         exponential = random_exponential(keys[2], {n}).keep(),
         whole = random_int(keys[3], {n}, 0, 10).keep(), coin = random_bernoulli(keys[4], {n}, 0.2).keep();
  Tensor logits =
      g.constant(std::vector<float>{0, std::log(2.f), std::log(3.f), -INFINITY, std::log(4.f)}, {5});
  Tensor drawn = random_categorical(keys[5], logits.expand({n, 5})).keep();
  Tensor kept = dropout(keys[6], full(g, {n}, 3.0), 0.25).keep();
  g.execute();

  // Bounds are four to five standard deviations of each statistic at this n; the seed is fixed.
  Moments m = moments(uniform.data<double>());
  EXPECT_NEAR(m.mean, 0.5, 0.003);
  EXPECT_NEAR(m.variance, 1.0 / 12, 0.001);
  EXPECT_LT(chi_square(uniform.data<double>(), 100), 160); // 99 degrees of freedom: 1 in 10,000 above
  m = moments(normal.data<double>());
  EXPECT_NEAR(m.mean, 0, 0.01);
  EXPECT_NEAR(m.variance, 1, 0.015);
  EXPECT_NEAR(m.skew, 0, 0.025);
  EXPECT_NEAR(m.kurtosis, 3, 0.05);
  std::vector<double> cells;
  for (double z : normal.data<double>()) cells.push_back(0.5 * std::erfc(-z / std::sqrt(2.0)));
  EXPECT_LT(chi_square(cells, 100), 160);
  m = moments(exponential.data<double>());
  EXPECT_NEAR(m.mean, 1, 0.01);
  EXPECT_NEAR(m.variance, 1, 0.03);
  cells.clear();
  for (double x : exponential.data<double>()) cells.push_back(-std::expm1(-x));
  EXPECT_LT(chi_square(cells, 100), 160);
  cells.clear();
  for (double k : whole.data<double>()) cells.push_back((k + 0.5) / 10);
  EXPECT_LT(chi_square(cells, 10), 34);
  EXPECT_NEAR(moments(coin.data<double>()).mean, 0.2, 0.004);
  std::vector<double> count(5);
  for (int64_t k : drawn.data<int64_t>()) count[size_t(k)]++;
  for (auto [k, p] : {std::pair{0, 0.1}, {1, 0.2}, {2, 0.3}, {3, 0.0}, {4, 0.4}})
    EXPECT_NEAR(count[size_t(k)] / double(n), p, 0.005) << k;
  EXPECT_EQ(count[3], 0);
  std::set<float> values;
  for (float v : kept.data<float>()) values.insert(v);
  EXPECT_THAT(values, testing::ElementsAre(0, 4));
  EXPECT_NEAR(moments(kept.data<double>()).mean, 3, 0.02);
}

/// Against the functions of the library: the composed logarithm and the inverse of the normal
/// distribution are close.
TEST(Random, InverseFunctionsAreAccurate) {
  Graph g;
  Tensor key = random_key(g, 5);
  Tensor words = random_bits(key, {20000}).keep(), normal = random_normal(key, {20000}).keep(),
         exponential = random_exponential(key, {20000}).keep();
  g.execute();
  auto w = words.data<uint32_t>();
  auto z = normal.data<double>(), e = exponential.data<double>();
  for (size_t i = 0; i < w.size(); ++i) {
    const double v = (w[i] + 0.5) * 0x1p-32;
    EXPECT_NEAR(e[i], -std::log1p(-v), 3e-6 * std::max(1.0, -std::log1p(-v))) << w[i];
    const double tail = ((w[i] >> 1) + 0.5) * 0x1p-32; // of one side
    EXPECT_NEAR(0.5 * std::erfc(std::fabs(z[i]) / std::sqrt(2.0)) / tail, 1, 2e-5) << w[i];
    EXPECT_EQ(std::signbit(z[i]), (w[i] & 1) != 0 && z[i] != 0);
  }
}

TEST(Random, APermutationHoldsEachNumberOnce) {
  Graph g;
  Dim n = g.dim("n", 0, 50);
  Tensor order = random_permutation(random_key(g, 3), n).keep();
  for (int64_t size : {0, 1, 7, 50}) {
    g.set_dim("n", size);
    g.execute();
    auto got = order.data<int64_t>();
    std::set<int64_t> all(got.begin(), got.end());
    EXPECT_EQ(int64_t(got.size()), size);
    EXPECT_EQ(all.size(), got.size());
    if (size == 50) {
      EXPECT_FALSE(std::is_sorted(got.begin(), got.end()));
    }
    if (size > 0) {
      EXPECT_EQ(*all.rbegin(), size - 1);
    }
  }
}

TEST(Random, WithoutReplacementAllAreDifferentAndNoneIsImpossible) {
  Graph g;
  Tensor weights = g.constant(std::vector<float>{1, 0, 2, 1e-20f, 0, 5}, {6});
  Tensor drawn = random_multinomial(random_key(g, 8), weights.expand({100, 6}), 4).keep();
  g.execute();
  auto got = drawn.data<int64_t>();
  for (size_t row = 0; row < 100; ++row) {
    std::set<int64_t> all(got.begin() + long(row) * 4, got.begin() + long(row) * 4 + 4);
    EXPECT_THAT(all, testing::ElementsAre(0, 2, 3, 5));
  }
}

TEST(Random, AStateKeyDiffersFromStepToStepAndGoesBack) {
  Graph g;
  Tensor x = g.tensor({64});
  Tensor key = random_state_key(g, "rng", 17);
  Tensor y = dropout(key, x, 0.5).keep();
  x.set(std::vector<float>(64, 1.f));
  std::vector<std::vector<float>> runs;
  for (int step = 0; step < 3; ++step) {
    g.execute();
    runs.push_back(y.data<float>());
  }
  EXPECT_NE(runs[0], runs[1]);
  EXPECT_NE(runs[1], runs[2]);
  g.reset_states();
  for (int step = 0; step < 3; ++step) {
    g.execute();
    EXPECT_EQ(y.data<float>(), runs[size_t(step)]) << step;
  }
}

template <class F> std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return std::string(error.what()).substr(0, std::string(error.what()).rfind(" at "));
  }
  return "no error";
}

TEST(Random, Errors) {
  Graph g;
  Tensor key = random_key(g, 1), x = g.tensor({3}), ints = g.tensor({3}, DType::i32);
  EXPECT_EQ(error_of([&] { random_bits(x, {2}); }),
            "[random_bits] the key is f32[3], expected u32[2] (see random_key, split_key)");
  EXPECT_EQ(error_of([&] { random_uniform(key, {2}, 3, 1); }),
            "[random_uniform] 3..1 is not a range: the first must not be greater");
  EXPECT_EQ(error_of([&] { random_uniform(key, {2}, 0, 1, DType::i32); }),
            "[random_uniform] the numbers are not i32: a float type is needed");
  EXPECT_EQ(error_of([&] { random_normal(key, {2}, 0, -1); }),
            "[random_normal] a deviation of -1: it may not be negative");
  EXPECT_EQ(error_of([&] { random_exponential(key, {2}, 0); }),
            "[random_exponential] a rate of 0: it must be positive");
  EXPECT_EQ(error_of([&] { random_bernoulli(key, Dims{2}, 1.5); }),
            "[random_bernoulli] 1.5 is not a probability: it lies in 0..1");
  EXPECT_EQ(error_of([&] { random_int(key, {2}, 4, 4); }),
            "[random_int] 4..4 is not a range: the first must be less");
  EXPECT_EQ(error_of([&] { random_int(key, {2}, 0, 4, DType::f32); }),
            "[random_int] the numbers are not f32: an integer type is needed");
  EXPECT_EQ(error_of([&] { random_uniform(key, {2, -1}); }),
            "[random_uniform] a shape of [2, -1]: an extent may be negative");
  EXPECT_EQ(error_of([&] { dropout(key, x, -0.5); }), "[dropout] -0.5 is not a probability: it lies in 0..1");
  EXPECT_EQ(error_of([&] { dropout(key, ints, 0.5); }),
            "[dropout] the numbers are not i32: a float type is needed");
  EXPECT_EQ(error_of([&] { split_key(key, -1); }), "[split_key] -1 keys: the count may not be negative");
  EXPECT_EQ(error_of([&] { child_key(key, -1); }), "[child_key] place -1 may be negative");
  EXPECT_EQ(error_of([&] { random_multinomial(key, x, 0); }),
            "[random_multinomial] 0 indices of weights [3]: at least one of an axis is drawn");
  EXPECT_EQ(error_of([&] { arange(g, 0, 5, -1); }), "[arange] steps of -1 do not lead from 0 to 5");
  EXPECT_EQ(error_of([&] { arange(g, 0, 5, 0); }), "[arange] the step is 0");
  EXPECT_EQ(error_of([&] { arange(g, 0.0, 1, -0.5); }), "[arange] steps of -0.5 do not lead from 0 to 1");
  EXPECT_EQ(error_of([&] { linspace(g, 0, 1, -1); }), "[linspace] -1 numbers: the count may not be negative");
  EXPECT_EQ(error_of([&] { zeros(g, {3, -2}); }),
            "[zeros] a shape of [3, -2]: an extent may not be negative");
}

} // namespace
} // namespace luminal::random_test
