// search/machine_measure.cpp -- peaks and bandwidths by generated kernels: the same path that user programs take.
#include "search/machine_measure.h"
#include "base/thread_pool.h"
#include "device/cpu/cpu_device.h"
#include <algorithm>
#include <chrono>
#include <fmt/format.h>
#include <functional>

namespace luminal::search {
namespace {
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point t) { return std::chrono::duration<double>(Clock::now() - t).count(); }

/// Independent multiply-adds in registers, as many as hide the latency on every processor we know; `work` units of `count` rounds each.
std::string fma_text(const char* type, int lanes) {
  return fmt::format(R"(
kernel peak(x: {0}[{2}] in, y: {0}[work*12*{2}] out; count: 1..1000000000, work: 1..1024) lanes {1}
  registers acc: {0}[12*{2}]
  parallel w in 0..work
    unrolled i in 0..12
      vector il in 0..{2}
        acc[{2}*i + il] = x[il]
    for r in 0..count
      unrolled j in 0..12
        vector jl in 0..{2}
          acc[{2}*j + jl] = fma(acc[{2}*j + jl], x[jl], x[jl])
    unrolled k in 0..12
      vector kl in 0..{2}
        y[12*{2}*w + {2}*k + kl] = acc[{2}*k + kl]
)",
                     type, lanes, std::string_view(type) == "f64" ? lanes / 2 : lanes);
}

/// The same with a dot-product unit of `depth` products a lane.
std::string dot_text(const char* unit, const char* acc, const char* a, const char* b, int depth, int lanes) {
  return fmt::format(R"(
kernel peak(a: {2}[{5}] in, b: {3}[{5}] in, y: {1}[work*12*{4}] out; count: 1..1000000000, work: 1..1024) lanes {4}
  registers acc: {1}[12*{4}]
  parallel w in 0..work
    unrolled i in 0..12
      vector il in 0..{4}
        acc[{4}*i + il] = 0
    for r in 0..count
      unrolled j in 0..12
        unit {0} acc[{4}*j; 1] a[0; {6}, 1] b[0; {6}, 1]
    unrolled k in 0..12
      vector kl in 0..{4}
        y[12*{4}*w + {4}*k + kl] = acc[{4}*k + kl]
)",
                     unit, acc, a, b, lanes, lanes * depth, depth);
}

/// Streams over `n` vectors for each of `work` units, `rounds` times. what: read, write, copy, triad.
std::string stream_text(std::string_view what, int lanes) {
  std::string at = fmt::format("{}*(n*w + 8*i + u) + l", lanes), body;
  if (what == "read") body = fmt::format("acc[{}*u + l] = acc[{}*u + l] + a[{}]", lanes, lanes, at);
  if (what == "write") body = fmt::format("c[{}] = 1", at);
  if (what == "copy") body = fmt::format("c[{}] = a[{}]", at, at);
  if (what == "triad") body = fmt::format("c[{}] = fma(b[{}], 3, a[{}])", at, at, at);
  return fmt::format(R"(
kernel stream(a: f32[{0}*n*work] in, b: f32[{0}*n*work] in, c: f32[{0}*n*work] inout, s: f32[8*{0}*work] out; n: 8..1000000000 multiple 8, rounds: 1..1000000000, work: 1..1024) lanes {0}
  registers acc: f32[8*{0}]
  parallel w in 0..work
    unrolled z in 0..8
      vector zl in 0..{0}
        acc[{0}*z + zl] = 0
    for r in 0..rounds
      for i in 0..n // 8
        unrolled u in 0..8
          vector l in 0..{0}
            {1}
    unrolled t in 0..8
      vector tl in 0..{0}
        s[8*{0}*w + {0}*t + tl] = acc[{0}*t + tl]
)",
                     lanes, body);
}

class Bench {
public:
  explicit Bench(MachineProfile& profile)
      : p_(profile), pool_(profile.threads), device_(device::make_cpu_device(pool_)),
        lanes_(codegen::CpuTarget::host().lanes(DType::f32)) {}

  Result<void> run() {
    if (auto done = peaks(); !done) return done;
    if (auto done = streams(); !done) return done;
    if (p_.threads > 1) fork_join();
    return {};
  }

private:
  Result<device::KernelId> load(const std::string& text) {
    auto compiled =
        codegen::compile(kernel::parse_kernel(text, "machine profile"), codegen::CpuTarget::host());
    if (!compiled) return compiled.failure();
    device::Code code{compiled->object, compiled->entry};
    auto loaded = device_->load({&code, 1});
    if (!loaded) return loaded.failure();
    return loaded->kernels[0];
  }

  /// The fastest of several runs: interruptions only add.
  double best_seconds(device::KernelId kernel, std::span<void* const> buffers,
                      std::span<const int64_t> symbols, int workers, double budget) {
    device::LaunchArguments launch;
    launch.buffers = buffers;
    launch.symbols = symbols;
    launch.workers = workers;
    double best = HUGE_VAL;
    auto begin = Clock::now();
    for (int i = 0; i < 3 || (seconds_since(begin) < budget && i < 1000); ++i) {
      auto t = Clock::now();
      device_->launch(kernel, launch).value();
      best = std::min(best, seconds_since(t));
    }
    return best;
  }

