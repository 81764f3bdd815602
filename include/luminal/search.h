// luminal/search.h -- searching better schedules by measuring: how long, what is told meanwhile,
// what came of it.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace luminal {

enum class SearchMode : uint8_t {
  fast,    ///< nothing is measured: what the tuning cache has, else default schedules
  optimal, ///< until no neighbour of the best schedule of any kernel is left untried
  budget,  ///< for so many seconds
};

/// Where a search stands. Times are in seconds.
struct SearchProgress {
  enum class Phase : uint8_t { regions, measuring, tuning, confirming } phase = Phase::measuring;
  /// its name and what it computes, or a region and its plan; empty while whole programs are confirmed
  std::string kernel;
  int number = 0, kernels = 0;            ///< which one, of how many (or plans of regions)
  double best = 0, usual = 0;             ///< of the kernel: best so far, default schedule; 0: not known yet
  int tried = 0;                          ///< of the kernel
  std::map<std::string, int> rejected;    ///< of all kernels so far, by cause
  double left = -1;                       ///< of the budget; -1: no end
  double program_before = 0, program = 0; ///< a step: times of its kernels, summed up
};

/// A kernel that has a new schedule. Times are in seconds.
struct ChangedKernel {
  std::string name, computes; ///< "k3", its results: "y[32, 48]"
  std::string about;          ///< weights that it reads, else the line that asked for it
  double launches = 0;        ///< of a step
  double before = 0, after = 0,
         limit_fraction = 0; ///< of one launch, measured alone; of the machine's limit, 0: not known
};

/// A region of the terms that is computed by other kernels now. Times are in seconds.
struct ChangedRegion {
  size_t nodes = 0, instances = 1; ///< terms of one, and how many regions have this structure
  std::vector<std::string> lines;  ///< of the program, for the first of them
  std::string plan;                ///< the name of the plan that was taken (RegionPlanExplanation::name)
  double before = 0, after = 0;    ///< a step of the program, both measured by turns
};

/// A rule that made a program that gives other results: no compilation on this machine uses it until its text
/// changes, or `luminal cache prune --quarantine` forgets it.
struct BlamedRule {
  std::string name, cause;
  std::string reproducer; ///< folder; empty: it could not be written
};

/// What a search found. Times are in seconds.
struct SearchSummary {
  int kernels = 0, searched = 0, improved = 0;  ///< distinct ones: of the plan, tuned, with a new schedule
  int tried = 0, mismatches = 0;                ///< schedules; those that gave wrong results or crashed
  std::map<std::string, int> rejected = {};     ///< by cause
  double kernels_before = 0, kernels_after = 0; ///< all launches of a step, each measured alone
  double program_before = 0,
         program_after = 0; ///< a step, both measured by turns; 0: nothing changed, or see notes
  bool complete = false;    ///< nothing was left out for want of time
  double seconds = 0;
  int region_plans = 0;                    ///< plans of regions that were measured in the whole program
  std::vector<ChangedRegion> regions = {}; ///< that are computed by other kernels than before
  std::vector<ChangedKernel> changed = {}; ///< the largest gain of a step first
  int workers = 0;                         ///< of a step's launches, where fewer than all proved faster
  std::vector<BlamedRule> blamed = {};     ///< rules that are not used any more
  std::vector<std::string> notes = {};
};

/// The log of what a search measured: with it, and nothing else that varies, the search finds its plan again.
struct SearchLog {
  std::string write = {};  ///< to this file, when the search has ended
  std::string replay = {}; ///< from this file: nothing is measured, and nothing is kept on disk
  std::string about = {};  ///< a JSON object that stands in the log's head: who searched, and what
};

struct SearchOptions {
  SearchMode mode = SearchMode::fast;
  double seconds = 10;             ///< of SearchMode::budget
  std::function<bool()> stop = {}; ///< true: end soon, with the best so far
  /// Called now and then, never while something is timed.
  std::function<void(const SearchProgress&)> progress = {};
  /// only kernels whose name, results or weights have this in them; an Error where there is none
  std::string filter = {};
  bool confirm = true; ///< the last word is a measurement of the whole program
  SearchLog log = {};
};

} // namespace luminal
