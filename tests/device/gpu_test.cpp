// device/gpu_test.cpp -- the host side of CUDA and HIP on libraries of our own (device/fake): memory, code,
// launches, and every failure with its message.
#include "device/gpu_host.h"
#include <cstring>
#include <filesystem>
#include <gmock/gmock.h>
#include <thread>

namespace luminal::device {
namespace {
using namespace luminal::device::gpu;
using testing::HasSubstr;
using testing::StartsWith;

TEST_P(GpuHost, ListsItsDevices) {
  fake_.pretend("devices=2");
  const auto list = list_devices(fake_.vendor, driver_).value();
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0].name, "Imaginary GPU");
  EXPECT_EQ(list[0].architecture, named("sm_90", "gfx942"));
  EXPECT_EQ(list[0].driver, named("CUDA 12.4", "HIP 6.1"));
  EXPECT_EQ(list[0].memory_bytes, int64_t(1) << 30);
  EXPECT_EQ(list[0].unusable, "");
  const auto second = make_device(fake_.vendor, driver_, compiler_, 1).value();
  EXPECT_EQ(second->name(), language() + ":1");
  EXPECT_EQ(second->description(),
            "Imaginary GPU, " + list[0].architecture + ", " + list[0].driver + ", 4 multiprocessors");
  EXPECT_FALSE(second->limits().reads_host);
  EXPECT_EQ(device()->name(), language());
}

TEST_P(GpuHost, MemoryIsWrittenReadClearedAndGivenBack) {
  const auto d = device();
  const int before = fake_.live();
  auto memory = d->allocate(1000).value();
  EXPECT_EQ(fake_.live(), before + 1);
  std::vector<std::byte> back(1000, std::byte{1});
  ASSERT_TRUE(d->copy_out(back, memory.data));
  EXPECT_EQ(fake_.live(), before + 5);           // two halves and their events
  EXPECT_EQ(back, std::vector<std::byte>(1000)); // zero, which the driver's memory is not
  const std::vector<std::byte> bytes(1000, std::byte{7});
  ASSERT_TRUE(d->copy_in(memory.data, bytes));
  d->decommit(memory, 10, 100);
  ASSERT_TRUE(d->copy_out(back, memory.data));
  EXPECT_EQ(back[9], std::byte{7});
  EXPECT_EQ(back[10], std::byte{0});
  EXPECT_EQ(back[109], std::byte{0});
  EXPECT_EQ(back[110], std::byte{7});
  d->decommit(memory, 990, 11); // outside: nothing
  EXPECT_FALSE(d->limits().host_visible);
  d->free(memory);
  EXPECT_FALSE(d->holds(memory.data));
  d->free(memory); // no longer its own
  d->free({});
  EXPECT_EQ(fake_.live(), before + 5); // the block is kept
  (void)d->allocate(10).value();       // not freed: the device does it
}

/// Drivers keep the current device for each thread.
TEST_P(GpuHost, AnyThreadMayCall) {
  const auto d = device();
  const Code c = code("// recorded: k/0");
  std::thread([&] {
    const auto memory = d->allocate(100).value();
    const KernelId kernel = d->load({&c, 1}).value().kernels[0];
    EXPECT_EQ(error_of(d->launch(kernel, {})), "accepted");
    EXPECT_EQ(error_of(d->synchronize()), "accepted");
    d->free(memory);
  }).join();
  std::thread([&] { EXPECT_EQ(error_of(d->synchronize()), "accepted"); }).join();
  const auto memory = d->allocate(100).value();
  const int before = fake_.live();
  std::thread([&] { d->free(memory); }).join();
  EXPECT_EQ(fake_.live(), before) << "the block is kept";
  const ModuleId module = d->load({&c, 1}).value().module;
  std::thread([&] { d->unload(module); }).join();
  EXPECT_EQ(fake_.live(), before);
  std::thread([&] { EXPECT_EQ(error_of(d->load({&c, 1})), "accepted"); }).join();
}

