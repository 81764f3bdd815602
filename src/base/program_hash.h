// base/program_hash.h -- which program this is: part of the keys of results that any change of the code may
// change.
#pragma once
#include "base/hash.h"
#include <optional>

namespace luminal {

/// Of the build identifier of the program or library that holds this code. Nothing where the linker gave it
/// none.
const std::optional<Hash128>& program_hash();

} // namespace luminal
