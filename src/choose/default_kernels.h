// choose/default_kernels.h -- default kernels, each made once: who splits kernels asks for the same
// ones as who lowers them.
#pragma once
#include "choose/default_schedule.h"
#include "cone/canonical_cone.h"
#include <map>

namespace luminal::kernel {

class DefaultKernels {
public:
  explicit DefaultKernels(MachineLimits limits) : limits_(std::move(limits)) {}
  const DefaultKernel& of(const Cone& canonical); ///< of a canonical cone, without unusual answers

private:
  MachineLimits limits_;
  std::map<Hash128, DefaultKernel> made_;
};

} // namespace luminal::kernel
