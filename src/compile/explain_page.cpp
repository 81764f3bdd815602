// compile/explain_page.cpp -- an explanation as one page: drawings in SVG, texts that open.
#include "compile/explain_page.h"
#include "base/html.h"
#include "base/text.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal::compile {
namespace {

constexpr const char* style = R"(<style>
:root { --ink: #1c2430; --soft: #5d6878; --line: #d5dbe3; --box: #f6f8fa; --hot: #c2410c; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); margin: 2em auto; max-width: 74em; padding: 0 1em; }
h1 { font-size: 1.5em; } h2 { font-size: 1.2em; margin-top: 2em; }
table { border-collapse: collapse; width: 100%; font-size: 13px; }
th, td { text-align: left; padding: .3em .7em; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 600; } td.n, th.n { text-align: right; white-space: nowrap; }
pre { background: var(--box); border: 1px solid var(--line); border-radius: 4px; padding: .7em; overflow: auto;
  font: 12px/1.45 ui-monospace, monospace; margin: .4em 0; max-height: 32em; }
details { margin: .3em 0; } summary { cursor: pointer; }
.sides { display: grid; grid-template-columns: 1fr 1fr; gap: 1em; } .sides > * { min-width: 0; }
.soft { color: var(--soft); }
iframe { width: 100%; height: 34em; border: 1px solid var(--line); border-radius: 4px; }
svg text { font: 12px system-ui, sans-serif; fill: var(--ink); } svg .soft { fill: var(--soft); }
</style>
)";

double time_of(const KernelExplanation& k) { return k.measured > 0 ? k.measured : k.estimate; }
double limit_of(const KernelExplanation& k) { return std::max(k.by_memory, k.by_arithmetic); }

/// Where a number lies on an axis of powers.
struct LogAxis {
  double low, high, begin, end; // exponents of ten, pixels
  double at(double value) const {
    const double exponent = std::clamp(std::log10(std::max(value, 1e-30)), low, high);
    return begin + (end - begin) * (exponent - low) / (high - low);
  }
};
LogAxis axis_for(double least, double most, double begin, double end) {
  const double low = std::floor(std::log10(std::max(least, 1e-12))), high = std::ceil(std::log10(most));
  return {low, std::max(high, low + 1), begin, end};
}

std::string text_at(double x, double y, std::string_view anchor, std::string_view text, bool soft = false) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor,
                     soft ? " class=\"soft\"" : "", html_escape(text));
}
std::string line_at(double x1, double y1, double x2, double y2, std::string_view colour, double width = 1) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\" stroke-width=\"{}\"/>\n",
      x1, y1, x2, y2, colour, width);
}

/// Operations for each byte, where 1 is what the machine does of both in the same time; and operations
/// for each second, where 1 is the most that it does.
std::string roofline(const Explanation& e) {
  struct Point {
    const KernelExplanation* kernel;
    double intensity, reached;
  };
  std::vector<Point> points;
  double left = 0.1, right = 10, bottom = 0.1;
  for (const KernelExplanation& k : e.kernels) {
    if (!(k.by_memory > 0) || !(k.by_arithmetic > 0) || !(time_of(k) > 0)) continue;
    points.push_back({&k, k.by_arithmetic / k.by_memory, k.by_arithmetic / time_of(k)});
    left = std::min(left, points.back().intensity), right = std::max(right, points.back().intensity);
    bottom = std::min(bottom, points.back().reached);
  }
  if (points.empty())
    return "<p class=\"soft\">Not drawn: the limits of this machine are not known. <code>luminal "
           "devices</code> measures them.</p>\n";
  const LogAxis x = axis_for(left, right, 70, 860), y = axis_for(bottom, 10, 370, 20);
  std::string out = "<svg viewBox=\"0 0 900 420\" width=\"100%\" role=\"img\" aria-label=\"roofline\">\n";
  for (double d = x.low; d <= x.high; d++) {
    out += line_at(x.at(std::pow(10, d)), 20, x.at(std::pow(10, d)), 370, "var(--line)");
    out += text_at(x.at(std::pow(10, d)), 388, "middle", fmt::format("{:g}", std::pow(10, d)), true);
  }
  for (double d = y.low; d <= y.high; d++) {
    out += line_at(70, y.at(std::pow(10, d)), 860, y.at(std::pow(10, d)), "var(--line)");
    out += text_at(62, y.at(std::pow(10, d)) + 4, "end", fmt::format("{:g} %", 100 * std::pow(10, d)), true);
  }
  const double foot = std::max(std::pow(10, x.low), std::pow(10, y.low));
  out += line_at(x.at(foot), y.at(foot), x.at(1), y.at(1), "var(--hot)", 2);
  out += line_at(x.at(1), y.at(1), 860, y.at(1), "var(--hot)", 2);
  out += text_at(850, y.at(1) - 8, "end", "all operations that the machine can do", true);
  out += text_at(465, 410, "middle", "operations for each byte (1: as many as the memory feeds)", true);
  for (const Point& p : points) {
    const bool measured = p.kernel->measured > 0;
    out += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"5\" fill=\"{}\" stroke=\"var(--ink)\">"
                       "<title>{} {}: {}{}</title></circle>\n",
                       x.at(p.intensity), y.at(p.reached), measured ? "var(--ink)" : "white",
                       html_escape(p.kernel->name), html_escape(p.kernel->computes),
                       human_time(time_of(*p.kernel)), measured ? " measured" : " by estimate");
    out += text_at(x.at(p.intensity) + 8, y.at(p.reached) + 4, "start", p.kernel->name);
  }
  return out + "</svg>\n<p class=\"soft\">Full: measured. Hollow: by estimate. A point above the line has "
               "its values in a cache.</p>\n";
}

