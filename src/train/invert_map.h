// train/invert_map.h -- which points of a view read a given element: the inverse of a quasi-affine
// map, as an index map over the axes of x and free axes.
#pragma once
#include "ir/term.h"
#include <optional>

namespace luminal::train {

/// The points i of a view with map(i) = j are at(j, f) for all f of the box `free` for which the
/// condition holds, each once. Axes: those of x, then the free ones.
struct InverseMap {
  std::vector<Expr> at; // one for each axis of the view
  Expr condition = 1;
  Shape free;
};
/// Nothing where the map has no such inverse (min, max, products of axes).
std::optional<InverseMap> invert_map(const std::vector<Expr>& map, Expr predicate, const Shape& view,
                                     const Shape& x, std::span<const Expr> assumptions);

} // namespace luminal::train
