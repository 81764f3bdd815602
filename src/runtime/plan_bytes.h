// runtime/plan_bytes.h -- a plan as bytes, for a later run of the same build of this program.
//
// Numbers are as they lie in memory, texts and lists begin with their length, an expression is its text at
// its first use and a number afterwards. They have no version: whoever keeps the bytes names the build that
// wrote them (compile/kept_plans.h).
#pragma once
#include "runtime/plan.h"
#include <optional>
#include <string>
#include <string_view>

namespace luminal::runtime {

/// Nothing for a plan that has no such form: one with steps that call functions of the host, or one in which
/// two symbols have one name.
std::optional<std::string> to_bytes(const Plan& plan);
/// Failure: these are not the bytes of a plan. Ids are inside of their lists.
Result<Plan> plan_of_bytes(std::string_view bytes);

} // namespace luminal::runtime
