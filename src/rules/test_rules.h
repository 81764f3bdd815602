// rules/test_rules.h -- the automatic test of rules, whole: of all that are built in, or of a user's file.
#pragma once
#include "rules/check_rules.h"
#include "rules/rule_book.h"

namespace luminal::rules {

struct RuleTestOptions {
  /// With `more`: its rules are tested, else those that are built in. None of those in `without`.
  TheoryOptions theory = {};
  uint64_t random = 500;   ///< programs drawn
  uint64_t instances = 40; ///< programs made from what each of the user's rules matches
  uint64_t seed = 0;       ///< of the first program
  std::function<bool()> stop = {};
};

struct RuleTestReport {
  struct Rule {
    RuleEntry entry;
    uint64_t matches = 0;
  };
  std::vector<Rule> rules;        ///< those that were tested
  size_t programs = 0, terms = 0; ///< terms compared with others of their class
  /// What differs, and the program made small; empty: nothing does.
  std::string wrong, program;
  std::vector<std::string> unmet; ///< rules that no program satisfied
  bool stopped = false;
  bool good() const { return wrong.empty() && unmet.empty() && !stopped; }
};

/// Over the reals all rules together; once more bit for bit those of class exact alone; and with inputs that
/// are NaN somewhere.
RuleTestReport test_rules(const RuleTestOptions& options);

/// What is wrong once the guards are gone that a further union can make false (lint_rules.h): such
/// a guard must not be what makes a rule right. Empty: nothing, or the rules are wrong with them.
std::string wrong_without_guards(const std::vector<RuleFile>& files);

/// What speaks against using a user's rules: a mistake that the linter finds, a program for which they are
/// wrong, a rule that no program satisfied. Empty: nothing. Throws Error where the texts are no rules.
std::string mistake_in_rules(const std::vector<RuleFile>& files);

} // namespace luminal::rules
