// ir/ops.h -- THE OP TABLE: one elementwise operation is one row. Printer, parser, verifier,
// interpreter, constant folder, code generation, documentation, derivatives and the test sweep read
// it. The rows are in ops.cpp.
//
// MEANING, for every mode, device and rule:
// - Integers are two's complement and wrap. Bool holds 0 or 1.
// - `div` and `rem` on integers are floor division and floor modulo (rem has the sign of the
//   divisor); a div 0 = 0, a rem 0 = a, so that
//   a == div(a, b) * b + rem(a, b) always. On floats div is IEEE division, rem(a, b) the exact
//   floor modulo, rounded once (Python's %).
// - Floats follow IEEE 754, round to nearest, ties to even. Every node rounds its result to its
//   dtype once; subnormals are kept (but a sum of f32 may take a subnormal factor of a product for 0).
//   f8e4m3 overflows to NaN, the other float types to infinity.
// - NaN stays NaN: through arithmetic, min, max and every function. Comparisons with NaN are false,
//   `ne` is true.
//   Which of +0 and -0 min and max return is not specified; nor are sign and payload of a NaN.
// - `round` takes ties to even. `shl`, `shr` by the width or more, or by a negative amount, give 0
//   (-1 for shr of a negative number);
//   shr of a signed type copies the sign.
// - select evaluates to one of two values: the other may be NaN or infinite (no mask arithmetic).
// - cast: float to integer truncates and saturates, NaN gives 0; integer to integer wraps; integer
//   to float rounds to even; to bool is x != 0.
// - fma(a, b, c) rounds once. ldexp(a, b) = a * 2^round(b) rounds once. A product and a sum are
//   never contracted behind the writer's back.
// - A row with a `definition` means what its own evaluation says; the definition is equal to it
//   over the reals within `definition_error`
//   (relative), for every argument where no intermediate value overflows.
// What a rule may assume, by class: `exact` rules hold bit for bit on every value above (NaN for
// NaN, zeros of either sign alike); `reassoc` rules may reorder sums and products of one
// accumulator type; `range` and `approx` rules hold over the reals.
#pragma once
#include "ir/dtype.h"
#include <functional>
#include <map>
#include <string>

