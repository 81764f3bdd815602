// cli/tune.cpp -- `luminal tune MODEL|FILE.lum`: measures until the budget is spent; what it finds
// is what every later run uses.
#include "base/clock.h"
#include "base/file.h"
#include "base/print.h"
#include "base/text.h"
#include "cli/search_program.h"
#include "compile/search.h"
#include <fmt/format.h>
#include <iostream>

namespace luminal::cli {
namespace {

struct TuneArguments {
  GraphArguments graph;
  std::string mode = "budget", filter, plan, log;
  double budget = 60;
  bool json = false, strict = false, report = false;
};

std::string gain(double before, double after) {
  return before > 0 && after > 0 ? fmt::format("{:.2f}x", before / after) : std::string();
}

/// Where the search stands, on stderr: some lines that are drawn again on a terminal, a plain line
/// every few seconds elsewhere.
class TuneDisplay {
public:
  ~TuneDisplay() { clear(); }
  void show(const SearchProgress& p) {
    const double time = seconds_now();
    const bool live = stderr_is_terminal();
    if (time - last_ < (live ? 0.1 : 3.0) && p.kernel == kernel_) return;
    if (!live && time - last_ < 1.0) return;
    last_ = time;
    kernel_ = p.kernel;
    std::vector<std::string> lines = live ? tall(p) : std::vector<std::string>{flat(p)};
    clear();
    for (const std::string& line : lines) print_stderr("{}\n", line);
    std::fflush(stderr);
    if (live) drawn_ = int(lines.size());
  }
  void clear() {
    if (drawn_ > 0) print_stderr("\033[{}A\033[J", drawn_);
    drawn_ = 0;
  }

private:
  static std::string head(const SearchProgress& p) {
    switch (p.phase) {
    case SearchProgress::Phase::regions:
      return fmt::format("measuring plan {}/{} of regions  {}", p.number, p.kernels, p.kernel);
    case SearchProgress::Phase::measuring:
      return fmt::format("measuring {}/{}  {}", p.number, p.kernels, p.kernel);
    case SearchProgress::Phase::tuning: return fmt::format("tuning {}/{}  {}", p.number, p.kernels, p.kernel);
    case SearchProgress::Phase::confirming: return "confirming the whole program";
    }
    return "";
  }
  static std::string kernel_line(const SearchProgress& p) {
    if (p.phase != SearchProgress::Phase::tuning) return "";
    std::string line = p.usual > 0 ? fmt::format("default {}", human_time(p.usual)) : "default ...";
    if (p.best > 0) line += fmt::format("  best {}  {}", human_time(p.best), gain(p.usual, p.best));
    return line + fmt::format("  {} tried", p.tried);
  }
  static std::string rejected_line(const SearchProgress& p) {
    std::string line;
    for (const auto& [cause, count] : p.rejected)
      line += fmt::format("{}{} {}", line.empty() ? "" : ", ", count, cause);
    return line;
  }
  static std::string program_line(const SearchProgress& p) {
    if (!(p.program_before > 0)) return "";
    if (!(p.program > 0)) return fmt::format("kernels of a step {} so far", human_time(p.program_before));
    return fmt::format("kernels of a step {} -> {}", human_time(p.program_before), human_time(p.program));
  }
  static std::string left_text(const SearchProgress& p) {
    return p.left >= 0 ? fmt::format("{:.0f} s left", p.left) : std::string("until nothing is left to try");
  }
  static std::string flat(const SearchProgress& p) {
    std::string line = "tune: " + head(p);
    for (const std::string& part : {kernel_line(p), program_line(p), rejected_line(p), left_text(p)})
      if (!part.empty()) line += "; " + part;
    return line;
  }
  static std::vector<std::string> tall(const SearchProgress& p) {
    const std::string bold = colour() ? "\033[1m" : "", plain = colour() ? "\033[0m" : "";
    std::vector<std::string> lines{bold + head(p).substr(0, 100) + plain};
    if (const std::string kernel = kernel_line(p); !kernel.empty()) lines.push_back("  " + kernel);
    if (const std::string program = program_line(p); !program.empty()) lines.push_back("  " + program);
    if (const std::string rejected = rejected_line(p); !rejected.empty())
      lines.push_back("  rejected: " + rejected);
    lines.push_back(fmt::format("  {}   (Ctrl-C keeps the best)", left_text(p)));
    return lines;
  }

