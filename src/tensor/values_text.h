// tensor/values_text.h -- numbers as people read them.
#pragma once
#include "ir/dtype.h"
#include "luminal/debug.h"
#include <span>
#include <vector>

namespace luminal {

/// Nested brackets, cut where there are many elements. Looks at no more elements than it shows.
std::string values_text(DType type, std::span<const int64_t> extents, std::span<const std::byte> bytes,
                        const PrintOptions& options);

} // namespace luminal
