// device/opencl_test.cpp -- the host side of OpenCL on a driver of our own: memory, programs, launches,
// and every failure with its message.
#include "device/opencl/opencl_api.h"
#include "device/opencl/opencl_device.h"
#include <cstdlib>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <set>

namespace luminal::device::opencl_test {
namespace {
using namespace luminal::device::opencl;

/// What the driver has been asked for, and what it shall refuse.
struct Driver {
  uint32_t platforms = 1, devices = 2;
  bool fine_grain = true;
  std::map<std::string, int32_t> refuses; // by function
  std::string log = "error: line 3";
  std::set<void*> memory;
  int programs = 0, kernels = 0, contexts = 0, queues = 0;
  struct Launch {
    std::string kernel;
    std::vector<const void*> addresses;
    std::vector<int64_t> numbers;
    size_t global = 0, local = 0;
  };
  std::map<void*, Launch> arguments; // of kernels, by handle
  std::vector<Launch> launches;
  std::string options;
  int32_t code(const char* function) {
    const auto found = refuses.find(function);
    return found == refuses.end() ? 0 : found->second;
  }
};
Driver* driver = nullptr;

int devices_here[2];
void* token(int n) { return &devices_here[n]; }

void answer(const void* value, size_t bytes, size_t room, void* to, size_t* needed) {
  if (needed) *needed = bytes;
  if (to && room >= bytes) std::memcpy(to, value, bytes);
}

int32_t info(Handle, uint32_t what, size_t room, void* to, size_t* needed) {
  const auto number = [&](uint64_t x, size_t bytes) { answer(&x, bytes, room, to, needed); };
  const auto text = [&](const char* s) { answer(s, std::strlen(s) + 1, room, to, needed); };
  switch (what) {
  case device_type: number(1 << 2, 8); break;
  case max_compute_units: number(4, 4); break;
  case max_work_group_size: number(256, 8); break;
  case global_mem_size: number(uint64_t(1) << 30, 8); break;
  case double_config: number(0, 8); break;
  case svm_capabilities: number(driver->fine_grain ? 3 : 1, 8); break;
  case device_name: text("imaginary"); break;
  case device_version: text("OpenCL 2.0"); break;
  case driver_version: text("7"); break;
  default: return -30;
  }
  return 0;
}

Api functions() {
  Api cl{};
  cl.clGetPlatformIDs = [](uint32_t, Handle* to, uint32_t* count) -> int32_t {
    if (count) *count = driver->platforms;
    if (to && driver->platforms) *to = token(0);
    return driver->code("clGetPlatformIDs");
  };
  cl.clGetDeviceIDs = [](Handle, uint64_t, uint32_t, Handle* to, uint32_t* count) -> int32_t {
    if (driver->devices == 0) return -1;
    if (count) *count = driver->devices;
    for (uint32_t i = 0; to && i < driver->devices; ++i) to[i] = token(int(i));
    return 0;
  };
  cl.clGetDeviceInfo = info;
  cl.clCreateContext = [](const intptr_t*, uint32_t, const Handle*,
                          void (*)(const char*, const void*, size_t, void*), void*, int32_t* code) -> Handle {
    *code = driver->code("clCreateContext");
    return *code ? nullptr : (driver->contexts++, token(0));
  };
  cl.clReleaseContext = [](Handle) -> int32_t { return driver->contexts--, 0; };
  cl.clCreateCommandQueue = [](Handle, Handle, uint64_t, int32_t* code) -> Handle {
    *code = driver->code("clCreateCommandQueue");
    return *code ? nullptr : (driver->queues++, token(0));
  };
  cl.clReleaseCommandQueue = [](Handle) -> int32_t { return driver->queues--, 0; };
  cl.clCreateProgramWithSource = [](Handle, uint32_t, const char**, const size_t*, int32_t* code) -> Handle {
    *code = driver->code("clCreateProgramWithSource");
    return *code ? nullptr : (driver->programs++, token(1));
  };
  cl.clBuildProgram = [](Handle, uint32_t, const Handle*, const char* options, Notify, void*) -> int32_t {
    driver->options = options;
    return driver->code("clBuildProgram");
  };
  cl.clGetProgramBuildInfo = [](Handle, Handle, uint32_t, size_t room, void* to, size_t* needed) -> int32_t {
    answer(driver->log.c_str(), driver->log.size() + 1, room, to, needed);
    return 0;
  };
  cl.clReleaseProgram = [](Handle) -> int32_t { return driver->programs--, 0; };
  cl.clCreateKernel = [](Handle, const char* name, int32_t* code) -> Handle {
    *code = driver->code("clCreateKernel");
    if (*code) return nullptr;
    driver->kernels++;
    void* handle = std::malloc(1);
    driver->arguments[handle].kernel = name;
    return handle;
  };
  cl.clReleaseKernel = [](Handle kernel) -> int32_t {
    driver->kernels--;
    driver->arguments.erase(kernel);
    std::free(kernel);
    return 0;
  };
  cl.clSetKernelArg = [](Handle kernel, uint32_t n, size_t bytes, const void* value) -> int32_t {
    auto& numbers = driver->arguments[kernel].numbers;
    if (n == driver->arguments[kernel].addresses.size()) numbers.clear();
    int64_t number = 0;
    std::memcpy(&number, value, bytes);
    numbers.push_back(number);
    return driver->code("clSetKernelArg");
  };
  cl.clSetKernelArgSVMPointer = [](Handle kernel, uint32_t n, const void* address) -> int32_t {
    auto& addresses = driver->arguments[kernel].addresses;
    addresses.resize(n);
    addresses.push_back(address);
    return driver->code("clSetKernelArgSVMPointer");
  };
  cl.clEnqueueNDRangeKernel = [](Handle, Handle kernel, uint32_t, const size_t*, const size_t* global,
                                 const size_t* local, uint32_t, const Handle*, Handle*) -> int32_t {
    Driver::Launch launch = driver->arguments[kernel];
    launch.global = *global, launch.local = *local;
    driver->launches.push_back(launch);
    return driver->code("clEnqueueNDRangeKernel");
  };
  cl.clFinish = [](Handle) -> int32_t { return driver->code("clFinish"); };
  cl.clSVMAlloc = [](Handle, uint64_t, size_t bytes, uint32_t alignment) -> void* {
    if (driver->code("clSVMAlloc")) return nullptr;
    void* data = std::aligned_alloc(alignment, bytes);
    driver->memory.insert(data);
    return data;
  };
  cl.clSVMFree = [](Handle, void* data) {
    driver->memory.erase(data);
    std::free(data);
  };
  return cl;
}

class OpenClHost : public testing::Test {
protected:
  OpenClHost() { driver = &driver_; }
  ~OpenClHost() override { driver = nullptr; }
  std::unique_ptr<Device> device() { return make_device(api_, 0).value(); }
  static Code code(Threads threads = {.lanes = 64}) {
    static constexpr std::string_view text = "text";
    return {std::as_bytes(std::span(text)), "k", threads};
  }
  template <class T> static std::string error_of(const Result<T>& result) {
    return result ? "accepted" : result.error();
  }
  Driver driver_;
  Api api_ = functions();
};

TEST_F(OpenClHost, ListsItsDevices) {
  const auto list = list_devices(api_).value();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].name, "imaginary");
  EXPECT_EQ(list[0].memory_bytes, int64_t(1) << 30);
  EXPECT_FALSE(list[0].f64);
  auto second = make_device(api_, 1).value();
  EXPECT_EQ(second->name(), "opencl:1");
  EXPECT_EQ(second->description(), "imaginary, OpenCL 2.0, 4 compute units");
  EXPECT_FALSE(second->limits().reads_host);
  EXPECT_TRUE(second->limits().host_visible);
}

