// compile/panels.h -- layouts of constants: what products read in panels is put into panels when the plan is loaded.
#pragma once
#include "ir/term.h"
#include "kernel/default_schedule.h"

namespace luminal::compile {

struct PackedFunction {
  struct Panels {
    NodeId panels,
        from; ///< a view of the weight (or of what is computed from weights) that is to be stored at load
  };
  Function function;
  std::vector<Panels> panels; ///< empty: nothing to pack
};

/// One layout for each constant: that which all kernels that read it ask for. Others are left as they are. `function` has neither calls nor sorts.
PackedFunction pack_constants(const Function& function, const kernel::MachineLimits& limits);

} // namespace luminal::compile
