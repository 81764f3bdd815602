// device/cpu/jit_loader.h -- LLVM's linker in the process, for objects that the own loader does not
// take (Mach-O, other relocations).
#pragma once
#include "device/cpu/elf_loader.h"
#include <memory>

namespace luminal::device {

class JitObjects {
public:
  virtual ~JitObjects() = default;
  virtual const std::vector<void*>& entries() const = 0;
};

/// Failure: LLVM's own words.
Result<std::unique_ptr<JitObjects>> load_with_llvm(std::span<const ElfObject> objects);

} // namespace luminal::device
