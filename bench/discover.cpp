// bench/discover.cpp -- plans of naive formulas with the rules and without them, by turns.
//
//   ./bench.sh discover [--json FILE] [--only TEXT] [--threads N] [--report]
//
// The graphs are written below as a textbook writes them, and bench/forms/NAME.apart.lum. Inputs are
// random; both plans must agree. `peers` has the plan without rules; the name tells launches and
// megabytes that are written and no results, without rules and with them.
#include "loaded_plan.h"
#include "luminal/debug.h"
#include "luminal/luminal.h"
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace luminal;
using namespace luminal::bench;

namespace {

struct Formula {
  std::string name;
  std::function<void(Graph&)> write;
};

Tensor input(Graph& g, const char* name, Dims shape) { return g.tensor(std::move(shape), DType::f32, name); }
void result(Tensor y) { y.set_name("y").keep(); }

/// Softmax of scores, as the formula has it.
Tensor softmax_of(const Tensor& x) {
  const Tensor e = (x - x.max(-1, true)).exp();
  return e / e.sum(-1, true);
}
Tensor normed(const Tensor& x) {
  const Tensor mean = x.mean(-1, true), d = x - mean;
  return d / ((d * d).mean(-1, true) + 1e-5).sqrt();
}
Tensor rms_normed(const Tensor& x) { return x / ((x * x).mean(-1, true) + 1e-5).sqrt(); }

Tensor attention(Graph& g, int64_t heads, int64_t n, int64_t keys, int64_t size, bool causal) {
  const Tensor q = input(g, "q", {heads, n, size}), k = input(g, "k", {heads, keys, size}),
               v = input(g, "v", {heads, keys, size});
  Tensor s = q.matmul(k.transpose(1, 2)) * (1 / std::sqrt(double(size)));
  if (causal) s = where(g.arange(n).reshape({n, 1}) >= g.arange(keys).reshape({1, keys}), s, -INFINITY);
  return softmax_of(s).matmul(v);
}

const Formula formulas[] = {
    {"attention_8x1024x64", [](Graph& g) { result(attention(g, 8, 1024, 1024, 64, false)); }},
    {"attention_causal_8x1024x64", [](Graph& g) { result(attention(g, 8, 1024, 1024, 64, true)); }},
    {"attention_of_one_query_32x4096x64", [](Graph& g) { result(attention(g, 32, 1, 4096, 64, false)); }},
    {"softmax_4096x1024", [](Graph& g) { result(softmax_of(input(g, "x", {4096, 1024}))); }},
    {"layer_norm_4096x1024", [](Graph& g) { result(normed(input(g, "x", {4096, 1024}))); }},
    {"rms_norm_product_512x1024x1024",
     [](Graph& g) {
       result((rms_normed(input(g, "x", {512, 1024})) * g.weight("g", {1024}))
                  .matmul(g.weight("w", {1024, 1024})));
     }},
    {"layer_norm_product_512x768x3072",
     [](Graph& g) {
       const Tensor y = normed(input(g, "x", {512, 768})) * g.weight("g", {768}) + g.weight("b", {768});
       result(y.matmul(g.weight("w", {768, 3072})));
     }},
    {"gated_layer_512x512x1408",
     [](Graph& g) {
       const Tensor x = input(g, "x", {512, 512}), gate = x.matmul(g.weight("w1", {512, 1408}));
       result((gate / ((-gate).exp() + 1.0) * x.matmul(g.weight("w3", {512, 1408})))
                  .matmul(g.weight("w2", {1408, 512})));
     }},
    {"three_projections_512x1024",
     [](Graph& g) {
       const Tensor x = rms_normed(input(g, "x", {512, 1024}));
       x.matmul(g.weight("wq", {1024, 1024})).set_name("q").keep();
       x.matmul(g.weight("wk", {1024, 256})).set_name("k").keep();
       x.matmul(g.weight("wv", {1024, 256})).set_name("v").keep();
     }},
    {"products_1024x32x1024x32",
     [](Graph& g) {
       result(input(g, "a", {1024, 32}).matmul(input(g, "b", {32, 1024})).matmul(input(g, "c", {1024, 32})));
     }},
    {"linear_attention_8x1024x64",
     [](Graph& g) {
       const Tensor q = input(g, "q", {8, 1024, 64}), k = input(g, "k", {8, 1024, 64}),
                    v = input(g, "v", {8, 1024, 64});
       const Tensor mask = g.arange(1024).reshape({1024, 1}) >= g.arange(1024).reshape({1, 1024});
       result(where(mask, q.matmul(k.transpose(1, 2)), 0.0).matmul(v));
     }},
    {"cross_entropy_256x256x8192",
     [](Graph& g) {
       const Tensor logits = input(g, "x", {256, 256}).matmul(g.weight("w", {256, 8192}));
       const Tensor t = input(g, "t", {256, 8192}), m = logits.max(-1, true);
       const Tensor log_sum = (logits - m).exp().sum(-1, true).log() + m;
       result(((log_sum - logits) * t).sum());
     }},
    {"entropy_4096x1024",
     [](Graph& g) {
       const Tensor p = softmax_of(input(g, "x", {4096, 1024}));
       result(-(p * p.log()).sum(-1));
     }},
};

void race_module(const std::string& name, const Module& module, const Arguments& arguments, int threads,
                 Table& table) {
  ThreadPool pool(threads);
  compile::Options with = compile::Options::host(threads), without = with;
  without.rules.on = false;
  const auto plain = load_plan(module, without, pool, arguments.report ? name + " without rules" : ""),
             found = load_plan(module, with, pool, arguments.report ? name + " with rules" : "");
  const double apart_by = difference(*plain, *found);
  std::vector<Contender> race_of{{"rules", [&] { return found->run(); }},
                                 {"without", [&] { return plain->run(); }}};
  race(race_of, arguments);
  Row row{.work = fmt::format("{} {}:{} launches {:.2f}:{:.2f} MB", name, plain->kernels, found->kernels,
                              plain->stored_bytes / 1e6, found->stored_bytes / 1e6),
          .threads = threads,
          .unit = "1/s",
          .ours = 1 / race_of[0].low(),
          .goal = 0.98,
          .correct = apart_by < 1e-3};
  row.peers["without"] = 1 / race_of[1].low();
  table.add(row);
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments = parse_arguments(argc, argv, "discover: plans with the rules and without them");
  try {
    Table table(arguments, "plans with the rules and without them");
    for (const int threads : arguments.threads) {
      for (const Formula& formula : formulas) {
        if (formula.name.find(arguments.only) == std::string::npos) continue;
        Graph g;
        formula.write(g);
        race_module(formula.name, parse_module(g.to_string()), arguments, threads, table);
      }
      std::vector<std::filesystem::path> files;
      for (const auto& entry : std::filesystem::directory_iterator(LUMINAL_BENCH_FORMS))
        if (entry.path().filename().string().ends_with(".apart.lum")) files.push_back(entry.path());
      std::ranges::sort(files);
      for (const auto& file : files) {
        const std::string name = file.stem().string();
        if (name.find(arguments.only) == std::string::npos) continue;
        std::stringstream text;
        if (std::ifstream in(file); !(text << in.rdbuf()))
          throw luminal::Error("discover", "cannot read " + file.string());
        race_module(name, parse_module(text.str(), file.string()), arguments, threads, table);
      }
    }
    table.note(
        "in the names: launches of a step and what it writes besides results, without rules and with them");
  } catch (const luminal::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
