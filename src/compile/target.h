// compile/target.h -- compiling for another processor than this one.
#pragma once
#include "compile/compile.h"

namespace luminal::compile {

/// "host", or a name that codegen knows, and "aarch64": schedules are made for caches as most of
/// its kind have them.
Result<Options> options_for_target(std::string_view name, int threads);

/// Has this processor a dot instruction of u8 times i8?
bool host_multiplies_bytes();

} // namespace luminal::compile
