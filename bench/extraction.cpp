// bench/extraction.cpp -- extraction: time of each extractor on graphs of 5,000 classes, candidates a second, and the instances of
// extraction-gym where LUMINAL_EXTRACTION_GYM names its data folder.
//
//   ./bench.sh extraction [--json FILE] [--exact STEPS]     STEPS: limit of the exact search on each gym instance (default 3e6)
#include "egraph/extract_exact.h"
#include "egraph/extract_json.h"
#include "egraph/extract_kbest.h"
#include "egraph/extract_moves.h"
#include "egraph/extract_sample.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <string>

using namespace luminal::egraph;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// The least of five runs, in seconds.
template <class F> double least(F&& f) {
  double best = 1e99;
  for (int i = 0; i < 5; ++i) {
    const double start = now();
    f();
    best = std::min(best, now() - start);
  }
  return best;
}

/// A graph like those of a compiler: rows mostly over earlier classes, near ones more often; some rows point forward.
ExtractionProblem synthetic(uint32_t classes, double rows_per_class, double forward, uint64_t seed) {
  Random random(seed);
  ExtractionBuilder builder;
  builder.add_classes(classes);
  std::vector<uint32_t> children;
  const auto rows = uint32_t(classes * rows_per_class);
  for (uint32_t r = 0; r < rows; ++r) {
    const uint32_t c = r < classes ? r : random.below(classes);
    children.clear();
    const uint32_t count = c < 8 ? 0 : 1 + random.below(3);
    for (uint32_t k = 0; k < count; ++k) {
      const bool ahead = r >= classes && random.unit() < forward;
      const uint32_t reach = std::min(c, 1 + random.below(200));
      children.push_back(ahead ? std::min(classes - 1, c + random.below(50)) : c - reach);
    }
    builder.add_row(c, children, 1 + random.below(20));
  }
  builder.add_root(classes - 1);
  builder.add_root(classes - 2);
  return builder.build();
}

struct Output {
  std::string rows;
  void add(const std::string& row) { rows += (rows.empty() ? "\n" : ",\n") + row; }
};

void run_synthetic(Output& out) {
  fmt::print("{:<28} {:>9} {:>9} {:>9} {:>11} {:>11} {:>11} {:>9}\n", "5,000 classes", "rows", "tree us",
             "dag us", "evaluate/s", "mutants/s", "samples/s", "10-best us");
  const struct {
    const char* name;
    double rows, forward;
  } graphs[] = {
      {"without cycles, 2 rows", 2, 0}, {"with cycles, 2 rows", 2, 0.2}, {"with cycles, 5 rows", 5, 0.2}};
  for (const auto& graph : graphs) {
    const ExtractionProblem p = synthetic(5000, graph.rows, graph.forward, 11);
    Extraction tree, dag;
    const double tree_s = least([&] { tree = extract_tree(p); });
    const double dag_s = least([&] { dag = extract_dag(p); });
    Evaluator evaluator(p);
    const double evaluate_s = least([&] {
                                for (int i = 0; i < 100; ++i)
                                  if (!evaluator.evaluate(tree.genome).valid()) std::abort();
                              }) /
                              100;
    Random random(1);
    GenomeEditor editor(p, tree.genome);
    const double mutant_s = least([&] {
                              for (int i = 0; i < 100; ++i) {
                                editor.mutate(random, 4);
                                if (!evaluator.evaluate(editor.genome()).valid()) std::abort();
                              }
                            }) /
                            100;
    GenomeSampler sampler(p);
    Genome genome;
    const double sample_s = least([&] {
                              for (int i = 0; i < 10; ++i) sampler.sample(random, genome, 4);
                            }) /
                            10;
    const double best_s = least([&] {
      KBest best(p);
      if (!best.get(p.roots()[0], 9)) std::abort();
    });
    fmt::print("{:<28} {:>9} {:>9.0f} {:>9.0f} {:>11.0f} {:>11.0f} {:>11.0f} {:>9.0f}\n", graph.name,
               p.row_count(), tree_s * 1e6, dag_s * 1e6, 1 / evaluate_s, 1 / mutant_s, 1 / sample_s,
               best_s * 1e6);
    out.add(fmt::format(
        "{{\"graph\": \"{}\", \"classes\": 5000, \"rows\": {}, \"tree_s\": {}, \"dag_s\": {}, "
        "\"evaluate_s\": {}, "
        "\"mutant_s\": {}, \"sample_s\": {}, \"ten_best_s\": {}, \"tree_cost\": {}, \"dag_cost\": {}}}",
        graph.name, p.row_count(), tree_s, dag_s, evaluate_s, mutant_s, sample_s, best_s, tree.cost,
        dag.cost));
  }
}

