// schedule/lower.h -- cone + schedule -> loop IR.
#pragma once
#include "cone/cone.h"
#include "loop/loop.h"
#include "schedule/schedule.h"

namespace luminal::kernel {

struct LowerOptions {
  int lanes = 16; ///< f32 lanes of a vector register: becomes Kernel::lanes
  /// A product that is added to a sum becomes one fma (numeric class reassoc).
  bool contract = true;
};

/// The kernel. Its global buffers are the input, inout and output values of the cone in their order
/// and by their names, its symbols are the cone's. A schedule that is not legal for this cone is a
/// failure: the directive and the reason.
Result<Kernel> lower(const Cone& cone, const Schedule& schedule, const LowerOptions& options = {});

/// Do the loops that stages share and the places of their values fit together? `lower` asks that first: it
/// takes a tenth of its time, and what passes can almost always be lowered.
Result<bool> arranges(const Cone& cone, const Schedule& schedule, const LowerOptions& options = {});
/// Does a condition over the axes hold between ends along the axis, for what the other axes are? Then
/// `predicate_split` and `predicate_bound` have an effect.
bool ends_along(Expr condition, Expr axis); // lower_bounds.cpp

} // namespace luminal::kernel
