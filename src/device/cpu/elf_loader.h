// device/cpu/elf_loader.h -- puts relocatable ELF objects into memory, for objects that refer to
// nothing outside themselves.
#pragma once
#include "base/result.h"
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

namespace luminal::device {

/// Executable memory with the code of several objects.
class LoadedObjects {
public:
  LoadedObjects() = default;
  LoadedObjects(LoadedObjects&& other) noexcept;
  LoadedObjects& operator=(LoadedObjects&& other) noexcept;
  LoadedObjects(const LoadedObjects&) = delete;
  ~LoadedObjects();
  const std::vector<void*>& entries() const { return entries_; } ///< of each object, in order

private:
  friend struct ElfLoader;
  void* base_ = nullptr;
  size_t bytes_ = 0;
  std::vector<void*> entries_;
};

struct ElfObject {
  std::span<const std::byte> bytes;
  std::string_view entry; ///< the function that is wanted
};

/// One mapping for all: code pages are executable and not writable, constants read-only. Every
/// number in an object is checked before it is used. Failure: not an ELF object of this machine,
/// damaged, an unknown kind of relocation, a reference to the outside.
Result<LoadedObjects> load_elf(std::span<const ElfObject> objects);

} // namespace luminal::device
