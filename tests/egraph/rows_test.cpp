// egraph/rows_test.cpp -- rows of the engine's tables over time: deletions, merges, congruence,
// compaction; and joins whose sizes are far apart.
#include "egraph/paths.h"
#include "egraph/state.h"
#include "egraph/terms.h"
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace luminal::egraph {
namespace {

using testing::act;
using testing::constant;
using ::testing::ElementsAre;
using testing::Functions;
using testing::Paths;
using testing::Terms;
using testing::var;

TEST(Engine, TheStructuralHashKnowsNoOrder) {
  const auto hash = [](const std::vector<std::string>& terms, bool unite) {
    Terms t;
    testing::add_math(t);
    t.graph.clear();
    for (const std::string& term : terms) t.add(term);
    if (unite) t.graph.unite(t.add("x"), t.add("y"));
    return t.graph.structural_hash();
  };
  const Hash128 one = hash({"(+ x (* y 2))", "(sin x)"}, false);
  EXPECT_EQ(one, hash({"(sin x)", "2", "(+ x (* y 2))"}, false));
  EXPECT_NE(one, hash({"(cos x)", "(+ x (* y 2))"}, false));
  EXPECT_NE(one, hash({"(sin y)", "(+ x (* y 2))"}, false));
  EXPECT_NE(one, hash({"(sin x)", "(+ x (* y 2))"}, true));
}

TEST(Engine, ARowMadeByAnIterationOutlivesItsDeletions) {
  Terms t;
  const ClassId a = t.add("a");
  const OpId f = t.op("f", 1), mark = t.op("mark", 1);
  t.graph.add(mark, std::span(&a, 1));
  Rule make;
  make.name = "make";
  make.ruleset = t.rules;
  make.query.add_var("x", t.expr);
  make.query.add_var("m", t.expr);
  make.query.add_var("made", t.expr);
  make.query.atoms = {{mark, {var(0)}, var(1)}};
  make.actions = {act(Action::Kind::term, f, {var(0)})};
  make.actions[0].out = 2;
  Rule remove = make;
  remove.name = "remove";
  remove.actions = {act(Action::Kind::remove, f, {var(0)})};
  t.graph.add_rule(make);
  t.graph.add_rule(remove);
  EXPECT_TRUE(t.graph.run(t.rules).changed);
  EXPECT_EQ(t.graph.size(f), 1u);
}

TEST(Engine, AMergedRowStaysSubsumed) {
  Functions p;
  OpSpec spec;
  spec.name = "least";
  spec.args = {p.number};
  spec.out = p.number;
  spec.merge = MergeKind::lattice;
  spec.join = [](Value a, Value b) { return std::min(a, b); };
  const OpId least = p.graph.add_op(spec);
  const Value key = 4;
  p.graph.set(least, std::span(&key, 1), 9);
  p.graph.subsume(least, std::span(&key, 1));
  p.graph.set(least, std::span(&key, 1), 3);
  size_t rows = 0;
  p.graph.for_each_row(least, [&](const RowView& row) {
    EXPECT_TRUE(row.subsumed);
    EXPECT_EQ(row.out(), 3u);
    ++rows;
    return true;
  });
  EXPECT_EQ(rows, 1u);
}

TEST(Engine, ACongruenceShowsTheRowsInTheOrderOfTheStep) {
  Terms t;
  const ClassId x = t.add("x"), y = t.add("y"), gx = t.add("(g x)"), gy = t.add("(g y)");
  t.graph.unite(x, y);
  t.graph.rebuild();
  const auto check = [&](ClassId from, ClassId to, ClassId left, ClassId right) {
    const std::vector<ExplainStep> path = t.graph.explain(from, to);
    ASSERT_EQ(path.size(), 1u);
    EXPECT_EQ(path[0].why.kind, Justification::Kind::congruence);
    EXPECT_EQ(path[0].why.op, t.ops["g"]);
    EXPECT_THAT(path[0].why.left, ElementsAre(left));
    EXPECT_THAT(path[0].why.right, ElementsAre(right));
  };
  check(gx, gy, x, y);
  check(gy, gx, y, x);
}

TEST(Engine, CompactionKeepsRowsOrderAndDeltas) {
  Terms t;
  const RuleId swap = t.rewrite("(g ?a ?b)", "(g ?b ?a)");
  for (int i = 0; i < 3000; ++i) t.add("(g v" + std::to_string(i) + " w)");
  const OpId g = t.ops["g"];
  t.graph.run(t.rules);
  EXPECT_EQ(t.graph.size(g), 6000u);
  const ClassId w = t.add("w"), v0 = t.add("v0");
  const Value hidden[] = {t.add("h"), w};
  t.graph.add(g, hidden);
  t.graph.subsume(g, hidden);
  for (int i = 1; i < 3000; ++i) t.graph.unite(v0, t.add("v" + std::to_string(i)));
  t.graph.run(t.rules);
  const Table& table = t.graph.state().tables[g];
  EXPECT_EQ(table.dead(), 0u) << "the table was not compacted";
  EXPECT_EQ(table.live(), 3u);
  RowId last = 0;
  t.graph.for_each_row(g, [&](const RowView& row) {
    EXPECT_EQ(row.subsumed, row.args()[0] == t.graph.find(hidden[0]));
    EXPECT_EQ(t.graph.lookup(g, row.args()), std::optional<Value>(row.out()));
    EXPECT_TRUE(t.graph.creator(g, row.row) == swap || t.graph.creator(g, row.row) == absent);
    last = row.row;
    return true;
  });
  EXPECT_EQ(last, 2u);
  EXPECT_EQ(t.graph.find(t.add("(g v7 w)")), t.graph.find(t.add("(g w v9)")));
  EXPECT_FALSE(t.graph.run(t.rules).changed);
  t.add("(g v1 q)");
  EXPECT_TRUE(t.graph.run(t.rules).changed);
  EXPECT_EQ(table.live(), 5u);
}

TEST(Engine, SkewedRunsAreWalkedFromTheShorterSide) {
  // 3,000 triples begin with 0 and as many end with it; each pair is met by one of them only.
  Paths p;
  OpSpec spec;
  spec.name = "triple";
  spec.args = {p.number, p.number, p.number};
  spec.out = EGraph::unit_sort;
  const OpId triple = p.graph.add_op(spec);
  const auto add = [&](Value a, Value b, Value c) {
    const Value cells[] = {a, b, c};
    p.graph.set(triple, cells, 0);
  };
  Rule rule;
  rule.name = "middle";
  rule.ruleset = p.graph.add_ruleset("middle");
  for (const char* name : {"x", "y", "z"}) rule.query.add_var(name, p.number);
  rule.query.atoms = {{p.edge, {var(0), var(2)}, constant(0)},
                      {triple, {var(0), var(1), var(2)}, constant(0)}};
  rule.actions = {act(Action::Kind::set, p.path, {var(0), var(1), constant(0)})};
  const RuleId id = p.graph.add_rule(rule);
  add(1, 1, 1);
  p.connect(1, 1);
  p.graph.run(rule.ruleset);
  for (Value i = 1; i <= 3000; ++i) {
    add(0, i, i);
    add(i, i, 0);
  }
  p.graph.run(rule.ruleset); // the triples alone
  const uint64_t before = p.graph.rule_stats(id).steps;
  for (Value i = 1; i <= 3000; ++i) {
    p.connect(0, i);
    p.connect(i, 0);
  }
  const RunReport report = p.graph.run(rule.ruleset);
  EXPECT_EQ(report.matches, 6000u);
  EXPECT_LT(p.graph.rule_stats(id).steps - before, 40000u); // by one column alone: 9 million
}

/// Triangles x -> y -> z -> x around a hub: any two edges of the three have a quadratic join, the
/// triangles are few.
TEST(Engine, TrianglesCostNoQuadraticJoin) {
  Paths p;
  const auto triangle_rule = [&] {
    Rule rule;
    rule.name = "triangle";
    rule.ruleset = p.graph.add_ruleset("triangles");
    for (const char* name : {"x", "y", "z"}) rule.query.add_var(name, p.number);
    rule.query.atoms = {{p.edge, {var(0), var(1)}, constant(0)},
                        {p.edge, {var(1), var(2)}, constant(0)},
                        {p.edge, {var(2), var(0)}, constant(0)}};
    rule.actions = {act(Action::Kind::set, p.path, {var(0), var(1), constant(0)})};
    return rule;
  }();
  const RuleId id = p.graph.add_rule(triangle_rule);
  const Value hub = 0, spokes = 2000;
  for (Value i = 1; i <= spokes; ++i) {
    p.connect(hub, i);
    p.connect(i, hub);
  }
  for (Value i = 1; i + 1 <= spokes; i += 100) p.connect(i, i + 1);
  const RunReport all = p.graph.run(triangle_rule.ruleset);
  EXPECT_EQ(all.matches, 60u);                      // hub, i, i + 1, from each of its three corners
  EXPECT_LT(p.graph.rule_stats(id).steps, 60'000u); // one edge after the other: 8 million
  const uint64_t before = p.graph.rule_stats(id).steps;
  for (Value i = 50; i + 1 <= spokes; i += 100) p.connect(i, i + 1);
  EXPECT_EQ(p.graph.run(triangle_rule.ruleset).matches, 60u);
  EXPECT_LT(p.graph.rule_stats(id).steps - before, 20'000u);
}

/// (f (g a b) (g a c)): the classes of both arguments hold many g with different a, and each a
/// stands in many g.
TEST(Engine, ASharedSubtermIsMetByItsValue) {
  EGraph graph;
  const SortId expr = graph.add_sort({"E", SortKind::eq, {}, {}, {}});
  const SortId number = graph.add_sort({"N", SortKind::value, {}, {}, {}});
  const auto constructor = [&](const char* name, std::vector<SortId> args) {
    OpSpec spec;
    spec.name = name;
    spec.args = std::move(args);
    spec.out = expr;
    spec.constructor = true;
    return graph.add_op(spec);
  };
  const OpId leaf = constructor("leaf", {number}), f = constructor("f", {expr, expr}),
             g = constructor("g", {expr, expr}), found = constructor("found", {expr});
  Rule rule;
  rule.name = "factor";
  rule.ruleset = graph.add_ruleset("factor");
  for (const char* name : {"l", "r", "a", "b", "c", "e"}) rule.query.add_var(name, expr);
  rule.query.atoms = {
      {f, {var(0), var(1)}, var(5)}, {g, {var(2), var(3)}, var(0)}, {g, {var(2), var(4)}, var(1)}};
  Action make = act(Action::Kind::term, found, {var(2)});
  make.out = rule.query.add_var("t", expr);
  rule.actions = {make};
  const RuleId id = graph.add_rule(rule);
  std::vector<ClassId> leaves;
  const Value count = 400;
  for (Value i = 0; i < 3 * count; ++i) leaves.push_back(graph.add(leaf, std::span(&i, 1)));
  const auto term = [&](OpId op, ClassId a, ClassId b) {
    const Value args[] = {a, b};
    return graph.add(op, args);
  };
  // The left class holds (g a_i l_i), the right one (g b_i r_i), with b_i = a_i for the last one
  // alone; every a_i and b_i stands in many more.
  ClassId left = absent, right = absent;
  for (Value i = 0; i < count; ++i) {
    const ClassId a = leaves[i], b = i + 1 == count ? leaves[i] : leaves[count + i];
    const ClassId in_left = term(g, a, leaves[2 * count + i]);
    const ClassId in_right = term(g, b, leaves[2 * count + (i + 1) % count]);
    left == absent ? void(left = in_left) : graph.unite(left, in_left);
    right == absent ? void(right = in_right) : graph.unite(right, in_right);
    for (Value k = 0; k < 60; ++k) {
      term(g, a, leaves[(i + k) % count]);
      term(g, b, leaves[(i + k) % count]);
    }
  }
  graph.rebuild();
  graph.run(rule.ruleset);
  const uint64_t before = graph.rule_stats(id).steps;
  term(f, left, right);
  EXPECT_EQ(graph.run(rule.ruleset).matches, 1u);
  EXPECT_LT(graph.rule_stats(id).steps - before, 3000u); // one after the other: 400 * 61
}

} // namespace
} // namespace luminal::egraph
