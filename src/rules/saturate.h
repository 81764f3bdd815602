// rules/saturate.h -- the rules run over a region, phase by phase.
#pragma once
#include "rules/facts.h"
#include "rules/region_terms.h"

namespace luminal::rules {

struct SaturateOptions {
  /// Where one of them is met, saturation ends with what is there: a valid e-graph in which every
  /// term is right. Rows, bytes and steps are counted, so the result is the same on every machine;
  /// seconds are a safety net.
  uint64_t rows = 100'000;
  uint64_t bytes = uint64_t(200) << 20;
  uint64_t steps = 50'000'000; ///< rows looked at, of one iteration
  double seconds = 0;
  int rounds = 3; ///< of the phases that build tuples
};

/// What one rule did in one saturation.
struct RuleUse {
  std::string name;
  uint64_t matches = 0, rows = 0, unions = 0;
};
struct SaturateReport {
  egraph::StopReason stop = egraph::StopReason::none;
  std::string phase; ///< in which it stopped
  uint64_t iterations = 0, rows = 0;
  double seconds = 0;
  std::vector<RuleUse> rules; ///< those that matched, in the order in which they are read
};

/// Runs all rules that the terms were made with until nothing changes or a limit is met. Facts are
/// up to date afterwards.
SaturateReport saturate(RegionTerms& terms, const SaturateOptions& options = {});

/// The same order of phases as a program: combined rulesets and a schedule.
std::string schedule_text(int rounds = SaturateOptions().rounds);

} // namespace luminal::rules
