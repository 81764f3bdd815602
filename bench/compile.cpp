// bench/compile.cpp -- how long a kernel takes to compile, cold and warm: matrix products,
// convolutions, attention, a product with versions, the golden kernels.
//
//   ./bench.sh compile [--json FILE] [--only TEXT] [--rounds N] [--level L]
//   ./bench.sh compile --operations    every elementwise operation for every type instead, and rotary tables
//
// Schedules are the default ones of this machine. Cold: schedule, lowering and machine code of one
// kernel with nothing on disk, on one core, in seconds of that core; the least and the median of N
// rounds. A kernel is compiled by one core; several kernels are by several: both sums are told at
// the end. Warm: the object read from disk; no compiler runs (counted).
#include "codegen/object_cache.h"
#include "cone/cone.h"
#include "harness.h"
#include "ir/term.h"
#include "schedule/lower.h"
#include "search/machine_profile.h"
#include "search/tuning_cache.h"
#include "support/terms.h"
#include <algorithm>
#include <atomic>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>
#include <unistd.h>

using namespace luminal;
using namespace luminal::bench;

namespace {

struct Workload {
  std::string name, term;
};

std::vector<Workload> works() {
  std::vector<Workload> list{{"sgemm 1024", matmul_term(1024, 1024, 1024)},
                             {"sgemm 256", matmul_term(256, 256, 256)},
                             {"sgemm 1000x777x513", matmul_term(1000, 777, 513)},
                             {"sgemm 17x33x65", matmul_term(17, 33, 65)},
                             {"conv 64x64 @56", convolution_term(64, 64, 56, 3, 1)},
                             {"conv 512x512 @7", convolution_term(512, 512, 7, 3, 1)},
                             {"attention 32x512x64", attention_term(32, 32, 512, 64, false)},
                             {"attention 32x512x64 causal", attention_term(32, 32, 512, 64, true)},
                             {"attention 24/8x1536x80 causal", attention_term(24, 8, 1536, 80, true)},
                             {"bf16 rows 1..512 x2048x2048", rows_term(512, 2048, 2048)}};
  std::vector<Workload> golden;
  for (const auto& entry : std::filesystem::directory_iterator(LUMINAL_BENCH_GOLDEN)) {
    std::ifstream in(entry.path() / "term.lum");
    std::stringstream text;
    if (in && (text << in.rdbuf()))
      golden.push_back({"golden " + entry.path().filename().string(), text.str()});
  }
  std::sort(golden.begin(), golden.end(),
            [](const Workload& a, const Workload& b) { return a.name < b.name; });
  list.insert(list.end(), golden.begin(), golden.end());
  return list;
}

/// Every elementwise operation for every type that it takes, and the rotary tables of a Llama.
std::vector<Workload> operations() {
  std::vector<Workload> list{{"rotary tables", R"(fn @main(%f: f32[32]) {
  %p = iota f32 [p: 2048, k: 32] -> p
  %k = view %f [p: 2048, k: 32] -> [k]
  %a = mul %p, %k
  %c = cos %a
  %s = sin %a
  return c = %c, s = %s
}
)"}};
  for (int i = 0; i < op_count; i++)
    for (int t = 0; t < dtype_count; t++) {
      const OpRow& r = row(Op(i));
      const auto type = DType(t);
      DType args[] = {type, type, type};
      if (r.signature == Signature::choice) args[0] = DType::boolean;
      if (!result_type(r, args)) continue;
      std::string params, uses;
      for (int a = 0; a < r.arity; a++) {
        params += fmt::format("{}%x{}: {}[4096]", a ? ", " : "", a, to_string(args[a]));
        uses += fmt::format("{}%x{}", a ? ", " : "", a);
      }
      list.push_back(
          {fmt::format("{} {}", r.name, to_string(type)),
           fmt::format("fn @main({}) {{\n  %y = {} {}\n  return y = %y\n}}\n", params, r.name, uses)});
    }
  return list;
}

/// That this thread has had: the same on a busy machine.
double processor_seconds() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + 1e-9 * double(t.tv_nsec);
}

} // namespace

