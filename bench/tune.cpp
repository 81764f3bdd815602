// bench/tune.cpp -- what measuring finds beyond the default schedule, in how many seconds: matrix
// products and convolutions.
//
//   ./bench.sh tune [--json FILE] [--only TEXT] [--threads N] [--seconds S] [--best S]     S:
//   budget of each kernel, default 2; of a long search
//   that it is compared with, by turns
#include "cone/cone.h"
#include "harness.h"
#include "search/machine_profile.h"
#include "search/tune_kernel.h"
#include "support/terms.h"
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

using namespace luminal;
using namespace luminal::bench;

namespace {

struct Workload {
  std::string name, term;
  double flops;
};

Workload matmul(int m, int n, int k) {
  return {fmt::format("sgemm {}x{}x{}", m, n, k), matmul_term(m, n, k), 2.0 * m * n * k};
}

/// Square, padded by kernel / 2.
Workload convolution(int in, int out, int size, int kernel, int stride) {
  const int result = convolved(size, kernel, stride);
  return {fmt::format("conv {}x{} k{} s{} @{}", in, out, kernel, stride, size),
          convolution_term(in, out, size, kernel, stride),
          2.0 * out * result * result * in * kernel * kernel};
}

/// Speed of the first schedule as a fraction of the second one's, both raced by turns; 0: not
/// known.
double against(const search::KernelProblem& problem, const kernel::Schedule& schedule,
               const kernel::Schedule& best, const search::TuneOptions& options,
               const kernel::MachineLimits& limits) {
  if (schedule == best) return 1;
  kernel::LowerOptions lower;
  lower.lanes = limits.lanes;
  search::SelectOptions select = options.select;
  select.build.lower.lanes = limits.lanes;
  select.race.seconds = 3;
  const auto raced = search::select(
      problem, {search::candidate_of(schedule, lower), search::candidate_of(best, lower)}, select);
  if (!raced || raced->tried.size() < 2) return 0;
  if (raced->tried[1].seconds <= 0) return 1; // the same code
  return raced->tried[1].seconds / raced->tried[0].seconds;
}

} // namespace

int main(int argc, char** argv) {
  Arguments arguments = parse_arguments(argc, argv, "what tuning finds beyond the default schedule");
  const double budget = arguments.seconds == Arguments{}.seconds ? 2 : arguments.seconds;
  nlohmann::json rows = nlohmann::json::array();
  fmt::print("{:<24}{:>4}{:>12}{:>12}{:>8}{:>7}{:>7}{:>9}  answers\n", "kernel", "thr", "default", "tuned",
             "gain", "tried", "lists", "seconds");
  for (const Workload& work :
       {matmul(256, 256, 256), matmul(512, 512, 512), matmul(1024, 1024, 1024), matmul(2048, 2048, 2048),
        matmul(4096, 4096, 4096), matmul(128, 3072, 768), matmul(512, 8192, 2048), matmul(1000, 777, 513),
        matmul(64, 64, 64), convolution(64, 64, 56, 3, 1), convolution(256, 256, 14, 3, 1),
        convolution(512, 512, 7, 3, 1), convolution(3, 64, 224, 7, 2)}) {
    if (work.name.find(arguments.only) == std::string::npos) continue;
    for (const int threads : arguments.threads) {
      Module module = parse_module(work.term, work.name);
      std::vector<NodeId> roots;
      for (const auto& result : module.entry().results) roots.push_back(result.value);
      auto cone = kernel::build_cone(module.entry(), roots, {});
      if (!cone) {
        fmt::print("{}: {}\n", work.name, cone.error());
        return 1;
      }
      search::KernelProblem problem;
      problem.module = std::move(module);
      problem.cone = std::move(*cone);
      search::TuneOptions options;
      options.seconds = budget;
      options.select.build.threads = threads;
      options.select.profile = search::MachineProfile::present(threads);
      const auto limits = options.select.profile.limits();
      const double start = now();
      const auto tuned = search::tune(problem, limits, options);
      const double took = now() - start;
      if (!tuned) {
        fmt::print("{}: {}\n", work.name, tuned.error());
        continue;
      }
      const double before = work.flops / tuned->usual_seconds * 1e-9,
                   after = work.flops / tuned->seconds * 1e-9;
      fmt::print("{:<24}{:>4}{:>8.1f} GF/s{:>7.1f} GF/s{:>7.2f}x{:>7}{:>7}{:>8.1f}s  {}\n", work.name,
                 threads, before, after, after / before, tuned->tried, tuned->lists, took,
                 kernel::to_string(tuned->answers));
      double of_best = 0;
      if (arguments.best > 0) {
        options.seconds = arguments.best;
        const auto best = search::tune(problem, limits, options);
        if (best) of_best = against(problem, tuned->schedule, best->schedule, options, limits);
        if (best)
          fmt::print("{:<24}    {:.1f} % of what {:.0f} s find ({} tried{}: {})\n", "", 100 * of_best,
                     arguments.best, best->tried, best->complete ? ", complete" : "",
                     kernel::to_string(best->answers));
      }
      std::string rejected;
      for (const auto& [cause, count] : tuned->rejected)
        rejected += fmt::format("{}{} {}", rejected.empty() ? "" : ", ", count, cause);
      fmt::print("{:<24}    {}{}; bounds at most {:.0f} % of a measured time{}\n", "", rejected,
                 tuned->complete ? "; complete" : "", 100 * tuned->bound_ratio,
                 tuned->bound_ratio > 1 ? ": TOO HIGH, or the profile is too low (luminal devices --measure)"
                                        : "");
      std::fflush(stdout);
      rows.push_back({{"work", work.name},
                      {"of_best", of_best},
                      {"threads", threads},
                      {"default", before},
                      {"tuned", after},
                      {"unit", "GFLOP/s"},
                      {"tried", tuned->tried},
                      {"seconds", took},
                      {"complete", tuned->complete},
                      {"rejected", tuned->rejected},
                      {"bound_ratio", tuned->bound_ratio},
                      {"answers", kernel::to_string(tuned->answers)}});
    }
  }
  if (!arguments.json.empty()) std::ofstream(arguments.json) << rows.dump(1) << '\n';
}
