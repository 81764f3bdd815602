// bench/extraction.cpp -- extraction: time of each extractor on graphs of 5,000 classes, candidates
// a second, and the instances of extraction-gym where LUMINAL_EXTRACTION_GYM names its data folder.
//
//   ./bench.sh extraction [--json FILE] [--exact STEPS] [--peers FILE]
//
// STEPS is the limit of the exact search on each gym instance (default 3e6). FILE has what the
// peers took: lines of instance, extractor, DAG cost and microseconds, with tabs between them; then
// the ratios are printed.
#include "extract/extract_exact.h"
#include "extract/extract_json.h"
#include "extract/extract_kbest.h"
#include "extract/extract_moves.h"
#include "extract/extract_sample.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <string>
#include <vector>

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

/// The same where one run is too short for the clock: batches of at least 50 us, five of them or as
/// many as 0.3 s hold.
template <class F> double least_of_batches(F&& f) {
  double best = 1e99, spent = 0;
  int batch = 1;
  for (int i = 0; i < 5 && (i < 2 || spent < 0.3); ++i) {
    const double start = now();
    for (int k = 0; k < batch; ++k) f();
    const double took = now() - start;
    spent += took;
    best = std::min(best, took / batch);
    if (i == 0 && took < 50e-6) batch = int(50e-6 / std::max(took, 1e-8)) + 1;
  }
  return best;
}

/// What other extractors took, by the end of the instance's path.
class Peers {
public:
  struct Result {
    double cost, seconds;
  };
  bool load(const char* path) {
    FILE* file = std::fopen(path, "r");
    if (!file) return false;
    char line[4096], instance[2048], extractor[256];
    double cost = 0, micros = 0;
    while (std::fgets(line, sizeof line, file))
      if (std::sscanf(line, "%2047[^\t]\t%255[^\t]\t%lf\t%lf", instance, extractor, &cost, &micros) == 4)
        of_[extractor][instance] = {cost, micros * 1e-6};
    std::fclose(file);
    return true;
  }
  void compare(const std::string& instance, double cost, double seconds) {
    for (const auto& [extractor, results] : of_)
      for (const auto& [path, peer] : results) {
        if (!path.ends_with(instance) ||
            (path.size() > instance.size() && path[path.size() - instance.size() - 1] != '/'))
          continue;
        Summary& s = summary_[extractor];
        s.ratios.push_back(peer.seconds / seconds);
        s.ours += seconds;
        s.theirs += peer.seconds;
        const double slack = 1e-6 * std::max(1.0, std::abs(peer.cost));
        s.worse += cost > peer.cost + slack;
        s.better += cost < peer.cost - slack;
        break;
      }
  }
  void print() {
    for (auto& [extractor, s] : summary_) {
      std::sort(s.ratios.begin(), s.ratios.end());
      double logarithms = 0;
      size_t below = 0;
      for (const double ratio : s.ratios) {
        logarithms += std::log(ratio);
        below += ratio < 10;
      }
      fmt::print("{}: {} instances, cost worse on {}, better on {}; its time / ours: sum {:.1f}, geometric "
                 "mean {:.1f}, median "
                 "{:.1f}, least {:.1f}, below 10 on {}\n",
                 extractor, s.ratios.size(), s.worse, s.better, s.theirs / s.ours,
                 std::exp(logarithms / double(s.ratios.size())), s.ratios[s.ratios.size() / 2], s.ratios[0],
                 below);
    }
  }

private:
  struct Summary {
    std::vector<double> ratios;
    double ours = 0, theirs = 0;
    int worse = 0, better = 0;
  };
  std::map<std::string, std::map<std::string, Result>> of_;
  std::map<std::string, Summary> summary_;
};

/// A graph like those of a compiler: rows mostly over earlier classes, near ones more often; some
/// rows point forward.
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
    DagExtractor extractor;
    const double dag_s = least([&] { dag = extractor.extract(p); });
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

void run_gym(const std::string& folder, double exact_steps, Peers& peers, Output& out) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".json") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  size_t read = 0, refused = 0, proved = 0;
  double dag_total = 0, exact_total = 0, gap = 0;
  DagExtractor extractor; // keeps its memory, as a search does that extracts again and again
  for (const auto& file : files) {
    const auto graph = load_egraph_json(file);
    if (!graph) { // most often: roots that are not classes of the file
      ++refused;
      continue;
    }
    ++read;
    const ExtractionProblem p = graph->problem();
    const double dag_s = least_of_batches([&] { extractor.extract(p); });
    const Extraction& dag = extractor.extract(p);
    peers.compare(std::filesystem::relative(file, folder).string(), dag.cost, dag_s);
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
  peers.print();
}

} // namespace

int main(int argc, char** argv) {
  std::string json;
  Peers peers;
  double exact_steps = 3e6;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc)
      json = argv[++i];
    else if (std::strcmp(argv[i], "--exact") == 0 && i + 1 < argc)
      exact_steps = std::atof(argv[++i]);
    else if (std::strcmp(argv[i], "--peers") == 0 && i + 1 < argc) {
      if (!peers.load(argv[++i])) {
        fmt::print(stderr, "{}: cannot be read\n", argv[i]);
        return 1;
      }
    } else {
      fmt::print(stderr, "usage: extraction [--json FILE] [--exact STEPS] [--peers FILE]\n");
      return 2;
    }
  }
  Output out;
  run_synthetic(out);
  const char* folder = std::getenv("LUMINAL_EXTRACTION_GYM");
  if (!folder)
    fmt::print("\nextraction-gym: skipped, LUMINAL_EXTRACTION_GYM does not name its data folder\n");
  else if (!std::filesystem::is_directory(folder))
    fmt::print("\nextraction-gym: skipped, {} is not a folder\n", folder);
  else
    run_gym(folder, exact_steps, peers, out);
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
