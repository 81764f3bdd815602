// compile/ablate.cpp -- what a step takes by estimate, with all rules and without each.
#include "compile/ablate.h"
#include <algorithm>
#include <set>

namespace luminal::compile {
namespace {

double estimate_of(const std::vector<RegionReport>& regions) {
  double seconds = 0;
  for (const RegionReport& region : regions) seconds += double(region.instances) * region.estimate_s;
  return seconds;
}

/// How many of them are computed by other kernels.
size_t changed(const std::vector<RegionReport>& with, const std::vector<RegionReport>& without) {
  const auto plan_of = [](const RegionReport& r) { return r.plans.empty() ? "" : r.plans[r.taken].name; };
  size_t count = 0;
  for (size_t r = 0; r < std::min(with.size(), without.size()); ++r)
    count += plan_of(with[r]) != plan_of(without[r]) &&
             !(with[r].kernels == 0 && without[r].kernels == 0); // both stay as they came
  return count;
}

} // namespace

Result<Ablation> ablate(const Module& module, const Options& options) {
  auto base = plan_regions(module, options);
  if (!base) return base.failure();
  Ablation out;
  out.estimate = estimate_of(*base);
  std::set<std::string> rules;
  for (const RegionReport& region : *base) {
    out.written += double(region.instances) * region.written_s;
    rules.insert(region.rules.begin(), region.rules.end());
  }
  for (const std::string& rule : rules) {
    Options without = options;
    without.rules.set = nullptr;
    without.rules.choice.forbidden.push_back(rule);
    auto regions = plan_regions(module, without);
    if (!regions) return regions.failure();
    out.rules.push_back({rule, estimate_of(*regions), changed(*base, *regions)});
  }
  std::ranges::stable_sort(out.rules, std::greater(), &RuleWorth::estimate);
  return out;
}

} // namespace luminal::compile
