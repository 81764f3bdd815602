// fuzz/extract_json_fuzz.cpp -- e-graphs as JSON: one clear failure, or a graph that writes, reads
// back the same and can be extracted.
#include "extract/extract_exact.h"
#include "extract/extract_json.h"
#include <cstdlib>
#include <string_view>

using namespace luminal;
using namespace luminal::egraph;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto graph = read_egraph_json({reinterpret_cast<const char*>(data), size}, "f");
  if (!graph) {
    if (graph.error().rfind("f: ", 0) != 0) std::abort();
    return 0;
  }
  const auto again = read_egraph_json(write_egraph_json(*graph), "g");
  if (!again || !(*again == *graph)) std::abort();
  const ExtractionProblem problem = graph->problem();
  ExactOptions options;
  options.max_nodes = 50;
  options.max_steps = 1e5;
  const Extraction greedy = extract_dag(problem);
  const ExactExtraction exact = extract_exact(problem, options);
  if (greedy.feasible() != exact.feasible()) std::abort();
  if (greedy.feasible() && !Evaluator(problem).evaluate(greedy.genome).valid()) std::abort();
  return 0;
}
