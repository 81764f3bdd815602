// rules/folds_mistakes_test.cpp -- wrong rules: the comparison of all terms of each class has to
// see them.
#include "folds_cases.h"
#include "folds_sweep.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

using namespace luminal::egraph;
using namespace luminal::egraph::folds;

namespace {

using Changes = std::vector<std::pair<std::string, std::string>>;
struct Mistake {
  std::string what;
  Changes changes; ///< texts of the theory and what stands there instead
};

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all{
      {"F1 pulls out what varies with the axis",
       {{"(= i (info a)) (free i k) (scales i) (bound (info b) k))\n", "(bound (info b) k))\n"}}},
      {"F1-neg loses the sign",
       {{"(Neg (Get 0 (Fold (sum1) k (vec-of y))))", "(Get 0 (Fold (sum1) k (vec-of y)))"}}},
      {"F1-free forgets the extent", {{"(union (Get 0 f) (Mul x (Dim k)))", "(union (Get 0 f) x)"}}},
      {"a maximum moved through a factor below zero", {{"(not-negative i) ", ""}}},
      {"a mean that is linear without its factor", {{"(vec-of (Mul x i))", "(vec-of x)"}}},
      {"the family of r with slope 2", {{"(vec-of g (Const 1.0))", "(vec-of g (Const 2.0))"}}},
      {"a sum of families with different characters",
       {{"(= q (fam b r g h m)))\n      ((set (fam x r g h (max n m)) (vector-sum",
         "(= q (fam b r g j m)))\n      ((set (fam x r g h (max n m)) (vector-sum"}}},
      {"an exponential with its character turned around",
       {{"(fam x r g (exponential c) 1)", "(fam x r g (character-inverse (exponential c)) 1)"}}},
      {"a reciprocal that keeps the character",
       {{"(fam x r g j 1) (vec-of (Recip", "(fam x r g h 1) (vec-of (Recip"}}},
      {"a root that keeps the character", {{"(character-root h)", "(character-product h (power 0.0))"}}},
      {"a maximum of families with different characters",
       {{"(= q (fam b r g h 1)) (regular h (info g))", "(= q (fam b r g j 1)) (regular h (info g))"}}},
      {"[y == r] for any y", {{"(Select (Eq g r) v z)", "(Select (Eq y r) v z)"}}},
      {"an indicator negated as if its other value were 0",
       {{"(keeps-0 h))\n      ((set (fam x r g h n) (vector-neg p)))",
         ")\n      ((set (fam x r g h n) (vector-neg p)))"}}},
      {"bodies in the wrong order", {{"(vec-append gs (vec-reverse qs))", "(vec-append gs qs)"}}},
      {"a projection of the wrong component",
       {{"(Get (last P) (Fold P k (component-bodies", "(Get 0 (Fold P k (component-bodies"}}},
      {"a view with a fill that sinks", {{"(@ (View w a)) :when ((total w))", "(@ (View w a))"}}},
      {"a view of another axis dropped", {{":when ((= i (info x)) (off w i))", ":when ((total w))"}}},
      {"a fold of a fold with another monoid",
       {{"(= x (Get i B)) (= B (Fold M l ys)) (apart k l))\n      ((whole B (all-gets M B)))",
         "(= x (Get i B)) (= B (Fold N l ys)) (apart k l))\n      ((whole B (all-gets N B)))"},
        {"(whole B xs) (= B (Fold M l ys))", "(whole B xs) (= B (Fold N l ys))"}}},
      {"sums that share an axis exchanged", {{"(free (info c) l) (fac k y a b))", "(fac k y a b))"}}},
      {"a distribution that loses a term",
       {{"(Add (Get 0 (Fold (sum1) k (vec-of a))) (Get 0 (Fold (sum1) k (vec-of b))))",
         "(Get 0 (Fold (sum1) k (vec-of a)))"}}},
      {"a parameter distributed over one term", {{"(Add (Mul b a) (Mul b c))", "(Add (Mul b a) c)"}}},
      {"a parameter moved into a fold over its axis",
       {{"(Single f \"sum\" k x) (free ic k) ", "(Single f \"sum\" k x) "}}},
      {"a list in order that forgets the first", {{"(= P (below N))", "(= P (shift N \"max\" 0.0))"}}},
      {"an element picked without its factor", {{"((at k x y (Mul a q)))", "((at k x y q))"}}},
      {"a prefix from the other triangle",
       {{"(Select (Lt i j) (Const 0.0) q)) (= i (Iota t))",
         "(Select (Lt j i) (Const 0.0) q)) (= i (Iota t))"}}},
      {"a mask that varies enters a sum", {{"(free (info m) l))\n      ((union x", ")\n      ((union x"}}},
      {"a split without the outer fold",
       {{"(union A (Fold M (outer k) (all-gets M (Fold M (inner k) (vector-view w xs)))))",
         "(union A (Fold M (inner k) (vector-view w xs)))"}}},
      {"x * 0 = x", {{"(rewrite (Mul a (Const 0.0)) (Const 0.0)", "(rewrite (Mul a (Const 0.0)) a"}}},
      {"a repeated component projected from the wrong place",
       {{"(Get (place i j h) (Fold P k (vec-remove xs j))))) :ruleset tuple :name \"dup\"",
         "(Get 0 (Fold P k (vec-remove xs j))))) :ruleset tuple :name \"dup\""}}},
      {"a proportional component without its number", {{"(Mul (Const c) (Get", "(Mul (Const 1.0) (Get"}}},
      {"an extremum shifted the wrong way", {{"(Single f o k x) (tropical o)", "(Single f o k x)"}}},
  };
  return all;
}

