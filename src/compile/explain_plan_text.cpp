// compile/explain_plan_text.cpp -- an explanation for people, and the part of it that a word asks for.
#include "base/text.h"
#include "luminal/explain.h"
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal {
namespace {

bool has(const std::string& text, const std::string& word) { return text.find(word) != std::string::npos; }
bool has(const std::vector<std::string>& texts, const std::string& word) {
  return std::ranges::any_of(texts, [&](const std::string& text) { return has(text, word); });
}

/// A head in a column, and a text whose further lines stand below its first one.
std::string row(const char* head, std::string_view text) {
  std::string out = fmt::format("  {:<10}", head);
  while (text.ends_with('\n')) text.remove_suffix(1);
  for (const char c : text) {
    out += c;
    if (c == '\n') out += std::string(12, ' ');
  }
  return out + '\n';
}

std::string count(int number, const char* what) {
  return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
}

std::string launches_text(const KernelExplanation& k) {
  std::string text;
  if (k.steps > 0)
    text = fmt::format("{} in a step", k.steps == 1 ? "once" : fmt::format("{} times", k.steps));
  if (k.load_steps > 0)
    text += fmt::format("{}{} when it is loaded", text.empty() ? "" : ", ",
                        k.load_steps == 1 ? "once" : fmt::format("{} times", k.load_steps));
  return text;
}

std::string choice_text(const KernelExplanation& k) {
  switch (k.choice) {
  case KernelExplanation::Choice::custom: return "none: the program brings this kernel";
  case KernelExplanation::Choice::given: return "given by the caller:";
  case KernelExplanation::Choice::tuned: return "found by measuring:";
  case KernelExplanation::Choice::usual: break;
  }
  return "the default one:";
}

std::string time_text(const KernelExplanation& k) {
  std::string text;
  if (k.measured > 0) text = human_time(k.measured) + " measured";
  if (k.usual > 0 && k.choice == KernelExplanation::Choice::tuned)
    text += fmt::format(" (default schedule {})", human_time(k.usual));
  if (k.estimate > 0)
    text += fmt::format("{}{} by estimate", text.empty() ? "" : ", ", human_time(k.estimate));
  if (!k.sizes.empty()) text += " at " + k.sizes;
  return text;
}

/// The greater of the two limits, and how near the kernel is.
std::string limit_text(const KernelExplanation& k) {
  const double limit = std::max(k.by_memory, k.by_arithmetic);
  if (limit <= 0) return "not known: luminal devices measures this machine";
  const bool memory = k.by_memory >= k.by_arithmetic;
  std::string text = fmt::format("{} by its {}", human_time(limit), memory ? "bytes" : "operations");
  if (const double other = std::min(k.by_memory, k.by_arithmetic); other > 0)
    text += fmt::format(" ({} by its {})", human_time(other), memory ? "operations" : "bytes");
  const double time = k.measured > 0 ? k.measured : k.estimate;
  if (time > 0) text += fmt::format(": {:.0f} % of the limit", 100 * limit / time);
  if (time > 0 && time < limit) text += "; its values lie in a cache";
  return text;
}

std::string tried_text(const KernelExplanation& k) {
  std::string text = count(k.tried, "schedule");
  for (const auto& [cause, number] : k.rejected) text += fmt::format(", {} {}", number, cause);
  return text;
}

std::string bold(const std::string& text, bool colour) {
  return colour ? "\033[1m" + text + "\033[0m" : text;
}

std::string kernel_text(const KernelExplanation& k, bool colour) {
  std::string out = bold(fmt::format("kernel {}: {}", k.name, k.computes), colour) + '\n';
  if (!k.lines.empty()) out += row("asked for", fmt::format("{}", fmt::join(k.lines, ", ")));
  if (!k.about.empty()) out += row("reads", k.about);
  if (const std::string launches = launches_text(k); !launches.empty()) out += row("runs", launches);
  if (!k.stages.empty()) out += row("computes", k.stages);
  out += row("schedule", choice_text(k));
  if (k.choice != KernelExplanation::Choice::custom) out += row("", k.schedule);
  if (!k.names.empty()) out += row("where", k.names);
  if (const std::string time = time_text(k); !time.empty()) out += row("takes", time);
  if (k.choice != KernelExplanation::Choice::custom) out += row("limit", limit_text(k));
  if (k.tried > 0) out += row("tried", tried_text(k));
  if (!k.untiled.empty()) out += row("slow", "no tiled schedule: " + k.untiled);
  if (!k.note.empty()) out += row("note", k.note);
  return out;
}

std::string region_text(const RegionExplanation& r, const Explanation& all, bool colour) {
  std::string out = bold(fmt::format("region of {} terms{}", r.nodes,
                                     r.instances > 1 ? fmt::format(", {} times", r.instances) : ""),
                         colour) +
                    '\n';
  if (!r.lines.empty()) out += row("asked for", fmt::format("{}", fmt::join(r.lines, ", ")));
  out += row("rules", fmt::format("{}", fmt::join(r.rules, " ")));
  if (!r.limit.empty()) out += row("limit", r.limit);
  if (r.outcome.empty())
    out +=
        row("became", fmt::format("{}, which store {} for each other; {} by estimate, {} as it was written",
                                  count(int(r.kernels), "kernel"), human_bytes(int64_t(r.stored)),
                                  human_time(r.estimate), human_time(r.written)));
  else
    out += row("stays", r.outcome);
  std::string plans;
  for (const RegionPlanExplanation& plan : r.plans)
    plans += fmt::format("{}: {}, {} by estimate{}{}\n", plan.name, count(int(plan.kernels), "kernel"),
                         human_time(plan.estimate), plan.written ? ", the terms as they came" : "",
                         !plan.taken  ? ""
                         : r.measured ? "; taken: it won by measuring"
                                      : "; taken by estimate");
  if (!plans.empty()) out += row("plans", plans);
  if (r.approximate)
    out += row("error", fmt::format("approximate: results of the program are off by {:.2g} of their greatest "
                                    "elements, {:.2g} is allowed",
                                    all.error, all.max_error));
  if (!r.before.empty()) out += row("before", r.before);
  if (!r.after.empty()) out += row("after", r.after);
  return out;
}

} // namespace

Explanation filtered(const Explanation& explanation, const std::string& word) {
  Explanation out;
  out.max_error = explanation.max_error;
  out.error = explanation.error;
  for (const KernelExplanation& k : explanation.kernels)
    if (k.name == word || has(k.computes, word) || has(k.about, word) || has(k.lines, word))
      out.kernels.push_back(k);
  for (const RegionExplanation& r : explanation.regions)
    if (has(r.lines, word)) out.regions.push_back(r);
  return out;
}

std::string to_string(const Explanation& explanation, bool colour) {
  std::string out;
  for (const KernelExplanation& k : explanation.kernels) out += kernel_text(k, colour) + '\n';
  for (const RegionExplanation& r : explanation.regions) out += region_text(r, explanation, colour) + '\n';
  if (!out.empty()) out.pop_back();
  return out;
}

} // namespace luminal
