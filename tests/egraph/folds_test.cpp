// egraph/folds_test.cpp -- a compiler's theory on the engine: naive formulas become one pass, their neighbours do not, every term of every class has the same
// value, and mistakes in the theory are seen.
#include "egraph/extract_engine.h"
#include "egraph/extract_passes.h"
#include "folds_sweep.h"
#include <cmath>
#include <ctime>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace luminal::egraph;
using namespace luminal::egraph::folds;

namespace {

using Make = std::function<Value(Theory&)>;

Value x(Theory& t) { return t.in("x", "t k"); }
Value minus(Theory& t, Value a, Value b) { return t.op("Sub", {a, b}); }
Value mul(Theory& t, Value a, Value b) { return t.op("Mul", {a, b}); }
Value exp(Theory& t, Value a) { return t.op("Exp", {a}); }
Value max(Theory& t, Value a) { return t.fold(Op::max, a, "k"); }
Value sum(Theory& t, Value a) { return t.fold(Op::sum, a, "k"); }

Value softmax(Theory& t) {
  const Value e = exp(t, minus(t, x(t), max(t, x(t))));
  return t.op("Div", {e, sum(t, e)});
}
Value logsumexp(Theory& t) {
  const Value m = max(t, x(t));
  return t.op("Add", {t.op("Log", {sum(t, exp(t, minus(t, x(t), m)))}), m});
}
/// Heads h, queries i, keys j; causal: a query sees the keys up to its own place.
Value attention(Theory& t, bool causal) {
  const Value q = t.in("q", "h i d"), k = t.in("k", "h j d"), v = t.in("v", "h j e");
  Value s = mul(t, t.fold(Op::sum, mul(t, q, k), "d"), t.constant(0.25));
  if (causal) s = t.op("Select", {t.op("Lt", {t.iota("i"), t.iota("j")}), t.constant(-infinity), s});
  const Value e = exp(t, minus(t, s, t.fold(Op::max, s, "j")));
  return t.fold(Op::sum, mul(t, t.op("Div", {e, t.fold(Op::sum, e, "j")}), v), "j");
}
Value full_attention(Theory& t) { return attention(t, false); }
Value causal_attention(Theory& t) { return attention(t, true); }
Value squares_about_the_mean(Theory& t) {
  const Value d = minus(t, x(t), t.mean(x(t), "k"));
  return mul(t, d, d);
}
Value variance(Theory& t) { return t.mean(squares_about_the_mean(t), "k"); }
Value entropy(Theory& t) { // of a softmax, up to its logarithm: sum of e (x - max x)
  const Value d = minus(t, x(t), max(t, x(t)));
  return sum(t, mul(t, exp(t, d), d));
}
Value layernorm_times_matrix(Theory& t) {
  const Value d = minus(t, x(t), t.mean(x(t), "k"));
  const Value scale = t.op("Recip", {t.op("Sqrt", {t.op("Add", {variance(t), t.constant(1e-5)})})});
  return sum(t, mul(t, mul(t, d, scale), t.in("w", "k o")));
}

Value kurtosis(Theory& t) {
  const Value d = squares_about_the_mean(t);
  return sum(t, mul(t, d, d));
}
Value rmsnorm_times_matrix(Theory& t) {
  const Value mean = t.mean(mul(t, x(t), x(t)), "k");
  const Value scale = t.op("Recip", {t.op("Sqrt", {t.op("Add", {mean, t.constant(1e-5)})})});
  return sum(t, mul(t, mul(t, x(t), scale), t.in("w", "k o")));
}
Value logsumexp_of_a_product(Theory& t) { // cross-entropy without its label
  const Value s = t.fold(Op::sum, mul(t, t.in("h", "t d"), t.in("w", "d k")), "d");
  const Value m = max(t, s);
  return t.op("Add", {t.op("Log", {sum(t, exp(t, minus(t, s, m)))}), m});
}

struct Case {
  std::string name;
  Make make;
  std::string axis;
  int naive, found; ///< nested passes over the axis
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"softmax", softmax, "k", 2, 1},
      {"logsumexp", logsumexp, "k", 2, 1},
      {"attention", full_attention, "j", 3, 1},
      {"causal attention", causal_attention, "j", 3, 1},
      {"variance", variance, "k", 2, 1},
      {"entropy", entropy, "k", 2, 1},
      {"exp(2 (x - max x))",
       [](Theory& t) { return sum(t, exp(t, mul(t, minus(t, x(t), max(t, x(t))), t.constant(2)))); }, "k", 2,
       1},
      {"exp(min x - x)", [](Theory& t) { return sum(t, exp(t, minus(t, t.fold(Op::min, x(t), "k"), x(t)))); },
       "k", 2, 1},
      {"(x - mean x)^3",
       [](Theory& t) { return sum(t, mul(t, squares_about_the_mean(t), minus(t, x(t), t.mean(x(t), "k")))); },
       "k", 2, 1},
      {"kurtosis", kurtosis, "k", 2, 1},
      {"rmsnorm times a matrix", rmsnorm_times_matrix, "k", 2, 1},
      {"logsumexp of a product", logsumexp_of_a_product, "k", 2, 1},
      {"layernorm times a matrix", layernorm_times_matrix, "k", 3, 1}};
  return all;
}

