// compile/compile.h -- from a module of terms to a plan that can be loaded and run.
#pragma once
#include "base/result.h"
#include "compile/kernel_choice.h"
#include "compile/pass_list.h"
#include "compile/program_race.h"
#include "compile/search.h"
#include "ir/term.h"
#include "luminal/pass.h"
#include "runtime/plan.h"
#include <memory>
#include <string>
#include <vector>

namespace luminal {
class ThreadPool;
}

namespace luminal::compile {

struct Options {
  kernel::MachineLimits limits; ///< what schedules are made for
  codegen::Target target;       ///< what code is made for
  std::string device = "cpu";   ///< where everything runs that names no other device
  bool cache = true;            ///< keep objects on disk
  /// A plan that an earlier run kept is read (compile/kept_plans.h), and one that is made is kept.
  bool kept_plans = false;
  ThreadPool* pool = nullptr;                  ///< compiles kernels on all its workers; null: on this thread
  std::shared_ptr<search::TuningCache> tuning; ///< what tuning found; null: default schedules
  std::map<std::string, int64_t>
      sizes;                 ///< typical values of dynamic dimensions, by name; see search::typical_sizes
  std::string reproducers;   ///< folder for what turns out to be wrong; empty: the usual one
  bool worker = true;        ///< schedules that are not checked yet run in a process of their own
  SearchOptions search = {}; ///< of better schedules, by measuring
  /// That search.log asks for: open_search_log (compile/search_log.h). Several searches share one.
  std::shared_ptr<search::MeasureLog> log = {};
  search::MachineProfile profile = {}; ///< for estimates of what a launch takes; default: cautious ones
  WeightSource weights = {};           ///< for whole programs that are measured; see ProgramRace
  /// Schedules of kernels by their names in report(): neither the cache nor a search changes them.
  /// One that does not fit is a failure, and nothing checks them.
  std::map<std::string, std::string> schedules = {};
  /// Which values are stored and which share a kernel, in place of fusion; see Partitioner.
  Partitioner partitioner = {};
  std::string plan = {}; ///< a file of schedules and plans of regions; empty: plan_of_process()
  /// Bytes; a plan that needs more is made again of what stores fewest bytes. It may still need more, which
  /// is its reader's to refuse. 0: no limit
  int64_t max_memory = 0;
  RuleOptions rules = {};   ///< of the search for equal programs that take less
  std::string measure_lock; ///< file; empty: the usual one
  /// a schedule from the cache that turns out to be wrong is a failure, else it is dropped and
  /// named
  bool strict = false;
  Pass passes = passes::defaults(); ///< what the module goes through first

  /// This machine, with that many threads.
  static Options host(int threads);
  /// A device of this machine by its name (device/known_devices.h); threads are those that compile.
  static Options for_device(const std::string& name, int threads);
};

/// What rules of class `approx` made of the program, and how far off it is.
struct ApproximationReport {
  double max_error = 0; ///< RuleChoice::max_error; 0: no such rule took part
  /// Of the program that is taken, against the one without such rules, as RuleChoice::max_error counts it.
  double error = 0;
  size_t regions = 0;                ///< that are approximate, with all of their instances
  std::vector<std::string> rejected; ///< a line each: what would have been more than max_error, or not known
};

struct Compiled {
  std::shared_ptr<const runtime::Plan> plan;
  std::vector<PassTime> times;
  PassTable passes;                         ///< those of Options::passes
  int kernels = 0;                          ///< distinct ones
  int cached = 0;                           ///< of these, found on disk
  std::vector<std::string> schedules;       ///< of each kernel, as text
  std::optional<SearchSummary> search;      ///< where one was asked for
  std::vector<KernelReport> choices;        ///< of each kernel: why this schedule
  std::vector<RegionReport> regions;        ///< what the rules have found
  std::vector<search::TuningEntry> entries; ///< what a plan's file has of it (compile/plan_file.h)
  std::vector<BlamedRule> blamed;           ///< rules that took no part, since they are in quarantine
  ApproximationReport approximation;        ///< where RuleChoice::max_error allows some
  /// Of a plan that was read: report() of the run that made it. Choices, regions and entries are empty then.
  std::string made_before;
  /// A line a kernel: name, schedule, buffers, where it is used; then the pass times.
  std::string report() const;
};

/// The user's tuning cache; null where there is none and `make` is false, or LUMINAL_NO_CACHE is
/// set.
std::shared_ptr<search::TuningCache> usual_tuning_cache(bool make);

/// Names what load steps compute from weights of this name: LoadFile's `source`.
uint64_t load_source(std::string_view weights_id, const Options& options);

/// Verifies, then runs every pass. Failure: what is not supported or wrong, with the place.
Result<Compiled> compile(const Module& module, const Options& options);
/// The same up to the plan's slots and steps, without machine code: what a program would take.
Result<runtime::Plan> plan_only(const Module& module, const Options& options);
/// Of that what the rules have found, region by region.
Result<std::vector<RegionReport>> plan_regions(const Module& module, const Options& options);

} // namespace luminal::compile
