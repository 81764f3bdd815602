// codegen/c_like/portable_math.h -- elementary functions of f32 for languages that lack them, or whose own
// are less exact than the op table promises.
#pragma once
#include <optional>
#include <string_view>

namespace luminal::codegen {

/// The definition of lum_NAME_f32, in the C that all dialects share; it calls other functions of the
/// prelude. Nothing where there is no such function.
std::optional<std::string_view> portable_function(std::string_view name);

} // namespace luminal::codegen
