// compile/builder.cpp -- regions to steps: kernels in an order that lets updates happen in place.
#include "compile/builder.h"
#include "base/check.h"
#include "base/hash.h"
#include "codegen/llvm_kernel.h"
#include "compile/panels.h"
#include "compile/rewrite.h"
#include "ir/host_text.h"
#include "ir/interp.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::compile {

using runtime::SlotKind;
using runtime::Step;
using runtime::StepKind;

namespace {

/// CustomAttr::grid: blocks and threads along x, y, z, bytes of shared memory, then the kernel's integers.
constexpr size_t custom_integers = 7;

Expr byte_count(const TensorType& type) {
  Expr n = 1;
  for (Expr extent : type.shape) n *= extent;
  int width = bits(type.dtype);
  return width >= 8 ? n * (width / 8) : ceildiv(n, 8 / width);
}

/// Equal cones of different layers share one kernel, whatever their names; dimensions are arguments, so they count.
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

/// A hash of the nodes that compute a value and of the weights' names: equal for equal values of different functions.
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

/// The extent that a hole indexes, where it may be less than the hole's range says; else 0.
Expr open_limit(const Function& f, const Node& node, const Hole& hole) {
  const auto* view = std::get_if<ViewAttr>(&node.attr);
  const auto* scatter = std::get_if<ScatterAttr>(&node.attr);
  if (!view && !scatter) return 0;
  const auto& holes = view ? view->holes : scatter->holes;
  const Expr symbol = hole_symbol(int(&hole - holes.data()), hole.range);
  const auto& map = view ? view->map : scatter->map;
  Expr limit = 0;
  for (size_t d = 0; d < map.size(); d++) {
    const Expr extent = f[node.inputs[0]].type().shape[d];
    if (map[d] != symbol || prove(lt(hole.range.high, extent)) == Truth::yes) continue;
    limit = limit.is_constant(0) ? extent : min(limit, extent);
  }
  return limit;
}

/// The node whose storage the value lies in: fences and effects that pass their input on have none of their own.
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

const std::vector<Hole>* holes_of(const Node& node) {
  if (auto* view = std::get_if<ViewAttr>(&node.attr)) return &view->holes;
  if (auto* scatter = std::get_if<ScatterAttr>(&node.attr)) return &scatter->holes;
  if (auto* fold = std::get_if<FoldAttr>(&node.attr)) return &fold->holes;
  return nullptr;
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
  const Function& plain = keep(expand_sorts(module_, inline_calls(module_, module_.entry())));
  PackedFunction packed = pack_constants(plain, chooser_.limits());
  const Function& f = packed.panels.empty() ? plain : keep(std::move(packed.function));
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
  load.wanted = load_time_values(region);
  for (const auto& [panels, from] : packed.panels) { // they are all that is read of it
    std::erase(load.wanted, from);
    load.wanted.push_back(panels);
  }
  if (!load.wanted.empty()) {
    auto steps = lower(load, slots, {});
    if (!steps) return steps.failure();
    plan_.load_steps = std::move(*steps);
    for (NodeId id : load.wanted) {
      runtime::Slot& slot = plan_.slots[size_t(slots[id])];
      slot.kind = SlotKind::loaded;
      slot.offset = -1;
      slot.key = name_of_value(f, id);
      region.given.insert(id);
    }
    plan_.load_arena_bytes = place_in_arena(plan_.load_steps, plan_.slots);
  }

  auto steps = lower(region, slots, rebindings);
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
    std::set<NodeId> stored = readable;
    for (NodeId root : roots) stored.erase(root);
    auto cone =
        kernel::build_cone(f, roots, stored, {.name = fmt::format("k{}", actions.size()), .in_place = true});
    if (!cone &&
        f[roots[0]].kind == NodeKind::scatter) // it reads what it would update: the kernel copies the base
      cone = kernel::build_cone(f, roots, stored,
                                {.name = fmt::format("k{}", actions.size()), .in_place = false});
    if (!cone) return cone.failure();
    for (const auto& value : cone->values) {
      if (value.role == kernel::ValueRole::input) action.reads.insert(value.origin);
      if (value.role == kernel::ValueRole::inout) action.reads.insert(value.base);
    }
    action.writes.insert(roots.begin(), roots.end());
    action.cone = std::move(*cone);
    actions.push_back(std::move(action));
  }
  for (NodeId id : fusion.boundaries) {
    Action action;
    action.boundary = true;
    action.roots = {id};
    action.reads.insert(f[id].inputs.begin(), f[id].inputs.end());
    action.writes.insert(id);
    for (NodeId other : fusion.stored)
      if (f[other].kind == NodeKind::get && f[other].inputs[0] == id) action.writes.insert(other);
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

/// A scatter updates its base's storage where the base is not needed afterwards: all other readers can come first.
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
    in_place_.insert({scatter, &f});
  }
}

