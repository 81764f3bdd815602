// fuzz/loop_text_fuzz.cpp -- any text is a kernel or an Error; what passes verify prints, parses
// back, and runs to its end.
#include "loop/loop_interp.h"
#include <cstdio>
#include <cstdlib>
#include <span>

using namespace luminal;
using namespace luminal::kernel;

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

/// Runs the kernel at the least values of its symbols, where its buffers are small.
void run(const Kernel& k) {
  std::vector<int64_t> symbols;
  ExprMap<int64_t> at;
  for (const Expr s : k.symbols) {
    if (s.range().low == unbounded_low) return;
    symbols.push_back(s.range().low);
    at[s] = s.range().low;
  }
  std::vector<std::vector<std::byte>> data;
  for (const Buffer& b : k.buffers) {
    const Result<int64_t> size = evaluate(b.size, at);
    if (!size.ok() || *size < 0 || *size > 1 << 16) return;
    if (b.space == Space::global) data.emplace_back(size_t(storage_bytes(b.dtype, *size)));
  }
  std::vector<std::span<std::byte>> globals(data.begin(), data.end());
  LoopRunOptions options;
  options.max_statements = 20000;
  options.workers = 2;
  run_kernel(k, globals, symbols, options);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1 << 14) return 0;
  try {
    const Kernel k = parse_kernel({reinterpret_cast<const char*>(data), size}, "fuzz");
    const std::vector<std::string> mistakes = verify(k);
    if (!mistakes.empty()) return 0;
    require(same(k, parse_kernel(to_string(k), "printed")), "a printed kernel reads back differently");
    register_pressure(k);
    require(verify(expand_roles(k)).empty(), "a correct kernel without roles is not correct");
    run(k);
  } catch (const Error&) {
  }
  return 0;
}
