// ir/user_ops.h -- all operations that the process has registered.
#pragma once
#include "ir/ops.h"
#include <string_view>
#include <vector>

namespace luminal {

/// By name. The pointers stay valid.
std::vector<const UserOp*> user_ops();
/// It was never registered. (Pointers to it stay valid all the same.)
void forget_op(std::string_view name);
/// Types of the arguments for which the operation has a result and a value.
std::vector<DType> argument_types(const UserOp& op);

} // namespace luminal
