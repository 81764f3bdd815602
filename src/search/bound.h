// search/bound.h -- the least time of a launch, from what a schedule lowers to: what its busiest
// worker executes at least, at the rates of the machine.
#pragma once
#include "loop/loop.h"
#include "search/machine_profile.h"
#include <map>
#include <optional>

namespace luminal::search {

/// Lower bounds, counted in the loops. What a compiler may hoist out of a loop, share or leave out
/// is not counted twice (or at all); tiles, dead lanes of tails, recomputation and the number of
/// iterations that each worker gets are.
struct LeastWork {
  // Of the busiest worker. f32 elements (an f64 counts as two), whole vectors where lanes are
  // masked.
  double multiplies = 0; ///< products, multiply-adds, what takes at least one
  double arithmetic = 0; ///< these and sums
  double bf16_dots = 0;  ///< lanes of dot instructions on pairs of bf16
  double int8_dots = 0;  ///< lanes of dot instructions on four bytes
  double loaded = 0;     ///< bytes, wherever they come from
  // Of the launch.
  double packed = 0; ///< bytes of scratch that workers share
};

/// Nothing where the loops cannot be counted: bounds that are not known before the launch, too many
/// of them.
std::optional<LeastWork> least_work(const kernel::Kernel& kernel, const std::map<std::string, int64_t>& sizes,
                                    int threads);

/// Seconds that no launch should fall below; 0 where the profile is not a measured one. It is as
/// good as the profile: a machine measured at a bad moment has launches some per cent faster, so
/// who prunes by it leaves a margin (SelectOptions::bound_margin). Peaks are the highest that the
/// profile has for a worker.
double least_seconds(const LeastWork& work, const MachineProfile& profile);

/// The same work as one number, for ratios between parts of one kernel: nothing overlaps.
double weight(const LeastWork& work, const MachineProfile& profile);

} // namespace luminal::search
