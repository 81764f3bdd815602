// search/select_one.cpp -- one list, one schedule; inputs that a kernel can be judged by.
#include "base/settings.h"
#include "search/measure_log.h"
#include "search/select.h"
#include <filesystem>

namespace luminal::search {

std::string reproducer_folder(const std::string& wanted) {
  if (!wanted.empty()) return wanted;
  if (const std::string folder = cache_folder(); !folder.empty()) return folder + "/reproducers";
  std::error_code error;
  return (std::filesystem::temp_directory_path(error) / "luminal-reproducers").string();
}

Result<Selection> select(const KernelProblem& problem, const std::vector<Candidate>& candidates,
                         const SelectOptions& options) {
  return Selector(problem, options).run(candidates, options.race.seconds);
}

Result<Tried> check_one(const KernelProblem& problem, const Candidate& candidate,
                        const SelectOptions& options) {
  return Selector(problem, options).check_first(candidate);
}

Result<void> make_judgeable(KernelProblem& problem, const SelectOptions& options) {
  const auto none = [](std::shared_ptr<const Workload>) { return std::unique_ptr<Measurer>(); };
  const auto judge = [&](const char* inputs) {
    return outcome(options.log, inputs, problem.cone.name, [&]() -> Result<void> {
      auto checker = Checker::create(problem, options.build, none, options.check);
      if (!checker) return checker.failure();
      return {};
    });
  };
  if (judge("inputs of any sign")) return {};
  problem.floats = {0.5, 2};
  return judge("positive inputs");
}

} // namespace luminal::search
