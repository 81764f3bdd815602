// ir/interp_exact.cpp -- the interpreter in the mode `exact`.
#include "ir/interp_frame.h"

namespace luminal::interp {
template class Frame<ExactDomain>;
} // namespace luminal::interp
