// device/opencl/opencl_device.h -- a device of OpenCL 2.0 or later whose memory the host sees too
// (fine-grained buffers of shared virtual memory): code is OpenCL C, compiled when it is loaded.
#pragma once
#include "device/device.h"

namespace luminal::device {

/// One device of the machine, in the order in which platforms list them.
struct OpenClInfo {
  std::string name, version, driver; ///< "pthread-AMD EPYC ...", "OpenCL 3.0 ...", "3.1"
  int64_t memory_bytes = 0;
  bool f64 = false;
  std::string unusable; ///< why it cannot be used; empty: it can
};
/// Failure: there is no OpenCL here, or no device: why.
const Result<std::vector<OpenClInfo>>& opencl_devices();

/// Failure: there is no such device, or it cannot be used.
Result<std::unique_ptr<Device>> make_opencl_device(int number = 0);

namespace opencl {
struct Api;
/// The same with functions from elsewhere, which must outlive the device: for tests.
Result<std::vector<OpenClInfo>> list_devices(const Api& api);
Result<std::unique_ptr<Device>> make_device(const Api& api, int number);
} // namespace opencl

} // namespace luminal::device
