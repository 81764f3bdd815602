// egraph/report.h -- what a run reports: why it stopped, what changed, and counts per rule.
#pragma once
#include "egraph/types.h"
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

namespace luminal::egraph {

enum class StopReason : uint8_t {
  none,    ///< the iteration was completed
  rows,    ///< Limits::rows
  classes, ///< Limits::classes
  bytes,   ///< Limits::bytes
  steps,   ///< Limits::steps
  time,    ///< Limits::seconds
  cancelled,
  panic, ///< the program asked for it or a merge failed: RunReport::message
};
const char* to_string(StopReason reason);

/// 0: no limit. Tested inside matching and applying, every 1,024 steps; after a stop the e-graph is
/// valid and the iteration can be run again: rules keep what they have not finished.
struct Limits {
  uint64_t rows = 0;     ///< live and dead rows of all tables
  uint64_t classes = 0;  ///< ids ever made
  uint64_t bytes = 0;    ///< EGraph::bytes()
  uint64_t steps = 0;    ///< of one run
  double seconds = 0;    ///< of one run; a safety net: results then depend on the machine
  bool rollback = false; ///< a stop restores the state from before the iteration
  const std::atomic<bool>* cancel = nullptr;
};

struct RunOptions {
  Limits limits = {};
  int threads = 1; ///< for matching; the result is the same for any number
};

/// How queries are planned. Any values give the same matches, in another order.
struct PlanOptions {
  /// Rows expected of an index run from which a second index is worth a look at both: the shorter
  /// run of two columns of an atom, or two atoms that close a cycle met by the values they share.
  /// 0: always.
  double long_run = 8;
};

/// Counts since the rule was added (EGraph::rule_stats) or of one iteration.
struct RuleStats {
  uint64_t steps = 0;   ///< rows looked at; a step that rules share counts for each in equal parts
  uint64_t probes = 0;  ///< index and hash-cons probes, shared likewise
  uint64_t matches = 0; ///< applied
  uint64_t waiting = 0; ///< found, but held back by the budget until the next iteration
  uint64_t new_rows = 0;
  uint64_t unions = 0;
  double search_seconds = 0, apply_seconds = 0;
};

struct RunReport {
  StopReason stop = StopReason::none;
  /// rows were added or replaced or classes united by the actions (egglog's `updated`), or matches
  /// wait
  bool changed = false;
  bool rolled_back = false; ///< the state is that from before the iteration
  uint64_t matches = 0, new_rows = 0, unions = 0, steps = 0, waiting = 0;
  double search_seconds = 0, apply_seconds = 0, rebuild_seconds = 0;
  std::string message; ///< of a panic
};

} // namespace luminal::egraph
