// models/export_support.h -- programs that are exported, built by a C compiler and run.
#pragma once
#include "compile/target.h"
#include "luminal/luminal.h"
#include "runtime/export_plan.h"
#include "tensor/graph_state.h"
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

namespace luminal::models {

/// A folder that goes away.
struct Folder {
  std::filesystem::path path;
  explicit Folder(const char* name)
      : path(std::filesystem::temp_directory_path() /
             ("luminal_export_" + std::string(name) + "_" + std::to_string(getpid()))) {
    std::filesystem::remove_all(path);
    std::filesystem::create_directories(path);
  }
  ~Folder() { std::filesystem::remove_all(path); }
};

inline bool works(const std::string& command) {
  return std::system((command + " > /dev/null 2>&1").c_str()) == 0;
}
inline std::string output_of(const std::string& command) {
  std::string text;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  char part[4096];
  while (size_t n = fread(part, 1, sizeof part, pipe)) text.append(part, n);
  const int code = pclose(pipe);
  return code == 0 ? text : text + "\nexit code " + std::to_string(code);
}
inline std::string quoted(const std::filesystem::path& path) { return "'" + path.string() + "'"; }

inline runtime::ExportedFiles export_graph(Graph& g, const Folder& folder, const char* target,
                                           const char* name, std::map<std::string, std::string> names = {},
                                           const std::vector<runtime::WorkerCap>& caps = {},
                                           std::map<std::string, int64_t> sizes = {}) {
  auto state = g.state();
  compile::Options options = compile::options_for_target(target, 2).value();
  options.cache = false;
  options.sizes = std::move(sizes); // typical ones
  runtime::Plan plan = *compile::compile(state->snapshot(), options).value().plan;
  if (!caps.empty())
    for (runtime::KernelCode& kernel : plan.kernels) kernel.caps = caps;
  return runtime::export_plan(
             plan, {.folder = folder.path,
                    .name = name,
                    .target = target,
                    .instructions = options.target.cpu.instructions(),
                    .output_names = std::move(names),
                    .weight = [&](const runtime::Slot& slot) -> Result<std::span<const std::byte>> {
                      return state->data.at(slot.name).bytes;
                    }})
      .value();
}

/// Builds main.c with what was exported; empty where that went well.
inline std::string build(const Folder& folder, const std::string& name, const std::string& main,
                         const std::string& compiler = "cc") {
  std::ofstream(folder.path / "main.c") << main;
  return output_of("cd " + quoted(folder.path) + " && " + compiler +
                   " -std=c11 -Wall -Wextra -Werror -O1 -o main main.c " + name + ".c luminal_runtime.c lib" +
                   name + "_kernels.a -lpthread");
}

#define NEEDS_COMPILER(compiler)                                                                             \
  if (!works(std::string(compiler) + " --version")) GTEST_SKIP() << "there is no C compiler " << (compiler)

/// One number a line.
inline std::vector<float> numbers(const std::string& text) {
  std::vector<float> values;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) values.push_back(std::strtof(line.c_str(), nullptr));
  return values;
}

} // namespace luminal::models
