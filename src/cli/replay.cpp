// cli/replay.cpp -- `luminal replay LOG`: the search that wrote the log again, without measuring; the
// plan that it found.
#include "base/file.h"
#include "base/print.h"
#include "cli/search_program.h"
#include "compile/search.h"
#include "luminal/rules.h"
#include "search/measure_log.h"
#include <fmt/format.h>
#include <iostream>

namespace luminal::cli {
namespace {

struct ReplayArguments {
  std::string log, model, plan;
  bool json = false, report = false;
};

int replay(const ReplayArguments& a) {
  end_on_interrupt();
  GraphArguments graph;
  {
    auto read = search::MeasureLog::read(a.log);
    if (!read) throw Error(read.error());
    RuleChoice rules;
    try {
      graph = program_about((*read)->head().about, rules);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", a.log, error.what()));
    }
    choose_rules(std::move(rules));
  }
  if (!a.model.empty()) graph.path = a.model;
  SearchOptions search;
  search.log.replay = a.log;
  const SearchedProgram found = search_program(graph, search, false);
  if (!a.plan.empty())
    if (auto written = write_file(a.plan, std::string_view(found.plan)); !written)
      throw Error(written.error());
  const SearchSummary& s = found.summary;
  if (a.json) {
    Json out{{"log", a.log},
             {"path", graph.path},
             {"kernels", s.kernels},
             {"searched", s.searched},
             {"improved", s.improved},
             {"tried", s.tried},
             {"program_before_s", s.program_before},
             {"program_after_s", s.program_after},
             {"plan", found.plan}};
    if (a.report) out["report"] = found.report;
    std::cout << json_text(out) << std::endl;
  } else
    std::cout << (a.report ? found.report : "") << (a.plan.empty() ? found.plan : "") << std::flush;
  print_stderr("{}nothing was measured, and nothing is kept\n", compile::to_string(s));
  return std::cout ? ok : failed;
}

} // namespace

void add_replay(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<ReplayArguments>();
  auto* verb = app.add_subcommand("replay", "The plan of a search from the log of what it measured");
  verb->footer("The log is of luminal tune --log. The same build, machine and model give the same plan, byte "
               "for byte.");
  verb->add_option("log", a->log, "The log")->required();
  verb->add_option("model", a->model, "The model, where it lies in another place now");
  verb->add_option("--export-plan", a->plan, "Write the plan to this file instead of stdout");
  verb->add_flag("--report", a->report, "The whole report, too: plan, schedule of every kernel");
  verb->add_flag("--json", a->json,
                 "One JSON object: log, path, kernels, searched, improved, tried, program_before_s, "
                 "program_after_s, plan, report");
  verb->callback([a, &exit_code] { exit_code = replay(*a); });
}

} // namespace luminal::cli
