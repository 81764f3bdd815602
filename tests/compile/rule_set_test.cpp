// compile/rule_set_test.cpp -- a user's rules take part in compilations once they have passed their test, and
// rules that are forbidden take none.
#include "base/file.h"
#include "compile/builder.h"
#include "compile/compile.h"
#include "compile/rule_set.h"
#include "luminal/error.h"
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gmock/gmock.h>

namespace luminal {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const char* const odd = "(rewrite (Tanh (Neg a)) (Neg (Tanh a)) :ruleset scalar :name \"odd\" :exact)\n";

/// A file in the test's own folder.
std::string file(const std::string& name, const std::string& text) {
  const std::string path = testing::TempDir() + "luminal rule set " + name;
  write_file(path, std::string_view(text)).value();
  return path;
}

const Module& module() {
  static const Module m = parse_module("fn @main(%x: f32[64, 64]) {\n"
                                       "  %a = neg %x\n"
                                       "  %b = tanh %a\n"
                                       "  %c = neg %b\n"
                                       "  %d = fold [i: 64, k: 64] over [k] { sum %c[i, k] }\n"
                                       "  %e = get %d, 0\n"
                                       "  return y = %e\n"
                                       "}\n",
                                       "text");
  return m;
}

std::vector<std::string> used(const RuleChoice& choice) {
  compile::KernelPlanner planner({.limits = search::MachineProfile::guess(1).limits()});
  compile::RuleOptions options;
  options.choice = choice;
  compile::PlanBuilder builder(module(), planner, {}, options);
  const auto plan = builder.build();
  EXPECT_TRUE(plan) << plan.error();
  std::vector<std::string> names;
  for (const compile::RegionReport& region : builder.regions())
    names.insert(names.end(), region.rules.begin(), region.rules.end());
  return names;
}

std::string refusal(const RuleChoice& choice) {
  compile::Options options = compile::Options::host(1);
  options.cache = false;
  options.rules.choice = choice;
  const auto made = compile::compile(module(), options);
  return made ? "" : made.error();
}

TEST(RuleSet, AUsersRulesTakePart) {
  EXPECT_THAT(used({}), Not(Contains("odd")));
  EXPECT_THAT(used({.files = {file("odd", odd)}}), Contains("odd"));
  EXPECT_THAT(used({.files = {file("odd", odd)}, .forbidden = {"odd"}}), Not(Contains("odd")));
}

TEST(RuleSet, ForbiddenRulesTakeNone) {
  const auto all = used({.files = {file("odd", odd)}});
  EXPECT_THAT(all, Contains("neg-neg"));
  EXPECT_THAT(used({.files = {file("odd", odd)}, .forbidden = {"neg-neg"}}), Not(Contains("neg-neg")));
}

TEST(RuleSet, WhatIsWrongIsRefused) {
  const std::string even =
      file("even", "(rewrite (Tanh (Neg a)) (Tanh a) :ruleset scalar :name \"even\" :exact)\n");
  for (int again = 0; again < 2; ++again) // the second time from memory
    EXPECT_THAT(refusal({.files = {even}}),
                testing::AllOf(HasSubstr("the rules of " + even + " are not used: "), HasSubstr("tanh"),
                               HasSubstr("fn @main(")));
  EXPECT_THAT(refusal({.files = {file("drops", "(rewrite (Add a (Const n)) a :ruleset scalar :name \"drops\" "
                                               ":exact)\n")}}),
              HasSubstr("drops: matches n, a Number of Const, and ignores it"));
  EXPECT_THAT(refusal({.files = {file("never", "(rewrite (Add a (Const n)) a :when ((is n 0.0) (is n 1.0)) "
                                               ":ruleset scalar :name \"never\" :exact)\n")}}),
              HasSubstr("no program satisfies never, so nothing is known of it"));
  EXPECT_THAT(refusal({.files = {file("run", "(run 3)\n")}}), HasSubstr("a file of rules holds rule, "));
  EXPECT_THAT(refusal({.files = {"/nowhere/mine.egg"}}), HasSubstr("/nowhere/mine.egg"));
  EXPECT_THAT(refusal({.forbidden = {"neg-nag"}}),
              HasSubstr("there is no rule 'neg-nag', did you mean 'neg-neg'?"));
  EXPECT_EQ(refusal({.forbidden = {"neg-neg"}}), "");
}

TEST(RuleSet, TheHashIsOfTextsAndForbiddenNames) {
  const auto hash = [](const RuleChoice& choice) { return compile::RuleSet::of(choice)->hash(); };
  EXPECT_EQ(hash({}), hash({}));
  EXPECT_EQ(hash({.files = {file("odd", odd)}}), hash({.files = {file("odd too", odd)}}));
  EXPECT_NE(hash({.files = {file("odd", odd)}}), hash({}));
  EXPECT_NE(hash({.forbidden = {"neg-neg"}}), hash({}));
  EXPECT_EQ(hash({.forbidden = {"neg-neg", "F1"}}), hash({.forbidden = {"F1", "neg-neg", "F1"}}));
  EXPECT_EQ(compile::RuleSet::of({}), compile::RuleSet::of({}));
  EXPECT_NE(hash({.max_error = 1e-3}), hash({}));
  EXPECT_NE(hash({.max_error = 1e-3}), hash({.max_error = 1e-4}));
}

TEST(RuleSet, ABoundOfErrorsAdmitsApproximateRules) {
  EXPECT_THAT(compile::RuleSet::of({})->approximate_rules(), testing::IsEmpty());
  EXPECT_THAT(compile::RuleSet::of({.max_error = 1e-3})->approximate_rules(),
              testing::AllOf(Contains("tiles-four"), Not(Contains("F1"))));
  EXPECT_THAT(compile::RuleSet::of({.forbidden = {"tiles-four"}, .max_error = 1e-3})->approximate_rules(),
              testing::AllOf(Contains("tiles-two"), Not(Contains("tiles-four"))));
  for (const double bound : {-1.0, 1.0, 2.5, std::nan("")})
    EXPECT_EQ(
        refusal({.max_error = bound}),
        fmt::format("max_error {}: a share of the greatest element of a result is expected, more than 0 and "
                    "less than 1",
                    bound));
  setenv("LUMINAL_MAX_ERROR", "1e-3", 1);
  EXPECT_EQ(compile::whole_choice({}).max_error, 1e-3);
  EXPECT_EQ(compile::whole_choice({.max_error = 1e-2}).max_error, 1e-3); // the stricter one
  EXPECT_EQ(compile::whole_choice({.max_error = 1e-4}).max_error, 1e-4);
  setenv("LUMINAL_MAX_ERROR", "much", 1);
  EXPECT_EQ(refusal({}), "LUMINAL_MAX_ERROR=much: a number is expected");
  unsetenv("LUMINAL_MAX_ERROR");
}

/// Schedules are kept for the rules with which they were found.
TEST(RuleSet, WhatTuningFindsBelongsToAKernelWhateverTheRules) {
  const auto key = [](const RuleChoice& choice) {
    compile::Options options = compile::Options::host(1);
    options.cache = false;
    options.rules.choice = choice;
    return compile::compile(module(), options)->choices.at(0).key;
  };
  EXPECT_EQ(key({.forbidden = {"exchange"}}), key({}));
}

TEST(RuleSet, SettingsAndTheCommandLineAddUp) {
  setenv("LUMINAL_RULES", "a.egg:b.egg", 1);
  setenv("LUMINAL_FORBID_RULES", "F1,F2", 1);
  choose_rules({.files = {"c.egg"}, .forbidden = {"F2", "neg-neg"}});
  const RuleChoice whole = compile::whole_choice({.files = {"d.egg", "a.egg"}});
  choose_rules({});
  unsetenv("LUMINAL_RULES");
  unsetenv("LUMINAL_FORBID_RULES");
  EXPECT_EQ(whole, (RuleChoice{.files = {"a.egg", "b.egg", "c.egg", "d.egg"},
                               .forbidden = {"F1", "F2", "neg-neg"}}));
  EXPECT_EQ(compile::whole_choice({}), RuleChoice{});
}

} // namespace
} // namespace luminal
