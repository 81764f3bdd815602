// bench/discover.cpp -- plans of naive formulas with the rules and without them, by turns.
//
//   ./bench.sh discover [--json FILE] [--only TEXT] [--threads N] [--report]
//
// The graphs are bench/forms/NAME.apart.lum, as a textbook writes them. Inputs are random; both plans
// must agree. `peers` has the plan without rules; the name tells launches and megabytes that are written
// and no results, without rules and with them. docs/discovery.md has the terms (tools/discovery_page.py).
#include "loaded_plan.h"
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace luminal;
using namespace luminal::bench;

namespace {

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
