// compile/split_kernels.h -- kernels that fusion makes and no tiled schedule serves: values inside
// of them are stored.
//
// Fusion (compile/fuse.h) counts evaluations. It does not see that two products in one kernel may
// leave no loops for lanes, or that an operand is read through divisions, minima or strides. Here
// each such kernel is scheduled as it is and in parts, and what the schedules make of its products
// (choose/tiling.h) decides. A value is stored by a fence behind it, which every later pass sees: a
// product's result, a short sum that a product reads, or an operand as a copy in the order in which
// the product reads it. A product's result is stored, too, where functions that take many
// operations would be computed of it without lanes.
#pragma once
#include "base/hash.h"
#include "choose/default_kernels.h"
#include "compile/fuse.h"
#include "search/cone_estimate.h"
#include <map>
#include <span>

namespace luminal::compile {

class KernelSplitter {
public:
  /// Default schedules are made once for each kernel: the memory of them is shared with who lowers
  /// the parts.
  KernelSplitter(const kernel::MachineLimits& limits, kernel::DefaultKernels& kernels)
      : limits_(limits), kernels_(kernels) {}
  struct Split {
    Function function;          ///< with fences behind what is stored; without nodes where nothing is
    StepFusion fusion;          ///< of this function, or of the given one
    Boundaries boundaries = {}; ///< of this function, where there is one
  };
  /// `function` has neither calls nor sorts. `load_values`: its own, where they are known. Kernels
  /// that `boundaries` decides stay as they are.
  Split split(const Function& function, const std::vector<NodeId>* load_values = nullptr,
              const Boundaries* boundaries = nullptr);
  /// A kernel of a step, and its nanoseconds at each of several sizes of the dynamic dimensions.
  struct KernelTime {
    Hash128 kernel; ///< of its canonical cone: equal ones take the same time
    std::vector<double> ns;
    std::vector<double> stored; ///< bytes that it writes and that are no results of the step
  };
  /// The kernels of a step of the function, as it was split, with their default schedules
  /// (search/cone_estimate.h); none where one cannot be built. All calls have the same rates.
  std::vector<KernelTime> step_times(const Function& function, const Split& made,
                                     std::span<const std::map<std::string, int64_t>> sizes,
                                     const search::EstimateRates& rates);

private:
  struct Stores {
    std::vector<NodeId> results;  ///< of folds, as what readers convert them to where that is narrower
    std::vector<NodeId> operands; ///< views, copied as copy_of_operand says
    bool empty() const { return results.empty() && operands.empty(); }
  };
  Stores stores_of(const Function& part);
  /// `partition`: of the region; null: it is made where it is needed.
  void stores_in(const Region& region, const Partition* partition, const std::set<NodeId>& constants,
                 const Boundaries* boundaries, Stores& stores);
  struct Estimate {
    double time = 0; ///< nanoseconds
    double lost = 0; ///< of that by what products are slower than tiled ones
  };
  Estimate time_of(const Function& part);
  static Function with(const Function& function, const Stores& stores, Boundaries* boundaries = nullptr);

  const kernel::MachineLimits& limits_;
  kernel::DefaultKernels& kernels_;
  std::map<uint64_t, Stores> known_;          // by the structure of a kernel
  std::map<std::vector<int64_t>, double> ns_; // by the kernel of a cone and its sizes
};

} // namespace luminal::compile
