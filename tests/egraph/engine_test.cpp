// egraph/engine_test.cpp -- the parts of the engine one by one: merges, budgets, panics,
// containers, queries, explanations, analyses, limits, copies, byte counts.
#include "egraph/state.h"
#include "egraph/terms.h"
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <malloc.h>

namespace luminal::egraph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Terms;

Action act(Action::Kind kind, uint32_t id, std::vector<Operand> args) {
  Action action;
  action.kind = kind;
  action.id = id;
  action.args = std::move(args);
  return action;
}
Operand var(VarId v) { return Operand::var(v); }
Operand constant(Value v) { return Operand::constant(v); }

/// edge and path over numbers, path(x, z) from path(x, y) and edge(y, z).
struct Paths {
  EGraph graph;
  SortId number = graph.add_sort({"N", SortKind::value, {}, {}, {}});
  RulesetId rules = graph.add_ruleset("paths");
  OpId edge = relation("edge"), path = relation("path");
  RuleId step = absent;

  OpId relation(const char* name) {
    OpSpec spec;
    spec.name = name;
    spec.args = {number, number};
    spec.out = EGraph::unit_sort;
    return graph.add_op(spec);
  }
  explicit Paths(uint64_t budget = 0) {
    Rule start;
    start.name = "start";
    start.ruleset = rules;
    start.query.add_var("x", number);
    start.query.add_var("y", number);
    start.query.atoms = {{edge, {var(0), var(1)}, constant(0)}};
    start.actions = {act(Action::Kind::set, path, {var(0), var(1), constant(0)})};
    graph.add_rule(start);
    Rule rule = start;
    rule.name = "step";
    rule.budget = budget;
    rule.query.add_var("z", number);
    rule.query.atoms = {{path, {var(0), var(1)}, constant(0)}, {edge, {var(1), var(2)}, constant(0)}};
    rule.actions = {act(Action::Kind::set, path, {var(0), var(2), constant(0)})};
    step = graph.add_rule(rule);
  }
  void connect(Value a, Value b) {
    const Value pair[] = {a, b};
    graph.set(edge, pair, 0);
  }
};

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

struct Functions : Paths {
  OpId function(const char* name, MergeKind merge) {
    OpSpec spec;
    spec.name = name;
    spec.args = {number};
    spec.out = number;
    spec.merge = merge;
    return graph.add_op(spec);
  }
  std::optional<Value> after(OpId op, Value first, Value second) {
    const Value key = 3;
    graph.set(op, std::span(&key, 1), first);
    graph.set(op, std::span(&key, 1), second);
    return graph.lookup(op, std::span(&key, 1));
  }
};

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
