// compile/fuse_demand.h -- private: how often, and at which indices, a value is asked for. Shared by
// the files of fusion.
#pragma once
#include "ir/partition.h"
#include <vector>

namespace luminal::compile {

double largest(Expr extent);
double count(const Shape& shape);
double bytes(const TensorType& type);

bool is_stage(const Node& node);
/// A fold over one axis, which is not the last one; neighbouring columns are enough for lanes, and a cache of
/// one core holds them.
bool reduces_columns(const FoldAttr& fold);
/// Costs nothing where it is read: an index, a conversion, a number.
bool is_free(const Node& node);
/// Axes (i0, i1, ...) and holes (h0, ...) of index maps, as against dimension symbols.
bool is_local(Expr symbol);

/// One demand for a value: by which stage (a fold, or the root of a kernel), at which index.
struct Demand {
  NodeId stage;
  bool at_root;            // the stage is the root's own elementwise space
  std::vector<Expr> index; // over the stage's axes
  double evaluations;      // points of the stage
  // last axis of a stage that walks its rows in order: what does not depend on it is computed once
  // a row
  Expr innermost = 0;
  bool in_pieces = false; // the root is a map of constant extents, whose kernel may be cut along its axes
  double share =
      1; // of these points at which a predicate over one axis of the root lets the value be read at all
  double times() const;
  bool operator==(const Demand& o) const { return stage == o.stage && index == o.index; }
};

/// Along whole axes, each once.
bool plain(const std::vector<Expr>& index);
/// The map of a reader of this shape, at an index of it.
std::vector<Expr> through(const Shape& reader_shape, const std::vector<Expr>& map,
                          const std::vector<Expr>& at);
/// The share of the root's points at which the predicate can hold, where the kernel is cut along
/// an axis there (choose/choose_segments.cpp), or its loop over remainders is written out (its
/// stores are de-interleaved).
double share_of(Expr predicate, const Demand& demand);
/// Where the predicate holds of some elements of an axis, which the demand reads from the first one on, the
/// demand is for one part: the parts of a concatenation that read the same are one demand, as the results of
/// one body are (segments STAGE AXIS 2).
void index_in_part(Demand& demand, Expr predicate);

} // namespace luminal::compile
