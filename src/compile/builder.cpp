// compile/builder.cpp -- regions to steps: kernels in an order that lets updates happen in place.
#include "compile/builder.h"
#include "base/check.h"
#include "base/hash.h"
#include "compile/panels.h"
#include "compile/rewrite.h"
#include "ir/host_text.h"
#include "ir/infer.h"
#include "ir/interp.h"
#include <algorithm>
#include <fmt/format.h>
#include <ranges>

namespace luminal::compile {

using runtime::SlotKind;
using runtime::Step;
using runtime::StepKind;

namespace {

Expr byte_count(const TensorType& type) {
  Expr n = 1;
  for (Expr extent : type.shape) n *= extent;
  int width = bits(type.dtype);
  return width >= 8 ? n * (width / 8) : ceildiv(n, 8 / width);
}

/// Equal cones of different layers share one kernel, whatever their names; dimensions are
/// arguments, so they count.
Hash128 cone_key(const kernel::CanonicalCone& cone) {
  Hasher h;
  h.add(structural_hash128(cone.cone));
  for (const auto& [canonical, given] : cone.dimensions) h.add(given.name());
  return h.value128();
}

/// Every result has no elements, at any sizes.
bool writes_nothing(const kernel::Cone& cone) {
  return std::all_of(cone.values.begin(), cone.values.end(), [](const kernel::ConeValue& value) {
    const bool empty =
        std::any_of(value.shape.begin(), value.shape.end(), [](Expr e) { return e.is_constant(0); });
    return value.role == kernel::ValueRole::output ? empty : value.role != kernel::ValueRole::inout;
  });
}

/// Points of all stages; unbounded products are cut off, since only small numbers matter.
Expr points_of(const kernel::Cone& cone) {
  Expr total = 0;
  for (const auto& stage : cone.stages) {
    Expr points = 1;
    for (int axis : stage.axes) points = min(points * cone.axes[size_t(axis)].extent, int64_t(1) << 31);
    total += points;
  }
  return total;
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
    number[id] = NodeId(part.nodes.size());
    part.nodes.push_back(std::move(node));
  }
  return hash64(weights, structural_hash(part));
}

bool is_bound(const std::vector<Rebinding>& rebindings, const Function& f, NodeId param, NodeId scatter) {
  for (const Rebinding& r : rebindings) {
    if (r.param != param) continue;
    for (NodeId v = r.value; f[v].kind == NodeKind::scatter; v = f[v].inputs[0])
      if (v == scatter) return true;
  }
  return false;
}

bool updates_base(const kernel::Cone& cone) {
  return std::any_of(cone.values.begin(), cone.values.end(),
                     [](const auto& value) { return value.role == kernel::ValueRole::inout; });
}

/// The node whose storage the value lies in: fences and effects that pass their input on have none
/// of their own.
NodeId storage_of(const Function& f, NodeId id) {
  for (;;) {
    const Node& node = f[id];
    if (node.kind == NodeKind::get && f[node.inputs[0]].kind == NodeKind::host &&
        passes_input_on(std::get<HostAttr>(f[node.inputs[0]].attr).kind))
      id = f[node.inputs[0]].inputs[0];
    else if (node.kind == NodeKind::fence)
      id = node.inputs[0];
    else
      return id;
  }
}

} // namespace

int PlanBuilder::add_slot(std::string name, SlotKind kind, const TensorType& type) {
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
  plan_.slots.push_back(std::move(slot));
  return int(plan_.slots.size()) - 1;
}

const Function& PlanBuilder::keep(Function function) {
  functions_.push_back(std::move(function));
  return functions_.back();
}

const Function& PlanBuilder::prepared(const Function& function, StepFusion* fusion) {
  const Function* plain = &function;
  if (has_calls_or_sorts(function) || splits_tuples(function))
    plain = &keep(split_tuples(module_, expand_sorts(module_, inline_calls(module_, function))));
  KernelSplitter::Split split = splitter_.split(*plain);
  const Function& result = split.function.nodes.empty() ? *plain : keep(std::move(split.function));
  if (fusion) {
    *fusion = std::move(split.fusion);
    fusion->step.function = &result;
  }
  return result;
}

