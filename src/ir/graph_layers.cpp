// ir/graph_layers.cpp -- a function's drawing in parts, one for each layer of a model: weights say
// by their names where they belong.
#include "ir/graph_view.h"
#include <algorithm>
#include <fmt/format.h>
#include <map>

namespace luminal {
namespace {

/// "blk.3" of "%blk.3.attn_q.weight", up to the first number that stands between points; empty
/// where there is none.
std::string layer_of(std::string_view title) {
  if (title.starts_with('%')) title.remove_prefix(1);
  for (size_t dot = title.find('.'); dot != std::string_view::npos; dot = title.find('.', dot + 1)) {
    size_t end = dot + 1;
    while (end < title.size() && title[end] >= '0' && title[end] <= '9') ++end;
    if (end > dot + 1 && end < title.size() && title[end] == '.') return std::string(title.substr(0, end));
  }
  return "";
}

bool is_source(const GraphView::Box& box) {
  return box.style == "weight" || box.style == "state" || box.style == "input";
}

} // namespace

std::vector<GraphView::Group> split_by_layer(const GraphView::Group& group) {
  const size_t n = group.boxes.size();
  std::map<std::string, int> number;
  std::vector<std::string> names{"before the layers"};
  std::vector<std::optional<int>> part(n); // none: it stands alone, and goes to where it is first used
  for (size_t b = 0; b < n; ++b) {
    if (!is_source(group.boxes[b])) continue;
    const std::string layer = layer_of(group.boxes[b].title);
    if (layer.empty()) continue;
    const auto [at, fresh] = number.try_emplace(layer, int(names.size()));
    if (fresh) names.push_back(layer);
    part[b] = at->second;
  }
  if (number.size() < 2) return {group};

  // Boxes are in topological order, and arrows in that of their targets: a value belongs to the
  // last layer that it depends on.
  std::vector<std::vector<int>> users(n), inputs(n);
  for (const auto& arrow : group.arrows) {
    inputs[size_t(arrow.to)].push_back(arrow.from);
    users[size_t(arrow.from)].push_back(arrow.to);
  }
  for (size_t b = 0; b < n; ++b) {
    if (group.boxes[b].style == "input") part[b] = std::max(part[b], std::optional(0));
    for (const int input : inputs[b]) part[b] = std::max(part[b], part[size_t(input)]);
  }
  for (size_t b = n; b-- > 0;)
    if (!part[b]) {
      int first = int(names.size());
      for (const int user : users[b]) first = std::min(first, *part[size_t(user)]);
      part[b] = first == int(names.size()) ? 0 : first;
    }

  std::vector<GraphView::Group> parts(names.size());
  std::vector<int> place(n);
  std::vector<std::map<int, int>> outside(names.size()); // box of another part -> its stand-in here
  for (size_t p = 0; p < names.size(); ++p) parts[p].name = fmt::format("{} / {}", group.name, names[p]);
  for (const auto& arrow : group.arrows) { // stand-ins first: the order stays topological
    const auto from = size_t(arrow.from), to = size_t(*part[size_t(arrow.to)]);
    if (part[from] == int(to) || outside[to].contains(arrow.from)) continue;
    GraphView::Box box = group.boxes[from];
    box.line = "from " + names[size_t(*part[from])];
    box.style = "outside";
    outside[to].emplace(arrow.from, int(parts[to].boxes.size()));
    parts[to].boxes.push_back(std::move(box));
  }
  for (size_t b = 0; b < n; ++b) {
    auto& boxes = parts[size_t(*part[b])].boxes;
    place[b] = int(boxes.size());
    boxes.push_back(group.boxes[b]);
  }
  for (const auto& arrow : group.arrows) {
    const auto from = size_t(arrow.from), to = size_t(*part[size_t(arrow.to)]);
    const int source = part[from] == int(to) ? place[from] : outside[to].at(arrow.from);
    parts[to].arrows.push_back({source, place[size_t(arrow.to)], arrow.text});
  }
  for (const auto& [box, name] : group.links)
    parts[size_t(*part[size_t(box)])].links.emplace_back(place[size_t(box)], name);
  std::erase_if(parts, [](const GraphView::Group& p) { return p.boxes.empty(); });
  return parts;
}

} // namespace luminal
