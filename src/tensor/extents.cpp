// tensor/extents.cpp -- the last extents that are not known to be equal.
#include "tensor/extents.h"

namespace luminal {
namespace {
thread_local std::optional<std::pair<Expr, Expr>> unequal;
} // namespace

bool equal_extents(Expr a, Expr b) {
  if (proves_equal(a, b)) return true;
  unequal = {a, b};
  return false;
}

std::optional<std::pair<Expr, Expr>> take_unequal() { return std::exchange(unequal, std::nullopt); }

} // namespace luminal
