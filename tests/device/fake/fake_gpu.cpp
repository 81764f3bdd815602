// device/fake/fake_gpu.cpp -- a driver and its compiler as one shared library, for machines without a GPU:
// CUDA with NVRTC, or with FAKE_HIP HIP with hiprtc. Memory of the device is memory of the host that can be
// touched only while the stream works: who touches it else ends the process. Copies are done when somebody
// waits for them, or launches: who uses their memory too early has wrong values. Code is the kernel's text
// compiled for the processor (simt/simt.h), and a launch runs it.
//
// FAKE_GPU_FAIL="cuMemAlloc_v2=2,cuInit=100" makes functions fail. FAKE_GPU="devices=2,version=12040"
// changes what there is: devices, version, capability (10 * major + minor), gfx, memory (MiB),
// compiler (100 * major + minor), lanes, bytes (of a group), order (of threads, as in simt.h).
//
// A text "// recorded: NAME/COUNT ..." is not compiled: launches of its kernels are written down with their
// COUNT arguments.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <list>
#include <map>
#include <mutex>
#include <regex>
#include <set>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

#ifdef FAKE_HIP
#define NAME(in_cuda, in_hip) in_hip
#else
#define NAME(in_cuda, in_hip) in_cuda
#endif
#define API(in_cuda, in_hip) extern "C" __attribute__((visibility("default"))) int NAME(in_cuda, in_hip)
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
// The first statement of each function.
#define CALLED(in_cuda, in_hip)                                                                              \
  if (const int code = forced(TEXT(NAME(in_cuda, in_hip))); code != 0) return code
#define IN_CONTEXT()                                                                                         \
  if (current != 1) return 201

