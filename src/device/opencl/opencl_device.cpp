// device/opencl/opencl_device.cpp -- memory by clSVMAlloc, programs from text, one queue in order.
#include "device/opencl/opencl_device.h"
#include "device/host_memory.h"
#include "device/launch_shape.h"
#include "device/opencl/opencl_api.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <mutex>

namespace luminal::device {
namespace {
using namespace opencl;

struct FoundDevice {
  Handle id = nullptr;
  OpenClInfo info;
};

template <class T> T number(const Api& cl, Handle device, uint32_t what) {
  T value{};
  cl.clGetDeviceInfo(device, what, sizeof value, &value, nullptr);
  return value;
}
std::string text(const Api& cl, Handle device, uint32_t what) {
  size_t bytes = 0;
  if (cl.clGetDeviceInfo(device, what, 0, nullptr, &bytes) != success || bytes == 0) return "";
  std::string value(bytes, '\0');
  cl.clGetDeviceInfo(device, what, bytes, value.data(), nullptr);
  value.resize(std::strlen(value.c_str()));
  return value;
}

Result<std::vector<FoundDevice>> look(const Api& cl) {
  uint32_t count = 0;
  if (const int32_t code = cl.clGetPlatformIDs(0, nullptr, &count); code != success || count == 0)
    return Failure{"OpenCL cannot be used: libOpenCL knows no driver (for processors: pocl-opencl-icd)"};
  std::vector<Handle> platforms(count);
  cl.clGetPlatformIDs(count, platforms.data(), nullptr);
  std::vector<FoundDevice> found;
  for (Handle platform : platforms) {
    uint32_t here = 0;
    if (cl.clGetDeviceIDs(platform, all_devices, 0, nullptr, &here) != success) continue;
    std::vector<Handle> devices(here);
    cl.clGetDeviceIDs(platform, all_devices, here, devices.data(), nullptr);
    for (Handle device : devices) {
      FoundDevice& f = found.emplace_back();
      f.id = device;
      f.info.name = text(cl, device, device_name);
      f.info.version = text(cl, device, device_version);
      f.info.driver = text(cl, device, driver_version);
      f.info.memory_bytes = int64_t(number<uint64_t>(cl, device, global_mem_size));
      f.info.f64 = number<uint64_t>(cl, device, double_config) != 0;
      if (!(number<uint64_t>(cl, device, svm_capabilities) & svm_fine_grain_buffer))
        f.info.unusable = fmt::format(
            "the OpenCL device {} has no memory that the host sees too (fine-grained buffers)", f.info.name);
    }
  }
  if (found.empty()) return Failure{"OpenCL cannot be used: its drivers have no device"};
  return found;
}
class OpenCl final : public HostCopies<Device> {
public:
  OpenCl(const Api& cl, const FoundDevice& found, int place)
      : cl_(cl), id_(found.id), name_(place == 0 ? "opencl" : fmt::format("opencl:{}", place)) {
    const auto units = int64_t(number<uint32_t>(cl, id_, max_compute_units));
    const bool is_processor = number<uint64_t>(cl, id_, device_type) & type_cpu;
    most_group_ = int64_t(number<size_t>(cl, id_, max_work_group_size));
    limits_.memory_bytes = found.info.memory_bytes;
    limits_.alignment = 128;
    limits_.reads_host = false;
    // A processor is busy with a few groups; a GPU hides its latencies behind many threads.
    limits_.workers = int(std::clamp<int64_t>(units * (is_processor ? 1024 : 4096), 64, 1 << 20));
    description_ = fmt::format("{}, {}, {} compute unit{}", found.info.name, found.info.version, units,
                               units == 1 ? "" : "s");
  }
  ~OpenCl() override {
    for (auto& [id, module] : modules_) release(module);
    for (auto& [address, bytes] : allocations_) cl_.clSVMFree(context_, address);
    if (queue_) cl_.clReleaseCommandQueue(queue_);
    if (context_) cl_.clReleaseContext(context_);
  }

  Result<void> open() {
    int32_t code = success;
    context_ = cl_.clCreateContext(nullptr, 1, &id_, nullptr, nullptr, &code);
    if (!context_) return Failure{fmt::format("{}: no context: {}", name_, error_name(code))};
    queue_ = cl_.clCreateCommandQueue(context_, id_, 0, &code);
    if (!queue_) return Failure{fmt::format("{}: no command queue: {}", name_, error_name(code))};
    return {};
  }

