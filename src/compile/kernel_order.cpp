// compile/kernel_order.cpp -- the kernels and steps of a part of a function, and an order of them
// that lets updates happen in place.
#include "base/check.h"
#include "compile/pass_list.h"
#include "ir/host_text.h"
#include "ir/interp.h"
#include <algorithm>
#include <fmt/format.h>
#include <ranges>

namespace luminal::compile {
namespace {

bool is_bound(const std::vector<Rebinding>& rebindings, const Function& f, NodeId param, NodeId scatter) {
  for (const Rebinding& r : rebindings) {
    if (r.param != param) continue;
    for (NodeId v = r.value; f[v].kind == NodeKind::scatter; v = f[v].inputs[0])
      if (v == scatter) return true;
  }
  return false;
}

bool reaches(const std::vector<Action>& actions, int from, int to) {
  std::vector<bool> seen(actions.size());
  std::vector<int> stack{to};
  while (!stack.empty()) {
    int at = stack.back();
    stack.pop_back();
    if (at == from) return true;
    if (seen[size_t(at)]) continue;
    seen[size_t(at)] = true;
    for (int before : actions[size_t(at)].after) stack.push_back(before);
  }
  return false;
}

Result<Action> kernel_action(PlanState& state, const FunctionPlan& f, const Section& section,
                             const std::vector<NodeId>& roots, const std::string& name) {
  Action action;
  action.roots = roots;
  auto known = state.cones.cone(*f.function, roots, section.in_memory, name);
  if (!known) return known.failure();
  action.shape = known->shape;
  for (const auto& value : known->cone.values) {
    if (value.role == kernel::ValueRole::input) action.reads.insert(value.origin);
    if (value.role == kernel::ValueRole::inout) action.reads.insert(value.base);
  }
  if (!f.checks.empty())
    for (NodeId id : kernel::cone_nodes(*f.function, roots, section.in_memory))
      if (const auto of_node = f.checks.find(id); of_node != f.checks.end())
        for (const AccessCheck& check : of_node->second)
          action.reads.insert(check.operands.begin(), check.operands.end());
  action.writes.insert(roots.begin(), roots.end());
  action.cone = std::move(known->cone);
  return action;
}

/// Steps of their own, with all that they give.
void add_boundaries(const Function& f, const std::vector<NodeId>& needed, std::vector<Action>& actions) {
  std::map<NodeId, std::vector<NodeId>> results; // of boundaries that give tuples
  for (NodeId id : needed)
    if (f[id].kind == NodeKind::get) results[f[id].inputs[0]].push_back(id);
  for (NodeId id : needed) {
    if (!is_own_step(f[id])) continue;
    Action action;
    action.boundary = true;
    action.roots = {id};
    action.reads.insert(f[id].inputs.begin(), f[id].inputs.end());
    action.writes.insert(id);
    if (const auto own = results.find(id); own != results.end())
      action.writes.insert(own->second.begin(), own->second.end());
    actions.push_back(std::move(action));
  }
}

/// Effects whose results are bound `after` others come in that order.
void order_effects(const Function& f, const std::map<NodeId, int>& writer, std::vector<Action>& actions) {
  std::map<std::string, int> effects;
  for (const auto& result : f.results)
    if (auto found = writer.find(result.value); found != writer.end()) effects[result.name] = found->second;
  for (const auto& result : f.results)
    for (const std::string& before : result.after)
      if (effects.contains(result.name) && effects.contains(before)) {
        const int a = effects[result.name], b = effects[before];
        if (a != b && actions[size_t(a)].boundary && actions[size_t(b)].boundary && !reaches(actions, a, b))
          actions[size_t(a)].after.insert(b);
      }
}

/// A value that a kernel would only copy, element by element in their order, from one that another kernel
/// stores for good: the same memory holds both, unless both are results.
bool lies_as_its_input(const FunctionPlan& plan, const Section& section, NodeId root) {
  const Function& f = *plan.function;
  const auto* view = std::get_if<ViewAttr>(&f[root].attr);
  if (!view || !section.in_memory.contains(f[root].inputs[0])) return false;
  const NodeId storage = storage_of(plan, f[root].inputs[0]);
  const auto changes = [&](const Rebinding& r) { return r.value == storage || r.value == root; };
  const auto shares = [&](NodeId id) { return id != root && storage_of(plan, id) == storage; };
  return !section.region.given.contains(storage) && f[storage].kind != NodeKind::constant &&
         f[storage].kind != NodeKind::input && f[storage].kind != NodeKind::scatter &&
         f[f[root].inputs[0]].type().dtype == f[root].type().dtype &&
         is_reshape(*view, f[f[root].inputs[0]].type().shape) &&
         std::ranges::none_of(plan.rebindings, changes) &&
         std::ranges::none_of(section.region.wanted, shares);
}

Result<void> make_actions(PlanState& state, FunctionPlan& f, Section& section) {
  const Function& function = *f.function;
  section.in_memory = values_in_memory(section.region, *section.partition);
  section.in_memory.insert(section.region.given.begin(), section.region.given.end());
  std::vector<Action>& actions = section.actions;
  for (const auto& roots : section.partition->kernels) {
    if (roots.size() == 1 && lies_as_its_input(f, section, roots[0])) {
      f.reshaped.insert(roots[0]);
      Action& action = actions.emplace_back();
      action.boundary = true;
      action.roots = roots;
      action.reads = {function[roots[0]].inputs[0]};
      action.writes = {roots[0]};
      continue;
    }
    auto action = kernel_action(state, f, section, roots, fmt::format("k{}", actions.size()));
    if (!action) return action.failure();
    actions.push_back(std::move(*action));
  }
  Region own = section.region;
  std::vector<NodeId> needed = needed_nodes(own);
  std::erase_if(needed, [&](NodeId id) { return own.given.contains(id); });
  add_boundaries(function, needed, actions);
  for (Action& action : actions)
    for (NodeId id : std::set<NodeId>(action.reads)) action.reads.insert(storage_of(f, id));
  std::map<NodeId, int> writer;
  for (size_t a = 0; a < actions.size(); a++)
    for (NodeId id : actions[a].writes) {
      writer[id] = int(a);
      if (function[id].kind == NodeKind::get) writer[function[id].inputs[0]] = int(a);
    }
  for (size_t a = 0; a < actions.size(); a++)
    for (NodeId id : actions[a].reads)
      if (auto found = writer.find(id); found != writer.end() && found->second != int(a))
        actions[a].after.insert(found->second);
  order_effects(function, writer, actions);
  return {};
}

} // namespace

bool updates_base(const kernel::Cone& cone) {
  return std::any_of(cone.values.begin(), cone.values.end(),
                     [](const auto& value) { return value.role == kernel::ValueRole::inout; });
}

namespace {

/// Does the formula, or one inside of it, read the value?
template <class Allowed>
bool reads(const kernel::Formula& formula, kernel::ValueId value, const Allowed& allowed) {
  if (const auto* load = load_of(formula); load && load->value == value && !allowed(*load, formula.dtype))
    return true;
  return std::ranges::any_of(args_of(formula),
                             [&](const kernel::FormulaRef& arg) { return reads(*arg, value, allowed); });
}

/// Each element of `base` is read, if at all, only by the point that writes the same element of the
/// one root: the result may lie where `base` lies.
bool elementwise_on(const kernel::Cone& cone, NodeId base) {
  kernel::ValueId from;
  for (const kernel::ValueId v : cone.values.ids())
    if (cone.values[v].role == kernel::ValueRole::input && cone.values[v].origin == base) from = v;
  if (!from) return true;
  const auto never = [](const kernel::FormulaLoad&, DType) { return false; };
  for (const kernel::ConeHole& hole : cone.holes)
    if (reads(*hole.value, from, never)) return false;
  for (const kernel::Stage& stage : cone.stages)
    for (const kernel::Component& c : stage.components) {
      bool once = c.kind == kernel::ComponentKind::map && c.out &&
                  cone.values[c.out].role == kernel::ValueRole::output;
      for (const kernel::AxisId axis : c.after ? c.axes : stage.axes) { // a point for each element
        const Expr symbol = cone.axes[axis].symbol;
        once = once && (!symbol.is_symbol() || std::ranges::find(c.index, symbol) != c.index.end());
      }
      const auto own = [&](const kernel::FormulaLoad& load, DType dtype) {
        return once && load.index == c.index && dtype == cone.values[from].dtype &&
               cone.values[c.out].layout == cone.values[from].layout;
      };
      if ((c.body && reads(*c.body, from, own)) || (c.init && reads(*c.init, from, never))) return false;
    }
  return true;
}

/// The state (or carried value) that a root of the kernel becomes, where the root may lie in its
/// place: of the same type, made element by element; of several roots at the same point.
std::optional<NodeId> updated_state(const Function& f, const Action& action, NodeId root,
                                    const std::vector<Rebinding>& rebindings) {
  if (action.roots.size() > 1 && action.cone->stages.size() > 1) return {};
  for (const Rebinding& r : rebindings)
    if (r.value == root && f[r.param].type() == f[root].type() && elementwise_on(*action.cone, r.param))
      return r.param;
  return {};
}

/// What the root may lie in the place of, whoever else reads it.
std::optional<NodeId> base_of(const FunctionPlan& plan, const Section& section, const Action& action,
                              NodeId root, const std::vector<Rebinding>& rebindings) {
  const Function& f = *plan.function;
  const std::set<NodeId>& given = section.region.given;
  if (f[root].kind != NodeKind::scatter) {
    const auto state = updated_state(f, action, root, rebindings);
    return state && given.contains(*state) ? state : std::nullopt;
  }
  if (!updates_base(*action.cone)) return {};
  const NodeId base = storage_of(plan, f[root].inputs[0]);
  if (f[base].kind == NodeKind::constant) return {};
  if (given.contains(base) && !is_bound(rebindings, f, base, root)) return {};
  return base;
}

/// Does one of the others wait for the action?
bool comes_before_any(const std::vector<std::vector<int>>& followers, int action,
                      const std::vector<int>& others) {
  std::vector<bool> seen(followers.size());
  for (std::vector<int> stack{action}; !stack.empty();) {
    const int at = stack.back();
    stack.pop_back();
    if (seen[size_t(at)]) continue;
    seen[size_t(at)] = true;
    if (std::ranges::find(others, at) != others.end()) return true;
    stack.insert(stack.end(), followers[size_t(at)].begin(), followers[size_t(at)].end());
  }
  return false;
}

/// A scatter updates its base's storage, and an elementwise result the storage of the state that it
/// becomes, where the old value is not needed afterwards: all other readers can come first.
void order_in_place(const FunctionPlan& plan, const std::vector<Rebinding>& rebindings, Section& section) {
  std::vector<Action>& actions = section.actions;
  std::set<NodeId> kept, taken;
  for (NodeId id : section.region.wanted) kept.insert(storage_of(plan, id));
  std::map<NodeId, std::vector<int>> readers_of;
  std::vector<std::vector<int>> followers(actions.size());
  for (size_t a = 0; a < actions.size(); a++) {
    for (NodeId id : actions[a].reads) readers_of[id].push_back(int(a));
    for (int before : actions[a].after) followers[size_t(before)].push_back(int(a));
  }
  for (size_t a = 0; a < actions.size(); a++) {
    Action& action = actions[a];
    if (action.boundary) continue;
    for (const NodeId root : action.roots) {
      const auto base = base_of(plan, section, action, root, rebindings);
      if (!base || taken.contains(*base) || kept.contains(*base)) continue;
      std::vector<int> readers = readers_of[*base];
      std::erase(readers, int(a));
      if (comes_before_any(followers, int(a), readers)) continue;
      for (int reader : readers)
        if (action.after.insert(reader).second) followers[size_t(reader)].push_back(int(a));
      taken.insert(*base);
      action.in_place[root] = *base;
    }
  }
}

/// Each action comes just before the first that needs it, so that no memory holds its results for
/// long.
std::vector<int> topological(const std::vector<Action>& actions) {
  std::vector<bool> needed(actions.size()), seen(actions.size()), placed(actions.size());
  for (const Action& action : actions)
    for (int before : action.after) needed[size_t(before)] = true;
  std::vector<int> order, stack;
  for (size_t last = 0; last < actions.size(); last++) {
    if (needed[last]) continue;
    stack.push_back(int(last));
    while (!stack.empty()) {
      const int a = stack.back();
      bool waits = false;
      for (int before : std::views::reverse(actions[size_t(a)].after)) {
        if (placed[size_t(before)]) continue;
        LUMINAL_CHECK(!seen[size_t(a)], "kernels form a cycle");
        stack.push_back(before);
        waits = true;
      }
      seen[size_t(a)] = true;
      if (waits) continue;
      stack.pop_back();
      if (placed[size_t(a)]) continue;
      placed[size_t(a)] = true;
      order.push_back(a);
    }
  }
  LUMINAL_CHECK(order.size() == actions.size(), "kernels form a cycle");
  return order;
}

/// What must hold for the nodes below the roots is checked before the first kernel that reads or
/// writes by them.
void order_checks(const Function& f, Section& section) {
  std::set<NodeId> checked;
  for (int a : section.order) {
    Action& action = section.actions[size_t(a)];
    if (action.boundary) continue;
    std::vector<NodeId> stack = action.roots;
    std::set<NodeId> seen;
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      if (!seen.insert(id).second) continue;
      if (checked.insert(id).second) action.checked.push_back(id);
      for (NodeId input : f[id].inputs)
        if (!section.in_memory.contains(input)) stack.push_back(input);
    }
  }
}

} // namespace

