// compile/scatter_chain.cpp -- what scatters add to zeros, in sums, is added in one place, without zeros,
// copies and sums of their own.
//
// Additions of one accumulator type take another order, as in every sum. Many small numbers added to a large
// one, one after the other, would be lost: so nothing is added to other values than what scatters made, and
// narrow floats keep their order.
#include "compile/pass_list.h"
#include "compile/rewrite.h"
#include <algorithm>

namespace luminal::compile {
namespace {

bool is_zero(const Function& f, NodeId id) {
  if (!is_fill(f, id)) return false;
  const auto& data = *std::get<ConstantAttr>(f[f[id].inputs[0]].attr).data;
  return std::ranges::all_of(data, [](std::byte b) { return b == std::byte{0}; });
}

/// Zero with numbers added to it.
bool is_sum_into_zeros(const Function& f, NodeId id) {
  const auto* scatter = std::get_if<ScatterAttr>(&f[id].attr);
  const DType type = scatter ? f[id].type().dtype : DType::boolean;
  const bool wide = type == DType::f32 || type == DType::f64 || (is_integer(type) && bits(type) >= 8);
  return wide && scatter->op == Op::add && is_zero(f, f[id].inputs[0]);
}

/// The operand of the sum that can be added into the other one, and which nobody else reads; 2: none.
size_t addend(const Function& f, NodeId id, const IdVector<NodeId, int>& uses) {
  const auto* map = std::get_if<MapAttr>(&f[id].attr);
  if (!map || map->op != Op::add || !map->user_op.empty() || f[id].inputs[0] == f[id].inputs[1]) return 2;
  for (const size_t which : {1, 0}) {
    const NodeId added = f[id].inputs[which], base = f[id].inputs[1 - which];
    if (uses[added] == 1 && is_sum_into_zeros(f, added) &&
        (is_sum_into_zeros(f, base) || addend(f, base, uses) < 2))
      return which;
  }
  return 2;
}

IdVector<NodeId, int> uses_of(const Function& f) {
  IdVector<NodeId, int> uses(f.nodes.size());
  for (const Node& node : f.nodes)
    for (NodeId input : node.inputs) uses[input]++;
  for (const FunctionResult& result : f.results) uses[result.value]++;
  return uses;
}

} // namespace

Result<void> chain_scatters(PlanState& state, FunctionPlan& f) {
  if (f.role == FunctionRole::check) return {};
  const Function& function = *f.function;
  const IdVector<NodeId, int> uses = uses_of(function);
  const auto sums = [&](NodeId id) { return addend(function, id, uses) < 2; };
  if (std::ranges::none_of(function.nodes.ids(), sums)) return {};
  f.function = &state.keep(rebuild(state.module, function,
                                   [&](FunctionBuilder& b, NodeId id, const IdVector<NodeId, NodeId>& copies,
                                       std::vector<NodeId>& values) {
                                     const size_t which = addend(function, id, uses);
                                     if (which == 2) return false;
                                     const Node& scatter = function[function[id].inputs[which]];
                                     std::vector<NodeId> inputs;
                                     for (NodeId input : scatter.inputs) inputs.push_back(copies[input]);
                                     inputs[0] = copies[function[id].inputs[1 - which]];
                                     values = {b.add(scatter.attr, std::move(inputs), scatter.axis_names)};
                                     return true;
                                   }));
  return {};
}

} // namespace luminal::compile
