// device/gpu/gpu_device.cpp -- memory of the device, code from text, one stream in order.
#include "device/gpu/gpu_device.h"
#include "base/file_cache.h"
#include "base/settings.h"
#include "device/gpu/gpu_memory.h"
#include "device/launch_shape.h"
#include <cstring>
#include <fmt/format.h>
#include <map>
#include <mutex>
#include <utility>

namespace luminal::device {
namespace {
using namespace gpu;

constexpr int non_blocking = 1;     // a flag of streams
constexpr int most_group_bytes = 8; // an attribute of functions, for more than 48 KiB
constexpr int capability_major = 75, capability_minor = 76, oldest_capability = 70, oldest_gfx = 9;

/// "gfx942" of "gfx942:sramecc+:xnack-". The struct differs between versions, its first 256 bytes are the
/// name of the device in all of them, and nothing but the architecture begins so behind it.
std::string gfx_name(const Driver& d, int device) {
  std::string properties(16384, '\0');
  if (d.properties(properties.data(), device) != 0) return "";
  const size_t at = properties.find("gfx", 256);
  if (at == std::string::npos) return "";
  return properties.substr(at, properties.find_first_not_of("0123456789abcdefgx", at) - at);
}

struct Found {
  int id = 0;
  GpuInfo info;
};

Result<std::vector<Found>> look(const Vendor& v, const Driver& d) {
  const auto failed = [&](const char* what, int code) {
    return Failure{fmt::format("{} cannot be used: {}: {}", v.title, what, error_text(v, d, code))};
  };
  if (const int code = d.init(0); code != 0) return failed("its driver does not start", code);
  int version = 0, count = 0;
  if (const int code = d.version(&version); code != 0) return failed("its driver has no version", code);
  const int major = version / v.version_divisor, least = v.is_hip ? 5 : 12;
  if (major < least)
    return Failure{
        fmt::format("{} cannot be used: the driver is of version {}, {} or later is needed: update "
                    "the driver",
                    v.title, major, least)};
  if (const int code = d.device_count(&count); code != 0) return failed("its devices", code);
  if (count == 0) return Failure{fmt::format("{} cannot be used: the driver finds no device", v.title)};
  std::vector<Found> found;
  for (int place = 0; place < count; ++place) {
    Found& f = found.emplace_back();
    if (const int code = d.device(&f.id, place); code != 0) return failed("a device", code);
    const auto number = [&](int which) {
      int value = 0;
      return d.attribute(&value, which, f.id) == 0 ? value : 0;
    };
    char name[257] = {};
    d.name(name, 256, f.id);
    size_t bytes = 0;
    d.memory(&bytes, f.id);
    f.info.name = name;
    f.info.memory_bytes = int64_t(bytes);
    f.info.driver = fmt::format("{} {}.{}", v.title, major, version % v.version_divisor / v.minor_divisor);
    bool old = false;
    if (v.is_hip) {
      f.info.architecture = gfx_name(d, f.id);
      const std::string& gfx = f.info.architecture; // the last two digits are the stepping
      old = gfx.size() < 6 || std::atoi(gfx.substr(3, gfx.size() - 5).c_str()) < oldest_gfx;
    } else {
      const int capability = 10 * number(capability_major) + number(capability_minor);
      f.info.architecture = fmt::format("sm_{}", capability);
      old = capability < oldest_capability;
    }
    if (old)
      f.info.unusable = fmt::format("the {} device {} is {}, {} or newer is needed", v.title, f.info.name,
                                    f.info.architecture.empty() ? "unknown" : f.info.architecture,
                                    v.is_hip ? "gfx900" : "sm_70");
  }
  return found;
}

class Gpu final : public Device {
public:
  Gpu(const Vendor& vendor, const Driver& driver, const Compiler& compiler, const Found& found, int place)
      : v_(vendor), d_(driver), compiler_(compiler), memory_(driver), id_(found.id),
        architecture_(found.info.architecture),
        name_(place == 0 ? vendor.language : fmt::format("{}:{}", vendor.language, place)) {
    const int64_t units = number(v_.multiprocessors);
    most_lanes_ = number(v_.max_threads);
    most_group_bytes_ = number(v_.group_bytes);
    limits_.memory_bytes = found.info.memory_bytes;
    limits_.alignment = 256;
    limits_.host_visible = limits_.reads_host = false;
    limits_.workers =
        int(std::clamp<int64_t>(units * 4096, 64, 1 << 20)); // latencies hide behind many threads
    description_ = fmt::format("{}, {}, {}, {} multiprocessor{}", found.info.name, architecture_,
                               found.info.driver, units, units == 1 ? "" : "s");
  }
  ~Gpu() override {
    if (!opened_) return;
    use();
    if (stream_) d_.wait(stream_);
    for (auto& [id, module] : modules_) release(module);
    memory_.close();
    if (stream_) d_.end_stream(stream_);
    if (d_.release) d_.release(id_);
  }

