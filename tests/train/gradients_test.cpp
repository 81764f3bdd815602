// tests/train/gradients_test.cpp -- every row, fold, scan, view and scatter against central
// differences.
#include "luminal/terms.h"
#include "train/gradient_support.h"

namespace luminal::gradients_test {
namespace {
using testing_train::Probe;

/// One op of the table on f64 inputs of its range.
TEST(Gradients, EveryRowOfTheTable) {
  int checked = 0;
  for (int k = 0; k < op_count; ++k) {
    const OpRow& r = row(Op(k));
    if (r.signature != Signature::numeric && r.signature != Signature::floating) continue;
    SCOPED_TRACE(std::string(r.name));
    Probe p(uint64_t(k) + 3);
    std::vector<Tensor> x;
    for (int a = 0; a < r.arity; ++a) x.push_back(p.input({7}, r.low, r.high));
    std::vector<NodeId> ids;
    for (const Tensor& t : x) ids.push_back(node_id(t));
    const auto state = p.graph.state();
    Tensor y = build("op", state, Where::current(), [&](FunctionBuilder& b) { return b.map(Op(k), ids); });
    p.check({y}, {.tolerance = 1e-5, .second = true, .kinks = true});
    EXPECT_GT(p.compared, 0);
    ++checked;
  }
  EXPECT_GE(checked, 35);
}

TEST(Gradients, Select) {
  Probe p;
  const Tensor c = p.input({6}), a = p.input({6}), b = p.input({6});
  p.check({select(c > 0, a * a, b.exp())}, {.second = true});
}

using Function = std::function<std::vector<Tensor>(Probe&)>;
struct Case {
  const char* name;
  Function make;
};

void check_cases(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    Probe p;
    try {
      p.check(c.make(p), {.second = true});
      EXPECT_GT(p.compared, 0);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

TEST(Gradients, Folds) {
  check_cases({
      {"sum", [](Probe& p) { return std::vector{p.input({3, 4, 2}).sum({0, 2}).square()}; }},
      {"mean", [](Probe& p) { return std::vector{p.input({3, 4}).mean(1).exp()}; }},
      {"max", [](Probe& p) { return std::vector{p.input({3, 4, 2}).max({0, 2}).square()}; }},
      {"min", [](Probe& p) { return std::vector{p.input({3, 4}).min().square()}; }},
      {"prod", [](Probe& p) { return std::vector{p.input({3, 4, 2}).prod({0, 2})}; }},
      {"prod with zeros",
       [](Probe& p) {
         const Tensor x = p.input({3, 4});
         return std::vector{select(p.graph.arange(4) > 2, x * 0, x).prod(1)};
       }},
      {"var", [](Probe& p) { return std::vector{p.input({3, 4}).var(1)}; }},
      {"softmax", [](Probe& p) { return std::vector{p.input({3, 4}).softmax()}; }},
      {"log_softmax", [](Probe& p) { return std::vector{p.input({3, 4}).log_softmax(0)}; }},
      {"logsumexp", [](Probe& p) { return std::vector{p.input({3, 4}).logsumexp(1)}; }},
      {"norm", [](Probe& p) { return std::vector{p.input({3, 4}).norm(3, 1)}; }},
      {"layer_norm", [](Probe& p) { return std::vector{p.input({3, 4}).layer_norm()}; }},
      {"matmul", [](Probe& p) { return std::vector{p.input({2, 3, 4}).matmul(p.input({4, 2}))}; }},
      {"online softmax",
       [](Probe& p) {
         const Tensor s = p.input({2, 5}), v = p.input({5, 3}), one = p.graph.constant(1, DType::f64);
         const char* move = "select(old0 == -inf, 0, self * exp2(old0 - new0))";
         const auto f = terms::fold({2, 5, 3}, {1},
                                    {{"max", s, {0, 1}}, {"sum", one, {}, move}, {"sum", v, {1, 2}, move}},
                                    [](const Dims& i) { return terms::at_most(i[1], i[0] + 2); });
         return std::vector{f[2] / f[1].unsqueeze(1)};
       }},
      {"Welford",
       [](Probe& p) {
         const Tensor x = p.input({2, 3, 4}), one = p.graph.constant(1, DType::f64),
                      zero = p.graph.constant(0, DType::f64);
         const auto f = terms::fold({2, 3, 4}, {1, 2},
                                    {{"sum", one, {}},
                                     {"sum", x, {0, 1, 2}, "select(new0 == 0, 0, self * old0 / new0)"},
                                     {"sum", zero, {}, "self + (new1 - old1) * (new1 - old1) * old0"}});
         return std::vector{f[1], f[2]};
       }},
      {"domain of a sum",
       [](Probe& p) {
         return terms::fold({4, 5}, {1}, {{"sum", p.input({4, 5}).exp(), {0, 1}}},
                            [](const Dims& i) { return terms::at_most(i[1], i[0]); });
       }},
      {"body without axes",
       [](Probe& p) { return terms::fold({4, 5}, {1}, {{"sum", p.input({4}).exp(), {0}}}); }},
      {"product over a domain",
       [](Probe& p) {
         return terms::fold({4, 5}, {1}, {{"prod", p.input({5}), {1}}},
                            [](const Dims& i) { return terms::at_most(i[1], i[0]); });
       }},
  });
}

TEST(Gradients, Scans) {
  check_cases({
      {"cumsum", [](Probe& p) { return std::vector{p.input({3, 4}).cumsum(1).square()}; }},
      {"cumprod", [](Probe& p) { return std::vector{p.input({3, 4}).cumprod(0)}; }},
      {"cummax", [](Probe& p) { return std::vector{p.input({3, 5}).cummax(1).values.square()}; }},
      {"cummin", [](Probe& p) { return std::vector{p.input({3, 5}).cummin(0).values.square()}; }},
      {"logcumsumexp", [](Probe& p) { return std::vector{p.input({3, 4}).logcumsumexp(1)}; }},
      {"exclusive, reverse",
       [](Probe& p) { return terms::scan({3, 4}, 1, {{"sum", p.input({3, 4}).exp(), {0, 1}}}, true, true); }},
      {"reverse product",
       [](Probe& p) { return terms::scan({3, 4}, 1, {{"prod", p.input({3, 4}), {0, 1}}}, false, true); }},
      {"exclusive product",
       [](Probe& p) { return terms::scan({3, 4}, 0, {{"prod", p.input({3, 4}), {0, 1}}}, true, false); }},
      {"reverse max",
       [](Probe& p) {
         return std::vector{
             terms::scan({3, 4}, 1, {{"max", p.input({3, 4}), {0, 1}}}, false, true)[0].square()};
       }},
      {"constant along the axis",
       [](Probe& p) { return terms::scan({3, 4}, 1, {{"sum", p.input({3}).exp(), {0}}}); }},
  });
}

TEST(Gradients, Views) {
  check_cases({
      {"permute", [](Probe& p) { return std::vector{p.input({2, 3, 4}).exp().permute({2, 0, 1})}; }},
      {"reshape", [](Probe& p) { return std::vector{p.input({4, 6}).exp().reshape({3, 2, 4})}; }},
      {"reshape of odd sizes", [](Probe& p) { return std::vector{p.input({10, 3}).exp().reshape({6, 5})}; }},
      {"flatten", [](Probe& p) { return std::vector{p.input({2, 3, 4}).exp().flatten()}; }},
      {"expand", [](Probe& p) { return std::vector{p.input({3, 1}).exp().expand({2, 3, 4})}; }},
      {"slice", [](Probe& p) { return std::vector{p.input({9}).exp().slice(0, 1, 8, 3)}; }},
      {"negative step", [](Probe& p) { return std::vector{p.input({9}).exp().slice(0, 8, 1, -2)}; }},
      {"pad", [](Probe& p) { return std::vector{p.input({3, 4}).exp().pad(1, 2, 1, 0.5)}; }},
      {"reflect",
       [](Probe& p) { return std::vector{p.input({3, 5}).exp().pad({{1, 2, 3}}, PadMode::reflect)}; }},
      {"replicate",
       [](Probe& p) { return std::vector{p.input({3, 5}).exp().pad({{1, 2, 3}}, PadMode::replicate)}; }},
      {"circular",
       [](Probe& p) { return std::vector{p.input({3, 5}).exp().pad({{1, 2, 3}}, PadMode::circular)}; }},
      {"flip", [](Probe& p) { return std::vector{p.input({3, 4}).exp().flip(1)}; }},
      {"roll", [](Probe& p) { return std::vector{p.input({3, 4}).exp().roll(1, 1)}; }},
      {"repeat", [](Probe& p) { return std::vector{p.input({3, 2}).exp().repeat({2, 3})}; }},
      {"repeat_interleave",
       [](Probe& p) { return std::vector{p.input({3, 2}).exp().repeat_interleave(3, 1)}; }},
      {"windows", [](Probe& p) { return std::vector{p.input({2, 9}).exp().windows(1, 3, 2, 1)}; }},
      {"dilated windows", [](Probe& p) { return std::vector{p.input({2, 9}).exp().windows(1, 3, 1, 2)}; }},
      {"windows of windows",
       [](Probe& p) { return std::vector{p.input({12}).exp().windows(0, 5, 1).windows(0, 3, 2)}; }},
      {"diagonal", [](Probe& p) { return std::vector{p.input({4, 5}).exp().diagonal(1)}; }},
      {"tril", [](Probe& p) { return std::vector{p.input({4, 4}).exp().tril()}; }},
      {"triu", [](Probe& p) { return std::vector{p.input({4, 4}).exp().triu(1)}; }},
      {"cat", [](Probe& p) { return std::vector{concat({p.input({2, 3}).exp(), p.input({2, 2})}, 1)}; }},
      {"stack", [](Probe& p) { return std::vector{stack({p.input({2, 3}).exp(), p.input({2, 3})}, 0)}; }},
      {"conv2d",
       [](Probe& p) {
         return std::vector{conv2d(p.input({1, 2, 5, 6}), p.input({3, 2, 3, 2}), p.input({3}),
                                   {.stride = {2, 1}, .padding = {1, 1}})};
       }},
      {"grouped, dilated conv1d",
       [](Probe& p) {
         return std::vector{conv1d(p.input({2, 4, 8}), p.input({4, 2, 3}), {}, {.dilation = 2, .groups = 2})};
       }},
      {"max_pool",
       [](Probe& p) {
         return std::vector{max_pool2d(p.input({1, 2, 6, 6}), 3, {.stride = 2, .padding = 1}).square()};
       }},
      {"avg_pool",
       [](Probe& p) { return std::vector{avg_pool2d(p.input({1, 2, 6, 6}), 3, {.stride = 2}).exp()}; }},
      {"adaptive_avg_pool",
       [](Probe& p) { return std::vector{adaptive_avg_pool2d(p.input({1, 1, 5, 7}).exp(), {2, 3})}; }},
      {"interpolate",
       [](Probe& p) {
         return std::vector{interpolate(p.input({1, 1, 3, 4}).exp(), {5, 7}, Interpolation::linear)};
       }},
      {"space to depth",
       [](Probe& p) { return std::vector{pixel_unshuffle(p.input({1, 1, 4, 6}).exp(), 2)}; }},
      {"depth to space", [](Probe& p) { return std::vector{pixel_shuffle(p.input({1, 4, 2, 3}).exp(), 2)}; }},
      {"a product of axes",
       [](Probe& p) {
         return std::vector{
             terms::view(p.input({10}).exp(), {4, 4}, [](const Dims& i) { return Dims{i[0] * i[1]}; })};
       }},
  });
}

TEST(Gradients, MovementsAreGathered) {
  for (const Case& c : std::vector<Case>{
           {"reshape", [](Probe& p) { return std::vector{p.input({4, 6}).reshape({3, 2, 4})}; }},
           {"windows", [](Probe& p) { return std::vector{p.input({2, 9}).windows(1, 3, 2, 1)}; }},
           {"roll", [](Probe& p) { return std::vector{p.input({3, 4}).roll(1, 1)}; }},
           {"repeat", [](Probe& p) { return std::vector{p.input({3, 2}).repeat({2, 3})}; }},
           {"circular",
            [](Probe& p) { return std::vector{p.input({3, 5}).pad({{1, 2, 3}}, PadMode::circular)}; }},
       }) {
    SCOPED_TRACE(c.name);
    Probe p;
    const Tensor loss = p.weighted(c.make(p));
    gradients(loss, p.inputs)[0].keep();
    EXPECT_EQ(p.graph.to_string().find("scatter"), std::string::npos) << p.graph.to_string();
  }
}

TEST(Gradients, GatherAndScatter) {
  using N = std::vector<double>;
  const auto scattered = [](ScatterOp how) {
    return [how](Probe& p) {
      const Tensor x = p.input({4, 3}), v = p.input({5, 3});
      const Tensor at = p.integers({5, 3}, N{0, 1, 2, 2, 1, 0, 0, 3, 2, 3, 1, 0, 0, 1, 3});
      return std::vector{x.exp().scatter(0, at, v.exp(), how)};
    };
  };
  check_cases({
      {"embedding",
       [](Probe& p) { return std::vector{p.input({5, 3}).exp().gather(p.integers({2, 2}, N{4, 0, 4, 2}))}; }},
      {"gather along an axis",
       [](Probe& p) {
         return std::vector{p.input({4, 3}).exp().gather(0, p.integers({2, 3}, N{3, 0, 3, 2, 0, 3}))};
       }},
      {"index_select",
       [](Probe& p) {
         return std::vector{p.input({2, 5}).exp().index_select(1, p.integers({3}, N{1, 1, 4}))};
       }},
      {"scatter set", scattered(ScatterOp::set)},
      {"scatter add", scattered(ScatterOp::add)},
      {"scatter mul", scattered(ScatterOp::mul)},
      {"scatter min", scattered(ScatterOp::min)},
      {"scatter max", scattered(ScatterOp::max)},
      {"update",
       [](Probe& p) { return std::vector{p.input({6, 2}).exp().update(0, 2, p.input({3, 2}).exp())}; }},
      {"sort", [](Probe& p) { return std::vector{p.input({3, 5}).exp().sort(1).values * p.input({3, 5})}; }},
      {"falling sort",
       [](Probe& p) { return std::vector{p.input({5, 2}).exp().sort(0, true).values.square()}; }},
      {"topk", [](Probe& p) { return std::vector{p.input({3, 6}).exp().topk(2).values.square()}; }},
  });
}

TEST(Gradients, ProductsWithZerosInScatters) {
  Probe p;
  const Tensor x = p.input({3}), v = p.input({4});
  const Tensor at = p.integers({4}, {0, 0, 1, 2});
  const Tensor zeroed = v * p.graph.constant({0.0, 1.0, 0.0, 1.0}, {4}, DType::f64);
  p.check({x.scatter(0, at, zeroed, ScatterOp::mul)}, {.second = true});
}

/// x with zeros at these places, which move with x.
Tensor with_zeros(Probe& p, Dims shape, const std::vector<int64_t>& places) {
  const Tensor x = p.input(shape);
  const HostTensor& values = p.bindings.inputs.at("x" + std::to_string(p.inputs.size() - 1));
  std::vector<double> away(size_t(values.count()), 0.0);
  for (const int64_t k : places) away[size_t(k)] = values.at(k);
  return x - p.graph.constant(away, shape, DType::f64);
}

// The gradient along one factor is 0 where another one is, and its slope along that one is not.
TEST(Gradients, SlopesOfProductsWithZeros) {
  for (const std::vector<int64_t>& zeros :
       {std::vector<int64_t>{0}, std::vector<int64_t>{0, 1}, std::vector<int64_t>{2, 4, 5}}) {
    Probe p;
    const Tensor x = with_zeros(p, {3}, {1}), v = with_zeros(p, {6}, zeros);
    const Tensor at = p.integers({6}, {0, 0, 1, 2, 0, 2});
    p.check({x.scatter(0, at, v, ScatterOp::mul)}, {.second = true});
    Probe q;
    q.check({with_zeros(q, {2, 3}, zeros).prod({1})}, {.second = true});
  }
}

TEST(Gradients, Structure) {
  check_cases({
      {"loop",
       [](Probe& p) {
         const Tensor h = p.input({3}), xs = p.input({4, 3}), w = p.input({3, 3});
         auto r = p.graph.loop(4, {h}, {xs}, {w},
                               [](Graph&, Tensor, const std::vector<Tensor>& c, const std::vector<Tensor>& s,
                                  const std::vector<Tensor>& i) {
                                 const Tensor next =
                                     (c[0].unsqueeze(0).matmul(i[0]).squeeze(0) + s[0]).tanh();
                                 return Graph::LoopResult{{next}, {next * s[0]}};
                               });
         return std::vector{r.carried[0], r.stacked[0]};
       }},
      {"loop of a dynamic count",
       [](Probe& p) {
         const Dim n = p.dim("n", 1, 9, 5);
         const Tensor h = p.input({2}), xs = p.input({n, 2});
         auto r = p.graph.loop(n, {h}, {xs}, {},
                               [](Graph&, Tensor t, const std::vector<Tensor>& c,
                                  const std::vector<Tensor>& s, const std::vector<Tensor>&) {
                                 return Graph::LoopResult{{(c[0] * s[0] + t.cast(DType::f64)).sin()}, {}};
                               });
         return std::vector{r.carried[0]};
       }},
      {"while",
       [](Probe& p) {
         const Tensor h = p.input({2}, 0.5, 1), w = p.input({2}, 1.2, 1.5);
         auto r = p.graph.while_loop(
             20, {h}, {w},
             [](Graph&, const std::vector<Tensor>& c, const std::vector<Tensor>&) { return c[0].sum() < 9; },
             [](Graph&, Tensor, const std::vector<Tensor>& c, const std::vector<Tensor>& i) {
               return std::vector{c[0] * i[0]};
             });
         return std::vector{r.carried[0]};
       }},
      {"cond",
       [](Probe& p) {
         const Tensor x = p.input({3}), y = p.input({3});
         return p.graph.cond(
             p.input({}).sum() > 5, {x, y},
             [](Graph&, const std::vector<Tensor>& in) { return std::vector{in[0] * in[1]}; },
             [](Graph&, const std::vector<Tensor>& in) { return std::vector{in[0].exp() - in[1]}; });
       }},
      {"function called twice",
       [](Probe& p) {
         const auto f = [](Graph&, const std::vector<Tensor>& in) {
           return std::vector{(in[0] * in[1]).tanh(), in[0].sum()};
         };
         const Tensor x = p.input({3}), y = p.input({3});
         const auto a = p.graph.function("layer", {x, y}, f);
         return p.graph.function("layer", {a[0], y}, f);
       }},
      {"checkpoint",
       [](Probe& p) {
         const Tensor x = p.input({3}), y = p.input({3});
         return checkpoint(p.graph, "block", {x, y}, [](Graph&, const std::vector<Tensor>& in) {
           return std::vector{(in[0] * in[1]).exp().sin()};
         });
       }},
      {"fence", [](Probe& p) { return std::vector{p.input({3}).exp().contiguous().square()}; }},
  });
}

TEST(Gradients, DynamicDimensions) {
  check_cases({
      {"matmul and softmax",
       [](Probe& p) {
         const Dim n = p.dim("n", 1, 16, 5);
         return std::vector{p.input({n, 3}).matmul(p.input({3, n})).softmax()};
       }},
      {"reshape",
       [](Probe& p) {
         const Dim n = p.dim("n", 1, 16, 3);
         return std::vector{p.input({n, 6}).exp().reshape({n * 2, 3})};
       }},
      {"merge",
       [](Probe& p) {
         const Dim n = p.dim("n", 1, 16, 3), m = p.dim("m", 1, 16, 4);
         return std::vector{p.input({n, m}).exp().flatten()};
       }},
      {"windows",
       [](Probe& p) {
         const Dim n = p.dim("n", 5, 16, 9);
         return std::vector{p.input({n}).exp().windows(0, 3, 2)};
       }},
      {"flip and roll",
       [](Probe& p) {
         const Dim n = p.dim("n", 2, 16, 6);
         return std::vector{p.input({n}).exp().flip(0).roll(2, 0)};
       }},
      {"cumsum",
       [](Probe& p) {
         const Dim n = p.dim("n", 2, 16, 6);
         return std::vector{p.input({n}).exp().cumsum(0).square()};
       }},
      {"sort",
       [](Probe& p) {
         const Dim n = p.dim("n", 2, 16, 6);
         return std::vector{p.input({n}).exp().sort(0).values.square()};
       }},
  });
}

} // namespace
} // namespace luminal::gradients_test
