// bench/egraph.cpp -- the e-graph engine in units of a frozen small engine: math, the deep-learning
// programs of egglog, a tiny graph.
//
// Every program is run in a process of its own, in turn with the unit (support/egraph_unit.h), and
// the medians of the processor times are compared: the ratio does not depend on the machine or on
// who else uses it. Programs of egglog are read from the folder that LUMINAL_EGGLOG_TESTS names.
// The peer is egglog 3.0.0 with one thread, measured in the same unit.
#include "egg/egg_program.h"
#include "support/egraph_unit.h"
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace luminal;
using namespace luminal::egraph;

double cpu_now() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Sample {
  double seconds = 0;
  uint64_t rows = 0;
  double megabytes = 0;
};

/// Runs `work` in a child, so that memory is counted anew each time. `work` fills in the seconds
/// and the rows.
template <class Work> Sample in_child(const Work& work) {
  int channel[2];
  if (pipe(channel) != 0) throw Error("no pipe for a child process");
  const pid_t child = fork();
  if (child < 0) throw Error("no child process");
  if (child == 0) {
    Sample sample;
    try {
      work(sample);
    } catch (const std::exception& error) {
      fmt::print(stderr, "{}\n", error.what());
      _exit(1);
    }
    const bool written = write(channel[1], &sample, sizeof sample) == static_cast<ssize_t>(sizeof sample);
    _exit(written ? 0 : 1);
  }
  close(channel[1]);
  Sample sample;
  const bool complete = read(channel[0], &sample, sizeof sample) == static_cast<ssize_t>(sizeof sample);
  close(channel[0]);
  rusage usage{};
  int status = 0;
  wait4(child, &status, 0, &usage);
  if (!complete || status != 0) throw Error("a program of the benchmark failed");
  sample.megabytes = static_cast<double>(usage.ru_maxrss) / 1024;
  return sample;
}

void run_unit(Sample& sample) {
  const double start = cpu_now();
  bench::unit::Engine engine;
  engine.run(11);
  sample.seconds = cpu_now() - start;
  sample.rows = engine.live();
}

/// The math theory as a rule program. Leaves are (Const "1") and (Var "x").
std::string math_program(int iterations) {
  const auto name = [](const std::string& op) -> std::string {
    const char* const renamed[][2] = {{"+", "Add"}, {"-", "Sub"}, {"*", "Mul"},
                                      {"/", "Div"}, {"d", "D"},   {"i", "I"}};
    for (const auto& [from, to] : renamed)
      if (op == from) return to;
    std::string upper = op;
    upper[0] = static_cast<char>(toupper(static_cast<unsigned char>(upper[0])));
    return upper;
  };
  const auto term = [&](const std::string& text) {
    std::string out;
    for (size_t at = 0; at < text.size();) {
      if (std::strchr("() ", text[at]) != nullptr) {
        out += text[at++];
        continue;
      }
      const size_t end = std::min(text.find_first_of("() ", at), text.size());
      const std::string word = text.substr(at, end - at);
      if (at > 0 && text[at - 1] == '(')
        out += name(word);
      else if (word[0] == '?')
        out += word;
      else
        out += fmt::format("({} \"{}\")", isalpha(static_cast<unsigned char>(word[0])) != 0 ? "Var" : "Const",
                           word);
      at = end;
    }
    return out;
  };
  std::string program = "(datatype Math (Const String) (Var String)";
  for (const char* op : math_theory::binary) program += fmt::format(" ({} Math Math)", name(op));
  for (const char* op : math_theory::unary) program += fmt::format(" ({} Math)", name(op));
  program += ")\n";
  for (const auto& [left, right] : math_theory::rules)
    program += fmt::format("(rewrite {} {})\n", term(left), term(right));
  for (const char* text : math_theory::terms) program += term(text) + "\n";
  return program + fmt::format("(run {})\n", iterations);
}

struct Case {
  std::string name;
  double peer_u; ///< egglog 3.0.0
  std::string program, file;
};