  Result<void> peak(const std::string& text, double operations, double& one, double& all) {
    auto kernel = load(text);
    if (!kernel) return kernel.failure();
    std::vector<float> a(1024, 0.25f), b(1024, 0.25f), y(size_t(p_.threads) * 12 * 64);
    std::vector<double> x(64, 0.25);
    bool dot = text.find("unit ") != std::string::npos, f64 = text.find("f64") != std::string::npos;
    std::vector<double> y64(size_t(p_.threads) * 12 * 16);
    std::vector<void*> buffers;
    if (dot)
      buffers = {a.data(), b.data(), y.data()};
    else if (f64)
      buffers = {x.data(), y64.data()};
    else
      buffers = {a.data(), y.data()};
    constexpr int64_t count = 100000;
    for (int workers : {1, p_.threads}) {
      std::vector<int64_t> symbols{count, workers};
      double rate = operations * 12 * double(count) * workers /
                    best_seconds(*kernel, buffers, symbols, workers, 0.03) * 1e-9;
      (workers == p_.threads ? all : one) = rate;
      if (p_.threads == 1) one = rate;
    }
    return {};
  }

  Result<void> peaks() {
    const codegen::CpuTarget& target = codegen::CpuTarget::host();
    if (auto done = peak(fma_text("f32", lanes_), 2.0 * lanes_, p_.fma_f32_1, p_.fma_f32); !done) return done;
    if (auto done = peak(fma_text("f64", lanes_), 1.0 * lanes_, p_.fma_f64_1, p_.fma_f64); !done) return done;
    bool arm = target.triple.starts_with("aarch64");
    if (target.bf16_dot)
      if (auto done = peak(dot_text(arm ? "arm.bfdot" : "avx512.dpbf16", "f32", "bf16", "bf16", 2, lanes_),
                           4.0 * lanes_, p_.bf16_dot_1, p_.bf16_dot);
          !done)
        return done;
    if (target.int8_dot)
      if (auto done =
              peak(dot_text(arm ? "arm.sdot" : "vnni.dpbusd", "i32", arm ? "i8" : "u8", "i8", 4, lanes_),
                   8.0 * lanes_, p_.int8_dot_1, p_.int8_dot);
          !done)
        return done;
    return {};
  }

  Result<void> streams() {
    int64_t memory_bytes = std::clamp<int64_t>(4 * p_.l3, int64_t(64) << 20, int64_t(256) << 20);
    device::AllocateOptions huge;
    huge.huge_pages = true;
    std::vector<device::Memory> blocks;
    std::vector<void*> buffers;
    for (int i = 0; i < 3; ++i) {
      auto block = device_->allocate(memory_bytes, huge);
      if (!block) return block.failure();
      blocks.push_back(*block);
      buffers.push_back(block->data);
    }
    std::vector<float> sums(size_t(p_.threads) * 8 * 64);
    buffers.push_back(sums.data());
    // Every page exists, and belongs to whoever will use it.
    pool_.run([&](int w) {
      for (device::Memory& block : blocks) {
        int64_t share = block.bytes / pool_.size() / 4096 * 4096;
        for (int64_t at = 0; at < share; at += 4096) static_cast<char*>(block.data)[share * w + at] = 0;
      }
    });
    struct Kind {
      const char* name;
      double Bandwidth::* field;
      int arrays;
    };
    Result<void> result;
    for (Kind kind : {Kind{"read", &Bandwidth::read, 1},
                      {"write", &Bandwidth::write, 1},
                      {"copy", &Bandwidth::copy, 2},
                      {"triad", &Bandwidth::triad, 3}}) {
      auto kernel = load(stream_text(kind.name, lanes_));
      if (!kernel) {
        result = kernel.failure();
        break;
      }
      // bytes: of each array and worker
      auto rate = [&](int64_t bytes, int workers, int64_t rounds, double budget) {
        int64_t n = std::max<int64_t>(bytes / (4 * lanes_) / 8 * 8, 8);
        std::vector<int64_t> symbols{n, rounds, workers};
        double moved = double(n) * lanes_ * 4 * kind.arrays * workers * double(rounds);
        return moved / best_seconds(*kernel, buffers, symbols, workers, budget) * 1e-9;
      };
      p_.memory_1.*kind.field = rate(memory_bytes, 1, 1, 0.05);
      p_.memory.*kind.field =
          p_.threads == 1 ? p_.memory_1.*kind.field : rate(memory_bytes / p_.threads, p_.threads, 1, 0.05);
      // Three quarters of a cache hold all arrays; a level is used where the level above it holds none.
      int64_t l1 = p_.l1 * 3 / 4 / kind.arrays, l2 = p_.l2 * 3 / 4 / kind.arrays,
              l3 = p_.l3 / 2 / kind.arrays / p_.threads;
      auto rounds = [&](int64_t bytes) {
        return std::max<int64_t>(1, (int64_t(16) << 20) / std::max<int64_t>(bytes, 1));
      };
      p_.l1_1.*kind.field = rate(l1, 1, rounds(l1), 0.01);
      p_.l2_1.*kind.field = rate(l2, 1, rounds(l2), 0.01);
      p_.l3_all.*kind.field = rate(l3, p_.threads, rounds(l3), 0.02);
    }
    for (device::Memory block : blocks) device_->free(block);
    return result;
  }

  void fork_join() {
    auto per_call = [&](int calls, const std::function<void()>& f) {
      double best = HUGE_VAL;
      for (int round = 0; round < 5; ++round) {
        auto t = Clock::now();
        f();
        best = std::min(best, seconds_since(t) / calls);
      }
      return best * 1e6;
    };
    constexpr int calls = 2000;
    p_.fork_join_us = per_call(calls, [&] {
      for (int i = 0; i < calls; ++i) pool_.run([](int) {});
    });
    p_.barrier_us = per_call(calls, [&] {
      pool_.run([&](int) {
        for (int i = 0; i < calls; ++i) pool_.barrier();
      });
    });
  }

  MachineProfile& p_;
  ThreadPool pool_;
  std::unique_ptr<device::CpuDevice> device_;
  int lanes_;
};

} // namespace

Result<void> measure(MachineProfile& profile) { return Bench(profile).run(); }

} // namespace luminal::search
