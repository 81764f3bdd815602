// compile/region_report.cpp -- what is told of a region, as text.
#include "compile/rule_options.h"
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal::compile {

std::string to_string(const RegionReport& r) {
  std::string out = fmt::format("region of {} nodes", r.nodes);
  if (r.instances > 1) out += fmt::format(", {} times", r.instances);
  if (r.rows > 0) out += fmt::format(": {} rows", r.rows);
  if (r.cached)
    out += ", known";
  else
    out += fmt::format(", rules {:.1f} ms, extraction {:.1f} ms, estimates {:.1f} ms", r.saturate_s * 1e3,
                       r.extract_s * 1e3, r.judge_s * 1e3);
  if (r.outcome.empty())
    out += fmt::format(": {} kernels, {:.3g} MB stored, {:.1f} us in place of {:.1f} us by estimate{}\n",
                       r.kernels, r.stored_bytes / 1e6, r.estimate_s * 1e6, r.written_s * 1e6,
                       r.measured       ? fmt::format(", plan {} by measuring", r.plans[r.taken].name)
                       : r.fewest_bytes ? ", for its bytes"
                                        : "");
  else
    out += fmt::format(": as it is, {}\n", r.outcome);
  if (!r.limit.empty()) out += fmt::format("  the rules ended at a limit: {}\n", r.limit);
  if (!r.rules.empty()) out += fmt::format("  {}\n", fmt::join(r.rules, " "));
  return out;
}

std::string name_of(const RegionReport& report) { return fmt::format("region of {} terms", report.nodes); }

std::string plan_text(const std::string& name) { return "plan " + name + "\n"; }

} // namespace luminal::compile
