// compile/panels.h -- layouts of constants and copies: what products read in panels is put into panels when the plan is loaded, or where it is copied anyway.
#pragma once
#include "compile/fuse.h"
#include "ir/term.h"
#include "kernel/default_schedule.h"
#include <optional>

namespace luminal::compile {

struct PackedFunction {
  struct Panels {
    NodeId panels,
        from; ///< a view of the weight (or of what is computed from weights) that is to be stored at load
  };
  Function function;          ///< without nodes: nothing to pack
  std::vector<Panels> panels; ///< of constants
  /// Of the function itself, where there is nothing to pack and it had to be found: what is computed at load, and the kernels of the rest.
  std::optional<std::vector<NodeId>> load_values = {};
  std::optional<Fusion> fusion = {};
  std::set<NodeId> given = {}; ///< for which the fusion holds
};

/// One layout for each constant, and for each copy (Tensor::contiguous of another order): that which all kernels that read it ask for. Others are left as they are. `function` has neither calls nor sorts.
PackedFunction pack_constants(const Function& function, const kernel::MachineLimits& limits);

} // namespace luminal::compile
