// egraph/engine_test.cpp -- the parts of the engine one by one: merges, budgets, panics,
// containers, queries, explanations, analyses, limits, copies, byte counts.
#include "egraph/paths.h"
#include "egraph/state.h"
#include "egraph/terms.h"
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

namespace luminal::egraph {
namespace {

using testing::act;
using testing::constant;
using ::testing::ElementsAre;
using testing::Functions;
using ::testing::HasSubstr;
using testing::Paths;
using testing::Terms;
using testing::var;

TEST(Engine, TransitiveClosure) {
  Paths p;
  for (Value i = 0; i < 20; ++i) p.connect(i, i + 1);
  int iterations = 0;
  while (p.graph.run(p.rules).changed) ++iterations;
  EXPECT_EQ(p.graph.size(p.path), 210u);
  EXPECT_EQ(iterations, 20);
  EXPECT_EQ(p.graph.rule_stats(p.step).matches, 190u);
  EXPECT_GT(p.graph.rule_stats(p.step).steps, 190u);
}

TEST(Engine, BudgetHoldsMatchesBackAndLosesNone) {
  Paths p(7);
  for (Value i = 0; i < 20; ++i) p.connect(i, i + 1);
  uint64_t most = 0;
  int iterations = 0;
  for (RunReport report; (report = p.graph.run(p.rules)).changed; ++iterations)
    most = std::max(most, report.waiting);
  EXPECT_EQ(p.graph.size(p.path), 210u);
  EXPECT_GT(most, 0u);
  EXPECT_GE(iterations, 190 / 7);
}

TEST(Engine, DeltaRulesFindEachMatchOnce) {
  Paths p;
  p.connect(1, 2);
  p.graph.run(p.rules);
  p.graph.run(p.rules);
  EXPECT_EQ(p.graph.rule_stats(p.step).matches, 0u);
  p.connect(2, 3);
  p.graph.run(p.rules); // path(1,2) with the new edge
  p.graph.run(p.rules);
  EXPECT_EQ(p.graph.rule_stats(p.step).matches, 1u);
  EXPECT_FALSE(p.graph.run(p.rules).changed);
}

TEST(Engine, RulesAddedLaterSeeEverything) {
  Paths p;
  p.connect(1, 2);
  p.graph.run(p.rules);
  Rule reverse;
  reverse.name = "reverse";
  reverse.ruleset = p.rules;
  reverse.query.add_var("x", p.number);
  reverse.query.add_var("y", p.number);
  reverse.query.atoms = {{p.edge, {var(0), var(1)}, constant(0)}};
  reverse.actions = {act(Action::Kind::set, p.edge, {var(1), var(0), constant(0)})};
  p.graph.add_rule(reverse);
  EXPECT_TRUE(p.graph.run(p.rules).changed);
  EXPECT_EQ(p.graph.size(p.edge), 2u);
}

TEST(Engine, MistakesOfTheCallerNameThemselves) {
  Paths p;
  const auto message = [&](const Rule& rule) -> std::string {
    try {
      p.graph.add_rule(rule);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  Rule rule;
  rule.name = "r";
  rule.ruleset = p.rules;
  rule.query.add_var("x", p.number);
  rule.query.atoms = {{p.edge, {var(0)}, constant(0)}};
  EXPECT_THAT(message(rule), HasSubstr("r: edge takes 2 arguments, not 1"));
  rule.query.atoms = {{99, {var(0)}, constant(0)}};
  EXPECT_THAT(message(rule), HasSubstr("there is no operator 99"));
  rule.query.atoms.clear();
  rule.actions = {act(Action::Kind::set, p.edge, {var(0), var(0), constant(0)})};
  EXPECT_THAT(message(rule), HasSubstr("uses variable 0 before it has a value"));
  rule.query.equalities = {{var(0), var(0)}};
  EXPECT_THAT(message(rule), HasSubstr("variable x is not bound"));
  const Value one[] = {1};
  EXPECT_THROW(p.graph.set(p.edge, one, 0), Error);
  EXPECT_THROW(p.graph.pop(), Error);
  EXPECT_THROW(p.graph.find(7), Error);
  EXPECT_THROW(p.graph.run(RulesetId{9}), Error);
}

TEST(Engine, Merges) {
  Functions f;
  EXPECT_EQ(f.after(f.function("old", MergeKind::keep_old), 5, 2), 5u);
  EXPECT_EQ(f.after(f.function("new", MergeKind::keep_new), 5, 2), 2u);
  EXPECT_EQ(f.after(f.function("same", MergeKind::assert_equal), 5, 5), 5u);
  try {
    f.after(f.function("strict", MergeKind::assert_equal), 5, 2);
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("Illegal merge attempted for function strict"));
  }
  const PrimId plus = f.graph.add_primitive({"plus",
                                             {},
                                             0,
                                             [](std::span<const Value> args, Value& out) {
                                               out = args[0] + args[1];
                                               return out < 10;
                                             },
                                             true});
  OpSpec spec;
  spec.name = "sum";
  spec.args = {f.number};
  spec.out = f.number;
  spec.merge = MergeKind::program;
  spec.merge_program = {{MergeNode::Kind::old_value, 0, {}},
                        {MergeNode::Kind::new_value, 0, {}},
                        {MergeNode::Kind::primitive, plus, {0, 1}}};
  const OpId sum = f.graph.add_op(spec);
  EXPECT_EQ(f.after(sum, 5, 2), 7u);
  const Value key = 3;
  EXPECT_THROW(f.graph.set(sum, std::span(&key, 1), 9), Error);
  EXPECT_EQ(f.graph.lookup(sum, std::span(&key, 1)), 7u);
}

TEST(Engine, PanicEndsTheRunAndLeavesAValidGraph) {
  Paths p;
  p.connect(1, 2);
  Rule rule;
  rule.name = "stop";
  rule.ruleset = p.rules;
  rule.query.add_var("x", p.number);
  rule.query.atoms = {{p.path, {constant(1), var(0)}, constant(0)}};
  Action panic;
  panic.kind = Action::Kind::panic;
  panic.message = "a.egg:3:1: there is a path";
  rule.actions = {panic};
  p.graph.add_rule(rule);
  EXPECT_EQ(p.graph.run(p.rules).stop, StopReason::none);
  const RunReport report = p.graph.run(p.rules);
  EXPECT_EQ(report.stop, StopReason::panic);
  EXPECT_EQ(report.message, "a.egg:3:1: there is a path");
  EXPECT_EQ(p.graph.size(p.path), 1u);
}

TEST(Engine, HostActionsMayFailAndSkipTheRest) {
  Terms t;
  const ClassId a = t.add("(f a)"), b = t.add("(f b)");
  Rule rule = t.rewrite_rule("(f ?x)", "?x");
  Action host;
  host.kind = Action::Kind::host;
  host.on_fail = OnFail::skip;
  host.args = {Operand::var(0)};
  const ClassId kept = t.add("a");
  host.host = [kept](EGraph&, std::span<const Value> args, Value&) { return args[0] == kept; };
  rule.query.vars[0].sort = t.expr;
  const auto x = std::find_if(rule.query.vars.begin(), rule.query.vars.end(),
                              [](const Variable& v) { return v.name == "?x"; });
  host.args = {Operand::var(static_cast<VarId>(x - rule.query.vars.begin()))};
  rule.actions.insert(rule.actions.begin(), host);
  t.graph.add_rule(rule);
  EXPECT_EQ(t.graph.run(t.rules).stop, StopReason::none);
  EXPECT_EQ(t.graph.find(a), t.graph.find(kept));
  EXPECT_NE(t.graph.find(b), t.graph.find(t.add("b")));
}

TEST(Engine, ContainersAreRebuilt) {
  Terms t;
  std::vector<std::vector<ClassId>> pool;
  const auto intern = [&pool](const std::vector<ClassId>& v) {
    const auto found = std::find(pool.begin(), pool.end(), v);
    if (found == pool.end()) pool.push_back(v);
    return static_cast<Value>(std::find(pool.begin(), pool.end(), v) - pool.begin());
  };
  SortSpec spec;
  spec.name = "Vec";
  spec.kind = SortKind::container;
  spec.rebuild = [&](Value value, const Finder& find) {
    std::vector<ClassId> leaders = pool[value];
    for (ClassId& id : leaders) id = find(id);
    return intern(leaders);
  };
  const SortId vec = t.graph.add_sort(spec);
  OpSpec op;
  op.name = "sum";
  op.args = {vec};
  op.out = t.expr;
  op.constructor = true;
  const OpId sum = t.graph.add_op(op);
  const ClassId a = t.add("a"), b = t.add("b");
  const Value va = intern({a, a}), vb = intern({a, b});
  const ClassId sa = t.graph.add(sum, std::span(&va, 1)), sb = t.graph.add(sum, std::span(&vb, 1));
  EXPECT_NE(t.graph.find(sa), t.graph.find(sb));
  t.graph.unite(a, b);
  t.graph.rebuild();
  EXPECT_EQ(t.graph.find(sa), t.graph.find(sb));
  EXPECT_EQ(t.graph.size(sum), 1u);
}

TEST(Engine, QueriesAndRows) {
  Terms t;
  const ClassId sum = t.add("(+ (* a b) (* a c))");
  Query query;
  std::map<std::string, VarId> vars;
  t.pattern(query, vars, Terms::read("(+ (* ?x ?y) (* ?x ?z))"));
  EXPECT_TRUE(t.graph.holds(query));
  std::vector<ClassId> found;
  t.graph.for_each_match(query, [&](std::span<const Value> values) {
    found = {values[vars["?x"]], values[vars["?y"]], values[vars["?z"]]};
    return true;
  });
  EXPECT_THAT(found, ElementsAre(t.add("a"), t.add("b"), t.add("c")));
  Query other;
  vars.clear();
  t.pattern(other, vars, Terms::read("(+ (* ?x ?y) (* ?y ?z))"));
  EXPECT_FALSE(t.graph.holds(other));
  ASSERT_EQ(t.graph.class_rows(sum).size(), 1u);
  EXPECT_EQ(t.graph.class_rows(sum)[0].op, t.ops["+"]);
  EXPECT_EQ(t.graph.use_rows(t.add("a")).size(), 2u);
}

TEST(Engine, SubsumedRowsAreFoundByLookupsOnly) {
  Terms t;
  const ClassId a = t.add("a");
  t.add("(f a)");
  const OpId f = t.ops["f"];
  t.graph.subsume(f, std::span(&a, 1));
  Query query;
  std::map<std::string, VarId> vars;
  t.pattern(query, vars, Terms::read("(f ?x)"));
  EXPECT_FALSE(t.graph.holds(query));
  query.include_subsumed = true;
  EXPECT_TRUE(t.graph.holds(query));
  EXPECT_TRUE(t.graph.lookup(f, std::span(&a, 1)).has_value());
  EXPECT_EQ(t.graph.size(f), 1u);
}

TEST(Engine, PushAndPop) {
  Terms t;
  t.rewrite("(f ?x)", "?x");
  t.add("(f (f a))");
  const std::string before = t.graph.save();
  t.graph.push();
  t.graph.run(t.rules);
  t.graph.run(t.rules);
  EXPECT_EQ(t.graph.find(t.add("(f (f a))")), t.graph.find(t.add("a")));
  t.graph.pop();
  EXPECT_EQ(t.graph.save(), before);
  EXPECT_EQ(t.graph.rule_count(), 1u);
  EXPECT_TRUE(t.graph.run(t.rules).changed);
}

TEST(Engine, ClearKeepsTheRules) {
  Terms t;
  testing::add_math(t);
  for (int i = 0; i < 7; ++i) t.graph.run(t.rules);
  EXPECT_EQ(t.graph.total_size(), 3160u);
  t.graph.clear();
  EXPECT_EQ(t.graph.total_size(), 0u);
  EXPECT_EQ(t.graph.class_count(), 0u);
  EXPECT_FALSE(t.graph.run(t.rules).changed);
  t.add("(+ x 0)");
  EXPECT_TRUE(t.graph.run(t.rules).changed);
  EXPECT_EQ(t.graph.find(t.add("(+ x 0)")), t.graph.find(t.add("x")));
}

TEST(Engine, ExplanationsLeadFromOneIdToTheOther) {
  Terms t;
  t.graph.record_substitutions(true);
  t.rewrite("(* ?a 1)", "?a");
  t.rewrite("(+ ?a ?b)", "(+ ?b ?a)");
  const ClassId left = t.add("(g (+ (* x 1) y))"), right = t.add("(g (+ y x))");
  const ClassId x = t.add("x"), times = t.add("(* x 1)");
  for (int i = 0; i < 3; ++i) t.graph.run(t.rules);
  ASSERT_EQ(t.graph.find(left), t.graph.find(right));
  const std::vector<ExplainStep> product = t.graph.explain(times, x);
  ASSERT_EQ(product.size(), 1u);
  EXPECT_EQ(product[0].why.kind, Justification::Kind::rule);
  EXPECT_EQ(t.graph.rule(product[0].why.rule).name, "(* ?a 1) => ?a");
  const Rule& rule = t.graph.rule(product[0].why.rule);
  for (VarId v = 0; v < rule.query.vars.size(); ++v)
    if (rule.query.vars[v].name == "?a") {
      EXPECT_EQ(t.graph.find(product[0].why.substitution[v]), t.graph.find(x));
    }
  // Steps join up, and each congruence is of rows whose arguments are equal in turn.
  const std::vector<ExplainStep> path = t.graph.explain(left, right);
  ASSERT_FALSE(path.empty());
  EXPECT_EQ(path.front().from, left);
  EXPECT_EQ(path.back().to, right);
  size_t congruences = 0;
  for (size_t i = 0; i < path.size(); ++i) {
    if (i > 0) {
      EXPECT_EQ(path[i].from, path[i - 1].to);
    }
    const Justification& why = path[i].why;
    if (why.kind != Justification::Kind::congruence) continue;
    ++congruences;
    ASSERT_EQ(why.left.size(), why.right.size());
    for (size_t k = 0; k < why.left.size(); ++k)
      EXPECT_EQ(t.graph.find(why.left[k]), t.graph.find(why.right[k]));
  }
  EXPECT_GT(congruences, 0u);
  EXPECT_THROW(t.graph.explain(left, x), Error);
}

TEST(Engine, AnalysesAreLeastFixpoints) {
  // Depth: the smallest number of operators, capped; bottom is the cap.
  Terms t;
  t.rewrite("(* ?a 1)", "?a");
  t.rewrite("(+ ?a ?b)", "(+ ?b ?a)");
  AnalysisSpec spec;
  spec.name = "depth";
  spec.bottom = 100;
  spec.join = [](Value a, Value b) { return std::min(a, b); };
  const OpId constant_op = t.op("Const", 1, true), variable = t.op("Var", 1, true);
  spec.make = [=](const RowView& row, const std::function<Value(ClassId)>& of) {
    if (row.op == constant_op || row.op == variable) return Value{1};
    Value depth = 0;
    for (const Value arg : row.args()) depth = std::max(depth, of(arg));
    return std::min<Value>(100, depth + 1);
  };
  const AnalysisId depth = t.graph.add_analysis(spec);
  const ClassId term = t.add("(+ (* (f x) 1) (* y 1))");
  EXPECT_EQ(t.graph.analysis(depth, term), 4u);
  t.graph.run(t.rules);
  EXPECT_EQ(t.graph.analysis(depth, term), 3u);
  t.graph.unite(t.add("(f x)"), t.add("x"));
  EXPECT_EQ(t.graph.analysis(depth, term), 2u);
}

TEST(Engine, LimitsStopInsideMatchingAndApplying) {
  for (const StopReason reason :
       {StopReason::rows, StopReason::classes, StopReason::bytes, StopReason::steps, StopReason::cancelled}) {
    Terms t;
    testing::add_math(t);
    for (int i = 0; i < 9; ++i) t.graph.run(t.rules);
    const std::string before = t.graph.save();
    const std::atomic<bool> cancel{true};
    RunOptions options;
    Limits& limits = options.limits;
    limits.rollback = true;
    if (reason == StopReason::rows)
      limits.rows = 50000;
    else if (reason == StopReason::classes)
      limits.classes = 20000;
    else if (reason == StopReason::bytes)
      limits.bytes = t.graph.bytes() + 1000000;
    else if (reason == StopReason::steps)
      limits.steps = 5000;
    else
      limits.cancel = &cancel;
    const RunReport report = t.graph.run(t.rules, options);
    EXPECT_EQ(report.stop, reason) << to_string(report.stop);
    EXPECT_TRUE(report.rolled_back);
    EXPECT_EQ(t.graph.save(), before) << to_string(reason);
    t.graph.run(t.rules);
    EXPECT_EQ(t.graph.total_size(), 136446u) << to_string(reason);
  }
}

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool sanitized = true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif
#else
constexpr bool sanitized = false;
#endif

TEST(Engine, BytesAreWhatTheAllocatorGave) {
  if (sanitized) GTEST_SKIP() << "the sanitizer's allocator is not the one that is asked";
  const auto used = [] { return mallinfo2().uordblks + mallinfo2().hblkhd; };
  Terms t;
  testing::add_math(t);
  t.graph.run(t.rules);
  const size_t before = used();
  const uint64_t counted_before = t.graph.bytes();
  for (int i = 0; i < 9; ++i) t.graph.run(t.rules);
  const auto allocated = static_cast<double>(used() - before),
             counted = static_cast<double>(t.graph.bytes() - counted_before);
  // Plans, statistics of rules and rounding to pages are not counted.
  EXPECT_NEAR(counted / allocated, 1, 0.03) << counted << " counted, " << allocated << " allocated";
}

TEST(Engine, ThreadsGiveTheSameBytes) {
  std::vector<std::string> snapshots;
  for (int threads = 1; threads <= 3; ++threads) {
    Terms t;
    testing::add_math(t);
    RunOptions options;
    options.threads = threads;
    for (int i = 0; i < 9; ++i) t.graph.run(t.rules, options);
    snapshots.push_back(t.graph.save());
  }
  EXPECT_TRUE(snapshots[0] == snapshots[1]);
  EXPECT_TRUE(snapshots[0] == snapshots[2]);
}

} // namespace
} // namespace luminal::egraph
