// base/stack.h -- recursion that follows its input ends with an Error, never with the end of the
// stack.
#pragma once

namespace luminal {

/// Less than an eighth of this thread's stack (and less than 256 KiB) is left.
bool stack_is_low();

} // namespace luminal
