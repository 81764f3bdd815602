// ir/interp_f64.cpp -- the interpreter in the mode `f64`.
#include "ir/interp_call.h"
#include "ir/interp_frame.h"
#include "ir/interp_step.h"

namespace luminal::interp {
template class Frame<F64Domain>;
} // namespace luminal::interp