const char* choice_word(const KernelExplanation& k) {
  switch (k.choice) {
  case KernelExplanation::Choice::custom: return "the program's";
  case KernelExplanation::Choice::given: return "the caller's";
  case KernelExplanation::Choice::tuned: return "found by measuring";
  case KernelExplanation::Choice::usual: break;
  }
  return "default";
}

std::string table(const Explanation& e) {
  std::string out = "<table><tr><th>kernel</th><th>computes</th><th class=\"n\">in a step</th><th "
                    "class=\"n\">time</th><th class=\"n\">of the limit</th><th>limit</th><th>schedule</th>"
                    "<th>asked for</th></tr>\n";
  for (const KernelExplanation& k : e.kernels) {
    const double limit = limit_of(k), time = time_of(k);
    out += fmt::format(
        "<tr><td><a href=\"#{0}\">{0}</a></td><td>{1}</td><td class=\"n\">{2}</td><td class=\"n\">{3}</td>"
        "<td class=\"n\">{4}</td><td>{5}</td><td>{6}</td><td>{7}</td></tr>\n",
        html_escape(k.name), html_escape(k.computes), k.steps,
        time > 0 ? human_time(time) + (k.measured > 0 ? "" : " est.") : "",
        limit > 0 && time > 0 ? fmt::format("{:.0f} %", 100 * limit / time) : "",
        limit > 0 ? (k.by_memory >= k.by_arithmetic ? "bytes" : "operations") : "", choice_word(k),
        html_escape(fmt::format("{}", fmt::join(k.lines, ", "))));
  }
  return out + "</table>\n";
}

std::string kernels(const Explanation& e) {
  std::string out;
  for (const KernelExplanation& k : e.kernels) {
    out += fmt::format("<details id=\"{0}\"><summary><b>{0}</b> {1}</summary>\n", html_escape(k.name),
                       html_escape(k.computes));
    if (!k.note.empty()) out += fmt::format("<p>{}</p>\n", html_escape(k.note));
    if (!k.untiled.empty()) out += fmt::format("<p>no tiled schedule: {}</p>\n", html_escape(k.untiled));
    out += fmt::format("<div class=\"sides\"><pre>{}</pre><pre>{}{}</pre></div></details>\n",
                       html_escape(k.stages), html_escape(k.schedule),
                       k.names.empty() ? "" : "\nwhere " + html_escape(k.names));
  }
  return out;
}

std::string regions(const Explanation& e) {
  std::string out;
  for (const RegionExplanation& r : e.regions) {
    out += fmt::format("<h3>{} terms{}</h3>\n<p class=\"soft\">{}</p>\n", r.nodes,
                       r.instances > 1 ? fmt::format(", {} times", r.instances) : "",
                       html_escape(fmt::format("{}", fmt::join(r.lines, ", "))));
    out += fmt::format("<p>Rules that made something equal: {}</p>\n",
                       html_escape(fmt::format("{}", fmt::join(r.rules, " "))));
    if (r.outcome.empty())
      out += fmt::format("<p>{} kernels, which store {} for each other; {} by estimate, {} as it was "
                         "written.</p>\n",
                         r.kernels, human_bytes(uint64_t(r.stored)), human_time(r.estimate),
                         human_time(r.written));
    else
      out += fmt::format("<p>It stays as it is: {}.</p>\n", html_escape(r.outcome));
    out += fmt::format("<div class=\"sides\"><div>before<pre>{}</pre></div><div>after<pre>{}</pre></div>"
                       "</div>\n",
                       html_escape(r.before), r.after.empty() ? "the same" : html_escape(r.after));
  }
  return out.empty() ? "<p class=\"soft\">No rule applies.</p>\n" : out;
}

} // namespace

std::string to_html(const Explanation& e, const std::string& title, const std::string& graph) {
  std::string out =
      fmt::format("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                  "<meta name=\"viewport\" content=\"width=device-width\">\n<title>{0}</title>\n"
                  "{1}</head><body>\n<h1>{0}</h1>\n",
                  html_escape(title), style);
  double step = 0;
  for (const KernelExplanation& k : e.kernels) step += k.steps * time_of(k);
  const auto counted = [](size_t number, const char* what) {
    return fmt::format("{} {}{}", number, what, number == 1 ? "" : "s");
  };
  out +=
      fmt::format("<p>{}, {} a step by their times; rules apply in {}.</p>\n",
                  counted(e.kernels.size(), "kernel"), human_time(step), counted(e.regions.size(), "region"));
  out += table(e);
  out += "<h2>Kernels between the limits of this machine</h2>\n" + roofline(e);
  out += "<h2>Terms before and after</h2>\n" + regions(e);
  out += "<h2>Stages and schedules</h2>\n" + kernels(e);
  if (!graph.empty())
    out +=
        fmt::format("<h2>Graph</h2>\n<iframe title=\"graph\" srcdoc=\"{}\"></iframe>\n", html_escape(graph));
  return out + "</body></html>\n";
}

} // namespace luminal::compile
