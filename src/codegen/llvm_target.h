// codegen/llvm_target.h -- LLVM's machine for a CpuTarget. Internal to codegen.
#pragma once
#include "codegen/codegen.h"
#include <llvm/Config/llvm-config.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Target/TargetMachine.h>
#include <llvm/Target/TargetOptions.h>
#include <llvm/TargetParser/Host.h>
#include <llvm/TargetParser/Triple.h>
#include <memory>

namespace luminal::codegen {

/// level: effort of the code generator, 0..3. Initialises LLVM's targets on the first call.
Result<std::unique_ptr<llvm::TargetMachine>> make_target_machine(const CpuTarget& target, int level);

} // namespace luminal::codegen
