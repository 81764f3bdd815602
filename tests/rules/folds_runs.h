// rules/folds_runs.h -- the cases of folds_cases.h as they are extracted and run: sizes, inputs,
// and what must come of them.
#pragma once
#include "extract/extract_sample.h"
#include "folds_cases.h"
#include "folds_evaluate.h"

namespace luminal::egraph::folds {

/// Axes in an order: the last one that a result has is its row.
using Sizes = std::vector<std::pair<std::string, int64_t>>;

/// Makes inputs over the axes of one case.
class Inputs {
public:
  Inputs(const Extents& extents, uint64_t seed);
  /// Fills an array over the axes ("t k", in the order of its indices) and names it.
  using Fill = std::function<double(std::span<const uint32_t> at)>;
  void add(const std::string& name, const std::string& axes, const Fill& fill);
  void add_normal(const std::string& name, const std::string& axes, double deviation = 1, double mean = 0);
  double normal(); ///< of mean 0 and deviation 1
  double uniform(double from, double to) { return from + (to - from) * random_.unit(); }
  uint32_t extent(const std::string& axis) const { return extents_.at(axis); }
  const Tensors& tensors() const { return tensors_; }

private:
  std::map<std::string, uint32_t> numbers_, extents_;
  Random random_;
  Tensors tensors_;
};

/// How a case is costed and run.
struct FoldsRun {
  std::string name; ///< of the case
  Sizes large;      ///< for the cost
  Sizes small;      ///< for evaluation
  /// Passes and stored elements (millions, to two digits) of the formula as it is written and of
  /// what is found.
  uint32_t naive_passes = 0, passes = 0;
  double naive_stored = 0, stored = 0;
  size_t widest = 0; ///< components of the widest tuple that is found; 0: any
  std::function<void(Inputs&)> inputs;
  uint32_t undefined = 0; ///< elements for which the formula as it is written gives NaN
  /// Largest error in float32 relative to |b|, or to `floor` times the largest of the row where b
  /// is less. Twice the formula's own is allowed.
  double tolerance = 1e-5, floor = 0.05;
  /// An axis that is split: points of a tile when costed and when run.
  struct Split {
    std::string axis;
    int64_t large, small;
  };
  std::vector<Split> splits = {};
};

const std::vector<FoldsRun>& folds_runs();
const FoldsRun& run_named(const std::string& name);

/// The sizes, with those of split axes.
Extents extents_of(const FoldsRun& run, bool large);

/// The terms of the case, at its large sizes.
std::vector<Value> build_large(const FoldsRun& run, Theory& theory);

} // namespace luminal::egraph::folds
