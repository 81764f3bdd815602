// compile/plan_state.h -- what the passes from a module to a plan work on: functions, their parts,
// the kernels of these, the plan (compile/pass_list.h).
#pragma once
#include "base/result.h"
#include "compile/fuse.h"
#include "compile/kernel_choice.h"
#include "compile/kernel_shape.h"
#include "compile/panels.h"
#include "compile/rule_options.h"
#include "compile/rule_set.h"
#include "compile/split_kernels.h"
#include "ir/access.h"
#include "ir/partition.h"
#include "runtime/plan.h"
#include <deque>

namespace luminal::compile {

/// A parameter that holds `value` after the region has run: a state, or a value carried by a loop.
struct Rebinding {
  NodeId param, value;
};

/// One kernel, or one step that is not a kernel of ours.
struct Action {
  std::vector<NodeId> roots;
  bool boundary = false;
  /// Roots that lie where another value lay: the base of a scatter, or the state that the root becomes.
  std::map<NodeId, NodeId> in_place;
  std::optional<kernel::Cone> cone;
  ShapeId shape;                  // of the cone
  runtime::CodeId kernel;         // of the plan; none: nothing is launched
  std::set<NodeId> reads, writes; // stored nodes
  std::set<int> after;
  std::vector<NodeId> checked; // nodes whose accesses are checked before it runs
};

/// A part of a function that runs as a whole: what is computed at load, or at each step.
struct Section {
  Region region;
  std::optional<Partition> partition;
  bool given = false;         // the partition comes from elsewhere
  bool searched = false;      // or from the search over regions, at least in part
  std::set<NodeId> in_memory; // what its kernels read and do not compute, and what they store
  std::vector<Action> actions;
  std::vector<int> order; // of actions
};

enum class FunctionRole : uint8_t {
  entry,
  turn,   // the body of a loop, over whole arrays
  branch, // of a condition, or what a loop asks before each turn
  check,  // whether an access leaves its bounds
};

/// A function that the plan runs: the entry, or what a step of another one runs.
struct FunctionPlan {
  FunctionRole role = FunctionRole::entry;
  const Function* function = nullptr; // as the passes so far have made it
  std::vector<Expr> counters, facts;  // of the loops so far, and what holds of them
  Expr counter = 0;                   // of a turn
  std::vector<Rebinding> rebindings;
  Boundaries boundaries;           // that the search over regions has decided; of `function`
  std::vector<NodeId> load_values; // entry: what load computes
  std::optional<Section> load;     // entry
  Section step;
  std::map<NodeId, std::vector<AccessCheck>> checks;
  std::set<NodeId> reshaped; // stored views that lie where their inputs lie
  /// Functions that a node's step runs: a loop its turn and condition, a condition its two
  /// branches, a checked node its checks (null where one needs no function).
  std::map<NodeId, std::vector<FunctionPlan*>> inner;
};

/// A kernel that no earlier one equals, before it has a schedule.
struct DistinctKernel {
  const FunctionPlan* function;
  std::vector<NodeId> roots;
  kernel::Cone given;
  kernel::CanonicalCone canonical;
  runtime::CodeId number;
};

/// What makes estimates of kernels for one worker: what is chosen by them is the same for any number.
struct EstimatesOfOne {
  explicit EstimatesOfOne(kernel::MachineLimits of) : limits(std::move(of)) {}
  const kernel::MachineLimits limits;
  kernel::DefaultKernels defaults{limits};
  KernelSplitter splitter{limits, defaults};
};

struct PlanState {
  PlanState(const Module& of, KernelPlanner& chooser, Partitioner given = {}, RuleOptions with = {})
      : module(of), planner(chooser), partitioner(std::move(given)), rules(std::move(with)),
        splitter(chooser.limits(), chooser.defaults()) {
    if (!rules.set) rules.set = RuleSet::of(rules.choice);
  }

  const Module& module;
  KernelPlanner& planner;
  Partitioner partitioner; // empty: the search over regions and fusion decide
  RuleOptions rules;
  std::vector<RegionReport> regions; // that were searched
  KernelSplitter splitter;
  std::unique_ptr<EstimatesOfOne> of_one; // where the plan is for several workers, once it is needed
  runtime::Plan plan;
  std::deque<FunctionPlan> functions; // the entry first
  std::deque<Function> texts;         // of functions that passes have made
  std::vector<Expr> counters, facts;  // of all loops so far
  int loops = 0;
  ConeMemo cones;
  std::map<ShapeId, runtime::CodeId> kernel_by_shape;
  std::map<Hash128, runtime::CodeId> kernel_by_cone; // different shapes may have equal cones
  std::deque<DistinctKernel> distinct;
  IdVector<runtime::CodeId, PlannedKernel> kernels; // as plan.kernels
  std::map<NodeId, runtime::SlotId> parameters;     // of the entry

  FunctionPlan& entry() { return functions.front(); }
  /// The plan's own where it is for one worker: its kernels are the same.
  KernelSplitter& splitter_of_one() {
    kernel::MachineLimits limits = planner.limits();
    if (limits.threads == 1) return splitter;
    limits.threads = 1;
    if (!of_one) of_one = std::make_unique<EstimatesOfOne>(std::move(limits));
    return of_one->splitter;
  }
  const Function& keep(Function function) {
    texts.push_back(std::move(function));
    return texts.back();
  }
  FunctionPlan& add(FunctionRole role, const Function& function) {
    FunctionPlan& made = functions.emplace_back();
    made.role = role;
    made.function = &function;
    made.counters = counters;
    made.facts = facts;
    return made;
  }
};

/// The node whose storage the value lies in: fences, effects that pass their input on and reshaped values
/// have none of their own. (compile/kernel_order.cpp)
NodeId storage_of(const FunctionPlan& f, NodeId id);
/// Does the view of an input of that shape give all its elements, in their order?
bool is_reshape(const ViewAttr& view, const Shape& input);

} // namespace luminal::compile
