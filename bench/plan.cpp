// bench/plan.cpp -- how long the plan of a language model takes, by part, on one core: all that a
// compilation does before machine code.
//
//   ./bench.sh plan [--only TEXT] [--rounds N] [--dump FOLDER]
//
// Shapes by name with weights that are never touched, in several types. Cold: each compilation is
// in a process of its own. Times are seconds of this core; the least of N rounds. --dump writes
// each plan as text (times of its passes, slots, steps, schedules, loops), for comparing two versions of the
// compiler.
#include "base/print.h"
#include "compile/builder.h"
#include "compile/compile.h"
#include "harness.h"
#include "luminal/error.h"
#include "models/llama.h"
#include "models/random_model.h"
#include "tensor/graph_state.h"
#include <algorithm>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace luminal;
using namespace luminal::bench;

namespace {

/// That this thread has had: the same on a busy machine.
double processor_ms() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return 1e3 * double(t.tv_sec) + 1e-6 * double(t.tv_nsec);
}

struct Laps {
  double graph = 0, verify = 0, passes = 0, plan = 0;
  double total() const { return verify + passes + plan; }
  size_t nodes = 0, kernels = 0;
};

/// One compilation up to machine code; empty `dump`: its text is not written.
std::optional<Laps> planned(const ModelFile& file, models::Activations activations, const std::string& dump) {
  const compile::Options host = compile::Options::host(1);
  Laps laps;
  double last = processor_ms();
  const auto lap = [&](double& to) {
    const double now = processor_ms();
    to = now - last;
    last = now;
  };
  const models::Llama model =
      models::make_llama(file, {.context = std::min<int64_t>(file.require_config().context_length, 2048),
                                .chunk = 512,
                                .activations = activations});
  Module module = model.graph.state()->snapshot();
  lap(laps.graph);
  if (!verify(module).empty()) return {};
  lap(laps.verify);
  (void)host.passes.run(module);
  lap(laps.passes);
  compile::KernelPlanner chooser({.limits = host.limits,
                                  .target = host.target,
                                  .sizes = models::typical_sizes(model),
                                  .profile = search::MachineProfile::guess(1)});
  compile::PlanBuilder builder(module, chooser);
  const auto plan = builder.build();
  lap(laps.plan);
  if (!plan) {
    print_stderr("{}\n", plan.error());
    return {};
  }
  laps.nodes = module.entry().nodes.size(), laps.kernels = plan->kernels.size();
  if (!dump.empty()) {
    std::ofstream out(dump);
    for (const compile::PassTime& pass : builder.times())
      out << fmt::format("# {:<12}{:>8.2f} ms\n", pass.name, pass.ms);
    out << to_string(module) << runtime::to_string(*plan);
    for (const auto& kernel : builder.kernels())
      out << compile::to_string(kernel.report) << kernel.schedule << kernel::to_string(kernel.loops);
  }
  return laps;
}

/// In a process of its own, which knows nothing of earlier compilations.
std::optional<Laps> planned_cold(const ModelFile& file, models::Activations activations,
                                 const std::string& dump) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    const auto laps = planned(file, activations, dump);
    _exit(laps && write(ends[1], &*laps, sizeof *laps) == ssize_t(sizeof *laps) ? 0 : 1);
  }
  close(ends[1]);
  Laps laps;
  const bool good = child > 0 && read(ends[0], &laps, sizeof laps) == ssize_t(sizeof laps);
  close(ends[0]);
  if (child > 0) waitpid(child, nullptr, 0);
  return good ? std::optional(laps) : std::nullopt;
}

} // namespace

int main(int argc, char** argv) {
  std::string dump;
  if (const auto at = std::find(argv, argv + argc, std::string_view("--dump")); at + 1 < argv + argc) {
    dump = at[1];
    argc = int(std::copy(at + 2, argv + argc, at) - argv);
  }
  const Arguments arguments = parse_arguments(argc, argv, "how long plans of language models take");
  if (!dump.empty()) std::filesystem::create_directories(dump);
  constexpr size_t reserved = size_t(1) << 32; // of addresses
  const void* never = mmap(nullptr, reserved, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  fmt::print("{:<32}{:>8}{:>8}{:>9}{:>9}{:>9}{:>9}{:>9}\n", "model, ms", "nodes", "kernels", "graph",
             "verify", "passes", "plan", "all");
  for (const models::ModelShape& shape : models::model_shapes())
    for (const StorageType type :
         {StorageType::f32, StorageType::bf16, StorageType::q8_0, StorageType::q4_k}) {
      for (const auto activations : {models::Activations::exact, models::Activations::q8}) {
        const bool eight = activations == models::Activations::q8;
        const std::string name = fmt::format("{} {}{}", shape.name, storage_name(type), eight ? " q8" : "");
        if (name.find(arguments.only) == std::string::npos || (eight && type == StorageType::f32)) continue;
        std::optional<ModelFile> file;
        try {
          file = models::model_without_values(shape, type);
        } catch (const luminal::Error&) {
          continue; // rows that are not a whole blocks
        }
        for (TensorView& tensor : file->tensors) {
          if (tensor.bytes.size() > reserved) return 1;
          tensor.bytes = {static_cast<const std::byte*>(never), tensor.bytes.size()};
        }
        Laps least{.graph = 1e9, .verify = 1e9, .passes = 1e9, .plan = 1e9};
        for (int round = 0; round < arguments.rounds; round++) {
          const auto laps = planned_cold(
              *file, activations,
              dump.empty() || round > 0 ? "" : (std::filesystem::path(dump) / (name + ".txt")).string());
          if (!laps) return 1;
          least = {std::min(least.graph, laps->graph),
                   std::min(least.verify, laps->verify),
                   std::min(least.passes, laps->passes),
                   std::min(least.plan, laps->plan),
                   laps->nodes,
                   laps->kernels};
        }
        fmt::print("{:<32}{:>8}{:>8}{:>9.1f}{:>9.1f}{:>9.1f}{:>9.1f}{:>9.1f}\n", name, least.nodes,
                   least.kernels, least.graph, least.verify, least.passes, least.plan, least.total());
        std::fflush(stdout);
      }
    }
  return 0;
}
