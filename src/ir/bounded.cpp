// ir/bounded.cpp -- values with a running bound on what rounding may have done to them.
//
// Invariant: a computation that rounds (or does not round) each node to its type, and evaluates
// functions with the stated error of their row, gives a result within e of f. A comparison whose
// operands overlap is uncertain: it may be off by one; what depends on it differs by at most the
// difference of both sides. Infinite and NaN arguments without an error give results without one.
#include "base/check.h"
#include "base/infinity.h"
#include "ir/domains.h"
#include <algorithm>
#include <cmath>
#include <limits>

namespace luminal {
namespace {

using Value = BoundedDomain::Value;

/// e for a result that is `value` over the reals up to `spread`, computed with an error of `ulp`
/// units in the last place of `type`.
double rounded_error(DType type, double value, double spread, double ulp, double scale) {
  if (std::isnan(value)) return spread == 0 ? 0 : infinity;
  if (!std::isfinite(value)) // f8e4m3 has no infinity
    return spread == 0 && std::isinf(round_to(type, value)) ? 0 : infinity;
  if (ulp == 0) return spread; // an exact operation on numbers of the type
  if (spread == 0 && ulp == 0.5 && type != DType::f64) {
    // Rounding a double again is innocent for basic operations. What is rounded here need not be in another
    // order of the same terms: it counts in full.
    double rounded = round_to(type, value);
    if (!std::isfinite(rounded)) return infinity;
    if (rounded == value) return 0;
  }
  double magnitude = std::fmax(std::fabs(value) + spread, scale);
  double error = spread + ulp * 2 * unit_roundoff(type) * magnitude +
                 std::fmax(ulp, 0.5) * least_subnormal(type) + 0x1p-52 * std::fabs(value);
  return magnitude + error > largest(type) ? infinity : error;
}

/// Is this value infinite by overflow? A row of finite arguments gives infinity otherwise only at a
/// pole. A plan may keep a product exact until something is added to it, and may add in another
/// order: nothing is known of an f64 that overflowed. (In narrower types the value is finite here
/// and rounded_error says so.)
bool overflowed(Op op, double value, const double* x, int arity) {
  if (!std::isinf(value) || !std::all_of(x, x + arity, [](double v) { return std::isfinite(v); }))
    return false;
  switch (op) {
  case Op::div: return x[1] != 0;
  case Op::recip:
  case Op::rsqrt:
  case Op::pow: return x[0] != 0;
  case Op::log:
  case Op::log2:
  case Op::log1p: return false;
  default: return true;
  }
}

/// The distance of two values, infinite where it is not a number.
double distance(double a, double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  double d = std::fabs(a - b);
  return std::isnan(d) ? infinity : d;
}

bool certain(const Value& x) { return x.e == 0; }
bool certain_nan(const Value& x) { return std::isnan(x.f) && certain(x); }

bool compare(Op op, double a, double b) {
  double x[2] = {a, b};
  return row(op).f64(x) != 0;
}
/// Could the comparison come out differently?
bool open(Op op, const Value& a, const Value& b) {
  if ((certain(a) && certain(b)) || certain_nan(a) || certain_nan(b)) return false;
  if (std::isinf(a.e) || std::isinf(b.e) || std::isnan(a.f) || std::isnan(b.f)) return true;
  double reach = a.e + b.e, gap = a.f - b.f;
  if (op == Op::eq || op == Op::ne) return std::fabs(gap) <= reach;
  return std::fabs(gap) <= reach; // lt and le may turn anywhere within reach
}

/// What a sum may lose of an f32 product: it may take a subnormal factor for 0.
double lost_factors(const Value* x, double product) {
  if (std::isnan(product)) return 0;
  double lost = 0;
  for (int a = 0; a < 2; ++a) {
    const bool normal = std::fabs(x[1 - a].f) - x[1 - a].e >= 0x1p-126;
    if (!std::isinf(x[a].f) || !normal) lost += 0x1p-126 * (std::fabs(x[a].f) + x[a].e);
  }
  return lost;
}

Value chosen(const Value& condition, const Value& yes, const Value& no, DType type) {
  Value out = condition.i ? yes : no;
  if (condition.e == 0) return out;
  const Value& other = condition.i ? no : yes;
  double apart = is_float(type) ? distance(yes.f, no.f) : yes.i == no.i ? 0 : infinity;
  out.e = std::fmax(out.e, apart + other.e);
  return out;
}

Value integer_result(Op op, DType type, const Value* x, int arity) {
  int64_t values[3] = {};
  bool certain = true;
  for (int a = 0; a < arity; ++a) values[a] = x[a].i, certain &= x[a].e == 0;
  Value out{0, 0, apply_i64(op, type, values)};
  if (certain) return out;
  const bool truth = row(op).signature == Signature::comparison || type == DType::boolean;
  out.e = truth ? 1 : infinity;
  if (type == DType::boolean && arity == 2)
    for (int a = 0; a < 2; ++a) { // one certain side may decide
      if (op == Op::bit_and && x[a].e == 0 && x[a].i == 0) out.e = 0;
      if (op == Op::bit_or && x[a].e == 0 && x[a].i == 1) out.e = 0;
    }
  return out;
}

/// 0 times NaN: the 0 may be what a mask leaves, and what it hides stays hidden (rules/algebra.egg).
bool times_zero(Op op, const double* x) { return op == Op::mul && (x[0] == 0 || x[1] == 0); }

/// Of a row that is neither a comparison nor a choice.
Value float_result(const OpRow& r, DType type, const Value* x) {
  double f[3] = {}, e[3] = {};
  bool exact = true, bounded = true, infinite = false, nan = false;
  for (int a = 0; a < r.arity; ++a) {
    f[a] = x[a].f, e[a] = x[a].e;
    exact &= e[a] == 0, bounded &= std::isfinite(e[a]);
    infinite |= std::isinf(f[a]), nan |= certain_nan(x[a]);
  }
  const double value = r.f64(f);
  double spread = exact ? 0 : !bounded ? infinity : r.spread(f, e, value);
  if (nan && std::isnan(value) && r.op != Op::pow) spread = 0; // pow(NaN, 0) is 1
  if (std::isnan(spread) || overflowed(r.op, value, f, r.arity)) spread = infinity;
  // A quotient may be a product with the reciprocal, which rounds twice (rules/algebra.egg).
  double ulp = r.op == Op::div ? 1.5 : r.ulp;
  if (exact && infinite) ulp = 0; // limits: 0, 1, -1 and infinities
  Value out{value, rounded_error(type, value, spread, ulp, r.ulp_scale), 0};
  if (r.op == Op::mul && type == DType::f32) out.factors = lost_factors(x, value);
  const auto foreign = [](const Value& v) { return std::isnan(v.f) && v.i == 0; };
  out.i = std::isnan(value) && (std::none_of(x, x + r.arity, foreign) || times_zero(r.op, f));
  return out;
}

} // namespace

Value BoundedDomain::from_f64(DType type, double value) {
  if (!is_float(type)) return {0, 0, truncate_to(type, value)};
  return {value, rounded_error(type, value, 0, 0.5, 0), 0};
}
Value BoundedDomain::load(DType type, const std::byte* data, int64_t index) {
  if (is_float(type)) return {load_f64(type, data, index), 0, 0};
  return {0, 0, load_i64(type, data, index)};
}

void BoundedDomain::apply(Op op, DType type, size_t n, Value* out, const Value* const* args) {
  const OpRow& r = row(op);
  for (size_t k = 0; k < n; ++k) {
    Value x[3];
    for (int a = 0; a < r.arity; ++a) x[a] = args[a][k];
    if (op == Op::select) {
      out[k] = chosen(x[0], x[1], x[2], type);
    } else if (!is_float(type)) {
      out[k] = integer_result(op, type, x, r.arity);
    } else if (op == Op::is_nan) {
      out[k] = {0, std::isinf(x[0].e) ? 1.0 : 0.0, std::isnan(x[0].f)};
    } else if (r.signature == Signature::comparison) {
      out[k] = {0, open(op, x[0], x[1]) ? 1.0 : 0.0, compare(op, x[0].f, x[1].f)};
    } else {
      out[k] = float_result(r, type, x);
    }
  }
}

void BoundedDomain::apply(const UserOp& op, DType type, size_t n, Value* out, const Value* const* args) {
  const std::vector<std::string> names = {"a", "b", "c"};
  const bool integers = !is_float(type),
             truth = op.signature == Signature::comparison || op.signature == Signature::test;
  for (size_t k = 0; k < n; ++k) {
    Value x[3];
    double f[3] = {};
    int64_t i[3] = {};
    bool certain = true;
    for (int a = 0; a < op.arity; ++a) {
      x[a] = args[a][k];
      f[a] = op.signature == Signature::choice && a == 0 ? double(x[a].i) : x[a].f;
      i[a] = x[a].i;
      certain &= x[a].e == 0;
    }
    if (integers) {
      int64_t value = op.i64(i, type);
      out[k] = {0, certain ? 0 : truth ? 1 : infinity, truth ? value != 0 : wrap(type, value)};
    } else if (truth) {
      out[k] = {0, certain ? 0.0 : 1.0, op.f64(f) != 0};
    } else if (!certain && !op.definition.empty() && op.signature != Signature::choice) {
      // How the error travels is known from the definition; the value is the operation's own.
      Scalar program = parse_scalar(op.definition, {names.begin(), names.begin() + op.arity});
      DType leaves[3] = {type, type, type};
      TypedScalar steps = typed(program, {leaves, size_t(op.arity)}, type);
      std::vector<Value> scratch(steps.steps.size());
      Value defined = run_scalar<BoundedDomain>(steps, x, scratch.data());
      double value = op.f64(f);
      out[k] = {value, rounded_error(type, value, defined.e + distance(value, defined.f), op.ulp, 0), 0};
    } else {
      double value = op.f64(f);
      out[k] = {value, certain ? rounded_error(type, value, 0, op.ulp, 0) : infinity, 0};
    }
  }
}

Value BoundedDomain::cast(DType from, DType to, const Value& x) {
  if (is_float(from)) {
    if (is_float(to)) {
      bool contained = unit_roundoff(to) <= unit_roundoff(from) && largest(to) >= largest(from) &&
                       least_subnormal(to) <= least_subnormal(from);
      return {x.f, rounded_error(to, x.f, x.e, contained ? 0 : 0.5, 0), x.i};
    }
    int64_t value = truncate_to(to, x.f);
    if (x.e == 0) return {0, 0, value};
    bool stays = std::isfinite(x.e) && !std::isnan(x.f);
    if (to == DType::boolean) return {0, stays && std::fabs(x.f) > x.e ? 0.0 : 1.0, value};
    stays = stays && truncate_to(to, x.f - x.e) == value && truncate_to(to, x.f + x.e) == value;
    return {0, stays ? 0 : x.e + 1, value};
  }
  if (!is_float(to)) {
    int64_t value = wrap(to, x.i);
    bool kept = value == x.i && to != DType::boolean;
    return {0, x.e == 0 ? 0 : kept ? x.e : to == DType::boolean ? 1 : infinity, value};
  }
  double value = integer_to_f64(from, x.i);
  return {value, rounded_error(to, value, x.e, 0.5, 0), 0};
}

InterpValue BoundedDomain::result(DType type, const Value& x) {
  InterpValue v;
  v.value = f64(type, x);
  v.error = x.e;
  if (!is_float(type)) v.integer = x.i;
  return v;
}

} // namespace luminal
