// ir/interp_bounded.cpp -- the interpreter in the mode `bounded`.
#include "ir/interp_frame.h"

namespace luminal::interp {
template class Frame<BoundedDomain>;
} // namespace luminal::interp
