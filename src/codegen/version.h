// codegen/version.h -- the number of the code generator.
#pragma once

namespace luminal::codegen {

/// Changes whenever the code made from the same kernel for the same target may change: part of
/// every cache key.
inline constexpr int codegen_version = 47;

} // namespace luminal::codegen
