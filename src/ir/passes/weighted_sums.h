// ir/passes/weighted_sums.h -- sums that are weighted by exponentials of differences from a maximum
// take one pass over what they sum.
#pragma once
#include "ir/term.h"

namespace luminal::passes {

/// m = max_k x,  l = sum_k exp(x - m),  y = sum_k exp(x - m) * r(m, l) * v   becomes   y = r(m, l) * o,
/// (m, l, o) = fold over k { max x;  sum(self * exp(old0 - new0)) 1;  sum(self * exp(old0 - new0)) v }
/// where v has an axis that x lacks, and nobody else asks for x: then a kernel makes x, the
/// exponentials and the products for some k at a time, and memory holds none of them. Points of x
/// that a condition over the axes sets to -inf are left out of the fold's domain. What r multiplies
/// leaves the sum (the magnitudes of partial sums change), a masked v that is infinite no longer
/// makes a NaN; an x that is NaN does. Returns how many sums it has joined.
int64_t join_weighted_sums(Module& module);

/// Has the tuple fold components with an axis that others lack, as the joined folds have?
bool has_weighted_sum(const FoldAttr& fold);

/// A line for each sum that exponentials weight: joined with its maximum or apart, and why.
std::vector<std::string> weighted_sum_notes(const Module& module);

} // namespace luminal::passes
