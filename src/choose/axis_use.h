// choose/axis_use.h -- private: how the reads and writes of a stage vary with its axes. Axes are
// classified from the index maps alone.
#pragma once
#include "schedule/nest.h"

namespace luminal::kernel {

/// near: a few elements apart or backwards, so that whole vectors are loaded and shuffled.
enum class Step : uint8_t { none, contiguous, near, strided, irregular };

/// How the offset of `index` in the value moves with a symbol, counted in elements of which each
/// takes up `width` of the value's.
Step step_of(const Cone& cone, ValueId value, const std::vector<Expr>& index, Expr symbol, int64_t width = 1);
/// Of a load, which may read several elements as a word.
Step step_of(const Cone& cone, const Formula& load, Expr symbol);

/// Does one of the expressions vary with the symbol?
bool varies(std::span<const Expr> index, Expr symbol);

/// Expressions over the axes, as the loops of the nest make these.
std::vector<Expr> over_loops(const StageNest& nest, const std::vector<Expr>& index);

struct AxisUse {
  int contiguous = 0, near = 0, strided = 0, irregular = 0; // loads; of stores, near ones count as strided
  int backwards = 0;                                        // of the near loads
  int gathers = 0;       // of the irregular loads: an index from memory moves, itself contiguous or invariant
  int computed = 0;      // of the irregular loads: an expression over axes moves, such as a quotient
  int strided_after = 0; // of the strided ones: stores, and loads of maps behind the sums
  bool store_contiguous = false;
  bool rows = false; // stores, several of one value, are contiguous in each trip: in_rows()
  int score() const {
    return contiguous * 2 + near + (store_contiguous ? 1 : 0) - 3 * strided - 4 * irregular;
  }
};
/// Along one symbol, axis values already over loop symbols.
AxisUse use_along(const Nests& nests, StageId stage, Expr symbol);

/// Does the stage write several results that are contiguous in each trip of the loop, elements of 32 bits of
/// one value? Vectors of them are exchanged in registers and written row by row.
bool in_rows(const Nests& nests, StageId stage, Expr symbol);

/// Divisors d of floordiv(e, d) and mod(e, d) with e along the axis: how the axis is made of
/// blocks. Ascending.
std::vector<int64_t> blocks_of(const Cone& cone, const Stage& stage, Expr axis_symbol);

/// Axes that a fold of the stage reduces.
std::vector<AxisId> reduced_axes(const Stage& stage);
bool has_fold(const Stage& stage);

} // namespace luminal::kernel
