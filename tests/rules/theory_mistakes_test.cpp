// rules/theory_mistakes_test.cpp -- wrong rules: the comparison of all terms of each class has to see them.
#include "rules/check_rules.h"
#include <gtest/gtest.h>

namespace luminal {
namespace {

struct Mistake {
  const char* what;
  std::vector<std::pair<std::string, std::string>>
      changes; ///< texts of the rules and what stands there instead
};

const std::vector<Mistake>& mistakes() {
  static const std::vector<Mistake> all{
      {"F1 pulls out what varies with the axis",
       {{"(= i (info a)) (free i k) (scales i) (bound (info b) k))\n", "(bound (info b) k))\n"}}},
      {"F1-neg loses the sign", {{"(Neg (Get 0 (Fold m k (vec-of y))))", "(Get 0 (Fold m k (vec-of y)))"}}},
      {"F1-free forgets the extent",
       {{"(union (Get 0 f) (Mul x (Extent k (dtype i))))", "(union (Get 0 f) x)"}}},
      {"a maximum moved through a factor below zero", {{"(not-negative i) (bound", "(bound"}}},
      {"a mean that is linear without its factor", {{"(vec-of (Mul x i))", "(vec-of x)"}}},
      {"the family of r with slope 2", {{"(= o (like (info r) 1.0))", "(= o (like (info r) 2.0))"}}},
      {"a sum of families with different characters",
       {{"(= q (fam b r g h m)))\n      ((set (fam x r g h (max n m)) (vector-sum",
         "(= q (fam b r g j m)))\n      ((set (fam x r g h (max n m)) (vector-sum"}}},
      {"an exponential with its character turned around",
       {{"(fam x r g (exponential c) 1)", "(fam x r g (character-inverse (exponential c)) 1)"},
        {"(gone x g (edge N h)) (center", "(center"}}},
      {"a power of two with the character of another base",
       {{"(fam x r g (exponential2 c) 1)", "(fam x r g (exponential c) 1)"}}},
      {"a reciprocal that keeps the character",
       {{"(fam x r g j 1) (vec-of (Recip", "(fam x r g h 1) (vec-of (Recip"},
        {"(gone x g (edge N h)) (center", "(center"}}},
      {"a root that keeps the character", {{"(character-root h)", "(character-product h (power 0.0))"}}},
      {"a maximum of families with different characters",
       {{"(= q (fam b r g h 1)) (regular h (info g))", "(= q (fam b r g j 1)) (regular h (info g))"},
        {"(gone x g (edge N h)) (center", "(center"}}},
      {"[y == r] for any y", {{"(Select (Eq g r) v z)", "(Select (Eq y r) v z)"}}},
      {"an indicator negated as if its other value were 0",
       {{"(keeps-0 h))\n      ((set (fam x r g h n) (vector-neg p)))",
         ")\n      ((set (fam x r g h n) (vector-neg p)))"}}},
      {"bodies in the wrong order", {{"(vec-append gs (vec-reverse qs))", "(vec-append gs qs)"}}},
      {"a projection of the wrong component",
       {{"(Get (last P) (Fold P k (component-bodies", "(Get 0 (Fold P k (component-bodies"}}},
      {"a view of another axis dropped", {{"(off w (info x))", "(total w)"}}},
      {"a fold of a fold with another monoid",
       {{"(= x (Get i B)) (= B (Fold M l ys)) (apart k l))\n      ((whole B (all-gets M B)))",
         "(= x (Get i B)) (= B (Fold N l ys)) (apart k l))\n      ((whole B (all-gets N B)))"},
        {"(whole B xs) (= B (Fold M l ys))", "(whole B xs) (= B (Fold N l ys))"}}},
      {"sums that share an axis exchanged",
       {{"(= ic (info c)) (free ic l)\n       (some k) (fac k y a b) (exchange",
         "(= ic (info c))\n       (some k) (fac k y a b) (exchange"}}},
      {"a distribution that loses a term",
       {{"(Add (Get 0 (Fold m k (vec-of a))) (Get 0 (Fold m k (vec-of b))))",
         "(Get 0 (Fold m k (vec-of a)))"}}},
      {"a parameter distributed over one term", {{"(Add (Mul b a) (Mul b c))", "(Add (Mul b a) c)"}}},
      {"a parameter moved into a fold over its axis",
       {{"(Single f \"sum\" k x m) (free ic k) ", "(Single f \"sum\" k x m) "}}},
      {"an element picked without its factor", {{"((at k x y (Mul a q)))", "((at k x y q))"}}},
      {"a mask that varies enters a sum", {{"(free (info c) l))\n      ((union x", ")\n      ((union x"}}},
      {"a difference that forgets what it subtracts", {{"(vector-sum ix p q)", "(vector-sum ix p p)"}}},
      {"a repeated component projected from the wrong place",
       {{"(Get (place i j h) (Fold P k (vec-remove xs j))))) :ruleset tuple :name \"dup\"",
         "(Get 0 (Fold P k (vec-remove xs j))))) :ruleset tuple :name \"dup\""}}},
      {"a proportional component without its number",
       {{"(= n (like (info a) c))", "(= n (like (info a) 1.0))"}}},
      {"a list in order that begins with the element itself",
       {{"(= P (next-largest N)))\n      ((union (Get 0 f) (Get (last P) (Fold P k (vec-push gs z)))))",
         "(= P (next-largest N)))\n      ((union (Get 0 f) (Get (last P) (Fold P k (vec-push gs g)))))"}}},
      {"a mean over other axes", {{"(extent-is i k) (more-than-one k)", "(more-than-one k)"}}},
      // of types, casts, domains, holes and positions
      {"a conversion forgotten",
       {{"((union v (Cast t (View w (vec-set xs 0 a)))))", "((union v (View w (vec-set xs 0 a))))"}}},
      {"a condition negated in part",
       {{"(= m (negated n)))\n      ((union x (Select (Index m) a z)))",
         "(= m (negated n)))\n      ((union x (Select (Index n) a z)))"}}},
      {"a mask multiplied that is a number", {{"(= i (info c)) (boolean i)", "(= i (info c))"}}},
      {"a hole dropped from a view", {{"(vec-of (View w (vec-set xs 0 x)))", "(vec-of x)"}}},
      {"a gather moved into a fold over the axis of its labels", {{"(holes-free is l)", "(has-holes w)"}}},
      {"a gather moved into a fold over the axis that it reads",
       {{"(place-apart w l) (list xs)", "(list xs)"}}},
      {"constants added where they are multiplied", {{"(= s (product-of m n))", "(= s (sum-of m n))"}}},
      {"views composed in the wrong order", {{"(= p (composed w u))", "(= p (composed u w))"}}},
      {"an operation of integers that keeps its operands", {{"(Op p (vector-view w xs as))", "(Op p as)"}}},
      {"a label compared with another axis",
       {{"(is-index (info a) k) (free (info y) k))\n      ((at k x y q)) :ruleset factor :name \"at-eq\")",
         "(free (info y) k))\n      ((at k x y q)) :ruleset factor :name \"at-eq\")"}}},
      {"the label of a sum that varies with its axis",
       {{"(is-index (info a) k) (free (info y) k)", "(is-index (info a) k)"}}},
      {"a maximum of nothing is not -inf",
       {{"(some k) (free (info x) k)) ((union (Get 0 f) x))",
         "(free (info x) k)) ((union (Get 0 f) (Add x x)))"}}},
  };
  return all;
}

/// Those that only infinities show.
const std::vector<Mistake>& mistakes_with_infinities() {
  static const std::vector<Mistake> all{
      {"a factor leaves a mask that may hide it whole",
       {{"(fac k y a b) (finite (info a)))", "(fac k y a b))"}}},
      {"a factor leaves a condition that may hold nowhere",
       {{"(= c (Index n)) (holds-for-some n k)\n       (bound (info c) k))", "(bound (info c) k))"}}},
      {"a statistic leaves a mask that may hide it whole",
       {{"(fac k x (Select (Lt z (Get 0 (Fold m k (vec-of (Select c (Const q) z))))) a z) (Select c b z))",
         "(fac k x a (Select c b z))"}}},
  };
  return all;
}

/// A factor that leaves a sum may be 1 / 0 where another mask hides the sum.
const Mistake hidden_quotient{"a factor leaves a mask that hides the whole sum",
                              {{"(bound (info c) k) (deep (info a) k)", "(deep (info a) k)"}}};

/// The first case that shows a difference.
std::string seen_by(const Mistake& mistake, rules::Comparison comparison = rules::Comparison::values) {
  rules::RegionTerms terms({.replaced = mistake.changes});
  const auto fails = [&](const rules::RuleCase& test) {
    try {
      return rules::check_rules(terms, test, comparison).wrong.has_value();
    } catch (const std::exception&) { // terms that cannot be: types that differ, axes that are not there
      return true;
    }
  };
  for (const rules::RuleCase& test : rules::fixed_rule_cases())
    if (fails(test)) return test.name;
  for (uint64_t seed = 0; seed < 600; ++seed)
    if (const rules::RuleCase test = rules::random_rule_case(seed); fails(test)) return test.name;
  return "";
}

/// In four parts, which run beside each other.
class TheoryMistakes : public testing::TestWithParam<size_t> {};
TEST_P(TheoryMistakes, AreSeen) {
  EXPECT_GE(mistakes().size(), 41u);
  for (size_t k = GetParam(); k < mistakes().size(); k += 4)
    EXPECT_NE(seen_by(mistakes()[k]), "") << mistakes()[k].what;
}
TEST(TheoryMistakesOfMasks, AreSeen) {
  for (const Mistake& m : mistakes_with_infinities())
    EXPECT_NE(seen_by(m, rules::Comparison::infinities), "") << m.what;
}
TEST(TheoryMistakesOfMasks, QuotientsThatAreHidden) { EXPECT_NE(seen_by(hidden_quotient), ""); }
INSTANTIATE_TEST_SUITE_P(Parts, TheoryMistakes, testing::Range<size_t>(0, 4));

} // namespace
} // namespace luminal
