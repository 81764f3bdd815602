// search/measure_log.h -- what a search asked the machine and what it was told: the part of its outcome
// that no other run could know. Written by one search, read by another one, which measures nothing and ends
// where the first one did.
//
// Everything that varies goes through the log: times of launches and steps, results of checks, whether a
// budget is spent, whether somebody asked to stop. A search that reads a log asks the same questions in the
// same order; a question that the log does not have there means that the log is not of this search.
//
// Text, a JSON object a line: the head, what the tuning cache had, the answers in their order, and an end
// with a checksum of all that stands before it.
#pragma once
#include "search/tuning_cache.h"
#include <set>

namespace luminal::search {

/// All that the search depended on beside what is measured.
struct MeasureLogHead {
  Hash128 program;     ///< the build (base/program_hash.h)
  TuningKey machine;   ///< machine_key: of kernels on all workers
  std::string profile; ///< MachineProfile::to_json
  std::string mode;    ///< "optimal", "budget"
  double seconds = 0;  ///< of "budget"
  std::string filter;  ///< of kernels
  bool confirm = true;
  std::string about; ///< a JSON object: who searched, and what
};

class MeasureLog {
public:
  static constexpr int version = 1;
  /// For a search that measures.
  explicit MeasureLog(MeasureLogHead head);
  ~MeasureLog();
  MeasureLog(const MeasureLog&) = delete;
  MeasureLog& operator=(const MeasureLog&) = delete;
  /// For one that does not. Failure, with the file: it cannot be read, is not a log, has no end, is damaged.
  static Result<std::shared_ptr<MeasureLog>> read(const std::string& path);

  bool replays() const;
  const MeasureLogHead& head() const;

  struct Answer {
    bool ok = true;
    std::string text; ///< where it is not ok, why
    std::vector<double> numbers;
  };
  /// What `machine` says, or what the log has. Throws Error where the log has another question.
  Answer ask(std::string_view question, std::string_view subject, const std::function<Answer()>& machine);
  /// Seconds of a launch of this candidate: as `ask`, in less room.
  Result<double> sample(int candidate, const std::function<Result<double>()>& machine);
  /// Asked very often, and nearly always no: only where it says yes the log has a line.
  bool yes(std::string_view question, const std::function<bool()>& machine);

  /// The tuning cache that a search with this log uses. Written: the entries and quarantines of `cache`
  /// (null: none) as they are now; what is put there goes to `cache`, too. Read: those of the log, and
  /// nothing is kept.
  std::shared_ptr<TuningCache> cache_for(std::shared_ptr<TuningCache> cache);
  /// The search asks the cache for this key: entries of its structure belong to the log.
  void uses(const TuningKey& key);

  /// Of one that was written.
  std::string text() const;
  /// Of one that is read: throws Error where answers are left over.
  void require_end() const;

private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A null log: the machine is asked.
inline bool replays(const MeasureLog* log) { return log && log->replays(); }
inline bool yes(MeasureLog* log, std::string_view question, const std::function<bool()>& machine) {
  return log ? log->yes(question, machine) : machine();
}
Result<void> outcome(MeasureLog* log, std::string_view question, std::string_view subject,
                     const std::function<Result<void>()>& machine);
Result<double> seconds(MeasureLog* log, std::string_view question, std::string_view subject,
                       const std::function<Result<double>()>& machine);

} // namespace luminal::search
