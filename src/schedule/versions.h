// schedule/versions.h -- schedules for different sizes of one kernel.
#pragma once
#include "schedule/lower.h"

namespace luminal::kernel {

struct Version {
  Expr condition; // over dimension symbols; of the first one 1
  Schedule schedule;
};
/// Cut at each `from`; those before one that always holds are left out, and those that never hold.
std::vector<Version> versions_of(const Cone& cone, const Schedule& schedule);
/// One kernel that does what `next` does where the condition holds, and what `kernel` does
/// elsewhere.
Kernel with_version(Kernel kernel, Expr condition, Kernel next);

} // namespace luminal::kernel