const Function& PlanBuilder::checked(const Function& function) {
  Function clean;
  std::map<NodeId, std::vector<AccessCheck>> checks;
  for (NodeId id = 0; id < function.nodes.size(); id++) {
    if (auto found = access_checks(module_, facts_, function, id); !found.empty())
      checks[id] = std::move(found);
    auto attr = without_traps(function[id].attr);
    if (!attr) continue;
    if (clean.nodes.empty()) clean = function;
    clean.nodes[id].attr = std::move(*attr);
  }
  const Function& result = clean.nodes.empty() ? function : keep(std::move(clean));
  if (!checks.empty()) checks_[&result] = std::move(checks);
  return result;
}

Step PlanBuilder::copy(int to, int from) const {
  Step step;
  step.kind = StepKind::copy;
  step.slots = {to, from};
  return step;
}

int PlanBuilder::slot_of(const Function& f, const Slots& slots, NodeId origin, int result) const {
  if (auto found = slots.find(origin); found != slots.end()) return found->second;
  for (const auto& [node, slot] : slots) // results of folds are kept under their `get`s
    if (f[node].kind == NodeKind::get && f[node].inputs[0] == origin &&
        std::get<GetAttr>(f[node].attr).index == result)
      return slot;
  LUMINAL_CHECK(false, "node {} of {} has no storage", origin, f.name);
  return -1;
}

Result<runtime::Plan> PlanBuilder::build() {
  if (auto why = too_much_to_inline(module_)) return Failure{*why};
  StepFusion known;
  const Function& plain = prepared(module_.entry(), &known);
  PackedFunction packed = pack_constants(plain, chooser_.limits(), known);
  const bool as_it_was = packed.function.nodes.empty(); // then its kernels are known already
  const Function& f = checked(as_it_was ? plain : keep(std::move(packed.function)));
  plan_.name = f.name;
  plan_.symbols = module_.symbols;
  plan_.assumptions = module_.assumptions;

  Slots slots;
  Region region;
  region.function = &f;
  for (NodeId id : f.params) {
    const auto& input = std::get<InputAttr>(f[id].attr);
    SlotKind kind = input.role == Role::weight  ? SlotKind::weight
                    : input.role == Role::state ? SlotKind::state
                                                : SlotKind::argument;
    slots[id] = add_slot(input.name, kind, f[id].type());
    region.given.insert(id);
  }
  std::vector<Rebinding> rebindings;
  for (const auto& result : f.results) {
    region.wanted.push_back(result.value);
    if (result.state.empty()) continue;
    for (NodeId id : f.params)
      if (std::get<InputAttr>(f[id].attr).name == result.state) rebindings.push_back({id, result.value});
  }

  Region load = region;
  load.wanted = as_it_was ? known.load_values : load_time_values(region);
  for (const auto& [panels, from] : packed.panels) { // they are all that is read of it
    std::erase(load.wanted, from);
    load.wanted.push_back(panels);
  }
  if (!load.wanted.empty()) {
    Slots at_load = slots; // what is computed on the way to the wanted values is gone when steps run
    auto steps = lower(load, at_load, {});
    if (!steps) return steps.failure();
    plan_.load_steps = std::move(*steps);
    for (NodeId id : load.wanted) {
      slots[id] = at_load.at(id);
      runtime::Slot& slot = plan_.slots[size_t(slots[id])];
      slot.kind = SlotKind::loaded;
      slot.offset = -1;
      slot.key = name_of_value(f, id);
      region.given.insert(id);
    }
    plan_.load_arena_bytes = place_in_arena(plan_.load_steps, plan_.slots);
  }

  auto steps =
      lower(region, slots, rebindings, as_it_was ? std::optional(std::move(known.fusion)) : std::nullopt);
  if (!steps) return steps.failure();
  plan_.steps = std::move(*steps);
  for (const auto& result : f.results) plan_.results.push_back({result.name, slots.at(result.value)});
  for (const auto& result : plan_.results) plan_.slots[size_t(result.slot)].pinned = true;
  plan_.arena_bytes = place_in_arena(plan_.steps, plan_.slots);
  mark_used_slots(plan_);
  return std::move(plan_);
}

