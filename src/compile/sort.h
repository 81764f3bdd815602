// compile/sort.h -- a sort as folds, binary searches and scatters.
#pragma once
#include "ir/term.h"

namespace luminal::compile {

/// The permuted operands of a sort. Short axes: each element counts how many come before it. Long ones: blocks that are sorted in this way are merged
/// pair by pair, each element finding its place in the other block by binary search: O(n log^2 n) operations in O(log n) kernels.
std::vector<NodeId> sorted_operands(FunctionBuilder& b, const SortAttr& sort,
                                    const std::vector<NodeId>& inputs);

} // namespace luminal::compile
