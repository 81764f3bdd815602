// ir/identity.h -- where a fold begins: the identity of an associative row on the values of a type.
#pragma once
#include "ir/ops.h"

namespace luminal {

/// The greatest value of a float type, and the word `inf` in scalar programs: infinity, or the
/// largest finite number where the type has no infinities (f8e4m3).
double greatest(DType type);
/// identity op x == x for every value x of the type, NaN included. For add 0, mul 1, max the least
/// value of the type, min the greatest.
double identity_f64(Op op, DType type);

} // namespace luminal
