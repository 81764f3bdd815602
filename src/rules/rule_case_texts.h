// rules/rule_case_texts.h -- programs for the test of rules, as text.
#pragma once
#include "rules/check_rules.h"
#include <span>

namespace luminal::rules {

struct RuleCaseText {
  const char* name;
  const char* text; ///< a module of terms
};

/// Those in which a mask hides what may be infinite or NaN.
std::span<const RuleCaseText> masked_rule_cases();

} // namespace luminal::rules
