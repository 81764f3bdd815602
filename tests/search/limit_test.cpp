// tests/search/limit_test.cpp -- what a cone computes, counted: branches of a choice by an index are
// needed on their own sides only, and dot instructions are products.
#include "choose/default_schedule.h"
#include "choose/tiling.h"
#include "search/limit.h"
#include "search/problem_support.h"

namespace luminal::search {
namespace {

/// The operations of one kernel whose results stand for `select(CONDITION, f(x), x)`, with `function` for f.
double steps_of(const std::string& condition, const std::string& function = "exp") {
  const KernelProblem problem = problem_of(fmt::format(R"(fn @choice(%x: f32[10, 64]) {{
  %f = {1} %x
  %i = iota bool [i: 10, j: 64] -> {0}
  %y = select %i, %f, %x
  return y = %y
}})",
                                                       condition, function));
  return work_of(problem.cone, {}).steps;
}

TEST(Limit, BranchesOfAChoiceByAnIndexCountOnTheirOwnSides) {
  // The branch on one element, and on all but one.
  const double one = steps_of("j < 1"), all_but_one = steps_of("j < 63");
  const double each = (all_but_one - one) / 62;
  ASSERT_GT(each, 10) << "the exponential function takes many instructions";
  const auto part = [&](const std::string& condition) {
    return (steps_of(condition) - one) / each / 64 + 1.0 / 64;
  };
  constexpr double loads = 0.06; // of the other branch, half an instruction
  EXPECT_NEAR(part("j < 16"), 16.0 / 64, loads);
  EXPECT_NEAR(part("15 < j"), 48.0 / 64, loads);
  EXPECT_NEAR(part("2*j < 31"), 16.0 / 64, loads);
  EXPECT_NEAR(part("i == 3"), 1.0 / 10, loads);
  EXPECT_NEAR(part("i < 5"), 0.5, loads);
  EXPECT_GE(part("i < j"), 1 - loads) << "no interval of one axis: both branches may be needed everywhere";
}

/// An instruction that multiplies and adds words is the product: the time of a tile stands for both.
TEST(Limit, DotInstructionsAreNoStepsBesideTheirProduct) {
  const KernelProblem problem = problem_of(R"(fn @words(%x: bf16[64, 96], %w: bf16[128, 96]) {
  %xf = cast f32 %x
  %wf = cast f32 %w
  %a = view %xf [m: 64, n: 128, k: 96] -> [m, k]
  %b = view %wf [m: 64, n: 128, k: 96] -> [n, k]
  %p = mul %a, %b
  %f = fold [m: 64, n: 128, k: 96] over [k] { sum %p[m, n, k] }
  %y = get %f, 0
  return y = %y
})");
  const kernel::MachineLimits limits{.lanes = 16, .vector_registers = 32, .units = {"avx512.dpbf16"}};
  const kernel::Schedule schedule = kernel::default_schedule(problem.cone, limits);
  ASSERT_NE(to_string(schedule).find("avx512.dpbf16"), std::string::npos) << to_string(schedule);
  const auto nests = kernel::largest_nests(problem.cone, schedule);
  ASSERT_TRUE(nests);
  const KernelWork work = work_of(*nests, {});
  const kernel::StageId product = nests->stage("f");
  const double words = 64.0 * 128 * 96 / 2;
  EXPECT_GE(work.product_steps[product], 2 * words) << "a multiplication and an addition each";
  EXPECT_LT(work.steps - work.product_steps[product], words);
}

} // namespace
} // namespace luminal::search
