// train/reverse.cpp -- the pass: nodes from the seeds down to the targets, each sends gradients on.
#include "train/reverse.h"
#include "base/check.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::train {

std::vector<Gradient> Reverse::run(const std::vector<Seed>& seeds, const std::vector<NodeId>& targets) {
  NodeId end(0);
  for (const Seed& seed : seeds) end = std::max(end, seed.value + 1);
  mark(targets, end);
  targets_.insert(targets.begin(), targets.end());
  for (const Seed& seed : seeds) {
    seeds_.push_back(seed.value);
    give(seed.value, seed.gradient);
  }
  if (segments_ > 1) {
    std::vector<NodeId> values;
    for (const Seed& seed : seeds) values.push_back(seed.value);
    again_.emplace(t_.b, values, end, segments_);
  }
  for (NodeId id = end - 1; id; --id) {
    if (!active(id) || t_[id].kind == NodeKind::get) continue; // get: its tuple collects
    if (again_ && again_->leaves_segment(id)) again_->open(id, pending_);
    Results g(t_[id].types.size());
    bool any = false;
    for (size_t k = 0; k < g.size(); ++k) {
      auto found = pending_.find({id, int(k)});
      if (found == pending_.end()) continue;
      g[k] = found->second;
      any = true;
    }
    if (!any) continue;
    const NodeId before = latest_;
    visit(again_ ? again_->copy(id) : id, g);
    if (latest_ > before) sources_.push_back({latest_ + 1, id});
  }
  std::vector<Gradient> list;
  for (NodeId target : targets) {
    NodeId node = target;
    int index = 0;
    if (const auto* get = std::get_if<GetAttr>(&t_[target].attr)) {
      node = t_[target].inputs[0];
      index = get->index;
    }
    auto found = pending_.find({node, index});
    list.push_back(found == pending_.end() ? Gradient() : Gradient(found->second));
  }
  return list;
}

/// What depends on a target through values that have gradients.
void Reverse::mark(const std::vector<NodeId>& targets, NodeId end) {
  active_.assign(end.index(), false);
  IdVector<NodeId, bool> target(end.index());
  for (NodeId id : targets) {
    if (!target.has(id)) continue;
    target[id] = true;
    // A target that is one result of a tuple: the tuple keeps what arrives there.
    if (t_[id].kind == NodeKind::get) target[t_[id].inputs[0]] = true;
  }
  for (NodeId id : target.ids()) {
    const Node& node = t_[id];
    bool depends = target[id];
    for (NodeId input : node.inputs) depends = depends || active_[input];
    if (node.kind == NodeKind::bitcast && !target[id]) depends = false;
    if (!node.is_tuple() && !is_float(node.type().dtype)) depends = false;
    active_[id] = depends;
  }
}

/// Does a gradient arrive there? Copies of a value have that of the value.
bool Reverse::active(NodeId id) const {
  const NodeId own = again_ ? again_->original(id) : id;
  return active_.has(own) && active_[own];
}

/// Does the caller ask for the gradient that arrives there?
bool Reverse::target(NodeId id) const { return targets_.contains(again_ ? again_->original(id) : id); }

void Reverse::give(NodeId value, Gradient gradient) {
  if (!gradient || !active(value)) return;
  if (again_) value = again_->original(value);
  NodeId node = value;
  int index = 0;
  if (const auto* get = std::get_if<GetAttr>(&t_[value].attr)) {
    node = t_[value].inputs[0];
    index = get->index;
  }
  LUMINAL_CHECK(t_.type(*gradient).dtype == t_.type(value).dtype &&
                    same_shape(t_.shape(*gradient), t_.shape(value), t_.module.assumptions),
                "the gradient of {} is {}", to_string(t_.type(value)), to_string(t_.type(*gradient)));
  auto [slot, fresh] = pending_.try_emplace({node, index}, *gradient);
  if (!fresh) slot->second = t_.add(slot->second, *gradient);
  latest_ = std::max(latest_, slot->second);
}

namespace {
[[noreturn]] void no_gradient(const Node& node, std::string_view what, std::string_view hint) {
  throw Error(fmt::format("[gradients] {} has no gradient: {}{}", what, hint,
                          node.origin.empty() ? "" : " (" + node.origin + ")"));
}
} // namespace

