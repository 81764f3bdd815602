// compile/stored_masks.cpp -- where each value of a function is read, from its readers back to it.
#include "compile/stored_masks.h"
#include "base/contains.h"
#include "compile/fuse_demand.h"
#include "expr/share.h"
#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>

namespace luminal::compile {
namespace {

/// A mask that lets more through saves less than it costs.
constexpr double most_read = 0.8;

using Conditions = std::vector<Expr>; // over the axes of a value, each of the kind a < b; all of them hold

void add_conjuncts(Expr condition, Conditions& to) {
  if (condition.kind() == ExprKind::logical_and) {
    for (const Expr e : condition.args()) add_conjuncts(e, to);
  } else if (condition.kind() == ExprKind::lt && !contains(to, condition)) {
    to.push_back(condition);
  }
}

/// The same over other axes; a condition on what has no name there is left out.
Conditions renamed(const Conditions& conditions, const ExprMap<Expr>& names) {
  Conditions out;
  for (const Expr e : conditions)
    if (std::ranges::all_of(symbols_of(e), [&](Expr s) { return names.contains(s) || !is_local(s); }))
      out.push_back(substitute(e, names));
  return out;
}

class Readers {
public:
  explicit Readers(const Function& function) : f_(function), where_(function.nodes.size()) {
    for (const FunctionResult& result : f_.results) where_[result.value] = Conditions{};
    for (NodeId id : f_.nodes.ids_down())
      if (where_[id]) see(f_[id], *where_[id]);
  }
  /// Conditions under which all readers read the value. Empty: somebody reads all of it.
  Conditions of(NodeId id) const { return where_[id].value_or(Conditions{}); }

private:
  Expr axis(NodeId id, int d) const { return axis_symbol(d, f_[id].type().shape[size_t(d)]); }

  void read(NodeId id, Conditions conditions) {
    std::optional<Conditions>& where = where_[id];
    if (where)
      std::erase_if(*where, [&](Expr e) { return !contains(conditions, e); });
    else
      where = std::move(conditions);
  }

  /// A node that is read under these conditions reads its operands.
  void see(const Node& node, const Conditions& conditions) {
    switch (node.kind) {
    case NodeKind::map: {
      const auto& map = std::get<MapAttr>(node.attr);
      const bool choice = map.user_op.empty() && map.op == Op::select;
      for (size_t k = 0; k < node.inputs.size(); ++k) {
        Conditions of_operand = conditions;
        if (choice && k == 1 && f_[node.inputs[0]].kind == NodeKind::iota)
          add_conjuncts(std::get<IotaAttr>(f_[node.inputs[0]].attr).value, of_operand);
        read(node.inputs[k], std::move(of_operand));
      }
      return;
    }
    case NodeKind::cast: return read(node.inputs[0], conditions);
    case NodeKind::view: return see_view(node, conditions);
    case NodeKind::get: return see_get(node, conditions);
    case NodeKind::fold: return see_fold(node, conditions);
    default:
      for (const NodeId in : node.inputs) read(in, {});
    }
  }

  void see_view(const Node& node, const Conditions& conditions) {
    const auto& view = std::get<ViewAttr>(node.attr);
    Conditions all = conditions;
    add_conjuncts(view.predicate, all);
    ExprMap<Expr> names;
    for (size_t d = 0; d < view.map.size(); ++d)
      if (view.map[d].is_symbol()) names[view.map[d]] = axis(node.inputs[0], int(d));
    read(node.inputs[0], renamed(all, names));
    for (size_t k = 1; k < node.inputs.size(); ++k) read(node.inputs[k], {});
  }

  /// Of a tuple the conditions are over the axes of its space.
  void see_get(const Node& node, const Conditions& conditions) {
    const Node& tuple = f_[node.inputs[0]];
    if (tuple.kind != NodeKind::fold) return read(node.inputs[0], {});
    const auto& fold = std::get<FoldAttr>(tuple.attr);
    const std::vector<int> axes = result_axes(fold, std::get<GetAttr>(node.attr).index);
    ExprMap<Expr> names;
    for (size_t d = 0; d < axes.size(); ++d)
      if (const Expr name = axis_symbol(int(d), node.type().shape[d]); name.is_symbol())
        names[name] = axis_symbol(axes[d], fold.space[size_t(axes[d])]);
    read(node.inputs[0], renamed(conditions, names));
  }

  void see_fold(const Node& node, const Conditions& conditions) {
    const auto& fold = std::get<FoldAttr>(node.attr);
    Conditions all = conditions;
    add_conjuncts(fold.where, all);
    const size_t bodies = fold.body_axes.size();
    for (size_t k = 0; k < node.inputs.size(); ++k) {
      if (k >= bodies) { // integers of its condition
        read(node.inputs[k], {});
        continue;
      }
      ExprMap<Expr> names;
      for (size_t d = 0; d < fold.body_axes[k].size(); ++d) {
        const int a = fold.body_axes[k][d];
        if (const Expr name = axis_symbol(a, fold.space[size_t(a)]); name.is_symbol())
          names[name] = axis(node.inputs[k], int(d));
      }
      read(node.inputs[k], renamed(all, names));
    }
  }

