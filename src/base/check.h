// base/check.h -- LUMINAL_CHECK: a condition that only a bug of ours can break.
#pragma once
#include "luminal/error.h"
#include <fmt/core.h>
#include <string>

namespace luminal::detail {
[[noreturn]] void check_failed(const char* condition, const char* file, int line, const std::string& text);
}

/// LUMINAL_CHECK(n == 2, "fold {} has {} axes", name, n) throws InternalError with condition, place
/// and text.
#define LUMINAL_CHECK(condition, ...)                                                                        \
  do {                                                                                                       \
    if (!(condition)) [[unlikely]]                                                                           \
      ::luminal::detail::check_failed(#condition, __FILE__, __LINE__, ::fmt::format("" __VA_ARGS__));        \
  } while (0)
