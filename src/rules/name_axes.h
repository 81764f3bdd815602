// rules/name_axes.h -- which dimensions of which values are the same axis.
//
// Dimensions are cut into digits wherever a reader or a writer divides them (i // 64, i * 64 + j):
// the cuts of a dimension are a chain in which each divides the next. Cuts spread through
// elementwise operands, folds and views until nothing changes. Then digits that are read at the
// same index become one axis (union-find). A union that would put two digits of one value, or of
// the space of one fold, into one axis is refused: there the reader has a renaming view.
#pragma once
#include "rules/axes.h"
#include "rules/term_kind.h"

namespace luminal::rules {

/// The axes of each dimension of the values of a region.
class NamedDimensions {
public:
  /// Most significant first; none of a dimension of extent 1.
  std::span<const AxisId> dim(NodeId node, size_t d) const {
    const uint32_t var = first_[node] + uint32_t(d);
    return std::span(axes_).subspan(ends_[var], ends_[var + 1] - ends_[var]);
  }
  Form form(NodeId node, size_t rank) const;

private:
  friend class AxisNamer;
  IdVector<NodeId, uint32_t> first_; // by node: its first dimension
  std::vector<uint32_t> ends_;       // by dimension: where its axes begin in `axes_`
  std::vector<AxisId> axes_;
};

/// Nothing where the region would have more than `most_axes`. `nodes`: ascending; kinds: by node.
std::optional<NamedDimensions> name_axes(const Function& function, std::span<const NodeId> nodes,
                                         const IdVector<NodeId, TermKind>& kinds, AxisTable& axes);

/// The dimensions of a node that have names: of its value, or the space of a fold or scan.
const Shape& named_shape(const Node& node, TermKind kind);

/// a / b where b divides a whatever the symbols are, as far as can be seen.
std::optional<Expr> exact_quotient(Expr a, Expr b);

/// Digits [low, high) of output axis `axis`, which are digits from `at` on of a dimension that is read.
struct Piece {
  int axis;
  Expr low, high, at;
};
/// The pieces that make an index of an extent: a mixed radix that covers it. Nothing where the index is
/// anything else.
std::optional<std::vector<Piece>> pieces_of(Expr index, const Shape& space, Expr extent);

} // namespace luminal::rules
