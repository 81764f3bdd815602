// compile/prepare_function.cpp -- passes over a function until its kernels are known: rewrites,
// what is computed at load, partitions, layouts, checks of accesses.
#include "compile/pass_list.h"
#include "compile/rewrite.h"
#include <algorithm>

namespace luminal::compile {
namespace {

bool is_entry(const FunctionPlan& f) { return f.role == FunctionRole::entry; }
/// What checks an access is made of terms that need nothing of this.
bool is_check(const FunctionPlan& f) { return f.role == FunctionRole::check; }

} // namespace

Result<void> inline_called(PlanState& state, FunctionPlan& f) {
  if (is_entry(f))
    if (auto why = too_much_to_inline(state.module)) return Failure{*why};
  if (!is_check(f) && has_calls(*f.function))
    f.function = &state.keep(inline_calls(state.module, *f.function));
  return {};
}

Result<void> expand_all_sorts(PlanState& state, FunctionPlan& f) {
  if (!is_check(f) && has_sorts(*f.function))
    f.function = &state.keep(expand_sorts(state.module, *f.function));
  return {};
}

Result<void> split_all_tuples(PlanState& state, FunctionPlan& f) {
  if (!is_check(f) && splits_tuples(*f.function))
    f.function = &state.keep(split_tuples(state.module, *f.function));
  return {};
}

Result<void> split_load(PlanState&, FunctionPlan& f) {
  f.step.region = whole_region(*f.function);
  if (is_entry(f)) f.load_values = load_time_values(f.step.region);
  return {};
}

/// Greedy: fusion, then values inside of its kernels that tiled schedules want to be stored.
Result<void> partition_step(PlanState& state, FunctionPlan& f) {
  if (is_check(f)) return {};
  KernelSplitter::Split split = state.splitter.split(*f.function, is_entry(f) ? &f.load_values : nullptr);
  if (!split.function.nodes.empty()) {
    f.function = &state.keep(std::move(split.function));
    f.step.region = whole_region(*f.function);
  }
  if (!is_entry(f)) return {}; // the splitter takes tables for values of the load steps
  f.load_values = std::move(split.fusion.load_values);
  f.step.partition = std::move(split.fusion.partition);
  return {};
}

Result<void> lay_out_constants(PlanState& state, FunctionPlan& f) {
  if (!is_entry(f)) return {};
  StepFusion known{f.step.region, std::move(f.load_values), std::move(*f.step.partition)};
  known.step.given.insert(known.load_values.begin(), known.load_values.end());
  PackedFunction packed = pack_constants(*f.function, state.planner.limits(), known);
  if (packed.function.nodes.empty()) {
    f.load_values = std::move(known.load_values);
    f.step.partition = std::move(known.partition);
    return {};
  }
  f.function = &state.keep(std::move(packed.function));
  f.step.region = whole_region(*f.function);
  f.step.partition.reset();
  f.panels = std::move(packed.panels);
  f.load_values = load_time_values(f.step.region);
  for (const auto& [panels, from] : f.panels) { // they are all that is read of it
    std::erase(f.load_values, from);
    f.load_values.push_back(panels);
  }
  return {};
}

/// Index expressions get a value everywhere; what must hold for that and for the accesses is left
/// to be checked.
Result<void> check_accesses(PlanState& state, FunctionPlan& f) {
  if (is_check(f)) return {};
  const Function& function = *f.function;
  Function clean;
  for (NodeId id = 0; id < function.nodes.size(); id++) {
    if (auto found = access_checks(state.module, f.facts, function, id); !found.empty())
      f.checks[id] = std::move(found);
    auto attr = without_traps(function[id].attr);
    if (!attr) continue;
    if (clean.nodes.empty()) clean = function;
    clean.nodes[id].attr = std::move(*attr);
  }
  if (clean.nodes.empty()) return {};
  f.function = &state.keep(std::move(clean));
  f.step.region.function = f.function;
  return {};
}

namespace {

/// What the checks of a region's nodes read must be stored.
void read_by_checks(const FunctionPlan& f, Region& region) {
  if (f.checks.empty()) return;
  for (NodeId id : needed_nodes(region))
    if (const auto of_node = f.checks.find(id); of_node != f.checks.end())
      for (const AccessCheck& check : of_node->second)
        region.read.insert(check.operands.begin(), check.operands.end());
}

} // namespace

Result<void> partition_rest(PlanState&, FunctionPlan& f) {
  if (!f.load_values.empty()) {
    f.load = Section{f.step.region, {}, {}, {}, {}};
    f.load->region.wanted = f.load_values;
    read_by_checks(f, f.load->region);
    f.load->partition = fuse(f.load->region);
    f.step.region.given.insert(f.load_values.begin(), f.load_values.end());
  }
  read_by_checks(f, f.step.region);
  if (!f.step.partition || !f.step.region.read.empty()) f.step.partition = fuse(f.step.region);
  for (const auto& result : f.function->results) {
    if (result.state.empty() || (f.role != FunctionRole::entry && f.role != FunctionRole::turn)) continue;
    for (NodeId id : f.function->params)
      if (std::get<InputAttr>((*f.function)[id].attr).name == result.state)
        f.rebindings.push_back({id, result.value});
  }
  return {};
}

} // namespace luminal::compile
