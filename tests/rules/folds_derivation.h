// rules/folds_derivation.h -- where an extracted term comes from: the rules that made its rows and
// united its classes.
#pragma once
#include "extract/extract_engine.h"
#include "folds_host.h"

namespace luminal::egraph::folds {

struct Derivation {
  /// A line for each chosen row that is not an input, what it needs first: the rule that made it,
  /// those that united its class, and those that made the other terms of the class, which led from
  /// the input to it.
  std::vector<std::string> steps;
  std::set<std::string> rules; ///< that the lines name
};
/// Of the term that the genome chooses. With EGraph::record_substitutions the lines have the values
/// of the variables.
Derivation derivation(Theory& theory, const EngineProblem& problem, const Genome& genome);

} // namespace luminal::egraph::folds
