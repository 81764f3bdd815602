// luminal/rule_worth.h -- what each rule is worth to a program: what luminal/ablate.h gives.
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace luminal {

/// A program without one rule. Estimates are in seconds, of one step of all regions.
struct RuleWorth {
  std::string rule;
  double estimate = 0; ///< without it
  size_t regions = 0;  ///< equal ones counted once: whose kernels are others without it
};
struct Ablation {
  double written = 0;           ///< the terms as they came
  double estimate = 0;          ///< with all rules
  std::vector<RuleWorth> rules; ///< that applied, the one whose loss costs most first
};

} // namespace luminal
