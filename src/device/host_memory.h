// device/host_memory.h -- memory of the host, for devices that use it: address space at once, pages
// when they are touched.
#pragma once
#include "device/device.h"
#include <cstring>
#include <map>
#include <mutex>

namespace luminal::device {

inline uint64_t rounded_up(uint64_t x, uint64_t to) { return (x + to - 1) / to * to; }

/// What this process may hope for: physical memory, or the limit of its control group where that is
/// lower.
int64_t usable_memory();

class HostMemory {
public:
  ~HostMemory();
  Result<Memory> allocate(std::string_view device, int64_t bytes, const AllocateOptions& options);
  void free(Memory memory) noexcept;
  void decommit(Memory memory, int64_t offset, int64_t bytes) noexcept;
  bool holds(const void* address) const;
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

/// Copies of a device whose memory the host sees: after what was launched before.
template <class Base> class HostCopies : public Base {
public:
  Result<void> copy_in(void* to, std::span<const std::byte> from) override {
    return copy(to, from.data(), int64_t(from.size()));
  }
  Result<void> copy_out(std::span<std::byte> to, const void* from) override {
    return copy(to.data(), from, int64_t(to.size()));
  }
  Result<void> copy(void* to, const void* from, int64_t bytes) override {
    if (auto waited = this->synchronize(); !waited) return waited;
    if (bytes > 0 && to != from) std::memcpy(to, from, size_t(bytes));
    return {};
  }
  Result<void> zero(void* to, int64_t bytes) override {
    if (auto waited = this->synchronize(); !waited) return waited;
    if (bytes > 0) std::memset(to, 0, size_t(bytes));
    return {};
  }
};

} // namespace luminal::device
