// bench/llama.cpp -- a 24-layer Llama of 1.1 billion parameters with random weights: how soon its
// first step can start, cold and warm, and how fast it generates.
#include "base/thread_pool.h"
#include "compile/compile.h"
#include "harness.h"
#include "luminal/luminal.h"
#include "tensor/graph_run.h"
#include <cmath>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

using namespace luminal;
using namespace luminal::bench;

namespace {

constexpr int64_t layers = 24, hidden = 2048, inner = 5632, heads = 32, kv_heads = 4, size = hidden / heads,
                  vocabulary = 32000, context = 2048, chunk = 128;

struct Model {
  Graph graph;
  Tensor tokens, logits;
  std::vector<Tensor> weights;
  int64_t weight_bytes = 0; // that one token reads
};

Model make_model(DType dtype) {
  Model m;
  Graph& g = m.graph;
  const Dim n = g.dim("n", 1, chunk), past = g.dim("past", 0, context - 1);
  auto weight = [&](std::string name, std::vector<int64_t> shape, bool read = true) {
    const Dims dims(shape.begin(), shape.end());
    m.weights.push_back(g.weight(std::move(name), dims, dtype));
    int64_t bytes = dtype == DType::bf16 ? 2 : 4; // of an element, then of all
    for (int64_t extent : shape) bytes *= extent;
    if (read) m.weight_bytes += bytes;
    return m.weights.back();
  };
  auto linear = [](const Tensor& x, const Tensor& w) { return x.matmul(w.cast(DType::f32).transpose()); };
  auto norm = [](const Tensor& x, const Tensor& w) { return x.rms_norm(1e-5) * w.cast(DType::f32); };
  m.tokens = g.tensor({n}, DType::i32, "tokens");
  std::vector<float> frequencies;
  for (int64_t i = 0; i < size / 2; i++)
    frequencies.push_back(float(std::pow(10000.0, -2.0 * double(i) / double(size))));
  const Tensor angle =
      g.arange(context, DType::i32).cast(DType::f32).unsqueeze(1) * g.constant(frequencies, {size / 2});
  const Tensor cos = angle.cos().slice(0, past, past + n).unsqueeze(1).unsqueeze(2),
               sin = angle.sin().slice(0, past, past + n).unsqueeze(1).unsqueeze(2);
  auto rotate = [&](const Tensor& x, int64_t count) {
    const Tensor parts = x.reshape({n, count, 2, size / 2});
    const Tensor sign = (g.arange(2, DType::i32).cast(DType::f32) * 2 - 1).unsqueeze(1);
    return (parts * cos + parts.flip(2) * (sign * sin)).reshape({n, count, size});
  };
  auto remember = [&](const std::string& name, const Tensor& rows) {
    const Tensor cache = g.state(name, {kv_heads, context, size});
    const Tensor next = cache.update(1, past, rows.transpose(0, 1));
    g.update(cache, next);
    return next.slice(1, 0, past + n);
  };
  Tensor h = weight("embedding", {vocabulary, hidden}, false).gather(m.tokens).cast(DType::f32);
  for (int64_t layer = 0; layer < layers; layer++) {
    auto named = [&](const char* what) { return fmt::format("{}.{}", layer, what); };
    Tensor x = norm(h, weight(named("attention_norm"), {hidden}));
    Tensor q = rotate(linear(x, weight(named("q"), {hidden, hidden})).reshape({n, heads, size}), heads);
    Tensor k = rotate(linear(x, weight(named("k"), {kv_heads * size, hidden})).reshape({n, kv_heads, size}),
                      kv_heads);
    Tensor v = linear(x, weight(named("v"), {kv_heads * size, hidden})).reshape({n, kv_heads, size});
    Tensor keys = remember(named("keys"), k), values = remember(named("values"), v);
    q = q.reshape({n, kv_heads, heads / kv_heads, size}).permute({1, 2, 0, 3});
    Tensor scores = q.matmul(keys.unsqueeze(1).transpose()) * (1 / std::sqrt(double(size)));
    Tensor seen = g.arange(0, past + n) <= g.arange(past, past + n).unsqueeze(1);
    Tensor mixed = select(seen, scores, -INFINITY).softmax(-1).matmul(values.unsqueeze(1));
    h = h + linear(mixed.permute({2, 0, 1, 3}).reshape({n, hidden}), weight(named("o"), {hidden, hidden}));
    x = norm(h, weight(named("ffn_norm"), {hidden}));
    Tensor gate = linear(x, weight(named("gate"), {inner, hidden})),
           up = linear(x, weight(named("up"), {inner, hidden}));
    h = h + linear(gate.silu() * up, weight(named("down"), {hidden, inner}));
  }
  h = norm(h.slice(0, n - 1, n), weight("norm", {hidden}));
  m.logits = linear(h, weight("head", {vocabulary, hidden})).squeeze(0).keep();
  return m;
}

struct Timing {
  double build = 0, compile = 0, total = 0;
  std::vector<compile::PassTime> passes;
  int kernels = 0, cached = 0, steps = 0;
};

Timing start(DType dtype, int threads, Model& model) {
  Timing t;
  const double begin = now();
  model = make_model(dtype);
  t.build = now() - begin;
  model.graph.compile({.threads = threads});
  t.total = now() - begin;
  t.compile = t.total - t.build;
  const auto& compiled = model.graph.state()->programs[0]->compiled;
  t.passes = compiled.times;
  t.kernels = compiled.kernels;
  t.cached = compiled.cached;
  t.steps = int(compiled.plan->steps.size());
  return t;
}

void show(const char* name, const Timing& t, Table& table) {
  std::string text =
      fmt::format("{:<6} to a launchable step {:7.1f} ms (goal {}): graph {:.1f}", name, t.total * 1e3,
                  std::string_view(name) == "cold" ? "1000" : "100", t.build * 1e3);
  double known = t.build * 1e3;
  for (auto& pass : t.passes) {
    text += fmt::format(", {} {:.1f}", pass.name, pass.ms);
    known += pass.ms;
  }
  table.note(text + fmt::format(", load {:.1f}; {} kernels ({} from disk), {} steps", t.total * 1e3 - known,
                                t.kernels, t.cached, t.steps));
}

} // namespace

