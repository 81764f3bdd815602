// compile/builder.h -- a module becomes the steps of a plan: the pass list, run once.
#pragma once
#include "compile/pass_list.h"

namespace luminal::compile {

class PlanBuilder {
public:
  PlanBuilder(const Module& module, KernelPlanner& planner, Partitioner partitioner = {},
              RuleOptions rules = {})
      : state_(module, planner, std::move(partitioner), std::move(rules)) {}
  /// All but the machine code: kernels()[i] belongs to plan.kernels[i].
  Result<runtime::Plan> build() {
    if (auto done = run_passes(state_, times_); !done) return done.failure();
    return std::move(state_.plan);
  }
  const IdVector<runtime::CodeId, PlannedKernel>& kernels() const { return state_.kernels; }
  const std::vector<PassTime>& times() const { return times_; }
  const std::vector<RegionReport>& regions() const { return state_.regions; }
  const Module& module() const { return state_.module; }
  /// As the passes have made it.
  const Function& entry() const { return *state_.functions.front().function; }

private:
  PlanState state_;
  std::vector<PassTime> times_;
};

} // namespace luminal::compile
