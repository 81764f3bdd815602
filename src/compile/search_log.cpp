// compile/search_log.cpp -- heads of logs against this machine, and their files.
#include "compile/search_log.h"
#include "base/file.h"
#include "base/program_hash.h"
#include "compile/blame_rules.h"
#include "search/measure_log.h"
#include <fmt/format.h>

namespace luminal::compile {
namespace {

std::string_view name_of(SearchMode mode) {
  switch (mode) {
  case SearchMode::fast: return "fast";
  case SearchMode::optimal: return "optimal";
  case SearchMode::budget: return "budget";
  }
  return "";
}

/// Why the log cannot be replayed here; empty: it can.
std::string other_kind(const search::MeasureLogHead& there, const search::MeasureLogHead& here) {
  if (there.machine.threads != here.machine.threads)
    return fmt::format("it is for {} threads, here are {}", there.machine.threads, here.machine.threads);
  if (there.machine.instructions != here.machine.instructions)
    return fmt::format("its machine has the instructions {}, this one {}", there.machine.instructions,
                       here.machine.instructions);
  if (there.machine.device != here.machine.device) return "it is of another machine";
  if (there.machine.llvm != here.machine.llvm)
    return fmt::format("its LLVM is {}, here {}", there.machine.llvm, here.machine.llvm);
  if (there.machine.codegen != here.machine.codegen || there.program != here.program)
    return "it is of another build of luminal";
  return "";
}

/// What was searched: terms, sizes, rules.
std::string text_of(const Module& module, const Options& options) {
  Hasher hasher;
  hasher.add(to_string(module)).add(options.rules.set->hash()).add(options.rules.on).add(options.rules.seed);
  for (const auto& [name, size] : options.sizes) hasher.add(name).add(size);
  return hasher.value128().hex();
}

} // namespace

Result<void> open_search_log(Options& options) {
  const SearchLog& log = options.search.log;
  if (log.write.empty() && log.replay.empty()) return {};
  if (!log.write.empty() && !log.replay.empty())
    return Failure{
        fmt::format("{} is replayed, so there is no other log to write ({})", log.replay, log.write)};
  search::MeasureLogHead head;
  head.program = program_hash().value_or(Hash128());
  head.machine = search::machine_key(build_options(options.limits, options.target, options.limits.threads),
                                     "reassoc", 0);
  head.profile = options.profile.to_json();
  head.mode = name_of(options.search.mode);
  head.seconds = options.search.seconds;
  head.filter = options.search.filter;
  head.confirm = options.search.confirm;
  head.about = log.about;
  if (log.replay.empty()) {
    if (options.search.mode == SearchMode::fast)
      return Failure{
          fmt::format("nothing is measured without a search, so there is no log to write ({})", log.write)};
    options.log = std::make_shared<search::MeasureLog>(std::move(head));
    return {};
  }
  auto read = search::MeasureLog::read(log.replay);
  if (!read) return read.failure();
  const search::MeasureLogHead& there = (*read)->head();
  if (const std::string why = other_kind(there, head); !why.empty())
    return Failure{fmt::format("the log {} cannot be replayed here: {}", log.replay, why)};
  auto profile = search::MachineProfile::from_json(there.profile);
  if (!profile) return Failure{fmt::format("{}: profile: {}", log.replay, profile.error())};
  options.profile = std::move(*profile);
  options.search.mode = there.mode == name_of(SearchMode::optimal) ? SearchMode::optimal : SearchMode::budget;
  options.search.seconds = there.seconds;
  options.search.filter = there.filter;
  options.search.confirm = there.confirm;
  options.log = std::move(*read);
  return {};
}

Result<void> close_search_log(const Options& options) {
  if (!options.log) return {};
  if (options.log->replays()) {
    options.log->require_end();
    return {};
  }
  return write_file(options.search.log.write, std::string_view(options.log->text()));
}

std::shared_ptr<search::TuningCache> begin_search(search::MeasureLog& log, const Module& module,
                                                  const Options& options) {
  const std::string here = text_of(module, options);
  const auto there =
      log.ask("a search", "", [&]() -> search::MeasureLog::Answer { return {true, here, {}}; });
  if (there.text != here)
    throw Error(fmt::format("the log {} is of another model, or of other sizes, rules or options of it",
                            options.search.log.replay));
  log.uses(rule_key());
  return log.cache_for(options.tuning);
}

} // namespace luminal::compile
