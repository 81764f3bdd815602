// egraph/egraph.h -- the e-graph engine: terms in tables, classes in a union-find, rules run
// semi-naively over both.
#pragma once
#include "base/hash.h"
#include "egraph/report.h"
#include "egraph/rule.h"
#include "egraph/types.h"
#include "luminal/error.h"
#include <memory>

namespace luminal::egraph {

struct State; // egraph/state.h

/// A row as readers see it: `cells` are the arguments and then the output.
struct RowView {
  OpId op = 0;
  RowId row = 0;
  std::span<const Value> cells;
  bool subsumed = false;
  std::span<const Value> args() const { return cells.first(cells.size() - 1); }
  Value out() const { return cells.back(); }
};

/// The cause of an edge in an explanation.
struct Justification {
  enum class Kind : uint8_t {
    rule,       ///< a rule united two classes
    congruence, ///< two rows of `op` had equal arguments
    input,      ///< the host called unite()
    merge,      ///< a merge of `op` united two values
  };
  Kind kind = Kind::input;
  RuleId rule = absent;
  OpId op = absent;
  /// rule: values of the query's variables where recorded (EGraph::record_substitutions)
  std::vector<Value> substitution = {};
  std::vector<Value> left = {},
                     /// congruence: the two rows (arguments) as they were; empty once compacted
      /// away
      right = {};
};
struct ExplainStep {
  ClassId from = 0, to = 0; ///< ids as they were made
  Justification why;
};

/// A lattice over classes, computed by the host: the least assignment with value(class) >=
/// make(row) for all its rows. Values are the host's numbers, as in value sorts.
struct AnalysisSpec {
  std::string name;
  Value bottom = 0;
  /// The contribution of a row; `of(class)` is the present value of an argument's class. Monotone
  /// in what `of` returns.
  std::function<Value(const RowView& row, const std::function<Value(ClassId)>& of)> make;
  /// Least upper bound: idempotent, commutative, associative (checked in debug builds).
  std::function<Value(Value, Value)> join;
};
using AnalysisId = uint32_t;

/// Not thread safe; different e-graphs may be used by different threads. Mistakes of the caller
/// (unknown ids, wrong arity) throw luminal::Error. Everything is deterministic: the same calls
/// give the same ids, row order and snapshot for any number of threads.
class EGraph {
public:
  EGraph();
  ~EGraph();
  EGraph(EGraph&&) noexcept;
  EGraph& operator=(EGraph&&) noexcept;
  EGraph clone() const;

  // ---- schema ----
  SortId add_sort(SortSpec spec);
  static constexpr SortId unit_sort = 0; ///< exists from the start
  OpId add_op(OpSpec spec);
  PrimId add_primitive(PrimitiveSpec spec);
  RulesetId add_ruleset(std::string name);
  /// Checks arities and that every variable used is bound; sorts are the front end's to check.
  RuleId add_rule(Rule rule);

  const SortSpec& sort(SortId id) const;
  const OpSpec& op(OpId id) const;
  const PrimitiveSpec& primitive(PrimId id) const;
  const Rule& rule(RuleId id) const;
  std::span<const RuleId> ruleset(RulesetId id) const;
  const std::string& ruleset_name(RulesetId id) const;
  size_t op_count() const;
  size_t rule_count() const;
  std::optional<OpId> find_op(std::string_view name) const;

