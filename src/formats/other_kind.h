// formats/other_kind.h -- what a file is that is not what was expected, by its first bytes.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>

namespace luminal {

/// "a text file", "a zip archive (.npz, .pt)"; empty: an unknown kind.
std::string_view other_kind(std::span<const std::byte> bytes);

} // namespace luminal
