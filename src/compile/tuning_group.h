// compile/tuning_group.h -- kernels of a plan that are tuned together, and what is told of them.
#pragma once
#include "compile/plan_search.h"
#include "search/tune_kernel.h"
#include <optional>
#include <string>
#include <vector>

namespace luminal::compile {

/// Kernels with one key: one search serves all.
struct TuningGroup {
  std::vector<runtime::CodeId> kernels;
  double launches = 0; // of a step
  std::optional<search::KernelProblem> problem;
  std::string note; // why it is not tuned
  double limit = 0, before = 0, after = 0;
  std::string old_schedule, fewer_workers;
  bool searched = false, improved = false;
  search::Tuned tuned;
  double cost() const { return launches * before; }
};
/// What tuning the group did to this kernel of it.
void fill_report(KernelReport& report, const TuningGroup& group, const PlannedKernel& kernel);
ChangedKernel changed(const TuningGroup& group, const PlannedKernel& kernel);

} // namespace luminal::compile
