// compile/stored_masks.h -- stored values are masked where nobody reads them.
#pragma once
#include "compile/fuse.h"

namespace luminal::compile {

struct MaskedFunction {
  Function function; ///< without nodes: there is nothing to mask
  /// Of each value of the given function: what is stored, and read, for it.
  IdVector<NodeId, NodeId> stored_as;
};

/// The function in which a value that a kernel of the partition stores, and that all readers read under one
/// condition on its place alone, is select(condition, value, 0): the rest of it need not be computed, and a
/// kernel leaves out tiles that the mask hides (cone/result_conditions.h). Results stay as they are, and so
/// does a value of which most is read.
MaskedFunction mask_stored(const Function& function, const Partition& partition);

/// What was decided of the given function, for the masked one.
void move_to(const MaskedFunction& masked, StepFusion& fusion, Boundaries& boundaries);

} // namespace luminal::compile
