// tests/train/autograd_test.cpp -- the interface of gradients: paths, errors, products with
// Jacobians, functions with gradients of their own, kinks, and plans beside the interpreter.
#include "tensor/support.h"
#include "train/gradient_support.h"

namespace luminal {
namespace {
using testing_train::Numbers;
using testing_train::Probe;

Numbers values(Tensor t) {
  t.keep();
  Graph g(t.graph());
  g.execute();
  const auto list = t.data<double>();
  return {list.begin(), list.end()};
}

TEST(Autograd, OneStepOfDescent) {
  Graph g;
  Tensor w = g.state("w", {2}), x = g.tensor({2}, DType::f32, "x");
  x.set({3, 4});
  const Tensor loss = (w * x - 1).square().sum();
  g.update(w, w - 0.01 * gradient(loss, w));
  g.execute();
  EXPECT_NEAR(w.data<float>()[0], 0.06, 1e-6);
  EXPECT_NEAR(w.data<float>()[1], 0.08, 1e-6);
}

TEST(Autograd, AnInputWithoutAPathIsZeroOrAnError) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x"), y = g.tensor({2, 3}, DType::f32, "y");
  x.set({1, 2});
  y.set({1, 2, 3, 4, 5, 6});
  const Tensor loss = x.sum() + y.floor().sum();
  EXPECT_EQ(values(gradient(loss, y)), Numbers(6, 0));
  EXPECT_ERROR(gradients(loss, {x, y}, {.no_path = NoPath::error}),
               "[gradients] no output depends on input 1 (y) in a differentiable way");
}

TEST(Autograd, MistakesAreNamed) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x"), n = g.tensor({2}, DType::i32, "n");
  EXPECT_ERROR(gradients(std::vector<Tensor>{}, {x}), "[gradients] there is no output");
  EXPECT_ERROR(
      gradient(x * 2, x),
      "[gradients] output 0 is f32[2]: of more than one element, say the gradient that arrives there "
      "(upstream), or reduce it to a loss");
  EXPECT_ERROR(gradient(x.sum(), n),
               "[gradients] input 0 is i32[2]: gradients are of floating-point numbers");
  EXPECT_ERROR(gradients({x}, {x}, {.upstream = {x, x}}), "[gradients] 2 upstream gradients for 1 outputs");
  EXPECT_ERROR(gradients({x}, {x}, {.upstream = {x.sum()}}),
               "[gradients] upstream gradient 0 is f32, its output f32[2]");
  EXPECT_ERROR(jacobian_vector_products({}, {x}, {x}), "[jacobian_vector_products] there is no output");
  EXPECT_ERROR(jacobian_vector_products({x}, {x}, {}), "[jacobian_vector_products] 0 tangents for 1 inputs");
}

TEST(Autograd, OperationsWithoutAGradientSaySo) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x");
  UserOp op;
  op.name = "opaque_of_autograd_test";
  op.f64 = [](const double* a) { return a[0]; };
  op.text = {{"c", "({a})"}};
  register_op(op);
  const Tensor y = build("op", g.state(), Where::current(),
                         [&](FunctionBuilder& b) { return b.add(MapAttr{Op::add, op.name}, {node_id(x)}); });
  EXPECT_ERROR(gradient(y.sum(), x),
               "[gradients] the operation opaque_of_autograd_test has no derivative for "
               "argument 0: register_op takes one");
  const Tensor moved = build("gather", g.state(), Where::current(), [&](FunctionBuilder& b) {
    return b.add(CollectiveAttr{"all_reduce_max", "tp:1", 0}, {node_id(x)});
  });
  EXPECT_ERROR(gradient(moved.sum(), x), "[gradients] all_reduce_max has no gradient: of collectives "
                                         "all_reduce_sum, all_gather and reduce_scatter_sum have one");
}

TEST(Autograd, OperationsOfTheUserHaveGradients) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f64, "x");
  x.set({0.5, 2});
  UserOp written;
  written.name = "cube_of_autograd_test";
  written.f64 = [](const double* a) { return a[0] * a[0] * a[0]; };
  written.definition = "a * a * a";
  register_op(written);
  const Tensor y = build("op", g.state(), Where::current(), [&](FunctionBuilder& b) {
    return b.add(MapAttr{Op::add, written.name}, {node_id(x)});
  });
  EXPECT_EQ(values(gradient(y.sum(), x)), (Numbers{0.75, 12}));
}