void run_program(const Case& c, Sample& sample) {
  const double start = cpu_now();
  EggProgram program;
  if (c.file.empty())
    program.run(c.program, c.name);
  else
    program.run_file(c.file);
  sample.seconds = cpu_now() - start;
  sample.rows = program.graph().total_size();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

std::string json_row(const std::string& name, const Sample& ours, double u, double peer_u) {
  std::string peer = "null", peer_units = "null", ratio = "null";
  if (peer_u > 0) {
    peer = R"({"name": "egglog", "version": "3.0.0"})";
    peer_units = fmt::format("{}", peer_u);
    ratio = fmt::format("{:.3f}", peer_u / (ours.seconds / u));
  }
  return fmt::format(
      R"({{"program": "{}", "rows": {}, "ours_s": {:.6f}, "ours_mb": {:.1f}, "u_s": {:.6f}, "ours_u": {:.5f}, "peer": {}, "peer_u": {}, "ratio": {}}})",
      name, ours.rows, ours.seconds, ours.megabytes, u, ours.seconds / u, peer, peer_units, ratio);
}

/// A graph that is emptied, filled with terms, run for one iteration and read, again and again:
/// seconds of one round trip.
void run_tiny(Sample& sample) {
  EggProgram program;
  program.run(math_program(1), "tiny");
  EGraph& graph = program.graph();
  const OpId add = program.op("Add"), mul = program.op("Mul"), var = program.op("Var");
  const RulesetId rules = program.ruleset("");
  const Value x = program.string("x"), y = program.string("y");
  const auto once = [&] {
    graph.clear();
    const Value a[] = {graph.add(var, std::span(&x, 1)), graph.add(var, std::span(&y, 1))};
    Value left = a[0];
    for (int i = 0; i < 8; ++i) {
      const Value pair[] = {left, a[i % 2]};
      left = graph.add(i % 3 == 0 ? mul : add, pair);
    }
    graph.run(rules);
    return graph.total_size();
  };
  for (int i = 0; i < 200; ++i) sample.rows = once();
  constexpr int rounds = 5000;
  const double start = cpu_now();
  for (int i = 0; i < rounds; ++i) once();
  sample.seconds = (cpu_now() - start) / rounds;
}

int run(int argc, char** argv) {
  std::string json, only;
  int rounds = 5;
  for (int i = 1; i < argc; ++i) {
    const auto value = [&] {
      if (i + 1 == argc) throw Error(fmt::format("{} needs a value", argv[i]));
      return std::string(argv[++i]);
    };
    const std::string_view option = argv[i];
    if (option == "--json")
      json = value();
    else if (option == "--only")
      only = value();
    else if (option == "--rounds")
      rounds = std::max(1, std::atoi(value().c_str()));
    else
      throw Error(
          fmt::format("unknown option {}: there are --json FILE, --only PART_OF_NAME, --rounds N", option));
  }
  std::vector<Case> cases{{"math-11", 1.8, math_program(11), ""}};
  const std::pair<const char*, double> models[] = {
      {"luminal-llama", 0.23}, {"llama", 1.1},       {"qwen", 1.3}, {"qwen3_moe", 1.75},
      {"whisper", 3.3},        {"paged_llama", 4.5}, {"gemma", 11}, {"gemma4_moe", 42}};
  const char* const folder = std::getenv("LUMINAL_EGGLOG_TESTS");
  if (folder == nullptr)
    fmt::print("The deep-learning programs are left out: LUMINAL_EGGLOG_TESTS names no folder (tests/ of "
               "egraphs-good/egglog 3.0.0).\n");
  for (const auto& [name, peer_u] : models) {
    if (folder == nullptr) break;
    const std::string file = fmt::format("{}/{}.egg", folder, name);
    if (std::filesystem::exists(file))
      cases.push_back({name, peer_u, "", file});
    else
      fmt::print("{} is left out: there is no {}\n", name, file);
  }
  std::vector<std::string> rows;
  double log_ratio = 0;
  int models_run = 0;
  fmt::print("{:<14} {:>10} {:>10} {:>8} {:>8} {:>9} {:>10} {:>8}\n", "program", "rows", "ours ms", "ours MB",
             "u ms", "ours u", "egglog u", "ratio");
  for (const Case& c : cases) {
    if (c.name.find(only) == std::string::npos) continue;
    std::vector<double> units, times;
    Sample ours;
    for (int round = 0; round < rounds; ++round) {
      units.push_back(in_child(run_unit).seconds);
      ours = in_child([&](Sample& sample) { run_program(c, sample); });
      times.push_back(ours.seconds);
    }
    ours.seconds = median(times);
    const double u = median(units), ratio = c.peer_u * u / ours.seconds;
    fmt::print("{:<14} {:>10} {:>10.2f} {:>8.1f} {:>8.1f} {:>9.4f} {:>10.2f} {:>8.1f}\n", c.name, ours.rows,
               ours.seconds * 1e3, ours.megabytes, u * 1e3, ours.seconds / u, c.peer_u, ratio);
    std::fflush(stdout);
    rows.push_back(json_row(c.name, ours, u, c.peer_u));
    if (c.file.empty()) continue;
    log_ratio += std::log(ratio);
    ++models_run;
  }
  if (std::string("tiny").find(only) != std::string::npos) {
    const double u = in_child(run_unit).seconds;
    const Sample tiny = in_child(run_tiny);
    fmt::print(
        "{:<14} {:>10} {:>10.4f} {:>8.1f} {:>8.1f}   round trip of a graph under 100 rows: {:.1f} us\n",
        "tiny", tiny.rows, tiny.seconds * 1e3, tiny.megabytes, u * 1e3, tiny.seconds * 1e6);
    rows.push_back(json_row("tiny", tiny, u, 0));
  }
  if (models_run > 0)
    fmt::print("deep-learning programs: {:.1f} x egglog 3.0.0 (geometric mean of {})\n",
               std::exp(log_ratio / models_run), models_run);
  if (!json.empty()) {
    std::ofstream out(json);
    out << "[\n";
    for (size_t i = 0; i < rows.size(); ++i) out << "  " << rows[i] << (i + 1 < rows.size() ? ",\n" : "\n");
    out << "]\n";
    if (!out.flush()) throw Error(fmt::format("cannot write {}", json));
  }
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bench egraph: {}\n", error.what());
    return 1;
  }
}
