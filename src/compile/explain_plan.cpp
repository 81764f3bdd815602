// compile/explain_plan.cpp -- from the reports of kernels and regions to what a person asks.
#include "compile/explain_plan.h"
#include "base/contains.h"
#include "compile/approximation.h"
#include "search/cone_estimate.h"
#include "search/limit.h"
#include <algorithm>
#include <charconv>
#include <set>
#include <tuple>

namespace luminal::compile {
namespace {

/// "matmul at train.cpp:41" by its file, then by its line as a number.
std::tuple<std::string_view, int64_t, std::string_view> place_order(std::string_view origin) {
  const size_t at = origin.rfind(" at ");
  const std::string_view place = at == std::string_view::npos ? std::string_view() : origin.substr(at + 4);
  const size_t colon = std::min(place.rfind(':'), place.size());
  int64_t line = 0;
  if (colon < place.size()) std::from_chars(place.data() + colon + 1, place.data() + place.size(), line);
  return {place.substr(0, colon), line, origin};
}

void count_steps(const runtime::Steps& steps, IdVector<runtime::CodeId, int>& launches) {
  for_each_step(steps, [&](const runtime::Step& step) {
    if (const auto* launch = step.as<runtime::Launch>()) ++launches[launch->kernel];
  });
}

/// What is known of the kernel itself, without a measurement.
void add_facts(const KernelReport& report, const std::string& schedule, const Options& options,
               KernelExplanation& out) {
  const KernelFacts& facts = *report.facts;
  out.lines = facts.lines;
  out.stages = kernel::to_string(facts.given);
  const search::KernelWork work = search::work_of(facts.canonical.cone, facts.sizes);
  const int threads = options.limits.threads;
  out.by_memory = search::limit_seconds({.bytes = work.bytes}, options.profile, threads);
  out.by_arithmetic = search::limit_seconds({.flops = work.flops}, options.profile, threads);
  out.estimate =
      1e-9 * search::kernel_ns(facts.canonical.cone, kernel::parse_schedule(schedule), options.limits,
                               facts.sizes, search::estimate_rates(options.profile, options.limits));
}

RegionExplanation explain_region(const RegionReport& r) {
  RegionExplanation out;
  out.nodes = r.nodes;
  out.instances = r.instances;
  out.lines = r.lines;
  out.rules = r.rules;
  out.before = r.before;
  out.after = r.after;
  out.written = r.written_s;
  out.estimate = r.estimate_s;
  out.stored = r.stored_bytes;
  out.kernels = r.kernels;
  out.outcome = r.outcome;
  out.limit = r.limit;
  for (size_t k = 0; k < r.plans.size(); ++k)
    out.plans.push_back(
        {r.plans[k].name, r.plans[k].estimate_s, r.plans[k].kernels, r.plans[k].written, k == r.taken});
  out.measured = r.measured;
  out.approximate = is_approximate(r);
  return out;
}

} // namespace

std::vector<std::string> origins(const Function& function, std::span<const NodeId> nodes) {
  std::set<std::string> lines;
  for (const NodeId id : nodes)
    if (!function[id].origin.empty()) lines.insert(function[id].origin);
  std::vector<std::string> out(lines.begin(), lines.end());
  std::ranges::sort(out, {}, place_order);
  return out;
}

void write_texts(const RegionFunction& region, const rules::Fragment* fragment, RegionReport& report) {
  report.before = to_string(region.module);
  if (!fragment) return;
  rules::FunctionWriter writer(region.module.entry());
  writer.place(*fragment);
  report.after = to_string(Module{region.module.symbols, region.module.assumptions, {writer.finish()}});
}

Explanation explain(const Compiled& compiled, const Options& options) {
  Explanation out;
  const runtime::Plan& plan = *compiled.plan;
  IdVector<runtime::CodeId, int> steps(plan.kernels.size()), load_steps(plan.kernels.size());
  count_steps(plan.steps, steps);
  count_steps(plan.load_steps, load_steps);
  for (size_t k = 0; k < compiled.choices.size(); ++k) {
    const KernelReport& report = compiled.choices[k];
    KernelExplanation& kernel = out.kernels.emplace_back();
    kernel.name = report.name;
    kernel.computes = report.computes;
    kernel.steps = steps[runtime::CodeId(k)];
    kernel.load_steps = load_steps[runtime::CodeId(k)];
    kernel.sizes = report.sizes;
    kernel.schedule = compiled.schedules[k];
    kernel.names = report.names;
    kernel.choice = !report.facts  ? KernelExplanation::Choice::custom
                    : report.given ? KernelExplanation::Choice::given
                    : report.tuned ? KernelExplanation::Choice::tuned
                                   : KernelExplanation::Choice::usual;
    if (report.facts) add_facts(report, kernel.schedule, options, kernel);
    if (!contains(kernel.lines, report.about)) kernel.about = report.about;
    kernel.measured = report.seconds;
    kernel.usual = report.usual_seconds;
    kernel.tried = report.tried;
    kernel.rejected = report.rejected;
    kernel.note = report.note;
    kernel.untiled = report.untiled;
  }
  for (const RegionReport& region : compiled.regions)
    if (!region.rules.empty()) out.regions.push_back(explain_region(region));
  out.max_error = compiled.approximation.max_error;
  out.error = compiled.approximation.error;
  return out;
}

} // namespace luminal::compile
