// egraph/rule.h -- rules as the engine takes them: a query over tables and primitives, and a list
// of actions.
#pragma once
#include "egraph/types.h"
#include <string>
#include <vector>

namespace luminal::egraph {

using VarId = uint32_t;

/// A variable of the rule or a value.
struct Operand {
  enum class Kind : uint8_t { var, constant };
  Kind kind = Kind::var;
  uint32_t id = 0; ///< VarId or Value
  static Operand var(VarId v) { return {Kind::var, v}; }
  static Operand constant(Value v) { return {Kind::constant, v}; }
  bool is_var() const { return kind == Kind::var; }
  bool operator==(const Operand&) const = default;
};

/// op(args) = out. Relations have out = constant 0. Subsumed rows do not match.
struct Atom {
  OpId op = 0;
  std::vector<Operand> args;
  Operand out;
};

/// prim(args) = out: computes `out` where it is not bound otherwise, compares where it is. Fails
/// where the primitive fails. All variables of `args` must be bound by atoms, by equalities with
/// constants, or by other primitives.
struct PrimAtom {
  PrimId prim = 0;
  std::vector<Operand> args;
  Operand out;
};

struct Equality {
  Operand left, right;
};

struct Variable {
  std::string name;
  SortId sort = 0;
};

/// A conjunction. Order matters for nothing but the order of matches.
struct Query {
  std::vector<Variable> vars;
  std::vector<Atom> atoms;
  std::vector<PrimAtom> prims;
  std::vector<Equality> equalities;
  bool include_subsumed = false; ///< its atoms match subsumed rows as well

  VarId add_var(std::string name, SortId sort) {
    vars.push_back({std::move(name), sort});
    return static_cast<VarId>(vars.size() - 1);
  }
};

enum class OnFail : uint8_t {
  panic, ///< the run ends with StopReason::panic and Action::message
  skip,  ///< the rest of the actions of this match is left out
};

/// Builds terms, sets facts. The arguments are those of the match (leaders when it was found); a
/// lookup of a function sees the tables as they were when matching began; rows set or deleted by
/// the actions of an iteration appear when all its matches are applied, deletions first (the
/// meaning of egglog).
struct Action {
  enum class Kind : uint8_t {
    let,       ///< out := args[0]
    primitive, ///< out := prim id(args)
    /// out := op id(args): constructors are looked up or created, functions looked up (absent:
    /// panic with `message`)
    term,
    /// op id(args[0..n-1]) := args[n]; relations: args[n] is constant 0. On a constructor: the row
    /// joins that class
    set,
    unite,   ///< args[0] and args[1] become one class
    remove,  ///< deletes the row of op id(args), if there is one
    subsume, ///< hides the row of op id(args) from queries and extraction, making it first where it is absent
    panic,   ///< ends the run with `message`
    host,    ///< out := host function(graph, args): may add terms and unite; returns false to fail
  };
  Kind kind = Kind::let;
  uint32_t id = 0; ///< OpId, PrimId
  std::vector<Operand> args = {};
  VarId out = absent; ///< a variable of the rule's query list that is not bound by the query
  OnFail on_fail = OnFail::panic;
  std::string message = {}; ///< text of the panic, complete with the place in the program
  std::function<bool(EGraph& graph, std::span<const Value> args, Value& out)> host = {};
};

/// How far the two sides of a rule may differ as floating-point programs.
enum class NumericClass : uint8_t {
  exact,       ///< the same bits
  reassociate, ///< the same real number, other roundings
  range,       ///< the same real number over intermediate values that may overflow or cancel
  approximate, ///< within the tolerance the user allowed
};

struct Rule {
  std::string name;
  RulesetId ruleset = 0;
  Query query;
  std::vector<Action> actions;
  NumericClass numeric = NumericClass::exact;
  std::string phase = {};
  /// most matches applied in one iteration, 0: all. The others wait for the next iteration and are
  /// reported.
  uint64_t budget = 0;
  bool naive = false; ///< matches everything in each iteration, not only what is new
};

} // namespace luminal::egraph
