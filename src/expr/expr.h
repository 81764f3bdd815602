// expr/expr.h -- integers over named symbols: shapes, strides, index maps, predicates.
//
// Meaning. An expression is a function from the values of its symbols to a mathematical integer;
// truth is 0 and 1. Division is floor division, `mod` takes the sign of the divisor: a ==
// floordiv(a, b) * b + mod(a, b). A simplification never adds a division by zero, it may remove
// one. Facts about symbols (interval, divisibility) are part of the symbol and are used everywhere:
// a symbol must never be given a value that breaks them.
//
// Form. Expressions are interned: equal form is equal id, in the whole process, and every
// constructor returns the canonical quasi-affine form, so equality of ids is sound and not
// complete. Nothing observable (order of terms, text, hash) depends on ids, threads or the order of
// creation.
//
//   atom      = symbol | floordiv(e, e) | mod(e, e) | min(e...) | max(e...) | condition
//   term      = atom * ... * atom * constant    args: the atoms in order, then the constant; left
//                                               out where it is 1
//   sum       = term + ... + term + constant    args: the terms in order, then the constant; left
//                                               out where it is 0
//   condition = lt(sum, sum) | eq(sum, sum) | ne(sum, sum) | and(condition...) | or(condition...)
//
// `a <= b` is lt(a, b + 1). Negations are pushed inwards, so none is left.
//
// Overflow. Constants are 64 bit. A constructor whose result would need a constant outside int64
// throws Error; a simplification that would overflow is not applied; ranges saturate to unbounded;
// evaluation reports it.
#pragma once
#include "base/result.h"
#include <compare>
#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace luminal {

enum class ExprKind : uint8_t {
  constant,
  symbol,
  add,
  mul,
  floordiv,
  mod,
  min,
  max,
  lt,
  eq,
  ne,
  logical_and,
  logical_or
};

inline constexpr int64_t unbounded_low = INT64_MIN, unbounded_high = INT64_MAX;

/// Inclusive. A low of unbounded_low (a high of unbounded_high) says nothing.
struct Interval {
  int64_t low = unbounded_low, high = unbounded_high;
  bool operator==(const Interval&) const = default;
  bool contains(int64_t value) const { return low <= value && value <= high; }
  bool contains(Interval other) const { return low <= other.low && other.high <= high; }
  bool is_point() const { return low == high && low != unbounded_low && high != unbounded_high; }
  bool is_bounded() const { return low != unbounded_low && high != unbounded_high; }
};

enum class Truth : uint8_t { no, yes, unknown };

class Expr;
/// A structural order, the same in every process: for ordered containers. (There is no operator< on
/// purpose.)
struct ExprLess {
  bool operator()(Expr a, Expr b) const;
};
template <class T> using ExprMap = std::map<Expr, T, ExprLess>;
using SymbolScope = std::map<std::string, Expr, std::less<>>;
using SymbolNames = std::function<std::string(Expr symbol)>;

/// A 4-byte value: the id of an interned, immutable, canonical node. Copy it freely; it lives as
/// long as the process.
class Expr {
public:
  Expr() = default; ///< 0
  template <std::integral T> Expr(T value) : id_(constant_id(checked(value))) {}

  /// The symbol of that name and those facts: same name with other facts is another symbol. The
  /// interval is tightened to multiples of `multiple_of`. Throws Error for a name that is not an
  /// identifier ([A-Za-z_][A-Za-z0-9_.]*, no keyword of the text form), for an interval without a
  /// value, for multiple_of < 1.
  static Expr symbol(std::string_view name, Interval range = {}, int64_t multiple_of = 1);

  /// The text form of to_string (and ceildiv, > and >=). A failure names line and column, and what
  /// was expected.
  static Result<Expr> parse(std::string_view text, const SymbolScope& scope);

