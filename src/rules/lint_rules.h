// rules/lint_rules.h -- mistakes of rules that no instance has to show: what a rule matches and ignores,
// guards that later unions make false, terms that would contain themselves.
#pragma once
#include "rules/rule_book.h"
#include <cstdint>
#include <span>

namespace luminal::rules {

/// How long a guard holds.
enum class GuardKind : uint8_t {
  proves,  ///< facts only grow: what it says once holds after every further union
  chooses, ///< it says what is not known, so a union may falsify it: it saves work and proves nothing
};
struct GuardInfo {
  std::string_view name, arguments;
  GuardKind kind;
  std::string_view about;
};
/// The guards that rules may ask.
std::span<const GuardInfo> guard_table();

struct LintFinding {
  std::string rule, file;
  size_t line = 0;
  std::string text;
};

/// Of the rules from `first` on. The terms were made with every numeric class.
std::vector<LintFinding> lint_rules(RegionTerms& terms, egraph::RuleId first = 0);

} // namespace luminal::rules
