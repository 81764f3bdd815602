// device/fake_gpus.h -- the libraries of device/fake in a test's process: what they shall pretend, what they
// have been asked for.
#pragma once
#include "device/gpu/gpu_device.h"
#include <cstdlib>
#include <dlfcn.h>
#include <string>

namespace luminal::device {

class FakeGpu {
public:
  explicit FakeGpu(bool is_hip)
      : vendor(is_hip ? gpu::hip : gpu::cuda), path(is_hip ? FAKE_HIP_LIBRARY : FAKE_CUDA_LIBRARY) {
    library_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    live_ = reinterpret_cast<int (*)()>(dlsym(library_, "fake_live"));
    log_ = reinterpret_cast<const char* (*)()>(dlsym(library_, "fake_log"));
    setenv("LUMINAL_NO_CACHE", "1", 1); // code on disk would outlive the library that runs it
    pretend(""), fail("");
    log();
  }
  FakeGpu(const FakeGpu&) = delete;
  ~FakeGpu() {
    pretend(""), fail("");
    dlclose(library_);
  }
  void pretend(const char* what) const { setenv("FAKE_GPU", what, 1); }
  void fail(const std::string& what) const { setenv("FAKE_GPU_FAIL", what.c_str(), 1); }
  int live() const {
    return live_();
  } ///< contexts, streams, memory, modules, programs that are not given back
  std::string log() const { return log_(); }

  const gpu::Vendor& vendor;
  const std::string path;

private:
  void* library_;
  int (*live_)();
  const char* (*log_)();
};

} // namespace luminal::device