int main(int argc, char** argv) {
  const Arguments arguments =
      parse_arguments(argc, argv, "a Llama of 1.1 billion random parameters: start and decoding");
  Table table(arguments, "llama");
  const int threads = arguments.threads.back();
  // A cache folder of its own, so that cold is cold and warm is warm.
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("luminal_bench_{}", ::getpid());
  setenv("LUMINAL_CACHE_DIR", folder.c_str(), 1);
  shared_pool(threads);
  Model model;
  show("cold", start(DType::bf16, threads, model), table);
  if (arguments.report) fmt::print("{}", model.graph.report());
  std::vector<Timing> warm;
  for (int i = 0; i < 5; i++) warm.push_back(start(DType::bf16, threads, model));
  std::sort(warm.begin(), warm.end(), [](auto& a, auto& b) { return a.total < b.total; });
  show("warm", warm.front(), table);
  std::filesystem::remove_all(folder);

  // Decoding: every weight has bytes of its own, so that they come from memory.
  for (DType dtype : {DType::bf16}) {
    if (std::string("decode").find(arguments.only) == std::string::npos && !arguments.only.empty()) break;
    std::vector<Array<uint16_t>> data;
    for (auto& w : model.weights) {
      int64_t count = 1;
      for (Dim d : w.shape()) count *= d.value();
      data.push_back(random_bf16(count, unsigned(data.size() + 1), w.rank() == 1 ? 1.0f : 0.02f));
      w.borrow(data.back().data(), size_t(data.back().bytes()));
    }
    Machine machine(threads);
    int64_t past = 0;
    std::vector<int32_t> token{1};
    model.graph.set_dim("n", 1);
    auto ours = [&] {
      model.graph.set_dim("past", past++);
      model.tokens.set(token);
      return timed([&] { model.graph.execute(); });
    };
    ours();
    double limit_bytes = 0;
    std::vector<Contender> race_of{{"ours", ours}};
    race_of.push_back({"read", [&] {
                         double seconds = 0;
                         limit_bytes = 0;
                         for (auto& a : data) {
                           if (a.bytes() < (1 << 20)) continue;
                           const int64_t elements = a.bytes() / 4;
                           seconds += machine.probes->stream_seconds(
                               search::Stream::read, threads,
                               {.x = reinterpret_cast<const float*>(a.data()), .elements = elements});
                           limit_bytes +=
                               double(machine.probes->stream_bytes(search::Stream::read, threads, elements));
                         }
                         return seconds;
                       }});
    race(race_of, arguments);
    bool finite = true;
    for (float x : model.logits.data<float>()) finite &= std::isfinite(x);
    Row row{.work = fmt::format("decode {}", to_string(dtype)),
            .threads = threads,
            .unit = "GB/s",
            .ours = double(model.weight_bytes) / race_of[0].low() * 1e-9};
    row.limit = limit_bytes / race_of[1].low() * 1e-9;
    row.limit_name = "read of the weights";
    row.goal = 0.8;
    row.correct = finite;
    table.add(row);
    table.note(fmt::format("decode {}: {:.2f} tok/s, {:.0f} MiB of weights a token", to_string(dtype),
                           1 / race_of[0].low(), double(model.weight_bytes) / (1 << 20)));
  }
}
