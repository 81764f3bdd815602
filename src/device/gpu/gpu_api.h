// device/gpu/gpu_api.h -- CUDA's driver and NVRTC, HIP's runtime and hiprtc: the functions that are used,
// declared here and found at run time. Nothing of either is needed to build, and machines without them run
// the rest.
//
// Both have the same functions under names of their own, so one struct holds them. Addresses of a device are
// pointers here; CUDA declares them as 64-bit integers, which are passed alike.
#pragma once
#include "base/result.h"
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace luminal::device::gpu {

using Handle = void*;

/// What distinguishes the two, as data.
struct Vendor {
  const char* language; ///< "cuda": of kernels, and the devices' name
  const char* title;    ///< "CUDA"
  bool is_hip;
  const char *driver_setting, *compiler_setting;
  std::vector<const char*> drivers, compilers; ///< file names, the first that is there is taken
  const char *driver_missing, *compiler_missing, *compiler_title; ///< what to install
  int version_divisor, minor_divisor;            ///< major = version / this, minor = the rest / that
  int max_threads, multiprocessors, group_bytes; ///< numbers of attributes
  std::vector<const char*> options;              ///< of the compiler
  const char* find_failing;                      ///< how a failing kernel is found
};
extern const Vendor cuda, hip;

struct Driver {
  int (*init)(unsigned);
  int (*version)(int*);
  int (*device_count)(int*);
  int (*device)(int* device, int place);
  int (*name)(char*, int bytes, int device);
  int (*memory)(size_t*, int device);
  int (*attribute)(int*, int which, int device);
  int (*retain)(Handle* context, int device); ///< CUDA only, as the next two
  int (*release)(int device);
  int (*use_context)(Handle context);
  int (*use_device)(int device);        ///< HIP only
  int (*properties)(void*, int device); ///< HIP only
  int (*allocate)(void**, size_t);
  int (*free)(void*);
  int (*free_bytes)(size_t* free, size_t* all);           ///< of the current device
  int (*allocate_pinned)(void**, size_t, unsigned flags); ///< memory of the host that the device copies
  int (*free_pinned)(void*);
  int (*fill)(void*, unsigned char, size_t, Handle stream);
  int (*to_device)(void*, const void*, size_t, Handle stream);
  int (*to_host)(void*, const void*, size_t, Handle stream);
  int (*copy)(void*, const void*, size_t, Handle stream); ///< inside of the device
  int (*make_stream)(Handle*, unsigned flags);
  int (*end_stream)(Handle);
  int (*wait)(Handle stream);
  int (*make_event)(Handle*, unsigned flags);
  int (*end_event)(Handle);
  int (*record)(Handle event, Handle stream);
  int (*wait_event)(Handle event);
  int (*load)(Handle* module, const void* image);
  int (*unload)(Handle module);
  int (*function)(Handle*, Handle module, const char* name);
  int (*function_attribute)(Handle, int which, int value); ///< CUDA only
  int (*launch)(Handle, unsigned groups, unsigned, unsigned, unsigned lanes, unsigned, unsigned,
                unsigned group_bytes, Handle stream, void** arguments, void**);
  int (*cuda_error_name)(int, const char**);
  const char* (*hip_error_name)(int);
};

/// NVRTC or hiprtc.
struct Compiler {
  int (*version)(int*, int*);
  int (*architecture_count)(int*); ///< NVRTC only, as the next one
  int (*architecture_list)(int*);
  int (*create)(Handle*, const char* text, const char* name, int, const char* const*, const char* const*);
  int (*compile)(Handle, int, const char* const*);
  int (*code_bytes)(Handle, size_t*);
  int (*code)(Handle, char*);
  int (*ptx_bytes)(Handle, size_t*); ///< NVRTC only, as the next one
  int (*ptx)(Handle, char*);
  int (*log_bytes)(Handle, size_t*);
  int (*log)(Handle, char*);
  int (*destroy)(Handle*);
  const char* (*error_name)(int);
  int major = 0, minor = 0;
  std::vector<int> architectures; ///< NVRTC: 75, 80, 90, ...: in this order
};

/// Failure: there is no such library, or a function is missing in it.
Result<Driver> open_driver(const Vendor& vendor, const std::string& library);
Result<Compiler> open_compiler(const Vendor& vendor, const std::string& library);
/// What the vendor's setting names, else the first of its libraries that is there. Of compilers the first
/// whose code a driver of that version loads: one of a newer major version makes code that it refuses.
Result<Driver> open_driver(const Vendor& vendor);
Result<Compiler> open_compiler(const Vendor& vendor, int driver_version);

/// Machine code of a text for "sm_90" or "gfx942". CUDA: PTX, which the driver translates, where NVRTC does
/// not know the architecture. Failure: why it does not compile.
Result<std::string> compile(const Vendor& vendor, const Compiler& compiler, const std::string& architecture,
                            const std::string& text, const std::string& name);

/// "CUDA_ERROR_OUT_OF_MEMORY (2)", and what to do where that is known.
std::string error_text(const Vendor& vendor, const Driver& driver, int code);

} // namespace luminal::device::gpu
