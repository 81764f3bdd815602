// tensor/display.cpp -- whole graphs as files and tables.
#include "base/file.h"
#include "luminal/debug.h"
#include "luminal/inspect.h"
#include "tensor/graph_state.h"
#include <atomic>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace luminal {

std::string display(const Graph& graph, std::string file, Where where) {
  static std::atomic<int> serial{0};
  if (file.empty()) {
    std::error_code error;
    const auto folder = std::filesystem::temp_directory_path(error);
    if (error) throw Error("display", "there is no folder for temporary files: " + error.message(), where);
    file = (folder / fmt::format("luminal-{}-{}.html", getpid(), serial++)).string();
  }
  std::string text;
  if (file.ends_with(".html"))
    text = graph.to_html(where);
  else if (file.ends_with(".dot"))
    text = graph.to_dot(where);
  else if (file.ends_with(".lum"))
    text = graph.to_string(where);
  else
    throw Error("display", fmt::format("{}: the name must end in .html, .dot or .lum", file), where);
  if (auto done = write_file(file, text); !done) throw Error("display", done.error(), where);
  return file;
}

std::string display_shapes(const Graph& graph, Where where) {
  std::vector<std::array<std::string, 3>> rows;
  size_t widths[2] = {4, 2};
  const auto& state = graph.state("display", where);
  for (const Tensor& value : values(graph, where)) {
    const Node& own = state->builder[node_id(value)];
    const Node& term = own.kind == NodeKind::get ? state->builder[own.inputs[0]] : own;
    const auto* map = std::get_if<MapAttr>(&term.attr);
    std::string op = map && !map->user_op.empty() ? map->user_op
                     : map                        ? std::string(to_string(map->op))
                                                  : std::string(to_string(term.kind));
    std::string name = own.kind == NodeKind::input ? std::get<InputAttr>(own.attr).name : own.name;
    if (name.empty()) name = fmt::format("%{}", node_id(value));
    std::string shape = to_string(own.type());
    try {
      const auto extents = present_shape("display", *state, own.type().shape, Where::current());
      const std::string sizes = to_string(to_dims({extents.begin(), extents.end()}));
      if (!extents.empty() && sizes != text_of(own.type().shape)) shape += " = " + sizes;
    } catch (const Error&) { // dimensions without a size stay names
    }
    widths[0] = std::max(widths[0], name.size());
    widths[1] = std::max(widths[1], op.size());
    rows.push_back({std::move(name), std::move(op), std::move(shape)});
  }
  std::string out = fmt::format("{:<{}}  {:<{}}  shape\n", "name", widths[0], "op", widths[1]);
  for (const auto& [name, op, shape] : rows)
    out += fmt::format("{:<{}}  {:<{}}  {}\n", name, widths[0], op, widths[1], shape);
  return out;
}

} // namespace luminal
