// compile/panels.h -- layouts of constants and copies: what products read in panels is put into
// panels when the plan is loaded, or where it is copied anyway.
#pragma once
#include "choose/default_schedule.h"
#include "compile/fuse.h"
#include "ir/term.h"

namespace luminal::compile {

struct PackedFunction {
  struct Panels {
    NodeId panels,
        from; ///< a view of the weight (or of what is computed from weights) that is to be stored at load
  };
  Function function;          ///< without nodes: nothing to pack
  std::vector<Panels> panels; ///< of constants
};

/// One layout for each constant, and for each copy (Tensor::contiguous of another order): that
/// which all kernels that read it ask for. Others are left as they are. `function` has neither
/// calls nor sorts; `fusion` is its own.
PackedFunction pack_constants(const Function& function, const kernel::MachineLimits& limits,
                              const StepFusion& fusion);

} // namespace luminal::compile
