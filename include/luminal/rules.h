// luminal/rules.h -- which rules look for equal programs when something is compiled (docs/rules.md).
#pragma once
#include <string>
#include <vector>

namespace luminal {

/// Beside the rules that are built in, and those of the settings LUMINAL_RULES and LUMINAL_FORBID_RULES.
struct RuleChoice {
  /// Files of rules. They pass the automatic test before they are used: to compile with a wrong rule is an
  /// Error that shows a program for which it is wrong.
  std::vector<std::string> files = {};
  std::vector<std::string> forbidden = {}; ///< names of rules that take no part
  /// More than 0: rules of class `approx` take part where no result of the program is off by more than this
  /// share of the greatest magnitude among the elements of that result. A positive number below 1.
  double max_error = 0;
  bool operator==(const RuleChoice&) const = default;
};

/// For all that this process compiles from now on, in place of an earlier choice.
void choose_rules(RuleChoice choice);

} // namespace luminal
