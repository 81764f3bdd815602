// search/probe.cpp -- the loops as loop IR text, compiled for whatever vectors the machine has.
#include "search/probe.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/thread_pool.h"
#include "device/cpu/cpu_device.h"
#include "loop/loop.h"
#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace luminal::search {
namespace {

constexpr int vectors_per_block = 8; // of a stream: enough to hide the latency of an addition
constexpr int places = 2;            // of a share, that are read by turns

/// Chains in flight: two instructions a cycle of latency four need eight, four a cycle sixteen.
int chains(const codegen::CpuTarget& target) { return target.vector_registers >= 32 ? 16 : 12; }

std::string fma_text(const codegen::CpuTarget& target, DType type) {
  return fmt::format(
      R"(kernel fma_peak(x: {t}[{n} + 2] in, y: {t}[{n}*parts] out; rounds: 1..1099511627776, parts: 1..1024) lanes {f32}
  registers acc: {t}[{n}] padded
  parallel p in 0..parts
    unrolled u0 in 0..{c}
      vector l0 in 0..{l}
        acc[{l}*u0 + l0] = x[{l}*u0 + l0 + 2]
    for r in 0..rounds
      unrolled u1 in 0..{c}
        vector l1 in 0..{l}
          acc[{l}*u1 + l1] = fma(acc[{l}*u1 + l1], x[0], x[1])
    unrolled u2 in 0..{c}
      vector l2 in 0..{l}
        y[{n}*p + {l}*u2 + l2] = acc[{l}*u2 + l2]
)",
      fmt::arg("t", to_string(type)), fmt::arg("n", chains(target) * target.lanes(type)),
      fmt::arg("c", chains(target)), fmt::arg("l", target.lanes(type)),
      fmt::arg("f32", target.lanes(DType::f32)));
}

/// A dot instruction of k products a lane.
std::string dot_text(const codegen::CpuTarget& target, const char* unit, const char* a, const char* b,
                     const char* acc, int k) {
  const int lanes = target.lanes(DType::f32);
  return fmt::format(
      R"(kernel dot_peak(a: {a}[{kl}] in, b: {b}[{kl}] in, x: {t}[{n}] in, y: {t}[{n}*parts] out; rounds: 1..1099511627776, parts: 1..1024) lanes {l}
  registers acc: {t}[{n}] padded
  parallel p in 0..parts
    unrolled u0 in 0..{c}
      vector l0 in 0..{l}
        acc[{l}*u0 + l0] = x[{l}*u0 + l0]
    for r in 0..rounds
      unrolled u1 in 0..{c}
        unit {unit} acc[{l}*u1; 1] a[0; {k}, 1] b[0; {k}, 1]
    unrolled u2 in 0..{c}
      vector l2 in 0..{l}
        y[{n}*p + {l}*u2 + l2] = acc[{l}*u2 + l2]
)",
      fmt::arg("unit", unit), fmt::arg("a", a), fmt::arg("b", b), fmt::arg("t", acc), fmt::arg("k", k),
      fmt::arg("kl", k * lanes), fmt::arg("l", lanes), fmt::arg("c", chains(target)),
      fmt::arg("n", chains(target) * lanes));
}

/// Two by two tiles of sums, of which each step takes two tiles of either operand.
constexpr const char* tiles_text =
    R"(kernel tiles(a: bf16[1024] in, b: u32[512] in, y: f32[1024*parts] inout; rounds: 1..1099511627776, parts: 1..1024) lanes 16
  parallel p in 0..parts
    for r in 0..rounds
      unrolled i in 0..2
        unrolled v in 0..2
          unit amx.dpbf16 y[1024*p + 512*i + 16*v; 32, 1] a[512*i; 32, 2, 1] b[16*v; 32, 1]
)";
constexpr double tiles_operations = 4.0 * 16 * 16 * 32 * 2; // of a round

/// Blocks of about two kilobytes, which stay at one place: while they are read, the processor's
/// prefetcher brings the next lines of the others.
int blocks_per_piece(const codegen::CpuTarget& target) {
  return std::max(1, 2048 / (vectors_per_block * target.lanes(DType::f32) * int(sizeof(float))));
}

