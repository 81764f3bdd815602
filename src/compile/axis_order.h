// compile/axis_order.h -- in which order the axes of stored values lie in memory.
#pragma once
#include "ir/term.h"
#include <map>

namespace luminal::compile {

/// Of a value, which axis lies at each place, the innermost one last.
using AxisOrders = std::map<NodeId, std::vector<int>>;

/// Values that are better stored with another axis innermost, where the function multiplies narrow numbers.
/// Dot instructions take words of numbers that follow each other along the sum, and write results that follow
/// each other in memory: images whose channels lie innermost need no copy for either. A value, and all that
/// maps and casts make of it element by element, lies in one order; inputs and results lie as they are said
/// to. An order is changed where a quarter of all elements that are copied for their places need not be.
AxisOrders better_axis_orders(const Function& function);

/// The function with these values stored in these orders: sums give their results in them, and readers
/// find the elements through views. No element changes.
Function with_axis_orders(const Module& module, const Function& function, const AxisOrders& orders);

} // namespace luminal::compile
