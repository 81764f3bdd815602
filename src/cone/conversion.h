// cone/conversion.h -- private: loads whose numbers are converted as they are read.
#pragma once
#include "cone/formula.h"

namespace luminal::kernel {

/// The load that conversions alone stand above (or that the formula itself is), or null. Where it
/// reads nothing, both are zero.
const Formula* converted_load(const Formula& formula);

} // namespace luminal::kernel
