// device/gpu_host.h -- what tests of CUDA's and HIP's host side begin from: a device on the libraries of
// device/fake. All has to be given back at the end of each.
#pragma once
#include "device/fake_gpus.h"
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace luminal::device {

template <class T> std::string error_of(const Result<T>& result) {
  return result ? "accepted" : result.error();
}

/// The parameter: is it HIP?
class GpuHost : public testing::TestWithParam<bool> {
protected:
  GpuHost() : fake_(GetParam()) {}
  ~GpuHost() override {
    fake_.fail("");
    EXPECT_EQ(fake_.live(), 0) << "not everything was given back";
  }
  std::unique_ptr<Device> device() { return gpu::make_device(fake_.vendor, driver_, compiler_, 0).value(); }
  std::string language() const { return fake_.vendor.language; }
  /// The CUDA name of a function, or HIP's.
  std::string named(const char* in_cuda, const char* in_hip) const { return GetParam() ? in_hip : in_cuda; }
  void fail(const char* in_cuda, const char* in_hip, int code) {
    fake_.fail(fmt::format("{}={}", named(in_cuda, in_hip), code));
  }
  static Code code(std::string_view text, Threads threads = {.lanes = 64}) {
    return {std::as_bytes(std::span(text)), "k", threads};
  }
  std::string memory_error() const {
    return named("CUDA_ERROR_OUT_OF_MEMORY (2)", "hipErrorOutOfMemory (2)") +
           ": end other programs that hold its memory, or run a smaller model or context";
  }

  FakeGpu fake_;
  gpu::Driver driver_ = gpu::open_driver(fake_.vendor, fake_.path).value();
  gpu::Compiler compiler_ = gpu::open_compiler(fake_.vendor, fake_.path).value();
};

} // namespace luminal::device
