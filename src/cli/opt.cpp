// cli/opt.cpp -- `luminal opt FILE.lum`: what the rules find in a module of terms, and what the plan
// becomes of it.
#include "base/settings.h"
#include "cli/common.h"
#include "compile/builder.h"
#include "compile/compile.h"
#include "compile/region_search.h"
#include "luminal/pass.h"
#include "rules/emit_region.h"
#include "rules/region_program.h"
#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <iostream>
#include <set>

namespace luminal::cli {
namespace {

struct OptArguments {
  std::string path;
  std::vector<std::string> sizes;
  int threads = 0;
  int64_t work = int64_t(compile::RuleOptions().work);
  bool json = false, no_rules = false, no_cache = false, terms = false, emit_egg = false,
       fewest_bytes = false;
  int64_t region = 0;
};

/// The search of a region as a program, in place of the search.
int emit_egg(const OptArguments& a, const Module& module, compile::KernelPlanner& planner,
             compile::RuleOptions rules) {
  std::vector<std::string> programs;
  rules.choose = [&](rules::RegionTerms& terms, const rules::Entered& entered) {
    if (compile::is_worth_a_search(*entered.flat)) programs.push_back(rules::region_program(terms, entered));
    return std::optional<rules::Choice>();
  };
  compile::PlanBuilder builder(module, planner, {}, rules);
  if (const auto plan = builder.build(); !plan) throw Error(plan.error());
  if (size_t(a.region) >= programs.size())
    throw Error(fmt::format("{}: there is no region {}, they are numbered from 0 to {}", a.path, a.region,
                            int64_t(programs.size()) - 1));
  std::cout << programs[size_t(a.region)];
  return std::cout ? ok : failed;
}

/// Values that steps write and that are neither results nor states, and how many launches there are.
struct Written {
  double bytes = 0;
  int64_t launches = 0;
};
void count(const runtime::Steps& steps, const runtime::Plan& plan, std::set<runtime::SlotId>& slots,
           Written& out) {
  for_each_step(steps, [&](const runtime::Step& step) {
    out.launches += step.is<runtime::Launch>();
    for (const runtime::SlotId slot : slots_of(step))
      if (plan.slots[slot].kind == runtime::SlotKind::arena && !plan.slots[slot].pinned &&
          slots.insert(slot).second)
        out.bytes += double(plan.slots[slot].max_bytes);
  });
}

Json region_json(const compile::RegionReport& r) {
  return {{"nodes", r.nodes},
          {"instances", r.instances},
          {"known", r.cached},
          {"rows", r.rows},
          {"axes", r.axes},
          {"saturate_s", r.saturate_s},
          {"extract_s", r.extract_s},
          {"judge_s", r.judge_s},
          {"rules", r.rules},
          {"written_s", r.written_s},
          {"estimate_s", r.estimate_s},
          {"kernels", r.kernels},
          {"stored_bytes", r.stored_bytes},
          {"outcome", r.outcome.empty() ? "replaced" : r.outcome}};
}

int opt(const OptArguments& a) {
  Module module = parse_module(read_text(a.path), a.path);
  if (const auto mistakes = verify(module); !mistakes.empty())
    throw Error(fmt::format("{}: {}", a.path, mistakes[0]));
  passes::defaults().run(module);
  compile::Options options = compile::Options::host(a.threads > 0 ? a.threads : setting_threads());
  compile::RuleOptions rules;
  rules.on = !a.no_rules;
  rules.files = !a.no_cache;
  rules.work = uint64_t(a.work);
  rules.fewest_bytes = a.fewest_bytes;
  compile::KernelPlanner planner({.limits = options.limits,
                                  .target = options.target,
                                  .sizes = parse_sizes(a.sizes),
                                  .profile = options.profile});
  if (a.emit_egg) return emit_egg(a, module, planner, rules);
  compile::PlanBuilder builder(module, planner, {}, rules);
  const auto plan = builder.build();
  if (!plan) throw Error(plan.error());
  Written written;
  std::set<runtime::SlotId> slots;
  count(plan->steps, *plan, slots, written);
  size_t rows = 0;
  double saturate = 0, extract = 0, before = 0, after = 0;
  std::vector<std::string> names;
  for (const compile::RegionReport& region : builder.regions()) {
    rows += region.rows;
    saturate += region.saturate_s;
    extract += region.extract_s + region.judge_s;
    before += region.written_s * double(region.instances);
    after += region.estimate_s * double(region.instances);
    for (const std::string& rule : region.rules)
      if (std::ranges::find(names, rule) == names.end()) names.push_back(rule);
  }
  if (a.json) {
    Json json{{"path", a.path},
              {"rows", rows},
              {"saturate_s", saturate},
              {"extract_s", extract},
              {"kernels", written.launches},
              {"stored_bytes", written.bytes},
              {"peak_bytes", plan->memory_bytes()},
              {"rules", names},
              {"written_s", before},
              {"estimate_s", after},
              {"regions", Json::array()}};
    for (const compile::RegionReport& region : builder.regions())
      json["regions"].push_back(region_json(region));
    if (a.terms) json["terms"] = to_string(Module{module.symbols, module.assumptions, {builder.entry()}});
    std::cout << json_text(json) << std::endl;
    return ok;
  }
  if (a.terms) std::cout << to_string(Module{module.symbols, module.assumptions, {builder.entry()}});
  for (const compile::RegionReport& region : builder.regions()) std::cout << to_string(region);
  std::cout << fmt::format(
      "{} launches, {} stored between them, {} at the most; rules {:.1f} ms, extraction {:.1f} ms, {} rows\n",
      written.launches, show_bytes(int64_t(written.bytes)), show_bytes(plan->memory_bytes()), saturate * 1e3,
      extract * 1e3, rows);
  return std::cout ? ok : failed;
}

} // namespace

void add_opt(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<OptArguments>();
  auto* verb = app.add_subcommand("opt", "What the rules find in a module of terms: kernels, bytes, times");
  verb->add_option("file", a->path, "A module of terms (.lum); - is standard input")->required();
  verb->add_option("--size", a->sizes, "NAME=SIZE: the typical size of a dynamic dimension");
  verb->add_option("-t,--threads", a->threads, "Workers that kernels are made for")->check(whole(1, 1024));
  verb->add_option("--work", a->work, "Of the search, over all regions: about the microseconds of one core")
      ->check(whole(0, int64_t(1) << 40));
  verb->add_flag("--no-rules", a->no_rules, "The plan without them, for comparison");
  verb->add_flag("--fewest-bytes", a->fewest_bytes,
                 "Of the plans of each region the one that stores fewest bytes, as under a limit of memory");
  verb->add_flag("--no-cache", a->no_cache, "Search regions that were searched before, too");
  verb->add_flag("--terms", a->terms, "Print the terms that were chosen");
  auto* emit = verb->add_flag("--emit-egg", a->emit_egg,
                              "Print the search of a region as a program that luminal egg runs");
  verb->add_option("--region", a->region, "Its number, in the order of regions (default: 0)")
      ->check(whole(0, 1000000))
      ->needs(emit);
  verb->add_flag("--json", a->json, "One JSON object; keys in docs/program.md");
  verb->callback([a, &exit_code] { exit_code = opt(*a); });
}

} // namespace luminal::cli
