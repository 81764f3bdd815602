// search/select.h -- from a list of candidates and a budget to the one that is used: built, raced,
// checked, kept in the tuning cache.
#pragma once
#include "search/check_candidate.h"
#include "search/machine_profile.h"
#include "search/race.h"
#include <optional>

namespace luminal::search {

struct SelectOptions {
  BuildOptions build;
  RaceOptions race; ///< race.seconds is the budget of measuring
  CheckOptions check;
  MeasurerOptions measure;
  bool worker = true; ///< candidates run in a process of their own
  TuningCache* cache = nullptr;
  std::string numeric = "reassoc"; ///< for the key
  uint64_t rules = 0;              ///< for the key
  double limit_seconds = 0;        ///< what the machine's limits allow for one launch; 0: not known
  std::string reproducers; ///< folder; empty: "reproducers" in the cache folder, or among temporary files
  std::string lock;        ///< empty: MeasureLock::default_path()

  /// A candidate whose bound (bound.h), with this margin, is above the best time known is not
  /// built. Guessed profiles have no bounds.
  MachineProfile profile = {};
  double bound_margin = 0.85;
  /// Where the incumbent takes longer than this, candidates race on macro-tiles (part.h) of about
  /// part_seconds, and who wins there is confirmed whole.
  double long_launch = 30e-3, part_seconds = 10e-3;
  std::vector<SizePoint> sizes;
  MeasureLog* log = nullptr; ///< gets, or gives, all that depends on the moment
};

struct Tried {
  std::string schedule; ///< its text
  /// why it is not the winner: illegal, the same code as another, crashed, slower, wrong, bound,
  /// ...; empty for the winner
  std::string rejected;
  /// low percentile; of what was not confirmed whole as its macro-tile has it; 0: not timed
  double seconds = 0;
  double bound = 0; ///< seconds; 0: not known
  int64_t samples = 0;
  Verdict verdict;        ///< of the check, where it came to one
  bool checked = false;   ///< and passed
  std::string reproducer; ///< folder, where it was wrong
};

struct Selection {
  std::optional<size_t> winner; ///< position in `tried`
  std::vector<Tried> tried;     ///< as given
  bool complete = false;        ///< false: the budget ended before every finalist had its samples
  double checked_seconds = 0;   ///< time of building and checking, outside the race
  bool parts = false;           ///< raced on macro-tiles
  /// the largest bound by measured time; above 1 the profile was taken at a bad moment
  double bound_ratio = 0;
  /// options.sizes: seconds of the incumbent and of the winner
  std::vector<std::pair<double, double>> at_sizes;
};

/// Lists of candidates for one problem: what was built and checked for one of them serves the next
/// ones. The first candidate is the incumbent: another one must beat it by the threshold. Finalists
/// are checked from the fastest on until one passes; what is wrong goes into the cache's quarantine
/// and leaves a reproducer (terms, schedule, loops, seed) in a folder that the log names. The
/// winner is put into the cache.
class Selector {
public:
  /// The problem must outlive it.
  Selector(const KernelProblem& problem, SelectOptions options);
  ~Selector();
  Selector(const Selector&) = delete;
  Selector& operator=(const Selector&) = delete;
  /// seconds: of measuring. allowed: of options.sizes, from now on; empty: as they say. Failure:
  /// nothing can be judged, or no candidate is right.
  Result<Selection> run(const std::vector<Candidate>& candidates, double seconds,
                        const std::vector<double>& allowed = {});
  Result<Tried> check_first(const Candidate& candidate);

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// One list.
Result<Selection> select(const KernelProblem& problem, const std::vector<Candidate>& candidates,
                         const SelectOptions& options);

/// One schedule without a race: built and checked, and condemned as above where it is wrong. For
/// entries of the cache that came from elsewhere. Failure: it cannot be built, or nothing can be
/// judged.
Result<Tried> check_one(const KernelProblem& problem, const Candidate& candidate,
                        const SelectOptions& options);
/// Where the terms are NaN for random inputs (a root of a negative number), inputs become positive.
/// Failure: they still are.
Result<void> make_judgeable(KernelProblem& problem, const SelectOptions& options);

/// What is wanted, or where that is empty the usual place.
std::string reproducer_folder(const std::string& wanted);
/// Writes the folder and returns its name. Files: term.lum, schedule.txt, loops.txt, case.json
/// (cause, seed, sizes, target), and loops_shrunken.txt where `loops` is given: those of the
/// shrunken instance.
Result<std::string> write_reproducer(const std::string& folder, const KernelProblem& problem,
                                     const Candidate& candidate, const kernel::Kernel& kernel,
                                     const std::string& cause, const std::string& loops,
                                     const BuildOptions& build);

} // namespace luminal::search
