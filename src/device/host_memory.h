// device/host_memory.h -- memory of the host, for devices that use it: address space at once, pages
// when they are touched.
#pragma once
#include "device/device.h"
#include <map>
#include <mutex>

namespace luminal::device {

/// What this process may hope for: physical memory, or the limit of its control group where that is
/// lower.
int64_t usable_memory();

class HostMemory {
public:
  ~HostMemory();
  Result<Memory> allocate(std::string_view device, int64_t bytes, const AllocateOptions& options);
  void free(Memory memory) noexcept;
  void decommit(Memory memory, int64_t offset, int64_t bytes) noexcept;
  static Result<void> write(std::string_view device, Memory to, int64_t offset,
                            std::span<const std::byte> from);
  static Result<void> read(std::string_view device, std::span<std::byte> to, Memory from, int64_t offset);
  int64_t reserved() const; ///< bytes of address space

private:
  struct Mapping {
    void* base;
    size_t bytes;
  };
  mutable std::mutex mutex_;
  std::map<uint64_t, Mapping> mappings_;
  uint64_t next_ = 1;
};

} // namespace luminal::device