namespace luminal {

// clang-format off
enum class Op : uint8_t {
  // arithmetic
  add, sub, mul, div, rem, neg, abs, min, max, floor, ceil, trunc, round, fma, ldexp,
  // comparisons (a > b is lt(b, a)) and choice
  lt, le, eq, ne, is_nan, select,
  // bits: integers and bool
  bit_and, bit_or, bit_xor, bit_not, shl, shr,
  // primitive functions
  sqrt, recip, exp2, log2, sin,
  // functions with a definition in other rows
  sign, exp, log, log1p, expm1, cos, tan, tanh, sigmoid, erf, silu, gelu, gelu_tanh, softplus, rsqrt, pow,
};
// clang-format on
inline constexpr int op_count = int(Op::pow) + 1;

/// Which types the arguments and the result may have.
enum class Signature : uint8_t {
  numeric,    // one integer or float type throughout
  floating,   // one float type throughout
  bits,       // one integer type or bool throughout
  shift,      // one integer type throughout
  comparison, // two arguments of one type, any; the result is bool
  test,       // one float argument; the result is bool
  choice,     // bool, T, T -> T, any T
};

/// How a processor computes a row on vectors of floats. Estimates, bounds and the choice of schedules
/// read it.
enum class OpClass : uint8_t {
  simple,        // an instruction that is neither a sum nor a product: minimum, comparison, bits
  sum,           // one addition
  product,       // one multiplication, or one fma
  quotient,      // one instruction that takes long: division, square root
  quotient_root, // two of them, of which one waits for the other
  function,      // a polynomial: its steps wait for each other
  wide_function, // a function that is computed in f64 where the arguments are f32
};

struct Exact; // ir/exact.h: a number of the exact mode

/// Text placeholders: {a}, {b}, {c} the arguments, {t} the element type's name in the language, {u}
/// that of the unsigned type of the same width (of at least 32 bits, since C multiplies narrower
/// ones as signed numbers).
/// Definitions and derivatives are scalar programs (ir/scalar.h) over a, b, c; derivatives may read
/// `out`, the result.
struct OpRow {
  Op op;
  std::string_view name; // the spelling of every text form, and the function name of Scalar programs
  int arity;
  Signature signature;
  OpClass op_class = OpClass::simple;
  int vector_cost = 1; // instructions on a vector that take as long, about
  /// Evaluation. f64: on doubles (comparisons give 0 or 1). i64: on values extended to 64 bits by
  /// their type (u64: the bit pattern); the caller wraps the result. Null where the signature has
  /// no such form. exact: null for a function that is evaluated through its definition or, without
  /// one, opaque.
  double (*f64)(const double* x);
  int64_t (*i64)(const int64_t* x, DType type) = nullptr;
  Exact (*exact)(const Exact* x) = nullptr;
  /// A bound on |f(y) - f(x)| for |y[i] - x[i]| <= e[i], rounding excluded. `out` = f(x). Not for
  /// comparisons and choice, which the interpreter decides itself.
  double (*spread)(const double* x, const double* e, double out) = nullptr;
  /// Error of a direct evaluation, in units of the last place of max(|out|, ulp_scale): what code
  /// generation promises. 0.5: correctly rounded, 0: exact.
  double ulp = 0.5, ulp_scale = 0;
  /// C-like text on floats and on integers; a dialect may override either. Integer arithmetic runs
  /// on unsigned numbers, where wrapping is not an undefined behaviour. The lum_* functions, and
  /// functions such as exp2 where a language lacks them, are the dialect's prelude, for each type.
  /// Empty: the signature has no such form.
  std::string_view c_float = {}, c_int = {};
  std::string_view definition = {};
  // relative error of the definition as a function over the reals; use it for types whose half unit
  // is not below this
  double definition_error = 0;
  std::string_view derivative[3] =
      {};                       // d out / d argument; empty: zero almost everywhere or not differentiable
  double low = -4, high = 4;    // float arguments of tests
  bool commutative = false;     // in the first two arguments
  bool associative = false;     // up to rounding on floats
  std::string_view monoid = {}; // the word in folds: sum prod max min any all
  std::string_view doc;
};

const OpRow& row(Op op);
/// Is it computed by a polynomial?
bool is_transcendental(Op op);
/// Does it take several instructions of which each waits for the one before?
bool is_long_chain(Op op);
bool may_vanish(Op op); ///< Is it subnormal at some ordinary numbers, as exp(-90) is?
std::string_view to_string(Op op);
std::optional<Op> parse_op(std::string_view name);
/// The row whose monoid word this is.
std::optional<Op> parse_monoid_word(std::string_view word);
/// identity op x == x, for integers and bool (u64: the bit pattern): add 0, mul 1, max the least
/// integer, min the greatest, bit_or 0, bit_and all ones. Of floating types: ir/identity.h.
int64_t identity_i64(Op op, DType type);

/// The result type of an op on arguments of these types, or nothing: then `why` (if given) says
/// what is expected.
std::optional<DType> result_type(const OpRow& row, const DType* args, std::string* why = nullptr);
std::optional<DType> result_type(Signature signature, int arity, const DType* args,
                                 std::string* why = nullptr);

/// One value of `type` (that of the arguments; select: of a and b), rounded once: the meaning of a
/// node. Integers through apply_i64.
double apply_f64(Op op, DType type, const double* x);
int64_t apply_i64(Op op, DType type, const int64_t* x); // wrapped; comparisons 0 or 1

/// docs/ops.md: the table as Markdown.
std::string ops_markdown();

// ---- operations of the user ----
/// A row that a program registers at run time. It is used through MapAttr::user_op, takes part in
/// fusion and in the automatic tests like any other.
struct UserOp {
  std::string name; // an identifier; not one of the table
  int arity = 1;
  Signature signature = Signature::floating;
  std::function<double(const double*)> f64;          // needed where the signature has floats
  std::function<int64_t(const int64_t*, DType)> i64; // needed for bits and shift
  // language ("c", "cuda", "hip", "metal", "opencl") -> text with {a}, {b}, {c}; none: the
  // definition is emitted
  std::map<std::string, std::string> text;
  std::string definition; // scalar program over a, b, c; may be empty if there is text
  double ulp = 4;
  std::string derivative[3];
  std::string rules; // rules in the rule language that hold for it
  double low = -4, high = 4;
  bool commutative = false;
  std::string doc;
};
/// Throws Error when the name is taken by a different operation, or the row is incomplete or does
/// not agree with its definition at sample points. Thread-safe.
void register_op(UserOp op);
/// Null when there is none. The pointer stays valid.
const UserOp* find_user_op(std::string_view name);

} // namespace luminal
