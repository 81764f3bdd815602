// compile/kept_plans.cpp -- keys of plans, and their files: a line of JSON, the report, the plan's bytes.
#include "compile/kept_plans.h"
#include "base/contains.h"
#include "base/log.h"
#include "base/program_hash.h"
#include "base/settings.h"
#include "choose/limits_hash.h"
#include "codegen/version.h"
#include "compile/plan_file.h"
#include "compile/rule_set.h"
#include "rules/emit_region.h"
#include "runtime/plan_bytes.h"
#include <algorithm>
#include <array>
#include <mutex>
#include <nlohmann/json.hpp>

namespace luminal::compile {
namespace {

/// Are there nodes whose meaning is code that is registered while the program runs?
bool runs_registered_code(const Module& module) {
  return std::ranges::any_of(module.functions, [](const Function& f) {
    return std::ranges::any_of(f.nodes, [](const Node& node) {
      const auto* map = std::get_if<MapAttr>(&node.attr);
      return contains(std::array{NodeKind::host, NodeKind::custom, NodeKind::collective}, node.kind) ||
             (map && !map->user_op.empty());
    });
  });
}

bool can_be_kept(const Module& module, const Options& o) {
  const bool plain = o.cache && !o.target.is_text() && o.search.mode == SearchMode::fast && !o.log &&
                     o.schedules.empty() && !o.partitioner && o.passes == passes::defaults();
  const bool known_rules =
      !o.rules.choose && !o.rules.texts && o.rules.seconds == 0 && o.rules.set->max_error() == 0;
  return plain && known_rules && o.plan.empty() && plan_of_process().empty() && debug_level() == 0 &&
         program_hash() && !runs_registered_code(module);
}

} // namespace

KeptPlans::KeptPlans(std::string folder, int64_t max_bytes) : files_(std::move(folder), ".plan", max_bytes) {}

KeptPlans& KeptPlans::shared() {
  static std::mutex mutex;
  static std::map<std::string, KeptPlans> plans; // by folder, which tests change
  const std::string folder = cache_folder();
  const std::lock_guard lock(mutex);
  return plans.try_emplace(folder, folder.empty() ? "" : folder + "/plans").first->second;
}

std::optional<Hash128> KeptPlans::key(const Module& module, const Options& options) const {
  if (files_.off() || !can_be_kept(module, options)) return {};
  Hasher hasher;
  hasher.add("plan").add(*program_hash()).add(codegen::codegen_version).add(codegen::llvm_version());
  hasher.add(options.target.cpu.hash()).add(options.device).add(options.strict).add(options.max_memory);
  hash_into(hasher, options.limits);
  hasher.add(options.profile.to_json()).add(options.sizes.size());
  for (const auto& [name, size] : options.sizes) hasher.add(name).add(size);
  const RuleOptions& rules = options.rules;
  hasher.add(rules.on).add(rules.set->hash()).add(rules.work).add(rules.seed);
  hasher.add(rules.fewest_bytes).add(options.tuning != nullptr);
  if (options.tuning) hasher.add(options.tuning->state_hash());
  return hasher.add(full_hash(module)).value128();
}

std::optional<Compiled> KeptPlans::find(const Hash128& key) {
  const std::optional<std::string> file = files_.find(key);
  if (!file) return {};
  Compiled out;
  try {
    const size_t line = std::min(file->find('\n'), file->size());
    const auto head = nlohmann::json::parse(file->begin(), file->begin() + ptrdiff_t(line));
    head.at("kernels").get_to(out.kernels);
    head.at("schedules").get_to(out.schedules);
    const std::string_view rest = std::string_view(*file).substr(std::min(line + 1, file->size()));
    const auto report = std::min(head.at("report").get<size_t>(), rest.size());
    out.made_before = rest.substr(0, report);
    auto plan = runtime::plan_of_bytes(rest.substr(report));
    if (plan) {
      out.cached = out.kernels;
      out.plan = std::make_shared<const runtime::Plan>(std::move(*plan));
      return out;
    }
  } catch (const nlohmann::json::exception&) {
  }
  log_info("cache of plans: {} says nothing that can be read", files_.path(key));
  return {};
}

void KeptPlans::keep(const Hash128& key, const Compiled& compiled) {
  const auto plan = runtime::to_bytes(*compiled.plan);
  if (!plan) return;
  const std::string report = compiled.report();
  const std::string head = nlohmann::json{{"kernels", compiled.kernels},
                                          {"schedules", compiled.schedules},
                                          {"report", report.size()}}
                               .dump() +
                           "\n";
  const std::array<std::string_view, 3> parts{head, report, *plan};
  files_.store(key, parts);
}

} // namespace luminal::compile
