// egraph/differential_test.cpp -- random theories: the engine against the naive one, iteration by
// iteration; limits and rollback in the middle; any number of threads; snapshots.
#include "egraph/naive.h"
#include <gtest/gtest.h>
#include <random>

namespace luminal::egraph {
namespace {

using naive::Engine;

class Random {
public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  uint32_t below(uint32_t n) { return static_cast<uint32_t>(engine_() % n); }
  bool chance(uint32_t percent) { return below(100) < percent; }

private:
  std::mt19937 engine_;
};

/// Terms, a relation and a lattice function over classes; rules build, unite, insert, set and
/// subsume.
struct TermTheory {
  EGraph graph;
  SortId expr, number;
  RulesetId rules;
  std::vector<OpId> constructors;
  std::vector<ClassId> terms;
  OpId related, least;
  Random random;

  explicit TermTheory(uint32_t seed) : random(seed) {
    expr = graph.add_sort({"E", SortKind::eq, {}, {}, {}});
    number = graph.add_sort({"N", SortKind::value, {}, {}, {}});
    rules = graph.add_ruleset("r");
    const size_t arities[] = {0, 0, 1, 1, 2, 2};
    for (size_t i = 0; i < 6; ++i) {
      OpSpec spec;
      spec.name = "c" + std::to_string(i);
      spec.args.assign(arities[i], expr);
      spec.out = expr;
      spec.constructor = true;
      constructors.push_back(graph.add_op(spec));
    }
    OpSpec relation;
    relation.name = "related";
    relation.args = {expr, expr};
    relation.out = EGraph::unit_sort;
    related = graph.add_op(relation);
    OpSpec function;
    function.name = "least";
    function.args = {expr};
    function.out = number;
    function.merge = MergeKind::lattice;
    function.join = [](Value a, Value b) { return std::min(a, b); };
    least = graph.add_op(function);
    const uint32_t rule_count = 3 + random.below(4);
    for (uint32_t i = 0; i < rule_count; ++i) add_rule();
    for (uint32_t i = 0; i < 12; ++i) {
      const OpId op = constructors[terms.empty() ? random.below(2) : random.below(6)];
      std::vector<Value> args;
      for (size_t k = 0; k < graph.op(op).args.size(); ++k)
        args.push_back(terms[random.below(static_cast<uint32_t>(terms.size()))]);
      terms.push_back(graph.add(op, args));
    }
    if (random.chance(50)) graph.unite(any_term(), any_term());
    const Value pair[] = {any_term(), any_term()};
    graph.set(related, pair, 0);
    graph.set(least, std::span(pair, 1), 5);
    graph.rebuild();
  }
  ClassId any_term() { return terms[random.below(static_cast<uint32_t>(terms.size()))]; }