TEST_F(OpenClHost, GivesEverythingBack) {
  {
    auto d = device();
    auto memory = d->allocate(1000).value();
    const std::vector<std::byte> bytes(1000, std::byte{7});
    EXPECT_TRUE(d->holds(static_cast<char*>(memory.data) + 999));
    EXPECT_FALSE(d->holds(bytes.data()));
    ASSERT_TRUE(d->copy_in(memory.data, bytes));
    std::vector<std::byte> back(1000);
    ASSERT_TRUE(d->copy_out(back, memory.data));
    EXPECT_EQ(back, bytes);
    d->decommit(memory, 10, 100);
    ASSERT_TRUE(d->copy_out(back, memory.data));
    EXPECT_EQ(back[9], std::byte{7});
    EXPECT_EQ(back[10], std::byte{0});
    d->free(memory);
    EXPECT_TRUE(driver_.memory.empty());
    (void)d->allocate(10).value(); // not freed: the device does it
    const Code c = code({.lanes = 64, .phases = 2});
    const auto loaded = d->load({&c, 1}).value();
    EXPECT_EQ(driver_.kernels, 2);
    d->unload(loaded.module);
    EXPECT_EQ(driver_.kernels + driver_.programs, 0);
    (void)d->load({&c, 1}).value();
  }
  EXPECT_TRUE(driver_.memory.empty());
  EXPECT_EQ(driver_.kernels + driver_.programs + driver_.contexts + driver_.queues, 0);
}

TEST_F(OpenClHost, LaunchesThreadsGroupsAndPhases) {
  auto d = device();
  const Code codes[] = {code({.lanes = 64}), code({.lanes = 32, .grouped = true}),
                        code({.lanes = 128, .phases = 2, .one_group = true, .shared = true})};
  const auto loaded = d->load(codes).value();
  int a = 0, b = 0;
  void* buffers[] = {&a, &b};
  const int64_t symbols[] = {5, -6};
  LaunchArguments launch;
  launch.buffers = buffers;
  launch.symbols = symbols;
  launch.workers = 100;
  char scratch[64];
  launch.shared = scratch;
  for (const KernelId kernel : loaded.kernels) ASSERT_TRUE(d->launch(kernel, launch));
  ASSERT_EQ(driver_.launches.size(), 4u);
  const auto& l = driver_.launches;
  EXPECT_EQ(l[0].global, 128u); // 100 threads in whole groups
  EXPECT_EQ(l[0].local, 64u);
  EXPECT_THAT(l[0].addresses, testing::ElementsAre(&a, &b));
  EXPECT_THAT(l[0].numbers, testing::ElementsAre(5, -6));
  EXPECT_EQ(l[1].global, 3200u); // 100 groups
  EXPECT_EQ(l[2].global, 128u);  // one group
  EXPECT_THAT(l[2].addresses, testing::ElementsAre(&a, &b, scratch));
  EXPECT_EQ(l[2].kernel, "k");
  EXPECT_EQ(l[3].kernel, "k_1");
  EXPECT_THAT(driver_.options, testing::HasSubstr("correctly-rounded"));
}

