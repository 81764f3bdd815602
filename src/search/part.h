// search/part.h -- macro-tiles: some iterations of a kernel's outer loops, with the inner ones as
// they are, to be timed instead of a long launch.
#pragma once
#include "loop/loop.h"
#include "search/machine_profile.h"
#include <map>
#include <optional>

namespace luminal::search {

struct Part {
  kernel::Kernel kernel; ///< computes a part of the results; for timing alone, at these sizes only
  double whole = 1;      ///< launches of it that take as long as one of the whole kernel, by the work in both
};

/// A part with about `share` (below 1) of the work. Loops are shortened from the outside on:
/// iterations from the middle, as many for each worker as for the others, and the loops of inner
/// tiles (those that hold no other loop) never. Nothing: no loop can be shortened, or the work
/// cannot be counted.
std::optional<Part> part_of(const kernel::Kernel& kernel, const std::map<std::string, int64_t>& sizes,
                            int threads, double share, const MachineProfile& profile);

} // namespace luminal::search