namespace {

using Handle = void*;

std::string entry(const char* variable, const std::string& key) {
  const char* all = std::getenv(variable);
  std::string text = all ? std::string(",") + all + "," : ",";
  const size_t at = text.find("," + key + "=");
  if (at == std::string::npos) return "";
  const size_t begin = at + key.size() + 2;
  return text.substr(begin, text.find(',', begin) - begin);
}
int setting(const std::string& key, int otherwise) {
  const std::string value = entry("FAKE_GPU", key);
  return value.empty() ? otherwise : std::atoi(value.c_str());
}
int forced(const std::string& function) { return std::atoi(entry("FAKE_GPU_FAIL", function).c_str()); }

std::mutex mutex;
std::string log_text, folder;
int contexts = 0, streams = 0;
std::map<void*, size_t> memory, pinned;
std::deque<std::function<void()>> work; // of the stream: what is not done yet
size_t work_done = 0;
std::list<size_t> events;     // how much of the work lay before
thread_local int current = 0; // a context is this thread's own

struct Program {
  std::string text, log, image, options;
};
std::set<Program*> programs;
struct Module;
struct Kernel {
  std::string name;
  int count = -1; // of arguments; -1: it runs
  void (*run)(unsigned groups, unsigned lanes, int order, unsigned bytes, void** arguments) = nullptr;
  int group_bytes = 48 << 10; // that a launch may ask for
};
struct Module {
  void* library = nullptr;
  std::vector<Kernel*> kernels;
  std::string names;
};
std::set<Module*> modules;

void note_locked(const std::string& line) { log_text += line + "\n"; }
void note(const std::string& line) {
  std::lock_guard lock(mutex);
  note_locked(line);
}

size_t device_bytes() { return size_t(setting("memory", 1024)) << 20; }

/// Does it lie in one of these allocations?
bool inside(const std::map<void*, size_t>& where, const void* address, size_t bytes) {
  auto found = where.upper_bound(const_cast<void*>(address));
  if (found == where.begin()) return false;
  --found;
  const size_t offset = size_t(static_cast<const char*>(address) - static_cast<const char*>(found->first));
  return offset <= found->second && bytes <= found->second - offset;
}

/// The device works; only then its memory can be touched.
void with_memory(const std::function<void()>& works) {
  for (const auto& [address, bytes] : memory) mprotect(address, bytes, PROT_READ | PROT_WRITE);
  works();
  for (const auto& [address, bytes] : memory) mprotect(address, bytes, PROT_NONE);
}
/// The first parts of what the stream has to do.
void run_stream(size_t count = SIZE_MAX) {
  count = std::min(count, work.size());
  if (count == 0) return;
  with_memory([&] {
    for (size_t i = 0; i < count; ++i) work[i]();
  });
  work.erase(work.begin(), work.begin() + std::ptrdiff_t(count));
  work_done += count;
}

/// Compiles the text with a function for each kernel that takes its arguments as the driver has them.
bool build(Program& p) {
  static int number = 0;
  if (folder.empty()) {
    std::string pattern = (std::filesystem::temp_directory_path() / "luminal-fake-gpu-XXXXXX").string();
    folder = mkdtemp(pattern.data()) ? pattern : "";
    std::atexit([] { std::filesystem::remove_all(folder); });
  }
  const std::string name = folder + "/k" + std::to_string(number++);
  std::ofstream out(name + ".cpp");
  out << "#include \"" TEXT(
             NAME(cuda, hip)) ".h\"\n#include <utility>\nalignas(16) unsigned long lum_words[29056];\n"
      << p.text
      << "\ntemplate <class... A, std::size_t... I>\nvoid fake_call(void (*f)(A...), void** p, "
         "std::index_sequence<I...>) {\n  f(*static_cast<A*>(p[I])...);\n}\n"
         "template <class... A> void fake_run(void (*f)(A...), unsigned groups, unsigned lanes, int order, "
         "unsigned bytes, void** p) {\n  simt::launch(groups, lanes, " NAME(
             "32",
             "64") ", order, lum_words, bytes,\n"
                   "    [&] { fake_call(f, p, std::index_sequence_for<A...>()); });\n"
                   "  if (!simt::findings.empty()) { std::fprintf(stderr, \"%s\", simt::findings.c_str()); "
                   "std::abort(); "
                   "}\n}\n";
  static const std::regex head(R"re(extern "C".*void (?:__launch_bounds__\(\d+\) )?(\w+)\()re");
  for (std::sregex_iterator it(p.text.begin(), p.text.end(), head), end; it != end; ++it)
    out << "extern \"C\" void fake_run_" << (*it)[1]
        << "(unsigned groups, unsigned lanes, int order, unsigned bytes, void** p) {\n  fake_run(" << (*it)[1]
        << ", groups, lanes, order, bytes, p);\n}\n";
  out.close();
  const std::string command =
      "c++ -std=c++17 -O1 -w -shared -fPIC -fno-gnu-unique -ffp-contract=off -I" FAKE_SIMT " " + name +
      ".cpp -o " + name + ".so > " + name + ".log 2>&1";
  if (std::system(command.c_str()) == 0) {
    p.image = name + ".so";
    return true;
  }
  std::ifstream log(name + ".log");
  p.log = std::string(std::istreambuf_iterator<char>(log), {}).substr(0, 2000);
  return false;
}

} // namespace

// ---- what tests ask ----
extern "C" __attribute__((visibility("default"))) int fake_live() {
  std::lock_guard lock(mutex);
  return contexts + streams +
         int(memory.size() + pinned.size() + events.size() + modules.size() + programs.size());
}
/// What has been compiled and launched since the last call.
extern "C" __attribute__((visibility("default"))) const char* fake_log() {
  static std::string taken;
  std::lock_guard lock(mutex);
  taken = std::exchange(log_text, "");
  return taken.c_str();
}

