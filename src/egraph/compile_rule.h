// egraph/compile_rule.h -- a rule in the form the planner and the applier take: equalities
// resolved, registers numbered.
#pragma once
#include "egraph/rule.h"
#include "egraph/state.h"

namespace luminal::egraph {

/// A variable that no equality removed, or a value. Values of eq-sorts are replaced by their leader
/// before each matching.
struct Slot {
  bool constant = false;
  bool eq = false; ///< of an eq-sort
  uint32_t id = 0; ///< variable or value
  bool operator==(const Slot&) const = default;
};

struct CompiledAtom {
  OpId op = 0;
  std::vector<Slot> cols; ///< arguments, then the output
};
struct CompiledPrim {
  PrimId prim = 0;
  std::vector<Slot> args;
  Slot out;
};

struct CompiledQuery {
  std::vector<Slot> vars;  ///< what stands for each variable of the query
  std::vector<bool> bound; ///< the query gives the variable a value; the others belong to actions
  std::vector<CompiledAtom> atoms;
  std::vector<CompiledPrim> prims;
  bool impossible = false; ///< two different values are said to be equal
  bool include_subsumed = false;
  bool thread_safe = true; ///< all primitives are
};

/// One action over registers: the first registers are the match, then constants, then what actions
/// make.
struct Instr {
  Action::Kind kind = Action::Kind::let;
  OnFail on_fail = OnFail::panic;
  uint32_t id = 0;
  uint32_t first_arg = 0, arg_count = 0; ///< in CompiledActions::args
  uint32_t out = 0;
  uint32_t action = 0; ///< in CompiledActions::source
};
struct CompiledActions {
  std::vector<Instr> instrs;
  std::vector<uint32_t> args;
  std::vector<Action> source; ///< what the instructions came from: messages and host functions
  std::vector<VarId> match;   ///< variables of the query that a match holds, in order
  std::vector<std::pair<uint32_t, Value>> constants; ///< register, value
  std::vector<uint32_t> var_regs;                    ///< register of each variable; absent: it has none
  uint32_t regs = 0;
};

struct CompiledRule {
  CompiledQuery query;
  CompiledActions actions;
};

/// Throws Error, naming `what`, where arities are wrong, ids unknown or a variable cannot be bound.
CompiledQuery compile_query(const State& state, const Query& query, const std::string& what);
/// `bound`: variables that have a value before the first action; `keep_all`: the match holds all of
/// them.
CompiledActions compile_actions(const State& state, std::span<const Action> actions,
                                const std::vector<bool>& bound, bool keep_all, const std::string& what);

} // namespace luminal::egraph
