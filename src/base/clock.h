// base/clock.h -- how long something takes.
#pragma once
#include <chrono>

namespace luminal {

/// Seconds of a clock that never goes back, from a moment of its own: differences mean something.
inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

} // namespace luminal