  Result<void> open() {
    if (d_.retain)
      if (auto done = check(d_.retain(&context_, id_), "no context"); !done) return done;
    opened_ = true;
    if (auto done = check(use(), "no context"); !done) return done;
    if (auto done = check(d_.make_stream(&stream_, non_blocking), "no stream"); !done) return done;
    memory_.open(stream_, limits_.memory_bytes);
    return {};
  }

  std::string_view name() const override { return name_; }
  std::string_view description() const override { return description_; }
  const Limits& limits() const override { return limits_; }

  Result<Memory> allocate(int64_t bytes, const AllocateOptions& options) override {
    if (auto done = check(use(), "no context"); !done) return done.failure();
    void* data = nullptr;
    GpuMemory::Outcome done = memory_.allocate(&data, bytes);
    if (!done.failed() && options.zero) done = memory_.zero(data, GpuMemory::block_bytes(bytes));
    if (!done.failed()) return Memory{data, bytes, 0};
    if (data) memory_.free(data);
    const auto mega = [](int64_t n) { return double(n) / (1 << 20); };
    size_t free = 0, all = 0;
    const bool known = d_.free_bytes(&free, &all) == 0;
    const std::string there =
        known ? fmt::format(" ({:.1f} MiB are in use here, {:.1f} MiB of the device's {:.1f} MiB are free)",
                            mega(memory_.in_use()), mega(int64_t(free)), mega(int64_t(all)))
              : "";
    return Failure{
        fmt::format("{}: cannot allocate {:.1f} MiB{}: {}", name_, mega(bytes), there,
                    error_text(v_, d_, done.code)),
        MemoryShortage{.needed = bytes, .available = known ? std::optional(int64_t(free)) : std::nullopt}};
  }
  void free(Memory memory) noexcept override {
    if (memory.data && use() == 0) memory_.free(memory.data);
  }
  void decommit(Memory memory, int64_t offset, int64_t bytes) noexcept override {
    if (offset < 0 || bytes <= 0 || offset > memory.bytes || memory.bytes - offset < bytes) return;
    if (use() == 0) memory_.zero(static_cast<char*>(memory.data) + offset, bytes);
  }
  bool holds(const void* address) const override { return memory_.holds(address); }

  Result<void> copy_in(void* to, std::span<const std::byte> from) override {
    if (auto there = check_inside(to, int64_t(from.size())); !there) return there;
    return said(memory_.copy_in(to, from));
  }
  Result<void> copy_out(std::span<std::byte> to, const void* from) override {
    if (auto there = check_inside(from, int64_t(to.size())); !there) return there;
    auto done = said(memory_.copy_out(to, from));
    std::lock_guard lock(mutex_);
    if (done) launched_ = 0;
    return done;
  }
  Result<void> copy(void* to, const void* from, int64_t bytes) override {
    if (auto there = check_inside(to, bytes); !there) return there;
    if (auto there = check_inside(from, bytes); !there) return there;
    return said(memory_.copy(to, from, bytes));
  }
  Result<void> zero(void* to, int64_t bytes) override {
    if (auto there = check_inside(to, bytes); !there) return there;
    return said(memory_.zero(to, bytes));
  }