/// Programs that must keep their passes.
const std::vector<Case>& refused() {
  static const std::vector<Case> all{
      {"exp(x * max x): no sum in the exponent",
       [](Theory& t) { return sum(t, exp(t, mul(t, x(t), max(t, x(t))))); }, "k", 2, 2},
      {"tanh(x - max x): no finite family",
       [](Theory& t) { return sum(t, t.op("Tanh", {minus(t, x(t), max(t, x(t)))})); }, "k", 2, 2},
      {"|x - mean x|", [](Theory& t) { return sum(t, t.op("Abs", {minus(t, x(t), t.mean(x(t), "k"))})); },
       "k", 2, 2},
      {"log(x + max x)", [](Theory& t) { return sum(t, t.op("Log", {t.op("Add", {x(t), max(t, x(t))})})); },
       "k", 2, 2},
      {"exp(x + max x): the correction grows",
       [](Theory& t) { return sum(t, exp(t, t.op("Add", {x(t), max(t, x(t))}))); }, "k", 2, 2},
      {"exp(x - min x): the correction grows",
       [](Theory& t) { return sum(t, exp(t, minus(t, x(t), t.fold(Op::min, x(t), "k")))); }, "k", 2, 2},
      {"(x - sum x)^2: the centre is no location",
       [](Theory& t) {
         const Value d = minus(t, x(t), sum(t, x(t)));
         return sum(t, mul(t, d, d));
       },
       "k", 2, 2},
      {"exp(x - max over another axis)",
       [](Theory& t) { return sum(t, exp(t, minus(t, x(t), t.fold(Op::max, x(t), "t")))); }, "k", 1, 1},
  };
  return all;
}

int naive_passes(const Case& c) {
  Theory t;
  const Value root = c.make(t);
  t.program().run("(run-schedule (saturate (run facts)))", "facts");
  return t.passes(root, c.axis);
}

/// "rule <- rule <- ...": why the class that the program named is the one that was found.
std::string provenance(Theory& t, Value root) {
  auto& graph = t.program().graph();
  std::string out;
  std::set<RuleId> named;
  for (const RowView& row : graph.class_rows(root)) {
    const RuleId rule = graph.creator(row.op, row.row);
    if (!named.insert(rule).second) continue;
    out += fmt::format("{}{}: {}", out.empty() ? "" : ", ", graph.op(row.op).name,
                       rule == absent ? "input" : graph.rule(rule).name);
  }
  return out;
}

} // namespace

