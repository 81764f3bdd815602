// bench/search.cpp -- what the search of whole models is worth: how long until a program is usable, what a
// step of it takes then, and how it gets faster with time.
//
//   ./bench.sh search [--only TEXT] [--budgets S,S,...] [--optimal] [--threads N] [--json FILE]
//
// Each model in each mode in a process of its own, with a cache folder of its own that is empty at first.
// Fast: seconds from the opened model to a compiled program, cold and once more (warm). Budgets (seconds,
// default 10 and 60) and --optimal: a step before and after, by turns, on random weights where the model
// has none; the curve is the time of a step's kernels by seconds of the search. Memory: the peak of the
// process without the model's file.
#include "base/file.h"
#include "base/print.h"
#include "base/text.h"
#include "harness.h"
#include "luminal/error.h"
#include "luminal/models.h"
#include "luminal/models_vision.h"
#include "models/llama.h"
#include "models/random_model.h"
#include "search/machine_profile.h"
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace luminal;
using namespace luminal::bench;

namespace {

using Json = nlohmann::ordered_json;

/// A graph with all that it needs to be alive.
struct Program {
  Graph graph;
  std::optional<models::RandomModel> file;
  std::optional<models::Llama> llama;
  CompileOptions options;
  Graph& get() { return llama ? llama->graph : graph; }
};

struct Model {
  std::string name;
  std::function<void(Program&)> open;  // files
  std::function<void(Program&)> build; // the graph
};

Model llama(const std::string& shape, StorageType type) {
  return {
      fmt::format("{} {}", shape, storage_name(type)),
      [=](Program& p) { p.file.emplace(models::random_model(*models::find_model_shape(shape), type, 1)); },
      [](Program& p) {
        p.llama.emplace(models::make_llama(p.file->file, {.context = 2048, .chunk = 512}));
        for (const auto& [name, size] : models::typical_sizes(*p.llama)) p.options.sizes[name] = size;
      }};
}

std::vector<Model> every_model() {
  return {
      {"bert-base 128",
       {},
       [](Program& p) {
         const models::Bert bert{nn::Scope(p.graph)};
         bert(p.graph.tensor({1, 128}, DType::i32, "ids")).pooled.keep();
       }},
      {"vit-b/16",
       {},
       [](Program& p) {
         const models::Vit vit{nn::Scope(p.graph)};
         vit(p.graph.tensor({1, 3, 224, 224}, DType::f32, "x")).keep();
       }},
      {"mobilenet-v2",
       {},
       [](Program& p) {
         const models::MobileNetV2 mobile{nn::Scope(p.graph)};
         mobile(p.graph.tensor({1, 3, 224, 224}, DType::f32, "x")).keep();
       }},
      llama("llama-1b-24", StorageType::q8_0),
  };
}

double peak_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return 1024.0 * double(usage.ru_maxrss);
}

/// seconds: of a budget; 0: fast; infinite: optimal.
Json measured(const Model& model, double seconds, int threads) {
  Program program;
  if (model.open) model.open(program);
  const double opened = peak_bytes();
  program.options.threads = threads;
  const double begin = now();
  model.build(program);
  const double graph = now() - begin;
  Json curve = Json::array();
  std::map<std::string, std::vector<double>> phases; // when each was told of
  SearchOptions& search = program.options.search;
  if (seconds > 0) {
    search.mode = std::isinf(seconds) ? SearchMode::optimal : SearchMode::budget;
    search.seconds = seconds;
    search.progress = [&, last = 0.0](const SearchProgress& p) mutable {
      constexpr const char* names[] = {"regions", "measuring", "tuning", "confirming"};
      phases[names[size_t(p.phase)]].push_back(now() - begin);
      if (p.phase != SearchProgress::Phase::tuning || !(p.program > 0) || p.program == last) return;
      last = p.program;
      curve.push_back({now() - begin, p.program});
    };
  }
  const double start = now();
  program.get().compile(program.options);
  Json row{{"model", model.name},
           {"mode", seconds == 0 ? "fast" : std::isinf(seconds) ? "optimal" : "budget"},
           {"threads", threads},
           {"graph_s", graph},
           {"compile_s", now() - start},
           {"compiler_bytes", peak_bytes() - opened}};
  if (seconds == 0) { // another process would find the same files
    Program again;
    if (model.open) again.file = program.file;
    again.options.threads = threads;
    const double warm = now();
    model.build(again);
    again.get().compile(again.options);
    row["warm_s"] = now() - warm;
    return row;
  }
  const SearchSummary summary = *program.get().search_summary();
  row["budget_s"] = std::isinf(seconds) ? Json(nullptr) : Json(seconds);
  row["search_s"] = summary.seconds;
  row["kernels"] = summary.kernels;
  row["searched"] = summary.searched;
  row["improved"] = summary.improved;
  row["tried"] = summary.tried;
  row["region_plans"] = summary.region_plans;
  row["regions_taken"] = summary.regions.size();
  row["mismatches"] = summary.mismatches;
  row["complete"] = summary.complete;
  row["kernels_before_s"] = summary.kernels_before;
  row["kernels_after_s"] = summary.kernels_after;
  row["step_before_s"] = summary.program_before;
  row["step_after_s"] = summary.program_after;
  row["curve"] = std::move(curve);
  for (const auto& [phase, times] : phases)
    row["phases"][phase] = {{"first_s", times.front()}, {"last_s", times.back()}, {"told", times.size()}};
  return row;
}