TEST_P(GpuHost, LaunchesThreadsGroupsAndPhases) {
  const auto d = device();
  const Code codes[] = {
      code("// recorded: k/4"), code("// recorded: k/4", {.lanes = 32, .grouped = true}),
      code("// recorded: k/5 k_1/5", {.lanes = 128, .phases = 2, .one_group = true, .shared = true}),
      code("// recorded: k/4", {.lanes = 64, .group_bytes = 60000})};
  const auto loaded = d->load(codes).value();
  const std::string compiled = fake_.log();
  EXPECT_THAT(compiled, HasSubstr(named("--gpu-architecture=sm_90 --std=c++17 --fmad=false",
                                        "--gpu-architecture=gfx942 -O3 -ffp-contract=off")));
  void* buffers[] = {reinterpret_cast<void*>(16), reinterpret_cast<void*>(32)};
  const int64_t symbols[] = {5, -6};
  LaunchArguments launch;
  launch.buffers = buffers;
  launch.symbols = symbols;
  launch.workers = 300;
  launch.shared = reinterpret_cast<char*>(64);
  for (const KernelId kernel : loaded.kernels) ASSERT_EQ(error_of(d->launch(kernel, launch)), "accepted");
  EXPECT_EQ(fake_.log(), "launch k 5x64 0 bytes 16 32 5 -6\n"
                         "launch k 300x32 0 bytes 16 32 5 -6\n"
                         "launch k 1x128 0 bytes 16 32 64 5 -6\n"
                         "launch k_1 1x128 0 bytes 16 32 64 5 -6\n"
                         "launch k 5x64 60000 bytes 16 32 5 -6\n");
  d->unload(loaded.module);
  d->unload(loaded.module);
  EXPECT_EQ(error_of(d->launch(loaded.kernels[0], launch)), language() + ": kernel 0 is not loaded");
  EXPECT_EQ(error_of(d->launch(KernelId(99), launch)), language() + ": kernel 99 is not loaded");
}

/// A second start compiles nothing; other text, a damaged file and code that the driver refuses are compiled.
TEST_P(GpuHost, MachineCodeIsKeptOnDisk) {
  std::string folder = (std::filesystem::temp_directory_path() / "luminal-gpu-code-XXXXXX").string();
  ASSERT_TRUE(mkdtemp(folder.data()));
  setenv("LUMINAL_CACHE_DIR", folder.c_str(), 1);
  unsetenv("LUMINAL_NO_CACHE");
  const auto compilations = [&](std::string_view text) {
    const auto d = device(); // another start
    const Code c = code(text);
    (void)fake_.log();
    const auto loaded = d->load({&c, 1});
    EXPECT_EQ(error_of(loaded), "accepted");
    const std::string log = fake_.log();
    if (loaded) {
      EXPECT_EQ(error_of(d->launch(loaded->kernels[0], {})), "accepted");
    }
    return log.find("compile") != std::string::npos;
  };
  EXPECT_TRUE(compilations("// recorded: k/0"));
  EXPECT_FALSE(compilations("// recorded: k/0"));
  EXPECT_TRUE(compilations("// recorded: k/0 other/0"));
  EXPECT_FALSE(compilations("// recorded: k/0 other/0"));
  fake_.pretend(GetParam() ? "gfx=gfx1100" : "capability=100");
  EXPECT_TRUE(compilations("// recorded: k/0")) << "another architecture";
  fake_.pretend("compiler=1210");
  compiler_ = open_compiler(fake_.vendor, fake_.path).value();
  EXPECT_TRUE(compilations("// recorded: k/0")) << "another compiler";
  for (const auto& file : std::filesystem::recursive_directory_iterator(folder))
    if (file.is_regular_file()) std::filesystem::resize_file(file.path(), file.file_size() - 1);
  EXPECT_TRUE(compilations("// recorded: k/0")) << "damaged";
  EXPECT_FALSE(compilations("// recorded: k/0"));
  setenv("LUMINAL_NO_CACHE", "1", 1);
  EXPECT_TRUE(compilations("// recorded: k/0")) << "nothing is kept";
  unsetenv("LUMINAL_CACHE_DIR");
  std::filesystem::remove_all(folder);
}

