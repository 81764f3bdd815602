// compile/kernel_choice.h -- which schedule a kernel of a plan gets: the one that tuning found,
// where the cache has one that is right, else the default one.
#pragma once
#include "choose/default_kernels.h"
#include "codegen/codegen.h"
#include "runtime/plan.h"
#include "search/extract_kernel.h"
#include "search/machine_profile.h"
#include "search/measure_log.h"
#include "search/tuning_cache.h"
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace luminal::compile {

/// What a kernel is made from, for who wants to know more than report() says.
struct KernelFacts {
  kernel::Cone given;
  kernel::CanonicalCone canonical;
  std::map<std::string, int64_t> sizes; ///< typical ones, by the canonical cone's names
  std::vector<std::string> lines;       ///< of the program that asked for it
};

/// What report() says of a kernel.
struct KernelReport {
  std::string name;
  std::string computes; ///< its results: "y[32, 48]"
  /// what a person knows it by: weights that it reads, else the line that asked for it
  std::string about = {};
  std::string key;            ///< of the tuning cache
  bool tuned = false;         ///< the schedule comes from measuring, else it is the default one
  bool given = false;         ///< or the caller's (ChoiceOptions::schedules, ChoiceOptions::plan)
  double seconds = 0;         ///< of one launch where it was measured, at `sizes`; 0: never
  double usual_seconds = 0;   ///< of the default schedule, where this run measured it
  double limit_fraction = 0;  ///< of the machine's limit; 0: not known
  std::string sizes;          ///< "n=1 past=64": of dynamic dimensions
  std::string elsewhere = {}; ///< "n=1 3.1 us (default 3.2 us), ...": other sizes that this run measured
  int tried = 0;              ///< schedules, in this run
  std::map<std::string, int> rejected = {}; ///< how many, by cause
  std::string note;                         ///< why it is not tuned, what was wrong; may be empty
  std::string names;                        ///< of the schedule's values, loops and stages: "v0 x, a0 m"
  /// Products (and other folds that read elements again and again) whose loops reach less than a
  /// tenth of the machine's multiply-adds, and why; empty: none
  std::string untiled = {};
  std::shared_ptr<const KernelFacts> facts = {}; ///< null: a custom kernel
};
std::string to_string(const KernelReport& report); ///< one line, and one for the names

/// A kernel before code generation, and all it takes to tune it.
struct PlannedKernel {
  kernel::Kernel loops;
  std::string schedule; ///< its text; "custom"
  KernelReport report = {};
  // Not of custom kernels:
  ExprMap<Expr> dimensions = {}; ///< symbols of `loops` -> the plan's
  std::optional<search::TuningKey> key = {};
  int threads = 1;                           ///< workers of a launch at these sizes
  std::vector<runtime::WorkerCap> caps = {}; ///< as runtime::KernelCode
  double point_ns = 0.05;
  std::function<Result<search::KernelProblem>()> problem = {}; ///< while the builder lives
  /// The default one, where that was chosen and `loops` are not made yet.
  const kernel::DefaultKernel* usual = nullptr;
};

class PlanFile;

/// How code of a kernel is made for the limits and the target, on so many threads.
search::BuildOptions build_options(const kernel::MachineLimits& limits, const codegen::Target& target,
                                   int threads);

struct ChoiceOptions {
  kernel::MachineLimits limits;
  codegen::Target target;
  std::shared_ptr<search::TuningCache> cache; ///< null: default schedules only
  std::map<std::string, int64_t> sizes;       ///< typical values of dynamic dimensions, by name
  bool strict = false;                        ///< a schedule that turns out to be wrong is a failure
  std::string reproducers;                    ///< folder; empty: the usual one
  bool worker = true; ///< schedules from elsewhere are checked in a process of their own
  /// schedules, and plans of regions, by hash of the key, before the cache; empty text: the default one
  std::map<Hash128, std::string> pinned;
  std::shared_ptr<PlanFile> plan = {};               ///< before the cache; null: none
  std::map<std::string, std::string> schedules = {}; ///< before all others, by the kernel's name
  search::MachineProfile profile = {};               ///< for estimates of what a launch takes
  std::shared_ptr<search::MeasureLog> log = {};      ///< of a search: see search/measure_log.h
};

class KernelPlanner {
public:
  explicit KernelPlanner(ChoiceOptions options);
  /// A schedule. Failure: one of the caller's does not fit, or, with `strict`, one was wrong.
  Result<PlannedKernel> choose(const search::KernelPlace& place, Expr points);
  /// Its loops, where they were not made to see whether the schedule fits. Failure: nothing lowers.
  Result<void> lower(const kernel::Cone& given, const kernel::CanonicalCone& canonical,
                     PlannedKernel& kernel) const;
  /// The key of a region whose plan was measured (compile/plan_race.h): the same for any number of workers,
  /// as what is computed must be. `structure`: of all that the choice depends on.
  search::TuningKey region_key(const Hash128& structure) const;
  /// What is pinned for this key, else what the plan's file has, else the cache.
  std::optional<std::string> kept(const search::TuningKey& key) const;
  /// The plan of this name gave other results, here or in another search.
  bool is_quarantined(const search::TuningKey& key, const std::string& text) const;
  search::BuildOptions build_options(int threads) const {
    return compile::build_options(options_.limits, options_.target, threads);
  }
  const kernel::MachineLimits& limits() const { return options_.limits; }
  kernel::DefaultKernels& defaults() { return defaults_; }
  const std::map<std::string, int64_t>& sizes() const { return options_.sizes; }
  const search::MachineProfile& profile() const { return options_.profile; }

private:
  Result<void> use(const std::string& schedule, const kernel::Cone& cone, PlannedKernel& to) const;
  Result<bool> use_entry(search::TuningEntry entry, const kernel::Cone& cone, PlannedKernel& to);
  Result<bool> use_plan(const kernel::Cone& cone, PlannedKernel& to);
  Result<bool> passes(const search::TuningEntry& entry, PlannedKernel& to);

  ChoiceOptions options_;
  kernel::DefaultKernels defaults_;
  std::map<int, search::TuningKey> machine_; // by number of workers
};

} // namespace luminal::compile
