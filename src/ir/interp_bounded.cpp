// ir/interp_bounded.cpp -- the interpreter in the mode `bounded`.
#include "ir/interp_call.h"
#include "ir/interp_frame.h"
#include "ir/interp_step.h"

namespace luminal::interp {
template class Frame<BoundedDomain>;
} // namespace luminal::interp
