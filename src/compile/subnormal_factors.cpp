// compile/subnormal_factors.cpp -- stored values that only multiply in sums hold zeros for subnormal numbers.
//
// A vector multiply-add with a subnormal operand takes some 150 cycles on Intel's processors, and
// exponentials of differences are full of them. That a sum may take such a factor for zero: ir/ops.h. A sum
// that is multiplied afterwards does not: the rules may have moved out of it what makes its factors large.
#include "compile/pass_list.h"
#include "compile/rewrite.h"
#include <algorithm>

namespace luminal::compile {
namespace {

bool is_f32(const Node& node) { return !node.is_tuple() && node.type().dtype == DType::f32; }

/// Does the fold add up the input, and nothing else with it?
bool only_adds(const Node& fold, NodeId input) {
  const auto& parts = std::get<FoldAttr>(fold.attr).monoid.components();
  for (size_t i = 0; i < fold.inputs.size(); i++) {
    if (fold.inputs[i] != input) continue;
    if (i >= parts.size()) return false; // where it counts, or where it reads
    if (parts[i].op != Op::add || parts[i].dtype != DType::f32 || !parts[i].transform.is_leaf(0))
      return false;
  }
  return true;
}

/// May a factor of a sum be applied to what it gives?
bool scales(const MapAttr& map) { return map.op == Op::mul || map.op == Op::div || map.op == Op::fma; }
/// Does a factor of its result stand for a factor of its arguments?
bool hands_on(const Node& node, const MapAttr* map) {
  if (!map) return node.kind == NodeKind::get || node.kind == NodeKind::fold;
  return map->op == Op::add || map->op == Op::sub || map->op == Op::neg || map->op == Op::select;
}

/// The values that someone reads who does not multiply by them in a sum of f32.
IdVector<NodeId, bool> read_otherwise(const Function& f) {
  IdVector<NodeId, bool> read(f.nodes.size()), not_added(f.nodes.size()), scaled(f.nodes.size());
  for (const FunctionResult& result : f.results) read[result.value] = not_added[result.value] = true;
  for (size_t i = f.nodes.size(); i-- > 0;) { // who reads it comes after it
    const NodeId id(i);
    const Node& node = f[id];
    const auto* map = std::get_if<MapAttr>(&node.attr);
    const bool multiplies =
        map && map->op == Op::mul && map->user_op.empty() && is_f32(node) && !not_added[id];
    for (size_t k = 0; k < node.inputs.size(); k++) {
      const NodeId input = node.inputs[k];
      if ((map && scales(*map)) || (scaled[id] && hands_on(node, map))) scaled[input] = true;
      if (node.kind != NodeKind::fold || scaled[id] || !only_adds(node, input)) not_added[input] = true;
      if (!multiplies && (node.kind != NodeKind::view || k > 0 || read[id])) read[input] = true;
    }
  }
  return read;
}

/// May what a kernel computes there from what is in memory be subnormal where that is not?
bool may_vanish(const Function& f, NodeId root, const std::set<NodeId>& in_memory) {
  std::set<NodeId> seen{root};
  std::vector<NodeId> stack{root};
  while (!stack.empty()) {
    const Node& node = f[stack.back()];
    stack.pop_back();
    const auto* map = std::get_if<MapAttr>(&node.attr);
    if (!map && node.kind != NodeKind::view) continue;
    if (map && map->user_op.empty() && luminal::may_vanish(map->op)) return true;
    for (NodeId input : node.inputs)
      if (!in_memory.contains(input) && seen.insert(input).second) stack.push_back(input);
  }
  return false;
}

NodeId zero_where_subnormal(FunctionBuilder& b, NodeId x) {
  const Shape shape = b[x].type().shape;
  const auto spread = [&](double value) { return b.expand(b.constant(DType::f32, value), shape, {}); };
  const NodeId small = b.map(Op::lt, {b.map(Op::abs, {x}), spread(0x1p-126)});
  return b.map(Op::select, {small, spread(0), x});
}

} // namespace

Result<void> zero_small_factors(PlanState& state, FunctionPlan& f) {
  if (f.role != FunctionRole::entry) return {};
  const Function& function = *f.function;
  const IdVector<NodeId, bool> others = read_otherwise(function);
  const std::set<NodeId> in_memory = values_in_memory(f.step.region, *f.step.partition);
  std::set<NodeId> factors;
  for (const auto& roots : f.step.partition->kernels)
    for (NodeId id : roots)
      if (function[id].kind == NodeKind::map && is_f32(function[id]) && !others[id] &&
          may_vanish(function, id, in_memory))
        factors.insert(id);
  if (factors.empty()) return {};

  IdVector<NodeId, NodeId> now;
  const auto with_zeros = [&](FunctionBuilder& b, NodeId id, const IdVector<NodeId, NodeId>& copies,
                              std::vector<NodeId>& values) {
    if (!factors.contains(id)) return false;
    std::vector<NodeId> inputs;
    for (NodeId input : function[id].inputs) inputs.push_back(copies[input]);
    values = {zero_where_subnormal(b, b.add(function[id].attr, std::move(inputs), function[id].axis_names))};
    if (!function[id].origin.empty()) b.origin(values[0], function[id].origin);
    if (!function[id].name.empty()) b.name(values[0], function[id].name);
    return true;
  };
  f.function = &state.keep(rebuild(state.module, function, with_zeros, &now));
  for (auto& roots : f.step.partition->kernels)
    for (NodeId& id : roots) id = now[id];
  for (NodeId& id : f.load_values) id = now[id];
  f.step.region = whole_region(*f.function);
  f.step.region.given.insert(f.load_values.begin(), f.load_values.end());
  return {};
}

} // namespace luminal::compile