void run_gym(const std::string& folder, double exact_steps, Output& out) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  size_t read = 0, refused = 0, proved = 0;
  double dag_total = 0, exact_total = 0, gap = 0;
  for (const auto& file : files) {
    const auto graph = load_egraph_json(file);
    if (!graph) { // most often: roots that are no classes of the file
      ++refused;
      continue;
    }
    ++read;
    const ExtractionProblem p = graph->problem();
    Extraction dag;
    const double dag_s = least([&] { dag = extract_dag(p); });
    ExactOptions options;
    options.max_steps = exact_steps;
    const double start = now();
    const ExactExtraction exact = extract_exact(p, options);
    const double exact_s = now() - start;
    proved += exact.optimal;
    dag_total += dag_s;
    exact_total += exact_s;
    if (exact.optimal && std::abs(exact.cost) > 0)
      gap += std::abs(dag.cost - exact.cost) / std::abs(exact.cost);
    out.add(fmt::format("{{\"file\": \"{}\", \"classes\": {}, \"rows\": {}, \"dag_cost\": {}, \"dag_s\": {}, "
                        "\"exact_cost\": {}, "
                        "\"lower_bound\": {}, \"optimal\": {}, \"exact_s\": {}}}",
                        std::filesystem::relative(file, folder).string(), p.class_count(), p.row_count(),
                        dag.feasible() ? dag.cost : -1, dag_s, exact.feasible() ? exact.cost : -1,
                        exact.feasible() ? exact.lower_bound : -1, exact.optimal, exact_s));
  }
  fmt::print("\nextraction-gym: {} instances ({} refused: roots without a class), DAG cost {:.3f} s in all, "
             "exact {:.2f} s in all, {} proved; greedy on "
             "those {:.3f} % above the least on average\n",
             read, refused, dag_total, exact_total, proved, proved ? 100 * gap / double(proved) : 0.0);
}

} // namespace

int main(int argc, char** argv) {
  std::string json;
  double exact_steps = 3e6;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc)
      json = argv[++i];
    else if (std::strcmp(argv[i], "--exact") == 0 && i + 1 < argc)
      exact_steps = std::atof(argv[++i]);
    else {
      fmt::print(stderr, "usage: extraction [--json FILE] [--exact STEPS]\n");
      return 2;
    }
  }
  Output out;
  run_synthetic(out);
  const char* folder = std::getenv("LUMINAL_EXTRACTION_GYM");
  if (!folder)
    fmt::print("\nextraction-gym: skipped, LUMINAL_EXTRACTION_GYM does not name its data folder\n");
  else if (!std::filesystem::is_directory(folder))
    fmt::print("\nextraction-gym: skipped, {} is no folder\n", folder);
  else
    run_gym(folder, exact_steps, out);
  if (json.empty()) return 0;
  FILE* file = std::fopen(json.c_str(), "w");
  if (!file) {
    fmt::print(stderr, "{}: cannot be written\n", json);
    return 1;
  }
  fmt::print(file, "{{\"benchmark\": \"extraction\", \"rows\": [{}]}}\n", out.rows);
  std::fclose(file);
  return 0;
}
