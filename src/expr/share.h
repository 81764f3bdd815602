// expr/share.h -- for estimates: how much of a box a condition lets through.
#pragma once
#include "expr/expr.h"
#include <utility>

namespace luminal {

/// At which share of the points of a box the condition holds, by a sample of them; 1 where that cannot be
/// told. `axes`: symbols and how many points lie along each.
double share_of(Expr condition, std::span<const std::pair<Expr, double>> axes);

} // namespace luminal
