// rules/form_maps.h -- index expressions with which a value of one form reads a value of another one.
#pragma once
#include "rules/axes.h"
#include "rules/place.h"

namespace luminal::rules {

/// An expression over names, over the dimensions of a form.
Expr over(const AxisTable& axes, Expr e, const LaidOut& to);
/// For each dimension of `from` its index over the dimensions of `to`. What does not vary with an axis is
/// read at its first point.
std::vector<Expr> map_of(const AxisTable& axes, const Form& from, const LaidOut& to,
                         const Place* place = nullptr);
/// What does not vary with an axis is read at its first point: an axis that may be empty must have one.
Expr has_points(const AxisTable& axes, const Form& from, const LaidOut& to, const Place* place = nullptr);
/// An index that is a hole by itself is held inside of its extent by the policy of the hole: is it the index
/// of a whole dimension?
bool holes_stand_alone(const AxisTable& axes, const Place& place, const Form& from);

} // namespace luminal::rules