TEST(Folds, OnePassIsDerived) {
  for (const Case& c : cases()) {
    EXPECT_EQ(naive_passes(c), c.naive) << c.name;
    Theory t;
    const Value root = c.make(t);
    const std::clock_t start = std::clock();
    const uint64_t iterations = t.saturate();
    const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
    EXPECT_EQ(t.passes(root, c.axis), c.found) << c.name;
    EXPECT_LE(t.rows(), 2000u) << c.name;
    const Sweep s = sweep(t);
    EXPECT_LT(s.worst, 1e-9) << c.name << ": " << s.where;
    EXPECT_EQ(s.valueless, 0) << c.name;
    fmt::print(
        "{:<26} {} -> {} passes, {} rows, {} iterations, {:.1f} ms, {} terms compared, worst {:.0e}; {}\n",
        c.name, c.naive, t.passes(root, c.axis), t.rows(), iterations, seconds * 1e3, s.checked, s.worst,
        provenance(t, root));
  }
}

TEST(Folds, NeighboursKeepTheirPasses) {
  for (const Case& c : refused()) {
    Theory t;
    const Value root = c.make(t);
    t.saturate();
    EXPECT_EQ(t.passes(root, c.axis), c.found) << c.name;
    const Sweep s = sweep(t);
    EXPECT_LT(s.worst, 1e-9) << c.name << ": " << s.where;
  }
}

TEST(Folds, TheMonoidsAreThoseOfTheBooks) {
  Theory t;
  full_attention(t);
  t.saturate();
  // Online softmax, its scale in the correction; the weighted sum of values has the same.
  EXPECT_THAT(t.monoids(), testing::Contains("[(max, self) (sum, self*exp(-0.25*(new0 - old0)))]"))
      << testing::PrintToString(t.monoids());
  Theory w;
  variance(w);
  w.saturate();
  EXPECT_THAT(w.monoids(), testing::Contains("[(sum, self) (sum, self*old0/new0)]"))
      << testing::PrintToString(w.monoids());
}

TEST(Folds, MonoidsAreAssociative) {
  // On states made of three elements each; identities on both sides.
  std::set<Monoid> seen;
  for (const Case& c : cases()) {
    Theory t;
    c.make(t);
    t.saturate();
    t.program().graph().for_each_row(t.program().op("Fold"), [&](const RowView& row) {
      const Monoid& m = t.monoid(row.args()[0]);
      std::vector<std::optional<double>> constant;
      for (const Value v : t.program().values().sequence_of(row.args()[2])) {
        const auto k = t.program().graph().lookup(t.program().op("const"), std::span(&v, 1));
        constant.push_back(k ? std::optional(t.program().values().real_of(*k)) : std::nullopt);
      }
      uint64_t seed = 5;
      const auto element = [&] {
        std::vector<double> e;
        for (const auto& k : constant) {
          seed = seed * 6364136223846793005u + 1442695040888963407u;
          e.push_back(k ? *k : 0.1 + double(seed >> 40) / double(1 << 23));
        }
        return e;
      };
      const auto& f = [&](const std::vector<double>& a, const std::vector<double>& b) {
        return t.algebra().combine(m, a, b);
      };
      const auto state = [&] { return f(f(element(), element()), element()); };
      for (int round = 0; round < 5; ++round) {
        const auto a = state(), b = state(), d = state(), none = t.algebra().identities(m);
        const auto left = f(f(a, b), d), right = f(a, f(b, d)), front = f(none, a), back = f(a, none);
        for (size_t i = 0; i < m.size(); ++i) {
          EXPECT_NEAR(left[i], right[i], 1e-9 * (1 + std::abs(left[i])))
              << c.name << " " << t.algebra().text(m);
          EXPECT_NEAR(front[i], a[i], 1e-9 * (1 + std::abs(a[i]))) << c.name;
          EXPECT_NEAR(back[i], a[i], 1e-9 * (1 + std::abs(a[i]))) << c.name;
        }
      }
      return true;
    });
  }
}

