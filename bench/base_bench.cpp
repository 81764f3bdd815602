// bench/base_bench.cpp -- the cost of starting and joining the thread pool (goal: below 1 us while
// its members spin).
#include "base/hash.h"
#include "base/settings.h"
#include "base/thread_pool.h"
#include <benchmark/benchmark.h>

using namespace luminal;

namespace {

void fork_join(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  for (auto _ : state) pool.run([](int member) { benchmark::DoNotOptimize(member); });
}
void barrier(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  constexpr int rounds = 1000;
  for (auto _ : state)
    pool.run([&](int) {
      for (int r = 0; r < rounds; ++r) pool.barrier();
    });
  state.SetItemsProcessed(state.iterations() * rounds); // one barrier is one item
}
void parallel_for(benchmark::State& state) {
  ThreadPool pool(static_cast<int>(state.range(0)));
  for (auto _ : state) pool.parallel_for(100, [](int64_t index) { benchmark::DoNotOptimize(index); });
}
void all_sizes(benchmark::internal::Benchmark* b) {
  for (int threads = 1; threads <= setting_threads(); threads *= 2) b->Arg(threads);
  b->UseRealTime();
}
BENCHMARK(fork_join)->Apply(all_sizes);
BENCHMARK(barrier)->Apply(all_sizes);
BENCHMARK(parallel_for)->Apply(all_sizes);

void hash_of_bytes(benchmark::State& state) {
  const std::string text(static_cast<size_t>(state.range(0)), 'x');
  for (auto _ : state) benchmark::DoNotOptimize(hash128(text));
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(hash_of_bytes)->Arg(16)->Arg(1 << 20);

} // namespace