// ---- devices ----
API(cuInit, hipInit)(unsigned) {
  CALLED(cuInit, hipInit);
  return 0;
}
API(cuDriverGetVersion, hipDriverGetVersion)(int* version) {
  CALLED(cuDriverGetVersion, hipDriverGetVersion);
  *version = setting("version", NAME(12040, 60140093));
  return 0;
}
API(cuDeviceGetCount, hipGetDeviceCount)(int* count) {
  CALLED(cuDeviceGetCount, hipGetDeviceCount);
  *count = setting("devices", 1);
  return 0;
}
API(cuDeviceGet, hipDeviceGet)(int* device, int place) {
  CALLED(cuDeviceGet, hipDeviceGet);
  *device = place;
  return place < setting("devices", 1) ? 0 : 101;
}
API(cuDeviceGetName, hipDeviceGetName)(char* name, int bytes, int) {
  CALLED(cuDeviceGetName, hipDeviceGetName);
  std::snprintf(name, size_t(bytes), "Imaginary GPU");
  return 0;
}
API(cuDeviceTotalMem_v2, hipDeviceTotalMem)(size_t* bytes, int) {
  CALLED(cuDeviceTotalMem_v2, hipDeviceTotalMem);
  *bytes = device_bytes();
  return 0;
}
API(cuDeviceGetAttribute, hipDeviceGetAttribute)(int* value, int which, int) {
  CALLED(cuDeviceGetAttribute, hipDeviceGetAttribute);
  const int capability = setting("capability", 90);
  switch (which) {
  case NAME(1, 56): *value = setting("lanes", 1024); break;
  case NAME(16, 63): *value = 4; break;
  case NAME(97, 74): *value = setting("bytes", NAME(232448, 65536)); break;
  case NAME(75, 23): *value = capability / 10; break;
  case NAME(76, 61): *value = capability % 10; break;
  default: return 1;
  }
  return 0;
}
#ifdef FAKE_HIP
extern "C" __attribute__((visibility("default"))) int hipGetDeviceProperties(void* properties, int) {
  CALLED(, hipGetDeviceProperties);
  auto* bytes = static_cast<char*>(properties);
  std::snprintf(bytes, 256, "gfx in the name"); // of the device: not its architecture
  const std::string gfx = entry("FAKE_GPU", "gfx");
  std::snprintf(bytes + 396, 256, "%s", gfx.empty() ? "gfx942:sramecc+:xnack-" : gfx.c_str());
  return 0;
}
extern "C" __attribute__((visibility("default"))) int hipSetDevice(int device) {
  CALLED(, hipSetDevice);
  current = 1;
  return device < setting("devices", 1) ? 0 : 101;
}
extern "C" __attribute__((visibility("default"))) const char* hipGetErrorName(int code) {
  return code == 2 ? "hipErrorOutOfMemory" : code == 100 ? "hipErrorNoDevice" : "hipErrorUnknown";
}
#else
API(cuDevicePrimaryCtxRetain, )(Handle* context, int) {
  CALLED(cuDevicePrimaryCtxRetain, );
  ++contexts;
  *context = &contexts;
  return 0;
}
API(cuDevicePrimaryCtxRelease_v2, )(int) {
  CALLED(cuDevicePrimaryCtxRelease_v2, );
  --contexts;
  return 0;
}
API(cuCtxSetCurrent, )(Handle context) {
  CALLED(cuCtxSetCurrent, );
  current = context == &contexts && contexts > 0;
  return current ? 0 : 201;
}
API(cuGetErrorName, )(int code, const char** name) {
  static const std::map<int, const char*> names = {{1, "CUDA_ERROR_INVALID_VALUE"},
                                                   {2, "CUDA_ERROR_OUT_OF_MEMORY"},
                                                   {34, "CUDA_ERROR_STUB_LIBRARY"},
                                                   {100, "CUDA_ERROR_NO_DEVICE"},
                                                   {201, "CUDA_ERROR_INVALID_CONTEXT"},
                                                   {209, "CUDA_ERROR_NO_BINARY_FOR_GPU"},
                                                   {500, "CUDA_ERROR_NOT_FOUND"},
                                                   {700, "CUDA_ERROR_ILLEGAL_ADDRESS"},
                                                   {701, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"}};
  const auto found = names.find(code);
  *name = found == names.end() ? nullptr : found->second;
  return *name ? 0 : 1;
}
#endif

// ---- memory and the stream ----
API(cuMemAlloc_v2, hipMalloc)(void** address, size_t bytes) {
  CALLED(cuMemAlloc_v2, hipMalloc);
  IN_CONTEXT();
  if (bytes == 0) return 1;
  std::lock_guard lock(mutex);
  size_t taken = 0;
  for (const auto& [_, held] : memory) taken += held;
  if (bytes > device_bytes() - std::min(taken, device_bytes())) return 2;
  note_locked("allocate " + std::to_string(bytes));
  void* made =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (made == MAP_FAILED) return 2;
  std::memset(made, 0x5c, std::min(bytes, size_t(16) << 20)); // nobody may hope for zeros
  mprotect(made, bytes, PROT_NONE);
  memory[made] = bytes;
  *address = made;
  return 0;
}
API(cuMemFree_v2, hipFree)(void* address) {
  CALLED(cuMemFree_v2, hipFree);
  IN_CONTEXT();
  std::lock_guard lock(mutex);
  run_stream();
  const auto found = memory.find(address);
  if (found == memory.end()) return 1;
  munmap(address, found->second);
  note_locked("free " + std::to_string(found->second));
  memory.erase(found);
  return 0;
}
API(cuMemGetInfo_v2, hipMemGetInfo)(size_t* free, size_t* all) {
  CALLED(cuMemGetInfo_v2, hipMemGetInfo);
  IN_CONTEXT();
  std::lock_guard lock(mutex);
  *all = *free = device_bytes();
  for (const auto& [_, held] : memory) *free -= std::min(*free, held);
  return 0;
}
API(cuMemHostAlloc, hipHostMalloc)(void** address, size_t bytes, unsigned flags) {
  CALLED(cuMemHostAlloc, hipHostMalloc);
  IN_CONTEXT();
  if (flags != 0 || bytes == 0) return 1;
  std::lock_guard lock(mutex);
  *address = std::malloc(bytes);
  pinned[*address] = bytes;
  return 0;
}
API(cuMemFreeHost, hipHostFree)(void* address) {
  CALLED(cuMemFreeHost, hipHostFree);
  IN_CONTEXT();
  std::lock_guard lock(mutex);
  run_stream();
  if (pinned.erase(address) == 0) return 1;
  std::free(address);
  return 0;
}
API(cuMemsetD8Async, hipMemsetD8Async)(void* to, unsigned char value, size_t bytes, Handle stream) {
  CALLED(cuMemsetD8Async, hipMemsetD8Async);
  IN_CONTEXT();
  std::lock_guard lock(mutex);
  if (!inside(memory, to, bytes) || stream != &streams) return 1;
  work.push_back([=] { std::memset(to, value, bytes); });
  return 0;
}
API(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync)(void* to, const void* from, size_t bytes, Handle stream) {
  CALLED(cuMemcpyHtoDAsync_v2, hipMemcpyHtoDAsync);
  IN_CONTEXT();
  std::lock_guard lock(mutex);
  if (!inside(memory, to, bytes) || !inside(pinned, from, bytes) || stream != &streams) return 1;
  work.push_back([=] { std::memcpy(to, from, bytes); });
  note_locked("in " + std::to_string(bytes));
  return 0;
}
API(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync)(void* to, const void* from, size_t bytes, Handle stream) {
  CALLED(cuMemcpyDtoHAsync_v2, hipMemcpyDtoHAsync);
  IN_CONTEXT();
  std::lock_guard lock(mutex);
  if (!inside(memory, from, bytes) || !inside(pinned, to, bytes) || stream != &streams) return 1;
  work.push_back([=] { std::memcpy(to, from, bytes); });
  note_locked("out " + std::to_string(bytes));
  return 0;
}
API(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync)(void* to, const void* from, size_t bytes, Handle stream) {
  CALLED(cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync);
  IN_CONTEXT();
  std::lock_guard lock(mutex);
  if (!inside(memory, from, bytes) || !inside(memory, to, bytes) || stream != &streams) return 1;
  work.push_back([=] { std::memcpy(to, from, bytes); });
  note_locked("copy " + std::to_string(bytes));
  return 0;
}
API(cuStreamCreate, hipStreamCreateWithFlags)(Handle* stream, unsigned) {
  CALLED(cuStreamCreate, hipStreamCreateWithFlags);
  IN_CONTEXT();
  ++streams;
  *stream = &streams;
  return 0;
}
API(cuStreamDestroy_v2, hipStreamDestroy)(Handle) {
  CALLED(cuStreamDestroy_v2, hipStreamDestroy);
  std::lock_guard lock(mutex);
  run_stream();
  --streams;
  return 0;
}
API(cuStreamSynchronize, hipStreamSynchronize)(Handle stream) {
  CALLED(cuStreamSynchronize, hipStreamSynchronize);
  IN_CONTEXT();
  std::lock_guard lock(mutex);
  run_stream();
  return stream == &streams ? 0 : 400;
}
API(cuEventCreate, hipEventCreateWithFlags)(Handle* event, unsigned flags) {
  CALLED(cuEventCreate, hipEventCreateWithFlags);
  IN_CONTEXT();
  if (flags != 2) return 1;
  std::lock_guard lock(mutex);
  *event = &*events.emplace(events.end(), 0);
  return 0;
}
API(cuEventDestroy_v2, hipEventDestroy)(Handle event) {
  CALLED(cuEventDestroy_v2, hipEventDestroy);
  std::lock_guard lock(mutex);
  return events.remove_if([&](size_t& e) { return &e == event; }) == 1 ? 0 : 400;
}
API(cuEventRecord, hipEventRecord)(Handle event, Handle stream) {
  CALLED(cuEventRecord, hipEventRecord);
  IN_CONTEXT();
  std::lock_guard lock(mutex);
  *static_cast<size_t*>(event) = work_done + work.size();
  return stream == &streams ? 0 : 400;
}
API(cuEventSynchronize, hipEventSynchronize)(Handle event) {
  CALLED(cuEventSynchronize, hipEventSynchronize);
  IN_CONTEXT();
  std::lock_guard lock(mutex);
  const size_t place = *static_cast<size_t*>(event);
  run_stream(place > work_done ? place - work_done : 0);
  return 0;
}

// ---- code ----
API(cuModuleLoadData, hipModuleLoadData)(Handle* made, const void* image) {
  CALLED(cuModuleLoadData, hipModuleLoadData);
  IN_CONTEXT();
  const std::string text(static_cast<const char*>(image));
  auto module = new Module;
  if (text.starts_with("recorded:"))
    module->names = text.substr(9);
  else if (!(module->library = dlopen(text.c_str(), RTLD_NOW | RTLD_LOCAL))) {
    std::fprintf(stderr, "%s\n", dlerror());
    delete module;
    return 200;
  }
  std::lock_guard lock(mutex);
  modules.insert(module);
  *made = module;
  return 0;
}
API(cuModuleUnload, hipModuleUnload)(Handle handle) {
  CALLED(cuModuleUnload, hipModuleUnload);
  IN_CONTEXT();
  auto* module = static_cast<Module*>(handle);
  std::lock_guard lock(mutex);
  if (modules.erase(module) == 0) return 400;
  for (Kernel* k : module->kernels) delete k;
  if (module->library) dlclose(module->library);
  delete module;
  return 0;
}
API(cuModuleGetFunction, hipModuleGetFunction)(Handle* function, Handle handle, const char* name) {
  CALLED(cuModuleGetFunction, hipModuleGetFunction);
  auto* module = static_cast<Module*>(handle);
  auto kernel = new Kernel;
  kernel->name = name;
  if (module->library) {
    kernel->run = reinterpret_cast<decltype(kernel->run)>(
        dlsym(module->library, (std::string("fake_run_") + name).c_str()));
  } else if (const size_t at = module->names.find(" " + kernel->name + "/"); at != std::string::npos) {
    kernel->count = std::atoi(module->names.c_str() + at + kernel->name.size() + 2);
  }
  if (!kernel->run && kernel->count < 0) {
    delete kernel;
    return 500;
  }
  module->kernels.push_back(kernel);
  *function = kernel;
  return 0;
}
#ifndef FAKE_HIP
API(cuFuncSetAttribute, )(Handle function, int which, int value) {
  CALLED(cuFuncSetAttribute, );
  if (which != 8) return 1;
  static_cast<Kernel*>(function)->group_bytes = value;
  return 0;
}
#endif
API(cuLaunchKernel, hipModuleLaunchKernel)(Handle function, unsigned x, unsigned y, unsigned z,
                                           unsigned lanes, unsigned lanes_y, unsigned lanes_z, unsigned bytes,
                                           Handle stream, void** arguments, void** extra) {
  CALLED(cuLaunchKernel, hipModuleLaunchKernel);
  IN_CONTEXT();
  const auto* k = static_cast<Kernel*>(function);
  if (x == 0 || lanes == 0 || y * z * lanes_y * lanes_z != 1 || extra || stream != &streams) return 1;
  if (int(bytes) > NAME(k->group_bytes, 65536)) return 1;
  std::string line = "launch " + k->name + " " + std::to_string(x) + "x" + std::to_string(lanes) + " " +
                     std::to_string(bytes) + " bytes";
  for (int i = 0; i < k->count; ++i) {
    int64_t value = 0;
    std::memcpy(&value, arguments[i], sizeof value);
    line += " " + std::to_string(value);
  }
  note(line);
  std::lock_guard lock(mutex);
  run_stream();
  if (k->run) with_memory([&] { k->run(x, lanes, setting("order", 2), bytes, arguments); });
  return 0;
}

// ---- the compiler ----
API(nvrtcVersion, hiprtcVersion)(int* major, int* minor) {
  *major = setting("compiler", 1209) / 100, *minor = setting("compiler", 1209) % 100;
  return 0;
}
#ifndef FAKE_HIP
API(nvrtcGetNumSupportedArchs, )(int* count) {
  *count = 3;
  return 0;
}
API(nvrtcGetSupportedArchs, )(int* list) {
  list[0] = 75, list[1] = 90, list[2] = 100;
  return 0;
}
#endif
API(nvrtcCreateProgram, hiprtcCreateProgram)(Handle* made, const char* text, const char*, int,
                                             const char* const*, const char* const*) {
  CALLED(nvrtcCreateProgram, hiprtcCreateProgram);
  auto* program = new Program{text, "", "", ""};
  std::lock_guard lock(mutex);
  programs.insert(program);
  *made = program;
  return 0;
}
API(nvrtcCompileProgram, hiprtcCompileProgram)(Handle handle, int count, const char* const* options) {
  auto& p = *static_cast<Program*>(handle);
  p.log = "error: line 3";
  CALLED(nvrtcCompileProgram, hiprtcCompileProgram);
  std::string line = "compile";
  for (int i = 0; i < count; ++i) line += std::string(" ") + options[i];
  note(line);
  if (p.text.starts_with("// recorded: ")) {
    p.image = "recorded:" + p.text.substr(12);
    return 0;
  }
  std::lock_guard lock(mutex);
  return build(p) ? 0 : 6;
}
API(nvrtcGetCUBINSize, hiprtcGetCodeSize)(Handle handle, size_t* bytes) {
  CALLED(nvrtcGetCUBINSize, hiprtcGetCodeSize);
  *bytes = static_cast<Program*>(handle)->image.size() + 1;
  return 0;
}
API(nvrtcGetCUBIN, hiprtcGetCode)(Handle handle, char* to) {
  CALLED(nvrtcGetCUBIN, hiprtcGetCode);
  std::strcpy(to, static_cast<Program*>(handle)->image.c_str());
  return 0;
}
#ifndef FAKE_HIP
API(nvrtcGetPTXSize, )(Handle handle, size_t* bytes) { return nvrtcGetCUBINSize(handle, bytes); }
API(nvrtcGetPTX, )(Handle handle, char* to) {
  note("PTX");
  return nvrtcGetCUBIN(handle, to);
}
#endif
API(nvrtcGetProgramLogSize, hiprtcGetProgramLogSize)(Handle handle, size_t* bytes) {
  *bytes = static_cast<Program*>(handle)->log.size() + 1;
  return 0;
}
API(nvrtcGetProgramLog, hiprtcGetProgramLog)(Handle handle, char* to) {
  std::strcpy(to, static_cast<Program*>(handle)->log.c_str());
  return 0;
}
API(nvrtcDestroyProgram, hiprtcDestroyProgram)(Handle* handle) {
  CALLED(nvrtcDestroyProgram, hiprtcDestroyProgram);
  std::lock_guard lock(mutex);
  auto* program = static_cast<Program*>(*handle);
  programs.erase(program);
  delete program;
  return 0;
}
extern "C" __attribute__((visibility("default"))) const char* NAME(nvrtcGetErrorString,
                                                                   hiprtcGetErrorString)(int code) {
  return code == 6 ? NAME("NVRTC_ERROR_COMPILATION", "HIPRTC_ERROR_COMPILATION") : "another error";
}
