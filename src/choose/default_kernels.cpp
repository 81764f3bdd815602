// choose/default_kernels.cpp -- default kernels by the structure of their cones.
#include "choose/default_kernels.h"
#include "schedule/lower.h"

namespace luminal::kernel {

DefaultKernels::Made& DefaultKernels::made(const Cone& canonical) {
  const Hash128 key = structural_hash128(canonical);
  auto found = made_.find(key);
  if (found == made_.end()) found = made_.emplace(key, Made{propose_schedule(canonical, limits_), {}}).first;
  return found->second;
}

const DefaultKernel& DefaultKernels::of(const Cone& canonical) {
  Made& own = made(canonical);
  if (!own.kernel) own.kernel = default_kernel(canonical, limits_, {}, own.proposed);
  return *own.kernel;
}

const Schedule& DefaultKernels::schedule_of(const Cone& canonical) {
  Made& own = made(canonical);
  if (own.kernel) return own.kernel->schedule;
  if (!own.arranged)
    own.arranged = own.proposed && arranges(canonical, own.proposed->schedule, {.lanes = limits_.lanes});
  return *own.arranged ? own.proposed->schedule : of(canonical).schedule;
}

} // namespace luminal::kernel
