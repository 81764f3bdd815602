// tests/train/losses_test.cpp -- losses against values that PyTorch 2.13 gives, and their errors.
#include "luminal/losses.h"
#include "tensor/support.h"
#include "train/gradient_support.h"

namespace luminal::losses_test {
namespace {
using testing_train::Numbers;
using testing_train::Probe;

Numbers values(Tensor t) {
  t.keep();
  Graph g(t.graph());
  g.execute();
  return t.data<double>();
}
double value(const Tensor& t) { return values(t).at(0); }

class Losses : public ::testing::Test {
protected:
  Graph g;
  Tensor c(const std::vector<double>& list, Dims shape) { return g.constant(list, shape, DType::f64); }
  Tensor x = c({0.5, -1.25, 2, 0.75, -0.5, 1.5}, {2, 3}), y = c({0.25, 0.5, 1, -1, 0.5, 3}, {2, 3});
  Tensor ids = g.constant({2.0, 0.0}, {2}, DType::i64);
};

TEST_F(Losses, Distances) {
  EXPECT_NEAR(value(mse_loss(x, y)), 1.7395833333333333, 1e-12);
  EXPECT_NEAR(value(mse_loss(x, y, Reduction::sum)), 10.4375, 1e-12);
  EXPECT_NEAR(value(rmse_loss(x, y)), std::sqrt(1.7395833333333333), 1e-12);
  EXPECT_NEAR(value(l1_loss(x, y)), 1.2083333333333333, 1e-12);
  EXPECT_EQ(values(mae_loss(x, y, Reduction::none)), (Numbers{0.25, 1.75, 1, 1.75, 1, 1.5}));
  EXPECT_NEAR(value(huber_loss(x, y, 0.5)), 0.484375, 1e-12);
  EXPECT_NEAR(value(smooth_l1_loss(x, y, 2)), 0.434895833333333333, 1e-12);
  EXPECT_NEAR(value(smooth_l1_loss(x, y, 0)), 1.2083333333333333, 1e-12);
}

TEST_F(Losses, Classes) {
  const Tensor weight = c({0.5, 2, 1}, {3});
  EXPECT_NEAR(value(cross_entropy(x, ids)), 0.7287138556391736, 1e-12);
  EXPECT_NEAR(value(cross_entropy(x, ids, {.label_smoothing = 0.1, .weight = weight})), 0.8203703969690965,
              1e-12);
  EXPECT_NEAR(value(cross_entropy(x, ids, {.reduction = Reduction::sum, .ignore_index = 2})),
              1.2248057281763145, 1e-12);
  EXPECT_NEAR(value(cross_entropy(x, ids, {.ignore_index = 2})), 1.2248057281763145, 1e-12);
  EXPECT_NEAR(value(cross_entropy(x, y.softmax(1), {.label_smoothing = 0.2, .weight = weight})),
              1.73074837837646, 1e-12);
  EXPECT_NEAR(value(nll_loss(x.log_softmax(1), ids, {.weight = weight})), 0.5633498981267933, 1e-12);
  EXPECT_NEAR(value(kl_div(x.log_softmax(1), y.softmax(1), Reduction::sum)), 0.7612670810409947, 1e-12);
  EXPECT_NEAR(value(kl_div(x.log_softmax(1), y.log_softmax(1), Reduction::sum, true)), 0.7612670810409947,
              1e-12);
  const Tensor row = c({0.5, 2, -1}, {3}), one = g.constant({1.0}, {1}, DType::i64).squeeze(0);
  EXPECT_NEAR(value(cross_entropy(row, one)), 0.24131129665715703, 1e-12);
}

TEST_F(Losses, TwoClasses) {
  const Tensor t = c({0, 1, 1, 0, 0.5, 1}, {2, 3}), p = x.sigmoid();
  EXPECT_NEAR(value(binary_cross_entropy(p, t)), 0.7775492241410351, 1e-12);
  EXPECT_NEAR(value(binary_cross_entropy(c({0, 1}, {2}), c({1, 1}, {2}), Reduction::sum)), 100, 1e-12);
  EXPECT_NEAR(value(binary_cross_entropy_with_logits(x, t)), 0.7775492241410351, 1e-12);
  EXPECT_NEAR(value(binary_cross_entropy_with_logits(x, t, Reduction::mean, c({1, 2, 3}, {3}))),
              1.2184909160555146, 1e-12);
  EXPECT_NEAR(value(sigmoid_focal_loss(x, c({0, 1, 1, 0, 0, 1}, {2, 3}), 0.25, 2, Reduction::sum)),
              0.9560450118615632, 1e-12);
}

TEST_F(Losses, Vectors) {
  const Tensor target = c({1, -1}, {2});
  EXPECT_NEAR(value(cosine_embedding_loss(x, y, target, 0.1)), 0.4908098304564204, 1e-12);
  const Tensor z = c({1, 0.5, -0.5, 0, 0.25, 2}, {2, 3});
  EXPECT_NEAR(value(triplet_margin_loss(x, y, z)), 1.1699325466070092, 1e-12);
  EXPECT_NEAR(value(triplet_margin_loss(x, y, z, 2, 2, true)), 2.846911508925739, 1e-12);
}

TEST_F(Losses, MistakesAreNamed) {
  const Tensor n = g.constant({1.0, 2.0, 0.0}, {3}, DType::i64);
  EXPECT_ERROR(cross_entropy(x, n),
               "[cross_entropy] the targets are i64[3], one for each of [2] is expected");
  EXPECT_ERROR(cross_entropy(n, n),
               "[cross_entropy] i64[3] has no fractions: losses are of floating-point numbers");
  EXPECT_ERROR(cross_entropy(x, x.sum(0)), "[cross_entropy] probabilities of f64[3] for logits of f64[2, 3]");
  EXPECT_ERROR(cross_entropy(x.sum(), ids), "[cross_entropy] there is no axis of classes");
  EXPECT_ERROR(cross_entropy(x, ids, {.label_smoothing = 2}),
               "[cross_entropy] a label smoothing of 2 does not lie in 0..1");
  EXPECT_ERROR(nll_loss(x, ids, {.weight = x}),
               "[nll_loss] the weight is f64[2, 3], one for each of 3 classes is expected");
  EXPECT_ERROR(nll_loss(x, x), "[nll_loss] the targets are f64[2, 3]: class indices are integers");
  EXPECT_ERROR(huber_loss(x, y, 0), "[huber_loss] delta is 0, it must be above 0");
  EXPECT_ERROR(smooth_l1_loss(x, y, -1), "[smooth_l1_loss] beta is -1, it may not be negative");
  EXPECT_ERROR(mse_loss(x, y, Reduction(7)), "[loss] the reduction is none of mean, sum, none");
}

TEST(LossGradients, AgainstDifferences) {
  const std::vector<std::function<Tensor(const Tensor&, const Tensor&, const Tensor&)>> list{
      [](auto& x, auto& y, auto&) { return mse_loss(x, y); },
      [](auto& x, auto& y, auto&) { return huber_loss(x, y, 0.3); },
      [](auto& x, auto& y, auto&) { return smooth_l1_loss(x, y, 0.3); },
      [](auto& x, auto&, auto& n) { return cross_entropy(x, n, {.label_smoothing = 0.2}); },
      [](auto& x, auto& y, auto&) { return cross_entropy(x, y.softmax(1)); },
      [](auto& x, auto& y, auto&) { return kl_div(x.log_softmax(1), y.softmax(1)); },
      [](auto& x, auto& y, auto&) { return binary_cross_entropy(x.sigmoid(), y.sigmoid()); },
      [](auto& x, auto& y, auto&) { return binary_cross_entropy_with_logits(x, y.sigmoid()); },
      [](auto& x, auto& y, auto&) { return sigmoid_focal_loss(x, y.sigmoid(), 0.25, 2, Reduction::mean); },
      [](auto& x, auto& y, auto& n) { return cosine_embedding_loss(x, y, n * 2 - 1); },
      [](auto& x, auto& y, auto&) { return triplet_margin_loss(x, y, x * y, 2); },
  };
  for (size_t i = 0; i < list.size(); ++i) {
    SCOPED_TRACE(i);
    Probe p(i + 1);
    const Tensor x = p.input({3, 4}), y = p.input({3, 4}), n = p.integers({3}, {1, 0, 1});
    p.check({list[i](x, y, n)}, {.tolerance = 1e-5, .second = true});
  }
}

TEST(LossMemory, CrossEntropyStoresNoProbabilities) {
  Graph g;
  Tensor x = g.tensor({64, 4096}, DType::f32, "x"), y = g.tensor({64}, DType::i64, "y");
  x.set(std::vector<float>(64 * 4096, 0.5f));
  y.set(std::vector<int64_t>(64, 3));
  cross_entropy(x, y).keep();
  g.execute();
  EXPECT_LT(g.memory().arena, 64 * 4096 * 4 / 8);
}

/// Beside the logits and their gradient nothing of their size is in memory.
TEST(LossMemory, TheGradientOfCrossEntropyStoresNoProbabilities) {
  Graph g;
  const int64_t rows = 64, classes = 20000, width = 16;
  Tensor x = g.tensor({rows, width}, DType::f32, "x"), w = g.tensor({classes, width}, DType::f32, "w"),
         y = g.tensor({rows}, DType::i64, "y");
  x.set(std::vector<float>(size_t(rows * width), 0.5f));
  w.set(std::vector<float>(size_t(classes * width), 0.25f));
  y.set(std::vector<int64_t>(size_t(rows), 3));
  for (const Tensor& d : gradients(cross_entropy(x.matmul(w.t()), y), {x, w})) Tensor(d).keep();
  g.execute();
  EXPECT_LT(g.memory().arena, rows * classes * 4 * 2 + classes * width * 4 + (1 << 18)) << g.report();
}

} // namespace
} // namespace luminal::losses_test