  void add_rule() {
    Rule rule;
    rule.name = "rule " + std::to_string(graph.rule_count());
    rule.ruleset = rules;
    std::vector<VarId> vars, numbers;
    const auto old_or_new = [&] {
      if (!vars.empty() && random.chance(60)) return vars[random.below(static_cast<uint32_t>(vars.size()))];
      vars.push_back(rule.query.add_var("v" + std::to_string(vars.size()), expr));
      return vars.back();
    };
    const uint32_t atoms = 1 + random.below(3);
    for (uint32_t i = 0; i < atoms; ++i) {
      Atom atom;
      const uint32_t kind = random.below(8);
      atom.op = kind == 6 ? related : kind == 7 ? least : constructors[kind];
      for (size_t k = 0; k < graph.op(atom.op).args.size(); ++k)
        atom.args.push_back(Operand::var(old_or_new()));
      if (kind == 6)
        atom.out = Operand::constant(0);
      else if (kind == 7) {
        numbers.push_back(rule.query.add_var("n", number));
        atom.out = Operand::var(numbers.back());
      } else
        atom.out = Operand::var(old_or_new());
      rule.query.atoms.push_back(atom);
    }
    if (vars.empty()) return;
    const auto any_var = [&] { return Operand::var(vars[random.below(static_cast<uint32_t>(vars.size()))]); };
    const uint32_t actions = 1 + random.below(2);
    for (uint32_t i = 0; i < actions; ++i) {
      Action action;
      const uint32_t kind = random.below(10);
      if (kind < 4) {
        action.kind = Action::Kind::term;
        action.id = constructors[random.below(6)];
        for (size_t k = 0; k < graph.op(action.id).args.size(); ++k) action.args.push_back(any_var());
        action.out = rule.query.add_var("t", expr);
        rule.actions.push_back(action);
        if (random.chance(70)) {
          Action unite;
          unite.kind = Action::Kind::unite;
          unite.args = {any_var(), Operand::var(action.out)};
          rule.actions.push_back(unite);
        }
        continue;
      }
      if (kind < 6) {
        action.kind = Action::Kind::unite;
        action.args = {any_var(), any_var()};
      } else if (kind < 8) {
        action.kind = Action::Kind::set;
        action.id = related;
        action.args = {any_var(), any_var(), Operand::constant(0)};
      } else if (kind == 8) {
        action.kind = Action::Kind::set;
        action.id = least;
        action.args = {any_var(),
                       numbers.empty() ? Operand::constant(random.below(5)) : Operand::var(numbers[0])};
      } else {
        action.kind = Action::Kind::subsume;
        const Atom& atom = rule.query.atoms[random.below(atoms)];
        if (atom.op == least || atom.op == related) continue;
        action.id = atom.op;
        action.args = atom.args;
      }
      rule.actions.push_back(action);
    }
    graph.add_rule(rule);
  }
};

void expect_valid(EGraph& graph) {
  for (OpId op = 0; op < graph.op_count(); ++op) {
    std::set<std::vector<Value>> keys;
    graph.for_each_row(op, [&](const RowView& row) {
      EXPECT_TRUE(keys.insert({row.args().begin(), row.args().end()}).second)
          << graph.op(op).name << " holds a key twice";
      for (size_t col = 0; col < row.cells.size(); ++col) {
        const SortId sort = col < graph.op(op).args.size() ? graph.op(op).args[col] : graph.op(op).out;
        EXPECT_EQ(graph.canonical(sort, row.cells[col]), row.cells[col]);
      }
      EXPECT_EQ(graph.lookup(op, row.args()), std::optional<Value>(row.out()));
      return true;
    });
  }
}

/// Every second theory takes the steps that are meant for long runs.
PlanOptions plan_options(uint32_t seed) { return seed % 2 == 0 ? PlanOptions{} : PlanOptions{0}; }

TEST(Differential, TermsAndUnions) {
  size_t rows = 0;
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    TermTheory theory(seed);
    theory.graph.plan_with(plan_options(seed));
    Engine reference(theory.graph);
    for (int i = 0; i < 4 && reference.size() < 120; ++i) {
      const bool changed = reference.run(theory.rules);
      const RunReport report = theory.graph.run(theory.rules);
      ASSERT_EQ(report.stop, StopReason::none);
      expect_valid(theory.graph);
      const auto got = naive::rows_of(theory.graph);
      ASSERT_EQ(got.size(), reference.size()) << "seed " << seed << ", iteration " << i;
      ASSERT_EQ(naive::shape(theory.graph, got), naive::shape(theory.graph, reference.rows()))
          << "seed " << seed << ", iteration " << i;
      rows += got.size();
      if (!changed) {
        EXPECT_FALSE(theory.graph.run(theory.rules).changed) << "seed " << seed;
      }
    }
  }
  EXPECT_GT(rows, 5000u);
}

/// Relations over eight values, a filter, functions: rules insert, delete and set.
struct FactTheory {
  EGraph graph;
  RulesetId rules;
  std::vector<OpId> relations;
  OpId best;
  PrimId less, plus;
  Random random;

