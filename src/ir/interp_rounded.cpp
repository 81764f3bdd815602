// ir/interp_rounded.cpp -- the interpreter in the mode `rounded`.
#include "ir/interp_frame.h"

namespace luminal::interp {
template class Frame<RoundedDomain>;
} // namespace luminal::interp
