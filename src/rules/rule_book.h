// rules/rule_book.h -- what is written of each rule: name, numeric class, phase, guards, place, text.
#pragma once
#include "egraph/rule.h"
#include <string>
#include <string_view>
#include <vector>

namespace luminal::rules {

class RegionTerms;
struct RuleFile;

struct RuleEntry {
  egraph::RuleId id = 0;
  std::string name;   ///< of a rule without one: its file and line
  bool named = false; ///< those without a name keep facts up to date
  egraph::NumericClass numeric = egraph::NumericClass::exact;
  std::string phase;               ///< its ruleset
  std::vector<std::string> guards; ///< facts that only ask, in the order in which they stand
  std::string file;
  size_t line = 0;
  std::string text;   ///< in normal form; what a foreach wrote out stands as it is for this rule
  bool joins = false; ///< it unites classes
  uint64_t budget = 0;
};

/// All rules of the terms, which were made with every numeric class, in the order of their ids.
std::vector<RuleEntry> rule_entries(RegionTerms& terms);

std::string_view to_string(egraph::NumericClass numeric); ///< as rule files say it: "reassoc"

/// "there is no rule 'x', did you mean 'y'?"
std::string no_rule(const std::string& name, const std::vector<std::string_view>& names);

/// A user's files hold rules with names, each with a phase, with a numeric class where it joins classes,
/// and relations and functions for them. Throws Error with file:line:column for anything else.
void check_rule_files(const std::vector<RuleFile>& files);

/// The text with rules of these names in the ruleset `parked`. `found`: beside names, those that are there.
std::string parked_rules(const std::string& text, const std::string& file,
                         const std::vector<std::string>& names, std::vector<bool>& found);

/// The text without the guards in `names`.
std::string without_guards(const std::string& text, const std::string& file,
                           const std::vector<std::string_view>& names);

} // namespace luminal::rules
