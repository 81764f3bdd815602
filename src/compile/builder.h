// compile/builder.h -- a module becomes the steps of a plan: the pass list, run once.
#pragma once
#include "compile/pass_list.h"

namespace luminal::compile {

class PlanBuilder {
public:
  PlanBuilder(const Module& module, KernelPlanner& planner, Partitioner partitioner = {})
      : state_(module, planner, std::move(partitioner)) {}
  /// All but the machine code: kernels()[i] belongs to plan.kernels[i].
  Result<runtime::Plan> build() {
    if (auto done = run_passes(state_, times_); !done) return done.failure();
    return std::move(state_.plan);
  }
  const std::vector<PlannedKernel>& kernels() const { return state_.kernels; }
  const std::vector<PassTime>& times() const { return times_; }

private:
  PlanState state_;
  std::vector<PassTime> times_;
};

} // namespace luminal::compile