std::vector<int> PlanBuilder::topological(const std::vector<Action>& actions) {
  std::vector<int> order, waiting(actions.size());
  std::vector<std::vector<int>> users(actions.size());
  std::set<int> ready;
  for (size_t a = 0; a < actions.size(); a++) {
    waiting[a] = int(actions[a].after.size());
    for (int before : actions[a].after) users[size_t(before)].push_back(int(a));
    if (!waiting[a]) ready.insert(int(a));
  }
  while (!ready.empty()) {
    int a = *ready.begin();
    ready.erase(ready.begin());
    order.push_back(a);
    for (int user : users[size_t(a)])
      if (--waiting[size_t(user)] == 0) ready.insert(user);
  }
  LUMINAL_CHECK(order.size() == actions.size(), "kernels form a cycle");
  return order;
}

Result<PlanBuilder::Steps> PlanBuilder::lower(const Region& region, Slots& slots,
                                              const std::vector<Rebinding>& rebindings) {
  const Function& f = *region.function;
  Steps steps;
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

  Fusion fusion = fuse(region);
  auto actions = plan_actions(region, fusion, slots);
  if (!actions) return actions.failure();
  order_in_place(region, rebindings, *actions);
  for (int a : topological(*actions)) {
    Action& action = (*actions)[size_t(a)];
    auto done = action.boundary ? emit_boundary(f, action.roots[0], slots, steps)
                                : emit_kernel(f, action, slots, steps);
    if (!done) return done.failure();
  }

  for (const Rebinding& r : rebindings) {
    int from = early.contains(r.value) ? early[r.value] : slots.at(r.value);
    if (from != slots.at(r.param)) steps.push_back(copy(slots.at(r.param), from));
  }
  for (auto [id, slot] : early) slots[id] = slot; // what `wanted` means from here on
  return steps;
}

void PlanBuilder::emit_checks(const Function& f, const Action& action, const Slots& slots, Steps& steps) {
  // Every hole below the roots whose operand must be in range.
  std::vector<NodeId> stack = action.roots;
  std::set<NodeId> seen;
  while (!stack.empty()) {
    NodeId id = stack.back();
    stack.pop_back();
    if (!seen.insert(id).second) continue;
    const Node& node = f[id];
    if (const auto* holes = holes_of(node))
      for (const Hole& hole : *holes) {
        NodeId operand = node.inputs[size_t(hole.input)];
        if (hole.policy != OutOfRange::error || !slots.contains(operand)) continue;
        Step check;
        check.kind = StepKind::check;
        check.slots = {slots.at(operand)};
        check.range = hole.range;
        check.limit = open_limit(f, node, hole);
        check.text =
            fmt::format("[{}] index {} is out of range",
                        !node.origin.empty()             ? node.origin
                        : node.kind == NodeKind::scatter ? "scatter"
                                                         : "gather",
                        f[operand].name.empty() ? plan_.slots[size_t(check.slots[0])].name : f[operand].name);
        bool known = std::any_of(steps.begin(), steps.end(), [&](const Step& s) {
          return s.kind == StepKind::check && s.slots == check.slots && s.range == check.range &&
                 s.limit == check.limit;
        });
        if (!known) steps.push_back(check);
      }
    for (NodeId input : node.inputs)
      if (!slots.contains(input)) stack.push_back(input);
  }
}

