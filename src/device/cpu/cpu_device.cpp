// device/cpu/cpu_device.cpp -- memory by mmap, code by the ELF loader, launches on the thread pool.
#include "device/cpu/cpu_device.h"
#include "base/check.h"
#include "base/thread_pool.h"
#include "device/cpu/elf_loader.h"
#include "device/host_memory.h"
#include "device/known_devices.h"
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace luminal::device {
namespace {

class Cpu final : public HostCopies<CpuDevice> {
public:
  explicit Cpu(ThreadPool& pool) : pool_(pool) {
    limits_.memory_bytes = usable_memory();
    limits_.workers = pool.size();
    description_ = fmt::format("{}, {} thread{}", processor_name(), pool.size(), pool.size() == 1 ? "" : "s");
  }

  std::string_view name() const override { return "cpu"; }
  std::string_view description() const override { return description_; }
  const Limits& limits() const override { return limits_; }
  ThreadPool& pool() const override { return pool_; }

  Result<Memory> allocate(int64_t bytes, const AllocateOptions& options) override {
    return memory_.allocate("cpu", bytes, options);
  }
  void free(Memory memory) noexcept override { memory_.free(memory); }
  void decommit(Memory memory, int64_t offset, int64_t bytes) noexcept override {
    memory_.decommit(memory, offset, bytes);
  }
  bool holds(const void* address) const override { return memory_.holds(address); }

  Result<Loaded> load(std::span<const Code> code) override {
    std::vector<ElfObject> objects;
    for (const Code& c : code) objects.push_back({c.object, c.entry});
    auto mapped = load_elf(objects);
    if (!mapped) return Failure{fmt::format("cpu: {}", mapped.error())};
    Module module{std::move(*mapped), {}};
    std::unique_lock lock(mutex_);
    Loaded loaded;
    loaded.module = next_module_++;
    for (void* entry : module.objects.entries()) {
      loaded.kernels.push_back(functions_.add(reinterpret_cast<CpuFunction>(entry)));
    }
    module.kernels = loaded.kernels;
    modules_.emplace(loaded.module, std::move(module));
    return loaded;
  }

  void unload(ModuleId id) noexcept override {
    std::unique_lock lock(mutex_);
    auto it = modules_.find(id);
    if (it == modules_.end()) return;
    for (KernelId kernel : it->second.kernels) functions_[kernel] = nullptr;
    modules_.erase(it);
  }

  CpuFunction function(KernelId kernel) const override {
    std::shared_lock lock(mutex_);
    LUMINAL_CHECK(functions_.has(kernel) && functions_[kernel], "kernel {} is not loaded", kernel);
    return functions_[kernel];
  }

  Result<void> launch(KernelId kernel, const LaunchArguments& a) override {
    CpuFunction f = function(kernel);
    int workers = a.workers ? a.workers : pool_.size();
    LUMINAL_CHECK(workers >= 0 && workers <= pool_.size(), "{} workers are asked for, the pool has {}",
                  workers, pool_.size());
    if (a.parts > workers && !a.barriers) {
      pool_.tasks(a.parts, a.work_us, [&](int part, int member) {
        if (a.stop && (*a.stop)()) return;
        f(a.buffers.data(), a.symbols.data(), a.shared, a.local + member * a.local_stride, part, a.parts,
          nullptr, [](void*) {});
        if (a.after_part) a.after_part();
      });
      return {};
    }
    // Parts are taken by whoever is free; the bits of a result do not depend on how many parts
    // there are.
    if (workers == 1)
      f(a.buffers.data(), a.symbols.data(), a.shared, a.local, 0, 1, nullptr, [](void*) {});
    else if (a.barriers)
      pool_.team(workers, a.work_us, [&](int w, int count) {
        f(a.buffers.data(), a.symbols.data(), a.shared, a.local + w * a.local_stride, w, count, &pool_,
          [](void* pool) { static_cast<ThreadPool*>(pool)->barrier(); });
      });
    else
      pool_.tasks(workers, a.work_us, [&](int part, int member) {
        f(a.buffers.data(), a.symbols.data(), a.shared, a.local + member * a.local_stride, part, workers,
          nullptr, [](void*) {});
      });
    return {};
  }

  Result<void> synchronize() override { return {}; }

private:
  struct Module {
    LoadedObjects objects;
    std::vector<KernelId> kernels;
  };
  ThreadPool& pool_;
  Limits limits_;
  std::string description_;
  HostMemory memory_;
  mutable std::shared_mutex mutex_;
  IdVector<KernelId, CpuFunction> functions_;
  std::map<ModuleId, Module> modules_;
  ModuleId next_module_{0};
};

} // namespace

std::unique_ptr<CpuDevice> make_cpu_device(ThreadPool& pool) { return std::make_unique<Cpu>(pool); }

} // namespace luminal::device
