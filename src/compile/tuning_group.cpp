// compile/tuning_group.cpp -- what a search of a plan tells: reports of kernels, the summary.
#include "compile/tuning_group.h"
#include "base/text.h"
#include <fmt/format.h>

namespace luminal::compile {
namespace {

std::string sizes_text(const PlannedKernel& kernel, const std::map<std::string, int64_t>& sizes) {
  std::string text;
  for (const auto& [own, given] : kernel.dimensions)
    text +=
        fmt::format("{}{}={}", text.empty() ? "" : " ", given.name(), sizes.at(std::string(given.name())));
  return text;
}

} // namespace

void fill_report(KernelReport& report, const TuningGroup& group, const PlannedKernel& kernel) {
  report.seconds = group.after;
  report.usual_seconds = group.searched ? group.tuned.usual_seconds : 0;
  report.limit_fraction = group.after > 0 ? group.limit / group.after : 0;
  report.tried = group.tuned.tried;
  report.rejected = group.tuned.rejected;
  if (group.improved)
    for (const search::TunedSize& size : group.tuned.sizes)
      if (size.usual > 0)
        report.elsewhere +=
            fmt::format("{}{} {} (default {})", report.elsewhere.empty() ? "" : ", ",
                        sizes_text(kernel, size.symbols), human_time(size.seconds), human_time(size.usual));
  if (!group.note.empty()) report.note = group.note;
}

ChangedKernel changed(const TuningGroup& group, const PlannedKernel& kernel) {
  return {.name = kernel.report.name,
          .computes = kernel.report.computes,
          .about = kernel.report.about,
          .launches = group.launches,
          .before = group.before,
          .after = group.after,
          .limit_fraction = group.after > 0 ? group.limit / group.after : 0};
}

double search_seconds() { return search::Clock::steady().now(); }
void leave_out(double seconds) { search::Clock::leave_out(seconds); }

std::string to_string(const SearchSummary& s) {
  std::string text = fmt::format(
      "search: {} of {} kernels tuned, {} improved, {} schedules tried in {:.1f} s{}\n", s.searched,
      s.kernels, s.improved, s.tried, s.seconds, s.complete ? "" : " (there was more to try)");
  if (s.region_plans > 0)
    text += fmt::format("  {} other plan{} of regions measured, {} taken\n", s.region_plans,
                        s.region_plans == 1 ? "" : "s", s.regions.size());
  for (const ChangedRegion& r : s.regions)
    text += fmt::format("  region of {} terms{}: plan {}, a step {} -> {}\n", r.nodes,
                        r.instances > 1 ? fmt::format(", {} times", r.instances) : "", r.plan,
                        human_time(r.before), human_time(r.after));
  for (const auto& [cause, count] : s.rejected) text += fmt::format("  {} {}\n", count, cause);
  if (s.kernels_before > 0)
    text +=
        fmt::format("  kernels alone {} -> {}\n", human_time(s.kernels_before), human_time(s.kernels_after));
  if (s.program_before > 0)
    text += fmt::format("  a step {} -> {}\n", human_time(s.program_before), human_time(s.program_after));
  if (s.workers == 1)
    text += "  one worker is faster than several: launches of a step run on one\n";
  else if (s.workers > 1)
    text += fmt::format("  {0} workers are faster than all: launches of a step run on {0}\n", s.workers);
  text += fmt::format("  mismatches {}\n", s.mismatches);
  for (const BlamedRule& rule : s.blamed)
    text += fmt::format("  the rule {} is not used any more: {}{}\n", rule.name, rule.cause,
                        rule.reproducer.empty() ? "" : "; reproducer in " + rule.reproducer);
  for (const std::string& note : s.notes) text += "  " + note + "\n";
  return text;
}

} // namespace luminal::compile
