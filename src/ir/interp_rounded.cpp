// ir/interp_rounded.cpp -- the interpreter in the mode `rounded`.
#include "ir/interp_call.h"
#include "ir/interp_frame.h"
#include "ir/interp_step.h"

namespace luminal::interp {
template class Frame<RoundedDomain>;
} // namespace luminal::interp
