// fuzz/schedule_text_fuzz.cpp -- any text is a schedule or an Error; a schedule is refused with a
// reason, or the kernel that it makes is correct: it verifies, and runs without a race, an access
// outside or a read of what nobody wrote. The first character chooses the cone: 0 a matrix product,
// 1 attention, 2 two results of one row, 3 an update in place.
#include "loop/loop_interp.h"
#include "schedule/lower.h"
#include <cstdio>
#include <cstdlib>
#include <span>

using namespace luminal;
using namespace luminal::kernel;

namespace {

constexpr const char* terms[] = {
    R"(symbol M: 1..8
fn @product(%A: f32[M, 7], %B: f32[7, 19]) {
  %a = view %A [m: M, n: 19, k: 7] -> [m, k]
  %b = view %B [m: M, n: 19, k: 7] -> [k, n]
  %ab = mul %a, %b
  %f = fold [m: M, n: 19, k: 7] over [k] { sum %ab[m, n, k] }
  %C = get %f, 0
  return C = %C
})",
    R"(symbol T: 1..12
fn @attention(%s: f32[5, T], %v: f32[T, 6]) {
  %one = const f32 1
  %F = fold [q: 5, k: T, e: 6] over [k] where k <= q {
      max %s[q, k];
      sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %one[];
      sum(select(old0 == -inf, 0, self * exp2(old0 - new0))) %v[k, e] }
  %l = get %F, 1
  %o = get %F, 2
  %lb = view %l [q: 5, e: 6] -> [q]
  %y = div %o, %lb
  return y = %y
})",
    R"(symbol R: 1..6
fn @both(%x: f32[R, 9]) {
  %f = fold [r: R, k: 9] over [k] { sum %x[r, k]; max %x[r, k] }
  %s = get %f, 0
  %m = get %f, 1
  %mb = view %m [r: R, k: 9] -> [r]
  %y = sub %x, %mb
  return s = %s, y = %y
})",
    R"(symbol past: 0..5
fn @append(%h: f32[3, 4], state %cache: f32[8, 4]) {
  %u = scatter set %cache, %h [i: 3, j: 4] -> [past + i, j] unique
  return next = %u -> cache
})"};

const Cone& cone(size_t number) {
  static const std::vector<Cone> cones = [] {
    std::vector<Cone> all;
    for (const char* text : terms) {
      static std::vector<Module> modules; // cones read them
      modules.reserve(std::size(terms));
      const Function& f = modules.emplace_back(parse_module(text, "term")).entry();
      std::vector<NodeId> roots;
      for (const auto& r : f.results) roots.push_back(r.value);
      ConeOptions options;
      options.name = f.name;
      options.in_place = true;
      all.push_back(build_cone(f, roots, {}, options).value());
    }
    return all;
  }();
  return cones[number % cones.size()];
}

void require(bool condition, const char* what, const std::string& text) {
  if (condition) return;
  std::fprintf(stderr, "%s\n%s\n", what, text.c_str());
  std::abort();
}

/// Runs the kernel at the largest values of its symbols; it may be too long, and nothing else may
/// be found.
void run(const Kernel& kernel) {
  std::vector<int64_t> symbols;
  ExprMap<int64_t> at;
  for (const Expr s : kernel.symbols) symbols.push_back(at[s] = s.range().high);
  std::vector<std::vector<std::byte>> data;
  for (const Buffer& b : kernel.buffers) {
    const int64_t size = evaluate(b.size, at).value();
    if (size > 1 << 16) return;
    if (b.space == Space::global) data.emplace_back(size_t(storage_bytes(b.dtype, size)));
  }
  std::vector<std::span<std::byte>> globals(data.begin(), data.end());
  LoopRunOptions options;
  options.max_statements = 20000;
  options.workers = 2;
  for (const Finding& f : run_kernel(kernel, globals, symbols, options).findings)
    require(f.kind == FindingKind::limit, f.text.c_str(), to_string(kernel));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 2048) return 0;
  const Cone& chosen = cone(data[0] - '0');
  try {
    const Schedule schedule = parse_schedule({reinterpret_cast<const char*>(data) + 1, size - 1}, "fuzz");
    require(parse_schedule(to_string(schedule), "printed") == schedule,
            "a printed schedule reads back differently", to_string(schedule));
    const Result<Kernel> kernel = lower(chosen, schedule);
    if (!kernel) {
      require(kernel.error().find("[schedule]") != std::string::npos, "refused without a reason",
              kernel.error());
      return 0;
    }
    for (const std::string& mistake : verify(*kernel)) require(false, mistake.c_str(), to_string(*kernel));
    run(*kernel);
  } catch (const Error&) { // no schedule
  }
  return 0;
}
