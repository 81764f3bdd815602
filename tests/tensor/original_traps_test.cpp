// tests/tensor/original_traps_test.cpp -- small cases that tensor libraries get wrong: equal
// extents, infinities behind masks, signs, ties, NaN.
#include "luminal/luminal.h"
#include <cmath>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal {
namespace {
using testing::ElementsAre;
using testing::FloatNear;
constexpr float inf = INFINITY;

// x.layer_norm(1e-5) would be over axis 0: an eps is not an axis.
static_assert(!std::is_convertible_v<double, Axes> && !std::is_convertible_v<float, Axes>);
static_assert(std::is_convertible_v<int, Axes>);

TEST(OriginalTraps, SmallCases) {
  Graph g;
  auto constant = [&](const std::vector<float>& values, Dims shape) {
    return g.constant(values, std::move(shape));
  };
  Tensor eye = constant({1, 0, 0, 1}, {2, 2}), w = constant({1, 3, 2, 4}, {2, 2});
  Tensor with_bias = linear(eye, w, constant({10, 20}, {2})).keep(); // as many rows as columns
  Tensor soft = constant({0, 0, 1, 3}, {2, 2}).softmax(0).keep();
  Tensor normal = constant({0, 0, 2, 6}, {2, 2}).layer_norm(0, 0).keep();
  Tensor rectified = constant({-inf, inf, 1}, {3}).relu().keep();
  Tensor cube = pow(constant({-2}, {1}), constant({3}, {1})).keep();
  Tensor product = constant({-2, 3}, {2}).prod().keep();
  Tensor first = constant({3, 1, 3}, {3}).argmax().keep();
  Tensor signs = constant({1e-12F, -1e-12F}, {2}).sign().keep();
  Tensor same = equal(constant({NAN}, {1}), 1).keep();
  Tensor cosine = constant({1e4F}, {1}).cos().keep();
  Tensor limits = maximum(constant({1, 1}, {2}), constant({-inf, inf}, {2})).keep();
  Tensor nothing = pow(constant({0}, {1}), 0).keep();
  Tensor mean = constant({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2}).mean({0, 2}).keep(); // over two axes
  Tensor masked = masked_fill(constant({1, 2}, {2}), constant({inf, 0}, {2}) > 1, 0).keep();
  g.execute();
  EXPECT_THAT(with_bias.data<float>(), ElementsAre(11, 22, 13, 24));
  EXPECT_THAT(soft.data<float>(), ElementsAre(FloatNear(0.268941F, 1e-6F), FloatNear(0.0474259F, 1e-6F),
                                              FloatNear(0.731059F, 1e-6F), FloatNear(0.952574F, 1e-6F)));
  EXPECT_THAT(normal.data<float>(), ElementsAre(-1, -1, 1, 1));
  EXPECT_THAT(rectified.data<float>(), ElementsAre(0, inf, 1));
  EXPECT_THAT(cube.data<float>(), ElementsAre(-8));
  EXPECT_THAT(product.data<float>(), ElementsAre(-6));
  EXPECT_THAT(first.data<int64_t>(), ElementsAre(0));
  EXPECT_THAT(signs.data<float>(), ElementsAre(1, -1));
  EXPECT_THAT(same.data<int>(), ElementsAre(0));
  EXPECT_THAT(cosine.data<float>(), ElementsAre(FloatNear(-0.952155F, 1e-6F)));
  EXPECT_THAT(limits.data<float>(), ElementsAre(1, inf));
  EXPECT_THAT(nothing.data<float>(), ElementsAre(1));
  EXPECT_THAT(mean.data<float>(), ElementsAre(3.5F, 5.5F));
  EXPECT_THAT(masked.data<float>(), ElementsAre(0, 2));
}

TEST(OriginalTraps, WholeNumbersAreExactAndDimensionsAreOperands) {
  Graph g;
  Dim n = g.dim("n", 0, 100);
  Tensor x = g.tensor({n}, DType::i64), f = g.tensor({n});
  Tensor big = (x + int64_t(9007199254740993)).keep(), sized = (x * n).keep(), shared = (f / n).keep();
  Tensor compound = x;
  compound += 1;
  compound *= n + 1;
  compound %= 5;
  compound ^= 1;
  compound.keep();
  g.set_dim("n", 2);
  x.set({int64_t(0), int64_t(7)});
  f.set({1.f, 3.f});
  g.execute();
  EXPECT_THAT(big.data<int64_t>(), ElementsAre(9007199254740993, 9007199254741000));
  EXPECT_THAT(sized.data<int64_t>(), ElementsAre(0, 14));
  EXPECT_THAT(shared.data<float>(), ElementsAre(0.5F, 1.5F));
  EXPECT_THAT(compound.data<int64_t>(), ElementsAre(3 ^ 1, 4 ^ 1));
}

} // namespace
} // namespace luminal
