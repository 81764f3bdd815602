// search/machine_measure.h -- fills in the rates of a profile. Internal to search.
#pragma once
#include "search/machine_profile.h"

namespace luminal::search {

/// Generates, loads and times the kernels for profile.threads threads.
Result<void> measure(MachineProfile& profile);

} // namespace luminal::search
