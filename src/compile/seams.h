// compile/seams.h -- folds over joined values, part by part.
#pragma once
#include "ir/term.h"

namespace luminal::compile {

/// The function in which a fold of elements that a condition on one of its axes chooses (a concatenation:
/// `i < n` takes one value, else the other) is what the folds of the parts give together, and in which a
/// view that alone reads such a value, and one part of it, reads that part. Sums of floats are added in
/// another order. Unchanged where neither is there.
Function fold_by_parts(const Module& module, const Function& function);
bool has_seams(const Function& function); ///< would it change?

} // namespace luminal::compile
