// compile/plan_search.h -- private: the search of a plan's schedules, from the plan that is there
// to a better one.
#pragma once
#include "compile/builder.h"
#include "compile/compile.h"

namespace luminal::compile {

/// A plan with its code, and the builder that its kernels' problems come from.
struct BuiltPlan {
  std::shared_ptr<const runtime::Plan> plan;
  std::shared_ptr<PlanBuilder> builder;
  std::shared_ptr<KernelPlanner> chooser;
  std::shared_ptr<const RuleSet> rules;
  int cached = 0;
  double seconds = 0; ///< that making it took
};
struct PlanRequest {
  std::map<Hash128, std::string> pinned = {}; ///< see ChoiceOptions
  std::vector<std::string> forbidden = {};    ///< rules that take no part, beside those in quarantine
};
/// Builds the plan with this and with what the tuning cache has.
using PlanMaker = std::function<Result<BuiltPlan>(const PlanRequest&)>;

/// Replaces `built` by the best plan found; `reports` are those of its kernels. options.tuning is
/// not null.
Result<SearchSummary> search_plan(const Options& options, const PlanMaker& make, BuiltPlan& built,
                                  std::vector<KernelReport>& reports);

} // namespace luminal::compile
