// compile/sort.h -- what a sort becomes.
#pragma once
#include "ir/term.h"

namespace luminal::compile {

/// The permuted operands of a sort. Short axes: each element counts how many come before it. Long ones: a radix sort with digits of 8 bits, rows in
/// parallel; what follows reads through the order.
std::vector<NodeId> sorted_operands(FunctionBuilder& b, const SortAttr& sort,
                                    const std::vector<NodeId>& inputs);

} // namespace luminal::compile
