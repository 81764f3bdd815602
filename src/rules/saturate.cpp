// rules/saturate.cpp -- phases and limits.
#include "rules/saturate.h"
#include "luminal/error.h"
#include <chrono>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal::rules {
namespace {

using egraph::RulesetId;
using egraph::StopReason;

using Names = std::vector<const char*>;
const Names algebra_sets{"facts", "scalar", "factor"}, exchange_sets{"facts", "scalar", "factor", "exchange"},
    family_sets{"facts", "scalar", "family"}, cascade_sets{"facts", "scalar", "cascade", "tuple"},
    tile_sets{"facts", "tiles"};
constexpr int most_iterations = 60, most_exchanges = 3, most_tilings = 24;

class Saturation {
public:
  Saturation(RegionTerms& terms, const SaturateOptions& options)
      : t_(terms), graph_(terms.graph()), options_(options), start_(std::chrono::steady_clock::now()) {}

  SaturateReport run() {
    const std::vector<egraph::RuleStats> before(graph_.applied().begin(), graph_.applied().end());
    phases();
    if (stopped()) find_facts(t_);
    report_.rows = graph_.total_size();
    report_.seconds = seconds();
    const std::span<const egraph::RuleStats> after = graph_.applied();
    for (egraph::RuleId id = 0; id < graph_.rule_count(); ++id) {
      const egraph::RuleStats &s = after[id], &b = before[id];
      if (s.matches == b.matches) continue;
      report_.rules.push_back(
          {graph_.rule(id).name, s.matches - b.matches, s.new_rows - b.new_rows, s.unions - b.unions});
    }
    return std::move(report_);
  }

private:
  /// Sums exchange in the first round only: it is the reordering of a product of matrices. (schedule_text()
  /// says the same.)
  void phases() {
    algebra();
    for (int k = 0; k < most_exchanges && repeat("exchange", exchange_sets, 1); ++k) algebra();
    for (int round = 0; round < options_.rounds && !stopped(); ++round) {
      bool changed = algebra();
      changed |= repeat("families", family_sets, most_iterations);
      changed |= repeat("cascades", cascade_sets, most_iterations);
      changed |= repeat("clean", {"clean"}, 1);
      if (!changed) break;
    }
    if (repeat("tiles", tile_sets, most_tilings)) repeat("clean", {"clean"}, 1);
    repeat("facts", {"facts"}, most_iterations);
  }
  bool algebra() { return repeat("algebra", algebra_sets, most_iterations); }

  bool stopped() const { return report_.stop != StopReason::none; }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  std::vector<RulesetId> ids(const Names& names) {
    std::vector<RulesetId> out;
    for (const char* name : names) out.push_back(t_.program().ruleset(name));
    return out;
  }
  /// Whether anything changed.
  bool repeat(const char* phase, const Names& names, int most) {
    const std::vector<RulesetId> rulesets = ids(names);
    bool any = false;
    for (int k = 0; k < most && !stopped(); ++k) {
      egraph::RunOptions run;
      run.limits.rows = options_.rows;
      run.limits.bytes = options_.bytes;
      run.limits.steps = options_.steps;
      if (options_.seconds > 0) run.limits.seconds = std::max(1e-9, options_.seconds - seconds());
      const egraph::RunReport report = graph_.run(rulesets, run);
      if (report.stop == StopReason::panic) throw Error("rules", report.message);
      ++report_.iterations;
      report_.stop = report.stop;
      report_.phase = stopped() ? phase : "";
      if (!report.changed) break;
      any = true;
    }
    return any;
  }

  RegionTerms& t_;
  egraph::EGraph& graph_;
  const SaturateOptions& options_;
  std::chrono::steady_clock::time_point start_;
  SaturateReport report_;
};

} // namespace

std::string schedule_text(int rounds) {
  std::string out;
  const std::pair<const char*, const Names*> combined[] = {{"algebra", &algebra_sets},
                                                           {"exchanges", &exchange_sets},
                                                           {"families", &family_sets},
                                                           {"cascades", &cascade_sets},
                                                           {"tilings", &tile_sets}};
  for (const auto& [name, sets] : combined)
    out += fmt::format("(unstable-combined-ruleset {} {})\n", name, fmt::join(*sets, " "));
  return out +
         fmt::format("(run-schedule\n"
                     "  (repeat {0} algebra)\n"
                     "  (repeat {1} (seq exchanges (repeat {0} algebra)))\n"
                     "  (repeat {2} (seq (repeat {0} algebra) (repeat {0} families) (repeat {0} cascades) "
                     "clean))\n"
                     "  (seq (repeat {3} tilings) clean)\n"
                     "  (repeat {0} facts))\n",
                     most_iterations, most_exchanges, rounds, most_tilings);
}

SaturateReport saturate(RegionTerms& terms, const SaturateOptions& options) {
  return Saturation(terms, options).run();
}

} // namespace luminal::rules