  Result<Loaded> load(std::span<const Code> code) override {
    if (auto done = check(use(), "no context"); !done) return done.failure();
    std::vector<Built> module;
    for (const Code& c : code) {
      auto made = build(c);
      if (!made) {
        release(module);
        return made.failure();
      }
      module.push_back(std::move(*made));
    }
    std::lock_guard lock(mutex_);
    Loaded loaded;
    loaded.module = next_module_++;
    for (size_t i = 0; i < module.size(); ++i) {
      loaded.kernels.push_back(places_.add({loaded.module, i}));
    }
    modules_.emplace(loaded.module, std::move(module));
    return loaded;
  }
  void unload(ModuleId id) noexcept override {
    if (use() != 0) return;
    d_.wait(stream_);
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
    const Built& k = modules_.at(places_[kernel].first)[places_[kernel].second];
    if (auto done = check(use(), "no context"); !done) return done;
    std::vector<void*> arguments; // addresses of the values, which the driver copies
    for (void* const& buffer : a.buffers) arguments.push_back(const_cast<void**>(&buffer));
    char* shared = a.shared;
    if (k.threads.shared) arguments.push_back(&shared);
    for (const int64_t& symbol : a.symbols) arguments.push_back(const_cast<int64_t*>(&symbol));
    const auto groups = unsigned(groups_of_launch(k.threads, a.workers, limits_.workers));
    last_ = k.entry;
    for (Handle phase : k.phases) {
      ++launched_;
      const int code = d_.launch(phase, groups, 1, 1, unsigned(k.threads.lanes), 1, 1,
                                 unsigned(k.threads.group_bytes), stream_, arguments.data(), nullptr);
      if (auto done = check(code, "the launch of " + k.entry); !done) return done;
    }
    return {};
  }
  Result<void> synchronize() override {
    int code = use();
    if (code == 0) code = d_.wait(stream_);
    return waited(code);
  }

private:
  struct Built {
    std::string entry;
    Handle module = nullptr;
    std::vector<Handle> phases;
    Threads threads;
  };

  /// Calls of a thread go to the device that it has made its own.
  int use() const noexcept { return d_.use_context ? d_.use_context(context_) : d_.use_device(id_); }
  int number(int which) const {
    int value = 0;
    return d_.attribute(&value, which, id_) == 0 ? value : 0;
  }
  Result<void> check(int code, std::string_view what) const {
    if (code == 0) return {};
    return Failure{fmt::format("{}: {}: {}", name_, what, error_text(v_, d_, code))};
  }
  /// The result of a wait for all that was launched.
  Result<void> waited(int code) {
    std::lock_guard lock(mutex_);
    const int launched = std::exchange(launched_, 0);
    if (code == 0) return {};
    const std::string which = launched == 1 ? "kernel " + last_
                              : launched ? fmt::format("one of {} launches, the last of {} ({} tells which)",
                                                       launched, last_, v_.find_failing)
                                         : "the device";
    return Failure{fmt::format("{}: {} failed: {}; nothing runs on it any more in this process", name_, which,
                               error_text(v_, d_, code))};
  }
  Result<void> said(const GpuMemory::Outcome& outcome) {
    if (!outcome.failed()) return {};
    return *outcome.what ? check(outcome.code, outcome.what) : waited(outcome.code);
  }
  /// Makes the device this thread's, too.
  Result<void> check_inside(const void* address, int64_t bytes) const {
    if (bytes > 0 && !memory_.holds(address, bytes))
      return Failure{
          fmt::format("{}: a copy of {} bytes is outside of the memory that was allocated", name_, bytes)};
    return check(use(), "no context");
  }
  void release(std::vector<Built>& module) noexcept {
    for (Built& k : module)
      if (k.module) d_.unload(k.module);
    module.clear();
  }

  Result<Built> build(const Code& c) {
    if (c.threads.lanes < 1 || c.threads.lanes > most_lanes_)
      return Failure{fmt::format("{}: {} needs groups of {} threads, the device has {}", name_, c.entry,
                                 c.threads.lanes, most_lanes_)};
    if (c.threads.group_bytes > most_group_bytes_)
      return Failure{fmt::format("{}: {} needs {} bytes of memory in each group, the device has {}", name_,
                                 c.entry, c.threads.group_bytes, most_group_bytes_)};
    const std::string text(reinterpret_cast<const char*>(c.object.data()), c.object.size());
    Built made;
    made.entry = c.entry;
    made.threads = c.threads;
    // Machine code of an earlier start; where the driver does not take it, it is made again.
    const Hash128 key = key_of(text, made.entry);
    if (const auto kept = code_.find(key); !kept || d_.load(&made.module, kept->data()) != 0) {
      auto image = compile(v_, compiler_, architecture_, text, made.entry);
      if (!image) return Failure{fmt::format("{}: {}", name_, image.error())};
      if (auto done = check(d_.load(&made.module, image->data()), "the module of " + made.entry); !done)
        return done.failure();
      const std::string_view parts[] = {*image};
      code_.store(key, parts);
    }
    for (int p = 0; p < c.threads.phases; ++p) {
      const std::string entry = p ? fmt::format("{}_{}", c.entry, p) : made.entry;
      Handle function = nullptr;
      auto done = check(d_.function(&function, made.module, entry.c_str()), "no kernel " + entry);
      if (done && d_.function_attribute && c.threads.group_bytes > 0)
        done = check(d_.function_attribute(function, most_group_bytes, c.threads.group_bytes),
                     "the memory of each group of " + entry);
      if (!done) {
        d_.unload(made.module);
        return done.failure();
      }
      made.phases.push_back(function);
    }
    return made;
  }

