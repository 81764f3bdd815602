// device/launch_shape.h -- how many groups of threads a launch has on a GPU.
#pragma once
#include "device/device.h"
#include <algorithm>

namespace luminal::device {

/// Workers are threads, or groups of them.
inline int64_t groups_of_launch(const Threads& threads, int asked, int most_workers) {
  if (threads.one_group) return 1;
  const int64_t workers = std::clamp(asked > 0 ? asked : most_workers, 1, most_workers);
  return threads.grouped ? workers : (workers + threads.lanes - 1) / threads.lanes;
}

} // namespace luminal::device
