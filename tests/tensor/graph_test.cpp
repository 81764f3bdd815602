// tests/tensor/graph_test.cpp -- graphs from the outside: handles, data, errors at the caller's
// line, states, dynamic sizes, loops.
#include "luminal/luminal.h"
#include "support.h"
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <limits>
#include <optional>
#include <random>

namespace luminal::graph_test {
namespace {

using testing::ElementsAre;
using testing::FloatNear;
using testing::HasSubstr;
using testing_tensor::error_of;

std::vector<float> random_values(size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(n);
  for (float& v : values) v = float(int(random() % 2001) - 1000) / 500;
  return values;
}

void expect_close(const std::vector<float>& got, const std::vector<float>& want, float tolerance) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); i++) {
    if (std::isnan(want[i]))
      EXPECT_TRUE(std::isnan(got[i])) << "element " << i;
    else if (std::isinf(want[i]))
      EXPECT_EQ(got[i], want[i]) << "element " << i;
    else
      EXPECT_LE(std::abs(got[i] - want[i]), tolerance)
          << "element " << i << ": " << got[i] << " for " << want[i];
  }
}

TEST(Graph, ElementwiseBroadcastAndKeep) {
  Graph g;
  Tensor x = g.tensor({2, 3}), row = g.tensor({3}), y = (x * row + 1).keep();
  x.set({1.f, 2.f, 3.f, 4.f, 5.f, 6.f});
  row.set({10.f, 20.f, 30.f});
  g.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(11, 41, 91, 41, 101, 181));
  row.set({0.f, 0.f, 1.f});
  g.execute();
  EXPECT_THAT(y.data<double>(), ElementsAre(1, 1, 4, 1, 1, 7));
}

TEST(Graph, MatmulOfRaggedSizes) {
  for (auto [m, n, k] : {std::tuple<int64_t, int64_t, int64_t>{1, 1, 1},
                         {1, 17, 33},
                         {17, 33, 65},
                         {64, 64, 64},
                         {5, 129, 7},
                         {130, 3, 257}}) {
    Graph g;
    Tensor a = g.tensor({m, k}), b = g.tensor({k, n}), c = a.matmul(b).keep();
    auto x = random_values(size_t(m * k), 1), y = random_values(size_t(k * n), 2);
    a.set(x);
    b.set(y);
    g.execute();
    std::vector<float> want(size_t(m * n));
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < n; j++) {
        double sum = 0;
        for (int64_t l = 0; l < k; l++) sum += double(x[size_t(i * k + l)]) * y[size_t(l * n + j)];
        want[size_t(i * n + j)] = float(sum);
      }
    expect_close(c.data<float>(), want, 1e-4f * float(k));
  }
}

TEST(Graph, SoftmaxArgmaxNorms) {
  Graph g;
  Tensor x = g.tensor({2, 3});
  Tensor soft = x.softmax(-1).keep(), best = x.argmax(1).keep(), total = x.cumsum(1).keep(),
         normed = x.layer_norm({1}, 0).keep(), rms = x.rms_norm(0).keep();
  x.set({0.f, 1.f, 3.f, 2.f, 2.f, -1.f});
  g.execute();
  expect_close(soft.data<float>(), {0.0420101f, 0.1141952f, 0.8437947f, 0.4878555f, 0.4878555f, 0.0242889f},
               1e-6f);
  EXPECT_THAT(best.data<int64_t>(), ElementsAre(2, 0));
  EXPECT_THAT(total.data<float>(), ElementsAre(0, 1, 4, 2, 4, 3));
  expect_close(normed.data<float>(),
               {-1.0690450f, -0.2672612f, 1.3363062f, 0.7071068f, 0.7071068f, -1.4142136f}, 1e-5f);
  expect_close(rms.data<float>(), {0, 0.5477226f, 1.6431677f, 1.1547005f, 1.1547005f, -0.5773503f}, 1e-5f);
}

TEST(Graph, TrapsOfMaskArithmetic) {
  const float inf = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  Graph g;
  Tensor x = g.tensor({4});
  Tensor relu = x.relu().keep(), chosen = select(x < 0, 0, x).keep();
  x.set({-inf, inf, 1.f, nan});
  g.execute();
  expect_close(relu.data<float>(), {0, inf, 1, nan}, 0);
  expect_close(chosen.data<float>(), {0, inf, 1, nan}, 0);
}

