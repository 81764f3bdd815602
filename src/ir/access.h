// ir/access.h -- what must hold for a node to be computed safely, beyond what is proved: indices in
// range, divisors not zero, 64 bits.
//
// A condition has two forms. `enough` is over dimension symbols and is known as soon as they are:
// where it holds, nothing else is asked. Where it does not, `violation` tells: a function that
// gives one bool, whether any point breaks the condition. It is made of terms, so what runs plans
// runs it.
#pragma once
#include "ir/term.h"

namespace luminal {

/// The extents that hole `h` of a view or scatter indexes by itself (target: shape of x or base):
/// besides the declared range, its integers are held below these by its policy. None where the
/// condition reads the hole: the condition then says where it counts.
std::vector<Expr> hole_extents(const Attr& attr, const Shape& target, size_t h);

/// All parts of the expression fit 64 bits whatever its symbols are, and nothing is divided by what
/// may be zero.
bool always_computable(Expr e);
/// The same value wherever no divisor is 0, and a value everywhere.
Expr without_traps(Expr e);
/// The node with index expressions that have a value at every point, where some have not; its
/// checks are those of the node as it was.
std::optional<Attr> without_traps(const Attr& attr);

struct AccessCheck {
  Expr enough = 0;
  /// Without it the node is refused where `enough` does not hold.
  std::optional<Function> violation;
  std::vector<NodeId> operands; ///< of the violation's parameters
  std::string text;             ///< "[view] %y reads axis 0 of %x at i, which leaves 0..7"
};

/// What is left to be checked for a node. `facts` hold, too, besides the module's assumptions.
/// Holes with the policy `error` lie in their declared ranges: that is checked by whoever runs the
/// node.
std::vector<AccessCheck> access_checks(const Module& module, std::span<const Expr> facts, const Function& f,
                                       NodeId id);

/// Hole `h`, which the policy `error` keeps below this (min of hole_extents) where that is not
/// proved; else none.
std::optional<Expr> open_limit(const Module& module, std::span<const Expr> facts, const Function& f,
                               NodeId id, size_t h);

} // namespace luminal
