// device/opencl/opencl_api.cpp -- opens libOpenCL.
#include "device/opencl/opencl_api.h"
#include "base/settings.h"
#include <array>
#include <dlfcn.h>
#include <fmt/format.h>
#include <utility>

namespace luminal::device::opencl {

Result<Api> open_api(const std::string& name) {
  void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return Failure{fmt::format("OpenCL cannot be used: {}", dlerror())};
  Api api{};
  std::string missing;
  const auto find = [&](auto& function, const char* symbol) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, symbol));
    if (!function && missing.empty()) missing = symbol;
  };
  find(api.clGetPlatformIDs, "clGetPlatformIDs");
  find(api.clGetDeviceIDs, "clGetDeviceIDs");
  find(api.clGetDeviceInfo, "clGetDeviceInfo");
  find(api.clCreateContext, "clCreateContext");
  find(api.clReleaseContext, "clReleaseContext");
  find(api.clCreateCommandQueue, "clCreateCommandQueue");
  find(api.clReleaseCommandQueue, "clReleaseCommandQueue");
  find(api.clCreateProgramWithSource, "clCreateProgramWithSource");
  find(api.clBuildProgram, "clBuildProgram");
  find(api.clGetProgramBuildInfo, "clGetProgramBuildInfo");
  find(api.clReleaseProgram, "clReleaseProgram");
  find(api.clCreateKernel, "clCreateKernel");
  find(api.clReleaseKernel, "clReleaseKernel");
  find(api.clSetKernelArg, "clSetKernelArg");
  find(api.clSetKernelArgSVMPointer, "clSetKernelArgSVMPointer");
  find(api.clEnqueueNDRangeKernel, "clEnqueueNDRangeKernel");
  find(api.clFinish, "clFinish");
  find(api.clSVMAlloc, "clSVMAlloc");
  find(api.clSVMFree, "clSVMFree");
  if (!missing.empty())
    return Failure{
        fmt::format("OpenCL cannot be used: {} has no {} (OpenCL 2.0 or later is needed)", name, missing)};
  return api;
}

const Result<Api>& api() {
  static const Result<Api> opened = [] {
    const std::string own = setting_text("LUMINAL_OPENCL");
    return open_api(own.empty() ? "libOpenCL.so.1" : own);
  }();
  return opened;
}

std::string error_name(int32_t code) {
  static constexpr std::pair<int32_t, const char*> names[] = {
      {-1, "CL_DEVICE_NOT_FOUND"},         {-2, "CL_DEVICE_NOT_AVAILABLE"},
      {-3, "CL_COMPILER_NOT_AVAILABLE"},   {-4, "CL_MEM_OBJECT_ALLOCATION_FAILURE"},
      {-5, "CL_OUT_OF_RESOURCES"},         {-6, "CL_OUT_OF_HOST_MEMORY"},
      {-11, "CL_BUILD_PROGRAM_FAILURE"},   {-30, "CL_INVALID_VALUE"},
      {-33, "CL_INVALID_DEVICE"},          {-36, "CL_INVALID_COMMAND_QUEUE"},
      {-46, "CL_INVALID_KERNEL_NAME"},     {-49, "CL_INVALID_ARG_INDEX"},
      {-50, "CL_INVALID_ARG_VALUE"},       {-51, "CL_INVALID_ARG_SIZE"},
      {-52, "CL_INVALID_KERNEL_ARGS"},     {-54, "CL_INVALID_WORK_GROUP_SIZE"},
      {-1001, "CL_PLATFORM_NOT_FOUND_KHR"}};
  for (const auto& [number, name] : names)
    if (number == code) return fmt::format("{} ({})", name, code);
  return fmt::format("error {}", code);
}

} // namespace luminal::device::opencl
