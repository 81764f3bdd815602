// compile/custom_kernel.h -- private: kernels whose text is the user's.
#pragma once
#include "compile/plan_state.h"

namespace luminal::compile {

/// The number of the kernel in the plan, which is added to it; -1 where the node is a host function
/// of its name. On this machine a custom kernel is loop IR (language "loops"), LLVM IR ("llvm"), or
/// the host function of its name.
Result<int> custom_kernel(PlanState& state, const Function& f, NodeId node);

} // namespace luminal::compile
