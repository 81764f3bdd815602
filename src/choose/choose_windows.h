// choose/choose_windows.h -- private: sums of products with an operand that is read through
// windows, and how the copy of that is cut up.
#pragma once
#include "choose/axis_use.h"
#include "choose/default_schedule.h"

namespace luminal::kernel {

struct WindowedProduct {
  const Formula *x = nullptr, *w = nullptr; ///< read through windows; the other operand
  std::string origin, other_origin;         ///< the views through which x and w are read
  std::vector<AxisId> kept, summed;         ///< axes of x, as they lie
  std::vector<AxisId> outputs;              ///< kept axes along which only w moves
  std::vector<AxisId> groups;               ///< kept axes along which both move; not among `kept`
  int64_t uses = 1, depth = 1;              ///< of an element of x's copy; of the sum
  int64_t run = 1, rows = 1, images = 1; ///< extents of the last kept axis, of the one before, of all others
  /// The first kept axes, but for the last two, along which x is read plainly: a copy with zeros
  /// around has them as well. Windows begin with the next one.
  std::vector<AxisId> batches;
  Step step = Step::none; ///< along the run
  bool window = false;    ///< not read plainly: windows, shifts, ends that are filled up
};
/// Stages whose first component sums the product of two loads, with known extents.
std::optional<WindowedProduct> windowed_product(const Cone& cone, const Stage& stage);
/// Those without groups.
std::optional<WindowedProduct> one_windowed_product(const Cone& cone, const Stage& stage);

/// Would a copy with the zeros around it serve: are windows shifted views of that?
bool takes_padded_copy(const Cone& cone, const WindowedProduct& product);

/// Is it faster as a product of matrices on a unit with tile registers, which the machine has? What is read
/// through windows is copied as a matrix then, the other operand is read as it lies.
bool pays_on_tiles(const Cone& cone, const Stage& stage, const WindowedProduct& product,
                   const MachineLimits& limits);

/// How much of units that are filled from n things is filled.
double share_of(int64_t n, int64_t unit);

struct WindowBlocks {
  int64_t rows = 0;      ///< of each block, which the product takes as one run
  double used = 0;       ///< share of the lanes
  bool apart = false;    ///< a block is copied just before the product reads it, by the worker that does
  bool by_image = false; ///< workers share the images
};
/// The share of the lanes' time that the product itself has, where lanes go along the run: the
/// operand is a padded copy, or its windows are copied.
struct WindowWays {
  double padded = 0, copied = 0;
};
WindowWays window_ways(const WindowedProduct& product, const MachineLimits& limits);
/// The best blocks, or those of so many rows.
WindowBlocks window_blocks(const WindowedProduct& product, const MachineLimits& limits, int64_t rows = 0);

/// Of a value; 0 where an extent is not constant.
int64_t bytes_of(const ConeValue& value);

} // namespace luminal::kernel
