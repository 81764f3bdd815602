// compile/expand_sort.h -- what a sort becomes.
#pragma once
#include "ir/term.h"
#include <string_view>

namespace luminal::compile {

/// The permuted operands of a sort. Short axes: each element counts how many come before it. Long
/// ones: a radix sort with digits of 8 bits, rows in parallel; what follows reads through the
/// order.
std::vector<NodeId> sorted_operands(FunctionBuilder& b, const SortAttr& sort,
                                    const std::vector<NodeId>& inputs);

/// Whether these loops are a sort that was made here: its places come from counts, which no proof
/// follows. A user's text is never equal to one and another program.
bool is_sort_kernel(std::string_view loops);

} // namespace luminal::compile
