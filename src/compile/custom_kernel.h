// compile/custom_kernel.h -- private: kernels whose text is the user's.
#pragma once
#include "compile/plan_state.h"

namespace luminal::compile {

/// The kernel in the plan, which is added to it; none where the node is a host function
/// of its name. On this machine a custom kernel is loop IR (language "loops"), LLVM IR ("llvm"), or
/// the host function of its name.
Result<runtime::CodeId> custom_kernel(PlanState& state, const Function& f, NodeId node);

} // namespace luminal::compile
