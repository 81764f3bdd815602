// device/device.h -- what a device can do: memory, loading of code that others made, launching. It
// knows nothing of kernels' contents.
#pragma once
#include "base/id.h"
#include "base/result.h"
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::device {

struct Limits {
  int64_t memory_bytes = 0; ///< that a program can hope for
  int workers = 1;          ///< of a launch: threads (CPU), resident blocks (GPU)
  int64_t alignment = 64;   ///< of every allocation, at least
  /// `Memory::data` may be read and written by the host, after synchronize(). False: by copies only.
  bool host_visible = true;
  /// Launches may be given addresses of any memory of the host; false: of what was allocated here.
  bool reads_host = true;
};

/// A block of device memory. Plain data: the device that gave it takes it back.
struct Memory {
  void* data = nullptr; ///< address on the device; no address of the host's is the same
  int64_t bytes = 0;    ///< usable
  uint64_t handle = 0;  ///< of the device
};

struct AllocateOptions {
  int64_t alignment = 64;  ///< a power of two
  bool huge_pages = false; ///< ask for 2 MiB pages; no failure where there are none
  bool zero = true;        ///< contents are zero; false: anything
};

/// One function of loaded code; valid until its module is unloaded.
using KernelId = Id<struct KernelTag>;
using ModuleId = Id<struct ModuleTag>;

/// How a kernel wants its threads (GPUs).
struct Threads {
  int lanes = 1;          ///< of a group
  int phases = 1;         ///< functions ENTRY, ENTRY_1, ...: launched one after the other
  bool grouped = false;   ///< a worker is a group, else a thread
  bool one_group = false; ///< all threads are of one group
  bool shared = false;    ///< takes the address of the launch's scratch
  int group_bytes = 0;    ///< memory of each group that the launch provides
  bool operator==(const Threads&) const = default;
};

/// Code to load: an object (CPU), cubin, text, ... and the functions in it that will be launched.
struct Code {
  std::span<const std::byte> object;
  std::string_view entry;
  Threads threads = {};
};
struct Loaded {
  ModuleId module;
  std::vector<KernelId> kernels; ///< of each Code, in order
};

struct LaunchArguments {
  std::span<void* const> buffers;   ///< addresses, in order of the kernel's global buffers
  std::span<const int64_t> symbols; ///< values, in order of the kernel's symbols
  char* shared = nullptr;           ///< scratch of the launch, aligned to 64 bytes
  char* local = nullptr;            ///< scratch of worker w: local + w * local_stride
  int64_t local_stride = 0;         ///< bytes, a multiple of 64
  int workers = 0;                  ///< at most; 0: all
  bool barriers = true;             ///< workers wait for each other, so they have to run at the same time
  double work_us = 1e6;             ///< that the launch takes on one worker, as far as it is known
  /// More parts than workers (without barriers): taken one after the other, `after_part` called
  /// after each by whoever took it.
  int parts = 0;
  std::function<void()> after_part = {};
  /// Asked before each part; true: what is left of the launch is not begun.
  const std::function<bool()>* stop = nullptr;
};

class Device {
public:
  virtual ~Device() = default;
  virtual std::string_view name() const = 0;        ///< "cpu", "cuda:0"
  virtual std::string_view description() const = 0; ///< "AMD EPYC 9354, 2 threads"
  virtual const Limits& limits() const = 0;

  /// Address space at once, pages when they are touched. Failure: "cpu: cannot allocate 12.0 GiB:
  /// ...".
  virtual Result<Memory> allocate(int64_t bytes, const AllocateOptions& options = {}) = 0;
  virtual void free(Memory memory) noexcept = 0;
  /// Gives the pages of a range back; it reads as zero afterwards.
  virtual void decommit(Memory memory, int64_t offset, int64_t bytes) noexcept = 0;
  /// Does the address lie in memory that was allocated here?
  virtual bool holds(const void* address) const = 0;

  // Copies, in order with launches. Addresses of the device may lie anywhere inside of an allocation.
  /// From the host, which may change `from` on return.
  virtual Result<void> copy_in(void* to, std::span<const std::byte> from) = 0;
  /// To the host: what all launches before have made, there on return.
  virtual Result<void> copy_out(std::span<std::byte> to, const void* from) = 0;
  /// Inside of the device, between ranges that do not overlap.
  virtual Result<void> copy(void* to, const void* from, int64_t bytes) = 0;
  virtual Result<void> zero(void* to, int64_t bytes) = 0;

  /// Failure: the code is not for this device, is damaged, or refers to what is not in it.
  virtual Result<Loaded> load(std::span<const Code> code) = 0;
  virtual void unload(ModuleId module) noexcept = 0;
  /// Starts the kernel; it may still run on return (see synchronize). Kernels of one device run in
  /// order.
  virtual Result<void> launch(KernelId kernel, const LaunchArguments& arguments) = 0;
  virtual Result<void> synchronize() = 0;
};

} // namespace luminal::device