TEST(Autograd, KinksAreThoseOfPyTorch) {
  Graph g;
  Tensor x = g.tensor({3}, DType::f64, "x");
  x.set({-1.0, 0.0, 2.0});
  EXPECT_EQ(values(gradient(x.relu().sum(), x)), (Numbers{0, 0, 1}));
  EXPECT_EQ(values(gradient(x.abs().sum(), x)), (Numbers{-1, 0, 1}));
  EXPECT_EQ(values(gradient(maximum(x, x * 1.0).sum(), x)), (Numbers{1, 1, 1}));
  EXPECT_EQ(values(gradient(x.relu().max(), x)), (Numbers{0, 0, 1}));
  EXPECT_EQ(values(gradient((x * 0.0).max(), x)), (Numbers{0, 0, 0}));
  Tensor ties = g.tensor({4}, DType::f64, "ties");
  ties.set({1.0, 3.0, 3.0, 0.0});
  EXPECT_EQ(values(gradient(ties.max(), ties)), (Numbers{0, 0.5, 0.5, 0}));
  EXPECT_EQ(values(gradient(ties.prod(), ties)), (Numbers{0, 0, 0, 9}));
  EXPECT_EQ(values(gradient(ties.pow(0.0).sum(), ties)), (Numbers{0, 0, 0, 0}));
}

TEST(Autograd, NothingLeaksFromWhatWasNotChosen) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f64, "x");
  x.set({-1.0, 4.0});
  // log(-1) is NaN, and stays on its side
  EXPECT_EQ(values(gradient(select(x > 0, x.relu() * 2, x * 3).sum(), x)), (Numbers{3, 2}));
  Tensor masked = select(g.arange(2) > 0, x, -INFINITY);
  EXPECT_EQ(values(gradient(masked.softmax().sum(), x)), (Numbers{0, 0}));
}

TEST(Autograd, StopGradient) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f64, "x");
  x.set({3.0, 5.0});
  EXPECT_EQ(values(gradient((stop_gradient(x) * x).sum(), x)), (Numbers{3, 5}));
  EXPECT_EQ(values(stop_gradient(x)), (Numbers{3, 5}));
}

TEST(Autograd, ProductsWithJacobianAndHessian) {
  Graph g;
  Tensor x = g.tensor({3}, DType::f64, "x"), v = g.tensor({3}, DType::f64, "v");
  x.set({1.0, 2.0, 3.0});
  v.set({1.0, 0.5, -1.0});
  const Tensor y = x.cumprod(0); // x0, x0 x1, x0 x1 x2
  EXPECT_EQ(values(jacobian_vector_products({y}, {x}, {v})[0]), (Numbers{1, 2.5, 5.5}));
  // of x0 x1 x2: H = [[0, x2, x1], [x2, 0, x0], [x1, x0, 0]]
  EXPECT_EQ(values(hessian_vector_product(x.prod(), x, v)), (Numbers{-0.5, 2, 2.5}));
}

TEST(Autograd, SeveralOutputsAndValuesInBetween) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f64, "x");
  x.set({1.0, 2.0});
  const Tensor middle = x * x;
  const std::vector<Tensor> both = gradients({middle.sum(), (3 * middle).sum()}, {x, middle});
  EXPECT_EQ(values(both[0]), (Numbers{8, 16}));
  EXPECT_EQ(values(both[1]), (Numbers{4, 4}));
}

TEST(Autograd, CustomGradients) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f64, "x");
  x.set({-3.0, 0.4});
  const auto forward = [](Graph&, const std::vector<Tensor>& in) { return std::vector{in[0].sign()}; };
  // straight through
  const auto backward = [](Graph&, const std::vector<Tensor>& in) { return std::vector{in[1] * 2}; };
  const Tensor y = custom_gradient(g, "binary", {x}, forward, backward)[0];
  EXPECT_EQ(values(y), (Numbers{-1, 1}));
  EXPECT_EQ(values(gradient(y.sum(), x)), (Numbers{2, 2}));
  EXPECT_ERROR(
      custom_gradient(g, "wrong", {x}, forward,
                      [](Graph&, const std::vector<Tensor>& in) { return std::vector{in[0], in[1]}; }),
      "[custom_gradient] 2 gradients for 1 inputs");
}

TEST(Autograd, CheckpointsComputeAgain) {
  const auto block = [](Graph&, const std::vector<Tensor>& in) {
    Tensor h = in[0];
    for (int i = 0; i < 4; ++i) h = h.matmul(in[1]).tanh();
    return std::vector{h};
  };
  int64_t arena[2];
  Numbers g_of[2];
  for (int again = 0; again < 2; ++again) {
    Graph g;
    Tensor x = g.tensor({256, 64}, DType::f32, "x"), w = g.weight("w", {64, 64});
    std::vector<float> xs(256 * 64), ws(64 * 64);
    for (size_t i = 0; i < xs.size(); ++i) xs[i] = float(std::sin(double(i)));
    for (size_t i = 0; i < ws.size(); ++i) ws[i] = float(std::cos(double(i)) * 0.1);
    x.set(xs);
    w.set(ws);
    Tensor h = x;
    for (int layer = 0; layer < 6; ++layer)
      h = again ? checkpoint(g, "block", {h, w}, block)[0] : block(g, {h, w})[0];
    Tensor dw = gradient(h.square().sum(), w).keep();
    g.execute();
    const auto list = dw.data<float>();
    g_of[again] = Numbers(list.begin(), list.end());
    arena[again] = g.memory().arena;
  }
  for (size_t i = 0; i < g_of[0].size(); ++i)
    EXPECT_NEAR(g_of[0][i], g_of[1][i], 1e-3 + 1e-3 * std::fabs(g_of[0][i]));
  EXPECT_LT(arena[1], arena[0] * 2 / 3) << arena[1] << " of " << arena[0];
}

