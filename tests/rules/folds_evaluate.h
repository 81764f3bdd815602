// rules/folds_evaluate.h -- runs programs of folds on named arrays: in blocks, reading identity,
// combine and projection off the monoid; and plainly, each fold at once, as the judge.
#pragma once
#include "folds_program.h"

namespace luminal::egraph::folds {

/// Points along the axes of a set, in the order of the axes' numbers, the last one fastest.
template <class T> struct Array {
  AxisSet axes = 0;
  std::vector<uint32_t> shape; ///< one for each axis of the set
  std::vector<T> data{T(0)};
};
using Tensor = Array<double>;
using Tensors = std::map<std::string, Tensor>;

enum class Precision : uint8_t { single, twice };

struct Outcome {
  std::vector<Tensor> values; ///< of the program's roots
  /// Folds over something else than parameters that ran outside of all loops: the passes that are
  /// folds.
  uint32_t outer_folds = 0;
};

/// Runs the program in blocks of `block` points along each axis of a fold, combined by halving.
/// Stored values are computed outside of all loops. `extents`: by axis number. Throws Error for
/// inputs that are missing.
Outcome run(const Program& program, const Algebra& algebra, std::span<const uint32_t> extents,
            const Tensors& inputs, Precision precision, uint32_t block);

/// The values of the roots in float64, every value over its whole axes, folds of one component only
/// and summed in order.
std::vector<Tensor> run_plainly(const Program& program, std::span<const uint32_t> extents,
                                const Tensors& inputs);

} // namespace luminal::egraph::folds
