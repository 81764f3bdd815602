// tests/tensor/show_test.cpp -- tensors as text, and what a run cost.
#include "support.h"
#include <cmath>
#include <numeric>

namespace luminal {
namespace {

using namespace testing_tensor;
using testing::HasSubstr;

TEST(Show, ValuesAreNested) {
  Graph g;
  Tensor x = g.tensor({2, 3}, DType::f32, "x"), y = (x * 2).keep();
  EXPECT_EQ(printed(x), "x: f32[2, 3]");
  EXPECT_EQ(printed(y), "f32[2, 3]");
  EXPECT_EQ(printed(Tensor()), "empty tensor");
  x.set({{1.5, 2, 3}, {4, NAN, -INFINITY}});
  g.execute();
  EXPECT_EQ(printed(x), "[[1.5, 2, 3],\n [4, nan, -inf]]  # x: f32[2, 3]");
  y.set_name("y");
  EXPECT_EQ(printed(y), "[[3, 4, 6],\n [8, nan, -inf]]  # y: f32[2, 3]");
  Tensor number = g.tensor({}, DType::i64, "number"), truth = g.tensor({2}, DType::boolean, "truth"),
         big = g.tensor({1}, DType::u64, "big"), none = g.tensor({2, 0}, DType::f32, "none");
  number.set(7);
  truth.set({true, false});
  big.set(std::vector<uint64_t>{~uint64_t(0)});
  none.set(std::vector<float>{});
  EXPECT_EQ(printed(number), "7  # number: i64");
  EXPECT_EQ(printed(truth), "[true, false]  # truth: bool[2]");
  EXPECT_EQ(printed(big), "[18446744073709551615]  # big: u64[1]");
  EXPECT_EQ(printed(none), "[[],\n []]  # none: f32[2, 0]");
  Tensor cube = g.tensor({2, 2, 1}, DType::i32, "cube");
  cube.set({{{1}, {2}}, {{3}, {4}}});
  EXPECT_EQ(printed(cube), "[[[1],\n  [2]],\n\n [[3],\n  [4]]]  # cube: i32[2, 2, 1]");
}

TEST(Show, LongAxesAreCutAndDynamicSizesResolved) {
  Graph g;
  Dim n = g.dim("n", 1, 5000);
  Tensor x = g.tensor({n}, DType::i32, "x");
  EXPECT_EQ(printed(x), "x: i32[n]");
  g.set_dim("n", 7);
  EXPECT_EQ(printed(x), "x: i32[n] = [7]");
  std::vector<int> values(2000);
  std::iota(values.begin(), values.end(), 0);
  x.set_dyn(values);
  EXPECT_EQ(printed(x), "[0, 1, 2, ..., 1997, 1998, 1999]  # x: i32[2000]");
  EXPECT_EQ(to_string(x, {.edge_items = 1}), "[0, ..., 1999]  # x: i32[2000]");
  Tensor wide = g.tensor({4, 1000}, DType::i32, "wide");
  wide.set(std::vector<int>(4000, 1));
  EXPECT_EQ(to_string(wide, {.edge_items = 1}), "[[1, ..., 1],\n ...,\n [1, ..., 1]]  # wide: i32[4, 1000]");
  x.set_dyn(std::vector<int>{1, 2});
  EXPECT_EQ(printed(x), "[1, 2]  # x: i32[2]");
}

TEST(Show, ExecuteDebugNamesEveryStep) {
  Graph g;
  Tensor a = g.tensor({8, 16}, DType::f32, "a"), b = g.tensor({16, 4}, DType::f32, "b"),
         c = a.matmul(b).relu().keep();
  a.set(std::vector<float>(128, 1));
  b.set(std::vector<float>(64, 1));
  ExecutionTable table = g.execute_debug();
  ASSERT_FALSE(table.steps.empty());
  EXPECT_THAT(table.steps[0].shapes, HasSubstr("a f32[8, 16], b f32[16, 4]"));
  EXPECT_EQ(table.steps[0].bytes, 4 * (128 + 64 + 32));
  const std::string text = printed(table);
  EXPECT_THAT(text, HasSubstr("GB/s"));
  EXPECT_THAT(text, HasSubstr("total"));
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), long(table.steps.size()) + 2);
  EXPECT_EQ(c.data<float>()[0], 16);
}

TEST(Show, ExecuteDebugHasOneRowForEachLaunch) {
  Graph g; // two products side by side, each worth several workers
  Tensor x = g.tensor({512, 512}, DType::f32, "x"), y = g.tensor({512, 512}, DType::f32, "y");
  x.matmul(y).exp().keep();
  y.matmul(x).sin().keep();
  x.set(std::vector<float>(512 * 512, 0.001f));
  y.set(std::vector<float>(512 * 512, 0.002f));
  g.compile({.threads = 4});
  g.execute();
  for (const StepCost& step : g.execute_debug().steps) {
    EXPECT_GT(step.bytes, 0) << step.name;
    EXPECT_FALSE(step.shapes.empty()) << step.name;
  }
  EXPECT_EQ(g.execute_debug().steps.size(), 2u);
}

} // namespace
} // namespace luminal
