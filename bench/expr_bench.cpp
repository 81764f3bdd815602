// bench/expr_bench.cpp -- the cost of index algebra: one simplification (goal 1 us), one evaluation
// (goal 50 ns), one proof.
//
// "new": operands that differ from call to call, more of them than the memo of operations holds, so
// the rules run each time (the nodes of the results exist after the first round). "first": also the
// nodes are new. "again": the same operands each time.
#include "expr/expr.h"
#include <benchmark/benchmark.h>

using namespace luminal;

namespace {

const Expr i = Expr::symbol("i", {0, 1023}), j = Expr::symbol("j", {0, 63}), k = Expr::symbol("k", {0, 15});
const Expr n = Expr::symbol("n", {1, 1 << 20}), x = Expr::symbol("x");

// Each is one call of a constructor on operands that exist.
struct Case {
  const char* name;
  Expr (*make)(Expr e, Expr other);
};
const Case cases[] = {
    {"add", [](Expr e, Expr) { return e + j; }},
    {"multiply", [](Expr e, Expr) { return e * 64; }},
    {"multiply_sums", [](Expr e, Expr other) { return e * other; }},
    {"floordiv_splits", [](Expr e, Expr) { return floordiv(e, 64); }},
    {"mod_splits", [](Expr e, Expr) { return mod(e, 64); }},
    {"floordiv_stays", [](Expr e, Expr) { return floordiv(e, 7); }},
    {"floordiv_symbol", [](Expr e, Expr) { return floordiv(e, n); }},
    {"rejoin", [](Expr e, Expr) { return floordiv(e, 7) * 7 + mod(e, 7); }},
    {"min", [](Expr e, Expr) { return min(e, n); }},
    {"less", [](Expr e, Expr) { return lt(e, n); }},
    {"and_of_bounds", [](Expr e, Expr) { return logical_and(lt(e, n), lt(x, e)); }},
};

// i*64 + j + c*k + d, all different
Expr operand(int64_t r) { return i * 64 + j + k * (r % 251 + 65) + r / 251; }

constexpr int64_t operand_count = 30000;

void simplify_new(benchmark::State& state, const Case& c) {
  std::vector<Expr> operands;
  for (int64_t r = 0; r < operand_count; ++r) operands.push_back(operand(r));
  for (const Expr e : operands) benchmark::DoNotOptimize(c.make(e, k + 3));
  size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(c.make(operands[at], k + 3));
    if (++at == operands.size()) at = 0;
  }
}

void simplify_again(benchmark::State& state, const Case& c) {
  const Expr e = operand(5), other = k + 3;
  for (auto _ : state) benchmark::DoNotOptimize(c.make(e, other));
}

void simplify_first(benchmark::State& state) {
  static int64_t serial = 0; // no expression is ever made twice in this process
  for (auto _ : state) benchmark::DoNotOptimize(floordiv(i * 64 + j + k * ++serial, 64));
}
BENCHMARK(simplify_first)->Iterations(200000);

void evaluate(benchmark::State& state, Expr e) {
  const ExprProgram program(e);
  std::vector<int64_t> values;
  for (const Expr s : program.slots())
    values.push_back(s.range().low == unbounded_low ? 12345 : s.range().high);
  int64_t result = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(program.run(values, std::span(&result, 1)));
    benchmark::DoNotOptimize(result);
  }
}
BENCHMARK_CAPTURE(evaluate, row_major, (i * 64 + j) * 16 + k);
BENCHMARK_CAPTURE(evaluate, reshape, floordiv(i * 64 + j, 48) * 16 + mod(i * 64 + j, 48));
BENCHMARK_CAPTURE(evaluate, tail, min(i * 64 + 64, n));
BENCHMARK_CAPTURE(evaluate, predicate, logical_and(lt(i * 64 + j, n), ge(i + k, 3)));
BENCHMARK_CAPTURE(evaluate, padded_size, ceildiv(n, 64) * 64 * 4096);
BENCHMARK_CAPTURE(evaluate, window, floordiv(x * 2 + k - 3, 3) * n + mod(x, n));

void proof(benchmark::State& state, Expr condition, std::vector<Expr> assumptions, Truth wanted) {
  if (prove(condition, assumptions) != wanted) state.SkipWithError("another answer");
  for (auto _ : state) benchmark::DoNotOptimize(prove(condition, assumptions));
}
const Expr a = Expr::symbol("a", {0, unbounded_high}), b = Expr::symbol("b", {0, unbounded_high});
BENCHMARK_CAPTURE(proof, by_range, lt(i * 64 + j, 1 << 17), {}, Truth::yes);
BENCHMARK_CAPTURE(proof, flattened_index, lt(a* n + b, x* n), {lt(a, x), lt(b, n)}, Truth::yes);
BENCHMARK_CAPTURE(proof, tail_tile, le(min(a * 64 + 64, n), n), {}, Truth::yes);
BENCHMARK_CAPTURE(proof, fails, lt(a* n + b, x* n), {le(a, x), lt(b, n)}, Truth::unknown);

void to_text_and_back(benchmark::State& state) {
  const Expr e = floordiv(i * 64 + j, 48) * 16 + mod(i * 64 + j, 48);
  const SymbolScope scope{{"i", i}, {"j", j}};
  for (auto _ : state) benchmark::DoNotOptimize(Expr::parse(to_string(e), scope));
}
BENCHMARK(to_text_and_back);

[[maybe_unused]] const bool registered = [] {
  for (const Case& c : cases) {
    benchmark::RegisterBenchmark((std::string("simplify_new/") + c.name).c_str(), simplify_new, c);
    benchmark::RegisterBenchmark((std::string("simplify_again/") + c.name).c_str(), simplify_again, c);
  }
  return true;
}();

} // namespace
