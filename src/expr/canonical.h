// expr/canonical.h -- sums of terms, and the canonical forms built from them. Private to this
// folder.
//
// Everything here that can overflow a constant returns false or nothing instead; the public
// constructors turn that into Error, optional simplifications into "not applied".
#pragma once
#include "expr/interner.h"
#include "expr/interval.h"

namespace luminal::expr_detail {

inline bool is_power_of_two(int64_t v) { return v > 0 && (v & (v - 1)) == 0; }

/// coefficient * base; base is an atom or a product of atoms without a constant factor.
struct Term {
  Expr base;
  int64_t coefficient;
};

/// Terms in structural order of their bases, no coefficient 0.
struct Sum {
  SmallVector<Term, 8> terms;
  int64_t constant = 0;

  bool is_constant() const { return terms.empty(); }
  const Term* find(Expr base) const;
};

Sum sum_of(Expr e);
Interval range_of(const Sum& s);
Interval range_of(const Term& t);
/// s += factor * e
[[nodiscard]] bool add_to(Sum& s, Expr e, int64_t factor);
[[nodiscard]] bool add_to(Sum& s, const Sum& other, int64_t factor);
[[nodiscard]] bool add_term(Sum& s, Expr base, int64_t coefficient);

/// The canonical expression: recombines divisions with their remainders first.
Expr build(const Sum& s);
/// a - b, a + b, a * b ...; nothing on overflow.
std::optional<Expr> try_add(Expr a, Expr b, int64_t factor_of_b = 1);
std::optional<Expr> try_multiply(Expr a, Expr b);
/// The canonical sum of one term.
Expr scaled(Expr base, int64_t coefficient); // base may be the constant 1
/// The factors of a base: itself, or the arguments of a product.
inline std::span<const Expr> factors_of(const Expr& base) {
  const Node& n = node(base);
  return n.kind == ExprKind::mul ? n.arg_span() : std::span<const Expr>{&base, 1};
}
/// The product of atoms (any order; not empty), without a coefficient.
Expr product_of_atoms(std::span<const Expr> atoms);
/// `base` without one occurrence of the atom `factor`; 1 where nothing is left.
Expr without_factor(Expr base, Expr factor);
/// a / b for bases where the factors of b are among those of a.
std::optional<Expr> divide_bases(Expr a, Expr b);

std::optional<Expr> try_floordiv(Expr a, Expr b);
std::optional<Expr> try_mod(Expr a, Expr b);

/// A symbol whose range is one value stands for that value wherever it is an operand.
inline Expr folded(Expr e) {
  const Interval range = node(e).range;
  return range.is_point() && node(e).kind == ExprKind::symbol ? intern_constant(range.low) : e;
}

enum class Op : uint8_t {
  none,
  add,
  subtract,
  multiply,
  floordiv,
  mod,
  min,
  max,
  lt,
  eq,
  ne,
  both,
  either,
  negate
};

/// Results of binary operations, remembered per thread: they are pure functions of the ids.
struct MemoEntry {
  uint32_t a = 0, b = 0, result = 0;
  Op op = Op::none;
};
inline constexpr size_t memo_size = 1 << 12;
MemoEntry& memo_entry(Op op, Expr a, Expr b);
/// Empties the memo of this thread (the micro-benchmark measures without it).
void forget_memo();

/// Wraps the computation of `compute()` (an Expr or an optional<Expr>) into the memo.
template <class F> auto remembered(Op op, Expr a, Expr b, F&& compute) {
  using Result = decltype(compute());
  MemoEntry& entry = memo_entry(op, a, b);
  if (entry.op == op && entry.a == a.id() && entry.b == b.id())
    return Result(ExprAccess::from_id(entry.result));
  Result result = compute();
  const auto store = [&](Expr e) { memo_entry(op, a, b) = {a.id(), b.id(), e.id(), op}; };
  if constexpr (std::is_same_v<Result, Expr>)
    store(result);
  else if (result)
    store(*result);
  return result;
}

/// Recursion that does not end would be a mistake in the rules: found by this rather than by a full
/// stack.
struct RuleDepth {
  RuleDepth();
  ~RuleDepth();
};

[[noreturn]] void throw_overflow(const char* operation, Expr a, Expr b);

} // namespace luminal::expr_detail