TEST_P(GpuHost, NamesWhatIsMissing) {
  const Vendor& v = fake_.vendor;
  const std::string no_file = ": cannot open shared object file: No such file or directory";
  EXPECT_EQ(error_of(open_driver(v, "libluminal-none.so")),
            named("CUDA cannot be used: libluminal-none.so: cannot open shared object file: No such file or "
                  "directory; install NVIDIA's driver, or name its library in LUMINAL_CUDA",
                  "HIP cannot be used: libluminal-none.so: cannot open shared object file: No such file or "
                  "directory; install ROCm 5 or later, or name its libamdhip64.so in LUMINAL_HIP"));
  EXPECT_EQ(
      error_of(open_driver(v, "libm.so.6")),
      named("CUDA cannot be used: libm.so.6 has no cuInit; install NVIDIA's driver, or name its library in "
            "LUMINAL_CUDA",
            "HIP cannot be used: libm.so.6 has no hipInit; install ROCm 5 or later, or name its "
            "libamdhip64.so in LUMINAL_HIP"));
  EXPECT_EQ(error_of(open_compiler(v, "libluminal-none.so")),
            named("NVRTC cannot be used: libluminal-none.so", "hiprtc cannot be used: libluminal-none.so") +
                no_file + "; " + v.compiler_missing);
  EXPECT_EQ(
      error_of(open_compiler(v, "libm.so.6")),
      named("NVRTC cannot be used: libm.so.6 has no nvrtcVersion; install NVRTC of CUDA 12 or 13 (PyPI has "
            "it as nvidia-cuda-nvrtc-cu12), or name its library in LUMINAL_NVRTC",
            "hiprtc cannot be used: libm.so.6 has no hiprtcVersion; install hiprtc of ROCm 5 or later, or "
            "name its library in LUMINAL_HIPRTC"));
  // The settings name them.
  setenv(v.driver_setting, "libluminal-mine.so", 1);
  EXPECT_THAT(error_of(open_driver(v)), HasSubstr("libluminal-mine.so"));
  setenv(v.driver_setting, fake_.path.c_str(), 1);
  EXPECT_EQ(error_of(open_driver(v)), "accepted");
  unsetenv(v.driver_setting);
  setenv(v.compiler_setting, "libluminal-mine.so", 1);
  EXPECT_THAT(error_of(open_compiler(v, 12040)), HasSubstr("libluminal-mine.so"));
  setenv(v.compiler_setting, fake_.path.c_str(), 1);
  EXPECT_EQ(error_of(open_compiler(v, 12040)), "accepted");
  unsetenv(v.compiler_setting);
}

TEST_P(GpuHost, NamesWhatCannotBeUsed) {
  const Vendor& v = fake_.vendor;
  const std::string title = v.title, start = title + " cannot be used: ";
  const auto listed = [&] { return error_of(list_devices(v, driver_)); };
  const auto made = [&](int place) { return error_of(make_device(v, driver_, compiler_, place)); };
  fake_.pretend("version=9000");
  EXPECT_EQ(listed(),
            named("CUDA cannot be used: the driver is of version 9, 12 or later is needed: update the driver",
                  "HIP cannot be used: the driver is of version 0, 5 or later is needed: update the driver"));
  fake_.pretend("devices=0");
  EXPECT_EQ(listed(), named("CUDA cannot be used: the driver finds no device",
                            "HIP cannot be used: the driver finds no device"));
  fake_.pretend("");
  fail("cuInit", "hipInit", 100);
  EXPECT_EQ(listed(), start +
                          "its driver does not start: " + named("CUDA_ERROR_NO_DEVICE", "hipErrorNoDevice") +
                          " (100): the driver finds no such device");
  fail("cuDriverGetVersion", "hipDriverGetVersion", 35);
  EXPECT_EQ(listed(), start + "its driver has no version: " + named("error 35", "hipErrorUnknown (35)") +
                          ": the driver is older than the library; update the driver");
  fail("cuDeviceGetCount", "hipGetDeviceCount", 999);
  EXPECT_EQ(listed(), start + "its devices: " + named("error 999", "hipErrorUnknown (999)"));
  fail("cuDeviceGet", "hipDeviceGet", 999);
  EXPECT_EQ(listed(), start + "a device: " + named("error 999", "hipErrorUnknown (999)"));
  EXPECT_THAT(made(0), StartsWith(start));
  fake_.fail("");
  EXPECT_EQ(made(1), "there is no " + title + " device 1, there is 1");
  fake_.pretend("devices=2");
  EXPECT_EQ(made(-1), "there is no " + title + " device -1, there are 2");
  fake_.pretend("capability=61,gfx=gfx803");
  EXPECT_EQ(made(0), "the " + title + " device Imaginary GPU is " +
                         named("sm_61, sm_70 or newer is needed", "gfx803, gfx900 or newer is needed"));
  fake_.pretend("capability=70,gfx=gfx900");
  EXPECT_EQ(made(0), "accepted");
  if (!GetParam()) return;
  fake_.pretend("gfx=none");
  EXPECT_EQ(made(0), "the HIP device Imaginary GPU is unknown, gfx900 or newer is needed");
  fake_.pretend("gfx=gfx1100");
  EXPECT_EQ(list_devices(v, driver_).value()[0].architecture, "gfx1100");
}