  std::string_view name() const override { return name_; }
  std::string_view description() const override { return description_; }
  const Limits& limits() const override { return limits_; }

  Result<Memory> allocate(int64_t bytes, const AllocateOptions& options) override {
    const int64_t padded = (std::max<int64_t>(bytes, 1) + 127) / 128 * 128;
    const auto alignment = uint32_t(std::min<int64_t>(std::max<int64_t>(options.alignment, 128), 128));
    void* data = cl_.clSVMAlloc(context_, mem_read_write | mem_fine_grain, size_t(padded), alignment);
    if (!data)
      return Failure{fmt::format("{}: cannot allocate {:.1f} MiB of {:.1f} MiB", name_,
                                 double(padded) / (1 << 20), double(limits_.memory_bytes) / (1 << 20)),
                     MemoryShortage{.needed = padded, .available = limits_.memory_bytes}};
    if (options.zero) std::memset(data, 0, size_t(padded));
    std::lock_guard lock(mutex_);
    allocations_[data] = padded;
    return Memory{data, bytes, 0};
  }
  void free(Memory memory) noexcept override {
    if (!memory.data) return;
    cl_.clFinish(queue_); // a launch may still read it
    std::lock_guard lock(mutex_);
    if (allocations_.erase(memory.data) > 0) cl_.clSVMFree(context_, memory.data);
  }
  void decommit(Memory memory, int64_t offset, int64_t bytes) noexcept override {
    if (offset < 0 || bytes <= 0 || offset > memory.bytes || memory.bytes - offset < bytes) return;
    cl_.clFinish(queue_);
    std::memset(static_cast<char*>(memory.data) + offset, 0, size_t(bytes));
  }
  bool holds(const void* address) const override {
    std::lock_guard lock(mutex_);
    auto found = allocations_.upper_bound(const_cast<void*>(address));
    if (found == allocations_.begin()) return false;
    --found;
    return address < static_cast<const char*>(found->first) + found->second;
  }

  Result<Loaded> load(std::span<const Code> code) override {
    Module module;
    for (const Code& c : code) {
      auto made = build(c);
      if (!made) {
        release(module);
        return made.failure();
      }
      module.kernels.push_back(std::move(*made));
    }
    std::lock_guard lock(mutex_);
    Loaded loaded;
    loaded.module = next_module_++;
    for (size_t i = 0; i < module.kernels.size(); ++i) {
      loaded.kernels.push_back(places_.add({loaded.module, i}));
    }
    modules_.emplace(loaded.module, std::move(module));
    return loaded;
  }
  void unload(ModuleId id) noexcept override {
    cl_.clFinish(queue_);
    std::lock_guard lock(mutex_);
    const auto found = modules_.find(id);
    if (found == modules_.end()) return;
    release(found->second);
    modules_.erase(found);
  }

  Result<void> launch(KernelId kernel, const LaunchArguments& a) override {
    std::lock_guard lock(mutex_);
    if (!places_.has(kernel) || !modules_.contains(places_[kernel].first))
      return Failure{fmt::format("{}: kernel {} is not loaded", name_, kernel)};
    const BuiltKernel& k = modules_.at(places_[kernel].first).kernels[places_[kernel].second];
    const auto lanes = size_t(k.threads.lanes);
    const auto groups = size_t(groups_of_launch(k.threads, a.workers, limits_.workers));
    for (Handle phase : k.phases) {
      uint32_t n = 0;
      const auto check = [&](int32_t result, std::string_view what) -> Result<void> {
        if (result == success) return {};
        return Failure{fmt::format("{}: {} of {}: {}", name_, what, k.entry, error_name(result))};
      };
      for (void* buffer : a.buffers)
        if (auto done = check(cl_.clSetKernelArgSVMPointer(phase, n++, buffer), "an address"); !done)
          return done;
      if (k.threads.shared)
        if (auto done = check(cl_.clSetKernelArgSVMPointer(phase, n++, a.shared), "the scratch"); !done)
          return done;
      for (const int64_t& symbol : a.symbols)
        if (auto done = check(cl_.clSetKernelArg(phase, n++, sizeof symbol, &symbol), "a dimension"); !done)
          return done;
      const size_t global = groups * lanes;
      if (auto done = check(
              cl_.clEnqueueNDRangeKernel(queue_, phase, 1, nullptr, &global, &lanes, 0, nullptr, nullptr),
              "the launch");
          !done)
        return done;
    }
    return {};
  }
  Result<void> synchronize() override {
    const int32_t code = cl_.clFinish(queue_);
    if (code == success) return {};
    return Failure{fmt::format("{}: a kernel failed: {}", name_, error_name(code))};
  }

private:
  struct BuiltKernel {
    std::string entry;
    Handle program = nullptr;
    std::vector<Handle> phases;
    Threads threads;
  };
  struct Module {
    std::vector<BuiltKernel> kernels;
  };

