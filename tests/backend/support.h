// backend/support.h -- running kernels as machine code, beside the loop interpreter.
#pragma once
#include "base/thread_pool.h"
#include "codegen/codegen.h"
#include "device/cpu/cpu_device.h"
#include "loop/loop_interp.h"
#include <cmath>
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

namespace luminal::test {

using Bytes = std::vector<std::byte>;

/// A buffer whose last byte lies before a page that cannot be touched, and whose first lies behind
/// one, as nearly as alignment lets it.
class Guarded {
public:
  Guarded(const Bytes& content, int64_t alignment) : size_(content.size()) {
    page_ = size_t(sysconf(_SC_PAGESIZE));
    inner_ = (size_ + page_ - 1 + (size_ == 0)) / page_ * page_;
    base_ = static_cast<char*>(
        mmap(nullptr, inner_ + 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_, page_, PROT_NONE);
    mprotect(base_ + page_ + inner_, page_, PROT_NONE);
    std::memset(base_ + page_, canary, inner_);
    size_t slack = (inner_ - size_) / size_t(alignment) * size_t(alignment);
    data_ = base_ + page_ + slack;
    if (size_) std::memcpy(data_, content.data(), size_);
  }
  Guarded(const Guarded&) = delete;
  Guarded(Guarded&& o) noexcept
      : base_(std::exchange(o.base_, nullptr)), data_(o.data_), page_(o.page_), inner_(o.inner_),
        size_(o.size_) {}
  ~Guarded() {
    if (base_) munmap(base_, inner_ + 2 * page_);
  }
  void* data() const { return data_; }
  Bytes content() const {
    Bytes b(size_);
    if (size_) std::memcpy(b.data(), data_, size_);
    return b;
  }
  /// Nothing beside the buffer was written.
  bool intact() const {
    for (const char* p = base_ + page_; p < data_; ++p)
      if (*p != canary) return false;
    for (const char* p = data_ + size_; p < base_ + page_ + inner_; ++p)
      if (*p != canary) return false;
    return true;
  }

private:
  static constexpr char canary = 0x5C;
  char *base_, *data_;
  size_t page_, inner_, size_;
};

inline ThreadPool& pool() {
  static ThreadPool pool(2);
  return pool;
}
inline device::CpuDevice& cpu() {
  static std::unique_ptr<device::CpuDevice> device = device::make_cpu_device(pool());
  return *device;
}

struct Arguments {
  std::map<std::string, Bytes> data;
  std::map<std::string, int64_t> symbols;
  template <class T> Arguments& set(const std::string& name, const std::vector<T>& values) {
    Bytes& b = data[name];
    b.resize(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(b.data(), values.data(), b.size());
    return *this;
  }
  Arguments& space(const std::string& name, size_t bytes) {
    data[name].assign(bytes, std::byte{0});
    return *this;
  }
  Arguments& symbol(const std::string& name, int64_t value) {
    symbols[name] = value;
    return *this;
  }
  template <class T> std::vector<T> get(const std::string& name) const {
    const Bytes& b = data.at(name);
    std::vector<T> v(b.size() / sizeof(T));
    if (!v.empty()) std::memcpy(v.data(), b.data(), b.size());
    return v;
  }
};

/// A loaded kernel.
class Program {
public:
  Program(const kernel::Kernel& kernel, const codegen::CpuTarget& target,
          const codegen::CodegenOptions& options = {})
      : kernel_(kernel) {
    auto compiled = codegen::compile(kernel, target, options);
    if (!compiled) throw std::runtime_error(compiled.error());
    compiled_ = std::move(*compiled);
    device::Code code{compiled_.object, compiled_.entry};
    auto loaded = cpu().load({&code, 1});
    if (!loaded) throw std::runtime_error(loaded.error());
    loaded_ = *loaded;
  }
  Program(const Program&) = delete;
  ~Program() { cpu().unload(loaded_.module); }
  const codegen::CompiledKernel& compiled() const { return compiled_; }
  device::KernelId id() const { return loaded_.kernels[0]; }

