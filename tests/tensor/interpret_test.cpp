// tests/tensor/interpret_test.cpp -- interpret gives the meaning of tensors, kept or not, before
// and after an execute.
#include "support.h"

namespace luminal {
namespace {

using testing::ElementsAre;

TEST(Interpret, GivesWhatExecuteGives) {
  Graph g;
  Dim n = g.dim("n", 0, 8);
  Tensor x = g.tensor({n, 3}, DType::f32, "x"), w = g.weight("w", {3, 2}), unused = g.tensor({5});
  Tensor product = x.matmul(w), best = product.argmax(1).keep();
  g.set_dim("n", 2);
  x.set({{1.f, 2.f, 3.f}, {-1.f, 0.f, 1.f}});
  w.set({{1.f, 0.f}, {0.f, 1.f}, {1.f, 1.f}});
  auto meant = interpret({product, best}); // nothing is compiled, product is not kept
  EXPECT_EQ(meant[0].dtype, DType::f32);
  EXPECT_THAT(meant[0].shape, ElementsAre(2, 2));
  EXPECT_THAT(meant[0].numbers(), ElementsAre(4, 5, 0, 1));
  EXPECT_THAT(meant[1].numbers(), ElementsAre(1, 1));
  g.execute();
  EXPECT_THAT(best.data<int64_t>(), ElementsAre(1, 1));
  EXPECT_EQ(unused.rank(), 1);
}

TEST(Interpret, SeesStatesAsTheLastStepLeftThem) {
  Graph g;
  Tensor x = g.tensor({2}), total = g.state("total", {2});
  Tensor next = (total + x).keep();
  g.update(total, next);
  x.set({1.f, 2.f});
  EXPECT_THAT(interpret({next})[0].numbers(), ElementsAre(1, 2)); // zeros at first
  g.execute();
  g.execute();
  EXPECT_THAT(interpret({next, total})[0].numbers(), ElementsAre(3, 6));
  EXPECT_THAT(next.data<float>(), ElementsAre(2, 4));
}

TEST(Interpret, NamesWhatHasNoValue) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x");
  EXPECT_ERROR((void)interpret({x + 1}), "[interpret] x (f32[2]) has no value yet: it was never set");
}

} // namespace
} // namespace luminal