  ExprKind kind() const;
  std::span<const Expr> args() const;
  bool is_constant() const;
  bool is_constant(int64_t value) const;
  bool is_symbol() const { return kind() == ExprKind::symbol; }
  /// A 0/1 integer.
  bool is_condition() const;
  int64_t value() const;         ///< of a constant
  std::string_view name() const; ///< of a symbol
  Interval range() const;        ///< holds every value the expression can take
  int64_t multiple() const;      ///< divides every value of the expression; 0 for the constant 0
  uint32_t id() const { return id_; }
  uint64_t hash() const; ///< structural: the same in every process
  uint32_t depth() const;

  friend bool operator==(Expr, Expr) = default;

private:
  friend struct ExprAccess;
  static uint32_t constant_id(int64_t value);
  static int64_t checked(auto value) {
    if (!std::in_range<int64_t>(value)) throw_constant_overflow();
    return static_cast<int64_t>(value);
  }
  [[noreturn]] static void throw_constant_overflow();
  uint32_t id_ = 0;
};

// ---- constructors ----
Expr operator+(Expr a, Expr b);
Expr operator-(Expr a, Expr b);
Expr operator*(Expr a, Expr b);
Expr operator-(Expr a);
inline Expr& operator+=(Expr& a, Expr b) { return a = a + b; }
inline Expr& operator-=(Expr& a, Expr b) { return a = a - b; }
inline Expr& operator*=(Expr& a, Expr b) { return a = a * b; }
/// Throws Error where the divisor is the constant 0.
Expr floordiv(Expr a, Expr b);
Expr mod(Expr a, Expr b);
Expr ceildiv(Expr a, Expr b);
Expr min(Expr a, Expr b);
Expr max(Expr a, Expr b);
Expr min(std::span<const Expr> args); ///< at least one
Expr max(std::span<const Expr> args);
Expr sum(std::span<const Expr> args);     ///< 0 of none; cheaper than repeated +
Expr product(std::span<const Expr> args); ///< 1 of none

/// Conditions are 0/1 integers; where a condition is expected any integer may stand, and is true
/// where it is not 0.
Expr lt(Expr a, Expr b);
Expr le(Expr a, Expr b);
Expr gt(Expr a, Expr b);
Expr ge(Expr a, Expr b);
Expr eq(Expr a, Expr b);
Expr ne(Expr a, Expr b);
Expr logical_and(Expr a, Expr b);
Expr logical_or(Expr a, Expr b);
Expr logical_not(Expr a);
Expr logical_and(std::span<const Expr> args); ///< 1 of none
Expr logical_or(std::span<const Expr> args);  ///< 0 of none

// ---- proofs ----
/// Is the condition true for all values of the symbols (yes), for none (no)? `unknown` is always a
/// possible answer: take the safe branch. `assumptions` are conditions that hold. Contradictory
/// assumptions prove anything.
Truth prove(Expr condition);
Truth prove(Expr condition, std::span<const Expr> assumptions);
Truth prove(Expr condition, std::initializer_list<Expr> assumptions);
bool proves_equal(Expr a, Expr b);
bool proves_equal(Expr a, Expr b, std::span<const Expr> assumptions);
/// An expression equal to `e` wherever the assumptions hold.
Expr simplify_under(Expr e, std::span<const Expr> assumptions);
Expr simplify_under(Expr e, std::initializer_list<Expr> assumptions);

// ---- looking at and rebuilding expressions ----
/// Simultaneous. Keys are symbols. A replacement must satisfy the facts of the symbol it stands for
/// (the expression was simplified with them); a constant or a range that cannot do so throws Error.
Expr substitute(Expr e, const ExprMap<Expr>& replacements);
std::vector<Expr> symbols_of(Expr e); ///< in structural order (by name), each once
std::vector<Expr> symbols_of(std::span<const Expr> exprs);
bool depends_on(Expr e, Expr symbol);

