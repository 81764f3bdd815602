// tests/train/optimizers_test.cpp -- optimizers beside plain loops, schedules beside PyTorch's
// numbers, clipping, accumulation, loss scaling, and updates in place.
#include "luminal/autograd.h"
#include "luminal/debug.h"
#include "luminal/optimizers.h"
#include "tensor/support.h"
#include <cmath>
#include <fmt/format.h>

namespace luminal::optimizers_test {
namespace {

using Numbers = std::vector<double>;

/// The parameter after each of three steps down sum(w^2 * scale).
std::vector<Numbers> steps_of(const std::function<Optimizer(Graph&)>& make, const Numbers& first,
                              const Numbers& scale, Dims shape, DType type = DType::f64) {
  Graph g;
  Tensor w = g.state("w", shape, type);
  w.set(first);
  const Tensor loss = (w * w * g.constant(scale, shape, type)).sum();
  make(g).update({w}, {gradient(loss, w)});
  std::vector<Numbers> list;
  for (int i = 0; i < 3; ++i) {
    g.execute();
    list.push_back(w.data<double>());
  }
  return list;
}

TEST(Optimizers, LionBesideALoop) {
  const auto got =
      steps_of([](Graph& g) { return lion(g, 0.1, {.weight_decay = 0.2}); }, {1, -2}, {0.5, 2}, {2});
  double w[2] = {1, -2}, m[2] = {0, 0};
  for (const Numbers& step : got)
    for (int k = 0; k < 2; ++k) {
      const double g = 2 * w[k] * (k ? 2 : 0.5), c = 0.9 * m[k] + 0.1 * g;
      w[k] = w[k] - 0.1 * 0.2 * w[k] - 0.1 * (c > 0 ? 1 : -1);
      m[k] = 0.99 * m[k] + 0.01 * g;
      EXPECT_NEAR(step[size_t(k)], w[k], 1e-12);
    }
}

TEST(Optimizers, LambBesideALoop) {
  const auto got =
      steps_of([](Graph& g) { return lamb(g, 0.1, {.weight_decay = 0.2}); }, {1, -2}, {0.5, 2}, {2});
  double w[2] = {1, -2}, m[2] = {0, 0}, v[2] = {0, 0};
  for (size_t t = 0; t < got.size(); ++t) {
    double step[2], size = 0, moved = 0;
    for (int k = 0; k < 2; ++k) {
      const double g = 2 * w[k] * (k ? 2 : 0.5);
      m[k] = 0.9 * m[k] + 0.1 * g;
      v[k] = 0.999 * v[k] + 0.001 * g * g;
      const double n = double(t + 1);
      step[k] =
          m[k] / (1 - std::pow(0.9, n)) / (std::sqrt(v[k] / (1 - std::pow(0.999, n))) + 1e-6) + 0.2 * w[k];
      size += w[k] * w[k];
      moved += step[k] * step[k];
    }
    for (int k = 0; k < 2; ++k) {
      w[k] -= 0.1 * std::sqrt(size / moved) * step[k];
      EXPECT_NEAR(got[t][size_t(k)], w[k], 1e-11);
    }
  }
}

TEST(Optimizers, MuonBesidePyTorch) {
  // PyTorch 2.13, with its iteration (in bf16) done in f64
  const Numbers want{0.5689606245500329, -0.9273418311825372, 2.2448486854168683,
                     0.8211588203924699, -0.3635045294726025, 1.3534012118896006};
  const auto got = steps_of([](Graph& g) { return muon(g, 0.1); }, {0.5, -1.25, 2, 0.75, -0.5, 1.5},
                            {1, 2, -1, 0.5, 3, 1}, {3, 2});
  for (size_t k = 0; k < 6; ++k) EXPECT_NEAR(got[2][k], want[k], 1e-9) << k;
}

TEST(Optimizers, GroupsAndConditions) {
  Graph g;
  Tensor a = g.state("a", {1}), b = g.state("b", {1}), go = g.tensor({}, DType::boolean, "go");
  a.set({1});
  b.set({1});
  Optimizer o = sgd(g, 0.5, {.weight_decay = 1});
  const std::vector<Tensor> zero{g.constant({0.0}, {1})};
  o.update({a}, zero, {.when = go});
  o.update({b}, zero, {.rate = 0.5, .weight_decay = 2, .when = go});
  for (const bool now : {true, false, true}) {
    go.set({now});
    g.execute();
  }
  EXPECT_FLOAT_EQ(a.item<float>(), 0.25);
  EXPECT_FLOAT_EQ(b.item<float>(), 0.25);
  EXPECT_EQ(Tensor(o.step()).item<int64_t>(), 2);
}

TEST(Optimizers, NarrowParametersAndMemory) {
  const auto wide = steps_of([](Graph& g) { return adam(g, 0.1); }, {1, -2}, {0.5, 2}, {2}, DType::f32);
  const auto memory = steps_of([](Graph& g) { return adam(g, 0.1, {.memory = DType::bf16}); }, {1, -2},
                               {0.5, 2}, {2}, DType::f32);
  const auto narrow = steps_of([](Graph& g) { return adam(g, 0.1); }, {1, -2}, {0.5, 2}, {2}, DType::bf16);
  for (size_t k = 0; k < 2; ++k) {
    EXPECT_NEAR(memory[2][k], wide[2][k], 2e-3);
    EXPECT_NE(memory[2][k], wide[2][k]);
    EXPECT_NEAR(narrow[2][k], wide[2][k], 2e-2);
  }
}

TEST(Optimizers, MistakesAreNamed) {
  Graph g;
  Tensor w = g.state("w", {2}), x = g.tensor({2}, DType::f32, "x"), m = g.state("m", {2, 2, 2});
  Optimizer o = sgd(g, 0.1);
  EXPECT_ERROR(o.update({w}, {}), "[sgd] 0 gradients for 1 parameters");
  EXPECT_ERROR(o.update({x}, {x}),
               "[sgd] parameter 0 (x) is not a state of floating-point numbers: Graph::state makes one");
  EXPECT_ERROR(o.update({w}, {x.sum()}), "[sgd] the gradient of w is f32, the parameter f32[2]");
  EXPECT_ERROR(o.update({w}, {x}, {.when = x}), "[sgd] the condition is f32[2], one bool is expected");
  EXPECT_ERROR(sgd(g, 0.1, {.nesterov = true}), "[sgd] nesterov needs a momentum, and no dampening");
  EXPECT_ERROR(adam(g, 0.1, {.memory = DType::i32}), "[adam] what is remembered cannot be i32");
  EXPECT_ERROR(adam(g, Schedule([](const Tensor& s) { return s.cast(DType::f32); })),
               "[adam] the learning rate is f32, a schedule gives f64");
  EXPECT_THAT(testing_tensor::error_of([&] { muon(g, 0.1).update({m}, {m}); }),
              testing::StartsWith("[muon] parameter m has 3 axes, it is for matrices: give others to adamw"));
  EXPECT_ERROR(clip_grad_norm({}, 1), "[clip_grad_norm] there is no gradient");
  EXPECT_ERROR(clip_grad_norm({x}, 0), "[clip_grad_norm] limit 0 and order 2 must be above 0");
  EXPECT_ERROR(clip_grad_value({x}, -1), "[clip_grad_value] a limit of -1 must be above 0");
  EXPECT_ERROR(accumulate(g, {x}, 0), "[accumulate] 0 executes: at least 1 is expected");
  EXPECT_ERROR(moving_averages(g, {w}, 1), "[moving_averages] a decay of 1 does not lie between 0 and 1");
  EXPECT_ERROR(GradScaler(g, {.growth = 0.5}),
               "[GradScaler] the scale must be above 0, growth above 1, backoff between 0 and 1");
  GradScaler scaler(g);
  EXPECT_ERROR(scaler.unscaled({}), "[GradScaler] there is no gradient");
  scaler.unscaled({x});
  EXPECT_ERROR(scaler.unscaled({x}),
               "[GradScaler] unscaled was called already: give it all gradients at once");
}

Numbers rates(const Schedule& schedule, int count) {
  Graph g;
  Tensor at = g.tensor({}, DType::f64, "at"), rate = schedule(at).keep();
  Numbers list;
  for (int i = 0; i < count; ++i) {
    at.set({double(i)});
    g.execute();
    list.push_back(rate.item<double>());
  }
  return list;
}
void near(const Numbers& got, const Numbers& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-12) << "step " << i;
}

TEST(Schedules, AreThoseOfPyTorch) {
  near(rates(schedules::constant(0.3), 2), {0.3, 0.3});
  near(rates(schedules::cosine(1, 8, 0.1), 10),
       {1.0, 0.9657457896300791, 0.8681980515339464, 0.7222075445642905, 0.55, 0.3777924554357097,
        0.2318019484660537, 0.134254210369921, 0.1, 0.1});
  near(rates(schedules::exponential(1, 0.9), 4), {1.0, 0.9, 0.81, 0.729});
  near(rates(schedules::step(1, 3, 0.5), 8), {1, 1, 1, 0.5, 0.5, 0.5, 0.25, 0.25});
  near(rates(schedules::steps_at(1, {2, 5}), 7), {1, 1, 0.1, 0.1, 0.1, 0.01, 0.01});
  near(rates(schedules::polynomial(1, 4, 2), 6), {1.0, 0.5625, 0.25, 0.0625, 0, 0});
  near(rates(schedules::linear(1, 0.5, 2), 4), {1, 0.75, 0.5, 0.5});
  near(rates(schedules::one_cycle(0.5, 10), 10),
       {0.02, 0.26, 0.5, 0.47524231600673683, 0.40587282697488153, 0.30563101096814466, 0.19437098903185537,
        0.09412917302511849, 0.024759683993263143, 2e-06});
  near(rates(schedules::warm_up(4, schedules::step(1, 2, 0.5)), 8), {0.25, 0.5, 0.75, 1, 1, 1, 0.5, 0.5});
}

TEST(Schedules, Plateau) {
  Graph g;
  Tensor metric = g.tensor({}, DType::f32, "metric");
  const Schedule schedule = schedules::plateau(g, metric, 1, 0.5, 1);
  Tensor rate = schedule(g.constant(0.0, DType::f64)).keep();
  Numbers list;
  for (const double m : {5., 4., 4., 4., 4., 3., 3., 3., 3., 2.9}) {
    metric.set({m});
    g.execute();
    list.push_back(rate.item<double>());
  }
  near(list, {1, 1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.25, 0.25}); // PyTorch's, one step later
}

TEST(Schedules, MistakesAreNamed) {
  using testing_tensor::error_of;
  Graph g;
  EXPECT_EQ(error_of([] { schedules::cosine(1, 0); }), "[cosine] 0 steps: at least 1 is expected");
  EXPECT_EQ(error_of([] { schedules::one_cycle(1, 5, 2); }),
            "[one_cycle] the first part lies between 0 and 1, and divisors are above 0");
  EXPECT_EQ(error_of([&] { schedules::plateau(g, g.constant(1.0), 1, 2); }),
            "[plateau] a factor of 2 does not lie between 0 and 1");
}

TEST(Clipping, NormsOfDoublesAreDoubles) {
  Graph g;
  Tensor x = g.tensor({3}, DType::f64), y = g.tensor({2}, DType::f32);
  const ClippedGradients clipped = clip_grad_norm({x, y}, 1);
  EXPECT_EQ(clipped.norm.dtype(), DType::f64);
  EXPECT_EQ(clip_grad_norm({y}, 1).norm.dtype(), DType::f32);
  Tensor norm = clipped.norm, first = clipped.gradients[0], second = clipped.gradients[1];
  norm.keep(), first.keep(), second.keep();
  const std::vector<double> of_x{1, 1e-5, 2};
  x.set_bytes(std::as_bytes(std::span(of_x)), DType::f64);
  y.set({2, 4});
  g.execute();
  const double want = std::sqrt(25 + 1e-10);
  EXPECT_NEAR(norm.data<double>()[0], want, 1e-15 * want);
  EXPECT_NEAR(first.data<double>()[1], 1e-5 / (want + 1e-6), 1e-20);
  EXPECT_FLOAT_EQ(second.data<float>()[1], float(4 / (want + 1e-6)));
}

TEST(Gradients, Clipping) {
  Graph g;
  Tensor a = g.tensor({2}, DType::f32, "a"), b = g.tensor({1}, DType::f32, "b");
  a.set({3, 0});
  b.set({-4});
  ClippedGradients two = clip_grad_norm({a, b}, 1), most = clip_grad_norm({a, b}, 2, INFINITY);
  std::vector<Tensor> by_value = clip_grad_value({a, b}, 3.5);
  for (Tensor* t :
       {&two.norm, &two.gradients[0], &two.gradients[1], &most.norm, &most.gradients[1], &by_value[1]})
    t->keep();
  g.execute();
  EXPECT_FLOAT_EQ(two.norm.item<float>(), 5);
  EXPECT_NEAR(two.gradients[0].data<float>()[0], 0.6, 1e-6);
  EXPECT_NEAR(two.gradients[1].item<float>(), -0.8, 1e-6);
  EXPECT_FLOAT_EQ(most.norm.item<float>(), 4);
  EXPECT_NEAR(most.gradients[1].item<float>(), -2, 1e-6);
  EXPECT_FLOAT_EQ(by_value[1].item<float>(), -3.5);
}

TEST(Gradients, AccumulationOfFourIsOneOfAll) {
  std::vector<float> xs(64), result[2];
  for (size_t i = 0; i < xs.size(); ++i) xs[i] = float(std::sin(double(i)));
  for (const int parts : {1, 4}) {
    Graph g;
    const int64_t rows = 16 / parts;
    Tensor w = g.state("w", {4}), x = g.tensor({rows, 4}, DType::f32, "x");
    w.set({1, 2, 3, 4});
    const Tensor loss = ((x * w).sum(1).tanh() - 0.5).square().mean();
    const Accumulated sums = accumulate(g, {gradient(loss, w)}, parts);
    adam(g, 0.1).update({w}, sums.gradients, {.when = sums.ready});
    for (int step = 0; step < 3 * parts; ++step) {
      const auto first = xs.begin() + (step % parts) * rows * 4;
      x.set(std::vector<float>(first, first + rows * 4));
      g.execute();
    }
    result[parts == 4] = w.data<float>();
  }
  for (size_t k = 0; k < 4; ++k) EXPECT_NEAR(result[0][k], result[1][k], 1e-6);
}

TEST(Scaler, FallsAtInfinityAndRisesAfterPatience) {
  Graph g;
  Tensor w = g.state("w", {1}), x = g.tensor({1}, DType::f16, "x");
  w.set({1});
  GradScaler scaler(g, {.initial = 1024, .patience = 2});
  const Tensor loss = (w.cast(DType::f16) * x).sum();
  const auto g_of = scaler.unscaled(gradients(scaler.scaled(loss).cast(DType::f16), {w}));
  sgd(g, 0.5).update({w}, g_of.gradients, {.when = g_of.finite});
  Tensor scale = Tensor(scaler.scale()).keep();
  std::vector<float> scales, ws;
  for (const double now : {0.25, 1000., 0.25, 0.25, 0.25}) { // 1000 * 1024 is above f16
    x.set({now});
    g.execute();
    scales.push_back(scale.item<float>());
    ws.push_back(w.item<float>());
  }
  EXPECT_EQ(scales, (std::vector<float>{1024, 1024, 512, 512, 1024}));
  EXPECT_EQ(ws, (std::vector<float>{0.875, 0.875, 0.75, 0.625, 0.5}));
}

TEST(Averages, AreCorrectedForTheirStart) {
  Graph g;
  Tensor w = g.state("w", {1});
  w.set({2});
  Tensor mean = moving_averages(g, {w}, 0.9)[0].keep();
  g.update(w, w + 1);
  g.execute();
  EXPECT_FLOAT_EQ(mean.item<float>(), 2);
  g.execute();
  EXPECT_NEAR(mean.item<float>(), (2 * 0.09 + 3 * 0.1) / 0.19, 1e-6);
}

/// After the optimizer: what the step writes, which is what is kept of a training.
TEST(Averages, AreOfWhatAStepWrites) {
  Graph g;
  Tensor w = g.state("w", {1}), when = g.tensor({}, DType::boolean, "when");
  w.set({2});
  g.update(w, select(when, w + 1, w));
  Tensor mean = moving_averages(g, {w}, 0.9, when)[0].keep();
  const auto step = [&](bool holds) {
    when.set({double(holds)});
    g.execute();
    return mean.item<float>();
  };
  EXPECT_EQ(step(false), 2); // nothing has been averaged
  EXPECT_FLOAT_EQ(step(true), 3);
  EXPECT_FLOAT_EQ(step(false), 3);
  EXPECT_NEAR(step(true), (3 * 0.09 + 4 * 0.1) / 0.19, 1e-6);
  EXPECT_NEAR(step(false), (3 * 0.09 + 4 * 0.1) / 0.19, 1e-6);
}

TEST(Updates, AreInPlace) {
  Graph g;
  const int64_t n = 1 << 18;
  Tensor w = g.state("w", {n}), x = g.tensor({n}, DType::f32, "x");
  w.set(std::vector<float>(size_t(n), 1));
  x.set(std::vector<float>(size_t(n), 0.5f));
  const Tensor loss = ((w * x).tanh() * x).sum();
  adamw(g, 1e-3).update({w}, {gradient(loss, w)});
  g.execute();
  // parameter, m and v; a step keeps no copy of any of them
  EXPECT_LT(g.memory().states, n * 4 * 3 + 4096);
  EXPECT_LT(g.memory().arena, n * 4 + 4096) << g.report(); // the gradient
  EXPECT_EQ(g.report().find("copy "), std::string::npos) << g.report();
}

/// One launch has the parameter and all that is remembered of it, reads and writes each once, and reads
/// the gradient once.
TEST(Updates, ReadEachValueOnce) {
  struct Case {
    std::function<Optimizer(Graph&)> make;
    int states; // of the parameter, itself among them
  };
  const Case cases[] = {
      {[](Graph& g) { return sgd(g, 0.1, {.momentum = 0.9, .nesterov = true}); }, 2},
      {[](Graph& g) { return adam(g, 0.1, {.weight_decay = 0.1}); }, 3},
      {[](Graph& g) { return adamw(g, 0.1, {.amsgrad = true}); }, 4},
      {[](Graph& g) { return rmsprop(g, 0.1, {.momentum = 0.9, .centered = true}); }, 4},
      {[](Graph& g) { return adagrad(g, 0.1); }, 2},
      {[](Graph& g) { return adadelta(g, 0.1); }, 3},
      {[](Graph& g) { return lion(g, 0.1); }, 2},
  };
  for (const bool clipped : {false, true})
    for (const Case& c : cases) {
      SCOPED_TRACE(&c - cases);
      Graph g;
      const int64_t rows = 96, columns = 128, n = rows * columns;
      Tensor w = g.state("w", {rows, columns}), x = g.tensor({32, columns}, DType::f32, "x");
      w.set(std::vector<float>(size_t(n), 0.1f));
      x.set(std::vector<float>(size_t(32 * columns), 0.5f));
      const Tensor loss = x.matmul(w.t()).square().sum();
      std::vector<Tensor> gradient_of = gradients(loss, {w});
      if (clipped) gradient_of = clip_grad_norm(gradient_of, 1.0).gradients;
      c.make(g).update({w}, gradient_of);
      int launches = 0;
      for (const StepCost& step : g.execute_debug().steps) {
        if ((" " + step.shapes).find(" w.") == std::string::npos) continue;
        ++launches;
        EXPECT_LT(step.bytes, (2 * c.states + 1) * n * 4 + 1024) << step.shapes;
      }
      EXPECT_EQ(launches, 1) << clipped << g.report();
      EXPECT_EQ(g.report().find("copy w"), std::string::npos) << g.report();
    }
}

TEST(Updates, StatesThatReadEachOtherAreCopied) {
  Graph g;
  Tensor a = g.state("a", {4}), b = g.state("b", {4}), c = g.state("c", {4});
  a.set({1, 2, 3, 4});
  b.set({10, 20, 30, 40});
  c.set({1, 2, 3, 4});
  g.update(a, b * 2);
  g.update(b, a + 1);
  g.update(c, c.flip(0) + c); // each element is read by two points
  g.execute();
  EXPECT_EQ(a.data<float>(), (std::vector<float>{20, 40, 60, 80}));
  EXPECT_EQ(b.data<float>(), (std::vector<float>{2, 3, 4, 5}));
  EXPECT_EQ(c.data<float>(), (std::vector<float>{5, 5, 5, 5}));
}

TEST(Updates, AKeptStateIsTheOldOne) {
  Graph g;
  Tensor a = g.state("a", {4});
  a.set({1, 2, 3, 4});
  Tensor old = (a * 1).keep(), sum = a.sum().keep();
  g.update(a, a + sum);
  for (int i = 0; i < 2; ++i) g.execute();
  EXPECT_EQ(old.data<float>(), (std::vector<float>{11, 12, 13, 14}));
  EXPECT_EQ(a.data<float>(), (std::vector<float>{61, 62, 63, 64}));
}

} // namespace
} // namespace luminal::optimizers_test
