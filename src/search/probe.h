// search/probe.h -- generated loops that each reach for one limit of the machine: what speeds are
// measured against.
#pragma once
#include "base/result.h"
#include "codegen/codegen.h"
#include "device/device.h"
#include <array>
#include <memory>
#include <vector>

namespace luminal {
class ThreadPool;
}

namespace luminal::search {

/// Arithmetic: independent chains of one instruction, nothing else. f32, f64: fused multiply-add;
/// bf16: dot products of pairs into f32; int8: dot products of four into i32; bf16_tiles: two by two tiles of
/// such dot products, each loaded for each step.
enum class Peak : uint8_t { f32, f64, bf16, int8, bf16_tiles };
inline constexpr int peak_count = 5;

/// Memory: every array is walked once, each thread along its own contiguous share. Bytes are those
/// the program names: a written line that is read first (as caches do) counts once.
enum class Stream : uint8_t {
  read,  ///< sum of x
  write, ///< y = a
  copy,  ///< y = x
  triad, ///< y = a * x + z
};
inline constexpr int stream_count = 4;
/// Arrays that a stream reads, and writes.
int arrays_read(Stream stream);
int arrays_written(Stream stream);

class Probes {
public:
  /// Compiles every loop that the target has the instructions for. The pool must outlive the
  /// probes.
  static Result<std::unique_ptr<Probes>> create(ThreadPool& pool, const codegen::Target& target);

  bool has(Peak peak) const { return peaks_[size_t(peak)].present; }
  /// Operations per second of one run of about `seconds` (a multiply-add is two). threads: 1 ..
  /// pool size.
  double peak(Peak peak, int threads, double seconds);

  struct Arrays {
    const float *x = nullptr, *z = nullptr; ///< aligned to 64 bytes; z: triad only
    float* y = nullptr;
    int64_t elements = 0; ///< of each; a rest that is not a whole block for every thread is left out
    /// They stay in a cache from walk to walk: written as usual. Otherwise written past the caches,
    /// as kernels write results beyond the last one.
    bool cached = false;
  };
  /// Seconds of one run; `rounds`: how often the arrays are walked (for those that fit in a cache).
  /// Every other read past the caches has each thread at two places of its share by turns, which
  /// brings more from some memories and less from others: the limit is the best of several runs.
  double stream_seconds(Stream stream, int threads, const Arrays& arrays, int64_t rounds = 1);
  /// Bytes that such a run moves.
  int64_t stream_bytes(Stream stream, int threads, int64_t elements, int64_t rounds = 1) const;
  /// Seconds of one empty parallel region, the pool awake.
  double fork_join_seconds(int repeats = 2000);

private:
  struct Loop {
    bool present = false;
    device::KernelId kernel;
    double operations = 0; // of one round of one thread
  };
  explicit Probes(ThreadPool& pool, const codegen::Target& target);
  int64_t blocks(int threads, int64_t elements) const;

  ThreadPool& pool_;
  codegen::Target target_;
  std::unique_ptr<device::Device> device_;
  std::array<Loop, peak_count> peaks_;
  std::array<std::array<Loop, 2>, stream_count> streams_; // past the caches, through them
  Loop read_by_turns_;
  std::vector<uint8_t> by_turns_; // was the last read, for each number of threads
  std::array<double, peak_count> rounds_per_second_{};
  std::vector<std::byte> scratch_;
};

} // namespace luminal::search
