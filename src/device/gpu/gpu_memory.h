// device/gpu/gpu_memory.h -- memory of a GPU: a pool of blocks, and copies from and to the host through
// pinned memory.
#pragma once
#include "device/gpu/gpu_api.h"
#include <array>
#include <map>
#include <mutex>
#include <span>

namespace luminal::device::gpu {

/// All on one stream, in order. The caller has made the device the current one of its thread. Any thread
/// may call.
class GpuMemory {
public:
  /// What the driver said to the call that failed.
  struct Outcome {
    int code = 0;          ///< 0: all went well
    const char* what = ""; ///< what was called; empty: a wait, so work from before has failed
    bool failed() const { return code != 0; }
  };

  explicit GpuMemory(const Driver& driver) : d_(driver) {}
  GpuMemory(const GpuMemory&) = delete;
  void open(Handle stream, int64_t device_bytes);
  /// Gives everything back, allocations that nobody freed too.
  void close() noexcept;

  /// Blocks that were freed are used again where they are at most an eighth too large. Where the device
  /// has no room all of them are given back and it is asked once more.
  Outcome allocate(void** address, int64_t bytes);
  /// The block is kept for later, up to an eighth of the device's memory and 2 GiB. What was launched
  /// before may still use it. False: it was not allocated here.
  bool free(void* address) noexcept;
  /// Do all these bytes lie in one allocation?
  bool holds(const void* address, int64_t bytes = 1) const;
  int64_t in_use() const; ///< bytes of allocations, as they were rounded up

  Outcome copy_in(void* to, std::span<const std::byte> from);
  Outcome copy_out(std::span<std::byte> to, const void* from);
  Outcome copy(void* to, const void* from, int64_t bytes);
  Outcome zero(void* to, int64_t bytes);

  /// What an allocation of so many bytes takes: less than an eighth more, less than 2 MiB more.
  static int64_t block_bytes(int64_t bytes);
  static constexpr int64_t half_bytes = int64_t(4) << 20; ///< of pinned memory, twice

private:
  /// While one half is copied by the device, the processor fills or empties the other one.
  struct Half {
    std::byte* memory = nullptr;
    Handle event = nullptr; // when its copies are done
    int64_t used = 0;       // bytes that the device was told to copy from it
    bool recorded = false;  // the event stands behind all of them
  };
  struct Kept {
    void* address = nullptr;
    uint64_t age = 0; // smaller: freed earlier
  };

  Outcome prepare_halves();
  void drop_oldest() noexcept;
  void drop_kept() noexcept;
  void forget_copies();

  const Driver& d_;
  Handle stream_ = nullptr;
  int64_t most_kept_ = 0;
  mutable std::mutex mutex_;          // of blocks
  std::map<void*, int64_t> blocks_;   // in use
  std::multimap<int64_t, Kept> kept_; // by size
  int64_t in_use_ = 0, kept_bytes_ = 0;
  uint64_t freed_ = 0;
  std::mutex copying_; // of the halves
  std::array<Half, 2> halves_;
  size_t filling_ = 0; // the half that copies to the device go through now
};

} // namespace luminal::device::gpu
