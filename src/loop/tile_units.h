// loop/tile_units.h -- steps of a dot instruction on values become steps of a unit with tile registers.
#pragma once
#include "loop/loop.h"

namespace luminal::kernel {

/// Puts the unit `name`, which has tile registers and a lane unit (loop/unit.h), in the place of steps
/// of that lane unit. What is looked for is
///
///     for w in begin..end                         words of the sum
///       unrolled r in 0..16*n                     in any order, with other unrolled loops
///         vector l in 0..16
///           acc[.. r .. + l] = LANE_UNIT(acc[.. r .. + l], a[.. r .. + w], b[.. w .. + l])
///
/// with `acc` in registers; or, where rows are summed up one after the other (64 at most),
///
///     for r in 0..rows
///       acc[..] = ...
///       for w in begin..end, unrolled, vector     as above, all rows in the same accumulators
///       y[.. r ..] = ... acc[..]
///
/// whose accumulators lie one row behind the other then. Of its words, blocks of as many as a tile has
/// become unit statements; the rest stays with the lanes. The accumulators lie in local memory from where
/// they are set up. Returns how many loops were found; other statements stay as they are.
int use_tiles(Kernel& kernel, std::string_view name);

} // namespace luminal::kernel
