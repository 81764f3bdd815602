// choose/contraction.h -- the role of each axis of a stage and how each operand varies along it:
// what a schedule has to know of a product, a convolution, a statistic or a map, from index maps
// alone.
#pragma once
#include "choose/axis_use.h"
#include <string>
#include <vector>

namespace luminal::kernel {

/// batch: kept, and every operand varies with it (or none does); column: kept, varies with the same
/// operands as the axis along which the result is contiguous; row: any other kept axis, along which
/// some operand is invariant; reduction: a fold reduces it, or a scan runs along it; window: a
/// reduction whose axis is added to a kept one in an index of an operand.
enum class AxisRole : uint8_t { batch, row, column, reduction, window };
std::string_view to_string(AxisRole role);

/// One value as the stage reads or writes it: all its loads at the same index.
struct Operand {
  ValueId value;
  int bits = 32; ///< of an element as it is read
  Expr guard = 1;
  bool interior = false;   ///< computed in the same kernel
  std::vector<Step> along; ///< by axis of the stage
  std::vector<Expr> index;
};

struct Contraction {
  std::vector<AxisId> axes;      ///< of the stage, in its order
  std::vector<AxisRole> roles;   ///< by position in `axes`
  std::vector<Operand> operands; ///< what it reads, in the order of appearance
  std::vector<Operand> results;  ///< what it writes
  bool folds = false;

  /// Position of a cone's axis; none where the stage does not have it.
  std::optional<size_t> position(AxisId axis) const;
  AxisRole role(AxisId axis) const { return roles[*position(axis)]; }
  /// A fold of which an operand is read again for each element of a kept axis.
  bool reuses() const;
};

/// Of one stage of the cone, whose axes are not split.
Contraction contraction_of(const Cone& cone, const Stage& stage);

/// The two loads that the stage's first component, a sum, is made of; else none.
std::vector<const Formula*> factors_of(const Stage& stage);

/// "m row, n column, k reduction; x [contiguous along k, invariant along n], ..."; for people.
std::string to_string(const Cone& cone, const Contraction& contraction);

} // namespace luminal::kernel
