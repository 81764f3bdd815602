// rules/folds_derivation_test.cpp -- the provenance of what is extracted: printed, and the rules
// named are those that have to be.
#include "folds_derivation.h"
#include "folds_runs.h"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace luminal::egraph;
using namespace luminal::egraph::folds;

namespace {

Derivation derived(const std::string& name, bool steps) {
  const FoldsRun& run = run_named(name);
  Theory t({}, case_named(name).numeric);
  t.program().graph().record_substitutions(true);
  const auto roots = build_large(run, t);
  t.saturate();
  const LoopProblem problem(t, roots, extents_of(run, true));
  const Found found = find_passes(problem);
  const Derivation out = derivation(t, problem.engine, found.candidate.genome);
  fmt::print("{}:", name);
  for (const auto& rule : out.rules) fmt::print(" {}", rule);
  fmt::print("\n");
  for (const auto& step : out.steps)
    if (steps) fmt::print("  {}\n", step);
  return out;
}

} // namespace

TEST(FoldsDerivation, NamesTheRulesThatMadeEachResult) {
  // What each result cannot do without; one class may hold what several rules made.
  const std::pair<const char*, std::vector<std::string>> all[] = {
      {"softmax", {"F2"}},
      {"logsumexp", {"F2"}},
      {"attention", {"F1-range", "F2"}},
      {"attention causal", {"F1-range", "F2"}},
      {"attention masked rows", {"F1-range", "F2"}},
      {"attention decode", {"F1-range", "F2", "F5"}},
      {"variance", {"F2", "zero"}},
      {"layernorm", {"F2", "zero"}},
      {"kurtosis", {"F2", "zero"}},
      {"rmsnorm+matmul", {"F1-range"}},
      {"layernorm+matmul", {"F1-range", "F2"}},
      {"cross entropy", {"F2"}},
      {"argmax", {"F2-equal"}},
      {"softmax entropy", {"F2"}},
      {"safe 2-norm", {"F2"}},
      {"attention block", {"F1-range", "F2"}},
      {"transformer layer", {"F1-range", "F2", "merge"}},
      {"conv+bn+relu", {"F1-par", "par-add", "par-dist"}},
      {"matmul over two axes", {"merge"}},
      {"logsumexp over two axes", {"F2", "merge"}},
      {"grouped-query attention", {"F1-range", "F2"}},
      {"attention gradient", {"F1-range", "F2", "exchange"}},
      {"cross entropy gradient", {"F1-dist", "F1-range", "F2", "pick"}},
      {"layernorm gradient", {"F1-range", "F2"}},
      {"three largest", {"F2-below"}},
      {"causal linear attention", {"exchange", "prefix", "tri-mul"}},
  };
  for (const auto& [name, rules] : all) {
    const Derivation d = derived(name, false);
    EXPECT_THAT(d.rules, testing::IsSupersetOf(rules)) << name;
    EXPECT_FALSE(d.rules.contains("F2-approx")) << name;
  }
}

TEST(FoldsDerivation, OfAttention) {
  // The sum of weights leaves the weighted sum, and both follow the maximum.
  const Derivation d = derived("attention", true);
  EXPECT_THAT(d.steps, testing::Contains(testing::AllOf(testing::HasSubstr("(max, self) (sum, self*exp("),
                                                        testing::HasSubstr("made by F2"))));
  EXPECT_THAT(d.steps.back(),
              testing::AllOf(testing::HasSubstr("(Mul"), testing::HasSubstr("made by F1-range")));
}

TEST(FoldsDerivation, OfItsGradient) {
  // The scale of the logits passes through the maximum; sum of P dP becomes sum of dO O by the
  // exchange of two sums.
  const Derivation d = derived("attention gradient", true);
  EXPECT_THAT(d.rules, testing::IsSupersetOf({"exchange", "F1-maxmul", "F1-range", "F2"}));
  EXPECT_THAT(d.steps, testing::Contains(
                           testing::AllOf(testing::HasSubstr("(Fold (monoid \"[(sum, self)]\") (axes e)"),
                                          testing::HasSubstr("made by exchange"))));
}
