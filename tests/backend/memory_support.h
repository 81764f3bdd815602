// backend/memory_support.h -- a kernel on random bytes: the interpreter and all targets, bit for bit.
#pragma once
#include "support.h"

namespace luminal::test {

inline Bytes noise(int64_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  Bytes b(size_t(count), std::byte{});
  for (std::byte& x : b) x = std::byte(random());
  return b;
}

/// Fills every input with bytes that are numbers of moderate size, runs the interpreter and all
/// targets, compares all results bit for bit.
inline void expect_equal(const std::string& text, std::map<std::string, int64_t> symbols, int workers = 1,
                         const std::map<std::string, Bytes>& given = {},
                         const std::vector<codegen::CpuTarget>& targets = runnable_targets()) {
  const kernel::Kernel k = checked(text);
  Arguments args;
  args.symbols = symbols;
  ExprMap<int64_t> bound;
  for (Expr s : k.symbols) bound[s] = symbols.at(std::string(s.name()));
  uint64_t seed = 1;
  for (const kernel::Buffer& b : k.buffers) {
    if (b.space != kernel::Space::global) continue;
    int64_t count = evaluate(b.size, bound).value();
    Bytes content = noise(storage_bytes(b.dtype, count), seed++);
    if (is_float(b.dtype))
      for (int64_t i = 0; i < count; ++i)
        store_f64(b.dtype, content.data(), i,
                  double(int64_t(uint64_t(content[size_t(i)]) * 37 % 512) - 256) / 32);
    if (auto it = given.find(b.name); it != given.end()) content = it->second;
    args.data[b.name] = content;
  }
  Arguments expected = interpret(k, args, workers);
  for (const codegen::CpuTarget& target : targets)
    for (int w : {1, workers}) {
      Arguments actual = args;
      Program(k, target).run(actual, w);
      for (const kernel::Buffer& b : k.buffers)
        if (b.space == kernel::Space::global && b.access != kernel::Access::in) {
          EXPECT_TRUE(close(b.dtype, actual.data[b.name], expected.data[b.name]))
              << b.name << " of " << k.name << " on " << target.cpu << " with " << w << " workers";
        }
    }
}

} // namespace luminal::test
