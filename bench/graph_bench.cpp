// bench/graph_bench.cpp -- building a graph of 10,000 nodes (goal: below 20 ms), its terms, names,
// and the passes of a compilation.
#include "ir/term.h"
#include "luminal/luminal.h"
#include <benchmark/benchmark.h>

using namespace luminal;

namespace {

constexpr int nodes = 10'000;

void chain_of_maps(benchmark::State& state) {
  for (auto _ : state) {
    Graph g;
    Tensor x = g.tensor({64, 64}), y = g.tensor({64, 64});
    for (int i = 0; i < nodes; i += 2) x = (x + y).exp();
    benchmark::DoNotOptimize(x.id());
  }
}
void layers(benchmark::State& state) { // about 16 nodes each: products, norms, views
  for (auto _ : state) {
    Graph g;
    Dim n = g.dim("n", 1, 512);
    Tensor x = g.tensor({n, 64}), w = g.weight("w", {64, 64});
    while (x.id() < nodes) x = (x.matmul(w) + x).softmax(-1); // ids count all nodes
    benchmark::DoNotOptimize(x.id());
  }
}
/// What people write: blocks of attention and a feed-forward part, each tensor with a name.
void transformer(benchmark::State& state) {
  for (auto _ : state) {
    Graph g;
    Dim n = g.dim("n", 1, 512);
    Tensor x = g.tensor({n, 64}, DType::f32, "x");
    for (int block = 0; x.id() < nodes; block++) {
      const auto weight = [&](const char* part, Dims shape) {
        return g.weight("blocks." + std::to_string(block) + "." + part, std::move(shape));
      };
      const auto heads = [&](const char* part) {
        return x.layer_norm().matmul(weight(part, {64, 64})).reshape({n, 4, 16}).transpose(0, 1);
      };
      const Tensor q = heads("query"), k = heads("key"), v = heads("value");
      const Tensor mixed = scaled_dot_product_attention(q, k, v).transpose(0, 1).reshape({n, 64});
      x = (x + mixed.matmul(weight("out", {64, 64}))).set_name("mixed" + std::to_string(block));
      const Tensor wide = x.layer_norm().matmul(weight("up", {64, 256})).gelu();
      x = (x + wide.matmul(weight("down", {256, 64}))).set_name("block" + std::to_string(block));
    }
    benchmark::DoNotOptimize(x.id());
  }
}
void inputs_with_names(benchmark::State& state) {
  for (auto _ : state) {
    Graph g;
    for (int i = 0; i < nodes / 2; i++) {
      const std::string name = "layer." + std::to_string(i);
      g.weight(name, {4}).exp().set_name("out" + std::to_string(i));
    }
    benchmark::DoNotOptimize(&g);
  }
}
void as_text(benchmark::State& state) {
  Graph g;
  Tensor x = g.tensor({64, 64});
  for (int i = 0; i < nodes; i++) x = x.exp();
  x.keep();
  for (auto _ : state) benchmark::DoNotOptimize(g.to_string().size());
}

/// The default passes on a thousand nodes of layers; a copy of the module is made outside of the
/// time.
void default_passes(benchmark::State& state) {
  Graph g;
  Dim n = g.dim("n", 1, 512);
  Tensor x = g.tensor({n, 64}), w = g.weight("w", {64, 64});
  while (values(g).size() < 1000)
    x = (x.matmul(w).reshape({n, 8, 8}).transpose().reshape({n, 64}) + x).softmax(-1);
  x.keep();
  const Module module = parse_module(g.to_string());
  state.counters["nodes"] = double(node_count(module));
  for (auto _ : state) {
    state.PauseTiming();
    Module copy = module;
    state.ResumeTiming();
    benchmark::DoNotOptimize(passes::defaults().run(copy));
  }
}

BENCHMARK(default_passes)->Unit(benchmark::kMicrosecond);
BENCHMARK(chain_of_maps)->Unit(benchmark::kMillisecond);
BENCHMARK(layers)->Unit(benchmark::kMillisecond);
BENCHMARK(transformer)->Unit(benchmark::kMillisecond);
BENCHMARK(inputs_with_names)->Unit(benchmark::kMillisecond);
BENCHMARK(as_text)->Unit(benchmark::kMillisecond);

} // namespace