TEST(Autograd, DropoutHasOneMask) {
  Graph g;
  Tensor x = g.tensor({1000}, DType::f32, "x"), key = random_key(g, 7);
  x.set(std::vector<float>(1000, 1));
  Tensor y = dropout(key, x, 0.3).keep();
  Tensor dx = gradient(y.sum(), x).keep();
  g.execute();
  EXPECT_EQ(y.data<float>(), dx.data<float>());
}

/// What a plan computes is what the interpreter computes.
void same_by_plan(Graph& g, std::vector<Tensor> list) {
  for (Tensor& t : list) t.keep();
  g.execute();
  const auto want = g.interpret(list);
  for (size_t i = 0; i < list.size(); ++i) {
    const auto have = list[i].data<double>();
    const Numbers numbers = want[i].numbers();
    ASSERT_EQ(have.size(), numbers.size());
    for (size_t k = 0; k < have.size(); ++k)
      EXPECT_NEAR(have[k], numbers[k], 1e-5 * std::max(1.0, std::fabs(numbers[k]))) << i << " " << k;
  }
}

TEST(Autograd, PlansOfLoopsSortsAndScatters) {
  Graph g;
  Tensor h = g.tensor({3}, DType::f32, "h"), xs = g.tensor({4, 3}, DType::f32, "xs"),
         w = g.weight("w", {3, 3});
  h.set({0.1f, 0.2f, -0.3f});
  xs.set({{1, 2, 3}, {0.5, -1, 2}, {0, 1, -1}, {2, 0.25, 0.125}});
  w.set({{0.1, 0.2, 0.3}, {-0.4, 0.5, 0.6}, {0.7, -0.8, 0.9}});
  auto r = g.loop(4, {h}, {xs}, {w},
                  [](Graph&, Tensor, const std::vector<Tensor>& c, const std::vector<Tensor>& s,
                     const std::vector<Tensor>& i) {
                    const Tensor next = (c[0].unsqueeze(0).matmul(i[0]).squeeze(0) + s[0]).tanh();
                    return Graph::LoopResult{{next}, {next * s[0]}};
                  });
  const Tensor loss = r.carried[0].sum() + r.stacked[0].sort(1).values.slice(1, 0, 2).sum() +
                      xs.cumprod(0).sum() + xs.cummax(0).values.square().sum();
  same_by_plan(g, gradients(loss, {h, xs, w}));
}

/// The maximum that a softmax subtracts has no gradient of its own, however it is written; one that does
/// not cancel has.
TEST(Autograd, AMaximumThatCancelsHasNoGradient) {
  const auto counts_of = [](const std::function<Tensor(const Tensor&)>& f) {
    Graph g;
    Tensor x = g.tensor({4, 8}, DType::f32, "x");
    gradient((f(x) * g.constant(2.0)).sin().sum(), x).keep();
    const std::string text = g.to_string();
    size_t maxima = 0;
    for (size_t at = text.find(" eq "); at != std::string::npos; at = text.find(" eq ", at + 1)) ++maxima;
    return maxima;
  };
  const auto top = [](const Tensor& x) { return x.max({1}, true); };
  EXPECT_EQ(counts_of([](const Tensor& x) { return x.softmax(1); }), 0u);
  EXPECT_EQ(counts_of([](const Tensor& x) { return x.log_softmax(1); }), 0u);
  EXPECT_EQ(counts_of([&](const Tensor& x) { return (x - top(x)).exp().sum({1}).log() + top(x).squeeze(1); }),
            0u);
  EXPECT_EQ(counts_of([&](const Tensor& x) {
              const Tensor e = (x - top(x)).exp();
              return e / e.sum({1}, true);
            }),
            0u);
  // That a row is empty is asked of its maximum, too.
  EXPECT_EQ(counts_of([&](const Tensor& x) { return select(equal(top(x), -INFINITY), 0.0, x.softmax(1)); }),
            1u);
  EXPECT_GT(counts_of([&](const Tensor& x) { return select(equal(top(x), 1.0), 0.0, x.softmax(1)); }), 1u);
  EXPECT_GT(counts_of([&](const Tensor& x) { return x - top(x); }), 0u);
  EXPECT_GT(counts_of([&](const Tensor& x) { return (x - top(x)).exp(); }), 0u);
  EXPECT_GT(counts_of([&](const Tensor& x) { return x.softmax(1) + top(x); }), 0u);
  EXPECT_GT(counts_of([&](const Tensor& x) {
              const Tensor e = (x - top(x)).exp();
              return e / (e.sum({1}, true) + 1.0);
            }),
            0u);
}

} // namespace
} // namespace luminal
