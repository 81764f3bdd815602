// bench/folds.cpp -- a compiler's theory on the e-graph engine: saturation and extraction of each
// formula, candidates a second, passes over memory and stored elements before and after.
//
//   ./bench.sh folds [--json FILE] [--case PART_OF_NAME]
#include "rules/folds_runs.h"
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <memory>
#include <string>

using namespace luminal::egraph;
using namespace luminal::egraph::folds;

namespace {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
/// The least of several runs, in seconds; `prepare` is not counted.
template <class P, class F> double least(P&& prepare, F&& f) {
  double best = 1e99;
  for (int i = 0; i < 7; ++i) {
    prepare();
    const double start = now();
    f();
    best = std::min(best, now() - start);
  }
  return best;
}

struct Row {
  std::string text, json;
};

Row measure(const FoldsRun& run) {
  const NumericClass numeric = case_named(run.name).numeric;
  const Extents extents = extents_of(run, true);
  Theory written({}, numeric);
  const auto formula = build_large(run, written);
  written.find_facts();
  const Plan before = naive_plan(LoopProblem(written, formula, extents));

  std::unique_ptr<Theory> theory;
  std::vector<Value> roots;
  const double saturation = least(
      [&] {
        theory = std::make_unique<Theory>(std::vector<std::pair<std::string, std::string>>{}, numeric);
        roots = build_large(run, *theory);
      },
      [&] { theory->saturate(); });
  std::unique_ptr<LoopProblem> problem;
  const double reading =
      least([] {}, [&] { problem = std::make_unique<LoopProblem>(*theory, roots, extents); });
  Found found;
  const double search = least([] {}, [&] { found = find_passes(*problem); });
  const double rate = double(found.candidates) / search;
  Row out;
  out.text = fmt::format(
      "{:<24} {:>5} {:>8.2f} {:>8.2f} {:>8.2f} {:>6} {:>9.0f}   {:>2} -> {:<2} {:>8.2g} -> {:.2g}", run.name,
      theory->rows(), saturation * 1e3, (reading + search) * 1e3, (saturation + reading + search) * 1e3,
      found.candidates, rate, before.passes.size(), found.plan.passes.size(), before.stored / 1e6,
      found.plan.stored / 1e6);
  out.json = fmt::format(
      "{{\"case\": \"{}\", \"rows\": {}, \"saturation_s\": {}, \"extraction_s\": {}, \"candidates\": {}, "
      "\"candidates_per_s\": {}, \"naive_passes\": {}, \"passes\": {}, \"naive_stored\": {}, "
      "\"stored\": {}, \"cost\": {}}}",
      run.name, theory->rows(), saturation, reading + search, found.candidates, rate, before.passes.size(),
      found.plan.passes.size(), before.stored, found.plan.stored, found.cost);
  return out;
}

} // namespace

int main(int argc, char** argv) {
  std::string json, part;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc)
      json = argv[++i];
    else if (std::strcmp(argv[i], "--case") == 0 && i + 1 < argc)
      part = argv[++i];
    else {
      fmt::print(stderr, "usage: folds [--json FILE] [--case PART_OF_NAME]\n");
      return 2;
    }
  }
  fmt::print("{:<24} {:>5} {:>8} {:>8} {:>8} {:>6} {:>9}   {:>8} {:>18}\n", "formula", "rows", "satur ms",
             "extr ms", "both ms", "tried", "tried/s", "passes", "stored M");
  std::string rows;
  for (const FoldsRun& run : folds_runs()) {
    if (run.name.find(part) == std::string::npos) continue;
    const Row row = measure(run);
    fmt::print("{}\n", row.text);
    rows += (rows.empty() ? "\n" : ",\n") + row.json;
  }
  if (json.empty()) return 0;
  FILE* file = std::fopen(json.c_str(), "w");
  if (!file) {
    fmt::print(stderr, "{}: cannot be written\n", json);
    return 1;
  }
  fmt::print(file, "{{\"benchmark\": \"folds\", \"rows\": [{}]}}\n", rows);
  std::fclose(file);
  return 0;
}