Result<std::vector<PlanBuilder::Action>> PlanBuilder::plan_actions(const Region& region, const Fusion& fusion,
                                                                   const Slots& slots) {
  const Function& f = *region.function;
  std::set<NodeId> readable = fusion.stored;
  for (const auto& [id, _] : slots) readable.insert(id);
  std::vector<Action> actions;
  for (const auto& roots : fusion.kernels) {
    Action action;
    action.roots = roots;
    auto known = cones_.cone(f, roots, readable, fmt::format("k{}", actions.size()));
    if (!known) return known.failure();
    action.shape = known->shape;
    for (const auto& value : known->cone.values) {
      if (value.role == kernel::ValueRole::input) action.reads.insert(value.origin);
      if (value.role == kernel::ValueRole::inout) action.reads.insert(value.base);
    }
    if (const auto checks = checks_.find(&f); checks != checks_.end())
      for (NodeId id : kernel::cone_nodes(f, roots, readable))
        if (const auto of_node = checks->second.find(id); of_node != checks->second.end())
          for (const AccessCheck& check : of_node->second)
            action.reads.insert(check.operands.begin(), check.operands.end());
    action.writes.insert(roots.begin(), roots.end());
    action.cone = std::move(known->cone);
    actions.push_back(std::move(action));
  }
  std::map<NodeId, std::vector<NodeId>> results; // of boundaries that give tuples
  for (NodeId id : fusion.stored)
    if (f[id].kind == NodeKind::get) results[f[id].inputs[0]].push_back(id);
  for (NodeId id : fusion.boundaries) {
    Action action;
    action.boundary = true;
    action.roots = {id};
    action.reads.insert(f[id].inputs.begin(), f[id].inputs.end());
    action.writes.insert(id);
    if (const auto own = results.find(id); own != results.end())
      action.writes.insert(own->second.begin(), own->second.end());
    actions.push_back(std::move(action));
  }
  for (Action& action : actions)
    for (NodeId id : std::set<NodeId>(action.reads)) action.reads.insert(storage_of(f, id));
  std::map<NodeId, int> writer;
  for (size_t a = 0; a < actions.size(); a++)
    for (NodeId id : actions[a].writes) {
      writer[id] = int(a);
      if (f[id].kind == NodeKind::get) writer[f[id].inputs[0]] = int(a);
    }
  for (size_t a = 0; a < actions.size(); a++)
    for (NodeId id : actions[a].reads)
      if (auto found = writer.find(id); found != writer.end() && found->second != int(a))
        actions[a].after.insert(found->second);
  // Effects whose results are bound `after` others come in that order.
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
  return actions;
}

