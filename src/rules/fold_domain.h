// rules/fold_domain.h -- the points at which a fold combines anything: elsewhere a condition of positions
// hides its bodies.
#pragma once
#include "rules/region_terms.h"
#include <functional>
#include <optional>

namespace luminal::rules {

struct FoldDomain {
  std::optional<uint32_t> condition; ///< RegionTerms::iotas
  double share = 1;                  ///< of all points those where it holds, about
  std::vector<ClassId> bodies;       ///< what is combined there
};

/// Points along an axis of this extent, where it is not fixed about so many as its range says.
double points_along(Expr extent);

/// The condition outside of which all bodies are at the identity, or of which transforms make the identity.
/// `chosen`: the row of a class, or empty; a choice by the condition that is chosen for a body is left out of
/// it. With `of_class`, any term of a body's class may show the condition, where it lets few enough points
/// through.
FoldDomain domain_of(RegionTerms& terms, const Monoid& monoid, const std::vector<ClassId>& bodies,
                     const std::function<egraph::RowView(ClassId)>& chosen, bool of_class,
                     const std::function<double(Expr)>& extent = points_along);

} // namespace luminal::rules