TEST(Folds, PlantedMistakesAreSeen) {
  const std::pair<std::string, std::pair<std::string, std::string>> mistakes[] = {
      {"F1 pulls out what varies with the axis",
       {"(free s k) (bound t k)) ((fac k x a b))", "(bound t k)) ((fac k x a b))"}},
      {"F1-neg loses the sign",
       {"(Neg (Get 0 (Fold (sum1) k (vec-of y))))", "(Get 0 (Fold (sum1) k (vec-of y)))"}},
      {"F1-free forgets the extent", {"(union (Get 0 f) (Mul x (Dim k)))", "(union (Get 0 f) x)"}},
      {"the family of r with slope 2", {"(vec-of g (Const 1.0))", "(vec-of g (Const 2.0))"}},
      {"an exponential with its character turned around",
       {"(character c 0.0) 1) (vec-of (Exp q))",
        "(character-inverse (character c 0.0)) 1) (vec-of (Exp q))"}},
      {"a reciprocal that keeps the character",
       {"(character-inverse h) 1) (vec-of (Recip q))", "h 1) (vec-of (Recip q))"}},
      {"a sum of families with different characters",
       {"(= q (fam b r g h m))) ((set (fam x r g h (max n m))",
        "(= q (fam b r g j m))) ((set (fam x r g h (max n m))"}},
      {"bodies in the wrong order", {"(vec-append gs (vec-reverse qs))", "(vec-append gs qs)"}},
      {"a mean that is linear without its factor",
       {"(Fold (sum1) k (vec-of (Mul x i)))", "(Fold (sum1) k (vec-of x))"}},
      {"max moved through a factor below zero",
       {"(= g (sign a)) (> g 0)) ((union (Get 0 f) (Mul a", ") ((union (Get 0 f) (Mul a"}},
      {"a projection of the wrong component",
       {"((union a (Get (last p) (Fold p k ys)))", "((union a (Get 0 (Fold p k ys)))"}},
      {"x * 0 = x", {"(rewrite (Mul a (Const 0.0)) (Const 0.0)", "(rewrite (Mul a (Const 0.0)) a"}},
  };
  // Food: small programs in which a wrong rule has something to do.
  const Make food = [](Theory& t) {
    const Value y = t.in("y", "t k"), c = t.in("c", "t");
    sum(t, t.op("Neg", {x(t)}));
    sum(t, c);
    sum(t, mul(t, mul(t, c, x(t)), y));
    sum(t, t.op("Add", {exp(t, minus(t, x(t), max(t, x(t)))), minus(t, x(t), max(t, x(t)))}));
    max(t, mul(t, t.op("Neg", {c}), x(t)));
    sum(t, t.op("Recip", {exp(t, minus(t, max(t, x(t)), x(t)))}));
    mul(t, y, t.constant(0));
    sum(t, exp(t, minus(t, x(t), t.fold(Op::min, x(t), "k"))));
    sum(t, t.op("Recip", {exp(t, minus(t, x(t), max(t, x(t))))}));
    const Monoid three =
        t.algebra().cascade({t.algebra().single(Op::sum)[0], t.algebra().single(Op::max)[0]}, 1, {-1, 0}, 1);
    const Value third = t.get(2, three, {y, x(t), t.constant(1)}, "k");
    t.program().graph().unite(third, sum(t, exp(t, minus(t, x(t), max(t, x(t)))))); // they are equal
    return variance(t);
  };
  for (const auto& [what, change] : mistakes) {
    double worst = 0;
    for (const Make& make : {food, Make(softmax), Make(variance), Make(entropy), Make(full_attention)}) {
      Theory t({change});
      make(t);
      t.saturate();
      worst = std::max(worst, sweep(t).worst);
      if (worst > 1e-9) break;
    }
    EXPECT_GT(worst, 1e-9) << what;
  }
}

