// compile/target.h -- compiling for another processor than this one.
#pragma once
#include "compile/compile.h"

namespace luminal::compile {

/// "host", or what CpuTarget::named knows, and "aarch64": schedules are made for caches as most of
/// its kind have them.
Result<Options> options_for_target(std::string_view name, int threads);

/// Has this processor a dot instruction of u8 times i8?
bool host_multiplies_bytes();

/// What a processor must have to run the code, for a program that asks it: words of GCC's
/// __builtin_cpu_supports on x86-64, of the system's HWCAP bits on AArch64 ("HWCAP_ASIMDDP").
std::vector<std::string> instructions_of(const codegen::CpuTarget& target);

} // namespace luminal::compile