  explicit FactTheory(uint32_t seed) : random(seed) {
    const SortId number = graph.add_sort({"N", SortKind::value, {}, {}, {}});
    rules = graph.add_ruleset("r");
    for (const char* name : {"a", "b", "c"}) {
      OpSpec spec;
      spec.name = name;
      spec.args = {number, number};
      spec.out = EGraph::unit_sort;
      relations.push_back(graph.add_op(spec));
    }
    OpSpec function;
    function.name = "best";
    function.args = {number};
    function.out = number;
    function.merge = MergeKind::lattice;
    function.join = [](Value a, Value b) { return std::max(a, b); };
    best = graph.add_op(function);
    less = graph.add_primitive({"less",
                                {},
                                0,
                                [](std::span<const Value> args, Value& out) {
                                  out = 0;
                                  return args[0] < args[1];
                                },
                                true});
    plus = graph.add_primitive({"plus",
                                {},
                                0,
                                [](std::span<const Value> args, Value& out) {
                                  out = args[0] + args[1];
                                  return out < 9;
                                },
                                true});
    for (int i = 0; i < 5; ++i) {
      Rule rule;
      rule.name = std::to_string(i);
      rule.ruleset = rules;
      std::vector<VarId> vars;
      const auto old_or_new = [&] {
        if (!vars.empty() && random.chance(55)) return vars[random.below(static_cast<uint32_t>(vars.size()))];
        vars.push_back(rule.query.add_var("v", number));
        return vars.back();
      };
      const uint32_t atoms = 1 + random.below(3);
      for (uint32_t k = 0; k < atoms; ++k) {
        if (random.chance(20))
          rule.query.atoms.push_back({best, {Operand::var(old_or_new())}, Operand::var(old_or_new())});
        else {
          const Operand first =
              random.chance(15) ? Operand::constant(random.below(8)) : Operand::var(old_or_new());
          rule.query.atoms.push_back(
              {relations[random.below(3)], {first, Operand::var(old_or_new())}, Operand::constant(0)});
        }
      }
      const auto any = [&] { return Operand::var(vars[random.below(static_cast<uint32_t>(vars.size()))]); };
      if (random.chance(40)) rule.query.prims.push_back({less, {any(), any()}, Operand::constant(0)});
      if (random.chance(40)) {
        const VarId sum = rule.query.add_var("sum", number);
        rule.query.prims.push_back({plus, {any(), any()}, Operand::var(sum)});
        vars.push_back(sum);
      }
      for (uint32_t k = 0; k < 1 + random.below(2); ++k) {
        Action action;
        const uint32_t kind = random.below(10);
        action.kind = kind < 3 ? Action::Kind::remove : Action::Kind::set;
        action.id = kind == 9 ? best : relations[random.below(3)];
        action.args = {any(), any()};
        if (action.kind == Action::Kind::set && action.id != best)
          action.args.push_back(Operand::constant(0));
        rule.actions.push_back(action);
      }
      graph.add_rule(rule);
    }
    for (int i = 0; i < 10; ++i) {
      const Value pair[] = {random.below(8), random.below(8)};
      graph.set(relations[random.below(3)], pair, 0);
    }
  }
};

TEST(Differential, FactsAndDeletions) {
  for (uint32_t seed = 1; seed <= 400; ++seed) {
    FactTheory theory(seed);
    theory.graph.plan_with(plan_options(seed));
    Engine reference(theory.graph);
    for (int i = 0; i < 6; ++i) {
      const bool changed = reference.run(theory.rules);
      const RunReport report = theory.graph.run(theory.rules);
      ASSERT_EQ(naive::shape(theory.graph, naive::rows_of(theory.graph)),
                naive::shape(theory.graph, reference.rows()))
          << "seed " << seed << ", iteration " << i;
      ASSERT_EQ(report.matches, reference.matches()) << "seed " << seed << ", iteration " << i;
      ASSERT_EQ(report.changed, changed) << "seed " << seed << ", iteration " << i;
    }
  }
}

TEST(Differential, LimitsInTheMiddleRollBack) {
  size_t stopped = 0;
  for (uint32_t seed = 1; seed <= 300; ++seed) {
    TermTheory theory(seed), plain(seed);
    for (int i = 0; i < 4 && theory.graph.total_size() < 2000; ++i) {
      const std::string before = theory.graph.save();
      RunOptions options;
      options.limits.rollback = true;
      const uint64_t rows = theory.graph.total_size();
      (seed % 3 == 0   ? options.limits.steps
       : seed % 3 == 1 ? options.limits.rows
                       : options.limits.classes) = std::max<uint64_t>(1, rows + seed % 7);
      const RunReport report = theory.graph.run(theory.rules, options);
      if (report.stop != StopReason::none) {
        ++stopped;
        EXPECT_TRUE(report.rolled_back);
        ASSERT_EQ(theory.graph.save(), before) << "seed " << seed << ", iteration " << i;
        theory.graph.run(theory.rules);
      }
      plain.graph.run(plain.rules);
      ASSERT_EQ(naive::shape(theory.graph, naive::rows_of(theory.graph)),
                naive::shape(plain.graph, naive::rows_of(plain.graph)))
          << "seed " << seed << ", iteration " << i;
    }
  }
  EXPECT_GT(stopped, 100u);
}

TEST(Differential, LimitsWithoutRollbackLeaveAValidGraphThatGoesOn) {
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    TermTheory theory(seed);
    RunOptions options;
    options.limits.rows = 14;
    const RunReport report = theory.graph.run(theory.rules, options);
    expect_valid(theory.graph);
    if (report.stop == StopReason::rows) {
      theory.graph.run(theory.rules);
      expect_valid(theory.graph);
    }
  }
}

TEST(Differential, SnapshotsDoNotDependOnThreads) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    std::vector<std::string> snapshots;
    for (int threads = 1; threads <= 3; ++threads) {
      TermTheory theory(seed);
      RunOptions options;
      options.threads = threads;
      for (int i = 0; i < 4 && theory.graph.total_size() < 4000; ++i) theory.graph.run(theory.rules, options);
      snapshots.push_back(theory.graph.save());
    }
    ASSERT_EQ(snapshots[0], snapshots[1]) << "seed " << seed;
    ASSERT_EQ(snapshots[0], snapshots[2]) << "seed " << seed;
  }
}

TEST(Differential, SnapshotsLoad) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    TermTheory theory(seed), other(seed);
    for (int i = 0; i < 3 && theory.graph.total_size() < 500; ++i) theory.graph.run(theory.rules);
    const std::string saved = theory.graph.save();
    other.graph.load(saved);
    ASSERT_EQ(other.graph.save(), saved);
    // Every cut and every changed byte is refused or gives a valid graph.
    for (size_t at = 0; at < saved.size(); at += 1 + saved.size() / 97) {
      EXPECT_THROW(other.graph.load(std::string_view(saved).substr(0, at)), Error);
      std::string changed = saved;
      changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
      try {
        other.graph.load(changed);
        expect_valid(other.graph);
      } catch (const Error&) {
      }
    }
  }
}

} // namespace
} // namespace luminal::egraph