  /// Runs with guarded buffers; the arguments hold the results.
  void run(Arguments& args, int workers = 1) {
    std::vector<int64_t> symbols;
    ExprMap<int64_t> bound;
    for (Expr s : kernel_.symbols) {
      symbols.push_back(args.symbols.at(std::string(s.name())));
      bound[s] = symbols.back();
    }
    std::vector<Guarded> buffers;
    std::vector<std::string> names;
    for (const kernel::Buffer& b : kernel_.buffers) {
      if (b.space != kernel::Space::global) continue;
      names.push_back(b.name);
      Bytes content = args.data.at(b.name);
      if (b.access == kernel::Access::out) std::fill(content.begin(), content.end(), std::byte{0xA7});
      buffers.emplace_back(content, std::max<int64_t>(b.alignment, 1));
    }
    std::vector<void*> pointers;
    for (Guarded& g : buffers) pointers.push_back(g.data());
    auto bytes = [&](Expr e) { return evaluate(e, bound).value(); };
    int64_t shared = bytes(compiled_.shared_bytes), local = bytes(compiled_.local_bytes);
    // Scratch: poisoned, guarded behind its end.
    Guarded shared_memory(Bytes(size_t(shared), std::byte{0xCB}), 64),
        local_memory(Bytes(size_t(local * workers), std::byte{0xCB}), 64);
    device::LaunchArguments launch;
    launch.buffers = pointers;
    launch.symbols = symbols;
    launch.shared = static_cast<char*>(shared_memory.data());
    launch.local = static_cast<char*>(local_memory.data());
    launch.local_stride = local;
    launch.workers = workers;
    cpu().launch(id(), launch).value();
    for (size_t i = 0; i < buffers.size(); i++) {
      EXPECT_TRUE(buffers[i].intact()) << kernel_.name << " wrote beside " << names[i];
      args.data[names[i]] = buffers[i].content();
    }
    EXPECT_TRUE(shared_memory.intact() && local_memory.intact());
  }

private:
  kernel::Kernel kernel_;
  codegen::CompiledKernel compiled_;
  device::Loaded loaded_;
};

/// The interpreter's results.
inline Arguments interpret(const kernel::Kernel& kernel, Arguments args, int workers = 1) {
  std::vector<std::span<std::byte>> globals;
  std::vector<int64_t> symbols;
  for (const kernel::Buffer& b : kernel.buffers)
    if (b.space == kernel::Space::global) globals.emplace_back(args.data.at(b.name));
  for (Expr s : kernel.symbols) symbols.push_back(args.symbols.at(std::string(s.name())));
  kernel::LoopRunOptions options;
  options.workers = workers;
  kernel::LoopRun run = kernel::run_kernel(kernel, globals, symbols, options);
  EXPECT_TRUE(run.ok()) << run.text() << kernel::to_string(kernel);
  return args;
}

inline kernel::Kernel checked(const std::string& text) {
  kernel::Kernel kernel = kernel::parse_kernel(text);
  EXPECT_THAT(kernel::verify(kernel), testing::IsEmpty());
  return kernel;
}

/// Targets whose code this machine can run.
inline std::vector<codegen::CpuTarget> runnable_targets() {
  std::vector<codegen::CpuTarget> targets{codegen::CpuTarget::host()};
#if defined(__x86_64__)
  if (codegen::CpuTarget::host().vector_bits == 512) {
    targets.push_back(codegen::CpuTarget::named("haswell").value());
    targets.push_back(codegen::CpuTarget::named("skylake-avx512").value());
  }
#endif
  return targets;
}

/// The widest and AVX2: for tests with much code.
inline std::vector<codegen::CpuTarget> instruction_sets() {
  std::vector<codegen::CpuTarget> targets = runnable_targets();
  if (targets.size() > 2) targets.resize(2);
  return targets;
}

inline std::vector<float> random_floats(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& v : values) v = float(int64_t(random() % 2048) - 1024) / 256;
  return values;
}

/// Values equal bit for bit, NaN equal to NaN, zeros of either sign alike (exact rules), or within
/// `ulp` units of the last place of the expected value.
inline testing::AssertionResult close(DType type, const Bytes& actual, const Bytes& expected, double ulp = 0,
                                      double scale = 0) {
  if (actual.size() != expected.size()) return testing::AssertionFailure() << "sizes differ";
  if (!is_float(type)) {
    for (size_t i = 0; i < actual.size(); ++i)
      if (actual[i] != expected[i])
        return testing::AssertionFailure()
               << "byte " << i << " is " << int(actual[i]) << ", expected " << int(expected[i]);
    return testing::AssertionSuccess();
  }
  int64_t count = int64_t(actual.size()) * 8 / bits(type);
  for (int64_t i = 0; i < count; ++i) {
    double a = load_f64(type, actual.data(), i), e = load_f64(type, expected.data(), i);
    if (std::isnan(a) && std::isnan(e)) continue;
    if (a == e) continue;
    double magnitude = std::fmax(std::fabs(e), scale), unit = 2 * unit_roundoff(type);
    double least = type == DType::f64      ? 0x1p-1074
                   : type == DType::f16    ? 0x1p-24
                   : type == DType::f8e5m2 ? 0x1p-16
                   : type == DType::f8e4m3 ? 0x1p-9
                   : type == DType::bf16   ? 0x1p-133
                                           : 0x1p-149;
    double place = std::fmax(std::ldexp(unit, std::ilogb(magnitude)), least);
    if (ulp > 0 && std::fabs(a - e) <= ulp * place) continue;
    return testing::AssertionFailure() << "element " << i << " is " << a << ", expected " << e << " ("
                                       << std::fabs(a - e) / place << " units)";
  }
  return testing::AssertionSuccess();
}

} // namespace luminal::test
