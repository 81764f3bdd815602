// rules/form_edits.h -- forms of values made from forms and sets of axes.
#pragma once
#include "rules/axes.h"
#include <optional>

namespace luminal::rules {

/// The axes of a form that are in the set; dimensions that had others only are gone.
Form filtered(const Form& form, const AxisSet& axes);
/// A dimension for each axis of the set that the form lacks.
void append_missing(Form& form, const AxisSet& axes);
/// The dimensions of another form, as far as their axes are in the set and not there yet.
void append_new(Form& form, const Form& other, const AxisSet& axes);
Form part_of(const Form& form, std::span<const int> dims); ///< these dimensions
/// Dimensions that are folded in part are cut where that changes.
Form cut(const Form& form, const AxisSet& over);

/// The dimension of `to` that has exactly these axes.
std::optional<int> same_dim(std::span<const AxisId> dim, const LaidOut& to);
/// The dimensions of `to` that a form has, in its order; nothing where it has another one.
std::optional<std::vector<int>> dims_within(const Form& form, const LaidOut& to);
/// Dimensions of the space that a body has: those that it varies with, and those that its node had.
std::vector<int> body_dims(const Form& space, const AxisSet& varying, const std::vector<int>* had);

} // namespace luminal::rules
