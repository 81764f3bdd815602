// compile/approximation.h -- private: whether what rules of class `approx` made of a program is within the
// bound that was asked for.
#pragma once
#include "compile/plan_search.h"

namespace luminal::compile {

/// The plan that is taken needs a rule of class `approx`.
bool is_approximate(const RegionReport& region);
bool is_approximate(const BuiltPlan& built);

/// Holds a program that rules of class `approx` took part in against the one without them, both run on the
/// same inputs. Where it is off by more than the bound, regions stay exact, one after the other, those that
/// promise least first, until it is not; these are told to `rejected`, and `exact` gets their plans, for
/// PlanRequest::pinned. `built` is replaced.
Result<ApproximationReport> check_approximation(const Options& options, const PlanMaker& make,
                                                BuiltPlan& built, std::map<Hash128, std::string>& exact);

std::string to_string(const ApproximationReport& report); ///< lines; none where there is nothing to tell

} // namespace luminal::compile
