// compile/inner_functions.cpp -- the functions that steps of a plan run: turns of loops over whole
// arrays, conditions, branches, checks of accesses.
#include "base/check.h"
#include "compile/pass_list.h"
#include "compile/rewrite.h"
#include <fmt/format.h>

namespace luminal::compile {
namespace {

const Function& named(const Module& module, const std::string& name) {
  const Function* function = module.find(name);
  LUMINAL_CHECK(function, "there is no function {}", name);
  return *function;
}

/// The body of a loop over whole arrays: slices are views at the counter, stacked rows are
/// scattered.
Function turn_of(const Module& module, const Function& f, NodeId node, Expr counter) {
  const auto& attr = std::get<LoopAttr>(f[node].attr);
  const Function& source = named(module, attr.body);
  const auto& inputs = f[node].inputs;
  const size_t carried = size_t(attr.carried), stepped = size_t(attr.stepped),
               invariants = inputs.size() - carried - stepped;
  const size_t stacked = source.results.size() - carried;
  FunctionBuilder b(fmt::format("{}.turn", attr.body), &module);
  std::vector<NodeId> arguments{b.iota({}, counter, DType::i64)};
  std::vector<NodeId> carried_params, stack_params;
  for (size_t i = 0; i < carried; i++) {
    carried_params.push_back(b.input(fmt::format("carried{}", i), f[inputs[i]].type(), Role::state));
    arguments.push_back(carried_params.back());
  }
  for (size_t i = 0; i < stepped; i++) {
    const TensorType& type = f[inputs[carried + i]].type();
    NodeId whole = b.input(fmt::format("stepped{}", i), type);
    Shape slice(type.shape.begin() + 1, type.shape.end());
    std::vector<Expr> map{counter};
    for (size_t d = 0; d < slice.size(); d++) map.push_back(axis_symbol(int(d), slice[d]));
    arguments.push_back(b.view(whole, slice, map));
  }
  for (size_t i = 0; i < invariants; i++)
    arguments.push_back(b.input(fmt::format("invariant{}", i), f[inputs[carried + stepped + i]].type()));
  for (size_t i = 0; i < stacked; i++)
    stack_params.push_back(b.input(fmt::format("stack{}", i), f[node].types[carried + i], Role::state));
  std::vector<NodeId> values = copy_into(b, inline_calls(module, source), arguments);
  for (size_t i = 0; i < carried; i++)
    b.result(fmt::format("carried{}_next", i), values[i], fmt::format("carried{}", i));
  for (size_t i = 0; i < stacked; i++) {
    ScatterAttr scatter;
    scatter.unique = true;
    scatter.map.push_back(counter);
    const Shape& shape = b[values[carried + i]].type().shape;
    for (size_t d = 0; d < shape.size(); d++) scatter.map.push_back(axis_symbol(int(d), shape[d]));
    b.result(fmt::format("stack{}_next", i), b.add(scatter, {stack_params[i], values[carried + i]}),
             fmt::format("stack{}", i));
  }
  return b.finish();
}

FunctionPlan& open_turn(PlanState& state, const Function& f, NodeId node) {
  const Expr count = std::get<LoopAttr>(f[node].attr).count;
  Expr counter =
      Expr::symbol(fmt::format("turn{}", state.loops++), {0, std::max<int64_t>(0, count.range().high - 1)});
  state.plan.symbols.push_back(counter);
  state.counters.push_back(counter);
  state.facts.push_back(lt(counter, count));
  FunctionPlan& turn = state.add(FunctionRole::turn, state.keep(turn_of(state.module, f, node, counter)));
  turn.counter = counter;
  return turn;
}

/// The function of a node's step that has this place among FunctionPlan::inner.
FunctionPlan& open_inner(PlanState& state, const FunctionPlan& outer, NodeId node, int which) {
  const Function& f = *outer.function;
  if (const auto* loop = std::get_if<LoopAttr>(&f[node].attr)) {
    if (which == 0) return open_turn(state, f, node);
    return state.add(FunctionRole::branch, named(state.module, loop->condition));
  }
  if (const auto* cond = std::get_if<CondAttr>(&f[node].attr))
    return state.add(FunctionRole::branch,
                     named(state.module, which == 0 ? cond->then_function : cond->else_function));
  return state.add(FunctionRole::check, *outer.checks.at(node)[size_t(which)].violation);
}

} // namespace

std::vector<InnerFunction> inner_functions(FunctionPlan& f) {
  std::vector<InnerFunction> found;
  const auto add = [&](NodeId node, int which) { found.push_back({&f, node, which}); };
  const auto checks = [&](NodeId id) {
    const auto of_node = f.checks.find(id);
    if (of_node == f.checks.end() || f.inner.contains(id)) return; // as load steps have found
    f.inner[id].resize(of_node->second.size());
    for (size_t i = 0; i < of_node->second.size(); i++)
      if (of_node->second[i].violation) add(id, int(i));
  };
  for (const Section* section : {f.load ? &*f.load : nullptr, &f.step}) {
    if (!section) continue;
    for (int a : section->order) {
      const Action& action = section->actions[size_t(a)];
      for (NodeId id : action.checked) checks(id);
      if (!action.boundary) continue;
      const NodeId node = action.roots[0];
      const auto* loop = std::get_if<LoopAttr>(&(*f.function)[node].attr);
      const int count = loop                                         ? 1 + !loop->condition.empty()
                        : (*f.function)[node].kind == NodeKind::cond ? 2
                                                                     : 0;
      if (count == 0) continue;
      f.inner[node].resize(size_t(count));
      for (int which = 0; which < count; which++) add(node, which);
    }
  }
  return found;
}

FunctionPlan& open_function(PlanState& state, const InnerFunction& inner) {
  FunctionPlan& made = open_inner(state, *inner.outer, inner.node, inner.which);
  inner.outer->inner.at(inner.node)[size_t(inner.which)] = &made;
  return made;
}

} // namespace luminal::compile
