// ir/graph_view.cpp -- boxes and arrows of a module.
#include "ir/graph_view.h"
#include "base/text.h"
#include "ir/infer.h"
#include "ir/text_names.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal {
namespace {

std::string style_of(const Node& node) {
  switch (node.kind) {
  case NodeKind::input: {
    Role role = std::get<InputAttr>(node.attr).role;
    return role == Role::weight ? "weight" : role == Role::state ? "state" : "input";
  }
  case NodeKind::constant:
  case NodeKind::iota:
  case NodeKind::random: return "leaf";
  case NodeKind::map:
  case NodeKind::cast:
  case NodeKind::bitcast: return "map";
  case NodeKind::view: return "view";
  case NodeKind::fold:
  case NodeKind::scan:
  case NodeKind::sort:
  case NodeKind::scatter: return "fold";
  default: return "structure";
  }
}

/// A few words: the operation and what tells it from its neighbours.
std::string short_line(const Node& node, const std::vector<std::string>& axes) {
  auto words = [](const Monoid& m) {
    std::string text;
    for (const MonoidComponent& c : m.components())
      text += fmt::format("{}{}", text.empty() ? "" : ", ", row(c.op).monoid);
    return text;
  };
  if (auto* fold = std::get_if<FoldAttr>(&node.attr)) {
    std::string over;
    for (int d : fold->reduced) over += (over.empty() ? "" : ", ") + axes[size_t(d)];
    return fmt::format("fold {} over {}", words(fold->monoid), over);
  }
  if (auto* scan = std::get_if<ScanAttr>(&node.attr))
    return fmt::format("scan {} along {}", words(scan->monoid), axes[size_t(scan->axis)]);
  if (auto* view = std::get_if<ViewAttr>(&node.attr)) {
    std::string text;
    for (Expr e : view->map) text += (text.empty() ? "" : ", ") + expression_text(e, view->shape, axes);
    return "view [" + text + "]";
  }
  if (auto* call = std::get_if<CallAttr>(&node.attr)) return "call @" + call->function;
  if (auto* loop = std::get_if<LoopAttr>(&node.attr)) return "loop @" + loop->body;
  if (auto* input = std::get_if<InputAttr>(&node.attr)) return to_string(input->type);
  if (auto* cast = std::get_if<CastAttr>(&node.attr)) return fmt::format("cast {}", to_string(cast->to));
  if (auto* cast = std::get_if<BitcastAttr>(&node.attr))
    return fmt::format("bitcast {}", to_string(cast->to));
  if (auto* host = std::get_if<HostAttr>(&node.attr)) return "host " + host->kind;
  if (auto* constant = std::get_if<ConstantAttr>(&node.attr); constant && constant->type.shape.empty())
    return fmt::format("{} {}", to_string(constant->type.dtype),
                       number_text(load_f64(constant->type.dtype, constant->data->data(), 0)));
  return operation_name(node.attr);
}

GraphView::Group group_of(const Function& f, const std::vector<NodeId>& marked) {
  GraphView::Group group{"@" + f.name, {}, {}, {}, {}};
  IdVector<NodeId, std::string> names = node_names(f), texts = node_texts(f);
  IdVector<NodeId, int> box(f.nodes.size(), -1);
  auto is_marked = [&](NodeId id) { return std::find(marked.begin(), marked.end(), id) != marked.end(); };
  // The box and edge text behind a value: results of tuples lead to the tuple.
  auto source = [&](NodeId id) {
    std::string text = to_string(f[id].type());
    if (box[id] >= 0) return std::pair(box[id], text);
    const int index = std::get<GetAttr>(f[id].attr).index;
    const NodeId tuple = f[id].inputs[0];
    return std::pair(box[tuple], f[tuple].types.size() > 1 ? fmt::format("{}: {}", index, text) : text);
  };
  for (NodeId id : f.nodes.ids()) {
    const Node& node = f[id];
    if (node.kind == NodeKind::get && !is_marked(id)) continue;
    box[id] = int(group.boxes.size());
    group.boxes.push_back({names[id], short_line(node, axis_names(f, node)),
                           names[id] + (node.kind == NodeKind::input ? ": " : " = ") + texts[id],
                           style_of(node), is_marked(id)});
    for (NodeId input : node.inputs) {
      if (node.kind == NodeKind::get) {
        group.arrows.push_back({box[input], box[id], to_string(node.type())});
        continue;
      }
      auto [from, text] = source(input);
      group.arrows.push_back({from, box[id], text});
    }
    auto calls = [&](const std::string& name) {
      if (!name.empty()) group.links.push_back({box[id], "@" + name});
    };
    if (auto* call = std::get_if<CallAttr>(&node.attr)) calls(call->function);
    if (auto* loop = std::get_if<LoopAttr>(&node.attr)) calls(loop->body), calls(loop->condition);
    if (auto* cond = std::get_if<CondAttr>(&node.attr))
      calls(cond->then_function), calls(cond->else_function);
  }
  for (const FunctionResult& r : f.results) {
    auto [from, text] = source(r.value);
    group.arrows.push_back({from, int(group.boxes.size()), text});
    group.boxes.push_back(
        {r.name, r.state.empty() ? "result" : "writes " + r.state, "return " + r.name, "result", false});
  }
  return group;
}

} // namespace

GraphView graph_view(const Module& module, const std::vector<NodeId>& marked) {
  GraphView view{.title = "module", .note = {}, .groups = {}};
  for (const Function& f : module.functions)
    view.groups.push_back(group_of(f, &f == &module.functions.back() ? marked : std::vector<NodeId>()));
  return view;
}

std::string to_dot(const Module& module, const std::vector<NodeId>& marked) {
  return to_dot(graph_view(module, marked));
}

std::string to_html(const Module& module, const std::vector<NodeId>& marked) {
  GraphView view = graph_view(module, marked), page{.title = "module", .note = {}, .groups = {}};
  for (size_t g = view.groups.size(); g-- > 0;) // the entry first
    for (GraphView::Group& part : split_by_layer(view.groups[g])) {
      part.note = fmt::format("{} nodes", part.boxes.size());
      page.groups.push_back(std::move(part));
    }
  return to_html(page);
}

} // namespace luminal
