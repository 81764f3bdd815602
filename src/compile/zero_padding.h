// compile/zero_padding.h -- sums of products with windows leave out the steps that read only zeros
// beside an image, where the other factor is a constant.
#pragma once
#include "ir/term.h"
#include <vector>

namespace luminal::compile {

/// Where a row (or a column) that is read lies inside: a condition over one kept axis and reduced
/// ones of the fold.
struct PaddingRegion {
  Expr inside;
  int row = 0;   ///< the kept axis
  int other = 0; ///< which input of the product is the constant's
};
/// Of a fold that sums the product of a view with zeros around it and another view: of its rows (of a
/// volume: planes and rows), then of the columns, where few of them meet the zeros. Nothing where it is
/// something else, or no row lies outside.
std::vector<PaddingRegion> padding_regions_of(const Function& function, NodeId fold);

/// The sum with what the steps outside add: 0 times the constant, which is not 0 where that is
/// infinite or no number. Appends nodes that compute this from the constant alone. `sum`: the
/// result of the fold over what is inside; `other`: the constant's view; both in `to`. `sums` gets the
/// sums of the constant that are made for it.
NodeId add_outside(Function& to, const PaddingRegion& region, const FoldAttr& fold, NodeId sum, NodeId other,
                   std::vector<NodeId>& sums);

} // namespace luminal::compile
