// tests/train/recompute_test.cpp -- values that are computed again for the gradient: the same steps, less
// memory, limits that are met or refused.
#include "luminal/inspect.h"
#include "luminal/train_models.h"
#include "tensor/support.h"
#include "trainer_support.h"
#include <gmock/gmock.h>

namespace luminal {
namespace {

using namespace testing_train;
using ::testing::HasSubstr;

/// Layers of the same kind, one after the other, with dropout between them.
ModelFunction tower(int layers, int64_t width) {
  return [=](ModelScope& m) {
    Tensor h = m.input("x").matmul(m.parameter("in", {2, width}, init::normal(1)));
    for (int k = 0; k < layers; ++k) {
      const std::string name = "layer" + std::to_string(k);
      const Tensor w = m.parameter(name, {width, width}, init::fan_in());
      h = m.dropout(h + (h.layer_norm(1).matmul(w)).tanh(), 0.25);
    }
    const Tensor logits = h.matmul(m.parameter("out", {width, 2}, init::fan_in()));
    return StepResults{cross_entropy(logits, m.input("y"))};
  };
}

int64_t arena_of(Trainer& trainer) { return planned_memory(trainer.graph()).arena; }

TEST(Recompute, GivesTheSameStepsInLessMemory) {
  const auto data = spirals(512);
  std::vector<double> losses;
  int64_t arena = 0;
  for (const int64_t segments : {1, 4}) {
    Trainer trainer(tower(8, 32), data, {.batch = 256, .seed = 5, .recompute = segments});
    EXPECT_EQ(trainer.segments(), segments);
    if (segments == 1) arena = arena_of(trainer);
    for (size_t i = 0; i < 3; ++i) {
      const double loss = trainer.step().loss; // of other masks it would be another one
      if (segments == 1)
        losses.push_back(loss);
      else
        EXPECT_NEAR(loss, losses[i], 1e-5);
    }
    EXPECT_EQ(trainer.graph().memory().arena, arena_of(trainer));
    if (segments > 1) EXPECT_LT(arena_of(trainer), arena * 6 / 10);
  }
}

TEST(Recompute, MeetsALimitOrRefusesIt) {
  const auto data = spirals(512);
  const auto with = [&](int64_t limit) {
    return Trainer(tower(8, 32), data, {.batch = 256, .seed = 5, .compile = {.max_memory = limit}});
  };
  Trainer free = with(0);
  const MemoryUse use = planned_memory(free.graph());
  const int64_t needed = use.arena + use.states;
  EXPECT_EQ(free.segments(), 1);
  EXPECT_EQ(with(needed).segments(), 1);
  Trainer limited = with(needed - use.arena / 3);
  EXPECT_GT(limited.segments(), 1);
  for (int i = 0; i < 3; ++i) // kernels are cut elsewhere, so that sums may be rounded otherwise
    EXPECT_NEAR(limited.step().loss, free.step().loss, 1e-5);
  EXPECT_THROW(with(use.states), OutOfMemoryError);
  const std::string text = message_of([&] { with(use.states); });
  EXPECT_THAT(text, HasSubstr("[Trainer] a step needs "));
  EXPECT_THAT(text, HasSubstr("iB, the limit is "));
  EXPECT_THAT(text, HasSubstr(" of it are parameters and what the optimizer remembers, "));
  EXPECT_THAT(text, HasSubstr(" values in between, computed again in "));
  EXPECT_EQ(message_of([&] { Trainer(tower(1, 4), data, {.recompute = -1}); }),
            "[Trainer] recompute lies in 0..1024");
}

TEST(Recompute, LoopsRunForwardOnceForTheirGradient) {
  Graph g;
  Tensor x = g.tensor({3}), w = g.state("w", {3}), rows = g.tensor({4, 3});
  const auto body = [](Graph&, const Tensor&, const std::vector<Tensor>& carried,
                       const std::vector<Tensor>& slices, const std::vector<Tensor>& fixed) {
    const Tensor next = (carried[0] * fixed[0] + slices[0]).tanh();
    return Graph::LoopResult{{next}, {next * 2.0}};
  };
  const auto made = g.loop(4, {x}, {rows}, {w}, body);
  Tensor loss = (made.carried[0].sum() + made.stacked[0].square().sum()).keep();
  Tensor slope = gradient(loss, w).keep();
  const auto loops = [](const std::string& text) {
    int count = 0;
    for (size_t at = text.find("loop "); at != std::string::npos; at = text.find("loop ", at + 1)) ++count;
    return count;
  };
  EXPECT_EQ(loops(g.to_string()), 3); // as they are made
  EXPECT_EQ(loops(g.to_string(passes::defaults())), 2);
  x.set({0.1, 0.2, 0.3}), w.set({0.5, -0.5, 1.0});
  rows.set({0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2});
  const auto expected = interpret({loss, slope});
  g.execute();
  EXPECT_NEAR(loss.item<float>(), expected[0].numbers()[0], 1e-5);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(slope.data<float>()[i], expected[1].numbers()[i], 1e-5);
}

/// By the interpreter, which knows no order: terms of many kinds, cut at any place.
TEST(Recompute, GradientsAreThoseOfTheTermsThemselves) {
  for (const int64_t segments : {2, 3, 5, 9, 100}) {
    Graph g;
    Tensor x = g.tensor({4, 6}), w = g.state("w", {6, 6});
    std::vector<float> values;
    for (int i = 0; i < 36; ++i) values.push_back(float(i * 7 % 11) / 8 - 0.5F);
    w.set(values);
    x.set(std::vector<float>(values.begin(), values.begin() + 24));
    const Tensor key = random_key(g, 3);
    Tensor h = x.matmul(w).tanh();
    h = h.softmax(1) + h.cumsum(1) * h.max(0, true);
    h = dropout(key, h, 0.5).matmul(w.t());
    h = g.loop(3, {h}, {}, {w},
               [](Graph&, const Tensor&, const std::vector<Tensor>& carried, const std::vector<Tensor>&,
                  const std::vector<Tensor>& fixed) {
                 return Graph::LoopResult{{(carried[0].matmul(fixed[0]) * 0.1).sin()}, {}};
               })
            .carried[0];
    h = checkpoint(g, "part", {h, w}, [](Graph&, const std::vector<Tensor>& in) {
      return std::vector<Tensor>{(in[0].matmul(in[1])).exp()};
    })[0];
    h = h.topk(2, 1).values.log() + h.slice({Slice(), Slice(0, 2)});
    const Tensor loss = h.square().mean();
    const auto plain = gradients(loss, {w, x}), again = gradients(loss, {w, x}, {.segments = segments});
    const auto found = interpret({plain[0], plain[1], again[0], again[1]});
    EXPECT_EQ(found[0].bytes, found[2].bytes) << segments;
    EXPECT_EQ(found[1].bytes, found[3].bytes) << segments;
    EXPECT_NE(again[0].id(), plain[0].id());
  }
  Graph g;
  Tensor x = g.tensor({2});
  EXPECT_ERROR(gradients(x.sum(), {x}, {.segments = 0}), "[gradients] 0 segments: at least 1 is expected");
}

} // namespace
} // namespace luminal
