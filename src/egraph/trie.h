// egraph/trie.h -- the plans of a list of rulesets, with equal beginnings shared: what matching
// walks.
#pragma once
#include "egraph/compile_rule.h"
#include <map>
#include <optional>
#include <variant>

namespace luminal::egraph {

/// A register: below Trie::globals_at bound along the path, from there on a global: a constant or a
/// ground term of some rule.
using Reg = uint32_t;

/// What is asked of a row, and the registers that are bound from one that passes.
struct RowTest {
  struct Cell {
    uint32_t col;
    Reg reg;
    bool operator==(const Cell&) const = default;
  };
  bool include_subsumed = false;
  std::vector<Cell> checks, binds;                 ///< columns compared with, copied to registers
  std::vector<std::pair<uint32_t, uint32_t>> same; ///< pairs of columns that are equal
  bool operator==(const RowTest&) const = default;
};
/// The rows with regs[key] in column `col`: down on the output, up on an argument.
struct Run {
  uint32_t col = 0;
  Reg key = 0;
  uint64_t signature = 0; ///< index on a class: bit that the class must have
  bool operator==(const Run&) const = default;
};

// ---- steps of matching; `old_only`: rows before the watermark ----
/// The root that goes on once.
struct Once {
  bool operator==(const Once&) const = default;
};
/// Rows of a range: roots (delta or all, tested by their children), and products without a common
/// variable.
struct Scan {
  OpId op = 0;
  bool old_only = false;
  bool operator==(const Scan&) const = default;
};
/// Below a root scan: what one group of rules asks of the root's row.
struct Filter {
  bool operator==(const Filter&) const = default;
};
/// The row with key regs[args].
struct Lookup {
  OpId op = 0;
  bool old_only = false;
  std::vector<Reg> args;
  bool operator==(const Lookup&) const = default;
};
/// A run of rows. Where a second column is bound the shorter of the two runs is walked, and both
/// columns are compared.
struct WalkIndex {
  OpId op = 0;
  bool old_only = false;
  Run run;
  std::optional<Run> other;
  bool operator==(const WalkIndex&) const = default;
};
/// One side of a meet.
struct Side {
  OpId op = 0;
  bool old_only = false;
  Run run;
  uint32_t shared_col = 0; ///< column of the shared variable
  std::vector<Reg> args;   ///< not empty: the whole key, known as soon as the shared variable is
  bool operator==(const Side&) const = default;
};
/// Two runs of rows, of two atoms, that share a variable: pairs of rows with the same value of it,
/// a step of a generic join. What is asked of the second row stands in the child, a Partner.
struct Meet {
  Reg shared = 0;
  Side sides[2];
  bool operator==(const Meet&) const = default;
};
struct Partner {
  bool operator==(const Partner&) const = default;
};
/// A primitive of regs[args]: binds `out`, or compares with it.
struct CallPrim {
  PrimId prim = 0;
  std::vector<Reg> args;
  Reg out = 0;
  bool out_bound = false;
  bool operator==(const CallPrim&) const = default;
};

/// One step of matching. Rows that pass bind registers and go on to the children.
struct TrieNode {
  using Step = std::variant<Once, Scan, Filter, Lookup, WalkIndex, Meet, Partner, CallPrim>;
  struct Emit {
    uint32_t entry = 0; ///< rule of the trie
    uint32_t stamp = 0;
    std::vector<Reg> regs; ///< values of the match
  };
  Step step; ///< two plans share the node where step and test are equal
  RowTest test;
  uint32_t id = 0, stamp = 0, users = 0;
  TrieNode* parent = nullptr;
  std::vector<std::unique_ptr<TrieNode>> children;
  std::vector<Emit> emits;
};

/// A constant, or the output of a ground term: resolved before each matching.
struct TrieGlobal {
  bool lookup = false, eq = false, include_subsumed = false;
  uint32_t id = 0; ///< value or operator
  std::vector<Reg> args;
  RowId row = absent;
  Value value = absent;
  uint32_t stamp = 0;
  bool present = false;
};

struct Plan {
  TrieNode* leaf = nullptr;
  uint32_t emit = 0;
  uint64_t planned_for = 0; ///< rows of its tables when it was made
  std::vector<OpId> ops;
};

struct RuleEntry {
  RuleId rule = absent; ///< absent: a query
  std::shared_ptr<const CompiledRule> compiled;
  std::vector<OpId> needs;       ///< operators that must have rows
  size_t blocked_by = 0;         ///< of `needs`, the one found empty last
  std::vector<uint32_t> grounds; ///< globals of ground atoms
  std::vector<std::pair<Reg, Reg>> ground_equal;
  std::vector<Reg> var_regs;     ///< global register of variables that are ground or constant; absent
  std::vector<uint32_t> open;    ///< atoms that are not ground
  std::vector<Plan> delta_plans; ///< by open atom
  Plan full_plan;
  bool thread_safe = true;
};

struct NodeCount {
  uint64_t steps = 0, probes = 0;
};

class Trie {
public:
  Trie(State& state, std::vector<RulesetId> rulesets, uint32_t most_vars);

