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

Result<void> empty_all_views(PlanState& state, FunctionPlan& f) {
  if (!is_check(f) && has_empty_views(*f.function))
    f.function = &state.keep(empty_views_of_constants(state.module, *f.function));
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

namespace {

/// What somebody else decides for the section, if anybody does.
Result<bool> given_partition(const PlanState& state, Section& section) {
  if (!state.partitioner) return false;
  auto given = state.partitioner(section.region);
  if (!given) return given.failure();
  if (!*given) return false;
  if (const auto mistakes = verify(**given, section.region); !mistakes.empty()) return Failure{mistakes[0]};
  section.partition = std::move(*given);
  section.given = true;
  return true;
}

} // namespace

/// Greedy: fusion, then values inside of its kernels that tiled schedules want to be stored.
Result<void> partition_step(PlanState& state, FunctionPlan& f) {
  if (is_check(f)) return {};
  f.step.region.given.insert(f.load_values.begin(), f.load_values.end());
  auto given = given_partition(state, f.step);
  if (!given) return given.failure();
  if (*given) return {};
  const std::vector<NodeId>* load_values = is_entry(f) ? &f.load_values : nullptr;
  KernelSplitter::Split split = state.splitter.split(*f.function, load_values, &f.boundaries);
  if (!f.boundaries.empty()) {
    split.fusion.step.function = split.function.nodes.empty() ? f.function : &split.function;
    if (!verify(split.fusion.partition, split.fusion.step).empty()) {
      f.boundaries = {}; // what is read where and checked when leaves no room for them
      split = state.splitter.split(*f.function, load_values);
    }
  }
  f.step.searched = !f.boundaries.empty();
  if (!split.function.nodes.empty()) {
    f.function = &state.keep(std::move(split.function));
    f.step.region = whole_region(*f.function);
    f.boundaries = std::move(split.boundaries);
  }
  if (!is_entry(f)) return {}; // the splitter takes tables for values of the load steps
  f.load_values = std::move(split.fusion.load_values);
  f.step.region.given.insert(f.load_values.begin(), f.load_values.end());
  f.step.partition = std::move(split.fusion.partition);
  return {};
}

Result<void> lay_out_constants(PlanState& state, FunctionPlan& f) {
  if (!is_entry(f)) return {};
  StepFusion known{std::move(f.step.region), std::move(f.load_values), std::move(*f.step.partition)};
  // A copy at each step is a kernel more than somebody asked for.
  PackedFunction packed = pack_constants(*f.function, state.planner.limits(), known, !f.step.given);
  if (packed.function.nodes.empty()) {
    f.step.region = std::move(known.step);
    f.load_values = std::move(known.load_values);
    f.step.partition = std::move(known.partition);
    return {};
  }
  const Function& function = state.keep(std::move(packed.function));
  f.function = &function;
  f.step.region = whole_region(function);
  f.load_values = load_time_values(f.step.region);
  for (const auto& [panels, from] : packed.panels) { // they are all that is read of it
    std::erase(f.load_values, from);
    f.load_values.push_back(panels);
  }
  f.step.region.given.insert(f.load_values.begin(), f.load_values.end());
  const bool known_boundaries = f.step.given || f.step.searched;
  if (known_boundaries || !(packed.adds_sums || !packed.copies.empty()))
    f.step.partition = packed_partition(packed, known.partition, f.load_values);
  else // where the new sums meet their readers is for fusion to decide
    f.step.partition = fuse(f.step.region);
  return {};
}

/// Index expressions get a value everywhere; what must hold for that and for the accesses is left
/// to be checked.
Result<void> check_accesses(PlanState& state, FunctionPlan& f) {
  if (is_check(f)) return {};
  const Function& function = *f.function;
  Function clean;
  for (NodeId id : function.nodes.ids()) {
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

/// Values that checks read are stored, too, where whoever made the partition could not know them.
Result<void> add_checked(Section& section) {
  std::set<NodeId> stored;
  for (const auto& kernel : section.partition->kernels) stored.insert(kernel.begin(), kernel.end());
  for (const auto& [id, why] : required_values(section.region))
    if (!stored.contains(id)) section.partition->kernels.push_back({id});
  if (const auto mistakes = verify(*section.partition, section.region); !mistakes.empty())
    return Failure{mistakes[0]};
  return {};
}

} // namespace

Result<void> partition_rest(PlanState& state, FunctionPlan& f) {
  if (!f.load_values.empty()) {
    f.load.emplace();
    f.load->region = whole_region(*f.function);
    f.load->region.wanted = f.load_values;
    read_by_checks(f, f.load->region);
    auto given = given_partition(state, *f.load);
    if (!given) return given.failure();
    if (!*given) f.load->partition = fuse(f.load->region);
  }
  read_by_checks(f, f.step.region);
  if (f.step.given) {
    if (auto done = add_checked(f.step); !done) return done;
  } else if (f.step.searched && f.step.partition) {
    if (!add_checked(f.step)) f.step.partition = fuse(f.step.region);
  } else if (!f.step.partition || !f.step.region.read.empty()) {
    f.step.partition = fuse(f.step.region, &f.boundaries);
    if (!f.boundaries.empty() && !verify(*f.step.partition, f.step.region).empty())
      f.step.partition = fuse(f.step.region);
  }
  for (const auto& result : f.function->results) {
    if (result.state.empty() || (f.role != FunctionRole::entry && f.role != FunctionRole::turn)) continue;
    for (NodeId id : f.function->params)
      if (std::get<InputAttr>((*f.function)[id].attr).name == result.state)
        f.rebindings.push_back({id, result.value});
  }
  return {};
}

} // namespace luminal::compile