Result<void> PlanBuilder::emit_kernel(const Function& f, Action& action, Slots& slots, Steps& steps) {
  emit_checks(f, action, slots, steps);
  for (NodeId root : action.roots) {
    if (f[root].kind == NodeKind::scatter) {
      int base = slots.at(f[root].inputs[0]);
      if (in_place_.contains({root, &f}))
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
  kernel::Cone named = *action.cone;
  named.name = fmt::format("k{}", kernels_.size());
  const kernel::CanonicalCone canonical = kernel::canonical(named);
  const Hash128 key = cone_key(canonical);
  if (auto found = kernel_by_cone_.find(key); found != kernel_by_cone_.end()) return found->second;
  runtime::KernelCode code;
  code.name = named.name;
  code.points = points_of(named);
  auto made = chooser_.choose({&module_, counters_, &f, action.roots, &named, &canonical}, code.points);
  if (!made) return made.failure();
  code.parallel_from = made->parallel_from;
  code.point_ns = made->point_ns;
  for (const kernel::ConeValue& value : named.values)
    if (value.role != kernel::ValueRole::interior)
      code.writes.push_back(value.role != kernel::ValueRole::input);
  made->loops.name = named.name;
  for (const Expr symbol : made->loops.symbols) code.symbols.push_back(canonical.dimensions.at(symbol));
  kernels_.push_back(std::move(*made));
  plan_.kernels.push_back(std::move(code));
  kernel_by_cone_[key] = int(kernels_.size()) - 1;
  return int(kernels_.size()) - 1;
}

Result<void> PlanBuilder::emit_boundary(const Function& f, NodeId node, Slots& slots, Steps& steps) {
  switch (f[node].kind) {
  case NodeKind::fence: slots[node] = slots.at(f[node].inputs[0]); return {};
  case NodeKind::loop: return emit_loop(f, node, slots, steps);
  case NodeKind::cond: return emit_cond(f, node, slots, steps);
  case NodeKind::custom: return emit_custom(f, node, slots, steps);
  case NodeKind::host: {
    Step step;
    step.kind = StepKind::host;
    step.host = std::get<HostAttr>(f[node].attr);
    for (NodeId input : f[node].inputs) step.slots.push_back(slots.at(input));
    std::vector<int> results;
    if (passes_input_on(step.host.kind)) // no copy: the result is the input
      results.push_back(slots.at(f[node].inputs[0]));
    else
      for (const TensorType& type : f[node].types)
        results.push_back(add_slot(fmt::format("host{}", plan_.slots.size()), SlotKind::arena, type));
    step.slots.insert(step.slots.end(), results.begin(), results.end());
    steps.push_back(std::move(step));
    for (NodeId id = 0; id < f.nodes.size(); id++)
      if (f[id].kind == NodeKind::get && f[id].inputs[0] == node)
        slots[id] = results[size_t(std::get<GetAttr>(f[id].attr).index)];
    if (results.empty())
      slots[node] = add_slot(fmt::format("effect{}", plan_.slots.size()), SlotKind::arena, {DType::u8, {1}});
    else
      slots[node] = results[0];
    return {};
  }
  default: return Failure{fmt::format("this device cannot run a {} node", int(f[node].kind))};
  }
}

Result<PlanBuilder::Steps> PlanBuilder::run_function(const Function& body,
                                                     const std::vector<int>& param_slots,
                                                     const std::vector<Rebinding>& rebindings,
                                                     std::vector<int>& results) {
  Region region;
  region.function = &body;
  Slots slots;
  for (size_t i = 0; i < body.params.size(); i++) {
    region.given.insert(body.params[i]);
    slots[body.params[i]] = param_slots[i];
  }
  for (const auto& result : body.results) region.wanted.push_back(result.value);
  auto steps = lower(region, slots, rebindings);
  if (!steps) return steps;
  for (const auto& result : body.results) results.push_back(slots.at(result.value));
  return steps;
}

Result<void> PlanBuilder::emit_loop(const Function& f, NodeId node, Slots& slots, Steps& steps) {
  const auto& attr = std::get<LoopAttr>(f[node].attr);
  const Function* source = module_.find(attr.body);
  LUMINAL_CHECK(source, "loop body {}", attr.body);
  const auto& inputs = f[node].inputs;
  const size_t carried = size_t(attr.carried), stepped = size_t(attr.stepped),
               invariants = inputs.size() - carried - stepped;
  const size_t stacked = source->results.size() - carried;
  Interval turns = attr.count.range();
  Expr counter = Expr::symbol(fmt::format("turn{}", loops_++), {0, std::max<int64_t>(0, turns.high - 1)});
  plan_.symbols.push_back(counter);
  counters_.push_back(counter);

  // The body over whole arrays: slices are views at the counter, stacked rows are scattered.
  FunctionBuilder b(fmt::format("{}.turn", attr.body), &module_);
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
  std::vector<NodeId> values = copy_into(b, inline_calls(module_, *source), arguments);
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
  const Function& body = keep(expand_sorts(module_, b.finish()));

  std::vector<int> param_slots;
  std::vector<Rebinding> rebindings;
  std::vector<int> result_slots;
  for (NodeId param : body.params) {
    const std::string& name = std::get<InputAttr>(body[param].attr).name;
    size_t index = size_t(std::stol(name.substr(name.find_first_of("0123456789"))));
    if (name.starts_with("carried")) {
      int slot =
          add_slot(fmt::format("carried{}", plan_.slots.size()), SlotKind::arena, f[inputs[index]].type());
      steps.push_back(copy(slot, slots.at(inputs[index])));
      param_slots.push_back(slot);
      result_slots.push_back(slot);
    } else if (name.starts_with("stepped"))
      param_slots.push_back(slots.at(inputs[carried + index]));
    else if (name.starts_with("invariant"))
      param_slots.push_back(slots.at(inputs[carried + stepped + index]));
    else {
      int slot = add_slot(fmt::format("stacked{}", plan_.slots.size()), SlotKind::arena,
                          f[node].types[carried + index]);
      Step zero;
      zero.kind = StepKind::zero;
      zero.slots = {slot};
      steps.push_back(zero);
      param_slots.push_back(slot);
      result_slots.push_back(slot);
    }
  }
  for (const auto& result : body.results)
    for (NodeId param : body.params)
      if (std::get<InputAttr>(body[param].attr).name == result.state)
        rebindings.push_back({param, result.value});

  Step loop;
  loop.kind = StepKind::loop;
  loop.count = attr.count;
  loop.counter = counter;
  std::vector<int> ignored;
  auto turn = run_function(body, param_slots, rebindings, ignored);
  if (!turn) return turn.failure();
  loop.body = std::move(*turn);
  if (!attr.condition.empty()) {
    const Function* condition = module_.find(attr.condition);
    LUMINAL_CHECK(condition, "loop condition {}", attr.condition);
    std::vector<int> condition_slots(result_slots.begin(), result_slots.begin() + long(carried));
    for (size_t i = 0; i < invariants; i++)
      condition_slots.push_back(slots.at(inputs[carried + stepped + i]));
    std::vector<int> holds;
    auto test = run_function(keep(expand_sorts(module_, inline_calls(module_, *condition))), condition_slots,
                             {}, holds);
    if (!test) return test.failure();
    loop.otherwise = std::move(*test);
    loop.condition = holds[0];
    loop.taken = add_slot(fmt::format("taken{}", plan_.slots.size()), SlotKind::arena, {DType::i64, {}});
    result_slots.push_back(loop.taken);
  }
  steps.push_back(std::move(loop));
  for (NodeId id = 0; id < f.nodes.size(); id++)
    if (f[id].kind == NodeKind::get && f[id].inputs[0] == node)
      slots[id] = result_slots[size_t(std::get<GetAttr>(f[id].attr).index)];
  return {};
}

Result<void> PlanBuilder::emit_cond(const Function& f, NodeId node, Slots& slots, Steps& steps) {
  const auto& attr = std::get<CondAttr>(f[node].attr);
  std::vector<int> arguments, results;
  for (size_t i = 1; i < f[node].inputs.size(); i++) arguments.push_back(slots.at(f[node].inputs[i]));
  for (const TensorType& type : f[node].types)
    results.push_back(add_slot(fmt::format("cond{}", plan_.slots.size()), SlotKind::arena, type));
  Step step;
  step.kind = StepKind::cond;
  step.slots = {slots.at(f[node].inputs[0])};
  for (bool then : {true, false}) {
    const Function* callee = module_.find(then ? attr.then_function : attr.else_function);
    LUMINAL_CHECK(callee, "branch {}", then ? attr.then_function : attr.else_function);
    std::vector<int> branch;
    auto part =
        run_function(keep(expand_sorts(module_, inline_calls(module_, *callee))), arguments, {}, branch);
    if (!part) return part.failure();
    for (size_t i = 0; i < results.size(); i++) part->push_back(copy(results[i], branch[i]));
    (then ? step.body : step.otherwise) = std::move(*part);
  }
  steps.push_back(std::move(step));
  for (NodeId id = 0; id < f.nodes.size(); id++)
    if (f[id].kind == NodeKind::get && f[id].inputs[0] == node)
      slots[id] = results[size_t(std::get<GetAttr>(f[id].attr).index)];
  return {};
}

/// What a user's kernel says of its arguments must be what it gets: it reads and writes memory.
Result<void> PlanBuilder::check_custom(const Function& f, NodeId node, const kernel::Kernel& loops) const {
  const auto& name = std::get<CustomAttr>(f[node].attr).name;
  auto fail = [&](const std::string& text) {
    return Failure{fmt::format("custom kernel {}: {}", name, text)};
  };
  std::vector<TensorType> types;
  for (NodeId input : f[node].inputs) types.push_back(f[input].type());
  const size_t inputs = types.size();
  types.insert(types.end(), f[node].types.begin(), f[node].types.end());
  std::vector<const kernel::Buffer*> arguments;
  for (const kernel::Buffer& buffer : loops.buffers)
    if (buffer.space == kernel::Space::global) arguments.push_back(&buffer);
  if (arguments.size() != types.size())
    return fail(fmt::format("the text has {} arguments, the call {} inputs and {} results", arguments.size(),
                            inputs, types.size() - inputs));
  for (Expr symbol : loops.symbols)
    if (std::find(plan_.symbols.begin(), plan_.symbols.end(), symbol) == plan_.symbols.end())
      return fail(fmt::format("{}: {}..{} is no dimension of the graph: name and range must be the same",
                              symbol.name(), symbol.range().low, symbol.range().high));
  for (size_t i = 0; i < types.size(); i++) {
    const kernel::Buffer& buffer = *arguments[i];
    if (buffer.dtype != types[i].dtype)
      return fail(fmt::format("{} is {} in the text and {} in the call", buffer.name, to_string(buffer.dtype),
                              to_string(types[i])));
    if (i < inputs ? buffer.access != kernel::Access::in : buffer.access == kernel::Access::in)
      return fail(fmt::format("{} must be {}", buffer.name,
                              i < inputs ? "in: it is an input" : "out: it is a result"));
    if (!proves_equal(buffer.size, product(types[i].shape), module_.assumptions))
      return fail(fmt::format("{} has {} elements in the text, the call gives {}", buffer.name,
                              to_string(buffer.size), to_string(types[i])));
  }
  return {};
}

/// The machine code of a custom kernel whose text is LLVM IR.
static Result<runtime::KernelCode> llvm_code(const Node& node, const codegen::CpuTarget& target) {
  const auto& attr = std::get<CustomAttr>(node.attr);
  codegen::LlvmKernel kernel;
  kernel.name = attr.name;
  kernel.text = attr.text.at("llvm");
  kernel.inputs = int(node.inputs.size());
  kernel.outputs = int(attr.results.size());
  for (size_t d = 0; d < 3 && d < attr.grid.size(); d++) kernel.grid[d] = attr.grid[d];
  if (attr.grid.size() > custom_integers) // behind blocks, threads and shared memory
    kernel.integers.assign(attr.grid.begin() + custom_integers, attr.grid.end());
  for (Expr e : attr.grid)
    for (Expr symbol : symbols_of(e))
      if (std::find(kernel.symbols.begin(), kernel.symbols.end(), symbol) == kernel.symbols.end())
        kernel.symbols.push_back(symbol);
  auto compiled = codegen::compile(kernel, target);
  if (!compiled) return Failure{fmt::format("custom kernel {}: {}", attr.name, compiled.error())};
  runtime::KernelCode code;
  code.name = attr.name;
  code.symbols = kernel.symbols;
  code.entry = compiled->entry;
  code.shared_bytes = compiled->shared_bytes;
  code.local_bytes = compiled->local_bytes;
  code.object = std::make_shared<const std::vector<std::byte>>(std::move(compiled->object));
  return code;
}

/// On this machine a custom kernel is loop IR (language "loops"), LLVM IR ("llvm"), or the host function of its name.
Result<void> PlanBuilder::emit_custom(const Function& f, NodeId node, Slots& slots, Steps& steps) {
  const auto& attr = std::get<CustomAttr>(f[node].attr);
  Step step;
  auto add = [&](runtime::KernelCode code, kernel::Kernel loops) {
    code.points = int64_t(1) << 31; // unknown: on all workers
    code.parallel_from = 0;
    plan_.kernels.push_back(std::move(code));
    kernels_.push_back({std::move(loops), "custom", {.name = attr.name}});
    step.kernel = int(kernels_.size()) - 1;
  };
  if (auto text = attr.text.find("loops"); text != attr.text.end()) {
    kernel::Kernel loops;
    try {
      loops = kernel::parse_kernel(text->second, attr.name);
    } catch (const Error& error) {
      return Failure{fmt::format("custom kernel {}", error.what())}; // its text begins with the name
    }
    if (auto mistakes = verify(loops); !mistakes.empty())
      return Failure{fmt::format("custom kernel {}: {}", attr.name, mistakes[0])};
    if (auto fits = check_custom(f, node, loops); !fits) return fits;
    runtime::KernelCode code;
    code.name = attr.name;
    code.symbols = loops.symbols;
    add(std::move(code), std::move(loops));
  } else if (attr.text.contains("llvm")) {
    auto code = llvm_code(f[node], chooser_.build_options(1).target);
    if (!code) return code.failure();
    add(std::move(*code), {});
  } else if (find_host_function(attr.name)) {
    step.kind = StepKind::host;
    step.host = {attr.name, "", attr.results};
  } else {
    std::string languages;
    for (const auto& [language, _] : attr.text)
      languages += (languages.empty() ? "" : ", ") + language +
                   (language == "c" ? " (clang -S -emit-llvm makes \"llvm\" of it)" : "");
    return Failure{
        fmt::format("custom kernel {} has no text in a language that the device cpu runs (\"loops\" or "
                    "\"llvm\"), and no host function of that name is registered; there is {}",
                    attr.name, languages.empty() ? "no text" : languages)};
  }
  for (NodeId input : f[node].inputs) step.slots.push_back(slots.at(input));
  std::vector<int> results;
  for (const TensorType& type : f[node].types)
    results.push_back(add_slot(fmt::format("{}{}", attr.name, plan_.slots.size()), SlotKind::arena, type));
  step.slots.insert(step.slots.end(), results.begin(), results.end());
  steps.push_back(std::move(step));
  for (NodeId id = 0; id < f.nodes.size(); id++)
    if (f[id].kind == NodeKind::get && f[id].inputs[0] == node)
      slots[id] = results[size_t(std::get<GetAttr>(f[id].attr).index)];
  return {};
}

} // namespace luminal::compile
