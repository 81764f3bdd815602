// search/limit.h -- what the machine allows: the least time of a kernel by its arithmetic and by
// the bytes it has to move.
#pragma once
#include "schedule/nest.h"
#include "search/machine_profile.h"
#include "search/problem.h"

namespace luminal::search {

struct KernelWork {
  /// operations on floating numbers; a multiplication and the sum that takes it are two. Casts,
  /// choices and comparisons are none
  double flops = 0;
  double steps = 0; ///< operations of every type, functions by what computes them
  /// Of these, by stage: additions of folds, the products that they add, and what these read.
  IdVector<kernel::StageId, double> product_steps = {};
  double bytes = 0; ///< arguments, each once; of what is read at indices from memory as much as is asked for
  IdVector<kernel::ValueId, double> value_bytes = {}; ///< of these, by value of the cone
};
KernelWork work_of(const kernel::Cone& cone, const std::map<std::string, int64_t>& sizes);
/// Of a cone under a schedule: each part of a tuple that passes over its axes again, copies, and what
/// does not vary with inner loops once for each trip of the outer ones.
KernelWork work_of(const kernel::Nests& nests, const std::map<std::string, int64_t>& sizes);

/// Seconds; 0: the profile is not a measured one, or there is nothing to do. Bytes come from main
/// memory: in a plan a value may lie in a cache, and then a kernel can be faster than its limit.
double limit_seconds(const KernelWork& work, const MachineProfile& profile, int threads);
/// What a launch takes on one worker, roughly: half of the multiply-add units busy, functions that
/// are polynomials counted as such, and its bytes from the nearest cache that holds them.
double work_seconds(const KernelWork& work, const MachineProfile& profile);

} // namespace luminal::search