TEST_P(GpuHost, OpeningFailsAtEachStep) {
  const auto made = [&] { return error_of(make_device(fake_.vendor, driver_, compiler_, 0)); };
  if (!GetParam()) {
    fail("cuDevicePrimaryCtxRetain", "", 2);
    EXPECT_EQ(made(), "cuda: no context: " + memory_error());
  }
  fail("cuCtxSetCurrent", "hipSetDevice", 100);
  EXPECT_THAT(made(), StartsWith(language() + ": no context: "));
  fail("cuStreamCreate", "hipStreamCreateWithFlags", 2);
  EXPECT_EQ(made(), language() + ": no stream: " + memory_error());
}

TEST_P(GpuHost, CodeThatCannotBeLoaded) {
  const auto d = device();
  const int before = fake_.live();
  const std::string compiler = fake_.vendor.compiler_title, arch = named("sm_90", "gfx942");
  // The second of two: the first is given back.
  const auto load = [&](const Code& c) {
    const Code both[] = {code("// recorded: k/0"), c};
    const std::string error = error_of(d->load(both));
    fake_.fail("");
    EXPECT_EQ(fake_.live(), before) << error;
    return error;
  };
  EXPECT_EQ(load(code("", {.lanes = 2048})),
            language() + ": k needs groups of 2048 threads, the device has 1024");
  EXPECT_EQ(load(code("", {.lanes = 64, .group_bytes = 300000})),
            language() + ": k needs 300000 bytes of memory in each group, the device has " +
                named("232448", "65536"));
  EXPECT_EQ(load(code("// recorded: k/0", {.lanes = 64, .phases = 2})),
            language() + ": no kernel k_1: " + named("CUDA_ERROR_NOT_FOUND (500)", "hipErrorUnknown (500)"));
  if (!GetParam()) {
    // Only the second one asks for it.
    fail("cuFuncSetAttribute", "", 1);
    EXPECT_EQ(load(code("// recorded: k/0", {.lanes = 64, .group_bytes = 60000})),
              "cuda: the memory of each group of k: CUDA_ERROR_INVALID_VALUE (1)");
  }
  const auto first = [&](const Code& c) {
    const std::string error = error_of(d->load({&c, 1}));
    fake_.fail("");
    EXPECT_EQ(fake_.live(), before) << error;
    return error;
  };
  const Code good = code("// recorded: k/0");
  fail("cuModuleLoadData", "hipModuleLoadData", 209);
  EXPECT_EQ(first(good),
            language() + ": the module of k: " + named("CUDA_ERROR_NO_BINARY_FOR_GPU", "hipErrorUnknown") +
                " (209): the code is not for this device");
  fail("nvrtcCreateProgram", "hiprtcCreateProgram", 1);
  EXPECT_EQ(first(good), language() + ": " + compiler + ": no program for k: another error");
  fail("nvrtcCompileProgram", "hiprtcCompileProgram", 6);
  EXPECT_EQ(first(good), language() + ": " + compiler + ": k does not compile for " + arch + ": " +
                             named("NVRTC", "HIPRTC") + "_ERROR_COMPILATION\nerror: line 3");
  fail("nvrtcGetCUBIN", "hiprtcGetCode", 1);
  EXPECT_THAT(first(good), StartsWith(language() + ": " + compiler + ": k does not compile for " + arch));
  fail("nvrtcGetCUBINSize", "hiprtcGetCodeSize", 1);
  EXPECT_THAT(first(good), StartsWith(language() + ": " + compiler + ": k does not compile for " + arch));
}

