// extract/extract_reduce.h -- a smaller extraction problem with the same least DAG cost, and the
// way back. For exact search.
#pragma once
#include "extract/extract.h"

namespace luminal::egraph {

/// Rewrites a problem by rules that keep an optimal solution:
///   rows that cannot be part of a finite term, or whose classes the roots do not reach; rows with
///   their own class below them
///   a row whose children contain those of a sibling that is not dearer (dominated; with negative
///   costs only equal ones)
///   a row with a child that stands on every path from the roots to the row's class (it would close a cycle)
///   a class with one row that costs nothing: its children take its place
///   a class that one row alone uses: its rows are joined with that row
///   a class that every solution needs, with one row, outside of cycles: paid once, its children become roots
class Reduction {
public:
  explicit Reduction(const ExtractionProblem& problem);
  const ExtractionProblem& reduced() const { return reduced_; }
  /// What the rewriting has paid already: least cost = constant + least cost of reduced().
  double constant() const { return constant_; }
  bool feasible() const { return feasible_; }
  /// The genome of the given problem for one of reduced(); classes that the roots do not reach hold
  /// no_row.
  Genome expand(const Genome& reduced) const;

private:
  const ExtractionProblem& problem_;
  ExtractionProblem reduced_;
  std::vector<uint32_t> taken_first_,
      taken_;                    ///< rows of the given problem that a row of reduced() stands for
  std::vector<uint32_t> always_; ///< rows that are taken wherever their class is reached
  double constant_ = 0;
  bool feasible_ = true;
};

} // namespace luminal::egraph