/// e == constant + sum of coefficient * term; no term is a sum, a constant, or has a constant
/// factor.
struct Affine {
  int64_t constant = 0;
  std::vector<std::pair<Expr, int64_t>> terms;
};
Affine affine_terms(Expr e);
/// c with e == c * symbol + rest, neither c nor rest depending on the symbol; none where e is not
/// of that form.
std::optional<Expr> coefficient_of(Expr e, Expr symbol);
/// (q, r) with e == q * d + r and 0 <= r < d proved, made by sorting the terms of e: no division is
/// introduced.
std::optional<std::pair<Expr, Expr>> divmod_split(Expr e, int64_t d);

// ---- evaluation ----
/// Failures: a symbol without a value, a value that breaks the facts of its symbol, division by
/// zero, overflow of int64. Sums and products are exact: only values of (sub-)expressions that do
/// not fit are an overflow.
Result<int64_t> evaluate(Expr e, const ExprMap<int64_t>& bindings);
/// An interval that holds every value of e where each bound symbol lies in its interval (and in its
/// own range).
Interval evaluate_range(Expr e, const ExprMap<Interval>& bindings);

/// A compiled straight-line evaluator of several expressions at once, for many evaluations.
/// Immutable; any thread.
class ExprProgram {
public:
  /// slots: the symbols in the order in which their values will be given; they may be more than are
  /// needed. Throws Error where an output depends on another symbol.
  ExprProgram(std::span<const Expr> outputs, std::span<const Expr> slots);
  explicit ExprProgram(Expr output); ///< slots: symbols_of(output)
  ExprProgram(ExprProgram&&) noexcept;
  ExprProgram& operator=(ExprProgram&&) noexcept;
  ExprProgram(const ExprProgram&);
  ExprProgram& operator=(const ExprProgram&);
  ~ExprProgram();

  std::span<const Expr> slots() const;
  std::span<const Expr> outputs() const;
  /// False: overflow, division by zero, or a value that breaks the facts of its symbol; why()
  /// tells. Allocates nothing.
  bool run(std::span<const int64_t> values, std::span<int64_t> results) const noexcept;
  std::string why(std::span<const int64_t> values) const;
  Result<int64_t> evaluate(std::span<const int64_t> values) const; ///< of the first output

private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

// ---- text ----
/// Infix, in falling precedence: * // % (left to right, floor division and floor modulus), + -, <
/// <= > >= == !=, not, and, or; min(...) max(...) ceildiv(a, b). Expr::parse reads it back to the
/// same expression.
std::string to_string(Expr e);
std::string to_string(Expr e, const SymbolNames& name_of);
std::ostream& operator<<(std::ostream& stream, Expr e); // for tests and logs

/// 32 where every value and every intermediate result of the texts below provably fits int32, else
/// 64.
int needed_bits(Expr e);
int needed_bits(std::span<const Expr> exprs);

struct CTextOptions {
  SymbolNames name_of;           ///< default: the name, `.` printed as `_`; variables must be of type `type`
  int bits = 64;                 ///< of the index type
  std::string type = "long";     ///< conditions are cast to it where they are used as numbers
  std::string min_function = ""; ///< "min": calls min(a, b); empty: the conditional operator
  std::string max_function = "";
};
/// One C expression (also CUDA, HIP, Metal, OpenCL C). Plain / and % where ranges prove that
/// nothing is negative, else the floor written out. Conditions are 0/1.
std::string to_c(Expr e, const CTextOptions& options = {});

struct LlvmTextOptions {
  SymbolNames name_of; ///< default: "%" + name
  int bits = 64;
  std::string prefix = "%e."; ///< of the values that the lines define: prefix + number
};
struct LlvmText {
  std::vector<std::string> lines; ///< instructions, in order, without indentation
  std::string value;              ///< the result: "%e.7", "%i" or "42"
};
LlvmText to_llvm(Expr e, const LlvmTextOptions& options = {});

} // namespace luminal

template <> struct std::hash<luminal::Expr> {
  size_t operator()(luminal::Expr e) const noexcept { return e.id() * size_t{0x9E3779B97F4A7C15}; }
};