/// Tuples that only joined passes make: proportional, repeated and constantly neutral components.
std::vector<Term> tuples(Builder b) {
  Theory& t = b.theory;
  const Term x = b.in("x", "t k");
  const Monoid sum = t.algebra().single(Op::sum);
  const Monoid mean = t.algebra().cascade(sum, 0, Op::sum, {0, -1, {}}, 1);
  const Monoid squares = t.algebra().cascade(mean, 1, Op::sum, {}, 3); // the bodies of (r - g)^2 are 1, 0, 0
  Monoid both = squares;
  both = *t.algebra().dropped(both, 2, 0);
  both = *t.algebra().dropped(both, 2, std::nullopt);
  both = t.algebra().cascade(both, 1, Op::sum, {}, 3);
  both = *t.algebra().dropped(both, 3, 0, 2);
  both = *t.algebra().dropped(both, 3, std::nullopt);
  const Value one = t.constant(1), zero = t.constant(0);
  std::vector<Term> out;
  for (int64_t i = 0; i < 4; ++i) out.push_back({&t, t.get(i, both, {one, x.value, zero, zero}, "k")});
  for (int64_t i = 0; i < 5; ++i)
    out.push_back({&t, t.get(i, squares, {one, x.value, one, zero, zero}, "k")});
  return out;
}

/// Small programs in which a wrong rule has something to do.
std::vector<Term> food(Builder b) {
  const Term x = b.in("x", "t k"), y = b.in("y", "t k"), c = b.in("c", "t"), w = b.in("w", "k l"),
             u = b.in("u", "t l");
  const Term top = x.max("k"), e = (x - top).exp(), one = x.number(1), zero = x.number(0),
             far = x.number(infinity);
  const Term size = x.abs() + 1.0, d = x - x.mean("k"), low = x.min("k");
  const Term z = b.in("z", "k"), inner = (w * u).sum("l"), p = b.par("p", "k");
  const Term index = b.in("index", "t k"), k = b.iota("k");
  std::vector<Term> out = tuples(b);
  const std::vector<Term> rest{
      x.equals(x) + one.where(x, y) + zero.where(x, y) + x.where(y, y),
      x.abs().log().op("Tanh").max2(y).op("Min2", -x).exp().root().recip().rename("k", "l"),
      k.equals(index).where(k.less(x), x * y + y).rename("k", "l"),
      y.equals(top).where(b.iota("k"), far).min("k"),
      (c.exp() + (-x)).sum("k"),
      (-x).sum("k"),
      c.sum("k"),
      e.sum("k"),
      (top - x).exp().recip().sum("k"),
      e.recip().sum("k"),
      ((-c) * x).max("k"),
      y * 0.0,
      x.less(one).where(x / (y.abs() + 1.0).max("k"), zero).sum("k"),
      x.sum("k") / b.dim("t"),
      (c * (x - x.sum("k") * 0.01)).sum("k"),
      (e + x).sum("k"),
      (e + (x - top)).sum("k"),
      (-(x.equals(top).where(y, far))).min("k"),
      x.less(one).where(x.equals(top).where(y, far), zero).min("k"),
      x.exp().view({"k", {{"j", 1}}, -2, 1, 0.0}),
      x.rename("k", "l") * c.rename("t", "u"),
      top.sum("t"),
      size.max("k").max("t"),
      b.iota("k").equals(b.in("m", "t k")).where(x, zero).sum("k"),
      (b.iota("k").equals(b.in("n", "t")).where(x, zero) * y).sum("k"),
      b.iota("t").less(b.iota("k")).where(zero, z).sum("k"),
      b.iota("k").less(b.iota("t")).where(zero, z).sum("k"),
      (b.iota("t").less(b.iota("k")).where(zero, z) * x).sum("k"),
      (b.in("g", "t l").less(one).where(zero, inner) * y).sum("k"),
      (size / size.max("k")).root().sum("k"),
      e.max2(y * 0.5).sum("k"),
      e.max2(y * e).sum("k"),
      (y * e).abs().sum("k"),
      (x - top).max2(y - top).sum("k"),
      (y - top).max("k"),
      (x - top).sum("k"),
      (x - low).exp().sum("k"),
      (d * d).sum("k"),
      x.less(top).where(x, b.number(-infinity)).max("k"),
      (e * (y * w).sum("l")).sum("k"),
      (e * (inner * c)).sum("k"),
      (e * inner).sum("k"),
      ((e * w) * inner).sum("k"),
      p * (p * y).sum("k"),
      p * (x + b.par("r", "k")),
  };
  out.insert(out.end(), rest.begin(), rest.end());
  return out;
}

