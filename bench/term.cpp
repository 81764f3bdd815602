// bench/term.cpp -- schedules of one term by turns: the default one, and those in files.
//
//   ./bench.sh term TERM.lum [SCHEDULE...] [--threads N] [--seconds S] [--rounds N] [--report]
//
// TERM.lum: a module whose entry function becomes one kernel (docs/terms.md), of known sizes.
// SCHEDULE: a file in the text form that --report prints. A row: the low percentile of the
// launches' times, on inputs that rotate beyond the caches; how many times as fast as the default
// schedule; the largest difference from its results, relative to the largest of them.
#include "base/settings.h"
#include "choose/default_schedule.h"
#include "cone/canonical_cone.h"
#include "harness.h"
#include "luminal/error.h"
#include "schedule/schedule.h"
#include "search/machine_profile.h"
#include "search/problem.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fstream>
#include <sstream>

using namespace luminal;
using namespace luminal::bench;

namespace {

std::string content_of(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw luminal::Error("term", fmt::format("{} cannot be read", path));
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

/// The largest |a - b| over the largest |a|, of all floating results; infinity where one has NaN or
/// an infinity and the other does not.
double difference(const search::Workload& work, const search::Outputs& a, const search::Outputs& b) {
  double apart = 0, largest = 0;
  for (size_t i = 0; i < a.size(); i++) {
    const DType type = work.arguments[i].dtype;
    for (int64_t at = 0; at < int64_t(a[i].size()) * 8 / bits(type); at++) {
      const double x = load_f64(type, a[i].data(), at), y = load_f64(type, b[i].data(), at);
      if (std::isfinite(x) != std::isfinite(y)) return INFINITY;
      if (!std::isfinite(x)) continue;
      apart = std::max(apart, std::abs(x - y)), largest = std::max(largest, std::abs(x));
    }
  }
  return largest > 0 ? apart / largest : apart;
}

void race_schedules(const std::string& term, const std::vector<std::string>& files,
                    const Arguments& arguments, int threads) {
  search::KernelProblem problem;
  problem.module = parse_module(content_of(term), term);
  std::vector<NodeId> results;
  for (auto& result : problem.module.entry().results) results.push_back(result.value);
  auto cone = kernel::build_cone(problem.module.entry(), results, {});
  if (!cone) throw luminal::Error("term", cone.error());
  problem.cone = kernel::canonical(*cone).cone; // the names that a plan's schedules use
  search::BuildOptions options;
  options.threads = threads;
  const auto limits = search::MachineProfile::guess(threads).limits();
  options.lower.lanes = limits.lanes;
  auto work = std::make_shared<const search::Workload>(
      search::workload_of(problem, problem.cone, problem.symbols, threads));
  const auto measurer = search::make_in_process_measurer(work);
  std::vector<Contender> race_of;
  std::vector<double> apart;
  std::optional<search::Outputs> reference;
  const auto enter = [&](const std::string& name, const kernel::Schedule& schedule,
                         const Result<kernel::Kernel>& kernel) {
    if (!kernel) throw luminal::Error(name, kernel.error());
    if (arguments.report) fmt::print("# {}\n{}{}", name, to_string(schedule), to_string(*kernel));
    const auto code = search::build(*kernel, {}, options);
    if (!code) throw luminal::Error(name, code.error());
    const auto number = measurer->add(*code);
    if (!number) throw luminal::Error(name, number.error());
    auto outputs = measurer->run(*number, std::byte{0xff});
    if (!outputs) throw luminal::Error(name, outputs.error());
    if (!reference) reference = std::move(*outputs);
    apart.push_back(race_of.empty() ? 0 : difference(*work, *reference, *outputs));
    race_of.push_back({name, [&measurer, n = *number] { return *measurer->time(n, 1); }});
  };
  const auto usual = kernel::default_kernel(problem.cone, limits);
  enter("default", usual.schedule, usual.kernel);
  for (auto& file : files) {
    const auto schedule = kernel::parse_schedule(content_of(file), file);
    enter(file, schedule, kernel::lower(problem.cone, schedule, options.lower));
  }
  race(race_of, arguments);
  for (size_t i = 0; i < race_of.size(); i++)
    fmt::print("{} thr {:>12.2f} us {:>7.3f} x  {:.1e}  {}\n", threads, race_of[i].low() * 1e6,
               race_of[0].low() / race_of[i].low(), apart[i], race_of[i].name);
}

} // namespace

int main(int argc, char** argv) {
  // Files are what is not an option; the rest is the same as everywhere.
  std::vector<char*> options{argv[0]};
  std::vector<std::string> files;
  for (int i = 1; i < argc; i++) {
    const std::string word = argv[i];
    if (word.rfind("--", 0) != 0 && word != "-h") {
      files.push_back(word);
      continue;
    }
    options.push_back(argv[i]);
    if ((word == "--threads" || word == "--seconds" || word == "--rounds") && i + 1 < argc)
      options.push_back(argv[++i]);
  }
  const Arguments arguments = parse_arguments(int(options.size()), options.data(),
                                              "term TERM.lum [SCHEDULE...]: schedules of a term by turns");
  if (files.empty()) {
    fmt::print(stderr, "term: a file with a term is needed, then files with schedules for it\n");
    return 2;
  }
  try {
    for (const int threads : arguments.threads)
      race_schedules(files[0], {files.begin() + 1, files.end()}, arguments, threads);
  } catch (const luminal::Error& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