TEST_P(GpuHost, LaunchesThatFail) {
  const auto d = device();
  const Code c = code("// recorded: k/0");
  const KernelId kernel = d->load({&c, 1}).value().kernels[0];
  fail("cuLaunchKernel", "hipModuleLaunchKernel", 701);
  EXPECT_EQ(error_of(d->launch(kernel, {})),
            language() + ": the launch of k: " +
                named("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (701)", "hipErrorUnknown (701)"));
  fake_.fail("");
  ASSERT_TRUE(d->synchronize());
  const std::string address = named("CUDA_ERROR_ILLEGAL_ADDRESS (700)", "hipErrorUnknown (700)") +
                              "; nothing runs on it any more in this process";
  const auto after = [&](int launches) {
    for (int i = 0; i < launches; ++i) EXPECT_EQ(error_of(d->launch(kernel, {})), "accepted");
    fail("cuStreamSynchronize", "hipStreamSynchronize", 700);
    const std::string error = error_of(d->synchronize());
    fake_.fail("");
    return error;
  };
  EXPECT_EQ(
      after(1),
      named("cuda: kernel k failed: CUDA_ERROR_ILLEGAL_ADDRESS (700); nothing runs on it any more in "
            "this process",
            "hip: kernel k failed: hipErrorUnknown (700); nothing runs on it any more in this process"));
  EXPECT_EQ(after(3), language() + ": one of 3 launches, the last of k (" +
                          named("CUDA_LAUNCH_BLOCKING=1", "AMD_SERIALIZE_KERNEL=3") +
                          " tells which) failed: " + address);
  EXPECT_EQ(after(0), language() + ": the device failed: " + address);
  // Who waits for a value is told the same; nothing hangs on what comes after.
  const auto memory = d->allocate(100).value();
  std::vector<std::byte> bytes(100);
  EXPECT_EQ(error_of(d->launch(kernel, {})), "accepted");
  fail("cuEventSynchronize", "hipEventSynchronize", 700);
  EXPECT_EQ(error_of(d->copy_out(bytes, memory.data)), language() + ": kernel k failed: " + address);
  EXPECT_EQ(error_of(d->copy_out(bytes, memory.data)), language() + ": the device failed: " + address);
  d->free(memory);
  fake_.fail("");
  fail("cuCtxSetCurrent", "hipSetDevice", 100);
  EXPECT_THAT(error_of(d->launch(kernel, {})), StartsWith(language() + ": no context: "));
}

INSTANTIATE_TEST_SUITE_P(All, GpuHost, testing::Bool(),
                         [](const auto& test) { return test.param ? "hip" : "cuda"; });

/// Code is made for the device, or translated by the driver where the device is newer than NVRTC.
TEST(Nvrtc, ChoosesArchitectureAndVersion) {
  FakeGpu fake(false);
  const Driver driver = open_driver(cuda, fake.path).value();
  const Compiler compiler = open_compiler(cuda, fake.path).value();
  const auto compiled = [&](const char* architecture) {
    const auto made = compile(cuda, compiler, architecture, "// recorded: k/0", "k");
    const std::string log = fake.log();
    return made ? log.substr(8, log.find(" --std") - 8) + (log.find("PTX") < log.size() ? " PTX" : "")
                : made.error();
  };
  EXPECT_EQ(compiled("sm_90"), "--gpu-architecture=sm_90");
  EXPECT_EQ(compiled("sm_90a"), "--gpu-architecture=sm_90a");
  EXPECT_EQ(compiled("sm_89"), "--gpu-architecture=compute_75 PTX");
  EXPECT_EQ(compiled("sm_120"), "--gpu-architecture=compute_100 PTX");
  EXPECT_EQ(compiled("sm_70"), "NVRTC 12.9 compiles for sm_75 and newer, this is sm_70: install NVRTC of "
                               "CUDA 12 (LUMINAL_NVRTC names its library)");
  setenv("LUMINAL_NVRTC", fake.path.c_str(), 1);
  fake.pretend("compiler=1300");
  EXPECT_EQ(error_of(open_compiler(cuda, 13000)), "accepted");
  EXPECT_EQ(error_of(open_compiler(cuda, 12040)),
            "NVRTC 13.0 makes code that the driver of CUDA 12.4 does not load: update the driver, or install "
            "NVRTC of CUDA 12 (LUMINAL_NVRTC names its library)");
  unsetenv("LUMINAL_NVRTC");
  for (const auto& [code, part] : {std::pair(34, "LD_LIBRARY_PATH"),
                                   {222, "older than NVRTC"},
                                   {702, "longer"},
                                   {803, "restart"},
                                   {804, "compatibility"}})
    EXPECT_THAT(error_text(cuda, driver, code), HasSubstr(part));
}

} // namespace
} // namespace luminal::device
