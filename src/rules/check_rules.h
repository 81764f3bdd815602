// rules/check_rules.h -- the automatic test of rules: small programs are saturated, and every term of every
// class is computed and compared with the others.
#pragma once
#include "ir/interp.h"
#include "rules/saturate.h"
#include <map>
#include <span>
#include <string_view>

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

enum class Comparison : uint8_t {
  /// With rules of class exact only: the bits that the interpreter gives; with others: the values over the
  /// reals, in exact arithmetic. A term that a rule made may be defined where what was written is NaN, not
  /// the reverse.
  values,
  /// An element of an input is NaN: where it makes what was written NaN, it makes every term NaN, and no
  /// other element.
  not_numbers,
  /// Many elements of an input are infinite or NaN: an element of what was written that they do not change
  /// stays finite in every term.
  infinities,
};

/// Saturates the case and compares all terms.
RuleCheck check_rules(RegionTerms& terms, const RuleCase& test, Comparison comparison = Comparison::values);

/// The case with less in it that still fails, by removing results and replacing nodes by inputs.
RuleCase shrink_rule_case(RegionTerms& terms, RuleCase test, Comparison comparison = Comparison::values);

/// Rules after which a mask hides what is NaN where it hides: a product with a zero of the mask, or a sum
/// with its -inf, is NaN there as it is written.
std::span<const std::string_view> rules_that_hide();

} // namespace luminal::rules
