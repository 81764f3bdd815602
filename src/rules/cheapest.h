// rules/cheapest.h -- a term for each class by the sum of costs over its tree: simple, and never in a circle.
#pragma once
#include "rules/emit_region.h"
#include <functional>

namespace luminal::rules {

/// The row of each class whose tree costs least; of equal ones the first. Costs are above 0, so a chosen
/// term never contains its own class.
Choice cheapest_rows(RegionTerms& terms, const std::function<double(const egraph::RowView&)>& cost);

} // namespace luminal::rules
