// model_rules/region_search_test.cpp -- every region through the e-graph as the first step of a plan: the
// plan is the same where the terms stay as they came, and what is chosen is what is built.
#include "compile/builder.h"
#include "compile/region_search.h"
#include "model_graphs.h"
#include "rules/emit_region.h"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal::region_search_test {
namespace {

using namespace testing_rules;

struct Built {
  size_t kernels = 0, steps = 0, slots = 0;
  std::vector<compile::RegionReport> regions;
};
Built build(const Module& module, const compile::RuleOptions& rules) {
  compile::KernelPlanner planner({.limits = search::MachineProfile::guess(1).limits()});
  compile::PlanBuilder builder(module, planner, {}, rules);
  const auto plan = builder.build();
  EXPECT_TRUE(plan) << plan.error();
  if (!plan) return {};
  return {plan->kernels.size(), plan->steps.size(), plan->slots.size(), builder.regions()};
}

compile::RuleOptions off() {
  compile::RuleOptions rules;
  rules.on = false;
  return rules;
}

/// Terms as they came, written down again from the e-graph: the same plan.
TEST(RegionSearch, TermsAsTheyCameGiveThePlanThatTheyGave) {
  compile::RuleOptions same;
  same.choose = [](rules::RegionTerms& terms, const rules::Entered&) { return rules::first_rows(terms); };
  for (const auto& [name, module] : model_graphs()) {
    const Built plain = build(module, off()), through = build(module, same);
    EXPECT_EQ(through.kernels, plain.kernels) << name;
    EXPECT_EQ(through.steps, plain.steps) << name;
    EXPECT_EQ(through.slots, plain.slots) << name;
    EXPECT_TRUE(plain.regions.empty());
    EXPECT_FALSE(through.regions.empty()) << name;
  }
}

/// What a choice stores, and in which kernels, is what the plan has.
TEST(RegionSearch, ChosenBoundariesAreThoseOfThePlan) {
  const Module module = parse_module("fn @main(%x: f32[64, 32]) {\n"
                                     "  %a = exp %x\n"
                                     "  %b = neg %a\n"
                                     "  %c = abs %b\n"
                                     "  return y = %c\n"
                                     "}\n",
                                     "text");
  const Built plain = build(module, off());
  EXPECT_EQ(plain.steps, 1u);
  compile::RuleOptions all;
  all.choose = [](rules::RegionTerms& terms, const rules::Entered& entered) {
    rules::Choice choice = rules::first_rows(terms);
    choice.decided = true;
    for (const NodeId id : entered.nodes)
      if (entered.kinds[id] == rules::TermKind::map) choice.kernels.push_back({entered.classes[id]});
    return choice;
  };
  EXPECT_EQ(build(module, all).steps, 3u);
}

/// Attention with its batches in two dimensions where it is read and asked for, in one in its products:
/// all stages of what the rules make of it share both, so that they run in the same loops.
TEST(RegionSearch, BatchesOfACascadeAreDimensionsOfTheirOwn) {
  const Module module =
      parse_module("fn @main(%q: f32[4, 8, 64, 64], %k: f32[4, 8, 64, 64], %v: f32[4, 8, 64, 64]) {\n"
                   "  %a = view %q [b: 32, m: 64, n: 64, k: 64] -> [b // 8, b % 8, m, k]\n"
                   "  %b = view %k [b: 32, m: 64, n: 64, k: 64] -> [b // 8, b % 8, n, k]\n"
                   "  %p = mul %a, %b\n"
                   "  %f = fold [b: 32, m: 64, n: 64, k: 64] over [k] { sum %p[b, m, n, k] }\n"
                   "  %g = get %f, 0\n"
                   "  %s = view %g [i: 4, j: 8, m: 64, n: 64] -> [i*8 + j, m, n]\n"
                   "  %h = fold [i: 4, j: 8, m: 64, n: 64] over [n] { max %s[i, j, m, n] }\n"
                   "  %t = get %h, 0\n"
                   "  %u = view %t [i: 4, j: 8, m: 64, n: 64] -> [i, j, m]\n"
                   "  %d = sub %s, %u\n"
                   "  %e = exp %d\n"
                   "  %l = fold [i: 4, j: 8, m: 64, n: 64] over [n] { sum %e[i, j, m, n] }\n"
                   "  %o = get %l, 0\n"
                   "  %r = view %o [i: 4, j: 8, m: 64, n: 64] -> [i, j, m]\n"
                   "  %w = div %e, %r\n"
                   "  %c = view %w [b: 32, m: 64, n: 64, k: 64] -> [b // 8, b % 8, m, k]\n"
                   "  %x = view %v [b: 32, m: 64, n: 64, k: 64] -> [b // 8, b % 8, k, n]\n"
                   "  %y = mul %c, %x\n"
                   "  %z = fold [b: 32, m: 64, n: 64, k: 64] over [k] { sum %y[b, m, n, k] }\n"
                   "  %aa = get %z, 0\n"
                   "  %ab = view %aa [i: 4, j: 8, m: 64, n: 64] -> [i*8 + j, m, n]\n"
                   "  return y = %ab\n"
                   "}\n",
                   "text");
  compile::KernelPlanner planner({.limits = search::MachineProfile::guess(1).limits()});
  compile::RuleOptions rules;
  rules.texts = true;
  compile::PlanBuilder builder(module, planner, {}, rules);
  const auto plan = builder.build();
  ASSERT_TRUE(plan) << plan.error();
  ASSERT_EQ(plan->kernels.size(), 1u); // one kernel, or the test says nothing
  ASSERT_EQ(builder.regions().size(), 1u);
  const std::string after = builder.regions()[0].after;
  EXPECT_THAT(after, testing::HasSubstr("old0")) << "no cascade";
  EXPECT_THAT(after, testing::Not(testing::HasSubstr("//"))) << after;
}

/// The same choice for the same seed, whatever was searched before.
TEST(RegionSearch, IsDeterministic) {
  const Module module = transformer(2, true);
  compile::RuleOptions rules;
  rules.seconds = 0;
  rules.seed = 7;
  const Built first = build(module, rules);
  const Built again = build(module, rules);
  ASSERT_EQ(first.regions.size(), again.regions.size());
  EXPECT_EQ(first.kernels, again.kernels);
  for (size_t k = 0; k < first.regions.size(); ++k) {
    EXPECT_TRUE(again.regions[k].cached);
    EXPECT_EQ(first.regions[k].estimate_s, again.regions[k].estimate_s);
    EXPECT_LE(first.regions[k].estimate_s, first.regions[k].written_s);
  }
}

/// Greedy fusion puts two products into one kernel, and the splitter takes them apart again: plans of
/// such regions are estimated, too.
TEST(RegionSearch, ProductsThatAreTakenApartAreEstimated) {
  Graph g;
  const Tensor x = g.tensor({512, 512}, DType::f32, "x"), gate = x.matmul(g.weight("a", {512, 1408}));
  const Tensor y = gate / ((-gate).exp() + 1.0) * x.matmul(g.weight("b", {512, 1408}));
  y.matmul(g.weight("c", {1408, 512})).set_name("y").keep();
  compile::RuleOptions rules;
  rules.seconds = 0;
  const Built built = build(compiled_terms(g), rules);
  ASSERT_EQ(built.regions.size(), 1u);
  EXPECT_GT(built.regions[0].written_s, 1e-4);
  EXPECT_LE(built.regions[0].estimate_s, built.regions[0].written_s);
}

/// Work is counted, so a region that comes too late is the same one on every machine. What is not
/// searched stays as it is, and is told.
TEST(RegionSearch, EndsWhereItsWorkEnds) {
  const Module module = transformer(2, false);
  compile::RuleOptions none;
  none.work = 0, none.seconds = 0;
  const Built built = build(module, none), plain = build(module, off());
  EXPECT_EQ(built.kernels, plain.kernels);
  EXPECT_EQ(built.steps, plain.steps);
  ASSERT_FALSE(built.regions.empty());
  for (const compile::RegionReport& region : built.regions) {
    EXPECT_EQ(region.outcome, "earlier regions took all work");
    EXPECT_EQ(region.rows, 0u);
  }
}

/// Where the work does not suffice for all regions, it goes to those with most points.
TEST(RegionSearch, BeginsWithTheLargestRegions) {
  compile::RuleOptions rules;
  rules.work = 30'000, rules.seconds = 0;
  const Built built = build(transformer(12, true), rules);
  ASSERT_GE(built.regions.size(), 2u);
  const auto layer = std::ranges::max_element(built.regions, {}, &compile::RegionReport::instances);
  EXPECT_NE(layer, built.regions.begin());
  EXPECT_GT(layer->rows, 0u);
  for (auto region = built.regions.begin(); region != built.regions.end(); ++region) {
    if (region == layer) continue;
    EXPECT_EQ(region->outcome, "earlier regions took all work");
  }
}

/// Layers of equal structure are searched once.
TEST(RegionSearch, EqualLayersAreOneRegion) {
  compile::RuleOptions rules;
  rules.seconds = 0;
  const Built built = build(transformer(12, true), rules);
  EXPECT_LE(built.regions.size(), 4u);
  size_t most = 0;
  for (const compile::RegionReport& region : built.regions) most = std::max(most, region.instances);
  EXPECT_GE(most, 10u);
}

} // namespace
} // namespace luminal::region_search_test
