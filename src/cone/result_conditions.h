// cone/result_conditions.h -- where the results of a stage's folds are read at all.
#pragma once
#include "cone/cone.h"
#include <vector>

namespace luminal::kernel {

/// Conditions over the stage's axes, each of the kind `a < b`. Where one of them does not hold the maps on
/// the finished folds choose something else, and no fold's result is read. Empty where some map reads a
/// result at every point, where a result is stored, and for tuples and scans.
std::vector<Expr> result_conditions(const Stage& stage);

} // namespace luminal::kernel
