// device/cpu/cpu_device.h -- this machine's processor: objects are loaded into the process,
// launches run on a thread pool.
#pragma once
#include "device/device.h"

namespace luminal {
class ThreadPool;
}

namespace luminal::device {

/// What codegen's objects define. All workers of a launch run at once where the kernel has
/// barriers.
using CpuFunction = void (*)(void* const* buffers, const int64_t* symbols, char* shared, char* local,
                             int64_t worker, int64_t workers, void* barrier_context, void (*barrier)(void*));

class CpuDevice : public Device {
public:
  /// For callers that run whole plans inside one parallel region: the address itself.
  virtual CpuFunction function(KernelId kernel) const = 0;
  virtual ThreadPool& pool() const = 0;
};

/// The pool must outlive the device. Any number of devices may share one pool; launches then take
/// turns.
std::unique_ptr<CpuDevice> make_cpu_device(ThreadPool& pool);

} // namespace luminal::device
