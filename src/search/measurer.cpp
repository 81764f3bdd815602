// search/measurer.cpp -- the measurer of this process: copies of the arguments, guarded arguments,
// launches.
#include "search/measurer.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"
#include "base/thread_pool.h"
#include "device/cpu/cpu_device.h"
#include "search/machine_profile.h"
#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

namespace luminal::search {
namespace {

constexpr int64_t most_copies = 256;

/// Bytes between pages that cannot be touched; the end lies as near to the second one as alignment
/// to 64 bytes allows.
class GuardedBytes {
public:
  explicit GuardedBytes(int64_t bytes) : bytes_(size_t(bytes)) {
    page_ = size_t(sysconf(_SC_PAGESIZE));
    inner_ = (bytes_ + page_ - 1 + (bytes_ == 0)) / page_ * page_;
    void* base =
        mmap(nullptr, inner_ + 2 * page_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED) return;
    base_ = static_cast<char*>(base);
    if (mprotect(base_ + page_, inner_, PROT_READ | PROT_WRITE) != 0) {
      munmap(base_, inner_ + 2 * page_);
      base_ = nullptr;
      return;
    }
    data_ = base_ + page_ + (inner_ - bytes_) / 64 * 64;
    std::memset(base_ + page_, canary, size_t(data_ - (base_ + page_)));
    std::memset(data_ + bytes_, canary, size_t(base_ + page_ + inner_ - (data_ + bytes_)));
  }
  GuardedBytes(const GuardedBytes&) = delete;
  GuardedBytes& operator=(const GuardedBytes&) = delete;
  GuardedBytes(GuardedBytes&& o) noexcept
      : base_(std::exchange(o.base_, nullptr)), data_(o.data_), page_(o.page_), inner_(o.inner_),
        bytes_(o.bytes_) {}
  ~GuardedBytes() {
    if (base_) munmap(base_, inner_ + 2 * page_);
  }
  bool ok() const { return base_ != nullptr; }
  char* data() const { return data_; }
  bool intact() const {
    const auto clean = [](const char* from, const char* to) {
      return std::all_of(from, to, [](char c) { return c == canary; });
    };
    return clean(base_ + page_, data_) && clean(data_ + bytes_, base_ + page_ + inner_);
  }

private:
  static constexpr char canary = 0x5C;
  char *base_ = nullptr, *data_ = nullptr;
  size_t page_ = 0, inner_ = 0, bytes_ = 0;
};

class InProcess final : public Measurer {
public:
  InProcess(std::shared_ptr<const Workload> work, const MeasurerOptions& options)
      : work_(std::move(work)), options_(options), pool_(work_->threads),
        device_(device::make_cpu_device(pool_)) {}
  ~InProcess() override {
    for (const device::Memory& memory : memory_) device_->free(memory);
  }

  Result<int> add(CandidateCode code) override {
    const device::Code text{*code.object, code.entry};
    auto loaded = device_->load({&text, 1});
    if (!loaded) return loaded.failure();
    shared_bytes_ = std::max(shared_bytes_, code.shared_bytes);
    local_bytes_ = std::max(local_bytes_, (code.local_bytes + 63) / 64 * 64);
    const int workers = code.workers > 0 ? std::min(code.workers, work_->threads) : work_->threads;
    candidates_.push_back(
        {loaded->kernels[0], code.shared_bytes, (code.local_bytes + 63) / 64 * 64, code.barriers, workers});
    return int(candidates_.size()) - 1;
  }

  Result<double> time(int candidate, int launches) override {
    LUMINAL_CHECK(candidate >= 0 && size_t(candidate) < candidates_.size() && launches > 0);
    if (auto ready = make_copies(); !ready) return ready.failure();
    const Loaded& code = candidates_[size_t(candidate)];
    device::LaunchArguments launch;
    launch.symbols = work_->symbols;
    launch.shared = static_cast<char*>(shared_.data);
    launch.local = static_cast<char*>(local_.data);
    launch.local_stride = code.local_stride;
    launch.workers = code.workers;
    launch.barriers = code.barriers;
    pool_.run([](int) {}); // nobody sleeps when the clock starts
    const double begin = seconds_now();
    for (int i = 0; i < launches; i++) {
      launch.buffers = copies_[next_];
      next_ = next_ + 1 < copies_.size() ? next_ + 1 : 0;
      if (auto done = device_->launch(code.kernel, launch); !done) return done.failure();
    }
    return (seconds_now() - begin) / launches;
  }

