// rules/folds_extract.h -- the search for a cheap choice: starts from tree costs, then a climb over
// rows, stored values, and all values of a set of axes together.
#pragma once
#include "extract/extract_sample.h"
#include "folds_cost.h"

namespace luminal::egraph::folds {

struct SearchOptions {
  Machine machine;
  /// One start for each: how many times more a fold costs that needs an earlier pass over its axes.
  std::vector<double> deep = {1.05, 16};
  uint32_t noisy_starts = 2; ///< starts whose tree costs are multiplied by up to exp(3) or exp(-3)
  uint64_t seed = 1;         ///< of the noise
};

struct Found {
  Candidate candidate;
  Plan plan;
  double cost = infinite_cost;
  uint64_t candidates = 0;         ///< costed, over all starts
  std::vector<double> start_costs; ///< what each start ends with
};

/// The genome of least tree cost. `costs`: by class, for the order in which joint moves are tried.
struct Start {
  Genome genome;
  std::vector<double> costs;
};
Start tree_start(const LoopProblem& problem, double deep, Random* noise = nullptr);

/// Climbs from one start; counts into `cost`.
ClimbResult climb_passes(const LoopProblem& problem, PassCost& cost, const Start& start);

Found find_passes(const LoopProblem& problem, const SearchOptions& options = {});

/// The plan of the formula as it is written: each fold a pass, its results stored. For graphs
/// without rules.
Plan naive_plan(const LoopProblem& problem, const Machine& machine = {});

/// "fold j{q k v}; map{x %12}": the passes of a plan, for people.
std::string text(const LoopProblem& problem, const Genome& genome, const Plan& plan);

} // namespace luminal::egraph::folds
