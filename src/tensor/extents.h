// tensor/extents.h -- are two extents equal? What could not be proved is kept for who may choose sizes.
#pragma once
#include "expr/expr.h"
#include <optional>
#include <utility>

namespace luminal {

/// Is a == b for all sizes? The last pair of this thread for which it is not proved is kept.
bool equal_extents(Expr a, Expr b);
/// That pair, once.
std::optional<std::pair<Expr, Expr>> take_unequal();

} // namespace luminal