/// A fold needs the classes in its vector of bodies.
EngineProblemOptions bodies_of_folds(EggProgram& program) {
  EngineProblemOptions options;
  options.contents = [&](SortId, Value v, std::vector<ClassId>& out) {
    const auto items = program.values().sequence_of(v);
    out.assign(items.begin(), items.end());
  };
  return options;
}

TEST(Folds, ExtractionJoinsThePassesOfAttention) {
  // Naive: logits, maximum, sum, weighted sum. Found: one pass over the keys with a state of three components, logits in its loop.
  for (const Make& make : {Make(full_attention), Make(causal_attention)}) {
    Theory t;
    const Value root = make(t);
    t.saturate();
    auto& program = t.program();
    const ClassId roots[] = {root};
    EngineProblemOptions options = bodies_of_folds(program);
    const OpId fold = program.op("Fold");
    // A fold that needs an earlier pass over its axes costs another one.
    options.cost = [&](const RowView& row) {
      if (row.op != fold) return 0.01;
      double cost = 10 + double(t.monoid(row.args()[0]).size());
      for (const Value v : program.values().sequence_of(row.args()[2]))
        for (const auto& axis : t.axes(row.args()[1]))
          if (t.passes(v, axis) > 0) return 1000.0;
      return cost;
    };
    const EngineProblem p = engine_problem(program.graph(), roots, options);
    const Extraction best = extract_dag(p.problem);
    ASSERT_TRUE(best.feasible());
    // Passes over the keys: each fold over j. One needs another where the other stands below it.
    Evaluator evaluator(p.problem);
    PassGraph graph;
    std::map<uint32_t, uint32_t> pass_of;
    std::vector<std::set<uint32_t>> below(p.problem.class_count());
    for (const uint32_t c : evaluator.evaluate(best.genome).order) { // children first
      for (const uint32_t d : p.problem.children(best.genome[c])) {
        below[c].insert(below[d].begin(), below[d].end());
        if (const auto at = pass_of.find(d); at != pass_of.end()) below[c].insert(at->second);
      }
      const auto [op, row] = p.chosen(best.genome, c);
      if (op != fold || t.axes(program.graph().row(op, row).args()[1]) != Axes{"j"}) continue;
      const std::vector<uint32_t> needs(below[c].begin(), below[c].end());
      pass_of[c] = graph.add(needs);
    }
    EXPECT_GE(graph.size(), 2u);
    join_greedily(graph, [](std::span<const uint32_t>, uint32_t) { return 1.0; });
    EXPECT_EQ(graph.order().size(), 1u);
  }
}

TEST(Folds, TheCheapestTermHasOnePass) {
  Theory t;
  const Value root = logsumexp(t);
  t.saturate();
  auto& program = t.program();
  const ClassId roots[] = {root};
  EngineProblemOptions options = bodies_of_folds(program);
  const OpId fold = program.op("Fold");
  options.cost = [&](const RowView& row) {
    return row.op == fold ? 100.0 + double(t.monoid(row.args()[0]).size()) : 1.0;
  };
  const EngineProblem p = engine_problem(program.graph(), roots, options);
  const Extraction best = extract_dag(p.problem);
  ASSERT_TRUE(best.feasible());
  int folds = 0;
  Evaluator evaluator(p.problem);
  for (const uint32_t c : evaluator.evaluate(best.genome).order) {
    const auto [op, row] = p.chosen(best.genome, c);
    EXPECT_EQ(program.graph().row(op, row).out(), p.class_of[c]);
    if (op != fold) continue;
    ++folds;
    // No body of a fold needs another fold.
    for (const Value v : program.values().sequence_of(program.graph().row(op, row).args()[2]))
      EXPECT_EQ(t.passes(v, "k"), 0);
  }
  EXPECT_EQ(folds, 2); // (max) and (max, sum): joined when passes are
  EXPECT_EQ(engine_problem(program.graph(), roots, options).problem.row_count(), p.problem.row_count());
  EXPECT_THROW(engine_problem(program.graph(), roots), luminal::Error);
}
