// compile/rule_options.h -- the search for equal programs: what it may take, and what it tells.
#pragma once
#include "luminal/rules.h"
#include "search/tuning_cache.h"
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace luminal::rules {
class RegionTerms;
struct Entered;
struct Choice;
} // namespace luminal::rules

namespace luminal::compile {

class RuleSet;

struct RuleOptions {
  bool on = true;
  RuleChoice choice = {};
  std::shared_ptr<const RuleSet> set = {}; ///< of the choice; null: it is made when it is needed
  /// Of one module, in counted work: a unit takes about a microsecond of one core. Regions come by the points
  /// of their loops, each with what those before it have left, whether these were searched or known.
  uint64_t work = 100'000;
  /// Ends the search, and report() says where. 0: never, so that what is found does not vary with the
  /// machine's other work.
  double seconds = 0;
  uint64_t seed = 1;
  /// Of the plans of each region the one that stores fewest bytes, in place of that which takes least time:
  /// where the other needs more memory than there is.
  bool fewest_bytes = false;
  bool files = false; ///< what is found is kept on disk, too, and read from there
  bool texts = false; ///< reports have the terms before and after
  /// In place of the search: a choice for each region, boundaries included; nothing leaves the region as
  /// it is. For tests, which draw any legal one.
  std::function<std::optional<rules::Choice>(rules::RegionTerms&, const rules::Entered&)> choose = {};
};

/// One way to compute a region.
struct RegionPlanReport {
  std::string name;         ///< a hash of its kernels: 16 hexadecimal digits
  double estimate_s = 0;    ///< of a step
  size_t kernels = 0;       ///< where it is not what came
  double stored_bytes = 0;  ///< written by these for others of the region
  bool written = false;     ///< the terms as they came, greedily fused
  bool approximate = false; ///< it needs a rule of class `approx`
};

/// One region of equal ones. Times are in seconds.
struct RegionReport {
  size_t nodes = 0;     ///< of a step, and fixed ones that they read
  size_t instances = 1; ///< regions of this structure
  bool cached = false;  ///< searched before
  size_t rows = 0, classes = 0, axes = 0;
  uint64_t work = 0; ///< counted, as RuleOptions::work
  double saturate_s = 0, extract_s = 0, judge_s = 0;
  std::vector<std::string> rules;      ///< that united something, in the order of their sets
  double written_s = 0;                ///< estimate of the terms as they came, greedily fused
  double estimate_s = 0;               ///< of what is taken
  size_t kernels = 0;                  ///< of what is taken, where that is not what came
  double stored_bytes = 0;             ///< written by these for others of the region
  std::string limit;                   ///< at which the rules ended, where they did not end by themselves
  std::vector<std::string> lines;      ///< of the program, of the first region
  std::string before, after;           ///< its terms, with RuleOptions::texts; no `after`: as before
  std::string outcome;                 ///< why the region stays as it is; empty: it is replaced
  std::vector<RegionPlanReport> plans; ///< the least estimate first; empty: nothing to choose from
  size_t taken = 0;                    ///< of `plans`
  bool measured = false;               ///< the plan that is taken won by measuring
  bool fewest_bytes = false;           ///< it is taken since it stores fewest bytes
  std::optional<search::TuningKey> key = {}; ///< under which the winner is kept; none: nothing to choose from
};
std::string to_string(const RegionReport& report); ///< a line, and one with the rules
std::string name_of(const RegionReport& report);   ///< "region of 23 terms"
/// The plan of this name as an entry of the tuning cache has it.
std::string plan_text(const std::string& name);

} // namespace luminal::compile