  /// Of all that the machine code depends on.
  Hash128 key_of(const std::string& text, const std::string& entry) const {
    Hasher hash;
    hash.add("code of a GPU, 1").add(v_.language).add(compiler_.major).add(compiler_.minor);
    hash.add(architecture_).add(v_.options.size());
    for (const char* option : v_.options) hash.add(option);
    for (const int known : compiler_.architectures) hash.add(known); // PTX or machine code
    return hash.add(entry).add(text).value128();
  }
  static std::string code_folder() {
    const std::string folder = cache_folder();
    return folder.empty() ? "" : folder + "/gpu";
  }

  const Vendor& v_;
  const Driver& d_;
  const Compiler& compiler_;
  FileCache code_{code_folder(), ".code", int64_t(512) << 20};
  GpuMemory memory_;
  int id_ = 0;
  std::string architecture_, name_, description_;
  Handle context_ = nullptr, stream_ = nullptr;
  bool opened_ = false;
  Limits limits_;
  int most_lanes_ = 1, most_group_bytes_ = 0;
  std::mutex mutex_;
  std::map<ModuleId, std::vector<Built>> modules_;
  IdVector<KernelId, std::pair<ModuleId, size_t>> places_; // of kernels
  ModuleId next_module_{0};
  int launched_ = 0; // since the last wait
  std::string last_; // kernel that was launched
};

/// Opened once in a process.
const Result<Driver>& driver_of(const Vendor& vendor) {
  if (vendor.is_hip) {
    static const Result<Driver> of_hip = open_driver(hip);
    return of_hip;
  }
  static const Result<Driver> of_cuda = open_driver(cuda);
  return of_cuda;
}
const Result<Compiler>& compiler_of(const Vendor& vendor, const Driver& driver) {
  static std::mutex mutex;
  static std::map<bool, Result<Compiler>> opened;
  std::lock_guard lock(mutex);
  auto found = opened.find(vendor.is_hip);
  if (found == opened.end()) {
    int version = 0;
    driver.version(&version);
    found = opened.emplace(vendor.is_hip, open_compiler(vendor, version)).first;
  }
  return found->second;
}

} // namespace

Result<std::vector<GpuInfo>> gpu::list_devices(const Vendor& vendor, const Driver& driver) {
  const auto found = look(vendor, driver);
  if (!found) return found.failure();
  std::vector<GpuInfo> infos;
  for (const Found& f : *found) infos.push_back(f.info);
  return infos;
}

Result<std::unique_ptr<Device>> gpu::make_device(const Vendor& vendor, const Driver& driver,
                                                 const Compiler& compiler, int place) {
  const auto found = look(vendor, driver);
  if (!found) return found.failure();
  if (place < 0 || size_t(place) >= found->size())
    return Failure{fmt::format("there is no {} device {}, there {} {}", vendor.title, place,
                               found->size() == 1 ? "is" : "are", found->size())};
  const Found& f = (*found)[size_t(place)];
  if (!f.info.unusable.empty()) return Failure{f.info.unusable};
  auto device = std::make_unique<Gpu>(vendor, driver, compiler, f, place);
  if (auto opened = device->open(); !opened) return opened.failure();
  return std::unique_ptr<Device>(std::move(device));
}

const Result<std::vector<GpuInfo>>& gpu_devices(const gpu::Vendor& vendor) {
  const auto list = [](const gpu::Vendor& v) -> Result<std::vector<GpuInfo>> {
    if (!driver_of(v)) return driver_of(v).failure();
    return list_devices(v, *driver_of(v));
  };
  if (vendor.is_hip) {
    static const Result<std::vector<GpuInfo>> of_hip = list(gpu::hip);
    return of_hip;
  }
  static const Result<std::vector<GpuInfo>> of_cuda = list(gpu::cuda);
  return of_cuda;
}

Result<std::unique_ptr<Device>> make_gpu_device(const gpu::Vendor& vendor, int place) {
  const auto& driver = driver_of(vendor);
  if (!driver) return driver.failure();
  const auto& compiler = compiler_of(vendor, *driver);
  if (!compiler) return compiler.failure();
  return make_device(vendor, *driver, *compiler, place);
}

} // namespace luminal::device
