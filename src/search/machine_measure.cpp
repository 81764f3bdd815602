// search/machine_measure.cpp -- fills in the rates of a profile with the probes: the same path that
// user programs take.
#include "search/machine_measure.h"
#include "base/clock.h"
#include "base/thread_pool.h"
#include "device/host_memory.h"
#include "search/probe.h"
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <thread>

namespace luminal::search {
namespace {

void keep_most(double& best, double value) {
  if (std::isfinite(value)) best = std::max(best, value);
}
void keep_least(double& best, double value) {
  if (best == 0 || value < best) best = value;
}

class Measurement {
public:
  Measurement(MachineProfile& profile, ThreadPool& pool, Probes& probes)
      : p_(profile), pool_(pool), probes_(probes) {}

  Result<void> run() {
    // Beyond every cache; the values are not zeros and no subnormals, and pages lie where they will
    // be used.
    int64_t bytes = std::clamp<int64_t>(2 * p_.l3, int64_t(64) << 20, int64_t(256) << 20);
    if (int64_t usable = device::usable_memory(); usable > 0) bytes = std::min(bytes, usable / 16);
    for (float*& array : arrays_) {
      auto block = memory_.allocate("cpu", bytes, {.alignment = 4096, .huge_pages = true, .zero = false});
      if (!block) return block.failure();
      array = static_cast<float*>(block->data);
    }
    elements_ = bytes / int64_t(sizeof(float));
    pool_.run([&](int member) {
      const int64_t end = elements_ * (member + 1) / pool_.size();
      for (int64_t i = elements_ * member / pool_.size(); i < end; i++)
        for (float* array : arrays_) array[i] = float(i & 1023) * 0x1p-10f;
    });
    // All of them in turn, several rounds, the best of each: a moment in which another program runs
    // spoils one only. Numbers that contradict each other say that it spoiled more: then all rounds
    // again, a little later.
    clear();
    for (int attempt = 0; attempt < 4; attempt++) {
      if (attempt > 0) std::this_thread::sleep_for(std::chrono::milliseconds(200));
      for (int round = 0; round < 4; round++) {
        peaks();
        for (int s = 0; s < stream_count; s++) stream(Stream(s));
        if (p_.threads > 1) fork_join();
      }
      if (p_.contradicted().empty()) break;
    }
    return {};
  }

private:
  void clear() {
    for (double* x :
         {&p_.fma_f32_1, &p_.fma_f32, &p_.fma_f64_1, &p_.fma_f64, &p_.bf16_dot_1, &p_.bf16_dot,
          &p_.int8_dot_1, &p_.int8_dot, &p_.bf16_tile_1, &p_.bf16_tile, &p_.fork_join_us, &p_.barrier_us})
      *x = 0;
    for (Bandwidth* b : {&p_.memory_1, &p_.memory, &p_.l1_1, &p_.l2_1, &p_.l3_all}) *b = {};
  }

  void peaks() {
    struct Fields {
      Peak peak;
      double *one, *all;
    };
    for (auto [peak, one, all] : {Fields{Peak::f32, &p_.fma_f32_1, &p_.fma_f32},
                                  {Peak::f64, &p_.fma_f64_1, &p_.fma_f64},
                                  {Peak::bf16, &p_.bf16_dot_1, &p_.bf16_dot},
                                  {Peak::int8, &p_.int8_dot_1, &p_.int8_dot},
                                  {Peak::bf16_tiles, &p_.bf16_tile_1, &p_.bf16_tile}}) {
      if (!probes_.has(peak)) continue;
      keep_most(*one, probes_.peak(peak, 1, 3e-3) * 1e-9);
      keep_most(*all, p_.threads == 1 ? *one : probes_.peak(peak, p_.threads, 3e-3) * 1e-9);
    }
  }

  void stream(Stream kind) {
    const int count = arrays_read(kind) + arrays_written(kind);
    auto field = [&](Bandwidth& b) -> double& {
      return kind == Stream::read    ? b.read
             : kind == Stream::write ? b.write
             : kind == Stream::copy  ? b.copy
                                     : b.triad;
    };
    // bytes: that each thread's shares of all arrays take
    auto rate = [&](int64_t bytes, int threads, int64_t walks) {
      const Probes::Arrays arrays{arrays_[0], arrays_[1], arrays_[2],
                                  std::min(elements_, bytes / count / int64_t(sizeof(float)) * threads),
                                  walks > 1};
      if (walks > 1) probes_.stream_seconds(kind, threads, arrays, 1);
      const double seconds = probes_.stream_seconds(kind, threads, arrays, walks);
      return double(probes_.stream_bytes(kind, threads, arrays.elements, walks)) / seconds * 1e-9;
    };
    auto walks = [](int64_t bytes) {
      return std::max<int64_t>(2, (int64_t(16) << 20) / std::max<int64_t>(bytes, 1));
    };
    const int64_t all_of_it = elements_ * int64_t(sizeof(float)) * count;
    keep_most(field(p_.memory_1), rate(all_of_it, 1, 1));
    keep_most(field(p_.memory),
              p_.threads == 1 ? field(p_.memory_1) : rate(all_of_it / p_.threads, p_.threads, 1));
    // Half of a level, where the level before it holds next to nothing of it.
    keep_most(field(p_.l1_1), rate(p_.l1 / 2, 1, walks(p_.l1 / 2)));
    keep_most(field(p_.l2_1), rate(p_.l2 / 2, 1, walks(p_.l2 / 2)));
    const int64_t share = std::min(p_.l3 / 2 / p_.threads, 4 * p_.l2);
    keep_most(field(p_.l3_all), rate(share, p_.threads, walks(share)));
  }

  void fork_join() {
    constexpr int calls = 1000;
    keep_least(p_.fork_join_us, probes_.fork_join_seconds(calls) * 1e6);
    const double start = seconds_now();
    pool_.run([&](int) {
      for (int i = 0; i < calls; ++i) pool_.barrier();
    });
    keep_least(p_.barrier_us, (seconds_now() - start) / calls * 1e6);
  }

  MachineProfile& p_;
  ThreadPool& pool_;
  Probes& probes_;
  device::HostMemory memory_;
  std::array<float*, 3> arrays_{};
  int64_t elements_ = 0;
};

} // namespace

Result<void> measure(MachineProfile& profile) {
  ThreadPool pool(profile.threads, 2000);
  auto probes = Probes::create(pool, codegen::Target::host());
  if (!probes) return probes.failure();
  return Measurement(profile, pool, **probes).run();
}

} // namespace luminal::search
