// rules/rule_instances.h -- programs made from what a rule matches, so that any rule can be tried.
#pragma once
#include "rules/check_rules.h"
#include "rules/rule_book.h"

namespace luminal::rules {

/// A program in which the rule's terms stand: random axes of 1 2 3 5 points, types, numbers, masks and
/// views where the rule leaves them open. `special`: some inputs are NaN, infinite, very small or 0.
/// Nothing where the rule asks for facts that other rules find, or no such program is well formed.
std::optional<RuleCase> rule_instance(RegionTerms& terms, egraph::RuleId rule, uint64_t seed, bool special);

/// One use of a rule.
struct RuleExample {
  std::string of;     ///< the program
  std::string before; ///< terms that were there
  std::string after;  ///< and those that the rule joins to them
};
/// The first one among instances, fixed and random programs; nothing where the rule joins no terms there.
/// Of several the shortest one. The rule acts alone, on terms that the others have saturated.
std::optional<RuleExample> rule_example(const RuleEntry& rule, const TheoryOptions& theory);

} // namespace luminal::rules
