// compile/step_placer.h -- private: ordered kernels and steps get slots and become the steps of the
// plan.
#pragma once
#include "compile/plan_state.h"

namespace luminal::compile {

class StepPlacer {
public:
  explicit StepPlacer(PlanState& state) : state_(state), plan_(state.plan) {}
  void run();
  /// Throws Error where the type has no largest size.
  runtime::SlotId add_slot(std::string name, runtime::SlotKind kind, const TensorType& type);

private:
  using Slots = std::map<NodeId, runtime::SlotId>;
  using Steps = runtime::Steps;

  Steps place(const FunctionPlan& f, const Section& section, Slots& slots,
              const std::vector<Rebinding>& rebindings);
  void place_load(const FunctionPlan& f, Slots& slots);
  /// A function that a step runs, on these parameters; `results` get its results' slots.
  Steps run_function(const FunctionPlan& f, const std::vector<runtime::SlotId>& param_slots,
                     std::vector<runtime::SlotId>& results);
  std::map<NodeId, runtime::SlotId> copy_rebound(const FunctionPlan& f, const Region& region,
                                                 const Slots& slots, const std::vector<Rebinding>& rebindings,
                                                 Steps& steps);
  void place_kernel(const FunctionPlan& f, const Action& action, Slots& slots, Steps& steps);
  void place_range_checks(const FunctionPlan& f, NodeId id, const Slots& slots, Steps& steps);
  void place_access_checks(const FunctionPlan& f, NodeId id, const Slots& slots, Steps& steps);
  // ---- place_boundaries.cpp ----
  void place_boundary(const FunctionPlan& f, const Action& action, Slots& slots, Steps& steps);
  void place_reshaped(const Function& f, NodeId node, Slots& slots);
  void place_host(const Function& f, NodeId node, Slots& slots, Steps& steps);
  void place_loop(const FunctionPlan& f, NodeId node, Slots& slots, Steps& steps);
  void place_cond(const FunctionPlan& f, NodeId node, Slots& slots, Steps& steps);
  void place_custom(const Function& f, const Action& action, Slots& slots, Steps& steps);
  static std::vector<runtime::SlotId> slots_at(const std::vector<NodeId>& nodes, const Slots& slots);
  /// Slots of what is read of a step with several results.
  static void give_results(const Function& f, NodeId node, const std::vector<runtime::SlotId>& results,
                           Slots& slots);

  static runtime::SlotId slot_of(const Function& f, const Slots& slots, NodeId origin, int result);

  PlanState& state_;
  runtime::Plan& plan_;
};

} // namespace luminal::compile
