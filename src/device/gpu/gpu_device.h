// device/gpu/gpu_device.h -- devices of CUDA and HIP: code is text, compiled by NVRTC or hiprtc when it is
// loaded. Memory is the device's own, which the host reaches by copies only.
#pragma once
#include "device/device.h"
#include "device/gpu/gpu_api.h"

namespace luminal::device {

/// One device of the machine, in the driver's order.
struct GpuInfo {
  std::string name, architecture, driver; ///< "NVIDIA H200", "sm_90", "CUDA 12.4"
  int64_t memory_bytes = 0;
  std::string unusable; ///< why it cannot be used; empty: it can
};

/// Looked for once in a process. Failure: there is no driver, or no device: why.
const Result<std::vector<GpuInfo>>& gpu_devices(const gpu::Vendor& vendor);
/// Failure: there is no such device, it cannot be used, or there is no compiler for it.
Result<std::unique_ptr<Device>> make_gpu_device(const gpu::Vendor& vendor, int place);

namespace gpu {
/// The same with a driver and a compiler from elsewhere, which must outlive the device: for tests.
Result<std::vector<GpuInfo>> list_devices(const Vendor& vendor, const Driver& driver);
Result<std::unique_ptr<Device>> make_device(const Vendor& vendor, const Driver& driver,
                                            const Compiler& compiler, int place);
} // namespace gpu

} // namespace luminal::device
