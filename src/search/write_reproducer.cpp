// search/write_reproducer.cpp -- the folder that a wrong candidate leaves.
#include "base/file.h"
#include "codegen/version.h"
#include "search/select.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace luminal::search {

Result<std::string> write_reproducer(const std::string& folder, const KernelProblem& problem,
                                     const Candidate& candidate, const kernel::Kernel& kernel,
                                     const std::string& cause, const std::string& loops,
                                     const BuildOptions& build) {
  nlohmann::ordered_json about{{"cause", cause},
                               {"seed", problem.seed},
                               {"symbols", problem.symbols},
                               {"integers", problem.integers},
                               {"floats", problem.floats},
                               {"threads", build.threads},
                               {"lanes", build.lower.lanes},
                               {"contract", build.lower.contract},
                               {"target",
                                {{"triple", build.target.cpu.triple},
                                 {"cpu", build.target.cpu.cpu},
                                 {"features", build.target.cpu.features}}},
                               {"codegen", codegen::codegen_version},
                               {"llvm", codegen::llvm_version()}};
  const std::vector<std::pair<std::string, std::string>> files = {
      {"term.lum", to_string(problem.module)},
      {"schedule.txt", kernel::to_string(candidate.schedule)},
      {"loops.txt", kernel::to_string(kernel)},
      {"loops_shrunken.txt", loops},
      {"case.json", about.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n"}};
  if (auto made = make_folder_of(folder + "/"); !made) return made.failure();
  for (const auto& [name, text] : files) {
    if (text.empty()) continue;
    if (auto written = write_file(fmt::format("{}/{}", folder, name), std::string_view(text)); !written)
      return written.failure();
  }
  return folder;
}

} // namespace luminal::search
