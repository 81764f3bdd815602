// base/infinity.h -- the infinite double.
#pragma once
#include <limits>

namespace luminal {

inline constexpr double infinity = std::numeric_limits<double>::infinity();

} // namespace luminal
