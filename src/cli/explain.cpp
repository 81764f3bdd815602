// cli/explain.cpp -- `luminal explain FILE[:KERNEL]`: why a program runs as it does.
#include "base/file.h"
#include "base/print.h"
#include "base/settings.h"
#include "base/text.h"
#include "cli/onnx_program.h"
#include "cli/program_graph.h"
#include "compile/ablate.h"
#include "compile/explain_page.h"
#include "compile/explain_plan.h"
#include "ir/trust.h"
#include "luminal/ablate.h"
#include "luminal/debug.h"
#include <filesystem>
#include <fmt/format.h>
#include <iostream>

namespace luminal::cli {
namespace {

struct ExplainArguments {
  GraphArguments graph;
  std::string kernel, page;
  bool json = false, ablate = false;
};

/// FILE:KERNEL, where there is no file of that whole name.
void split_kernel(ExplainArguments& a) {
  std::error_code error;
  const size_t colon = a.graph.path.rfind(':');
  if (colon == std::string::npos || colon == 0 || std::filesystem::exists(a.graph.path, error)) return;
  if (!a.kernel.empty()) throw UsageError("the kernel is given twice: behind the file and by --kernel");
  a.kernel = a.graph.path.substr(colon + 1);
  a.graph.path.resize(colon);
}

/// What is explained, and the graph as a page where one is wanted.
struct Explained {
  Explanation all;
  std::string graph;
};

/// A module of terms, and how it is compiled.
struct Terms {
  explicit Terms(const GraphArguments& a)
      : module(parse_module_from(read_text(a.path), a.path, a.allow_custom)),
        options(compile::Options::host(a.threads > 0 ? a.threads : setting_threads())) {
    options.sizes = parse_sizes(a.sizes);
    check_sizes(options.sizes, module.symbols, a.path);
  }
  Module module;
  compile::Options options;
};

Explained of_terms(const GraphArguments& a, bool page) {
  auto [module, options] = Terms(a);
  options.tuning = compile::usual_tuning_cache(false);
  options.rules.texts = true;
  const auto compiled = compile::compile(module, options);
  if (!compiled) throw Error(fmt::format("{}: {}", a.path, compiled.error()));
  return {compile::explain(*compiled, options), page ? to_html(module) : ""};
}

Explained of_graph(const GraphArguments& a, bool page) {
  ProgramGraph program(a);
  return {luminal::explain(program.graph(), program.options), page ? program.graph().to_html() : ""};
}

const char* choice_word(KernelExplanation::Choice choice) {
  switch (choice) {
  case KernelExplanation::Choice::tuned: return "tuned";
  case KernelExplanation::Choice::given: return "given";
  case KernelExplanation::Choice::custom: return "custom";
  case KernelExplanation::Choice::usual: break;
  }
  return "default";
}

Json json_of(const KernelExplanation& k) {
  return {{"name", k.name},
          {"computes", k.computes},
          {"weights", k.about},
          {"lines", k.lines},
          {"steps", k.steps},
          {"load_steps", k.load_steps},
          {"sizes", k.sizes},
          {"stages", k.stages},
          {"schedule", k.schedule},
          {"names", k.names},
          {"choice", choice_word(k.choice)},
          {"estimate_s", k.estimate},
          {"limit_memory_s", k.by_memory},
          {"limit_arithmetic_s", k.by_arithmetic},
          {"measured_s", k.measured},
          {"default_s", k.usual},
          {"tried", k.tried},
          {"rejected", k.rejected},
          {"note", k.note},
          {"untiled", k.untiled}};
}

Json json_of(const RegionExplanation& r) {
  Json plans = Json::array();
  for (const RegionPlanExplanation& plan : r.plans)
    plans.push_back({{"name", plan.name},
                     {"estimate_s", plan.estimate},
                     {"kernels", plan.kernels},
                     {"written", plan.written},
                     {"taken", plan.taken}});
  return {{"nodes", r.nodes},
          {"instances", r.instances},
          {"lines", r.lines},
          {"rules", r.rules},
          {"before", r.before},
          {"after", r.after},
          {"written_s", r.written},
          {"estimate_s", r.estimate},
          {"stored_bytes", r.stored},
          {"kernels", r.kernels},
          {"outcome", r.outcome.empty() ? "replaced" : r.outcome},
          {"limit", r.limit},
          {"plans", plans},
          {"measured", r.measured},
          {"approximate", r.approximate}};
}

Ablation ablation_of(const GraphArguments& a) {
  if (!a.terms()) {
    ProgramGraph program(a);
    return ablate(program.graph(), program.options);
  }
  const auto [module, options] = Terms(a);
  const auto worth = compile::ablate(module, options);
  if (!worth) throw Error(fmt::format("{}: {}", a.path, worth.error()));
  return *worth;
}

/// What a step takes by estimate without each rule.
int print_ablation(const ExplainArguments& a) {
  const Ablation worth = ablation_of(a.graph);
  if (a.json) {
    Json out{{"path", a.graph.path},
             {"written_s", worth.written},
             {"estimate_s", worth.estimate},
             {"rules", Json::array()}};
    for (const RuleWorth& rule : worth.rules)
      out["rules"].push_back({{"rule", rule.rule}, {"estimate_s", rule.estimate}, {"regions", rule.regions}});
    std::cout << json_text(out) << std::endl;
    return std::cout ? ok : failed;
  }
  std::string text = fmt::format("{:<24}{:>12}{:>10}{:>9}\n", "rules", "estimate", "longer by", "regions");
  text += fmt::format("{:<24}{:>12}\n", "all", human_time(worth.estimate));
  for (const RuleWorth& rule : worth.rules)
    text += fmt::format("{:<24}{:>12}{:>9.2f}x{:>9}\n", "without " + rule.rule, human_time(rule.estimate),
                        worth.estimate > 0 ? rule.estimate / worth.estimate : 1.0, rule.regions);
  text += fmt::format("{:<24}{:>12}\n", "none", human_time(worth.written));
  std::cout << text << std::flush;
  return std::cout ? ok : failed;
}

int explain_file(const ExplainArguments& a) {
  if (a.ablate) return print_ablation(a);
  const bool page = !a.page.empty();
  const auto [all, graph] = a.graph.terms() ? of_terms(a.graph, page) : of_graph(a.graph, page);
  const Explanation shown = a.kernel.empty() ? all : filtered(all, a.kernel);
  if (shown.kernels.empty() && shown.regions.empty() && !a.kernel.empty()) {
    std::string names;
    for (const KernelExplanation& k : all.kernels) names += (names.empty() ? "" : ", ") + k.name;
    throw Error(fmt::format("{}: no kernel has '{}' in its name, results, weights or lines; there is {}",
                            a.graph.path, a.kernel, names.empty() ? "none" : names));
  }
  if (page) {
    const std::string text = compile::to_html(shown, "luminal explain " + a.graph.path, graph);
    if (auto written = write_file(a.page, std::string_view(text)); !written) throw Error(written.error());
  }
  if (a.json) {
    Json out{{"path", a.graph.path}, {"kernels", Json::array()}, {"regions", Json::array()}};
    for (const KernelExplanation& k : shown.kernels) out["kernels"].push_back(json_of(k));
    for (const RegionExplanation& r : shown.regions) out["regions"].push_back(json_of(r));
    std::cout << json_text(out) << std::endl;
  } else
    std::cout << to_string(shown, stdout_colour()) << std::flush;
  return std::cout ? ok : failed;
}

} // namespace

void add_explain(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<ExplainArguments>();
  auto* verb = app.add_subcommand(
      "explain", "Why a program runs as it does: its kernels, schedules, limits, and what the rules did");
  verb->footer("FILE:KERNEL is short for --kernel KERNEL. luminal tune FILE --kernel KERNEL searches a "
               "better schedule\n"
               "for it, luminal eval FILE.lum --schedule KERNEL=FILE runs it with one of your own.");
  add_graph_options(*verb, a->graph, "The size of a dynamic dimension that it is explained for: n=128");
  verb->add_option("--kernel", a->kernel,
                   "Only kernels with this name, or with this in their results, weights or lines");
  verb->add_option("--page", a->page,
                   "Write one HTML page, too: kernels, limits, terms, schedules, the graph");
  verb->add_flag("--ablate", a->ablate,
                 "What a step takes by estimate without each of the rules that applied")
      ->excludes("--kernel")
      ->excludes("--page");
  verb->add_flag("--json", a->json, "One JSON object; keys in docs/program.md");
  verb->callback([a, verb, &exit_code] {
    split_kernel(*a);
    refuse_other_options(*verb, a->graph);
    exit_code = explain_file(*a);
  });
}

} // namespace luminal::cli
