// choose/flat_schedule.h -- schedules for devices with many threads and no better schedule: each thread
// computes elements of its own, from beginning to end.
#pragma once
#include "choose/default_schedule.h"

namespace luminal::kernel {

/// Is this such a device?
inline bool wants_flat(const MachineLimits& limits) { return limits.vector_registers == 0; }

/// Axes whose elements are independent of each other: that every component keeps, in no given order.
std::vector<AxisId> independent_axes(const Stage& stage);
/// Tuples that cannot stay whole become plain folds; maps on a finished fold join it where they can.
Schedule fused_stages(const Cone& cone);

/// All axes that a stage keeps become one parallel loop, whatever is summed stays inside; maps on a
/// finished fold join it where they can. Legal for every well-formed cone.
DefaultKernel flat_kernel(const Cone& cone);

} // namespace luminal::kernel
