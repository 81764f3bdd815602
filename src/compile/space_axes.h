// compile/space_axes.h -- the axes of a space of points that an expression or a view varies with, by number.
#pragma once
#include "ir/term.h"
#include <set>

namespace luminal::compile {

inline std::set<int> axes_in(Expr e, const Shape& space) {
  std::set<int> axes;
  for (size_t d = 0; d < space.size(); d++)
    if (const Expr axis = axis_symbol(int(d), space[d]); axis.is_symbol() && depends_on(e, axis))
      axes.insert(int(d));
  return axes;
}

inline std::set<int> axes_of(const ViewAttr& view) {
  std::set<int> axes = axes_in(view.predicate, view.shape);
  for (Expr e : view.map) axes.merge(axes_in(e, view.shape));
  return axes;
}

} // namespace luminal::compile