/// Adds up all of x. loops: what runs over the blocks of one worker, with the innermost statement.
std::string reading_text(const codegen::CpuTarget& target, const char* name, int multiple,
                         const std::string& loops) {
  const int lanes = target.lanes(DType::f32);
  return fmt::format(
      R"(kernel {name}(x: f32[{b}*blocks*parts] in, y: f32[{b}*parts] out; blocks: 1..1099511627776 multiple {multiple}, parts: 1..1024, rounds: 1..1099511627776) lanes {l}
  registers acc: f32[{b}] padded
  parallel p in 0..parts
    unrolled u0 in 0..{v}
      vector l0 in 0..{l}
        acc[{l}*u0 + l0] = 0
    for r in 0..rounds
{loops}    unrolled u2 in 0..{v}
      vector l2 in 0..{l}
        y[{b}*p + {l}*u2 + l2] = acc[{l}*u2 + l2]
)",
      fmt::arg("name", name), fmt::arg("multiple", multiple), fmt::arg("loops", loops),
      fmt::arg("b", vectors_per_block * lanes), fmt::arg("v", vectors_per_block), fmt::arg("l", lanes));
}

std::string read_text(const codegen::CpuTarget& target) {
  const int lanes = target.lanes(DType::f32);
  return reading_text(target, "read", 1,
                      fmt::format(R"(      for i in 0..blocks
        unrolled u in 0..{v}
          vector l in 0..{l}
            acc[{l}*u + l] = acc[{l}*u + l] + x[{b}*(blocks*p + i) + {l}*u + l]
)",
                                  fmt::arg("b", vectors_per_block * lanes), fmt::arg("v", vectors_per_block),
                                  fmt::arg("l", lanes)));
}

/// At several places of each share by turns.
std::string read_by_turns_text(const codegen::CpuTarget& target) {
  const int lanes = target.lanes(DType::f32), piece = blocks_per_piece(target);
  return reading_text(target, "read_by_turns", places * piece,
                      fmt::format(R"(      for o in 0..blocks // {n}
        for place in 0..{places}
          for i in 0..{piece}
            unrolled u in 0..{v}
              vector l in 0..{l}
                acc[{l}*u + l] = acc[{l}*u + l] + x[{b}*(blocks*p + (blocks // {places})*place + {piece}*o + i) + {l}*u + l]
)",
                                  fmt::arg("b", vectors_per_block * lanes), fmt::arg("v", vectors_per_block),
                                  fmt::arg("l", lanes), fmt::arg("places", places), fmt::arg("piece", piece),
                                  fmt::arg("n", places * piece)));
}

std::string stream_text(const codegen::CpuTarget& target, Stream stream, bool cached) {
  const int lanes = target.lanes(DType::f32), block = vectors_per_block * lanes;
  const auto place = fmt::format("[{0}*blocks*p + {0}*i + {1}*u + l]", block, lanes);
  const auto size = fmt::format("[{}*blocks*parts]", block);
  const char* symbols = "blocks: 1..1099511627776, parts: 1..1024, rounds: 1..1099511627776";
  if (stream == Stream::read) return read_text(target);
  const char* head = stream == Stream::write  ? "write(s: f32[1] in"
                     : stream == Stream::copy ? "copy(x: f32{size} in"
                                              : "triad(s: f32[1] in, x: f32{size} in, z: f32{size} in";
  const char* value = stream == Stream::write  ? "s[0]"
                      : stream == Stream::copy ? "x{place}"
                                               : "fma(s[0], x{place}, z{place})";
  auto filled = [&](const char* text) {
    return fmt::format(fmt::runtime(text), fmt::arg("size", size), fmt::arg("place", place));
  };
  return fmt::format(R"(kernel {head}, y: f32{size} out{streaming}; {symbols}) lanes {l}
  parallel p in 0..parts
    for r in 0..rounds
      for i in 0..blocks
        unrolled u in 0..{v}
          vector l in 0..{l}
            y{place} = {value}
)",
                     fmt::arg("streaming", cached ? "" : " streaming"), fmt::arg("head", filled(head)),
                     fmt::arg("size", size), fmt::arg("symbols", symbols), fmt::arg("l", lanes),
                     fmt::arg("v", vectors_per_block), fmt::arg("place", place),
                     fmt::arg("value", filled(value)));
}

/// Bytes of x (or a, b, x) and of y that the arithmetic loops touch, for any type.
constexpr int64_t arithmetic_input = 16 << 10, arithmetic_output = 16 << 10;

} // namespace