bool PlanBuilder::reaches(const std::vector<Action>& actions, int from, int to) {
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

/// A scatter updates its base's storage where the base is not needed afterwards: all other readers
/// can come first.
void PlanBuilder::order_in_place(const Region& region, const std::vector<Rebinding>& rebindings,
                                 std::vector<Action>& actions) {
  const Function& f = *region.function;
  std::set<NodeId> kept, taken;
  for (NodeId id : region.wanted) kept.insert(storage_of(f, id));
  for (size_t a = 0; a < actions.size(); a++) {
    Action& action = actions[a];
    if (action.boundary || f[action.roots[0]].kind != NodeKind::scatter) continue;
    NodeId scatter = action.roots[0], base = storage_of(f, f[scatter].inputs[0]);
    const bool given = region.given.contains(base);
    if (taken.contains(base) || kept.contains(base) || f[base].kind == NodeKind::constant) continue;
    if (given && !is_bound(rebindings, f, base, scatter)) continue;
    if (!updates_base(*action.cone)) continue;
    std::vector<int> readers;
    bool possible = true;
    for (size_t r = 0; r < actions.size() && possible; r++) {
      if (r == a || !actions[r].reads.contains(base)) continue;
      readers.push_back(int(r));
      possible = !reaches(actions, int(a), int(r));
    }
    if (!possible) continue;
    action.after.insert(readers.begin(), readers.end());
    taken.insert(base);
    action.in_place = true;
  }
}

/// Each action comes just before the first that needs it, so that no memory holds its results for
/// long.
std::vector<int> PlanBuilder::topological(const std::vector<Action>& actions) {
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

Result<PlanBuilder::Steps> PlanBuilder::lower(const Region& region, Slots& slots,
                                              const std::vector<Rebinding>& rebindings,
                                              std::optional<Fusion> fusion) {
  const Function& f = *region.function;
  Steps steps;
  std::set<NodeId> outer;
  outer.swap(emitted_);
  // A wanted value that is there already is copied first: a later step may update it in place.
  std::map<NodeId, int> early;
  for (NodeId id : region.wanted) {
    const NodeId origin = storage_of(f, id);
    if (!region.given.contains(origin) || early.contains(id)) continue;
    int from = slots.at(origin);
    bool rebound = false;
    for (const Rebinding& r : rebindings) rebound |= r.param == origin && storage_of(f, r.value) != origin;
    if (!rebound) continue;
    int to = add_slot(plan_.slots[size_t(from)].name + ".old", SlotKind::arena, f[id].type());
    steps.push_back(copy(to, from));
    early[id] = to;
  }
  for (NodeId id : needed_nodes(region))
    if (f[id].kind == NodeKind::constant && !slots.contains(id)) {
      int slot = add_slot(fmt::format("c{}", plan_.slots.size()), SlotKind::constant, f[id].type());
      plan_.slots[size_t(slot)].data = std::get<ConstantAttr>(f[id].attr).data;
      slots[id] = slot;
    }

  Region with_checks = region;
  if (const auto checks = checks_.find(&f); checks != checks_.end())
    for (NodeId id : needed_nodes(region))
      if (const auto of_node = checks->second.find(id); of_node != checks->second.end())
        for (const AccessCheck& check : of_node->second)
          with_checks.read.insert(check.operands.begin(), check.operands.end());
  if (!fusion || !with_checks.read.empty()) fusion = fuse(with_checks);
  auto actions = plan_actions(region, *fusion, slots);
  if (!actions) return actions.failure();
  order_in_place(region, rebindings, *actions);
  for (int a : topological(*actions)) {
    Action& action = (*actions)[size_t(a)];
    auto done = action.boundary ? emit_boundary(f, action.roots[0], slots, steps)
                                : emit_kernel(f, action, slots, steps);
    if (!done) return done.failure();
  }
  outer.swap(emitted_);

  for (const Rebinding& r : rebindings) {
    int from = early.contains(r.value) ? early[r.value] : slots.at(r.value);
    if (from != slots.at(r.param)) steps.push_back(copy(slots.at(r.param), from));
  }
  for (auto [id, slot] : early) slots[id] = slot; // what `wanted` means from here on
  return steps;
}

/// What must hold for the nodes below the roots, before the kernel reads or writes by them.
Result<void> PlanBuilder::emit_checks(const Function& f, const Action& action, const Slots& slots,
                                      Steps& steps) {
  std::vector<NodeId> stack = action.roots;
  std::set<NodeId> seen;
  while (!stack.empty()) {
    NodeId id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second) continue;
    if (emitted_.insert(id).second) {
      emit_range_checks(f, id, slots, steps);
      if (auto done = emit_access_checks(f, id, slots, steps); !done) return done;
    }
    for (NodeId input : f[id].inputs)
      if (!slots.contains(input)) stack.push_back(input);
  }
  return {};
}

/// Every hole whose operand must be in range.
void PlanBuilder::emit_range_checks(const Function& f, NodeId id, const Slots& slots, Steps& steps) {
  const Node& node = f[id];
  const std::vector<Hole>& holes = holes_of(node.attr);
  for (size_t h = 0; h < holes.size(); h++) {
    const Hole& hole = holes[h];
    NodeId operand = node.inputs[size_t(hole.input)];
    if (hole.policy != OutOfRange::error || !slots.contains(operand)) continue;
    Step check;
    check.kind = StepKind::check;
    check.slots = {slots.at(operand)};
    check.range = hole.range;
    if (const auto limit = open_limit(module_, facts_, f, id, h)) {
      if (limit->is_constant())
        check.range.high = std::min(check.range.high, limit->value() - 1);
      else
        check.limit = *limit;
    }
    check.text =
        fmt::format("[{}] index {} is out of range",
                    !node.origin.empty()             ? node.origin
                    : node.kind == NodeKind::scatter ? "scatter"
                                                     : "gather",
                    f[operand].name.empty() ? plan_.slots[size_t(check.slots[0])].name : f[operand].name);
    bool known = std::any_of(steps.begin(), steps.end(), [&](const Step& s) {
      return s.kind == StepKind::check && s.enough < 0 && s.slots == check.slots && s.range == check.range &&
             s.limit == check.limit;
    });
    if (!known) steps.push_back(check);
  }
}

Result<void> PlanBuilder::emit_access_checks(const Function& f, NodeId id, const Slots& slots, Steps& steps) {
  const auto of_function = checks_.find(&f);
  if (of_function == checks_.end()) return {};
  const auto of_node = of_function->second.find(id);
  if (of_node == of_function->second.end()) return {};
  for (const AccessCheck& check : of_node->second) {
    Step step;
    step.kind = StepKind::check;
    step.text = check.text;
    step.enough = int(plan_.conditions.size());
    plan_.conditions.push_back(check.enough);
    if (check.violation) {
      std::vector<int> operands, results;
      for (NodeId operand : check.operands) operands.push_back(slots.at(operand));
      auto body = run_function(keep(*check.violation), operands, {}, results);
      if (!body) return body.failure();
      step.body = std::move(*body);
      step.slots = {results[0]};
      step.range = {0, 0};
    }
    steps.push_back(std::move(step));
  }
  return {};
}

Result<void> PlanBuilder::emit_kernel(const Function& f, Action& action, Slots& slots, Steps& steps) {
  if (auto done = emit_checks(f, action, slots, steps); !done) return done;
  for (NodeId root : action.roots) {
    if (f[root].kind == NodeKind::scatter) {
      int base = slots.at(f[root].inputs[0]);
      if (action.in_place)
        slots[root] = base;
      else {
        slots[root] = add_slot(fmt::format("v{}", plan_.slots.size()), SlotKind::arena, f[root].type());
        if (updates_base(*action.cone)) steps.push_back(copy(slots[root], base));
      }
    } else
      slots[root] = add_slot(f[root].name.empty() ? fmt::format("v{}", plan_.slots.size()) : f[root].name,
                             SlotKind::arena, f[root].type());
  }
  if (writes_nothing(*action.cone)) return {};
  auto kernel = kernel_of(f, action);
  if (!kernel) return kernel.failure();
  Step step;
  step.kernel = *kernel;
  for (const auto& value : action.cone->values) {
    switch (value.role) {
    case kernel::ValueRole::input: step.slots.push_back(slot_of(f, slots, value.origin, value.result)); break;
    case kernel::ValueRole::output:
    case kernel::ValueRole::inout: step.slots.push_back(slot_of(f, slots, value.origin, value.result)); break;
    case kernel::ValueRole::interior: break;
    }
  }
  steps.push_back(std::move(step));
  return {};
}

Result<int> PlanBuilder::kernel_of(const Function& f, const Action& action) {
  if (auto found = kernel_by_shape_.find(action.shape); found != kernel_by_shape_.end()) return found->second;
  kernel::Cone named = *action.cone;
  named.name = fmt::format("k{}", kernels_.size());
  const kernel::CanonicalCone canonical = kernel::canonical(named);
  const Hash128 key = cone_key(canonical);
  if (auto found = kernel_by_cone_.find(key); found != kernel_by_cone_.end())
    return kernel_by_shape_[action.shape] = found->second;
  runtime::KernelCode code;
  code.name = named.name;
  code.points = points_of(named);
  auto made = chooser_.choose({&module_, counters_, &f, action.roots, &named, &canonical}, code.points);
  if (!made) return made.failure();
  code.caps = made->caps;
  code.point_ns = made->point_ns;
  for (const kernel::ConeValue& value : named.values)
    if (value.role != kernel::ValueRole::interior)
      code.writes.push_back(value.role != kernel::ValueRole::input);
  made->loops.name = named.name;
  for (const Expr symbol : made->loops.symbols) code.symbols.push_back(canonical.dimensions.at(symbol));
  kernels_.push_back(std::move(*made));
  plan_.kernels.push_back(std::move(code));
  kernel_by_shape_[action.shape] = kernel_by_cone_[key] = int(kernels_.size()) - 1;
  return int(kernels_.size()) - 1;
}

} // namespace luminal::compile
