// choose/group_schedule.h -- schedules for GPUs in which a group of lanes works together: products in tiles,
// sums of rows.
#pragma once
#include "choose/default_schedule.h"

namespace luminal::kernel {

/// Tiles of a product, whose operands lie in the group's memory step by step of the sum, or rows, each
/// summed by neighbouring lanes. Nothing where the cone is neither, or where it does not fit the target.
std::optional<DefaultKernel> group_kernel(const Cone& cone, const GpuTarget& target);

} // namespace luminal::kernel
