// rules/other_terms.h -- terms of a region that nobody chose, beside those that are chosen.
#pragma once
#include "rules/emit_region.h"

namespace luminal::rules {

/// A term that has a number of its own beyond those of classes, and, of the component of a tuple, a
/// number of the tuple's term.
struct ExtraTerm {
  ClassId of, term, tuple;
};
/// Appends to the choice every term whose class and operands have one.
std::vector<ExtraTerm> add_other_terms(RegionTerms& terms, Choice& all);

} // namespace luminal::rules