bool is_reshape(const ViewAttr& view, const Shape& input) {
  if (!view.predicate.is_constant(1) || !view.holes.empty() || view.map.size() != input.size()) return false;
  const auto offset = [](const Shape& shape, const std::vector<Expr>& index) {
    Expr sum = 0;
    for (size_t d = 0; d < shape.size(); d++) sum = sum * shape[d] + index[d];
    return sum;
  };
  const auto count = [](const Shape& shape) {
    Expr n = 1;
    for (Expr extent : shape) n *= extent;
    return n;
  };
  std::vector<Expr> own;
  for (size_t d = 0; d < view.shape.size(); d++) own.push_back(axis_symbol(int(d), view.shape[d]));
  return count(input) == count(view.shape) && offset(input, view.map) == offset(view.shape, own);
}

NodeId storage_of(const FunctionPlan& plan, NodeId id) {
  const Function& f = *plan.function;
  for (;;) {
    const Node& node = f[id];
    if (node.kind == NodeKind::get && f[node.inputs[0]].kind == NodeKind::host &&
        passes_input_on(std::get<HostAttr>(f[node.inputs[0]].attr).kind))
      id = f[node.inputs[0]].inputs[0];
    else if (node.kind == NodeKind::fence || plan.reshaped.contains(id))
      id = node.inputs[0];
    else
      return id;
  }
}

Result<void> build_cones(PlanState& state, FunctionPlan& f) {
  if (f.load)
    if (auto done = make_actions(state, f, *f.load); !done) return done;
  return make_actions(state, f, f.step);
}

Result<void> order_kernels(PlanState&, FunctionPlan& f) {
  const auto order = [&](Section& section, const std::vector<Rebinding>& rebindings) {
    order_in_place(f, rebindings, section);
    section.order = topological(section.actions);
    if (auto other = order_of_less_memory(f, section); !other.empty()) section.order = std::move(other);
    order_checks(*f.function, section);
  };
  if (f.load) order(*f.load, {});
  order(f.step, f.rebindings);
  return {};
}

} // namespace luminal::compile
