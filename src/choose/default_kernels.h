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
  /// The schedule of `of`, before its kernel is lowered: enough for an estimate. (Where lowering fails
  /// although its loops fit together, `of` has a simpler one.)
  const Schedule& schedule_of(const Cone& canonical);

private:
  struct Made {
    std::optional<ProposedSchedule> proposed;
    std::optional<bool> arranged; // whether the loops of `proposed` fit together
    std::optional<DefaultKernel> kernel;
  };
  MachineLimits limits_;
  std::map<Hash128, Made> made_;

  Made& made(const Cone& canonical);
};

} // namespace luminal::kernel