const Case& food_case() {
  static const Case all{"food", food,      {{"t", 2}, {"k", 4}, {"j", 3}, {"l", 2}, {"u", 2}}, "k", 2, 2,
                        0,      {{"k", 2}}};
  return all;
}

/// The largest difference that some program shows, and which one.
std::pair<double, std::string> difference(const Changes& changes) {
  const auto run = [&](const Case& c, NumericClass numeric) {
    Theory t(changes, numeric);
    build(c, t);
    t.saturate();
    return sweep(t).worst;
  };
  double worst = run(food_case(), NumericClass::range);
  if (worst > 1e-9) return {worst, "food"};
  for (const char* name : {"cross entropy gradient", "conv+bn+relu", "softmax", "attention decode",
                           "variance", "layernorm+matmul", "argmax", "softmax entropy", "SwiGLU", "kurtosis"})
    if (worst = run(case_named(name), NumericClass::range); worst > 1e-9) return {worst, name};
  return {worst, ""};
}

} // namespace

TEST(FoldsMistakes, TheTheoryItselfShowsNoDifference) {
  const auto [worst, where] = difference({});
  EXPECT_EQ(where, "");
  Theory t({}, NumericClass::approximate);
  build(food_case(), t);
  t.saturate();
  EXPECT_LT(sweep(t).worst, 1e-9);
}

TEST(FoldsMistakes, EveryRuleFires) {
  // A rule is tested only where it fires.
  std::map<std::string, uint64_t> fired;
  std::vector<Case> all{food_case()};
  for (const auto* some : {&cases(), &fused(), &refused()}) all.insert(all.end(), some->begin(), some->end());
  for (const Case& c : all) {
    Theory t({}, NumericClass::approximate);
    build(c, t);
    t.saturate();
    const EGraph& graph = t.program().graph();
    for (RuleId rule = 0; rule < graph.rule_count(); ++rule)
      if (!graph.rule(rule).name.starts_with('('))
        fired[graph.rule(rule).name] += graph.rule_stats(rule).matches;
  }
  EXPECT_GE(fired.size(), 100u);
  for (const auto& [name, times] : fired) EXPECT_GT(times, 0u) << name;
}

TEST(FoldsMistakes, AreSeenByTheSweep) {
  for (const Mistake& m : mistakes()) {
    const auto [worst, where] = difference(m.changes);
    EXPECT_NE(where, "") << m.what;
    fmt::print("{:<55} {} {:.1e}\n", m.what, where, worst);
  }
}

TEST(FoldsMistakes, NumericGuardsAreNoMistakesOverTheReals) {
  // Corrections that overflow, centres that cancel: the same real numbers, so the neighbours have
  // to catch a guard that is gone.
  const std::pair<const char*, const char*> guards[] = {
      {" (contracting N h i)\n", "exp(x + max x): the correction grows"},
      {"(regular h i) (center", "x / max |x|: the divisor may be 0, without rules that move ranges"},
      {"(center N n) ", "(x - sum x)^2: the centre is no location"}};
  for (const auto& [guard, neighbour] : guards) {
    const std::string text = guard, left = text.ends_with("center") ? "(center"
                                           : text.ends_with("\n")   ? "\n"
                                                                    : "";
    EXPECT_EQ(difference({{guard, left}}).second, "") << guard;
    for (const Case& c : refused()) {
      if (c.name != neighbour) continue;
      Theory t({{guard, left}}, c.numeric);
      const auto roots = build(c, t);
      t.saturate();
      EXPECT_LT(t.passes(roots[0], c.axis), c.found) << guard;
    }
  }
}