/// In a process of its own with an empty cache. Null: it failed, and said why.
Json apart(const Model& model, double seconds, int threads) {
  const auto folder =
      std::filesystem::temp_directory_path() / fmt::format("luminal_bench_search_{}", getpid());
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string answer = (folder / "row.json").string();
  const pid_t child = fork();
  if (child == 0) {
    setenv("LUMINAL_CACHE_DIR", (folder / "cache").c_str(), 1);
    try {
      write_file(answer, std::string_view(measured(model, seconds, threads).dump())).value();
      _exit(0);
    } catch (const std::exception& error) {
      print_stderr("{}: {}\n", model.name, error.what());
      _exit(1);
    }
  }
  if (child > 0) waitpid(child, nullptr, 0);
  const auto text = read_file(answer);
  std::filesystem::remove_all(folder);
  return text ? Json::parse(*text) : Json();
}

std::string ms(const Json& seconds) {
  return seconds.is_number() && seconds > 0 ? fmt::format("{:.2f}", 1e3 * seconds.get<double>()) : "-";
}

} // namespace

int main(int argc, char** argv) {
  std::vector<double> modes{0};
  std::string budgets = "10,60";
  bool optimal = false;
  for (int i = 1; i < argc;) {
    const bool list = std::string_view(argv[i]) == "--budgets" && i + 1 < argc,
               all = std::string_view(argv[i]) == "--optimal";
    if (list) budgets = argv[i + 1];
    optimal |= all;
    if (list || all)
      argc = int(std::copy(argv + i + (list ? 2 : 1), argv + argc, argv + i) - argv);
    else
      i++;
  }
  const Arguments arguments = parse_arguments(argc, argv, "what the search of whole models is worth");
  for (const std::string_view budget : split(budgets, ','))
    if (const double seconds = std::atof(std::string(budget).c_str()); seconds > 0) modes.push_back(seconds);
  if (optimal) modes.push_back(INFINITY);
  Json rows = Json::array();
  fmt::print("{:<20}{:>9}{:>8}{:>10}{:>9}{:>8}{:>8}{:>11}{:>11}{:>7}{:>9}\n", "model", "mode", "threads",
             "usable s", "warm s", "took s", "tried", "before ms", "after ms", "gain", "MiB");
  for (const Model& model : every_model()) {
    if (model.name.find(arguments.only) == std::string::npos) continue;
    for (const int threads : arguments.threads)
      for (const double seconds : modes) {
        const Json row = apart(model, seconds, threads);
        if (row.is_null()) continue;
        const double before = row.value("step_before_s", 0.0), after = row.value("step_after_s", 0.0);
        fmt::print("{:<20}{:>9}{:>8}{:>10}{:>9}{:>8}{:>8}{:>11}{:>11}{:>7}{:>9.0f}\n", model.name,
                   seconds > 0 && !std::isinf(seconds) ? fmt::format("{} s", seconds)
                                                       : row["mode"].get<std::string>(),
                   threads,
                   seconds == 0
                       ? fmt::format("{:.2f}", row["graph_s"].get<double>() + row["compile_s"].get<double>())
                       : "",
                   row.contains("warm_s") ? fmt::format("{:.3f}", row["warm_s"].get<double>()) : "",
                   row.contains("search_s") ? fmt::format("{:.1f}", row["search_s"].get<double>()) : "",
                   row.value("tried", 0), ms(row.value("step_before_s", Json())),
                   ms(row.value("step_after_s", Json())),
                   after > 0 ? fmt::format("{:.2f}x", before / after) : "-",
                   row["compiler_bytes"].get<double>() / (1 << 20));
        std::fflush(stdout);
        rows.push_back(row);
      }
  }
  if (arguments.json.empty()) return 0;
  const Json out{
      {"bench", "search"},
      {"machine", Json::parse(search::MachineProfile::present(arguments.threads.back()).to_json())},
      {"rows", std::move(rows)}};
  const auto written = write_file(arguments.json, std::string_view(out.dump(1) + "\n"));
  if (!written) print_stderr("{}\n", written.error());
  return written ? 0 : 1;
}
