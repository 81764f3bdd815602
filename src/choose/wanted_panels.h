// choose/wanted_panels.h -- which constant operands of products had better lie in panels: made
// once, when a plan is loaded.
#pragma once
#include "choose/default_schedule.h"

namespace luminal::kernel {

/// Dimension `dim` of an input in blocks of `columns`: [d / columns, ... the others, d % columns]
/// is how the default schedule reads it best.
struct PanelWish {
  ValueId value; ///< of the cone
  int dim = 0;
  int64_t columns = 0;
  /// The value that the product writes where it could leave out what lies outside along the rows of
  /// the other operand, which windows reach over; else none.
  ValueId padded;
  /// as f32: a convolution multiplies each of them so often that no conversion stands in its loops
  bool widened = false;
  /// The dimension of which so many neighbours are a word of a dot instruction: [d / columns, ...
  /// e / word, ..., d % columns, e % word]; none: there is none.
  std::optional<int> in_words;
  int64_t word = 1;
  /// Parts of the dimension, each in blocks of its own: [group, d / columns, ..., d % columns], where d
  /// counts within a group.
  int64_t groups = 1;
  bool operator==(const PanelWish&) const = default;
  int64_t products = 0; ///< of each element, where lanes go along `dim` although results do not lie so
  /// How many more products of one element full lanes would do in the time that panels save.
  double gain = 0;
};
/// Few rows of the other operand, or weights that are unpacked for each tile of rows: the rows of a
/// tile as the default schedule takes them; 0: it chooses by itself.
int64_t few_rows_tile(int64_t rows, bool narrow);
/// Of all inputs of known size that products use often enough, as if all of them were constants. At
/// most one wish for each.
std::vector<PanelWish> wanted_panels(const Cone& cone, const MachineLimits& limits);

} // namespace luminal::kernel
