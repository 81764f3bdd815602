// base/graph_dot.cpp -- graphs as text for Graphviz.
#include "base/graph_page.h"
#include <fmt/format.h>
#include <map>
#include <string_view>

namespace luminal {
namespace {

std::string dot_escape(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\l";
    else
      out += c;
  }
  return out;
}

std::string look_of(const GraphView::Box& box) {
  static const std::map<std::string_view, std::string_view> colours{
      {"input", "#d6e6f5"}, {"weight", "#d9ead3"}, {"state", "#fde9c9"},     {"leaf", "#eeeeee"},
      {"view", "#f5f0ff"},  {"fold", "#ffe0cc"},   {"structure", "#ead1dc"}, {"result", "#cfe2f3"}};
  std::string look;
  if (const auto colour = colours.find(box.style); colour != colours.end())
    look += fmt::format(", fillcolor=\"{}\"", colour->second);
  if (box.style == "outside" || box.style == "subsumed") look += ", style=\"rounded,dashed\"";
  if (box.marked) look += ", color=red, penwidth=3";
  return look;
}

} // namespace

std::string to_dot(const GraphView& view) {
  std::string text = "digraph view {\n  compound=true;\n  node [shape=box, style=\"rounded,filled\", "
                     "fillcolor=white, fontname=\"sans-serif\", fontsize=11];\n"
                     "  edge [fontname=\"sans-serif\", fontsize=9];\n";
  if (!view.note.empty()) text += fmt::format("  labelloc=t;\n  label=\"{}\";\n", dot_escape(view.note));
  std::map<std::string, size_t> number; // of groups that have a box to point at
  for (size_t g = 0; g < view.groups.size(); ++g)
    if (!view.groups[g].boxes.empty()) number[view.groups[g].name] = g;
  for (size_t g = 0; g < view.groups.size(); ++g) {
    const auto& group = view.groups[g];
    text += fmt::format("  subgraph cluster_{} {{\n    label=\"{}{}{}\";\n", g, dot_escape(group.name),
                        group.note.empty() ? "" : ": ", dot_escape(group.note));
    for (size_t b = 0; b < group.boxes.size(); ++b) {
      const auto& box = group.boxes[b];
      text += fmt::format("    n{}_{} [label=\"{}\\n{}\", tooltip=\"{}\"{}];\n", g, b, dot_escape(box.title),
                          dot_escape(box.line), dot_escape(box.text), look_of(box));
    }
    for (const auto& arrow : group.arrows)
      text += fmt::format("    n{}_{} -> n{}_{} [label=\"{}\"];\n", g, arrow.from, g, arrow.to,
                          dot_escape(arrow.text));
    text += "  }\n";
  }
  for (size_t g = 0; g < view.groups.size(); ++g)
    for (const auto& [box, name] : view.groups[g].links)
      if (auto at = number.find(name); at != number.end())
        text += fmt::format("  n{}_{} -> n{}_0 [style=dashed, color=gray, lhead=cluster_{}];\n", g, box,
                            at->second, at->second);
  return text + "}\n";
}

} // namespace luminal
