// rules/rule_book_test.cpp -- what is said of each rule, the linter, the automatic test of a user's rules:
// planted mistakes are found, right rules pass.
#include "rules/lint_rules.h"
#include "rules/region_terms.h"
#include "rules/rule_instances.h"
#include "rules/test_rules.h"
#include <gmock/gmock.h>

namespace luminal {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

rules::TheoryOptions theory(const std::string& more = "") {
  rules::TheoryOptions out{.numeric = egraph::NumericClass::approximate};
  if (!more.empty()) out.more = {{"mine.egg", more}};
  return out;
}

std::string refusal(const std::string& text) {
  try {
    rules::check_rule_files({{"mine.egg", text}});
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Findings about the rules of a text.
std::string lint(const std::string& text) {
  rules::RegionTerms terms(theory(text));
  const size_t built_in = rules::RegionTerms(theory()).graph().rule_count();
  std::string out;
  for (const rules::LintFinding& f : rules::lint_rules(terms, egraph::RuleId(built_in)))
    out += f.rule + ": " + f.text + "\n";
  return out;
}

rules::RuleTestReport test(const std::string& text, uint64_t random = 20) {
  return rules::test_rules({.theory = theory(text), .random = random, .instances = 24});
}

TEST(RuleBook, EveryRuleHasItsPlaceAndGuards) {
  rules::RegionTerms terms(theory());
  const std::vector<rules::RuleEntry> entries = rules::rule_entries(terms);
  ASSERT_EQ(entries.size(), terms.graph().rule_count());
  for (const rules::RuleEntry& e : entries) {
    EXPECT_FALSE(e.phase.empty()) << e.name;
    EXPECT_GT(e.line, 0u) << e.name;
    EXPECT_THAT(e.text, HasSubstr(e.named ? ":name \"" + e.name + "\"" : "rule")) << e.name;
  }
  const auto found = std::ranges::find(entries, "F1-max", &rules::RuleEntry::name);
  ASSERT_NE(found, entries.end());
  EXPECT_EQ(found->file, "folds.egg");
  EXPECT_EQ(rules::to_string(found->numeric), "range");
  EXPECT_EQ(found->phase, "factor");
  EXPECT_EQ(found->guards, (std::vector<std::string>{"(some k)", "(free (info a) k)", "(bound (info b) k)"}));
  EXPECT_TRUE(found->joins);
}

/// The table tells users which guards there are, and the linter how long they hold.
TEST(RuleBook, EveryGuardOfARuleIsInTheTable) {
  rules::RegionTerms terms(theory());
  const egraph::EGraph& graph = terms.graph();
  for (egraph::RuleId id = 0; id < graph.rule_count(); ++id)
    for (const egraph::PrimAtom& p : graph.rule(id).query.prims) {
      const egraph::PrimitiveSpec& prim = graph.primitive(p.prim);
      if (prim.out != egraph::EGraph::unit_sort || prim.name == "!=") continue;
      EXPECT_NE(std::ranges::find(rules::guard_table(), prim.name, &rules::GuardInfo::name),
                rules::guard_table().end())
          << prim.name;
    }
}

TEST(RuleBook, FilesOfRulesAreRefusedWithThePlace) {
  const std::string good = "(rewrite (Tanh (Neg a)) (Neg (Tanh a)) :ruleset scalar :name \"odd\" :exact)";
  EXPECT_EQ(refusal(good), "");
  EXPECT_THAT(refusal("(run 3)"),
              HasSubstr("mine.egg:1:1: a file of rules holds rule, rewrite, birewrite, relation, "
                        "function and foreach; run is something else"));
  EXPECT_THAT(refusal("(rewrite (Neg a) a :ruleset scalar :exact)"),
              HasSubstr("a rule needs a name, as in :name \"my rule\""));
  EXPECT_THAT(refusal(good + "\n" + good), HasSubstr("mine.egg:2:62: there is a rule 'odd' already"));
  EXPECT_THAT(refusal("(rewrite (Neg a) a :ruleset scalar :exact :name \"neg-neg\")"),
              HasSubstr("there is a rule 'neg-neg' already"));
  EXPECT_THAT(
      refusal("(rewrite (Neg a) a :exact :name \"x\")"),
      HasSubstr("a rule needs a phase, as in :ruleset scalar; there are facts, scalar, factor, exchange, "
                "family, cascade, tuple, clean"));
  EXPECT_THAT(
      refusal("(rewrite (Neg a) a :ruleset scalar :name \"x\")"),
      HasSubstr("a rule that joins classes needs a numeric class: :exact, :reassoc, :range or :approx"));
  EXPECT_THAT(refusal("(rewrite (Nag a) a :ruleset scalar :exact :name \"x\")"),
              HasSubstr("mine.egg:1:11: "));
  EXPECT_THAT(refusal("(rewrite (Neg a"), HasSubstr("mine.egg:1:"));
}

TEST(RuleBook, NoRuleOfThatName) {
  EXPECT_EQ(rules::no_rule("neg-nag", {"neg-neg", "F1"}),
            "there is no rule 'neg-nag', did you mean 'neg-neg'?");
  EXPECT_EQ(rules::no_rule("zzzzzz", {"F1"}), "there is no rule 'zzzzzz'; luminal rules list names all");
  auto options = theory();
  options.without = {"neg-nag"};
  EXPECT_THROW(rules::RegionTerms{options}, Error);
  options.without = {"F2-approx"}; // of a class that is left out, but it is there
  options.numeric = egraph::NumericClass::exact;
  rules::RegionTerms{options};
}

TEST(RuleLint, RulesThatAreBuiltInHaveNoFindings) {
  rules::RegionTerms terms(theory());
  for (const rules::LintFinding& f : rules::lint_rules(terms))
    ADD_FAILURE() << f.file << ":" << f.line << " " << f.rule << ": " << f.text;
}

TEST(RuleLint, FieldsThatAreMatchedAndIgnored) {
  EXPECT_THAT(
      lint(
          "(rule ((= v (View w xs)) (= x (vec-get xs 0))) ((union v x)) :ruleset scalar :name \"a\" :exact)"),
      HasSubstr("a: matches w, a Place of View, and ignores it: terms that differ there become equal; ask or "
                "use it, or write _ where any will do"));
  EXPECT_THAT(lint("(rewrite (Add a (Const n)) a :ruleset scalar :name \"a\" :exact)"),
              HasSubstr("matches n, a Number of Const, and ignores it"));
  EXPECT_THAT(
      lint("(rule ((= e (Cast t x)) (= i (info x)) (floating i)) ((union e (Abs x))) :ruleset scalar :name "
           "\"a\" :exact)"),
      HasSubstr("matches t, a DType of Cast"));
  EXPECT_EQ(lint("(rewrite (Add a (Const n)) (Add (Const n) a) :ruleset scalar :name \"a\" :exact)"), "");
  EXPECT_EQ(
      lint("(rewrite (Select (Lt a c) c a) (Max a c) :when ((= c (Const n))) :ruleset scalar :name \"a\" "
           ":exact)"),
      "")
      << "the constant is kept whole";
}

TEST(RuleLint, GuardsThatFurtherUnionsMakeFalse) {
  EXPECT_THAT(
      lint(
          "(rule ((= x (Add a b)) (!= a b)) ((union x (Sub a (Neg b)))) :ruleset scalar :name \"a\" :exact)"),
      HasSubstr(
          "a: asks (!= a b), which a further union can make false; guards of the table ask what stays"));
  EXPECT_THAT(
      lint("(rule ((= x (Add a b)) (= i (info a)) (= j (info b)) (!= i j)) ((union x (Sub a (Neg b)))) "
           ":ruleset scalar :name \"a\" :exact)"),
      HasSubstr("asks (!= i j)"));
  EXPECT_THAT(
      lint("(function depth (V) i64 :merge (max old new))\n"
           "(rule ((= x (Add a b)) (= 2 (depth a))) ((union x (Sub a (Neg b)))) :ruleset scalar :name \"a\" "
           ":exact)"),
      HasSubstr("asks for one value of depth, which a further union can change"));
  EXPECT_EQ(
      lint(
          "(rule ((= x (Mul a b)) (not-negative (info a))) ((union x (Mul b a))) :ruleset scalar :name \"a\" "
          ":exact)"),
      "");
}

TEST(RuleLint, TermsThatContainThemselves) {
  EXPECT_THAT(
      lint("(rewrite (Add a b) (Mul (Add a b) c) :when ((= c (Const n)) (is n 1.0)) :ruleset scalar :name "
           "\"a\" :exact)"),
      HasSubstr("a: makes a Mul around a class and joins it to that class, which then contains itself"));
  EXPECT_THAT(
      lint("(rule ((= x (Op p xs)) (is-op p \"bit_not\") (= a (vec-only xs))) ((union x a)) :ruleset scalar "
           ":name \"a\" :exact)"),
      HasSubstr("joins a Op to its own operand, so the class contains itself: subsume the term as well"));
  EXPECT_EQ(lint("(rule ((= x (Op p xs)) (is-op p \"bit_not\") (= a (vec-only xs))) ((union x a) (subsume "
                 "(Op p xs))) "
                 ":ruleset scalar :name \"a\" :exact)"),
            "");
}

TEST(RuleTest, RightRulesPass) {
  const auto report =
      test("(rewrite (Tanh (Neg a)) (Neg (Tanh a)) :ruleset scalar :name \"odd\" :exact)\n"
           "(rewrite (Exp (Add a b)) (Mul (Exp a) (Exp b)) :ruleset scalar :name \"exp-add\" :range "
           ":budget 20)\n");
  EXPECT_TRUE(report.good()) << report.wrong << report.program;
  ASSERT_THAT(report.rules, SizeIs(2));
  EXPECT_GT(report.rules[0].matches, 0u);
  EXPECT_GT(report.terms, 500u);
}

TEST(RuleTest, WrongRulesAreRefuted) {
  for (const char* wrong : {
           "(rewrite (Tanh (Neg a)) (Tanh a) :ruleset scalar :name \"x\" :exact)",
           "(rewrite (Erf a) (Tanh a) :ruleset scalar :name \"x\" :range)",
           "(rewrite (Recip (Recip a)) a :ruleset scalar :name \"x\" :exact)", // over the reals it is right
           "(rewrite (Sub (Add a b) b) a :ruleset scalar :name \"x\" :exact)",
           "(rewrite (Mul a (Const n)) (Const n) :when ((is n 0.0)) :ruleset scalar :name \"x\" :exact)",
           "(rule ((Single f \"max\" k x m) (= x (Mul a b)) (free (info a) k)) ((union (Get 0 f) (Mul a (Get "
           "0 (Fold "
           "m k (vec-of b)))))) :ruleset factor :name \"x\" :range)",
           "(rule ((= v (View w xs)) (= x (vec-get xs 0)) (total w)) ((union v x)) :ruleset scalar :name "
           "\"x\" :exact)",
           "(rewrite (Select c a b) (Select c b a) :ruleset scalar :name \"x\" :exact)",
           "(rewrite (Cast t (Cast s a)) (Cast t a) :ruleset scalar :name \"x\" :exact)",
       }) {
    const auto report = test(wrong);
    EXPECT_NE(report.wrong, "") << wrong;
    EXPECT_THAT(report.program, HasSubstr("fn @main(")) << wrong;
  }
}

TEST(RuleTest, RulesThatNoProgramSatisfies) {
  const auto report =
      test("(rewrite (Add a (Const n)) a :when ((is n 0.0) (is n 1.0)) :ruleset scalar :name \"never\" "
           ":exact)");
  EXPECT_EQ(report.wrong, "");
  EXPECT_EQ(report.unmet, (std::vector<std::string>{"never"}));
  EXPECT_FALSE(report.good());
}

TEST(RuleTest, GuardsAreTakenOut) {
  const std::string text = "(rule ((= x (Mul a b)) (bound (info a) k)) ((union x (Mul b a))))\n";
  EXPECT_EQ(rules::without_guards(text, "mine.egg", {"bound"}),
            "(rule ((= x (Mul a b))) ((union x (Mul b a))))\n");
}

TEST(RuleExample, ShowsTermsBeforeAndAfter) {
  rules::RegionTerms terms(theory());
  const auto entries = rules::rule_entries(terms);
  const auto example = [&](const char* name) {
    return rules::rule_example(*std::ranges::find(entries, name, &rules::RuleEntry::name), theory());
  };
  const auto neg = example("neg-sub");
  ASSERT_TRUE(neg);
  EXPECT_THAT(neg->before, HasSubstr("neg"));
  EXPECT_THAT(neg->after, testing::Not(HasSubstr("neg")));
  for (const char* name : {"F1", "F2", "exchange", "pick", "view-view", "select-not", "component"}) {
    const auto shown = example(name);
    ASSERT_TRUE(shown) << name;
    EXPECT_NE(shown->before, shown->after) << name;
  }
}

} // namespace
} // namespace luminal
