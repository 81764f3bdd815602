// egraph/apply_rule.h -- runs the actions of rules over matches.
#pragma once
#include "egraph/compile_rule.h"
#include "egraph/limits.h"

namespace luminal::egraph {

/// The actions of one iteration. Rows of constructors and relations appear at once; values of
/// functions, deletions and what may meet a deletion are kept until finish().
class Applier {
public:
  /// `graph`: given to host actions. Operators whose rows `rules` delete keep their insertions
  /// back.
  Applier(EGraph& graph, std::span<const CompiledActions* const> rules);

  /// One match: `values` are those of actions.match. False where the run must end (panic).
  bool apply(const CompiledActions& actions, RuleId rule, const Value* values);
  /// `count` matches, one behind the other. Programs that only build, unite and insert go through
  /// them in blocks, one instruction after the other, so that the memory of a whole block is asked
  /// for at once. False where the run must end.
  static constexpr uint32_t block = 16;
  bool apply_block(const CompiledActions& actions, RuleId rule, const Value* values, uint32_t count);
  /// Deletions, then insertions, in the order they were asked for.
  void finish();

  std::vector<Value> regs; ///< after apply(): the registers of the match

private:
  struct Staged {
    OpId op;
    bool remove;
    bool subsume;
    RuleId rule;
    uint32_t substitution;
    size_t at; ///< in staged_values_
  };
  void to_leaders(const Instr& instr);
  bool is_plain(const CompiledActions& actions) const;
  void insert(OpId op, const Value* key, Value out, uint32_t hash, const CompiledActions& actions,
              RuleId rule);
  bool step(const CompiledActions& actions, const Instr& instr, RuleId rule);
  bool fail(const CompiledActions& actions, const Instr& instr, const std::string& fallback);
  UnionCause cause(const CompiledActions& actions, RuleId rule);

  EGraph& graph_;
  State& state_;
  std::vector<bool> deferred_;   // by operator: insertions wait for the deletions
  std::vector<RowId> first_row_; // by operator: rows from here on were made by this iteration
  Buffer<Value> staged_values_;
  std::vector<Staged> staged_;
  std::vector<Value> key_;
  const CompiledActions* loaded_ = nullptr; // whose constants are in regs
  bool plain_ = false;                      // of loaded_
  std::vector<Value> block_regs_, block_keys_;
  uint32_t substitution_ = absent;
  bool skip_rest_ = false;
};

} // namespace luminal::egraph