  std::vector<RulesetId> rulesets;
  std::vector<RuleEntry> entries;
  std::vector<TrieGlobal> globals;
  Reg globals_at; ///< register of the first global
  uint32_t stamp = 0;
  uint32_t node_count = 0, used_nodes = 0; ///< nodes made; of the plans as they were first made
  TrieNode once;
  std::map<OpId, TrieNode> delta_roots, full_roots; ///< scans; by operator
  std::vector<uint32_t> order;                      ///< entries in the order of rules
  std::vector<NodeCount> counts;                    ///< by TrieNode::id, of all matching so far

  void add(RuleId rule, std::shared_ptr<const CompiledRule> compiled);
  /// Chooses the plans that can match and stamps their nodes. `full`: everything is new to the
  /// rule. False where the rule cannot match.
  bool activate(uint32_t entry, uint32_t watermark, bool full);
  /// To be called before the activations of one matching.
  void begin() {
    ++stamp;
    for (const uint32_t global : class_constants_) resolve(global);
  }
  Reg global_reg(uint32_t global) const { return globals_at + global; }

private:
  uint32_t constant(const Slot& slot);
  Reg reg_of(const RuleEntry& entry, const Slot& slot) {
    return slot.constant ? global_reg(constant(slot)) : entry.var_regs[slot.id];
  }
  bool resolve(uint32_t global);
  void prepare(Plan& plan, RuleEntry& entry, uint32_t entry_index, uint32_t root_open, bool full);
  void stamp_path(Plan& plan);
  TrieNode* child(TrieNode* node, TrieNode::Step step, RowTest test = {});

  State& state_;
  std::map<std::pair<Value, bool>, uint32_t> constants_;
  std::map<std::vector<uint32_t>, uint32_t> ground_terms_;
  std::vector<uint32_t> class_constants_;
};

/// The steps of a plan in terms of variables of the query; plan.cpp.
struct PlannedStep {
  enum class Kind : uint8_t { scan, index, lookup, meet, prim };
  Kind kind = Kind::scan;
  uint32_t atom = absent;      ///< in CompiledQuery::atoms, or in prims
  uint32_t col = 0;            ///< index
  uint32_t other_col = absent; ///< index: a second one
  uint32_t partner = absent;   ///< meet: the other atom
  uint32_t partner_col = 0;    ///< meet: its column with a known value
  VarId shared = absent;       ///< meet: the variable in both
};
/// `known`: values of the variables that are ground, absent for the others. `root`: the open atom
/// that is scanned first, or absent: the best.
std::vector<PlannedStep> make_plan(State& state, const CompiledQuery& query, std::span<const uint32_t> open,
                                   std::span<const Value> known, uint32_t root);

} // namespace luminal::egraph
