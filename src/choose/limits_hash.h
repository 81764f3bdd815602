// choose/limits_hash.h -- what the default schedule knows of the machine, in keys of what depends on it.
#pragma once
#include "base/hash.h"
#include "choose/default_schedule.h"

namespace luminal::kernel {

/// Every field.
void hash_into(Hasher& hasher, const MachineLimits& limits);

} // namespace luminal::kernel
