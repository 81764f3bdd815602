// train/shift.h -- private: extremes that only keep numbers small.
#pragma once
#include "train/reverse.h"

namespace luminal::train {

/// Would any number in the place of the maximum (or minimum) of each row give the same seeds? So it is in
/// a softmax, whose maximum is taken from the exponents above and below: its gradient is 0, and not worth
/// a rounding. `extreme`: a fold; `end`: terms from there on do not count.
bool cancels(const Terms& t, NodeId extreme, const std::vector<NodeId>& seeds, NodeId end);

} // namespace luminal::train
