// compile/place_steps.cpp -- the steps of a plan over its slots: launches, copies, checks; and the
// arena that slots share.
#include "base/check.h"
#include "base/hash.h"
#include "compile/pass_list.h"
#include "compile/step_placer.h"
#include "ir/infer.h"
#include "runtime/arena.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::compile {

using runtime::SlotId;
using runtime::SlotKind;
using runtime::Step;

namespace {

Expr byte_count(const TensorType& type) {
  Expr n = 1;
  for (Expr extent : type.shape) n *= extent;
  int width = bits(type.dtype);
  return width >= 8 ? n * (width / 8) : ceildiv(n, 8 / width);
}

/// A hash of the nodes that compute a value and of the weights' names: equal for equal values of
/// different functions.
uint64_t name_of_value(const Function& f, NodeId value) {
  Function part;
  std::string weights;
  std::map<NodeId, NodeId> number;
  for (NodeId id : needed_nodes({&f, {}, {value}})) {
    Node node = f[id];
    if (auto* input = std::get_if<InputAttr>(&node.attr)) weights += input->name + ";";
    for (NodeId& input : node.inputs) input = number.at(input);
    number[id] = part.nodes.add(std::move(node));
  }
  return hash64(weights, structural_hash(part));
}

} // namespace

SlotId StepPlacer::add_slot(std::string name, SlotKind kind, const TensorType& type) {
  runtime::Slot slot;
  slot.name = std::move(name);
  slot.kind = kind;
  slot.type = type;
  slot.bytes = byte_count(type);
  Interval range = slot.bytes.range();
  if (range.high == unbounded_high)
    throw Error(
        fmt::format("{} {} has no largest size: every dimension needs a range", slot.name, to_string(type)));
  slot.max_bytes = range.high;
  return plan_.slots.add(std::move(slot));
}

SlotId StepPlacer::slot_of(const Function& f, const Slots& slots, NodeId origin, int result) {
  if (auto found = slots.find(origin); found != slots.end()) return found->second;
  for (const auto& [node, slot] : slots) // results of folds are kept under their `get`s
    if (f[node].kind == NodeKind::get && f[node].inputs[0] == origin &&
        std::get<GetAttr>(f[node].attr).index == result)
      return slot;
  LUMINAL_CHECK(false, "node {} of {} has no storage", origin, f.name);
  return {};
}

/// A wanted value that is there already is copied first: a later step may update it in place.
std::map<NodeId, SlotId> StepPlacer::copy_rebound(const FunctionPlan& plan, const Region& region,
                                                  const Slots& slots,
                                                  const std::vector<Rebinding>& rebindings, Steps& steps) {
  const Function& f = *plan.function;
  std::map<NodeId, SlotId> early;
  for (NodeId id : region.wanted) {
    const NodeId origin = storage_of(plan, id);
    if (!region.given.contains(origin) || early.contains(id)) continue;
    SlotId from = slots.at(origin);
    bool rebound = false;
    for (const Rebinding& r : rebindings) rebound |= r.param == origin && storage_of(plan, r.value) != origin;
    if (!rebound) continue;
    SlotId to = add_slot(plan_.slots[from].name + ".old", SlotKind::arena, f[id].type());
    steps.push_back(runtime::Copy{to, from});
    early[id] = to;
  }
  return early;
}

StepPlacer::Steps StepPlacer::place(const FunctionPlan& plan, const Section& section, Slots& slots,
                                    const std::vector<Rebinding>& rebindings) {
  const Function& f = *plan.function;
  Steps steps;
  const auto early = copy_rebound(plan, section.region, slots, rebindings, steps);
  for (NodeId id : needed_nodes(section.region))
    if (f[id].kind == NodeKind::constant && !slots.contains(id)) {
      SlotId slot = add_slot(fmt::format("c{}", plan_.slots.size()), SlotKind::constant, f[id].type());
      plan_.slots[slot].data = std::get<ConstantAttr>(f[id].attr).data;
      slots[id] = slot;
    }
  for (int a : section.order) {
    const Action& action = section.actions[size_t(a)];
    if (action.boundary)
      place_boundary(plan, action, slots, steps);
    else
      place_kernel(plan, action, slots, steps);
  }
  for (const Rebinding& r : rebindings) {
    SlotId from = early.contains(r.value) ? early.at(r.value) : slots.at(r.value);
    if (from != slots.at(r.param)) steps.push_back(runtime::Copy{slots.at(r.param), from});
  }
  for (auto [id, slot] : early) slots[id] = slot; // what `wanted` means from here on
  return steps;
}

/// Every hole whose operand must be in range.
void StepPlacer::place_range_checks(const FunctionPlan& plan, NodeId id, const Slots& slots, Steps& steps) {
  const Function& f = *plan.function;
  const Node& node = f[id];
  const std::vector<Hole>& holes = holes_of(node.attr);
  for (size_t h = 0; h < holes.size(); h++) {
    const Hole& hole = holes[h];
    NodeId operand = node.inputs[size_t(hole.input)];
    if (hole.policy != OutOfRange::error || !slots.contains(operand)) continue;
    runtime::RangeCheck check{.slot = slots.at(operand), .range = hole.range};
    if (const auto limit = open_limit(state_.module, plan.facts, f, id, h)) {
      if (limit->is_constant())
        check.range.high = std::min(check.range.high, limit->value() - 1);
      else
        check.limit = *limit;
    }
    check.text = fmt::format("[{}] index {} is out of range",
                             !node.origin.empty()             ? node.origin
                             : node.kind == NodeKind::scatter ? "scatter"
                                                              : "gather",
                             f[operand].name.empty() ? plan_.slots[check.slot].name : f[operand].name);
    const bool known = std::ranges::any_of(steps, [&](const Step& step) {
      const auto* s = step.as<runtime::RangeCheck>();
      return s && s->slot == check.slot && s->range == check.range && s->limit == check.limit;
    });
    if (!known) steps.push_back(std::move(check));
  }
}

