// rules/folds_sweep.h -- each class of a graph of folds/theory.egg gets the value of one of its
// terms; every other term must give the same.
#pragma once
#include "folds_host.h"

namespace luminal::egraph::folds {

struct Sweep {
  int checked = 0;   ///< terms compared with their class
  double worst = 0;  ///< largest |difference| / (1 + |value|); infinite where just one of the two is NaN
  int valueless = 0; ///< classes without a finite term
  std::string where; ///< of the worst
};
/// Extents are those of the theory, 2 or 3 where it has none. Inputs are random in [0.2, 2], the
/// same for equal names; what is compared with an index is an index.
Sweep sweep(Theory& theory);

} // namespace luminal::egraph::folds
