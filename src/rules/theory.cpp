// rules/theory.cpp -- all functions of the rules.
#include "rules/theory.h"
#include "rules/region_terms.h"

namespace luminal::rules {

void add_theory(RegionTerms& terms) {
  add_fact_primitives(terms);
  add_vector_primitives(terms);
  add_place_primitives(terms);
  add_monoid_primitives(terms);
  add_tiling_primitives(terms);
}

} // namespace luminal::rules
