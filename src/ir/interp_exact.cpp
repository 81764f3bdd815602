// ir/interp_exact.cpp -- the interpreter in the mode `exact`.
#include "ir/interp_call.h"
#include "ir/interp_frame.h"
#include "ir/interp_step.h"

namespace luminal::interp {
template class Frame<ExactDomain>;
} // namespace luminal::interp