int arrays_read(Stream stream) { return stream == Stream::write ? 0 : stream == Stream::triad ? 2 : 1; }
int arrays_written(Stream stream) { return stream == Stream::read ? 0 : 1; }

Probes::Probes(ThreadPool& pool, const codegen::Target& target)
    : pool_(pool), target_(target), device_(device::make_cpu_device(pool)) {
  by_turns_.resize(size_t(pool.size()));
  scratch_.resize(size_t(arithmetic_input + arithmetic_output * pool.size() + 64));
}

Result<std::unique_ptr<Probes>> Probes::create(ThreadPool& pool, const codegen::Target& code_target) {
  std::unique_ptr<Probes> probes(new Probes(pool, code_target));
  const codegen::CpuTarget& target = code_target.cpu;
  const bool arm = target.triple.starts_with("aarch64") || target.triple.starts_with("arm64");
  struct Wanted {
    Loop* loop;
    std::string text;
    codegen::CompiledKernel compiled;
  };
  std::vector<Wanted> wanted;
  auto arithmetic = [&](Peak peak, std::string text, double operations_per_lane, int lanes) {
    Loop& loop = probes->peaks_[size_t(peak)];
    loop.operations = operations_per_lane * lanes * chains(target);
    wanted.push_back({&loop, std::move(text), {}});
  };
  const int lanes = target.lanes(DType::f32);
  arithmetic(Peak::f32, fma_text(target, DType::f32), 2, lanes);
  arithmetic(Peak::f64, fma_text(target, DType::f64), 2, target.lanes(DType::f64));
  if (target.bf16_dot)
    arithmetic(Peak::bf16, dot_text(target, arm ? "arm.bfdot" : "avx512.dpbf16", "bf16", "bf16", "f32", 2), 4,
               lanes);
  if (target.int8_dot)
    arithmetic(Peak::int8,
               dot_text(target, arm ? "arm.sdot" : "vnni.dpbusd", arm ? "i8" : "u8", "i8", "i32", 4), 8,
               lanes);
  if (target.bf16_tiles) {
    Loop& loop = probes->peaks_[size_t(Peak::bf16_tiles)];
    loop.operations = tiles_operations;
    wanted.push_back({&loop, tiles_text, {}});
  }
  for (int s = 0; s < stream_count; s++)
    for (const bool cached : {false, true})
      wanted.push_back({&probes->streams_[size_t(s)][cached], stream_text(target, Stream(s), cached), {}});
  wanted.push_back({&probes->read_by_turns_, read_by_turns_text(target), {}});

  std::vector<std::string> errors(wanted.size());
  pool.parallel_for(int64_t(wanted.size()), [&](int64_t i) {
    Wanted& w = wanted[size_t(i)];
    kernel::Kernel kernel = kernel::parse_kernel(w.text, "<probe>");
    auto mistakes = kernel::verify(kernel);
    LUMINAL_CHECK(mistakes.empty(), "probe: {}\n{}", mistakes[0], w.text);
    auto compiled = codegen::compile(kernel, target);
    if (compiled)
      w.compiled = std::move(*compiled);
    else
      errors[size_t(i)] = compiled.error();
  });
  for (const std::string& error : errors)
    if (!error.empty()) return Failure{error};
  std::vector<device::Code> code;
  for (const Wanted& w : wanted) code.push_back({w.compiled.object, w.compiled.entry});
  auto loaded = probes->device_->load(code);
  if (!loaded) return loaded.failure();
  for (size_t i = 0; i < wanted.size(); i++) {
    wanted[i].loop->present = true;
    wanted[i].loop->kernel = loaded->kernels[i];
  }
  return probes;
}

