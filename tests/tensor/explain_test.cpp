// tests/tensor/explain_test.cpp -- what explain() says of a graph is what was asked for and what runs.
#include "luminal/explain.h"
#include "luminal/luminal.h"
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal::explain_test {
namespace {
using testing::Contains;
using testing::HasSubstr;

std::string at(const std::string& operation, int line) {
  return operation + " at explain_test.cpp:" + std::to_string(line);
}

TEST(Explain, KernelsHaveTheLinesThatAskedForThem) {
  Graph g;
  Dim n = g.dim("n", 1, 64);
  Tensor x = g.tensor({n, 48}, DType::f32, "x"), w = g.weight("w", {48, 32});
  const int line = __LINE__ + 1;
  Tensor y = x.matmul(w);
  Tensor z = (y + 1).relu().keep().set_name("z");
  const Explanation e = explain(g, {.threads = 1, .sizes = {{"n", 16}}});
  const auto product = std::ranges::find_if(
      e.kernels, [&](const auto& k) { return std::ranges::count(k.lines, at("matmul", line)) > 0; });
  ASSERT_NE(product, e.kernels.end()) << to_string(e);
  EXPECT_EQ(product->computes, "z[n, 32]");
  EXPECT_EQ(product->steps, 1);
  EXPECT_EQ(product->sizes, "n=16");
  EXPECT_EQ(product->about, "w");
  EXPECT_THAT(product->stages, HasSubstr("fold add"));
  EXPECT_FALSE(product->schedule.empty());
  EXPECT_GT(product->estimate, 0);
  EXPECT_EQ(product->choice, KernelExplanation::Choice::usual);
  EXPECT_THAT(product->lines,
              testing::ElementsAre(at("matmul", line), at("add", line + 1), at("relu", line + 1)));
  const std::string text = to_string(e);
  EXPECT_THAT(text, HasSubstr("kernel " + product->name + ": z[n, 32]\n"));
  EXPECT_THAT(text, HasSubstr(at("matmul", line)));
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_THAT(to_string(e, true), HasSubstr("\033[1mkernel"));
  EXPECT_EQ(g.report(), "not compiled yet\n"); // the graph stays as it was

  EXPECT_EQ(filtered(e, "w").kernels.size(), 1u + size_t(std::ranges::count_if(e.kernels, [&](const auto& k) {
                                               return &k != &*product && k.about == "w";
                                             })));
  EXPECT_TRUE(filtered(e, "nothing has this").kernels.empty());
}

TEST(Explain, RegionsHaveTheirTermsBeforeAndAfter) {
  // (a b) c is cheaper as a (b c): the rules change the order.
  Graph g;
  Tensor a = g.tensor({512, 8}), b = g.tensor({8, 512}), c = g.tensor({512, 8});
  a.matmul(b).matmul(c).keep().set_name("y");
  const Explanation e = explain(g, {.threads = 1});
  ASSERT_EQ(e.regions.size(), 1u) << to_string(e);
  const RegionExplanation& r = e.regions[0];
  EXPECT_EQ(r.outcome, "") << to_string(e);
  EXPECT_FALSE(r.rules.empty());
  EXPECT_LT(r.estimate, r.written);
  EXPECT_FALSE(r.lines.empty());
  EXPECT_THAT(r.before, HasSubstr("512, 512")); // the product that is not stored any more
  EXPECT_THAT(r.after, HasSubstr("fn @region"));
  EXPECT_NE(r.before, r.after);
  EXPECT_THAT(to_string(e), HasSubstr("region of "));
}

TEST(Explain, KernelsOfTheProgram) {
  Graph g;
  Tensor x = g.tensor({64}, DType::f32, "x");
  const CustomKernel twice{.name = "twice",
                           .text = {{"loops", "kernel twice(x: f32[64] in, y: f32[64] out)\n"
                                              "  vector il in 0..64\n"
                                              "    y[il] = x[il] * 2\n"}},
                           .outputs = {{DType::f32, {64}}}};
  custom_kernel(g, twice, {x.exp()})[0].keep();
  const Explanation e = explain(g, {.threads = 1});
  std::vector<KernelExplanation::Choice> choices;
  for (const KernelExplanation& k : e.kernels) choices.push_back(k.choice);
  EXPECT_THAT(choices, Contains(KernelExplanation::Choice::custom)) << to_string(e);
  EXPECT_THAT(to_string(e), HasSubstr("none: the program brings this kernel"));
}

TEST(Explain, WhatCannotBeExplained) {
  Graph empty;
  EXPECT_TRUE(explain(empty).kernels.empty());
  Graph g;
  g.tensor({4}).exp();
  try {
    explain(g);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("[explain] nothing is kept: call keep() on the tensors whose values are wanted"));
  }
}

TEST(Explain, PlansOfARegionAndWhatRulesAreWorth) {
  Graph g;
  Tensor x = g.tensor({64, 256}, DType::f32, "x"), w = g.tensor({256, 512}), v = g.tensor({512, 2});
  x.matmul(w).matmul(v).keep(); // the other way round it takes a twentieth
  const Explanation e = explain(g, {.threads = 1, .cache = false});
  ASSERT_EQ(e.regions.size(), 1u);
  const auto& plans = e.regions[0].plans;
  ASSERT_GE(plans.size(), 2u);
  EXPECT_EQ(std::ranges::count_if(plans, &RegionPlanExplanation::taken), 1);
  EXPECT_EQ(std::ranges::count_if(plans, &RegionPlanExplanation::written), 1);
  EXPECT_FALSE(e.regions[0].measured);
  EXPECT_THAT(to_string(e), HasSubstr("; taken by estimate"));

  const Ablation worth = ablate(g, {.threads = 1});
  ASSERT_FALSE(worth.rules.empty());
  EXPECT_GT(worth.estimate, 0);
  std::vector<std::string> names;
  for (const RuleWorth& rule : worth.rules) names.push_back(rule.rule);
  // Without all of them nothing is left to choose from.
  const Explanation none = explain(g, {.threads = 1, .cache = false, .rules = {.forbidden = names}});
  for (const RegionExplanation& region : none.regions)
    for (const std::string& name : names) EXPECT_THAT(region.rules, testing::Not(Contains(name)));

  EXPECT_THROW(export_plan(g), Error);
  try {
    export_plan(g);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("the graph is not compiled yet: call compile()"));
  }
  g.compile({.threads = 1, .cache = false});
  EXPECT_THAT(export_plan(g), HasSubstr("\"schedule\""));
}

} // namespace
} // namespace luminal::explain_test
