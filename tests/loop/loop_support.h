// loop/loop_support.h -- helpers of the loop IR's tests: kernels from text, arrays, runs.
#pragma once
#include "loop/loop_interp.h"
#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace luminal::kernel {

/// Arguments of a kernel by name, and what a run gave.
class Arguments {
public:
  template <class T> Arguments& set(const std::string& name, const std::vector<T>& values) {
    std::vector<std::byte>& bytes = data_[name];
    bytes.resize(values.size() * sizeof(T));
    if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
    return *this;
  }
  Arguments& space(const std::string& name, size_t bytes) {
    data_[name].assign(bytes, std::byte{0});
    return *this;
  }
  Arguments& symbol(const std::string& name, int64_t value) {
    symbols_[name] = value;
    return *this;
  }
  template <class T> std::vector<T> get(const std::string& name) const {
    const std::vector<std::byte>& bytes = data_.at(name);
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  LoopRun run(const Kernel& kernel, const LoopRunOptions& options = {}) {
    std::vector<std::span<std::byte>> globals;
    std::vector<int64_t> symbols;
    for (const Buffer& b : kernel.buffers)
      if (b.space == Space::global) globals.emplace_back(data_.at(b.name));
    for (const Expr s : kernel.symbols) symbols.push_back(symbols_.at(std::string(s.name())));
    return run_kernel(kernel, globals, symbols, options);
  }
  const std::map<std::string, std::vector<std::byte>>& data() const { return data_; }

private:
  std::map<std::string, std::vector<std::byte>> data_;
  std::map<std::string, int64_t> symbols_;
};

inline std::vector<float> random_floats(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<float> values(count);
  for (float& v : values) v = float(int64_t(random() % 2048) - 1024) / 256;
  return values;
}

/// The kernel of a text, which passes verify and prints and parses back.
inline Kernel checked(const std::string& text) {
  Kernel kernel = parse_kernel(text);
  EXPECT_THAT(verify(kernel), testing::IsEmpty());
  const std::string printed = to_string(kernel);
  const Kernel again = parse_kernel(printed, "printed");
  EXPECT_TRUE(same(kernel, again)) << printed << to_string(again);
  EXPECT_EQ(structural_hash(kernel), structural_hash(again));
  return kernel;
}

/// Has the run a finding of the kind whose text holds all parts?
inline testing::AssertionResult found(const LoopRun& run, FindingKind kind,
                                      std::initializer_list<const char*> parts = {}) {
  for (const Finding& f : run.findings) {
    bool all = f.kind == kind;
    for (const char* part : parts) all = all && f.text.find(part) != std::string::npos;
    if (all) return testing::AssertionSuccess();
  }
  return testing::AssertionFailure() << "no finding '" << to_string(kind) << "' with these parts in\n"
                                     << run.text();
}

} // namespace luminal::kernel
