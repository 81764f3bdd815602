// rules/check_rules.h -- the automatic test of rules: small programs are saturated, and every term of every
// class is computed and compared with the others.
#pragma once
#include "ir/interp.h"
#include "rules/saturate.h"
#include <map>

namespace luminal::rules {

/// A program of extents 1 2 3 5 with its inputs.
struct RuleCase {
  std::string name;
  Module module;
  Bindings bindings;
};

/// Formulas that rules speak of: bodies over statistics of the same axis, products in chains, masks,
/// views, means, parameters, single elements. The same seed gives the same case.
RuleCase random_rule_case(uint64_t seed);
/// Programs for rules that chance meets rarely.
std::vector<RuleCase> fixed_rule_cases();

struct RuleCheck {
  size_t terms = 0; ///< that were compared
  std::optional<std::string> wrong;
  std::map<std::string, uint64_t> matches; ///< by rule
};

/// Saturates the case and compares all terms. With rules of class exact only: the bits that the
/// interpreter gives; with others: the values over the reals, in exact arithmetic. A term that a rule
/// made may be defined where what was written is NaN, not the reverse.
RuleCheck check_rules(RegionTerms& terms, const RuleCase& test);

/// The case with less in it that still fails, by removing results and replacing nodes by inputs.
RuleCase shrink_rule_case(RegionTerms& terms, RuleCase test);

} // namespace luminal::rules
