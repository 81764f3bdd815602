// rules/folds_test.cpp -- a compiler's theory on the engine: naive formulas become few passes,
// their neighbours do not, every term of every class has the same value.
#include "folds_cases.h"
#include "folds_sweep.h"
#include <cmath>
#include <ctime>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace luminal::egraph;
using namespace luminal::egraph::folds;

namespace {

int most_passes(Theory& t, const std::vector<Value>& roots, const std::string& axis) {
  int most = 0;
  for (const Value root : roots) most = std::max(most, t.passes(root, axis));
  return most;
}

int naive_passes(const Case& c) {
  Theory t({}, c.numeric);
  const auto roots = build(c, t);
  t.find_facts();
  return most_passes(t, roots, c.axis);
}

int terms(Theory& t) {
  int out = 0;
  EGraph& graph = t.program().graph();
  for (OpId op = 0; op < graph.op_count(); ++op)
    if (graph.op(op).constructor)
      graph.for_each_row(op, [&](const RowView& row) {
        out += row.subsumed ? 0 : 1;
        return true;
      });
  return out;
}

/// Saturates a case and compares all terms of each class.
void check(const Case& c) {
  EXPECT_EQ(naive_passes(c), c.naive) << c.name;
  Theory t({}, c.numeric);
  const auto roots = build(c, t);
  const std::clock_t start = std::clock();
  const uint64_t iterations = t.saturate();
  const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
  EXPECT_EQ(most_passes(t, roots, c.axis), c.found) << c.name;
  EXPECT_LE(t.rows(), 2000u) << c.name;
  const Sweep s = sweep(t);
  EXPECT_LT(s.worst, 1e-9) << c.name << ": " << s.where;
  EXPECT_EQ(s.valueless, 0) << c.name;
  if (c.terms > 0) {
    EXPECT_LE(terms(t), c.terms) << c.name;
  }
  fmt::print("{:<44} {} -> {} passes, {} rows, {} terms, {} iterations, {:.1f} ms, worst difference {:.0e}\n",
             c.name, c.naive, most_passes(t, roots, c.axis), t.rows(), terms(t), iterations, seconds * 1e3,
             s.worst);
}

} // namespace

TEST(Folds, FewPassesAreDerived) {
  for (const Case& c : cases()) check(c);
}
TEST(Folds, SmallFormulasBecomeOnePass) {
  for (const Case& c : fused()) check(c);
}
TEST(Folds, NeighboursKeepTheirPasses) {
  for (const Case& c : refused()) check(c);
}

TEST(Folds, OneProgramServesManyFormulas) {
  // The rules are planned once: a compiler keeps the program and clears it. What is found is the
  // same.
  Theory kept;
  for (int round = 0; round < 2; ++round)
    for (const Case& c : cases()) {
      if (c.numeric != NumericClass::range) continue;
      Theory fresh;
      kept.clear();
      build(c, kept);
      build(c, fresh);
      kept.saturate();
      fresh.saturate();
      EXPECT_EQ(kept.rows(), fresh.rows()) << c.name;
      EXPECT_EQ(kept.program().graph().structural_hash(), fresh.program().graph().structural_hash())
          << c.name;
    }
}

TEST(Folds, ThreadsChangeNothing) {
  for (const char* name : {"attention gradient", "transformer layer"}) {
    Theory one, four({}, NumericClass::range, 4);
    build(case_named(name), one);
    build(case_named(name), four);
    one.saturate();
    four.saturate();
    EXPECT_EQ(one.program().graph().save(), four.program().graph().save()) << name;
  }
}