  double last_ = 0;
  int drawn_ = 0;
  std::string kernel_ = "-";
};

SearchOptions search_options(const TuneArguments& a, TuneDisplay& display) {
  SearchOptions search;
  search.mode = a.mode == "optimal" ? SearchMode::optimal : SearchMode::budget;
  search.seconds = a.budget;
  search.filter = a.filter;
  search.log.write = a.log;
  if (!a.log.empty()) search.log.about = about_program(a.graph);
  search.stop = [] { return interrupt_requested(); };
  search.progress = [&display](const SearchProgress& p) { display.show(p); };
  return search;
}

int tune(const TuneArguments& a) {
  catch_interrupts();
  SearchedProgram outcome;
  {
    TuneDisplay display;
    outcome = search_program(a.graph, search_options(a, display), a.strict);
  }
  if (!a.plan.empty())
    if (auto written = write_file(a.plan, std::string_view(outcome.plan)); !written)
      throw Error(written.error());
  const SearchSummary& s = outcome.summary;
  const auto& cache = outcome.cache;
  const auto table = [&] {
    std::string text;
    for (const ChangedRegion& r : s.regions)
      text += fmt::format("region of {} terms{}: other kernels, plan {}; a step {} -> {} {}\n", r.nodes,
                          r.instances > 1 ? fmt::format(", {} times", r.instances) : "", r.plan,
                          human_time(r.before), human_time(r.after), gain(r.before, r.after));
    if (s.changed.empty()) return text + "no kernel has a new schedule: what was there is as fast\n";
    text += fmt::format("{:<8}{:>8}{:>12}{:>12}{:>8}{:>9}  {}\n", "kernel", "launches", "before", "after",
                        "gain", "of limit", "computes");
    for (const ChangedKernel& k : s.changed)
      text += fmt::format("{:<8}{:>8.4g}{:>12}{:>12}{:>8}{:>9}  {}\n", k.name, k.launches,
                          human_time(k.before), human_time(k.after), gain(k.before, k.after),
                          k.limit_fraction > 0 ? fmt::format("{:.0f} %", 100 * k.limit_fraction) : "",
                          k.about.empty() ? k.computes : fmt::format("{} ({})", k.computes, k.about));
    if (s.program_before > 0)
      text += fmt::format("{:<8}{:>8}{:>12}{:>12}{:>8}\n", "a step", "", human_time(s.program_before),
                          human_time(s.program_after), gain(s.program_before, s.program_after));
    return text;
  };
  const std::string lost = cache ? cache->memory_reason() : "there is no folder for the cache";
  const std::string path = lost.empty() ? cache->path() : "";
  if (a.json) {
    Json out{{"path", a.graph.path},
             {"kernels", s.kernels},
             {"searched", s.searched},
             {"improved", s.improved},
             {"tried", s.tried},
             {"rejected", Json::object()},
             {"mismatches", s.mismatches},
             {"kernels_before_s", s.kernels_before},
             {"kernels_after_s", s.kernels_after},
             {"program_before_s", s.program_before},
             {"program_after_s", s.program_after},
             {"complete", s.complete},
             {"interrupted", interrupt_requested()},
             {"seconds", s.seconds},
             {"notes", s.notes},
             {"blamed", Json::array()},
             {"workers", s.workers},
             {"region_plans", s.region_plans},
             {"regions", Json::array()},
             {"changed", Json::array()},
             {"cache", path}};
    for (const ChangedKernel& k : s.changed)
      out["changed"].push_back({{"name", k.name},
                                {"computes", k.computes},
                                {"about", k.about},
                                {"launches", k.launches},
                                {"before_s", k.before},
                                {"after_s", k.after},
                                {"limit_fraction", k.limit_fraction}});
    for (const BlamedRule& rule : s.blamed)
      out["blamed"].push_back({{"name", rule.name}, {"cause", rule.cause}, {"reproducer", rule.reproducer}});
    for (const ChangedRegion& r : s.regions)
      out["regions"].push_back({{"nodes", r.nodes},
                                {"instances", r.instances},
                                {"lines", r.lines},
                                {"plan", r.plan},
                                {"before_s", r.before},
                                {"after_s", r.after}});
    if (a.report) out["report"] = outcome.report;
    for (const auto& [cause, count] : s.rejected) out["rejected"][cause] = count;
    std::cout << json_text(out) << std::endl;
  } else
    std::cout << (a.report ? outcome.report : "") << table() << std::flush;
  print_stderr("{}", compile::to_string(s));
  print_stderr("{}\n", path.empty() ? "nothing is kept: " + lost : "kept in " + path);
  if (interrupt_requested()) return interrupted;
  return std::cout ? ok : failed;
}

} // namespace

void add_tune(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<TuneArguments>();
  auto* verb =
      app.add_subcommand("tune", "Search faster kernels for a model, or for a module of terms (.lum)");
  verb->footer(
      "What is found is checked, kept in the tuning cache and used by every later run on this machine.\n"
      "Ctrl-C ends early and keeps the best so far.");
  add_graph_options(*verb, a->graph,
                    "Tune for this size of a dynamic dimension: n=128 (several times for several)");
  verb->add_option("--budget", a->budget, "Seconds")->check(between(0.1, 1e7))->capture_default_str();
  verb->add_option("--mode", a->mode, "budget, or optimal: until nothing near the best is left to try")
      ->check(one_of({"budget", "optimal"}))
      ->capture_default_str();
  verb->add_option("--kernel", a->filter, "Only kernels whose name, results or weights have this in them");
  verb->add_option("--export-plan", a->plan,
                   "Write what is found to this file, for --plan on another machine of the same kind");
  verb->add_option("--log", a->log, "Write all that is measured to this file, for luminal replay");
  verb->add_flag("--strict", a->strict, "A schedule that gives wrong results is a failure");
  verb->add_flag("--report", a->report, "The whole report, too: plan, schedule of every kernel");
  verb->add_flag("--json", a->json, "One JSON object instead of the table; keys in docs/program.md");
  verb->callback([a, verb, &exit_code] {
    refuse_other_options(*verb, a->graph);
    exit_code = tune(*a);
  });
}

} // namespace luminal::cli
