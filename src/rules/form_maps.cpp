// rules/form_maps.cpp -- expressions over the dimensions of a form.
#include "rules/form_maps.h"
#include "rules/form_edits.h"
#include <algorithm>

namespace luminal::rules {

Expr over(const AxisTable& axes, Expr e, const LaidOut& to) {
  if (e.is_constant()) return e;
  ExprMap<Expr> dims;
  axes.read_by(e).for_each([&](AxisId a) {
    const auto at = to.position(a);
    dims[axes.symbol(a)] = at ? to.at(*at, axes) : Expr(0);
  });
  return dims.empty() ? e : substitute(e, dims);
}

namespace {

/// Axis a of a value that is read, over the dimensions of `to`. What does not vary with an axis is
/// read at its first point.
Expr axis_in(const AxisTable& axes, AxisId a, const LaidOut& to, const Place* place) {
  if (place)
    if (const Expr* e = place->index_of(a)) return over(axes, *e, to);
  const auto at = to.position(a);
  return at ? to.at(*at, axes) : Expr(0);
}

} // namespace

std::vector<Expr> map_of(const AxisTable& axes, const Form& from, const LaidOut& to, const Place* place) {
  std::vector<Expr> map;
  for (size_t d = 0; d < from.rank(); ++d) {
    const auto dim = from.dim(d);
    const auto same = place ? std::nullopt : same_dim(dim, to);
    if (same) {
      map.push_back(to.index[size_t(*same)]);
      continue;
    }
    Expr e = 0;
    for (const AxisId a : dim) e = e * axes.extent(a) + axis_in(axes, a, to, place);
    map.push_back(e);
  }
  return map;
}

Expr has_points(const AxisTable& axes, const Form& from, const LaidOut& to, const Place* place) {
  Expr all = 1;
  const auto need = [&](AxisId a) {
    const Expr some = lt(0, axes.extent(a));
    if (!to.position(a) && prove(some) != Truth::yes) all = logical_and(all, some);
  };
  for (const AxisId a : from.axes)
    if (const Expr* e = place ? place->index_of(a) : nullptr)
      axes.read_by(*e).for_each(need);
    else
      need(a);
  return all;
}

bool holes_stand_alone(const AxisTable& axes, const Place& place, const Form& from) {
  for (const auto& [axis, e] : place.index) {
    if (e.is_symbol() && axes.read_by(e).empty())
      for (size_t d = 0; d < from.rank(); ++d)
        if (from.dim(d).size() > 1 && std::ranges::count(from.dim(d), axis) > 0) return false;
  }
  return true;
}

} // namespace luminal::rules
