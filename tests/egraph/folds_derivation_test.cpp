// egraph/folds_derivation_test.cpp -- the provenance of what is extracted: printed, and the rules named are those that have to be.
#include "folds_derivation.h"
#include "folds_runs.h"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace luminal::egraph;
using namespace luminal::egraph::folds;

namespace {

Derivation derived(const std::string& name) {
  const FoldsRun& run = run_named(name);
  Theory t({}, case_named(name).numeric);
  t.program().graph().record_substitutions(true);
  const auto roots = build_large(run, t);
  t.saturate();
  const LoopProblem problem(t, roots, extents_of(run, true));
  const Found found = find_passes(problem);
  const Derivation out = derivation(t, problem.engine, found.candidate.genome);
  fmt::print("{}:\n", name);
  for (const auto& step : out.steps) fmt::print("  {}\n", step);
  fmt::print("  rules:");
  for (const auto& rule : out.rules) fmt::print(" {}", rule);
  fmt::print("\n");
  return out;
}

} // namespace

TEST(FoldsDerivation, OfAttention) {
  // The sum of weights leaves the weighted sum, the scale passes through the maximum, both sums follow it.
  const Derivation d = derived("attention");
  EXPECT_THAT(d.rules, testing::IsSupersetOf({"F1-range", "F2"}));
}

TEST(FoldsDerivation, OfItsGradient) {
  const Derivation d = derived("attention gradient");
  EXPECT_THAT(d.rules, testing::IsSupersetOf({"exchange", "F1-maxmul", "F1-range", "F2"}));
}
