// extract/extract_exact.h -- least DAG cost with a proof: reduction, lower bounds, branch and
// bound.
#pragma once
#include "extract/extract.h"

namespace luminal::egraph {

struct ExactOptions {
  uint64_t max_nodes = 20000; ///< of the search tree
  double max_steps = 3e8;     ///< edges looked at, all together: bounds the time, whatever the graph
};
struct ExactExtraction : Extraction {
  double lower_bound = infinite_cost; ///< no solution costs less; equal to `cost` where `optimal`
  bool optimal = false;               ///< proved; also for a problem without a solution
  uint64_t nodes = 0;                 ///< of the search tree
};
/// The least DAG cost, or the best solution found within the limits and how far it can be from the
/// least (cost - lower_bound).
ExactExtraction extract_exact(const ExtractionProblem& problem, const ExactOptions& options = {});

} // namespace luminal::egraph
