// compile/place_boundaries.cpp -- steps of a plan that are not kernels of ours: host functions,
// loops, conditions, custom kernels.
#include "base/check.h"
#include "compile/step_placer.h"
#include "ir/host_text.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::compile {

using runtime::SlotId;
using runtime::SlotKind;

std::vector<SlotId> StepPlacer::slots_at(const std::vector<NodeId>& nodes, const Slots& slots) {
  std::vector<SlotId> at;
  for (const NodeId node : nodes) at.push_back(slots.at(node));
  return at;
}

void StepPlacer::give_results(const Function& f, NodeId node, const std::vector<SlotId>& results,
                              Slots& slots) {
  for (NodeId id : f.nodes.ids())
    if (f[id].kind == NodeKind::get && f[id].inputs[0] == node)
      slots[id] = results[size_t(std::get<GetAttr>(f[id].attr).index)];
}

void StepPlacer::place_boundary(const FunctionPlan& plan, const Action& action, Slots& slots, Steps& steps) {
  const Function& f = *plan.function;
  const NodeId node = action.roots[0];
  switch (f[node].kind) {
  case NodeKind::fence: slots[node] = slots.at(f[node].inputs[0]); return;
  case NodeKind::view: return place_reshaped(f, node, slots);
  case NodeKind::loop: return place_loop(plan, node, slots, steps);
  case NodeKind::cond: return place_cond(plan, node, slots, steps);
  case NodeKind::custom: return place_custom(f, action, slots, steps);
  case NodeKind::host: return place_host(f, node, slots, steps);
  default: LUMINAL_CHECK(false, "{} is not a kernel of its own", to_string(f[node].kind));
  }
}

/// A value that lies where its input lies.
void StepPlacer::place_reshaped(const Function& f, NodeId node, Slots& slots) {
  slots[node] = slots.at(f[node].inputs[0]);
  if (std::ranges::any_of(f.results, [&](const FunctionResult& r) { return r.value == node; }))
    plan_.slots[slots[node]].type = f[node].type(); // what a caller sees
}

void StepPlacer::place_host(const Function& f, NodeId node, Slots& slots, Steps& steps) {
  runtime::HostCall call{std::get<HostAttr>(f[node].attr), slots_at(f[node].inputs, slots), {}};
  std::vector<SlotId>& results = call.results;
  if (passes_input_on(call.function.kind)) // no copy: the result is the input
    results.push_back(slots.at(f[node].inputs[0]));
  else
    for (const TensorType& type : f[node].types)
      results.push_back(add_slot(fmt::format("host{}", plan_.slots.size()), SlotKind::arena, type));
  give_results(f, node, results, slots);
  if (results.empty())
    slots[node] = add_slot(fmt::format("effect{}", plan_.slots.size()), SlotKind::arena, {DType::u8, {1}});
  else
    slots[node] = results[0];
  steps.push_back(std::move(call));
}

void StepPlacer::place_loop(const FunctionPlan& plan, NodeId node, Slots& slots, Steps& steps) {
  const Function& f = *plan.function;
  const auto& attr = std::get<LoopAttr>(f[node].attr);
  const auto& inputs = f[node].inputs;
  const size_t carried = size_t(attr.carried), stepped = size_t(attr.stepped),
               invariants = inputs.size() - carried - stepped;
  const std::vector<FunctionPlan*>& inner = plan.inner.at(node);
  const Function& body = *inner[0]->function;
  std::vector<SlotId> param_slots, result_slots;
  for (NodeId param : body.params) {
    const std::string& name = std::get<InputAttr>(body[param].attr).name;
    size_t index = size_t(std::stol(name.substr(name.find_first_of("0123456789"))));
    if (name.starts_with("carried")) {
      SlotId slot =
          add_slot(fmt::format("carried{}", plan_.slots.size()), SlotKind::arena, f[inputs[index]].type());
      steps.push_back(runtime::Copy{slot, slots.at(inputs[index])});
      param_slots.push_back(slot);
      result_slots.push_back(slot);
    } else if (name.starts_with("stepped"))
      param_slots.push_back(slots.at(inputs[carried + index]));
    else if (name.starts_with("invariant"))
      param_slots.push_back(slots.at(inputs[carried + stepped + index]));
    else {
      SlotId slot = add_slot(fmt::format("stacked{}", plan_.slots.size()), SlotKind::arena,
                             f[node].types[carried + index]);
      steps.push_back(runtime::Zero{slot});
      param_slots.push_back(slot);
      result_slots.push_back(slot);
    }
  }
  runtime::Loop loop{.count = attr.count, .counter = inner[0]->counter};
  std::vector<SlotId> ignored;
  loop.body = run_function(*inner[0], param_slots, ignored);
  if (!attr.condition.empty()) {
    std::vector<SlotId> condition_slots(result_slots.begin(), result_slots.begin() + long(carried));
    for (size_t i = 0; i < invariants; i++)
      condition_slots.push_back(slots.at(inputs[carried + stepped + i]));
    std::vector<SlotId> holds;
    loop.test = run_function(*inner[1], condition_slots, holds);
    loop.condition = holds[0];
    loop.taken = add_slot(fmt::format("taken{}", plan_.slots.size()), SlotKind::arena, {DType::i64, {}});
    result_slots.push_back(loop.taken);
  }
  steps.push_back(std::move(loop));
  give_results(f, node, result_slots, slots);
}

void StepPlacer::place_cond(const FunctionPlan& plan, NodeId node, Slots& slots, Steps& steps) {
  const Function& f = *plan.function;
  const std::vector<SlotId> inputs = slots_at(f[node].inputs, slots);
  const std::vector<SlotId> arguments(inputs.begin() + 1, inputs.end());
  std::vector<SlotId> results;
  for (const TensorType& type : f[node].types)
    results.push_back(add_slot(fmt::format("cond{}", plan_.slots.size()), SlotKind::arena, type));
  runtime::Cond step{.condition = inputs[0]};
  for (bool then : {true, false}) {
    std::vector<SlotId> branch;
    Steps part = run_function(*plan.inner.at(node)[then ? 0 : 1], arguments, branch);
    for (size_t i = 0; i < results.size(); i++) part.push_back(runtime::Copy{results[i], branch[i]});
    (then ? step.then : step.otherwise) = std::move(part);
  }
  steps.push_back(std::move(step));
  give_results(f, node, results, slots);
}

void StepPlacer::place_custom(const Function& f, const Action& action, Slots& slots, Steps& steps) {
  const NodeId node = action.roots[0];
  const auto& attr = std::get<CustomAttr>(f[node].attr);
  const std::vector<SlotId> inputs = slots_at(f[node].inputs, slots);
  std::vector<SlotId> results;
  for (const TensorType& type : f[node].types)
    results.push_back(add_slot(fmt::format("{}{}", attr.name, plan_.slots.size()), SlotKind::arena, type));
  give_results(f, node, results, slots);
  if (!action.kernel) {
    steps.push_back(runtime::HostCall{{attr.name, "", attr.results}, inputs, results});
    return;
  }
  runtime::Launch launch{action.kernel, inputs};
  launch.slots.insert(launch.slots.end(), results.begin(), results.end());
  steps.push_back(std::move(launch));
}

} // namespace luminal::compile
