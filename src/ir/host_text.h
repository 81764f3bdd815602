// ir/host_text.h -- what the host effects print and diff write: one line, the same from a plan and
// from the interpreter.
#pragma once
#include "ir/dtype.h"
#include <span>
#include <string>
#include <string_view>

namespace luminal {

/// Effects that pass their first input on: print, diff, dump, compare. Their result is the input
/// itself, not a copy.
bool passes_input_on(std::string_view host_kind);

/// One element: integers in full, bool as true and false, floats with `precision` significant
/// digits.
std::string element_text(DType type, const std::byte* data, int64_t index, int precision = 6);

/// "x: f32[1000], 1000 values: 0 1 2 3 4 ... 498 499 500 501 502 ... 995 996 997 998 999". Reads
/// what it shows and no more.
std::string printed_values(std::string_view label, DType type, std::span<const int64_t> shape,
                           const std::byte* data);
/// "label: largest difference 0.5"; NaN where one side only is NaN.
std::string printed_difference(std::string_view label, DType type, int64_t count, const std::byte* a,
                               const std::byte* b);

} // namespace luminal
