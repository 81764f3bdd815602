// loop/loop_bounds.h -- the check of loop IR that somebody else wrote.
#pragma once
#include "loop/loop.h"

namespace luminal::kernel {

/// As verify; an access that is not proved to lie inside its buffer is a mistake, too.
std::vector<std::string> verify_with_bounds(const Kernel& kernel);

} // namespace luminal::kernel
