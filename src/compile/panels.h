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
  bool adds_sums = false;     ///< of what windows read around their images
  std::vector<NodeId> copies; ///< into panels, at each step
  std::vector<NodeId> sums;   ///< of what windows read around images, at each step
  /// Of each value of the given function: what is in memory where it was stored.
  IdVector<NodeId, NodeId> stored_as;
};

/// One layout for each constant, and for each copy (Tensor::contiguous of another order): that
/// which all kernels that read it ask for. Others are left as they are. `function` has neither
/// calls nor sorts; `fusion` is its own. `step_inputs`: arguments that enough products read are copied
/// into panels, too, at each step.
PackedFunction pack_constants(const Function& function, const kernel::MachineLimits& limits,
                              const StepFusion& fusion, bool step_inputs = true);
/// The partition of the packed function that stores what the given one's stored, and `copies` and `sums`.
/// `there`: values that need no kernel any more, since they are computed at load.
Partition packed_partition(const PackedFunction& packed, const Partition& partition,
                           const std::vector<NodeId>& there);

} // namespace luminal::compile
