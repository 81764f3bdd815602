// loop/renumber.h -- statements with other numbers of buffers and lets.
#pragma once
#include "loop/loop.h"

namespace luminal::kernel {

/// The statements with buffer b called buffers[b], and `lets` added to the number of each let. Values
/// that are shared stay shared.
Body renumbered(const Body& body, IdVector<BufferId, BufferId> buffers, int lets = 0);

} // namespace luminal::kernel