double Probes::peak(Peak peak, int threads, double seconds) {
  const Loop& loop = peaks_[size_t(peak)];
  LUMINAL_CHECK(loop.present, "this machine has no such instruction");
  auto* base =
      reinterpret_cast<std::byte*>((reinterpret_cast<uintptr_t>(scratch_.data()) + 63) & ~uintptr_t(63));
  std::byte* y = base + arithmetic_input;
  std::vector<void*> buffers;
  auto fill = [](auto* values, int64_t count, auto value) { std::fill_n(values, count, value); };
  if (peak == Peak::f32) {
    auto* x = reinterpret_cast<float*>(base);
    fill(x, 1024, 0.75f);
    x[0] = 0.999f, x[1] = 1e-3f;
    buffers = {base, y};
  } else if (peak == Peak::f64) {
    auto* x = reinterpret_cast<double*>(base);
    fill(x, 1024, 0.75);
    x[0] = 0.999, x[1] = 1e-3;
    buffers = {base, y};
  } else if (peak == Peak::bf16_tiles) {
    fill(reinterpret_cast<uint16_t*>(base), 2048, uint16_t(0x3A83)); // 0.001
    buffers = {base, base + 2048, y};
  } else {
    fill(reinterpret_cast<uint16_t*>(base), 512,
         peak == Peak::bf16 ? uint16_t(0x3A83) : uint16_t(0x0301)); // bf16 0.001; bytes 1, 3
    std::memset(base + 1024, 0, size_t(arithmetic_input - 1024));
    buffers = {base, base, base + 1024, y};
  }
  auto run = [&](int64_t rounds) {
    const int64_t symbols[] = {rounds, threads};
    const double start = seconds_now();
    device_->launch(loop.kernel, {.buffers = buffers, .symbols = symbols, .workers = threads}).value();
    return seconds_now() - start;
  };
  double& rate = rounds_per_second_[size_t(peak)];
  if (rate == 0) {
    run(1000);
    rate = 20000 / run(20000);
  }
  const int64_t rounds = std::max<int64_t>(1, std::llround(seconds * rate));
  return loop.operations * double(rounds) * threads / run(rounds);
}

int64_t Probes::blocks(int threads, int64_t elements) const {
  const int64_t block = int64_t(vectors_per_block) * target_.cpu.lanes(DType::f32);
  const int64_t count = elements / (block * threads), even = places * blocks_per_piece(target_.cpu);
  return std::max<int64_t>(1, count < 64 * even ? count : count / even * even);
}

int64_t Probes::stream_bytes(Stream stream, int threads, int64_t elements, int64_t rounds) const {
  const int64_t block = int64_t(vectors_per_block) * target_.cpu.lanes(DType::f32) * int64_t(sizeof(float));
  return blocks(threads, elements) * block * threads * rounds *
         (arrays_read(stream) + arrays_written(stream));
}

double Probes::stream_seconds(Stream stream, int threads, const Arrays& a, int64_t rounds) {
  auto* base = reinterpret_cast<float*>((reinterpret_cast<uintptr_t>(scratch_.data()) + 63) & ~uintptr_t(63));
  base[0] = 0.5f;
  auto* x = const_cast<float*>(a.x);
  auto* z = const_cast<float*>(a.z);
  std::vector<void*> buffers;
  switch (stream) {
  case Stream::read: buffers = {x, base + arithmetic_input / 4}; break;
  case Stream::write: buffers = {base, a.y}; break;
  case Stream::copy: buffers = {x, a.y}; break;
  case Stream::triad: buffers = {base, x, z, a.y}; break;
  }
  const int64_t symbols[] = {blocks(threads, a.elements), threads, rounds};
  const Loop* loop = &streams_[size_t(stream)][a.cached];
  if (stream == Stream::read && !a.cached && symbols[0] % (places * blocks_per_piece(target_.cpu)) == 0 &&
      (by_turns_[size_t(threads - 1)] ^= 1))
    loop = &read_by_turns_;
  const double start = seconds_now();
  device_->launch(loop->kernel, {.buffers = buffers, .symbols = symbols, .workers = threads}).value();
  return seconds_now() - start;
}

double Probes::fork_join_seconds(int repeats) {
  for (int i = 0; i < 100; i++) pool_.run([](int) {});
  const double start = seconds_now();
  for (int i = 0; i < repeats; i++) pool_.run([](int) {});
  return (seconds_now() - start) / repeats;
}

} // namespace luminal::search