int main(int argc, char** argv) {
  const auto operations_only = std::find(argv, argv + argc, std::string_view("--operations"));
  const bool only_operations = operations_only != argv + argc;
  if (only_operations) argc = int(std::copy(operations_only + 1, argv + argc, operations_only) - argv);
  const Arguments arguments = parse_arguments(argc, argv, "how long kernels take to compile");
  const auto limits = search::MachineProfile::guess(arguments.threads.back()).limits();
  const codegen::CpuTarget& target = codegen::CpuTarget::host();
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / fmt::format("luminal_bench_compile_{}", getpid());
  codegen::CodegenOptions options;
  if (arguments.level >= 0) options.level = arguments.level;
  codegen::ObjectCache cache(folder.string());
  nlohmann::json rows = nlohmann::json::array();
  fmt::print("{:<28}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}\n", "kernel, ms", "median", "least", "schedule",
             "ir", "passes", "codegen", "warm", "KiB");
  constexpr double typical_ms = 20, largest_ms = 60; // the marks
  double largest = 0, sum = 0;
  int count = 0, typical = 0, above = 0, warm_compilations = 0;
  std::vector<kernel::Kernel> all;
  for (const Workload& work : only_operations ? operations() : works()) {
    if (work.name.find(arguments.only) == std::string::npos) continue;
    const Module module = parse_module(work.term, work.name);
    const Function& function = module.functions.front(); // callees come first: what a loop runs is the kernel
    std::vector<NodeId> roots;
    for (const auto& result : function.results) roots.push_back(result.value);
    const auto cone = kernel::build_cone(function, roots, {}, {.in_place = true});
    if (!cone) {
      fmt::print("{}: {}\n", work.name, cone.error());
      continue;
    }
    std::vector<double> total;
    double schedule_ms = 1e9;
    codegen::CompiledKernel last;
    std::optional<kernel::Kernel> loops;
    for (int round = 0; round < arguments.rounds; round++) {
      const double start = processor_seconds();
      auto made = kernel::default_kernel(*cone, limits);
      if (!made.kernel) break;
      schedule_ms = std::min(schedule_ms, 1e3 * (processor_seconds() - start));
      auto compiled = codegen::compile(*made.kernel, target, options);
      if (!compiled) break;
      total.push_back(1e3 * (processor_seconds() - start));
      last = std::move(*compiled);
      loops = std::move(*made.kernel);
    }
    if (total.empty() || !loops) {
      fmt::print("{}: does not compile\n", work.name);
      continue;
    }
    std::sort(total.begin(), total.end());
    (void)cache.compile(*loops, target, options);
    const int64_t before = codegen::compilations();
    double warm = 1e9;
    for (int round = 0; round < arguments.rounds; round++)
      warm = std::min(warm, 1e3 * timed([&] { (void)cache.compile(*loops, target, options); }));
    warm_compilations += int(codegen::compilations() - before);
    const double median = total[total.size() / 2];
    fmt::print("{:<28}{:>9.1f}{:>9.1f}{:>9.1f}{:>9.1f}{:>9.1f}{:>9.1f}{:>9.2f}{:>9.1f}\n", work.name, median,
               total[0], schedule_ms, last.times.ir_ms, last.times.opt_ms, last.times.codegen_ms, warm,
               double(last.object.size()) / 1024);
    std::fflush(stdout);
    largest = std::max(largest, median);
    sum += median;
    count++;
    typical += median <= typical_ms;
    above += median > largest_ms;
    all.push_back(std::move(*loops));
    rows.push_back({{"work", work.name},
                    {"median_ms", median},
                    {"least_ms", total[0]},
                    {"schedule_ms", schedule_ms},
                    {"ir_ms", last.times.ir_ms},
                    {"passes_ms", last.times.opt_ms},
                    {"codegen_ms", last.times.codegen_ms},
                    {"warm_ms", warm},
                    {"object_bytes", last.object.size()}});
  }
  if (count > 0)
    fmt::print("{} kernels: {} within {:.0f} ms, {} above {:.0f} ms, mean {:.1f} ms, largest {:.1f} ms, each "
               "on one core; "
               "warm starts compiled {} kernels\n",
               count, typical, typical_ms, above, largest_ms, sum / count, largest, warm_compilations);
  const auto machine_code = [&](int cores) { // of all of them, the next one by whoever is free
    std::atomic<size_t> next = 0;
    return 1e3 * timed([&] {
             std::vector<std::jthread> threads;
             for (int c = 0; c < cores; c++)
               threads.emplace_back([&] {
                 for (size_t k = next++; k < all.size(); k = next++)
                   (void)codegen::compile(all[k], target, options);
               });
           });
  };
  if (const int cores = arguments.threads.back(); count > 1 && cores > 1) {
    const double one = machine_code(1);
    fmt::print("machine code of all: {:.0f} ms on one core, {:.0f} ms on {}\n", one, machine_code(cores),
               cores);
  }
  {
    search::TuningCache tuned((folder / "tuning.sqlite").string());
    search::TuningEntry entry;
    entry.key.threads = 1;
    entry.name = "kernel";
    entry.schedule = "split s0 a0 a0.o a0.i 16\nvector s0 a0.i\nparallel s0 a0.o\n";
    entry.seconds = 1e-5;
    entry.samples = 1;
    for (uint64_t i = 0; i < 100; i++) {
      entry.key.structure = {i, 1};
      tuned.put(entry);
    }
    const auto lookup = [&](uint64_t first) {
      const double start = now();
      for (uint64_t i = first; i < first + 100; i++) {
        entry.key.structure = {i, 1};
        (void)tuned.find(entry.key);
      }
      return (now() - start) / 100;
    };
    fmt::print("lookup in the tuning cache: {:.1f} us found, {:.1f} us not found\n", 1e6 * lookup(0),
               1e6 * lookup(1000));
  }
  std::error_code error;
  std::filesystem::remove_all(folder, error);
  if (!arguments.json.empty()) std::ofstream(arguments.json) << rows.dump(1) << '\n';
  return warm_compilations == 0 ? 0 : 1;
}