  void release(Module& module) noexcept {
    for (BuiltKernel& k : module.kernels) release(k);
  }
  void release(BuiltKernel& k) noexcept {
    for (Handle phase : k.phases) cl_.clReleaseKernel(phase);
    if (k.program) cl_.clReleaseProgram(k.program);
    k = {};
  }

  Result<BuiltKernel> build(const Code& c) {
    BuiltKernel made;
    made.entry = c.entry;
    made.threads = c.threads;
    if (c.threads.lanes < 1 || c.threads.lanes > most_group_)
      return Failure{fmt::format("{}: {} needs groups of {} threads, the device has {}", name_, c.entry,
                                 c.threads.lanes, most_group_)};
    const char* source = reinterpret_cast<const char*>(c.object.data());
    const size_t length = c.object.size();
    int32_t code = success;
    made.program = cl_.clCreateProgramWithSource(context_, 1, &source, &length, &code);
    if (!made.program)
      return Failure{fmt::format("{}: the program of {}: {}", name_, c.entry, error_name(code))};
    // What OpenCL may round carelessly it may not here; 1.2 lacks nothing that the texts use.
    code = cl_.clBuildProgram(made.program, 1, &id_, "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt",
                              nullptr, nullptr);
    if (code != success) {
      size_t bytes = 0;
      cl_.clGetProgramBuildInfo(made.program, id_, program_build_log, 0, nullptr, &bytes);
      std::string log(bytes, '\0');
      if (bytes) cl_.clGetProgramBuildInfo(made.program, id_, program_build_log, bytes, log.data(), nullptr);
      release(made);
      return Failure{
          fmt::format("{}: {} does not compile: {}\n{}", name_, c.entry, error_name(code), log.c_str())};
    }
    for (int p = 0; p < c.threads.phases; ++p) {
      const std::string entry = p ? fmt::format("{}_{}", c.entry, p) : std::string(c.entry);
      Handle kernel = cl_.clCreateKernel(made.program, entry.c_str(), &code);
      if (!kernel) {
        release(made);
        return Failure{fmt::format("{}: no kernel {}: {}", name_, entry, error_name(code))};
      }
      made.phases.push_back(kernel);
    }
    return made;
  }

  const Api& cl_;
  Handle id_ = nullptr, context_ = nullptr, queue_ = nullptr;
  std::string name_, description_;
  Limits limits_;
  int64_t most_group_ = 1;
  mutable std::mutex mutex_;
  std::map<void*, int64_t> allocations_;
  std::map<ModuleId, Module> modules_;
  IdVector<KernelId, std::pair<ModuleId, size_t>> places_; // of kernels
  ModuleId next_module_{0};
};

} // namespace

Result<std::vector<OpenClInfo>> opencl::list_devices(const Api& cl) {
  const auto found = look(cl);
  if (!found) return found.failure();
  std::vector<OpenClInfo> infos;
  for (const FoundDevice& f : *found) infos.push_back(f.info);
  return infos;
}

Result<std::unique_ptr<Device>> opencl::make_device(const Api& cl, int place) {
  const auto found = look(cl);
  if (!found) return found.failure();
  if (place < 0 || size_t(place) >= found->size())
    return Failure{fmt::format("there is no OpenCL device {}, there {} {}", place,
                               found->size() == 1 ? "is" : "are", found->size())};
  const FoundDevice& f = (*found)[size_t(place)];
  if (!f.info.unusable.empty()) return Failure{f.info.unusable};
  auto device = std::make_unique<OpenCl>(cl, f, place);
  if (auto opened = device->open(); !opened) return opened.failure();
  return std::unique_ptr<Device>(std::move(device));
}

const Result<std::vector<OpenClInfo>>& opencl_devices() {
  static const Result<std::vector<OpenClInfo>> list = []() -> Result<std::vector<OpenClInfo>> {
    if (!api()) return api().failure();
    return list_devices(*api());
  }();
  return list;
}

Result<std::unique_ptr<Device>> make_opencl_device(int place) {
  if (!api()) return api().failure();
  return make_device(*api(), place);
}

} // namespace luminal::device
