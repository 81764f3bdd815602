// ir/naive_index.h -- the value of an index expression at a point, part by part, in 128 bits.
#pragma once
#include "expr/expr.h"
#include <map>
#include <string>
#include <vector>

namespace luminal {

/// i0, i1, .. are axes, h0, h1, .. holes, other symbols dimensions. Throws Error where it divides
/// by 0 or where a part does not fit 64 bits.
int64_t naive_index(Expr e, const std::map<std::string, int64_t>& dimensions,
                    const std::vector<int64_t>& axes, const std::vector<int64_t>& holes);

} // namespace luminal
