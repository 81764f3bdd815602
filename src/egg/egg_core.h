// egg/egg_core.h -- rules after checking: flat atoms over numbered variables, every sort known,
// every overload chosen.
#pragma once
#include "egg/egg_schema.h"
#include <cstdint>
#include <span>
#include <vector>

namespace luminal::egraph {

/// An argument of an atom.
struct CoreTerm {
  enum class Kind : uint8_t { variable, literal, global };
  Kind kind = Kind::variable;
  uint32_t index = 0; ///< of the variable or the global; of a literal its node
  NodeId place = 0;
  bool operator==(const CoreTerm& other) const { return kind == other.kind && index == other.index; }
};

struct CoreVariable {
  Symbol name = 0; ///< of a nested call the name of what is called
  NodeId place = 0;
  SortId sort = no_sort;
  bool named = false; ///< written in the program, not made for a nested call or `_`
};

/// `head(terms[0] .. terms[n-2]) = terms[n-1]`. A head that is neither function nor primitive is
/// the equality of its two terms.
struct CoreAtom {
  enum class Head : uint8_t { function, primitive, equality };
  Head head = Head::function;
  bool writes = false; ///< a primitive that makes terms: `index` is the number of a host action
  uint32_t index = 0;  ///< of the function; of the primitive its id in the engine
  Symbol name = 0;
  NodeId place = 0;
  uint32_t first = 0, count = 0; ///< terms
};

struct CoreAction {
  enum class Kind : uint8_t {
    /// binds the last term to the value of the atom, making the row of a constructor where there is
    /// none
    call,
    insert,  ///< the row of the atom with its value as given
    remove,  ///< the row with these arguments
    subsume, ///< the row with these arguments is hidden from matching and extraction
    unite,   ///< two terms are equal
    panic    ///< the run fails
  };
  Kind kind = Kind::call;
  CoreAtom atom;      ///< of unite the two terms
  Symbol message = 0; ///< of panic
};

/// A checked rule, query or list of actions.
struct CoreRule {
  std::vector<CoreVariable> variables;
  std::vector<CoreTerm> terms;
  std::vector<CoreAtom> body;
  std::vector<CoreAction> head;

  std::span<const CoreTerm> args(const CoreAtom& atom) const {
    return std::span(terms).subspan(atom.first, atom.count);
  }
};

/// Where a form stands: what it may call.
enum class Context : uint8_t {
  rule,  ///< no lookups of functions and no reading primitives in actions
  naive, ///< a rule that is matched anew each time: everything
  top    ///< a command: everything
};

/// A name bound from outside: `old` and `new` of a merge.
struct Binding {
  Symbol name;
  SortId sort;
};

/// A checked rule. Throws Error at the place of the first mistake: unknown names, wrong sorts,
/// variables that are not bound, not grounded, or shadow a name.
CoreRule check_rule(const Schema& schema, std::span<const NodeId> facts, std::span<const NodeId> actions,
                    Context context);
/// `(rewrite lhs rhs)` with conditions, and whether the row matched by lhs is subsumed.
CoreRule check_rewrite(const Schema& schema, NodeId lhs, NodeId rhs, std::span<const NodeId> conditions,
                       bool subsume, Context context, NodeId place);
/// Facts of a check or `:until`.
CoreRule check_query(const Schema& schema, std::span<const NodeId> facts);
/// Top-level actions.
CoreRule check_actions(const Schema& schema, std::span<const NodeId> actions);

/// An expression and the term that holds its value. `expected` may be no_sort.
struct CheckedExpression {
  CoreRule code;
  CoreTerm value;
  SortId sort = no_sort;
};
CheckedExpression check_expression(const Schema& schema, NodeId expression, std::span<const Binding> bindings,
                                   SortId expected, Context context);

} // namespace luminal::egraph