  Result<Outputs> run(int candidate, std::byte poison) override {
    LUMINAL_CHECK(candidate >= 0 && size_t(candidate) < candidates_.size());
    const Loaded& code = candidates_[size_t(candidate)];
    std::vector<GuardedBytes> arguments;
    std::vector<void*> addresses;
    for (const WorkArgument& a : work_->arguments) {
      arguments.emplace_back(a.bytes);
      if (!arguments.back().ok())
        return Failure{fmt::format("no {} for {}", human_bytes(uint64_t(a.bytes)), a.name)};
      char* data = arguments.back().data();
      if (a.access == kernel::Access::out)
        std::memset(data, int(poison), size_t(a.bytes));
      else if (!a.content.empty())
        std::memcpy(data, a.content.data(), a.content.size());
      addresses.push_back(data);
    }
    GuardedBytes shared(code.shared_bytes), local(code.local_stride * work_->threads);
    if (!shared.ok() || !local.ok()) return Failure{"no memory for the scratch of a launch"};
    std::memset(shared.data(), int(poison), size_t(code.shared_bytes));
    std::memset(local.data(), int(poison), size_t(code.local_stride * work_->threads));
    device::LaunchArguments launch;
    launch.buffers = addresses;
    launch.symbols = work_->symbols;
    launch.shared = shared.data();
    launch.local = local.data();
    launch.local_stride = code.local_stride;
    launch.workers = code.workers;
    launch.barriers = code.barriers;
    if (auto done = device_->launch(code.kernel, launch); !done) return done.failure();
    Outputs outputs(arguments.size());
    for (size_t i = 0; i < arguments.size(); i++) {
      const WorkArgument& a = work_->arguments[i];
      if (!arguments[i].intact()) return Failure{fmt::format("wrote beside {}", a.name)};
      const auto* data = reinterpret_cast<const std::byte*>(arguments[i].data());
      if (a.access != kernel::Access::in)
        outputs[i].assign(data, data + a.bytes);
      else if (!a.content.empty() && std::memcmp(data, a.content.data(), a.content.size()) != 0)
        return Failure{fmt::format("wrote to {}, which is only read", a.name)};
    }
    if (!shared.intact() || !local.intact()) return Failure{"wrote beside its scratch"};
    return outputs;
  }

private:
  struct Loaded {
    device::KernelId kernel;
    int64_t shared_bytes, local_stride;
    bool barriers;
    int workers;
  };

  Result<void*> allocate(int64_t bytes) {
    device::AllocateOptions how;
    how.huge_pages = true;
    auto memory = device_->allocate(std::max<int64_t>(bytes, 64), how);
    if (!memory) return memory.failure();
    memory_.push_back(*memory);
    return memory->data;
  }

  /// Copies of the arguments for timed launches, and scratch for the largest candidate so far.
  Result<void> make_copies() {
    if (copies_.empty()) {
      const int64_t one = std::max<int64_t>(work_->bytes(), 1);
      const int64_t rotate = options_.rotate_bytes >= 0
                                 ? options_.rotate_bytes
                                 : std::max<int64_t>(64 << 20, 2 * MachineProfile::guess(1).l3);
      int64_t count = std::clamp<int64_t>(rotate / one + 1, rotate > 0 ? 2 : 1, most_copies);
      count = std::max<int64_t>(1, std::min(count, options_.most_bytes / one));
      int64_t stride = 0; // of one copy, as an arena lays it out
      for (const WorkArgument& a : work_->arguments) stride += (a.bytes + 63) / 64 * 64;
      auto memory = allocate(stride * count);
      if (!memory) return memory.failure();
      char* at = static_cast<char*>(*memory);
      copies_.resize(size_t(count));
      for (auto& copy : copies_)
        for (const WorkArgument& a : work_->arguments) {
          if (a.content.empty())
            std::memset(at, 0, size_t(a.bytes)); // its pages are there before the clock runs
          else
            std::memcpy(at, a.content.data(), a.content.size());
          copy.push_back(at);
          at += (a.bytes + 63) / 64 * 64;
        }
    }
    for (auto [memory, bytes] :
         {std::pair{&shared_, shared_bytes_}, {&local_, local_bytes_ * work_->threads}}) {
      if (memory->data && memory->bytes >= bytes) continue;
      device::AllocateOptions how;
      how.huge_pages = true;
      auto grown = device_->allocate(std::max<int64_t>(bytes, 64), how);
      if (!grown) return grown.failure();
      *memory = *grown;
      memory_.push_back(*grown);
      std::memset(grown->data, 0, size_t(std::max<int64_t>(bytes, 64)));
    }
    return {};
  }

  std::shared_ptr<const Workload> work_;
  MeasurerOptions options_;
  ThreadPool pool_;
  std::unique_ptr<device::Device> device_;
  std::vector<Loaded> candidates_;
  std::vector<std::vector<void*>> copies_;
  size_t next_ = 0;
  device::Memory shared_, local_;
  int64_t shared_bytes_ = 0, local_bytes_ = 0;
  std::vector<device::Memory> memory_;
};

} // namespace

int64_t Workload::bytes() const {
  int64_t total = 0;
  for (const WorkArgument& a : arguments) total += a.bytes;
  return total;
}

std::unique_ptr<Measurer> make_in_process_measurer(std::shared_ptr<const Workload> work,
                                                   const MeasurerOptions& options) {
  return std::make_unique<InProcess>(std::move(work), options);
}

} // namespace luminal::search