void StepPlacer::place_access_checks(const FunctionPlan& f, NodeId id, const Slots& slots, Steps& steps) {
  const auto of_node = f.checks.find(id);
  if (of_node == f.checks.end()) return;
  for (size_t i = 0; i < of_node->second.size(); i++) {
    const AccessCheck& check = of_node->second[i];
    runtime::AccessCheck step{.enough = plan_.conditions.add(check.enough), .text = check.text};
    if (check.violation) {
      std::vector<SlotId> operands, results;
      for (NodeId operand : check.operands) operands.push_back(slots.at(operand));
      step.body = run_function(*f.inner.at(id)[i], operands, results);
      step.violation = results[0];
    }
    steps.push_back(std::move(step));
  }
}

void StepPlacer::place_kernel(const FunctionPlan& plan, const Action& action, Slots& slots, Steps& steps) {
  const Function& f = *plan.function;
  for (NodeId id : action.checked) {
    place_range_checks(plan, id, slots, steps);
    place_access_checks(plan, id, slots, steps);
  }
  for (NodeId root : action.roots) {
    if (f[root].kind == NodeKind::scatter) {
      const NodeId base = f[root].inputs[0];
      if (action.in_place.contains(root))
        slots[root] = slots.at(base);
      else {
        slots[root] = add_slot(fmt::format("v{}", plan_.slots.size()), SlotKind::arena, f[root].type());
        if (updates_base(*action.cone)) steps.push_back(runtime::Copy{slots[root], slots.at(base)});
      }
    } else if (const auto state = action.in_place.find(root); state != action.in_place.end())
      slots[root] = slots.at(state->second);
    else
      slots[root] = add_slot(f[root].name.empty() ? fmt::format("v{}", plan_.slots.size()) : f[root].name,
                             SlotKind::arena, f[root].type());
  }
  if (!action.kernel) return;
  runtime::Launch launch{action.kernel, {}};
  for (const auto& value : action.cone->values)
    if (value.role != kernel::ValueRole::interior)
      launch.slots.push_back(slot_of(f, slots, value.origin, value.result));
  steps.push_back(std::move(launch));
}

StepPlacer::Steps StepPlacer::run_function(const FunctionPlan& f, const std::vector<SlotId>& param_slots,
                                           std::vector<SlotId>& results) {
  const Function& body = *f.function;
  Slots slots;
  for (size_t i = 0; i < body.params.size(); i++) slots[body.params[i]] = param_slots[i];
  Steps steps = place(f, f.step, slots, f.rebindings);
  for (const auto& result : body.results) results.push_back(slots.at(result.value));
  return steps;
}

/// What is computed on the way to the wanted values is gone when steps run.
void StepPlacer::place_load(const FunctionPlan& plan, Slots& slots) {
  Slots at_load = slots;
  plan_.load_steps = place(plan, *plan.load, at_load, {});
  for (NodeId id : plan.load->region.wanted) {
    slots[id] = at_load.at(id);
    runtime::Slot& slot = plan_.slots[slots[id]];
    slot.kind = SlotKind::loaded;
    slot.offset = -1;
    slot.key = name_of_value(*plan.function, id);
  }
  plan_.load_arena_bytes = place_in_arena(plan_.load_steps, plan_.slots);
}

void StepPlacer::run() {
  const FunctionPlan& entry = state_.entry();
  const Function& f = *entry.function;
  Slots slots;
  for (size_t i = 0; i < f.params.size(); i++) slots[f.params[i]] = SlotId(i);
  if (entry.load) place_load(entry, slots);
  plan_.steps = place(entry, entry.step, slots, entry.rebindings);
  for (const auto& result : f.results) plan_.results.push_back({result.name, slots.at(result.value)});
  for (const auto& result : plan_.results) plan_.slots[result.slot].pinned = true;
  plan_.arena_bytes = place_in_arena(plan_.steps, plan_.slots);
  mark_used_slots(plan_);
}

Result<void> add_parameters(PlanState& state) {
  const Function& f = state.module.entry();
  state.plan.name = f.name;
  state.plan.symbols = state.module.symbols;
  state.plan.assumptions = state.module.assumptions;
  StepPlacer placer(state);
  for (NodeId id : f.params) {
    const auto& input = std::get<InputAttr>(f[id].attr);
    placer.add_slot(input.name,
                    input.role == Role::weight  ? SlotKind::weight
                    : input.role == Role::state ? SlotKind::state
                                                : SlotKind::argument,
                    f[id].type());
  }
  return {};
}

Result<void> place_steps(PlanState& state) {
  StepPlacer(state).run();
  return {};
}

} // namespace luminal::compile
