// egraph/state.h -- everything an e-graph holds, and the operations on rows that keep it
// consistent. Private to the engine.
#pragma once
#include "egraph/egraph.h"
#include "egraph/table.h"
#include "egraph/union_find.h"
#include <array>
#include <memory>
#include <unordered_map>

namespace luminal {
class ThreadPool;
}

namespace luminal::egraph {

struct CompiledRule; // compile.h
class Trie;          // trie.h

struct Ruleset {
  std::string name;
  std::vector<RuleId> rules;
};

/// Per rule, what a run changes.
struct RuleProgress {
  uint32_t watermark = 0; ///< rows of this epoch and later are new to the rule; 0: it has not run
  bool ran = false;       ///< a rule without atoms runs once
  Buffer<Value> waiting;  ///< matches held back by the budget, one after another
  uint32_t waiting_count = 0;

  void matched_to(uint32_t epoch) {
    watermark = epoch;
    ran = true;
  }
};

/// Copies do not share plans: they are made again where needed.
struct PlanCache {
  std::vector<std::unique_ptr<Trie>> tries;
  PlanCache();
  ~PlanCache();
  PlanCache(const PlanCache&);
  PlanCache& operator=(const PlanCache&);
};

struct AnalysisColumn {
  AnalysisSpec spec;
  Buffer<Value> values;    ///< by class id
  std::vector<RowId> upto; ///< by operator: rows below were looked at
  size_t unions_upto = 0;  ///< entries of the union log that were taken over
  uint64_t generation = 0; ///< of State::generation when it was computed
};

struct State {
  State();
  ~State();
  State(const State&);
  State& operator=(const State&) = delete;

  std::vector<SortSpec> sorts;
  std::vector<OpSpec> ops;
  std::vector<PrimitiveSpec> prims;
  std::vector<Rule> rules;
  std::vector<std::shared_ptr<const CompiledRule>> compiled;
  std::vector<Ruleset> rulesets;
  std::unordered_map<std::string, OpId> op_names;
  std::unordered_map<std::string, RulesetId> ruleset_names;

  std::vector<Table> tables; // by operator
  Classes classes;
  uint32_t epoch = 1; ///< of the rows that are appended now; each iteration begins a new one
  bool has_containers = false;
  uint64_t appended = 0; ///< rows ever appended
  /// changes when rows vanish other than by being killed: rollback, compaction, load, pop
  uint64_t generation = 0;
  uint64_t known_bytes = 0;                             ///< bytes() as a run last added them up,
  std::array<uint64_t, 4> bytes_known_at{~uint64_t{0}}; ///< at this generation, rows, classes and unions
  Buffer<Value> substitutions;
  bool record_substitutions = false;

  std::vector<RuleProgress> progress;
  std::vector<RuleStats> stats; ///< without steps, probes and search time: they are counted by the plans
  double search_seconds = 0;
  std::vector<AnalysisColumn> analyses;
  PlanCache plans;
  struct PairChance {
    double chance = 0;
    uint32_t version_a = 0, version_b = 0;
  };
  PlanOptions plan_options;
  std::unordered_map<uint64_t, PairChance> pair_chances; ///< by two columns; see plan.cpp
  Buffer<uint64_t> displaced_bits;                       ///< scratch of rebuild(), all zero outside
  Buffer<Value> scratch;                                 ///< one row

  /// The first error of the program since it was last taken: a merge that failed, a panic.
  std::optional<std::string> panic;
  void set_panic(const std::string& message) {
    if (!panic) panic = message;
  }

  struct Kill {
    OpId op;
    RowId row;
    Value out;
  };
  bool journalling = false; ///< kills are kept for a rollback
  Buffer<Kill> kills;

  std::vector<std::unique_ptr<State>> pushed;
  std::unique_ptr<ThreadPool> threads;
  ThreadPool& pool(int size);

  // ---- store_rows.cpp ----
  void kill(OpId op, RowId row) {
    if (journalling) kills.push_back({op, row, tables[op].out(row)});
    tables[op].kill(row);
  }
  RowId append(OpId op, const Value* key, Value out, uint32_t hash, RuleId creator) {
    ++appended;
    return tables[op].append(key, out, hash, creator, epoch);
  }
  /// The class of the term, created where absent. `key` must not point into the table.
  Value build(OpId op, const Value* key, RuleId creator) {
    Table& table = tables[op];
    const uint32_t hash = table.hash(key);
    const RowId found = table.find(key, hash);
    if (found != absent) return table.out(found);
    const ClassId made = classes.fresh();
    append(op, key, made, hash, creator);
    return made;
  }
  /// The row key -> out, merged with what is there. `subsumed`: the row is hidden afterwards.
  void put(OpId op, const Value* key, Value out, RuleId creator, const UnionCause& cause,
           bool subsumed = false);
  bool remove(OpId op, const Value* key);
  /// False where the row is absent and is not a constructor's or a relation's.
  bool subsume(OpId op, const Value* key, RuleId creator);
  void unite(ClassId a, ClassId b, const UnionCause& cause) { classes.unite(a, b, cause); }
  /// `old_value` and `new_value` merged; sets the panic and returns `old_value` where that fails.
  Value merge(OpId op, Value old_value, Value new_value, RuleId creator, const UnionCause& cause);

  Value canonical(SortId sort, Value value);
  uint64_t rows() const; ///< dead ones included
  uint64_t bytes() const;

  // ---- rebuild_egraph.cpp ----
  void rebuild();
  bool needs_rebuild() { return !classes.displaced().empty(); }
  /// Brings indexes and class records up to the last row. No unions may wait.
  void extend_indexes();
  void compact_where_worth();
};

} // namespace luminal::egraph