  const Function& f_;
  IdVector<NodeId, std::optional<Conditions>> where_; // by node; nothing: no reader
};

double share_of_points(Expr condition, const Shape& shape) {
  std::vector<std::pair<Expr, double>> points;
  for (size_t d = 0; d < shape.size(); ++d)
    points.emplace_back(axis_symbol(int(d), shape[d]), count({shape[d]}));
  return share_of(condition, points);
}

/// Is it one of several results of a fold, which are stored together?
bool is_part(const Function& f, const Node& node) {
  return node.kind == NodeKind::get && f[node.inputs[0]].types.size() > 1;
}

bool is_masked(const Function& f, const Node& node, Expr condition) {
  const auto* map = node.kind == NodeKind::map ? std::get_if<MapAttr>(&node.attr) : nullptr;
  if (!map || !map->user_op.empty() || map->op != Op::select) return false;
  const Node& choice = f[node.inputs[0]];
  return choice.kind == NodeKind::iota && std::get<IotaAttr>(choice.attr).value == condition;
}

/// Is it a sum, or made of one element by element between it and what is stored?
bool holds_sum(const Function& f, NodeId id, const std::set<NodeId>& stored, std::set<NodeId>& seen) {
  const Node& node = f[id];
  if (node.kind == NodeKind::get) return f[node.inputs[0]].kind == NodeKind::fold;
  if (node.kind != NodeKind::map && node.kind != NodeKind::cast) return false;
  return std::ranges::any_of(node.inputs, [&](NodeId in) {
    return !stored.contains(in) && seen.insert(in).second && holds_sum(f, in, stored, seen);
  });
}

/// Where the value is to be masked; 1 where it is not.
Expr mask_of(const Function& f, NodeId id, const Readers& readers, const std::set<NodeId>& stored) {
  const Node& node = f[id];
  Expr condition = 1;
  for (const Expr e : readers.of(id)) condition = logical_and(condition, e);
  if (condition.is_constant(1) || is_part(f, node) || is_masked(f, node, condition) ||
      node.type().dtype == DType::boolean || share_of_points(condition, node.type().shape) > most_read)
    return 1;
  std::set<NodeId> seen;
  return holds_sum(f, id, stored, seen) ? condition : Expr(1);
}

NodeId add_mask(Function& to, NodeId value, Expr condition) {
  const TensorType type = to[value].type(), choice{DType::boolean, type.shape}, number{type.dtype, {}};
  const auto add = [&](NodeKind kind, Attr attr, std::vector<NodeId> inputs, const TensorType& made) {
    return to.nodes.add({kind, std::move(attr), std::move(inputs), {made}, {}, {}, {}});
  };
  auto zero = std::make_shared<const std::vector<std::byte>>(size_t(storage_bytes(type.dtype, 1)));
  const NodeId where = add(NodeKind::iota, IotaAttr{condition, choice}, {}, choice),
               constant = add(NodeKind::constant, ConstantAttr{std::move(zero), number}, {}, number),
               zeros = add(NodeKind::view, ViewAttr{{}, 1, 0, type.shape, {}}, {constant}, type),
               mask = add(NodeKind::map, MapAttr{Op::select, {}}, {where, value, zeros}, type);
  to.nodes[mask].origin = to[value].origin;
  std::swap(to.nodes[mask].name, to.nodes[value].name);
  std::swap(to.nodes[mask].axis_names, to.nodes[value].axis_names);
  return mask;
}

} // namespace

MaskedFunction mask_stored(const Function& function, const Partition& partition) {
  MaskedFunction out;
  const Readers readers(function);
  std::set<NodeId> stored;
  for (const auto& kernel : partition.kernels) stored.insert(kernel.begin(), kernel.end());
  std::map<NodeId, Expr> masks;
  for (const NodeId id : stored)
    if (const Expr mask = mask_of(function, id, readers, stored); !mask.is_constant(1)) masks[id] = mask;
  if (masks.empty()) return out;
  Function& to = out.function;
  to.name = function.name;
  for (NodeId id : function.nodes.ids()) {
    Node node = function[id];
    for (NodeId& in : node.inputs) in = out.stored_as[in];
    out.stored_as.push_back(to.nodes.add(std::move(node)));
    if (const auto mask = masks.find(id); mask != masks.end())
      out.stored_as[id] = add_mask(to, out.stored_as[id], mask->second);
  }
  for (const NodeId id : function.params) to.params.push_back(out.stored_as[id]);
  for (FunctionResult result : function.results) {
    result.value = out.stored_as[result.value];
    to.results.push_back(std::move(result));
  }
  return out;
}

void move_to(const MaskedFunction& masked, StepFusion& fusion, Boundaries& boundaries) {
  const auto move = [&](NodeId& id) { id = masked.stored_as[id]; };
  const auto moved = [&](const std::set<NodeId>& ids) {
    std::set<NodeId> out;
    for (const NodeId id : ids) out.insert(masked.stored_as[id]);
    return out;
  };
  fusion.step.function = &masked.function;
  fusion.step.given = moved(fusion.step.given);
  fusion.step.read = moved(fusion.step.read);
  std::ranges::for_each(fusion.step.wanted, move);
  std::ranges::for_each(fusion.load_values, move);
  for (auto& kernel : fusion.partition.kernels) std::ranges::for_each(kernel, move);
  for (auto& kernel : boundaries.partition.kernels) std::ranges::for_each(kernel, move);
  if (boundaries.empty()) return;
  IdVector<NodeId, bool> decided(masked.function.nodes.size());
  for (NodeId id : masked.stored_as.ids())
    if (boundaries.has(id)) decided[masked.stored_as[id]] = true;
  boundaries.decided = std::move(decided);
}

} // namespace luminal::compile