TEST(Graph, MovementAndWindows) {
  Graph g;
  Tensor x = g.tensor({2, 3});
  Tensor flipped = x.transpose().flip(0).keep(), padded = x.pad(1, 1, 2, 9).slice(1, 0, 6, 2).keep(),
         windows = x.windows(1, 2).keep(), joined = concat({x, x + 10}, 0).keep();
  Tensor merged = x.merge_dims(0).split_dims(0, 2).keep();
  x.set({1.f, 2.f, 3.f, 4.f, 5.f, 6.f});
  g.execute();
  EXPECT_THAT(flipped.data<float>(), ElementsAre(3, 6, 2, 5, 1, 4));
  EXPECT_THAT(padded.data<float>(), ElementsAre(9, 2, 9, 9, 5, 9));
  EXPECT_THAT(windows.data<float>(), ElementsAre(1, 2, 2, 3, 4, 5, 5, 6));
  EXPECT_THAT(joined.data<float>(), ElementsAre(1, 2, 3, 4, 5, 6, 11, 12, 13, 14, 15, 16));
  EXPECT_THAT(merged.data<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(Graph, GatherChecksIds) {
  Graph g;
  Tensor table = g.tensor({3, 2}), ids = g.tensor({2}, DType::i32, "ids"), rows = table.gather(ids).keep();
  table.set({1.f, 2.f, 3.f, 4.f, 5.f, 6.f});
  ids.set({2, 0});
  g.execute();
  EXPECT_THAT(rows.data<float>(), ElementsAre(5, 6, 1, 2));
  ids.set({2, 3});
  EXPECT_THAT(error_of([&] { g.execute(); }),
              HasSubstr("index ids is out of range: element 1 is 3, allowed are 0..2"));
}

TEST(Graph, DynamicSizesWithoutCompilingAgain) {
  Graph g;
  Dim n = g.dim("n", 0, 100);
  Tensor x = g.tensor({n, 4}), y = (x.sum({0}) + 1).keep(), z = (x * 2).keep();
  for (int64_t rows : {1, 2, 7, 64, 100, 0}) {
    g.set_dim("n", rows);
    auto values = random_values(size_t(rows * 4), unsigned(rows));
    x.set(values);
    g.execute();
    std::vector<float> want(4, 1), twice;
    for (size_t i = 0; i < values.size(); i++) want[i % 4] += values[i], twice.push_back(2 * values[i]);
    expect_close(y.data<float>(), want, 1e-4f);
    expect_close(z.data<float>(), twice, 0);
  }
  EXPECT_THAT(error_of([&] { g.set_dim("n", 101); }), HasSubstr("n = 101 is outside its range 0..100"));
}

TEST(Graph, DimensionsOfMultiples) {
  Graph g;
  const Dim n = g.dim("n", 1, 30, 4);
  EXPECT_EQ(n.low(), 4);
  EXPECT_EQ(n.high(), 28);
  EXPECT_EQ(g.dim("n", 1, 30, 4), n);
  EXPECT_EQ(n / 4 * 4, n);
  Tensor x = g.tensor({n, 2});
  Tensor z = g.tensor({n / 4, 2}), y = (x.reshape({n / 4, 4, 2}).sum(1) + z).keep();
  const Dim half = n / 2;
  EXPECT_NE(half / 2 * 2 + 1, half);
  for (const int rows : {8, 4, 28}) {
    std::vector<float> values(size_t(rows) * 2, 1.5F), zeros(size_t(rows) / 2, 0.0F);
    g.set_dim("n", rows);
    x.set(values);
    z.set(zeros);
    g.execute();
    EXPECT_EQ(y.data<float>(), std::vector<float>(size_t(rows) / 2, 6.0F));
  }
  EXPECT_THAT(error_of([&] { g.set_dim("n", 6); }),
              HasSubstr("n = 6 is outside its range 4..28 in steps of 4"));
  EXPECT_THAT(error_of([&] { g.dim("n", 4, 28); }),
              HasSubstr("declared with another range, 4..28 in steps of 4"));
}

TEST(Graph, StatesSeeTheOldValueWithinAStep) {
  Graph g;
  Tensor a = g.state("a", {2}), b = g.state("b", {2}), x = g.tensor({2});
  g.update(a, a + x);
  g.update(b, a); // the old a
  Tensor sum = (a + b).keep();
  x.set({1.f, 2.f});
  g.execute();
  EXPECT_THAT(sum.data<float>(), ElementsAre(0, 0));
  EXPECT_THAT(a.data<float>(), ElementsAre(1, 2));
  EXPECT_THAT(b.data<float>(), ElementsAre(0, 0));
  g.execute();
  EXPECT_THAT(sum.data<float>(), ElementsAre(1, 2));
  EXPECT_THAT(b.data<float>(), ElementsAre(1, 2));
  g.reset_states();
  g.execute();
  EXPECT_THAT(sum.data<float>(), ElementsAre(0, 0));
}

TEST(Graph, SwappedStates) {
  Graph g;
  Tensor a = g.state("a", {1}), b = g.state("b", {1});
  g.update(a, b);
  g.update(b, a);
  a.set({1.f});
  b.set({2.f});
  for (int i = 0; i < 3; i++) g.execute();
  EXPECT_THAT(a.data<float>(), ElementsAre(2));
  EXPECT_THAT(b.data<float>(), ElementsAre(1));
}

TEST(Graph, CacheAppendsInPlace) {
  Graph g;
  Dim past = g.dim("past", 0, 7);
  Tensor cache = g.state("cache", {8, 2}), row = g.tensor({1, 2});
  Tensor next = cache.update(0, past, row);
  g.update(cache, next);
  Tensor seen = next.slice(0, 0, past + 1).sum({0}).keep();
  for (int64_t i = 0; i < 8; i++) {
    g.set_dim("past", i);
    row.set({float(i), 1.f});
    g.execute();
    EXPECT_THAT(seen.data<float>(), ElementsAre(float(i * (i + 1) / 2), float(i + 1)));
  }
  EXPECT_EQ(g.report().find("copy cache"), std::string::npos) << "the cache is updated in place\n"
                                                              << g.report();
}

TEST(Graph, LoopIsARecurrence) {
  Graph g;
  Tensor xs = g.tensor({5, 2}), start = g.tensor({2});
  auto result = g.loop(5, {start}, {xs}, {},
                       [](Graph&, Tensor step, const std::vector<Tensor>& carried,
                          const std::vector<Tensor>& slices, const std::vector<Tensor>&) {
                         Tensor next = carried[0] * 0.5 + slices[0];
                         return Graph::LoopResult{{next}, {next + step.cast(DType::f32)}};
                       });
  Tensor last = result.carried[0].keep(), all = result.stacked[0].keep();
  auto values = random_values(10, 3);
  xs.set(values);
  start.set({1.f, -1.f});
  g.execute();
  std::vector<float> state{1, -1}, want;
  for (int t = 0; t < 5; t++)
    for (int i = 0; i < 2; i++) {
      state[size_t(i)] = state[size_t(i)] * 0.5f + values[size_t(2 * t + i)];
      want.push_back(state[size_t(i)] + float(t));
    }
  expect_close(last.data<float>(), state, 1e-6f);
  expect_close(all.data<float>(), want, 1e-6f);
}

TEST(Graph, HandlesOutliveTheGraph) {
  std::optional<Graph> g(std::in_place);
  Tensor x = g->tensor({2}, DType::f32, "x"), y = (x + 1).keep();
  x.set({1.f, 2.f});
  Graph moved = std::move(*g);
  g.reset();
  moved.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(2, 3));
  moved = Graph();
  EXPECT_EQ(x.shape().size(), 1u); // still a valid handle
  Tensor z = y * 2;
  EXPECT_EQ(z.dtype(), DType::f32);
}

TEST(Errors, NameOperationShapesAndTheCallersLine) {
  Graph g, other;
  Tensor a = g.tensor({4, 3}), b = g.tensor({5, 2}), c = other.tensor({4, 3});
  int line = __LINE__ + 1;
  std::string text = error_of([&] { a.matmul(b); });
  EXPECT_EQ(text, "[matmul] inner sizes differ: [4, 3] x [5, 2] (3 != 5) at graph_test.cpp:" +
                      std::to_string(line));
  line = __LINE__ + 1;
  text = error_of([&] { (void)(a + b); });
  EXPECT_THAT(text, HasSubstr("[add] shapes [4, 3] and [5, 2] do not broadcast"));
  EXPECT_THAT(text, HasSubstr("graph_test.cpp:" + std::to_string(line)));
  line = __LINE__ + 1;
  text = error_of([&] { (void)(a * c); });
  EXPECT_EQ(text, "[mul] the tensors belong to different graphs at graph_test.cpp:" + std::to_string(line));
  EXPECT_THAT(error_of([&] { (void)(Tensor() + a); }), HasSubstr("a tensor is empty"));
  EXPECT_THAT(error_of([&] { a.reshape({5, 3}); }),
              HasSubstr("[reshape] [4, 3] has 12 elements, [5, 3] has 15"));
  EXPECT_THAT(error_of([&] { a.set({1.f}); }),
              HasSubstr("[set] input0 is f32[4, 3], 12 elements; 1 were given"));
  a.sum({0}).keep();
  EXPECT_THAT(error_of([&] { g.execute(); }), HasSubstr("[execute] tensor input0 (f32[4, 3]) was never set"));
  EXPECT_THAT(error_of([&] { (void)b.neg().data<float>(); }), HasSubstr("call keep()"));
}

TEST(Graph, NarrowTypesAccumulateWide) {
  Graph g;
  Tensor x = g.tensor({4096}, DType::bf16), total = x.sum({0}).keep(), ints = g.tensor({3}, DType::i8),
         product = (ints * 100).keep();
  x.set(std::vector<float>(4096, 1.f));
  ints.set({1, 2, 3});
  g.execute();
  EXPECT_THAT(total.data<float>(), ElementsAre(4096));
  EXPECT_THAT(product.data<int>(), ElementsAre(100, int8_t(200), int8_t(300))); // integers wrap
}

} // namespace
} // namespace luminal::graph_test
