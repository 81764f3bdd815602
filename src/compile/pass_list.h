// compile/pass_list.h -- THE PASS LIST: what makes a plan of a module, step by step, over one state
// (compile/plan_state.h).
#pragma once
#include "compile/plan_state.h"
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::compile {

struct PassTime {
  std::string name;
  double ms = 0;
};

/// A step over one function: the entry, then what its steps run, each before the next one begins.
struct FunctionPass {
  std::string_view name, does;
  Result<void> (*run)(PlanState&, FunctionPlan&);
};
std::span<const FunctionPass> function_passes();

/// A step over all functions.
struct PlanPass {
  std::string_view name, does;
  Result<void> (*run)(PlanState&);
};
std::span<const PlanPass> plan_passes();

/// Runs them all. `times` gets one entry a pass; LUMINAL_DEBUG=5 prints what each one leaves.
Result<void> run_passes(PlanState& state, std::vector<PassTime>& times);

// ---- the steps, by the file that has them ----

// prepare_function.cpp
Result<void> inline_called(PlanState& state, FunctionPlan& f);
Result<void> expand_all_sorts(PlanState& state, FunctionPlan& f);
Result<void> empty_all_views(PlanState& state, FunctionPlan& f);
Result<void> split_all_tuples(PlanState& state, FunctionPlan& f);
// image_sums.cpp, seams.cpp, scatter_chain.cpp, one_hot.cpp, subnormal_factors.cpp
Result<void> exchange_windows(PlanState& state, FunctionPlan& f);
Result<void> part_folds(PlanState& state, FunctionPlan& f);
Result<void> chain_scatters(PlanState& state, FunctionPlan& f);
Result<void> spread_indices(PlanState& state, FunctionPlan& f);
Result<void> zero_small_factors(PlanState& state, FunctionPlan& f);
// axis_order.cpp
Result<void> order_axes(PlanState& state, FunctionPlan& f);
// region_search.cpp
Result<void> search_regions(PlanState& state, FunctionPlan& f);
// prepare_function.cpp
Result<void> split_load(PlanState& state, FunctionPlan& f);
Result<void> partition_step(PlanState& state, FunctionPlan& f);
Result<void> lay_out_constants(PlanState& state, FunctionPlan& f);
Result<void> check_accesses(PlanState& state, FunctionPlan& f);
Result<void> partition_rest(PlanState& state, FunctionPlan& f);
// kernel_order.cpp
Result<void> build_cones(PlanState& state, FunctionPlan& f);
Result<void> order_kernels(PlanState& state, FunctionPlan& f);
/// Does the kernel change one of its operands in place?
bool updates_base(const kernel::Cone& cone);
// memory_order.cpp
/// An order of the section's actions in which values take clearly less memory than in `section.order`;
/// empty where that one stays.
std::vector<int> order_of_less_memory(const FunctionPlan& f, const Section& section);
// plan_kernels.cpp
Result<void> find_distinct(PlanState& state);
Result<void> choose_schedules(PlanState& state);
Result<void> lower_schedules(PlanState& state);
// place_steps.cpp
Result<void> add_parameters(PlanState& state);
Result<void> place_steps(PlanState& state);

/// A function that a step of `f` runs, made when its turn comes. (inner_functions.cpp)
struct InnerFunction {
  FunctionPlan* outer;
  NodeId node;
  int which; // of FunctionPlan::inner
};
/// In the order in which the steps of `f` stand.
std::vector<InnerFunction> inner_functions(FunctionPlan& f);
FunctionPlan& open_function(PlanState& state, const InnerFunction& inner);

} // namespace luminal::compile
