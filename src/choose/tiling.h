// choose/tiling.h -- what the loops of a schedule make of the elements that a fold reads again and
// again: which folds have no tiled schedule, and why.
#pragma once
#include "choose/default_schedule.h"
#include "schedule/nest.h"
#include <optional>

namespace luminal::kernel {

/// A fold that reads elements of its operands several times (a product of matrices, a convolution,
/// pooling with overlapping windows), as a schedule runs it.
struct TiledFold {
  std::string stage;
  double points = 0; ///< at the given sizes, or at most; an axis without a bound counts as 2^20
  double share = 1;  ///< of these points, what its loops do not leave out
  double reuse = 0;  ///< points for each element that is read
  /// The share of the machine's multiply-adds that its inner loops can reach: lanes that are
  /// filled, loads for each multiply-add and the cache they come from, sums that do not wait for
  /// each other. An upper bound from the loops alone.
  double rate = 1;
  bool on_tiles = false; ///< of registers: its steps are those of a unit, not multiply-adds; the rate is 1
  std::string limit;     ///< what holds it back most, for people
};
/// Below this rate a fold counts as not tiled.
inline constexpr double least_rate = 0.1;
/// Folds with fewer points, or that read each element less often, take no time that a tile would
/// save.
inline constexpr double fewest_points = 1 << 14, fewest_reads = 4;

/// The loops of a cone under its schedule, of several versions the one for the largest sizes; none where the
/// schedule does not fit.
std::optional<Nests> largest_nests(const Cone& cone, const Schedule& schedule);

// `sizes`: of the cone's dimension symbols, where something else is meant than their largest values.

/// Of the points of a stage, what its loops do not leave out: a domain ends them where a schedule says so.
double share_of_loops(const Nests& nests, StageId stage, const ExprMap<int64_t>& sizes = {});

/// The folds of these loops, in the order of their stages.
std::vector<TiledFold> tiled_folds(const Nests& nests, const MachineLimits& limits,
                                   const ExprMap<int64_t>& sizes = {});
std::vector<TiledFold> tiled_folds(const Cone& cone, const Schedule& schedule, const MachineLimits& limits,
                                   const ExprMap<int64_t>& sizes = {});
/// Elements that maps write to scratch one by one, without lanes that read neighbours: copies of windows that
/// no vector can make.
double copied_one_by_one(const Nests& nests, const ExprMap<int64_t>& sizes = {});
/// Transcendental functions that maps and epilogues compute for one element at a time: as behind a sum that
/// has all lanes.
double functions_one_by_one(const Nests& nests, const ExprMap<int64_t>& sizes = {});
/// Elements that stages store one by one: lanes whose elements are not contiguous in the result.
double stored_one_by_one(const Nests& nests, const ExprMap<int64_t>& sizes);
/// Elements that folds take one after the other: no loop of theirs has lanes or is written out.
double summed_one_by_one(const Nests& nests, const ExprMap<int64_t>& sizes);
/// Elements of arguments that stages load one by one, other than the operands of tiled folds: lanes whose
/// elements are not contiguous, where no other loop that is written out makes squares of them.
double loaded_one_by_one(const Nests& nests, const ExprMap<int64_t>& sizes);

} // namespace luminal::kernel