void Reverse::visit(NodeId id, const Results& g) {
  const Node node = t_[id]; // a copy: the builder grows
  switch (node.kind) {
  case NodeKind::input:
  case NodeKind::constant:
  case NodeKind::iota:
  case NodeKind::random:
  case NodeKind::bitcast:
  case NodeKind::get: return;
  case NodeKind::map: return map(id, std::get<MapAttr>(node.attr), *g[0]);
  case NodeKind::cast: return cast(id, *g[0]);
  case NodeKind::view:
    if (active(node.inputs[0]))
      give(node.inputs[0], view_adjoint(t_, std::get<ViewAttr>(node.attr), node.inputs, *g[0]));
    return;
  case NodeKind::scatter: return scatter(id, std::get<ScatterAttr>(node.attr), *g[0]);
  case NodeKind::fold: return fold(id, std::get<FoldAttr>(node.attr), g);
  case NodeKind::scan: return scan(id, std::get<ScanAttr>(node.attr), g);
  case NodeKind::sort: return sort(id, std::get<SortAttr>(node.attr), g);
  case NodeKind::collective: return collective(id, std::get<CollectiveAttr>(node.attr), *g[0]);
  case NodeKind::call: return call(id, std::get<CallAttr>(node.attr), g);
  case NodeKind::loop: return loop(id, std::get<LoopAttr>(node.attr), g);
  case NodeKind::cond: return cond(id, std::get<CondAttr>(node.attr), g);
  case NodeKind::fence: {
    // A gradient goes back to the device that the value came from; nothing waits for it.
    const auto& fence = std::get<FenceAttr>(node.attr);
    if (!fence.device.empty())
      no_gradient(node, "a move between devices", "take gradients on each device, or use custom_gradient");
    return give(node.inputs[0], *g[0]);
  }
  case NodeKind::host: {
    const auto& host = std::get<HostAttr>(node.attr);
    const bool passes =
        host.kind == "print" || host.kind == "diff" || host.kind == "dump" || host.kind == "compare";
    if (!passes)
      no_gradient(node, fmt::format("the host function {}", host.kind), "give it one with custom_gradient");
    return give(node.inputs[0], *g[0]);
  }
  case NodeKind::custom:
    no_gradient(node, fmt::format("the kernel {}", std::get<CustomAttr>(node.attr).name),
                "give it one with custom_gradient");
  }
}

// ---- elements ----
namespace {
/// The same number everywhere: a scalar constant, or views of it without a condition.
bool uniform(const Terms& t, NodeId id) {
  const Node* node = &t[id];
  while (const auto* view = std::get_if<ViewAttr>(&node->attr)) {
    if (!view->predicate.is_constant(1)) return false;
    node = &t[node->inputs[0]];
  }
  return node->kind == NodeKind::constant && node->type().shape.empty();
}
} // namespace

void Reverse::map(NodeId id, const MapAttr& attr, NodeId g) {
  if (!attr.user_op.empty()) return user_map(id, attr, g);
  const std::vector<NodeId> inputs = t_[id].inputs;
  std::vector<NodeId> leaves = inputs;
  leaves.resize(3, inputs[0]);
  leaves.push_back(id);
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!active(inputs[k])) continue;
    const NodeId other = inputs[inputs.size() - 1 - k];
    if ((attr.op == Op::max || attr.op == Op::min) && uniform(t_, other)) {
      // relu and its kin: nothing at the bound itself, NaN passes on (as PyTorch's relu and
      // hardtanh). The result tells as much as the argument, and is the one that others keep.
      const NodeId cut = attr.op == Op::max ? t_.b.map(Op::le, {id, other}) : t_.b.map(Op::le, {other, id});
      give(inputs[k], t_.select(cut, t_.zeros(t_.type(g)), g));
      continue;
    }
    if (const Scalar* slope = derivative(attr.op, int(k))) give(inputs[k], t_.times(g, *slope, leaves));
  }
}

void Reverse::user_map(NodeId id, const MapAttr& attr, NodeId g) {
  static const std::vector<std::string> names{"a", "b", "c", "out"};
  const UserOp& op = *find_user_op(attr.user_op);
  const std::vector<NodeId> inputs = t_[id].inputs;
  std::vector<NodeId> leaves = inputs;
  leaves.resize(3, inputs[0]);
  leaves.push_back(id);
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!active(inputs[k])) continue;
    std::optional<Scalar> slope;
    if (!op.derivative[k].empty())
      slope = parse_scalar(op.derivative[k], names);
    else if (!op.definition.empty())
      slope = differentiate(parse_scalar(op.definition, names), int(k));
    else
      throw Error(fmt::format("[gradients] the operation {} has no derivative for argument {}: register_op "
                              "takes one",
                              op.name, k));
    if (slope) give(inputs[k], t_.times(g, *slope, leaves));
  }
}

void Reverse::cast(NodeId id, NodeId g) {
  const NodeId x = t_[id].inputs[0];
  if (active(x)) give(x, t_.b.cast(g, t_.dtype(x)));
}

void Reverse::collective(NodeId id, const CollectiveAttr& attr, NodeId g) {
  const Node node = t_[id];
  CollectiveAttr back = attr;
  if (attr.kind == "all_gather")
    back.kind = "reduce_scatter_sum";
  else if (attr.kind == "reduce_scatter_sum")
    back.kind = "all_gather";
  else if (attr.kind != "all_reduce_sum")
    no_gradient(node, attr.kind, "of collectives all_reduce_sum, all_gather and reduce_scatter_sum have one");
  give(node.inputs[0], t_.b.add(back, {g}));
}

} // namespace luminal::train