  // ---- terms and facts, outside of runs ----
  // Arguments need not be leaders. Unions are not closed under congruence before rebuild(), which
  // run(), matches and readers of rows call when needed: adding many terms costs one rebuild. A
  // merge that fails throws luminal::Error.
  Value add(OpId op, std::span<const Value> args); ///< constructor: its class, created where absent
  std::optional<Value>
  lookup(OpId op,
         std::span<const Value> args); ///< any operator; the output, with a leader in place of an old id
  void set(OpId op, std::span<const Value> args,
           Value out); ///< relations: out = 0. Merges with what is there
  void unite(ClassId a, ClassId b);
  bool remove(OpId op, std::span<const Value> args); ///< false: there was none
  void
  subsume(OpId op,
          std::span<const Value> args); ///< makes the row where it is absent (constructors and relations)
  /// A class without a row.
  ClassId fresh_class();
  ClassId find(ClassId id) const;
  /// `value` of a column of sort `sort`, with leaders in place of old ids.
  Value canonical(SortId sort, Value value);
  /// Closes the unions under congruence. Does nothing where there are none.
  void rebuild();
  /// Applies actions once, as a rule without premises would: `values` are those of the variables
  /// that the actions use. Returns the values of all variables afterwards. A panic throws
  /// luminal::Error with its message.
  std::vector<Value> apply(std::span<const Action> actions, std::vector<Value> values);

  // ---- rules ----
  /// One iteration: all rules of the rulesets are matched against the same tables, then all matches
  /// are applied in the order of rules and matches, then the e-graph is rebuilt.
  RunReport run(std::span<const RulesetId> rulesets, const RunOptions& options = {});
  RunReport run(RulesetId ruleset, const RunOptions& options = {}) {
    return run(std::span(&ruleset, 1), options);
  }
  /// Holds for plans made from now on: to be called before the first run.
  void plan_with(const PlanOptions& options);
  /// Of all rules, by id.
  std::vector<RuleStats> rule_stats() const;
  RuleStats rule_stats(RuleId id) const;
  /// The same without steps, probes and time of search, which are added up for each call.
  std::span<const RuleStats> applied() const;
  /// Is there a match? The premises are matched against everything.
  bool holds(const Query& query);
  /// Calls f(values of query.vars) for each match until it returns false. The graph must not be
  /// changed meanwhile.
  void for_each_match(const Query& query, const std::function<bool(std::span<const Value>)>& f);

  // ---- readers (they rebuild first where unions wait) ----
  size_t size(OpId op) const;  ///< live rows, subsumed ones included
  uint64_t total_size() const; ///< live rows of all tables
  size_t class_count() const;  ///< ids ever made; leaders have find(id) == id
  void for_each_row(OpId op,
                    const std::function<bool(const RowView&)>& f); ///< in row order, until f returns false
  RowView row(OpId op, RowId row) const;
  /// Rows whose output is in the class (DOWN), by operator and row.
  std::vector<RowView> class_rows(ClassId id);
  /// Rows with an argument in the class (UP), by operator and row, each once.
  std::vector<RowView> use_rows(ClassId id);
  RuleId creator(OpId op, RowId row) const; ///< the rule that made the row; absent: the host

  // ---- state ----
  /// Drops all rows and classes; schema, rules and their plans stay, and the rules begin anew.
  void clear();
  void push();            ///< keeps a copy of everything, rules and operators included
  void pop();             ///< back to the last copy; Error where there is none
  uint64_t bytes() const; ///< capacity of all arrays of the tables, indexes, classes, matches and logs
  /// Union path between two ids that are in one class, in order from a to b; empty where a == b,
  /// Error where they are not in one class.
  std::vector<ExplainStep> explain(ClassId a, ClassId b) const;
  void record_substitutions(
      bool on); ///< keeps the values of the variables with each union of a rule; off at first
  AnalysisId add_analysis(AnalysisSpec spec);
  Value analysis(AnalysisId id, ClassId class_id); ///< brought up to date first
  /// Byte-exact: equal states give equal bytes, whatever the number of threads. Rules, primitives
  /// and hooks are not part of it.
  std::string save();
  /// A hash of the live rows up to the names of classes and their order: the same for graphs that
  /// differ by a renumbering; the operators count by name, values by their text where their sort
  /// prints. A key for caches.
  Hash128 structural_hash();
  /// Replaces tables and classes; sorts and operators must be those of the snapshot, by name and
  /// order. A malformed snapshot throws Error.
  void load(std::string_view snapshot);

  State& state() { return *state_; }
  const State& state() const { return *state_; }

private:
  std::unique_ptr<State> state_;
};

} // namespace luminal::egraph
