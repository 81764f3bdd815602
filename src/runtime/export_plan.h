// runtime/export_plan.h -- a plan as files that run without the compiler: objects in a static
// library, C tables and a header, a weights file, and the small C runtime that reads them.
#pragma once
#include "base/result.h"
#include "runtime/plan.h"
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace luminal::runtime {

struct ExportOptions {
  std::string folder; ///< is made
  std::string name;   ///< of the program: a C identifier, the beginning of all its names
  std::string target; ///< of its code, as the user wrote it; for comments
  /// Instructions that the code may use, in the words of GCC's __builtin_cpu_supports (x86-64) or
  /// of the system's HWCAP_ bits (AArch64, "HWCAP_SVE"; "SVE_BITS 256": vectors of exactly that
  /// width).
  std::vector<std::string> instructions;
  std::map<std::string, std::string> output_names; ///< of results, where they are called otherwise outside
  /// The bytes of a weight. They must live until export_plan returns.
  std::function<Result<std::span<const std::byte>>(const Slot&)> weight;
};

struct ExportedFiles {
  std::string header, source, library, weights; ///< paths
  std::vector<std::string> runtime;             ///< luminal_runtime.c and .h
  int64_t weight_bytes = 0, code_bytes = 0;
};

/// Failures: host steps (nothing outside C runs them), sizes without a bound, a folder that cannot
/// be written, names that are none.
Result<ExportedFiles> export_plan(const Plan& plan, const ExportOptions& options);

/// A static library of ELF objects with an index of the symbols that the linker looks for; `symbol`
/// is what each one defines.
struct ArchiveMember {
  std::string name, symbol;
  std::span<const std::byte> bytes;
};
std::vector<std::byte> static_library(std::span<const ArchiveMember> members);

/// The object with its global symbol `from` called `to`, of the same length. Failure: there is
/// none, or several.
Result<std::vector<std::byte>> rename_symbol(std::span<const std::byte> object, std::string_view from,
                                             std::string_view to);

} // namespace luminal::runtime
