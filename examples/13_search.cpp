// examples/13_search.cpp -- lesson 13: what the compiler finds, part by part: a graph as terms and as
// kernels, a kernel of one's own between them, a matrix product and a small network searched by
// measuring, attention from its formula. On a terminal the searches show where they stand.
#include "luminal/luminal.h"
#include <chrono>
#include <cmath>
#include <cstdio>
#include <unistd.h>
#include <vector>

using namespace luminal;

/// Numbers in -1..1 that look random and are the same in every run.
static std::vector<float> numbers(int64_t count, unsigned seed) {
  std::vector<float> out;
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    out.push_back(float(seed >> 8) / float(1 << 23) - 1);
  }
  return out;
}

/// The largest difference from the reference interpreter, which the tests hold every plan to.
static double largest_error(const Graph& g, const Tensor& t) {
  const std::vector<double> want = g.interpret({t})[0].numbers();
  const auto got = t.data<float>();
  double error = 0;
  for (size_t i = 0; i < want.size(); i++) error = std::fmax(error, std::fabs(want[i] - got[i]));
  return error;
}

static double seconds_of_a_step(Graph& g) {
  double best = 1e9;
  for (int i = 0; i < 20; i++) {
    const auto start = std::chrono::steady_clock::now();
    g.execute();
    best = std::fmin(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

static CompileOptions searched(double seconds) {
  CompileOptions options;
  options.search.mode = SearchMode::budget;
  options.search.seconds = seconds;
  if (isatty(STDERR_FILENO))
    options.search.progress = [](const SearchProgress& p) {
      std::fprintf(stderr, "\r\033[K%s: %d tried, best %.1f us, default %.1f us, %.0f s left",
                   p.kernel.c_str(), p.tried, p.best * 1e6, p.usual * 1e6, p.left);
      if (p.phase == SearchProgress::Phase::confirming) std::fprintf(stderr, "\r\033[K");
    };
  return options;
}

/// Kernels of the plan: the first line of report() says how many.
static void print_plan(const Graph& g) {
  const std::string report = g.report();
  std::printf("%s\n", report.substr(0, report.find('\n')).c_str());
}

static void print_search(const Graph& g) {
  const SearchSummary s = *g.search_summary();
  std::printf("kernels searched: %d, wrong results: %d\n", s.searched, s.mismatches);
  std::printf("schedules tried: %d, kernels of a step: %.1f us with default schedules, %.1f us now\n",
              s.tried, s.kernels_before * 1e6, s.kernels_after * 1e6);
}

static void whole_way() {
  std::printf("1. From a graph to its results\n");
  Graph g;
  Tensor x = g.tensor({2, 3}, DType::f32, "x"), w = g.weight("w", {3, 2});
  Tensor y = (x.matmul(w) + 1).relu().keep().set_name("y");
  std::printf("%s", g.to_string().c_str());
  x.set({1.f, 2.f, 3.f, -1.f, -2.f, -3.f});
  w.set({1.f, 0.f, 0.f, 1.f, 1.f, 1.f});
  g.execute();
  print_plan(g);
  for (float value : y.data<float>()) std::printf("%g ", value);
  std::printf("\n");
}

static void own_kernel() {
  std::printf("\n2. A kernel of one's own\n");
  register_host("twice", [](std::span<const HostArray> in) { // its meaning
    HostArray out = HostArray::zeros(in[0].dtype, in[0].shape);
    for (int64_t i = 0; i < out.count(); i++) out.put(i, in[0].at(i) * 2);
    return std::vector{out};
  });
  Graph g;
  Dim n = g.dim("n", 1, 4096);
  Tensor x = g.tensor({n}, DType::f32, "x");
  const CustomKernel twice{.name = "twice",
                           .text = {{"loops", "kernel twice(x: f32[n] in, y: f32[n] out; n: 1..4096)\n"
                                              "  parallel io in 0..ceildiv(n, 16)\n"
                                              "    vector il in 0..16 masked n - 16*io\n"
                                              "      y[16*io + il] = x[16*io + il] * 2\n"}},
                           .outputs = {{DType::f32, {n}}}};
  Tensor y = (custom_kernel(g, twice, {x.square()})[0] + 1).keep();
  g.set_dim("n", 4);
  x.set({1.f, 2.f, 3.f, 4.f});
  g.execute();
  for (float value : y.data<float>()) std::printf("%g ", value);
  std::printf("\n");
  print_plan(g); // what stands before and behind it is not fused with it
}

static void product() {
  std::printf("\n3. A matrix product, searched\n");
  Graph g;
  Tensor a = g.tensor({48, 320}, DType::f32, "a"), b = g.weight("b", {320, 200});
  Tensor c = a.matmul(b).keep();
  a.set(numbers(48 * 320, 1));
  b.set(numbers(320 * 200, 2));
  g.compile(searched(2));
  g.execute();
  print_search(g);
  std::printf("as the interpreter says: %s\n", largest_error(g, c) < 1e-4 ? "yes" : "no");
}

static void network() {
  std::printf("\n4. A network, before and after\n");
  Graph g;
  Tensor x = g.tensor({64, 784}, DType::f32, "x"), h = x;
  const int64_t sizes[] = {784, 256, 128, 10};
  for (int i = 0; i < 3; i++) {
    const std::string name = "layer" + std::to_string(i);
    Tensor w = g.weight(name + ".weight", {sizes[i], sizes[i + 1]}),
           b = g.weight(name + ".bias", {sizes[i + 1]});
    w.set(numbers(sizes[i] * sizes[i + 1], unsigned(10 + i)));
    b.set(numbers(sizes[i + 1], unsigned(20 + i)));
    h = h.matmul(w) / std::sqrt(float(sizes[i])) + b;
    if (i < 2) h = h.relu();
  }
  Tensor p = h.softmax(-1).keep();
  x.set(numbers(64 * 784, 3));
  g.execute();
  const double before = seconds_of_a_step(g);
  const auto first = p.data<float>();
  g.compile(searched(2));
  g.execute();
  print_search(g);
  const double after = seconds_of_a_step(g);
  std::printf("a step: %.1f us, then %.1f us\n", before * 1e6, after * 1e6);
  double error = 0;
  for (size_t i = 0; i < first.size(); i++)
    error = std::fmax(error, std::fabs(double(first[i]) - p.data<float>()[i]));
  std::printf("the same probabilities: %s\n", error < 1e-5 ? "yes" : "no");
}

static void attention() {
  std::printf("\n5. Attention from its formula\n");
  const int64_t heads = 2, length = 256, width = 32;
  Graph g;
  Tensor q = g.tensor({heads, length, width}, DType::f32, "q"),
         k = g.tensor({heads, length, width}, DType::f32, "k"),
         v = g.tensor({heads, length, width}, DType::f32, "v");
  Tensor scores = q.matmul(k.transpose(1, 2)) / std::sqrt(float(width));
  Tensor weights = (scores - scores.max(-1, true)).exp();
  Tensor y = (weights.matmul(v) / weights.sum(-1, true)).keep().set_name("y");
  q.set(numbers(heads * length * width, 4));
  k.set(numbers(heads * length * width, 5));
  v.set(numbers(heads * length * width, 6));
  g.compile(searched(2));
  g.execute();
  print_plan(g);
  print_search(g);
  const Explanation why = explain(g); // of the plan without a search: the same terms
  for (const RegionExplanation& region : why.regions) {
    std::printf("rules that applied:");
    for (const std::string& rule : region.rules) std::printf(" %s", rule.c_str());
    std::printf("\nestimate of a step: %.1f us as written, %.1f us as the terms are now\n",
                region.written * 1e6, region.estimate * 1e6);
  }
  const int64_t between = g.memory().arena - g.memory().kept, of_scores = 4 * heads * length * length;
  std::printf("bytes that kernels store for each other: %lld, the scores have %lld\n",
              static_cast<long long>(between), static_cast<long long>(of_scores));
  std::printf("as the interpreter says: %s\n", largest_error(g, y) < 1e-4 ? "yes" : "no");
}

int main() {
  whole_way();
  own_kernel();
  product();
  network();
  attention();
}
