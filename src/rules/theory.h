// rules/theory.h -- the functions that the rule files (*.egg) call by names in lower case.
#pragma once

namespace luminal::rules {

class RegionTerms;

/// All of them; the sorts and constructors of terms are there.
void add_theory(RegionTerms& terms);

void add_fact_primitives(RegionTerms& terms);   ///< facts.egg, and guards that ask facts
void add_vector_primitives(RegionTerms& terms); ///< vectors of classes: bodies, coefficients
void add_place_primitives(RegionTerms& terms);  ///< views, positions and axes
void add_monoid_primitives(RegionTerms& terms); ///< monoids and characters
void add_tiling_primitives(RegionTerms& terms); ///< tiles.egg

} // namespace luminal::rules
