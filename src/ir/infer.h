// ir/infer.h -- result types, with mistakes as data: the builder, the parser and the verifier each
// say where.
#pragma once
#include "ir/term.h"

namespace luminal {

/// A mistake in a node: "[view] ..." without the place.
struct TermMistake {
  std::string operation, text;
};

/// The name by which errors call a node: the op of a map, else the kind.
std::string operation_name(const Attr& attr);
/// As infer_types; throws TermMistake.
std::vector<TensorType> infer_or_throw(const Attr& attr, const std::vector<TensorType>& inputs,
                                       const Module* module);

/// One index of a map that must lie in an extent: 0 <= index < extent under the conditions.
struct BoundCheck {
  Expr index, extent;
  int axis = 0; // of x (view) or base (scatter)
  std::vector<Expr> assumptions;
  bool everywhere = false; // every point of the box of its axes, which have constant extents, is visited
};
/// What the bounds of a view or scatter rest on; `space`: expression_space of the node, `target`:
/// shape of x or base.
std::vector<BoundCheck> bound_checks(const Attr& attr, const Shape& space, const Shape& target,
                                     const Module* module);
/// Each index is an axis of the very extent, or in it by its range, as most are: nothing is left to
/// prove.
bool plainly_inside(const std::vector<Expr>& map, const Shape& space, const Shape& target);
/// An equal expression at every point of the space. Sums below an extent that is not a constant do not divide
/// by it: the range of an axis symbol does not say so, the space does.
Expr simplified_within(Expr e, const Shape& space);
/// yes: proved; no: some index is certainly outside; unknown: to be checked at run time.
Truth in_bounds(const BoundCheck& check);

} // namespace luminal
