// device/null/null_device.cpp -- everything a device does, but for the work.
#include "device/null/null_device.h"
#include "base/check.h"
#include "device/host_memory.h"
#include <fmt/format.h>
#include <map>
#include <mutex>

namespace luminal::device {
namespace {

class Null final : public HostCopies<Device> {
public:
  explicit Null(std::string_view language)
      : name_(fmt::format("null:{}", language)),
        description_(fmt::format("no device, for the language {}", language)) {
    limits_.memory_bytes = usable_memory();
    limits_.workers = language == "cpu" ? 1 : 1024;
  }
  std::string_view name() const override { return name_; }
  std::string_view description() const override { return description_; }
  const Limits& limits() const override { return limits_; }

  Result<Memory> allocate(int64_t bytes, const AllocateOptions& options) override {
    return memory_.allocate(name_, bytes, options);
  }
  void free(Memory memory) noexcept override { memory_.free(memory); }
  void decommit(Memory memory, int64_t offset, int64_t bytes) noexcept override {
    memory_.decommit(memory, offset, bytes);
  }
  bool holds(const void* address) const override { return memory_.holds(address); }

  Result<Loaded> load(std::span<const Code> code) override {
    std::lock_guard lock(mutex_);
    Loaded loaded;
    for (size_t i = 0; i < code.size(); ++i)
      if (code[i].object.empty() || code[i].entry.empty())
        return Failure{
            fmt::format("{}: code {} is empty, expected an object and the name of its entry", name_, i)};
    loaded.module = next_module_++;
    for (size_t i = 0; i < code.size(); ++i) {
      loaded.kernels.push_back(next_kernel_);
      kernels_[next_kernel_++] = loaded.module;
    }
    return loaded;
  }
  void unload(ModuleId module) noexcept override {
    std::lock_guard lock(mutex_);
    std::erase_if(kernels_, [&](const auto& k) { return k.second == module; });
  }
  Result<void> launch(KernelId kernel, const LaunchArguments& a) override {
    std::lock_guard lock(mutex_);
    if (!kernels_.contains(kernel)) return Failure{fmt::format("{}: kernel {} is not loaded", name_, kernel)};
    for (size_t i = 0; i < a.buffers.size(); ++i)
      if (!a.buffers[i])
        return Failure{fmt::format("{}: argument {} of kernel {} has no address", name_, i, kernel)};
    if (a.workers < 0 || a.workers > limits_.workers)
      return Failure{
          fmt::format("{}: {} workers are asked for, there are {}", name_, a.workers, limits_.workers)};
    return {};
  }
  Result<void> synchronize() override { return {}; }

private:
  std::string name_, description_;
  Limits limits_;
  HostMemory memory_;
  std::mutex mutex_;
  std::map<KernelId, ModuleId> kernels_;
  KernelId next_kernel_{0};
  ModuleId next_module_{0};
};

} // namespace

std::unique_ptr<Device> make_null_device(std::string_view language) {
  return std::make_unique<Null>(language);
}

} // namespace luminal::device
