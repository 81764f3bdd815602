// device/opencl/opencl_api.h -- the functions of libOpenCL that are used, declared here and found at run
// time: nothing of OpenCL is needed to build, and machines without it run the rest.
//
// Handles are pointers, numbers have the widths of the specification (OpenCL 3.0 API, section 1).
#pragma once
#include "base/result.h"
#include <cstddef>
#include <cstdint>
#include <string>

namespace luminal::device::opencl {

using Handle = void*;
using Notify = void (*)(Handle, void*);

struct Api {
  int32_t (*clGetPlatformIDs)(uint32_t, Handle*, uint32_t*);
  int32_t (*clGetDeviceIDs)(Handle, uint64_t, uint32_t, Handle*, uint32_t*);
  int32_t (*clGetDeviceInfo)(Handle, uint32_t, size_t, void*, size_t*);
  Handle (*clCreateContext)(const intptr_t*, uint32_t, const Handle*,
                            void (*)(const char*, const void*, size_t, void*), void*, int32_t*);
  int32_t (*clReleaseContext)(Handle);
  Handle (*clCreateCommandQueue)(Handle, Handle, uint64_t, int32_t*);
  int32_t (*clReleaseCommandQueue)(Handle);
  Handle (*clCreateProgramWithSource)(Handle, uint32_t, const char**, const size_t*, int32_t*);
  int32_t (*clBuildProgram)(Handle, uint32_t, const Handle*, const char*, Notify, void*);
  int32_t (*clGetProgramBuildInfo)(Handle, Handle, uint32_t, size_t, void*, size_t*);
  int32_t (*clReleaseProgram)(Handle);
  Handle (*clCreateKernel)(Handle, const char*, int32_t*);
  int32_t (*clReleaseKernel)(Handle);
  int32_t (*clSetKernelArg)(Handle, uint32_t, size_t, const void*);
  int32_t (*clSetKernelArgSVMPointer)(Handle, uint32_t, const void*);
  int32_t (*clEnqueueNDRangeKernel)(Handle, Handle, uint32_t, const size_t*, const size_t*, const size_t*,
                                    uint32_t, const Handle*, Handle*);
  int32_t (*clFinish)(Handle);
  void* (*clSVMAlloc)(Handle, uint64_t, size_t, uint32_t);
  void (*clSVMFree)(Handle, void*);
};

/// Failure: there is no such library, or a function is missing in it.
Result<Api> open_api(const std::string& library);
/// Opened once in a process: libOpenCL.so.1, or what LUMINAL_OPENCL names.
const Result<Api>& api();
/// "CL_OUT_OF_RESOURCES (-5)"
std::string error_name(int32_t code);

// Names of the specification.
inline constexpr int32_t success = 0;
inline constexpr uint64_t all_devices = 0xFFFFFFFF, type_cpu = 1 << 1;
inline constexpr uint32_t device_type = 0x1000, max_compute_units = 0x1002, max_work_group_size = 0x1004,
                          max_alloc_size = 0x1010, global_mem_size = 0x101F, local_mem_size = 0x1023,
                          device_name = 0x102B, driver_version = 0x102D, device_version = 0x102F,
                          double_config = 0x1032, svm_capabilities = 0x1053, program_build_log = 0x1183;
inline constexpr uint64_t svm_fine_grain_buffer = 1 << 1;                    // of the device
inline constexpr uint64_t mem_read_write = 1 << 0, mem_fine_grain = 1 << 10; // of an allocation

} // namespace luminal::device::opencl
