// compile/plan_file.cpp -- plans written, read, and held against this machine.
#include "compile/plan_file.h"
#include "base/file.h"
#include "base/program_hash.h"
#include "base/settings.h"
#include "compile/compile.h"
#include <fmt/format.h>
#include <mutex>
#include <set>

namespace luminal::compile {
namespace {

std::mutex of_process_plan;
std::string& process_plan() {
  static std::string file;
  return file;
}

/// Why a key of a plan is for another kind of machine than `here`; empty: it is not.
std::string other_kind(const search::TuningKey& key, const search::TuningKey& here) {
  const auto differs = [](const char* what, const std::string& there, const std::string& us) {
    return there == us ? std::string() : fmt::format("{} are {}, here {}", what, there, us);
  };
  if (auto text = differs("its instructions", key.instructions, here.instructions); !text.empty())
    return text;
  if (key.llvm != here.llvm) return fmt::format("its LLVM is {}, here {}", key.llvm, here.llvm);
  if (key.codegen != here.codegen || key.rules != here.rules) return "it is of another version of luminal";
  if (key.threads != 1 && key.threads != here.threads)
    return fmt::format("it is for {} threads, here are {}", key.threads, here.threads);
  return "";
}

} // namespace

PlanFile::PlanFile(std::string path, bool files)
    : path_(std::move(path)),
      checked_(files && program_hash() && !cache_folder().empty() ? cache_folder() + "/plans" : "",
               ".checked", 1 << 20) {}

Result<std::shared_ptr<PlanFile>> PlanFile::read(const std::string& path, const search::TuningKey& here,
                                                 bool files) {
  constexpr uint64_t longest = 64 << 20;
  const auto text = read_file(path, longest);
  if (!text) return text.failure();
  auto read = search::import_entries(*text);
  if (!read) return Failure{fmt::format("{} is not a plan: {}", path, read.error())};
  if (!read->mistakes.empty()) return Failure{fmt::format("{}: {}", path, read->mistakes[0])};
  if (read->entries.empty()) return Failure{fmt::format("{}: the plan has no entry", path)};
  std::shared_ptr<PlanFile> plan(new PlanFile(path, files));
  plan->size_ = read->entries.size();
  for (search::TuningEntry& entry : read->entries) {
    if (const std::string why = other_kind(entry.key, here); !why.empty())
      return Failure{fmt::format("the plan {} is not for this machine: {}", path, why)};
    entry.key.device = here.device;
    entry.checked = plan->checked_.find(plan->name_of(entry)).has_value();
    plan->entries_.put(std::move(entry), search::TuningCache::Keep::newest);
  }
  return plan;
}

Hash128 PlanFile::name_of(const search::TuningEntry& entry) const {
  return Hasher()
      .add(program_hash().value_or(Hash128()))
      .add(entry.key.hash())
      .add(entry.schedule)
      .value128();
}

std::optional<search::TuningEntry> PlanFile::find(const search::TuningKey& key) {
  auto entry = entries_.find(key);
  if (entry) ++used_;
  return entry;
}

void PlanFile::accept(const search::TuningEntry& entry) {
  const std::string_view parts[] = {"checked"};
  checked_.store(name_of(entry), parts);
}

void PlanFile::refuse(const search::TuningEntry& entry, const std::string& cause) {
  entries_.quarantine(entry.key, entry.schedule, cause, "");
}

std::string export_plan(const std::vector<const Compiled*>& programs) {
  std::vector<search::TuningEntry> entries;
  std::set<Hash128> seen;
  for (const Compiled* program : programs)
    for (const search::TuningEntry& entry : program->entries)
      if (seen.insert(entry.key.hash()).second) entries.push_back(entry);
  return search::export_entries(entries);
}

std::string plan_of_process() {
  const std::lock_guard lock(of_process_plan);
  return process_plan().empty() ? std::string(setting_text("LUMINAL_PLAN")) : process_plan();
}

void set_plan_of_process(std::string file) {
  const std::lock_guard lock(of_process_plan);
  process_plan() = std::move(file);
}

} // namespace luminal::compile
