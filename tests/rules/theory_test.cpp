// rules/theory_test.cpp -- all rules on random programs: every term of every class has the values of the
// others, every rule is met, wrong rules are found.
#include "rules/check_rules.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace luminal {
namespace {

using rules::RegionTerms;
using rules::RuleCase;

/// What is wrong with a case, made small.
std::string shown(RegionTerms& terms, const RuleCase& failing) {
  const RuleCase small = rules::shrink_rule_case(terms, failing);
  return fmt::format("{}: {}\nof\n{}", failing.name, *rules::check_rules(terms, small).wrong,
                     to_string(small.module));
}

/// Terms compared in random cases first .. first + count - 1.
size_t check_random(RegionTerms& terms, uint64_t first, uint64_t count,
                    std::map<std::string, uint64_t>* matches = nullptr) {
  size_t compared = 0;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const RuleCase test = rules::random_rule_case(seed);
    const rules::RuleCheck check = rules::check_rules(terms, test);
    if (check.wrong) {
      ADD_FAILURE() << shown(terms, test);
      return compared;
    }
    compared += check.terms;
    if (matches)
      for (const auto& [name, n] : check.matches) (*matches)[name] += n;
  }
  return compared;
}

TEST(Theory, EveryTermIsRightAndEveryRuleIsMet) {
  RegionTerms terms;
  std::map<std::string, uint64_t> matches;
  for (const RuleCase& test : rules::fixed_rule_cases()) {
    const rules::RuleCheck check = rules::check_rules(terms, test);
    if (check.wrong) ADD_FAILURE() << shown(terms, test);
    EXPECT_GT(check.terms, 0u) << test.name;
    for (const auto& [name, n] : check.matches) matches[name] += n;
  }
  EXPECT_GT(check_random(terms, 0, 500, &matches), 20'000u);
  for (egraph::RuleId id = 0; id < terms.graph().rule_count(); ++id) {
    const std::string& name = terms.graph().rule(id).name;
    if (name.starts_with("(")) continue; // of facts
    EXPECT_GT(matches[name], 0u) << name << " is met by no instance";
  }
}

TEST(Theory, ExactRulesKeepEveryBit) {
  RegionTerms terms({.numeric = egraph::NumericClass::exact});
  EXPECT_GT(check_random(terms, 0, 400), 5'000u);
}

size_t check_special(RegionTerms& terms, rules::Comparison comparison) {
  size_t compared = 0;
  const auto check = [&](const RuleCase& test) {
    const rules::RuleCheck found = rules::check_rules(terms, test, comparison);
    compared += found.terms;
    if (found.wrong) ADD_FAILURE() << test.name << ": " << *found.wrong << "\n" << to_string(test.module);
  };
  for (const RuleCase& test : rules::fixed_rule_cases()) check(test);
  for (uint64_t seed = 0; seed < 100; ++seed) check(rules::random_rule_case(seed));
  return compared;
}

/// Where an input is NaN, so is all that depends on it, and nothing else.
TEST(Theory, WhatIsNoNumberStaysSo) {
  rules::TheoryOptions options;
  for (const std::string_view name : rules::rules_that_hide()) options.without.emplace_back(name);
  RegionTerms terms(options);
  EXPECT_GT(check_special(terms, rules::Comparison::not_numbers), 3'000u);
}

TEST(Theory, WhatAMaskHidesStaysHidden) {
  RegionTerms terms;
  EXPECT_GT(check_special(terms, rules::Comparison::infinities), 3'000u);
}

TEST(Theory, ReassociationAloneIsRightToo) {
  RegionTerms terms({.numeric = egraph::NumericClass::reassociate});
  check_random(terms, 1'000, 100);
}

TEST(Theory, ApproximateRulesHoldOverTheReals) {
  RegionTerms terms({.numeric = egraph::NumericClass::approximate});
  check_random(terms, 2'000, 100);
}

} // namespace
} // namespace luminal
