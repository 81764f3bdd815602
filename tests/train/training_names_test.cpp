// tests/train/training_names_test.cpp -- other names for optimizers, accumulation, mixed precision and
// recomputation: equal to what they stand for.
#include "luminal/luminal.h"
#include <gtest/gtest.h>

namespace luminal {
namespace {

/// w after three steps on |x w - y|^2.
std::vector<float> trained(const std::function<void(Graph&, const Tensor& loss, const Tensor& w)>& update,
                           bool narrow = false) {
  Graph g;
  Tensor w = g.state("w", {2});
  w.set({0.5, -1.0});
  Tensor x = g.constant({{1, 2}, {3, -1}}, {2, 2}), weight = narrow ? w.cast(DType::bf16) : w;
  const Tensor loss = ((x.cast(weight.dtype()).matmul(weight)).cast(DType::f32) - 1.0).square().mean();
  update(g, loss, w);
  for (int i = 0; i < 3; ++i) g.execute();
  return w.data<float>();
}

TEST(TrainingNames, OptimizersOnTheGraph) {
  const auto plain = [](auto make, auto options) {
    return trained([&](Graph& g, const Tensor& loss, const Tensor& w) {
      make(g, LearningRate(0.1), options, std::source_location::current()).update({w}, gradients(loss, {w}));
    });
  };
  const auto named = [](auto on_graph) {
    return trained([&](Graph& g, const Tensor& loss, const Tensor& w) {
      OnGraph made = on_graph(g, std::vector<Tensor>{w}, gradients(loss, {w}));
      made.learning_rate.set(0.1);
    });
  };
  EXPECT_EQ(named([](Graph& g, const auto& p, const auto& d) { return sgd_on_graph(g, p, d); }),
            plain(sgd, SgdOptions{}));
  EXPECT_EQ(named([](Graph& g, const auto& p, const auto& d) { return sgd_momentum_on_graph(g, p, d); }),
            plain(sgd, SgdOptions{.momentum = 0.9}));
  EXPECT_EQ(named([](Graph& g, const auto& p, const auto& d) { return adam_on_graph(g, p, d); }),
            plain(adam, AdamOptions{}));
  EXPECT_EQ(named([](Graph& g, const auto& p, const auto& d) { return rmsprop_on_graph(g, p, d); }),
            plain(rmsprop, RmsPropOptions{}));
  EXPECT_EQ(named([](Graph& g, const auto& p, const auto& d) { return lamb_on_graph(g, p, d); }),
            plain(lamb, LambOptions{}));
  EXPECT_NE(plain(sgd, SgdOptions{}), plain(adam, AdamOptions{}));
}

TEST(TrainingNames, AccumulatorContextAndManager) {
  const std::vector<float> start{0.5F, -1.0F};
  const auto accumulated = [&](int64_t steps) {
    return trained([&](Graph& g, const Tensor& loss, const Tensor& w) {
      const Accumulated sums = GradientAccumulator(g, steps).accumulate(gradients(loss, {w}));
      sgd(g, 0.1).update({w}, sums.gradients, {.when = sums.ready});
    });
  };
  EXPECT_EQ(accumulated(4), start); // three of four
  EXPECT_NE(accumulated(3), start);
  for (const DType type : {DType::bf16, DType::f16, DType::f32}) {
    const auto result = trained(
        [&](Graph& g, const Tensor& loss, const Tensor& w) {
          AMPContext amp(g, type);
          const GradScaler::Unscaled made = amp.gradients(loss, {w});
          EXPECT_EQ(amp.cast(w).dtype(), type);
          sgd(g, 0.1).update({w}, made.gradients, {.when = made.finite});
        },
        type == DType::bf16);
    EXPECT_NE(result, start);
    EXPECT_NEAR(result[0], accumulated(1)[0], 0.02);
  }
  Graph g;
  CheckpointManager manager(g);
  Tensor x = g.constant({1.0, 2.0}, {2});
  const auto square = [](Graph&, const std::vector<Tensor>& in) {
    return std::vector<Tensor>{in[0].square()};
  };
  Tensor y = manager.checkpoint({manager.checkpoint({x}, square)[0]}, square)[0].sum();
  Tensor slope = gradient(y, x).keep();
  g.execute();
  EXPECT_EQ(slope.data<float>(), (std::vector<float>{4, 32}));
  EXPECT_EQ(manager.parts(), 2);
}

} // namespace
} // namespace luminal
