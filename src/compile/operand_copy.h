// compile/operand_copy.h -- a view that a fold reads again and again, as a copy of what it reads
// and a plain view of that copy.
#pragma once
#include "ir/term.h"
#include <optional>

namespace luminal::compile {

/// The same elements through a tensor in between: `inner` is a view of the source in which each
/// element that the view reads stands once, `outer` a view of that whose index maps are sums of
/// axes. Windows of a padded, resized, reflected or permuted image are windows of the copy `inner`;
/// the holes of the view are those of `inner`.
struct OperandCopy {
  ViewAttr inner, outer;
};
/// Nothing where the copy would be no smaller than the view by a good part, or where it would be
/// the source itself.
std::optional<OperandCopy> copy_of_operand(const ViewAttr& view, const Shape& source);

} // namespace luminal::compile
