// search/cone_estimate.h -- what a kernel takes by its cone and its schedule, without its loops: for
// comparing partitions of one region before anything is compiled.
#pragma once
#include "choose/default_schedule.h"
#include "cone/cone.h"
#include "search/machine_profile.h"
#include <map>
#include <string>

namespace luminal::search {

/// What a machine takes, in nanoseconds, all workers together: a profile's rates, or cautious ones
/// where it was not measured.
struct EstimateRates {
  double point = 0;  ///< a multiply-add of floats
  double word = 0;   ///< on tile registers: two of bf16
  double step = 0;   ///< a vector instruction, for each element
  double launch = 0; ///< of a kernel
  double l2_bytes = 0, l3_bytes = 0;
  double l2_byte = 0, l3_byte = 0, memory_byte = 0; ///< read or written
  /// of arithmetic and traffic, which run at the same time, the share of the lesser that adds to the greater
  double overlap = 0;
};
EstimateRates estimate_rates(const MachineProfile& profile, const kernel::MachineLimits& limits);

/// Of `bytes` in one value, from the memory that holds so many.
double traffic_ns(double bytes, const EstimateRates& rates);

/// Nanoseconds of a launch at these sizes. What has no tiles counts at the rate that its loops reach
/// (choose/tiling.h), elements that are copied and functions that are computed one by one as such.
double kernel_ns(const kernel::Cone& cone, const kernel::Schedule& schedule,
                 const kernel::MachineLimits& limits, const std::map<std::string, int64_t>& sizes,
                 const EstimateRates& rates);

} // namespace luminal::search
