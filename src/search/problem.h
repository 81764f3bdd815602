// search/problem.h -- a kernel to be tuned at one size: what it computes, with which inputs, and
// how its candidates become machine code.
#pragma once
#include "codegen/codegen.h"
#include "cone/cone.h"
#include "ir/interp.h"
#include "schedule/lower.h"
#include "schedule/schedule.h"
#include "search/measurer.h"
#include "search/tuning_cache.h"
#include <functional>
#include <map>
#include <string>
#include <utility>

namespace luminal::search {

struct KernelProblem {
  Module module;                          ///< its entry function is what the kernel computes
  kernel::Cone cone;                      ///< of all results of the entry
  std::map<std::string, int64_t> symbols; ///< values of the dimension symbols: the true size
  std::map<std::string, std::pair<int64_t, int64_t>>
      integers;      ///< ranges of integer inputs by name, inclusive; 0..3 where it says nothing
  uint64_t seed = 1; ///< of the inputs
  std::pair<double, double> floats = {-2, 2}; ///< range of floating inputs
};

/// Sizes of a kernel's dimensions beside those of the problem, at which a winner is timed as well.
struct SizePoint {
  std::map<std::string, int64_t> symbols;
  double weight = 1;     ///< the problem's own sizes have 1
  double allowed = 1.02; ///< times the incumbent's time: what is slower there is not taken
};

struct BuildOptions {
  codegen::Target target = codegen::Target::host();
  codegen::CodegenOptions codegen;
  kernel::LowerOptions lower;
  int threads = 1;
};

/// One way to compute a cone. `lower` is asked for the cone at its true size with `schedule`, and
/// for shrunken ones with that or the same schedule of smaller blocks.
struct Candidate {
  kernel::Schedule schedule;
  std::function<Result<kernel::Kernel>(const kernel::Cone&, const kernel::Schedule&)> lower;
};
Candidate candidate_of(kernel::Schedule schedule, const kernel::LowerOptions& options);

/// Machine code for the kernel, with its scratch at these symbols. Failure: as codegen::compile.
Result<CandidateCode> build(const kernel::Kernel& kernel, const std::map<std::string, int64_t>& symbols,
                            const BuildOptions& options);
/// The same code with its scratch at other symbols. Failure: the scratch has no size there.
Result<CandidateCode> at_sizes(CandidateCode code, const kernel::Kernel& kernel,
                               const std::map<std::string, int64_t>& symbols);
/// Workers that a launch of the cone at these symbols gets, of as many: what `serial` in the
/// schedule leaves it.
int workers_of(const kernel::Schedule& schedule, const kernel::Cone& cone,
               const std::map<std::string, int64_t>& symbols, int threads);

/// Random inputs of the entry function: floats and integers in their ranges; a function of the
/// problem alone.
Bindings inputs_of(const KernelProblem& problem);
/// The arguments of a kernel of the cone at these symbols. Inputs have the values of inputs_of
/// where their size is that of the problem; a smaller input is a beginning of it. Throws Error
/// where the cone is not of the module's entry.
Workload workload_of(const KernelProblem& problem, const kernel::Cone& cone,
                     const std::map<std::string, int64_t>& symbols, int threads);
/// For each argument of the workload the name of the entry's result that it becomes; empty for
/// inputs.
std::vector<std::string> results_of(const KernelProblem& problem);

/// A cone of smaller extents that takes the same ways through a kernel: of each axis two whole
/// tiles (or `tiles`) of what the schedule makes of it, and its remainder; as many as a split
/// reduction has parts. Extents that views tie together, or that loops without tiles turn into
/// lanes or written-out bodies, stay as they are. blocks: blocks of the schedule become smaller,
/// too (two register tiles instead of what fills a cache).
struct Shrunk {
  kernel::Cone cone;
  std::map<std::string, int64_t> symbols;
  kernel::Schedule schedule;
};
Shrunk shrink(const KernelProblem& problem, const kernel::Schedule& schedule, int tiles = 2,
              bool blocks = false);
/// Elements of the largest tile along each axis of the cone, by the axis' position; 1 where it is
/// not split.
IdVector<kernel::AxisId, int64_t> tile_sizes(const kernel::Cone& cone, const kernel::Schedule& schedule);
/// Points of all stages at these symbols.
double points_of(const kernel::Cone& cone, const std::map<std::string, int64_t>& symbols);

/// What results of this problem are kept under. Names of stages, axes and values count, since
/// schedules name them: canonical cones (cone/canonical_cone.h) give equal kernels equal names.
TuningKey tuning_key(const KernelProblem& problem, const BuildOptions& options, std::string numeric,
                     uint64_t rules);
/// The same in two parts: what depends on the machine and the program, and a cone at these sizes.
TuningKey machine_key(const BuildOptions& options, std::string numeric, uint64_t rules);
TuningKey tuning_key(const kernel::Cone& cone, const std::map<std::string, int64_t>& sizes,
                     TuningKey machine);

ExprMap<int64_t> bound_symbols(const std::vector<Expr>& symbols,
                               const std::map<std::string, int64_t>& values);

} // namespace luminal::search
