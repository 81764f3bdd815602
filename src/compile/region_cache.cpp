// compile/region_cache.cpp -- results of regions as text: what is told of them, then their plans' terms.
#include "compile/region_cache.h"
#include "base/log.h"
#include "base/program_hash.h"
#include "base/settings.h"
#include "rules/fragment_text.h"
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace luminal::compile {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const RegionPlanReport& plan, const std::string& terms) {
  return {{"name", plan.name},       {"estimate_s", plan.estimate_s},
          {"kernels", plan.kernels}, {"stored_bytes", plan.stored_bytes},
          {"written", plan.written}, {"approximate", plan.approximate},
          {"bytes", terms.size()}};
}

RegionPlanReport plan_of(const Json& json) {
  RegionPlanReport plan;
  json.at("name").get_to(plan.name);
  json.at("estimate_s").get_to(plan.estimate_s);
  json.at("kernels").get_to(plan.kernels);
  json.at("stored_bytes").get_to(plan.stored_bytes);
  json.at("written").get_to(plan.written);
  json.at("approximate").get_to(plan.approximate);
  return plan;
}

/// What another process can use of a report. Times are of the search, which it spares.
Json json_of(const RegionReport& r) {
  return {{"nodes", r.nodes},         {"rows", r.rows},
          {"classes", r.classes},     {"axes", r.axes},
          {"work", r.work},           {"rules", r.rules},
          {"written_s", r.written_s}, {"estimate_s", r.estimate_s},
          {"kernels", r.kernels},     {"stored_bytes", r.stored_bytes},
          {"limit", r.limit},         {"outcome", r.outcome}};
}

RegionReport report_of(const Json& json) {
  RegionReport r;
  const auto get = [&](const char* key, auto& to) { json.at(key).get_to(to); };
  get("nodes", r.nodes);
  get("rows", r.rows);
  get("classes", r.classes);
  get("axes", r.axes);
  get("work", r.work);
  get("rules", r.rules);
  get("written_s", r.written_s);
  get("estimate_s", r.estimate_s);
  get("kernels", r.kernels);
  get("stored_bytes", r.stored_bytes);
  get("limit", r.limit);
  get("outcome", r.outcome);
  return r;
}

/// A line of what is told, and the terms of all plans. Nothing: these have no text.
std::optional<std::pair<std::string, std::string>> text_of(const RegionResult& result, const Module& module) {
  Json head = json_of(result.report);
  head["usual"] = result.usual;
  head["fewest"] = result.fewest;
  head["plans"] = Json::array();
  std::string all;
  for (const RegionPlan& plan : result.plans) {
    const std::optional<std::string> terms =
        plan.fragment ? rules::fragment_text(*plan.fragment, module) : std::string();
    if (!terms) return {};
    head["plans"].push_back(json_of(plan.report, *terms));
    all += *terms;
  }
  return std::pair(head.dump() + "\n", std::move(all));
}

/// A key on disk is of this build of the program. Nothing: it has no name.
std::optional<Hash128> on_disk(const Hash128& key) {
  if (!program_hash()) return {};
  return Hasher().add("region").add(*program_hash()).add(key).value128();
}

} // namespace

RegionCache::RegionCache(std::string folder, int64_t max_bytes)
    : files_(std::move(folder), ".region", max_bytes) {}

RegionCache& RegionCache::shared() {
  static std::mutex mutex;
  static std::map<std::string, RegionCache> caches; // by folder, which tests change
  const std::string folder = cache_folder();
  const std::lock_guard lock(mutex);
  return caches.try_emplace(folder, folder.empty() ? "" : folder + "/regions").first->second;
}

std::shared_ptr<const RegionResult> RegionCache::find(const Hash128& key) {
  const std::lock_guard lock(mutex_);
  const auto found = known_.find(key);
  return found == known_.end() ? nullptr : found->second;
}

void RegionCache::remember(const Hash128& key, std::shared_ptr<const RegionResult> result) {
  constexpr size_t most = 4096;
  const std::lock_guard lock(mutex_);
  if (known_.size() >= most) known_.clear();
  known_[key] = std::move(result);
}

std::shared_ptr<const RegionResult> RegionCache::read(const Hash128& key, const RegionFunction& region) {
  const auto name = on_disk(key);
  const std::optional<std::string> text = name ? files_.find(*name) : std::nullopt;
  if (!text) return nullptr;
  auto result = std::make_shared<RegionResult>();
  const size_t line = std::min(text->find('\n'), text->size());
  const Json json = Json::parse(text->begin(), text->begin() + ptrdiff_t(line), nullptr, false);
  std::string_view terms = std::string_view(*text).substr(std::min(line + 1, text->size()));
  try {
    result->report = report_of(json);
    json.at("usual").get_to(result->usual);
    json.at("fewest").get_to(result->fewest);
    for (const Json& about : json.at("plans")) {
      RegionPlan& plan = result->plans.emplace_back(RegionPlan{plan_of(about), {}});
      const auto bytes = about.at("bytes").get<size_t>();
      if (bytes > 0)
        plan.fragment = rules::read_fragment(terms.substr(0, bytes), region.module, region.roots);
      if (bytes > terms.size() || plan.fragment.has_value() == plan.report.written) {
        log_info("cache of regions: {} does not fit its region", files_.path(*name));
        return nullptr;
      }
      terms.remove_prefix(bytes);
    }
  } catch (const Json::exception&) {
    log_info("cache of regions: {} says nothing that can be read", files_.path(*name));
    return nullptr;
  }
  const size_t last = std::max(result->usual, result->fewest);
  if (!terms.empty() || (last > 0 && last >= result->plans.size())) {
    log_info("cache of regions: {} does not fit its region", files_.path(*name));
    return nullptr;
  }
  remember(key, result);
  return result;
}

void RegionCache::keep(const Hash128& key, std::shared_ptr<const RegionResult> result,
                       const RegionFunction& region, bool files) {
  if (const auto name = on_disk(key); files && name && !files_.off())
    if (const auto text = text_of(*result, region.module))
      files_.store(*name, std::array<std::string_view, 2>{text->first, text->second});
  remember(key, std::move(result));
}

} // namespace luminal::compile
