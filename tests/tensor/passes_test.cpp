// tests/tensor/passes_test.cpp -- passes and rules on graphs: handles stay valid, results stay the
// same, mistakes have the caller's line.
#include "luminal/error.h"
#include "luminal/graph.h"
#include "luminal/pattern.h"
#include <cmath>
#include <gmock/gmock.h>

namespace luminal {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const char* relu_twice = R"(
  type T: float
  shape s
  rule relu_twice(%x: T[..s]) {
    %zero = const T 0
    %zeros = view %zero [..s] -> []
    %a = max %x, %zeros
    %b = max %a, %zeros
    return %b
  } => { return %a })";

TEST(GraphPasses, EveryHandleStaysValid) {
  Graph g;
  Tensor x = g.tensor({4}, DType::f32, "x"), total = g.state("total", {4});
  Tensor y = (-(-x)) * 1.0, z = x + 0.0, w = x * 2.0, again = 2.0 * x;
  y.keep(), z.keep(), w.keep(), again.keep();
  g.update(total, total + y);
  const PassTable table = g.run(passes::arithmetic(Numerics::range) | passes::dead_code());
  ASSERT_EQ(2u, table.rows.size());
  EXPECT_EQ("arithmetic-range", table.rows[0].name);
  EXPECT_GE(table.rows[0].changes, 3);
  EXPECT_LT(table.rows[1].nodes_after, table.rows[0].nodes_before);
  x.set({1.f, -2.f, 3.f, 0.5f});
  for (int step = 1; step <= 2; ++step) {
    g.execute();
    EXPECT_THAT(y.data<float>(), ElementsAre(1, -2, 3, 0.5));
    EXPECT_THAT(z.data<float>(), ElementsAre(1, -2, 3, 0.5));
    EXPECT_THAT(w.data<float>(), ElementsAre(2, -4, 6, 1));
    EXPECT_EQ(w.data<float>(), again.data<float>());
    EXPECT_FLOAT_EQ(3.f * float(step), total.data<float>()[2]);
  }
  Tensor later = y + w; // the graph goes on from any of them
  later.keep();
  g.execute();
  EXPECT_THAT(later.data<float>(), ElementsAre(3, -6, 9, 1.5));
  EXPECT_THAT(g.report(), HasSubstr("arithmetic-range"));
  EXPECT_THAT(g.to_string(), HasSubstr("neg")) << "the graph keeps its nodes";
  EXPECT_THAT(g.to_string(passes::defaults()), Not(HasSubstr("neg")));
}

TEST(GraphPasses, RulesRewriteAGraph) {
  Graph g;
  Tensor x = g.tensor({2, 3}, DType::f32, "x"), y = maximum(maximum(x, 0.0), 0.0);
  y.keep();
  const Rules rules = Rules::parse(relu_twice);
  const std::vector<Match> found = g.find(rules);
  ASSERT_EQ(1u, found.size());
  EXPECT_EQ("%x", found[0]["x"].name);
  auto report = std::make_shared<RewriteReport>();
  g.run(rules.pass("mine", Numerics::exact, report));
  EXPECT_EQ(1, report->applied.at("relu_twice"));
  x.set({-1.f, 2.f, -3.f, 4.f, -0.5f, 0.f});
  g.execute();
  EXPECT_THAT(y.data<float>(), ElementsAre(0, 2, 0, 4, 0, 0));
}

TEST(GraphPasses, MistakesHaveTheCallersLine) {
  Graph g;
  Tensor x = g.tensor({2}, DType::f32, "x");
  (x * 2.0).keep();
  const Pass renames = text_pass("renames", "", [](const std::string& text) {
    std::string out = text;
    for (size_t at; (at = out.find("%x")) != std::string::npos;) out.replace(at, 2, "%q");
    return out;
  });
  EXPECT_THAT([&] { g.run(renames); }, testing::ThrowsMessage<Error>(testing::AllOf(HasSubstr(
                                           "[run] renames has changed input x at passes_test.cpp:"))));
  CompileOptions options;
  options.passes = renames;
  EXPECT_THAT([&] { g.compile(options); },
              testing::ThrowsMessage<Error>(HasSubstr("renames has changed input x")));
}

TEST(GraphPasses, DefaultsChangeNoResultAndNeedNoMoreKernels) {
  auto make = [](const Pass& pass, std::vector<float>& result) {
    Graph g;
    Dim n = g.dim("n", 1, 16);
    Tensor x = g.tensor({n, 12}, DType::f32, "x"), w = g.weight("w", {12, 12});
    Tensor h = x.matmul(w.transpose().transpose())
                   .reshape({n, 3, 4})
                   .permute({1, 0, 2})
                   .permute({1, 0, 2})
                   .reshape({n, 12});
    Tensor a = (h * 1.0 / 4.0).softmax(1), b = h.max({1}, true) - (-a);
    Tensor y = maximum(maximum(b, 0.0), 0.0) + (a + b) * (b + a);
    y.keep();
    std::vector<float> values(5 * 12), weights(144);
    for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(float(i));
    for (size_t i = 0; i < weights.size(); ++i) weights[i] = std::cos(float(i)) / 3;
    x.set(values), w.set(weights);
    g.set_dim("n", 5);
    CompileOptions options;
    options.passes = pass;
    g.compile(options);
    g.execute();
    result = y.data<float>();
    const std::string report = g.report();
    return std::stoi(report.substr(report.find(": ") + 2));
  };
  std::vector<float> with, without;
  const int kernels = make(passes::defaults(), with), before = make(passes::none(), without);
  EXPECT_LE(kernels, before);
  EXPECT_EQ(without, with);
}

} // namespace
} // namespace luminal
