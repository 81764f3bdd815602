// device/gpu/gpu_api.cpp -- names of functions in CUDA and HIP; their libraries are opened here.
#include "device/gpu/gpu_api.h"
#include "base/settings.h"
#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <fmt/format.h>

namespace luminal::device::gpu {

const Vendor cuda = {
    .language = "cuda",
    .title = "CUDA",
    .is_hip = false,
    .driver_setting = "LUMINAL_CUDA",
    .compiler_setting = "LUMINAL_NVRTC",
    .drivers = {"libcuda.so.1"},
    .compilers = {"libnvrtc.so.13", "libnvrtc.so.12", "/usr/local/cuda/lib64/libnvrtc.so"},
    .driver_missing = "install NVIDIA's driver, or name its library in LUMINAL_CUDA",
    .compiler_missing = "install NVRTC of CUDA 12 or 13 (PyPI has it as nvidia-cuda-nvrtc-cu12), or name its "
                        "library in LUMINAL_NVRTC",
    .compiler_title = "NVRTC",
    .version_divisor = 1000,
    .minor_divisor = 10,
    .max_threads = 1,
    .multiprocessors = 16,
    .group_bytes = 97,
    .options = {"--std=c++17", "--fmad=false"},
    .find_failing = "CUDA_LAUNCH_BLOCKING=1",
};
const Vendor hip = {
    .language = "hip",
    .title = "HIP",
    .is_hip = true,
    .driver_setting = "LUMINAL_HIP",
    .compiler_setting = "LUMINAL_HIPRTC",
    .drivers = {"libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5", "libamdhip64.so"},
    .compilers = {"libhiprtc.so.7", "libhiprtc.so.6", "libamdhip64.so.5", "libhiprtc.so"},
    .driver_missing = "install ROCm 5 or later, or name its libamdhip64.so in LUMINAL_HIP",
    .compiler_missing = "install hiprtc of ROCm 5 or later, or name its library in LUMINAL_HIPRTC",
    .compiler_title = "hiprtc",
    .version_divisor = 10000000,
    .minor_divisor = 100000,
    .max_threads = 56,
    .multiprocessors = 63,
    .group_bytes = 74,
    .options = {"-O3", "-ffp-contract=off"},
    .find_failing = "AMD_SERIALIZE_KERNEL=3",
};

namespace {

/// Finds functions under the vendor's names. "": the vendor has none.
class Symbols {
public:
  Symbols(const Vendor& vendor, void* library) : vendor_(vendor), library_(library) {}
  template <class F> void find(F& function, const char* in_cuda, const char* in_hip) {
    const std::string name = vendor_.is_hip ? in_hip : in_cuda;
    if (name.empty()) return;
    function = reinterpret_cast<F>(dlsym(library_, name.c_str()));
    if (!function && missing.empty()) missing = name;
  }
  std::string missing;

private:
  const Vendor& vendor_;
  void* library_;
};

std::string what_to_do(int code) {
  switch (code) {
  case 2: return ": end other programs that hold its memory, or run a smaller model or context";
  case 34: return ": this is the toolkit's stub of the driver; take its folder out of LD_LIBRARY_PATH";
  case 35: return ": the driver is older than the library; update the driver";
  case 100:
  case 101: return ": the driver finds no such device"; // HIP says 101 where there is none
  case 209: return ": the code is not for this device";
  case 222: return ": the driver is older than NVRTC and this device newer than NVRTC knows; update both";
  case 702: return ": the kernel ran longer than the system allows on a device that drives a display";
  case 803: return ": the driver was updated and its old kernel module still runs; restart the machine";
  case 804: return ": the compatibility libraries of the toolkit do not fit this device; take them away";
  default: return "";
  }
}

Result<void*> open(const std::string& library, std::string_view title, const char* to_do) {
  if (void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) return handle;
  return Failure{fmt::format("{} cannot be used: {}; {}", title, dlerror(), to_do)};
}

} // namespace

Result<Driver> open_driver(const Vendor& vendor, const std::string& library) {
  const auto handle = open(library, vendor.title, vendor.driver_missing);
  if (!handle) return handle.failure();
  Driver d{};
  Symbols s(vendor, *handle);
  s.find(d.init, "cuInit", "hipInit");
  s.find(d.version, "cuDriverGetVersion", "hipDriverGetVersion");
  s.find(d.device_count, "cuDeviceGetCount", "hipGetDeviceCount");
  s.find(d.device, "cuDeviceGet", "hipDeviceGet");
  s.find(d.name, "cuDeviceGetName", "hipDeviceGetName");
  s.find(d.memory, "cuDeviceTotalMem_v2", "hipDeviceTotalMem");
  s.find(d.attribute, "cuDeviceGetAttribute", "hipDeviceGetAttribute");
  s.find(d.retain, "cuDevicePrimaryCtxRetain", "");
  s.find(d.release, "cuDevicePrimaryCtxRelease_v2", "");
  s.find(d.use_context, "cuCtxSetCurrent", "");
  s.find(d.use_device, "", "hipSetDevice");
  // The struct has changed: from ROCm 6 on it has a name of its own.
  const bool renamed = dlsym(*handle, "hipGetDevicePropertiesR0600") != nullptr;
  s.find(d.properties, "", renamed ? "hipGetDevicePropertiesR0600" : "hipGetDeviceProperties");
  s.find(d.allocate, "cuMemAlloc_v2", "hipMalloc");
  s.find(d.free, "cuMemFree_v2", "hipFree");
  s.find(d.free_bytes, "cuMemGetInfo_v2", "hipMemGetInfo");
  s.find(d.allocate_pinned, "cuMemHostAlloc", "hipHostMalloc");
  s.find(d.free_pinned, "cuMemFreeHost", "hipHostFree");
  s.find(d.fill, "cuMemsetD8Async", "hipMemsetD8Async");
  s.find(d.to_device, "cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync");
  s.find(d.to_host, "cuMemcpyDtoHAsync_v2", "hipMemcpyDtoHAsync");
  s.find(d.copy, "cuMemcpyDtoDAsync_v2", "hipMemcpyDtoDAsync");
  s.find(d.make_stream, "cuStreamCreate", "hipStreamCreateWithFlags");
  s.find(d.end_stream, "cuStreamDestroy_v2", "hipStreamDestroy");
  s.find(d.wait, "cuStreamSynchronize", "hipStreamSynchronize");
  s.find(d.make_event, "cuEventCreate", "hipEventCreateWithFlags");
  s.find(d.end_event, "cuEventDestroy_v2", "hipEventDestroy");
  s.find(d.record, "cuEventRecord", "hipEventRecord");
  s.find(d.wait_event, "cuEventSynchronize", "hipEventSynchronize");
  s.find(d.load, "cuModuleLoadData", "hipModuleLoadData");
  s.find(d.unload, "cuModuleUnload", "hipModuleUnload");
  s.find(d.function, "cuModuleGetFunction", "hipModuleGetFunction");
  s.find(d.function_attribute, "cuFuncSetAttribute", "");
  s.find(d.launch, "cuLaunchKernel", "hipModuleLaunchKernel");
  s.find(d.cuda_error_name, "cuGetErrorName", "");
  s.find(d.hip_error_name, "", "hipGetErrorName");
  if (!s.missing.empty())
    return Failure{fmt::format("{} cannot be used: {} has no {}; {}", vendor.title, library, s.missing,
                               vendor.driver_missing)};
  return d;
}

Result<Compiler> open_compiler(const Vendor& vendor, const std::string& library) {
  const auto handle = open(library, vendor.compiler_title, vendor.compiler_missing);
  if (!handle) return handle.failure();
  Compiler c{};
  Symbols s(vendor, *handle);
  s.find(c.version, "nvrtcVersion", "hiprtcVersion");
  s.find(c.architecture_count, "nvrtcGetNumSupportedArchs", "");
  s.find(c.architecture_list, "nvrtcGetSupportedArchs", "");
  s.find(c.create, "nvrtcCreateProgram", "hiprtcCreateProgram");
  s.find(c.compile, "nvrtcCompileProgram", "hiprtcCompileProgram");
  s.find(c.code_bytes, "nvrtcGetCUBINSize", "hiprtcGetCodeSize");
  s.find(c.code, "nvrtcGetCUBIN", "hiprtcGetCode");
  s.find(c.ptx_bytes, "nvrtcGetPTXSize", "");
  s.find(c.ptx, "nvrtcGetPTX", "");
  s.find(c.log_bytes, "nvrtcGetProgramLogSize", "hiprtcGetProgramLogSize");
  s.find(c.log, "nvrtcGetProgramLog", "hiprtcGetProgramLog");
  s.find(c.destroy, "nvrtcDestroyProgram", "hiprtcDestroyProgram");
  s.find(c.error_name, "nvrtcGetErrorString", "hiprtcGetErrorString");
  if (!s.missing.empty())
    return Failure{fmt::format("{} cannot be used: {} has no {}; {}", vendor.compiler_title, library,
                               s.missing, vendor.compiler_missing)};
  c.version(&c.major, &c.minor);
  int count = 0;
  if (c.architecture_count && c.architecture_count(&count) == 0) {
    c.architectures.resize(size_t(count));
    c.architecture_list(c.architectures.data());
    std::ranges::sort(c.architectures);
  }
  return c;
}

Result<Driver> open_driver(const Vendor& vendor) {
  if (const std::string own = setting_text(vendor.driver_setting); !own.empty())
    return open_driver(vendor, own);
  Result<Driver> first = open_driver(vendor, vendor.drivers[0]);
  for (size_t i = 1; !first && i < vendor.drivers.size(); ++i)
    if (auto opened = open_driver(vendor, vendor.drivers[i])) return opened;
  return first;
}

Result<Compiler> open_compiler(const Vendor& vendor, int driver_version) {
  const int most = !vendor.is_hip ? driver_version / vendor.version_divisor : 1 << 20;
  std::vector<std::string> names(vendor.compilers.begin(), vendor.compilers.end());
  if (const char* home = std::getenv("CUDA_HOME"); home && !vendor.is_hip)
    names.push_back(std::string(home) + "/lib64/libnvrtc.so");
  if (const std::string own = setting_text(vendor.compiler_setting); !own.empty()) names = {own};
  Result<Compiler> first = Failure{""};
  for (size_t i = 0; i < names.size(); ++i) {
    auto opened = open_compiler(vendor, names[i]);
    if (opened && opened->major <= most) return opened;
    if (opened)
      first = Failure{fmt::format("{} {}.{} makes code that the driver of CUDA {}.{} does not load: update "
                                  "the driver, or install NVRTC of CUDA {} (LUMINAL_NVRTC names its library)",
                                  vendor.compiler_title, opened->major, opened->minor, most,
                                  driver_version % vendor.version_divisor / vendor.minor_divisor, most)};
    else if (i == 0)
      first = std::move(opened);
  }
  return first;
}

Result<std::string> compile(const Vendor& vendor, const Compiler& c, const std::string& architecture,
                            const std::string& text, const std::string& name) {
  std::string target = architecture;
  bool ptx = false;
  if (!vendor.is_hip && !c.architectures.empty()) {
    // PTX of the newest that it knows, which the driver translates for what is newer still.
    const int wanted = std::atoi(architecture.c_str() + std::string_view("sm_").size());
    const auto above = std::ranges::upper_bound(c.architectures, wanted);
    if (above == c.architectures.begin())
      return Failure{fmt::format("{} {}.{} compiles for sm_{} and newer, this is {}: install NVRTC of CUDA "
                                 "12 (LUMINAL_NVRTC names its library)",
                                 vendor.compiler_title, c.major, c.minor, c.architectures[0], architecture)};
    ptx = *std::prev(above) != wanted;
    if (ptx) target = fmt::format("compute_{}", *std::prev(above));
  }
  const std::string own = "--gpu-architecture=" + target;
  std::vector<const char*> options = {own.c_str()};
  options.insert(options.end(), vendor.options.begin(), vendor.options.end());
  Handle program = nullptr;
  const std::string file = name + (!vendor.is_hip ? ".cu" : ".hip");
  if (const int code = c.create(&program, text.c_str(), file.c_str(), 0, nullptr, nullptr); code != 0)
    return Failure{fmt::format("{}: no program for {}: {}", vendor.compiler_title, name, c.error_name(code))};
  std::string result;
  int code = c.compile(program, int(options.size()), options.data());
  if (code == 0) {
    size_t bytes = 0;
    code = ptx ? c.ptx_bytes(program, &bytes) : c.code_bytes(program, &bytes);
    result.resize(bytes);
    if (code == 0) code = ptx ? c.ptx(program, result.data()) : c.code(program, result.data());
  }
  std::string log;
  size_t bytes = 0;
  if (code != 0 && c.log_bytes(program, &bytes) == 0 && bytes > 1) {
    log.resize(bytes);
    c.log(program, log.data());
    log = "\n" + log.substr(0, log.find('\0'));
  }
  c.destroy(&program);
  if (code != 0)
    return Failure{fmt::format("{}: {} does not compile for {}: {}{}", vendor.compiler_title, name, target,
                               c.error_name(code), log)};
  return result;
}

std::string error_text(const Vendor& vendor, const Driver& driver, int code) {
  const char* name = nullptr;
  if (!vendor.is_hip)
    driver.cuda_error_name(code, &name);
  else
    name = driver.hip_error_name(code);
  return name ? fmt::format("{} ({}){}", name, code, what_to_do(code))
              : fmt::format("error {}{}", code, what_to_do(code));
}

} // namespace luminal::device::gpu