TEST_F(OpenClHost, NamesWhatIsMissing) {
  EXPECT_THAT(error_of(open_api("libluminal-none.so")),
              testing::StartsWith("OpenCL cannot be used: libluminal-none.so"));
  EXPECT_EQ(error_of(open_api("libm.so.6")),
            "OpenCL cannot be used: libm.so.6 has no clGetPlatformIDs (OpenCL 2.0 or later is needed)");
  EXPECT_EQ(error_of(make_device(api_, 2)), "there is no OpenCL device 2, there are 2");
  driver_.devices = 1;
  EXPECT_EQ(error_of(make_device(api_, 1)), "there is no OpenCL device 1, there is 1");
  driver_.fine_grain = false;
  EXPECT_EQ(error_of(make_device(api_, 0)),
            "the OpenCL device imaginary has no memory that the host sees too (fine-grained buffers)");
  driver_.devices = 0;
  EXPECT_EQ(error_of(make_device(api_, 0)), "OpenCL cannot be used: its drivers have no device");
  driver_.platforms = 0;
  EXPECT_EQ(error_of(list_devices(api_)),
            "OpenCL cannot be used: libOpenCL knows no driver (for processors: pocl-opencl-icd)");
}

TEST_F(OpenClHost, NamesWhatFails) {
  driver_.refuses = {{"clCreateContext", -6}};
  EXPECT_EQ(error_of(make_device(api_, 0)), "opencl: no context: CL_OUT_OF_HOST_MEMORY (-6)");
  driver_.refuses = {{"clCreateCommandQueue", -99}};
  EXPECT_EQ(error_of(make_device(api_, 0)), "opencl: no command queue: error -99");
  EXPECT_EQ(driver_.contexts, 0);
  driver_.refuses = {};
  auto d = device();
  driver_.refuses = {{"clSVMAlloc", -4}};
  EXPECT_EQ(error_of(d->allocate(3 << 20)), "opencl: cannot allocate 3.0 MiB of 1024.0 MiB");
  driver_.refuses = {};
  const auto load_error = [&](const Code& c) { return error_of(d->load({&c, 1})); };
  EXPECT_EQ(load_error(code({.lanes = 512})), "opencl: k needs groups of 512 threads, the device has 256");
  driver_.refuses = {{"clCreateProgramWithSource", -5}};
  EXPECT_EQ(load_error(code()), "opencl: the program of k: CL_OUT_OF_RESOURCES (-5)");
  driver_.refuses = {{"clBuildProgram", -11}};
  EXPECT_EQ(load_error(code()), "opencl: k does not compile: CL_BUILD_PROGRAM_FAILURE (-11)\nerror: line 3");
  driver_.refuses = {{"clCreateKernel", -46}};
  EXPECT_EQ(load_error(code()), "opencl: no kernel k: CL_INVALID_KERNEL_NAME (-46)");
  driver_.refuses = {};
  EXPECT_EQ(driver_.programs, 0);
  const Code c = code({.lanes = 64, .shared = true});
  const KernelId kernel = d->load({&c, 1}).value().kernels[0];
  int a = 0;
  void* buffers[] = {&a};
  const int64_t symbols[] = {5};
  LaunchArguments launch;
  launch.buffers = buffers;
  launch.symbols = symbols;
  driver_.refuses = {{"clSetKernelArgSVMPointer", -50}};
  EXPECT_EQ(error_of(d->launch(kernel, launch)), "opencl: an address of k: CL_INVALID_ARG_VALUE (-50)");
  driver_.refuses = {{"clSetKernelArg", -51}};
  EXPECT_EQ(error_of(d->launch(kernel, launch)), "opencl: a dimension of k: CL_INVALID_ARG_SIZE (-51)");
  driver_.refuses = {{"clEnqueueNDRangeKernel", -54}};
  EXPECT_EQ(error_of(d->launch(kernel, launch)), "opencl: the launch of k: CL_INVALID_WORK_GROUP_SIZE (-54)");
  driver_.refuses = {{"clFinish", -5}};
  EXPECT_EQ(error_of(d->synchronize()), "opencl: a kernel failed: CL_OUT_OF_RESOURCES (-5)");
  driver_.refuses = {};
  EXPECT_EQ(error_of(d->launch(KernelId(99), launch)), "opencl: kernel 99 is not loaded");
}

} // namespace
} // namespace luminal::device::opencl_test
