// choose/default_kernels.cpp -- default kernels by the structure of their cones.
#include "choose/default_kernels.h"

namespace luminal::kernel {

const DefaultKernel& DefaultKernels::of(const Cone& canonical) {
  const Hash128 key = structural_hash128(canonical);
  auto found = made_.find(key);
  if (found == made_.end()) found = made_.emplace(key, default_kernel(canonical, limits_)).first;
  return found->second;
}

} // namespace luminal::kernel
