// expr/sum.cpp -- sums and products: merging of terms, and recombination of divisions with their
// remainders.
#include "base/check.h"
#include "expr/canonical.h"

namespace luminal {
namespace expr_detail {
namespace {

constexpr size_t max_expanded_terms = 32; // products of sums that would have more terms stay products

thread_local MemoEntry memo[memo_size];
thread_local int rule_depth = 0;

} // namespace

MemoEntry& memo_entry(Op op, Expr a, Expr b) {
  const uint64_t key = (uint64_t{a.id()} << 32 | b.id()) + (uint64_t{static_cast<uint8_t>(op)} << 59);
  return memo[(key * 0x9E3779B97F4A7C15u) >> (64 - 12)];
}
static_assert(memo_size == 1 << 12);
void forget_memo() { std::fill(std::begin(memo), std::end(memo), MemoEntry{}); }

RuleDepth::RuleDepth() {
  ++rule_depth;
  if (rule_depth > 1000) {
    rule_depth = 0;
    throw InternalError("this is a bug in luminal: the rules of expressions do not come to an end");
  }
}
RuleDepth::~RuleDepth() { rule_depth -= rule_depth > 0; }

void throw_overflow(const char* operation, Expr a, Expr b) {
  throw Error(fmt::format("[expr] a constant of ({}) {} ({}) does not fit 64 bits", to_string(a), operation,
                          to_string(b)));
}

const Term* Sum::find(Expr base) const {
  for (const Term& t : terms)
    if (t.base == base) return &t;
  return nullptr;
}

bool add_term(Sum& s, Expr base, int64_t coefficient) {
  if (coefficient == 0) return true;
  // Most terms come in order: search from the end.
  size_t i = s.terms.size();
  while (i > 0) {
    const int order = compare(s.terms[i - 1].base, base);
    if (order == 0) {
      int64_t& c = s.terms[i - 1].coefficient;
      if (__builtin_add_overflow(c, coefficient, &c)) return false;
      if (c == 0) s.terms.erase(i - 1);
      return true;
    }
    if (order < 0) break;
    --i;
  }
  s.terms.insert(i, {base, coefficient});
  return true;
}

bool add_to(Sum& s, Expr e, int64_t factor) {
  const Node& n = node(e);
  int64_t scaled_value = 0;
  switch (n.kind) {
  case ExprKind::constant:
    return !__builtin_mul_overflow(n.value, factor, &scaled_value) &&
           !__builtin_add_overflow(s.constant, scaled_value, &s.constant);
  case ExprKind::add:
    for (const Expr arg : n.arg_span())
      if (!add_to(s, arg, factor)) return false;
    return true;
  case ExprKind::mul:
    return !__builtin_mul_overflow(n.value, factor, &scaled_value) && add_term(s, n.base, scaled_value);
  default: return add_term(s, e, factor);
  }
}

bool add_to(Sum& s, const Sum& other, int64_t factor) {
  int64_t value = 0;
  for (const Term& t : other.terms)
    if (__builtin_mul_overflow(t.coefficient, factor, &value) || !add_term(s, t.base, value)) return false;
  return !__builtin_mul_overflow(other.constant, factor, &value) &&
         !__builtin_add_overflow(s.constant, value, &s.constant);
}

Sum sum_of(Expr e) {
  Sum s;
  const bool fits = add_to(s, e, 1);
  LUMINAL_CHECK(fits);
  return s;
}

Interval range_of(const Term& t) { return node(t.base).range * point(t.coefficient); }
Interval range_of(const Sum& s) {
  Interval range = point(s.constant);
  for (const Term& t : s.terms) range = range + range_of(t);
  return range;
}

Expr scaled(Expr base, int64_t coefficient) {
  if (coefficient == 1) return base;
  if (coefficient == 0) return Expr();
  if (node(base).kind == ExprKind::constant) return intern_constant(coefficient); // the empty product
  SmallVector<Expr, 8> args;
  for (const Expr factor : factors_of(base)) args.push_back(factor);
  args.push_back(intern_constant(coefficient));
  return intern(ExprKind::mul, args.span(), coefficient, base);
}

Expr product_of_atoms(std::span<const Expr> atoms) {
  SmallVector<Expr, 8> sorted;
  for (const Expr atom : atoms) {
    size_t i = sorted.size();
    int order = -1;
    while (i > 0 && (order = compare(sorted[i - 1], atom)) > 0) --i;
    // A condition is its own square.
    if (i > 0 && order == 0 && Interval{0, 1}.contains(node(atom).range)) continue;
    sorted.insert(i, atom);
  }
  return sorted.size() == 1 ? sorted[0] : intern(ExprKind::mul, sorted.span(), 1);
}

Expr without_factor(Expr base, Expr factor) {
  SmallVector<Expr, 8> rest;
  bool found = false;
  for (const Expr f : factors_of(base)) {
    if (!found && f == factor)
      found = true;
    else
      rest.push_back(f);
  }
  return rest.empty() ? intern_constant(1) : product_of_atoms(rest.span());
}

std::optional<Expr> divide_bases(Expr a, Expr b) {
  SmallVector<Expr, 8> rest;
  const auto divisor = factors_of(b);
  size_t k = 0;
  for (const Expr f : factors_of(a)) { // both in structural order
    if (k < divisor.size() && divisor[k] == f)
      ++k;
    else
      rest.push_back(f);
  }
  if (k < divisor.size()) return std::nullopt;
  return rest.empty() ? intern_constant(1) : product_of_atoms(rest.span());
}

namespace {

// Does s hold every term of factor * e (not looking at the constant)? Then takes factor * e out of
// s.
bool take_out(Sum& s, Expr e, int64_t factor) {
  const Sum part = sum_of(e);
  int64_t value = 0;
  for (const Term& t : part.terms) {
    const Term* mine = s.find(t.base);
    if (!mine || __builtin_mul_overflow(t.coefficient, factor, &value) || mine->coefficient != value)
      return false;
  }
  Sum rest = s;
  if (!add_to(rest, part, factor == INT64_MIN ? 0 : -factor) || factor == INT64_MIN) return false;
  s = rest;
  return true;
}

// F * mod(y, b) + F * b * floordiv(y, b)  ->  F * y
bool join_remainder(Sum& s, const Term term, Expr atom) {
  const Expr y = node(atom).args[0], b = node(atom).args[1];
  const Expr rest = without_factor(term.base, atom);
  const auto quotient = try_floordiv(y, b);
  if (!quotient || node(*quotient).kind == ExprKind::constant) return false;
  const auto cofactor = try_multiply(rest, b);
  if (!cofactor) return false;
  const auto whole = try_multiply(*cofactor, *quotient);
  const auto joined = try_multiply(rest, y);
  if (!whole || !joined) return false;
  Sum out = s;
  if (!take_out(out, *whole, term.coefficient) || term.coefficient == INT64_MIN) return false;
  if (!add_term(out, term.base, -term.coefficient) || !add_to(out, *joined, term.coefficient)) return false;
  s = out;
  return true;
}

/// coefficient * base
struct Factor {
  int64_t coefficient;
  Expr base;
};
/// Where it divides without a remainder by a constant, or by a sum of one term.
std::optional<Factor> divided(int64_t coefficient, Expr base, const Sum& divisor) {
  const bool constant = divisor.is_constant();
  if (!constant && (divisor.terms.size() != 1 || divisor.constant != 0)) return {};
  const int64_t by = constant ? divisor.constant : divisor.terms[0].coefficient;
  if (coefficient % by != 0) return {};
  if (constant) return Factor{coefficient / by, base};
  const auto quotient = divide_bases(base, divisor.terms[0].base);
  if (!quotient) return {};
  return Factor{coefficient / by, *quotient};
}

// k * mod(x, a) + k * a * mod(floordiv(x, a), b)  ->  k * mod(x, a * b), where a > 0 and b > 0
bool join_digits(Sum& s, const Term term, Expr atom) {
  const Expr y = node(atom).args[0], b = node(atom).args[1];
  if (node(y).kind != ExprKind::floordiv) return false;
  const Expr x = node(y).args[0], a = node(y).args[1];
  if (node(a).range.low <= 0 || node(b).range.low <= 0) return false;
  // term = (k * a) * mod(...)
  const Expr rest = without_factor(term.base, atom);
  const auto factor = divided(term.coefficient, rest, sum_of(a));
  if (!factor) return false;
  const auto [k, k_base] = *factor;
  const auto low = try_mod(x, a);
  const auto ab = try_multiply(a, b);
  if (!low || !ab) return false;
  const auto both = try_mod(x, *ab);
  if (!both) return false;
  const auto low_part = try_multiply(k_base, *low), both_part = try_multiply(k_base, *both);
  if (!low_part || !both_part) return false;
  Sum out = s;
  if (term.coefficient == INT64_MIN || !add_term(out, term.base, -term.coefficient)) return false;
  if (!take_out(out, *low_part, k) || !add_to(out, *both_part, k)) return false;
  s = out;
  return true;
}

// k * mod(z, a) + k * a * mod(y, b)  ->  k * mod(z + a*w, a * b), where y == floordiv(z, a) + w, a
//                                    > 0 and b > 0: two digits become
// one, as above, seen from the lower.
bool join_low_digit(Sum& s, const Term term, Expr atom) {
  const Expr z = node(atom).args[0], a = node(atom).args[1];
  if (node(a).range.low <= 0) return false;
  const Expr rest = without_factor(term.base, atom);
  std::optional<Expr> cofactor, quotient;
  for (const Term& high : s.terms) {
    if (high.base == term.base || !node(high.base).is_division) continue;
    for (const Expr digit : factors_of(high.base)) {
      const Node& d = node(digit);
      if (d.kind != ExprKind::mod || node(d.args[1]).range.low <= 0) continue;
      if (!cofactor)
        cofactor =
            try_multiply(scaled(rest, term.coefficient), a); // k * a, to be the rest of the higher term
      if (!cofactor || *cofactor != scaled(without_factor(high.base, digit), high.coefficient)) continue;
      if (!quotient) quotient = try_floordiv(z, a);
      if (!quotient || node(*quotient).kind == ExprKind::constant) return false;
      Sum w = sum_of(d.args[0]);
      if (!take_out(w, *quotient, 1)) continue;
      const auto product = try_multiply(a, d.args[1]), shift = try_multiply(build(w), a);
      const auto numerator = shift ? try_add(z, *shift) : std::nullopt;
      const auto both = product && numerator ? try_mod(*numerator, *product) : std::nullopt;
      const auto joined = both ? try_multiply(rest, *both) : std::nullopt;
      Sum out = s;
      if (!joined || term.coefficient == INT64_MIN || high.coefficient == INT64_MIN) return false;
      if (!add_term(out, term.base, -term.coefficient) || !add_term(out, high.base, -high.coefficient))
        return false;
      if (!add_to(out, *joined, term.coefficient)) return false;
      s = out;
      return true;
    }
  }
  return false;
}

// k * x - k * a * floordiv(x, a)  ->  k * mod(x, a)
bool join_difference(Sum& s, const Term term, Expr atom) {
  const Expr x = node(atom).args[0], a = node(atom).args[1];
  const Expr rest = without_factor(term.base, atom);
  const auto factor = divided(term.coefficient, rest, sum_of(a));
  if (!factor) return false;
  const auto [k, k_base] = *factor;
  if (k == INT64_MIN || term.coefficient == INT64_MIN || node(x).kind == ExprKind::constant) return false;
  const auto whole = try_multiply(k_base, x);
  const auto remainder = try_mod(x, a);
  if (!whole || !remainder) return false;
  const auto joined = try_multiply(k_base, *remainder);
  Sum out = s;
  if (!joined || !add_term(out, term.base, -term.coefficient)) return false;
  if (!take_out(out, *whole, -k) || !add_to(out, *joined, -k)) return false;
  s = out;
  return true;
}

// k * x - k * mod(x, a)  ->  k * a * floordiv(x, a)
bool join_rounding(Sum& s, const Term term, Expr atom) {
  const Expr x = node(atom).args[0], a = node(atom).args[1];
  const int64_t k = term.coefficient;
  if (k == INT64_MIN || node(x).kind == ExprKind::constant) return false;
  const Expr rest = without_factor(term.base, atom);
  const auto whole = try_multiply(rest, x);
  Sum out = s;
  if (!whole || !add_term(out, term.base, -k) || !take_out(out, *whole, -k)) return false;
  const auto quotient = try_floordiv(x, a);
  const auto rounded = quotient ? try_multiply(*quotient, a) : std::nullopt;
  const auto joined = rounded ? try_multiply(rest, *rounded) : std::nullopt;
  if (!joined || !add_to(out, *joined, -k)) return false;
  s = out;
  return true;
}

// k * a * floordiv(x, a) + k * (x mod a)  ->  k * x, where x mod a has another form than in
//                                         join_remainder; a is a constant
bool join_quotient(Sum& s, const Term term, Expr atom) {
  const Expr x = node(atom).args[0], a = node(atom).args[1];
  if (node(a).kind != ExprKind::constant || term.coefficient % node(a).value != 0) return false;
  const int64_t k = term.coefficient / node(a).value;
  const auto remainder = try_mod(x, a);
  if (!remainder || node(*remainder).kind == ExprKind::constant || term.coefficient == INT64_MIN)
    return false;
  const Expr rest = without_factor(term.base, atom);
  const auto part = try_multiply(rest, *remainder), joined = try_multiply(rest, x);
  Sum out = s;
  if (!part || !joined || !add_term(out, term.base, -term.coefficient)) return false;
  if (!take_out(out, *part, k) || !add_to(out, *joined, k)) return false;
  s = out;
  return true;
}

// c * floordiv(x, a)  ->  c/g * floordiv(x, a/g), where a divides x, a is a positive constant, g = gcd(c, a)
bool cancel_exact(Sum& s, const Term term, Expr atom) {
  const Node& divisor = node(node(atom).args[1]);
  const Expr x = node(atom).args[0];
  if (divisor.kind != ExprKind::constant || divisor.value <= 1 || node(x).multiple % divisor.value != 0)
    return false;
  const int64_t g = common_divisor(term.coefficient, divisor.value);
  if (g == 1) return false;
  const auto quotient = try_floordiv(x, intern_constant(divisor.value / g));
  if (!quotient) return false;
  const auto joined = try_multiply(without_factor(term.base, atom), *quotient);
  Sum out = s;
  if (!joined || term.coefficient == INT64_MIN || !add_term(out, term.base, -term.coefficient)) return false;
  if (!add_to(out, *joined, term.coefficient / g)) return false;
  s = out;
  return true;
}

bool recombine(Sum& s) {
  for (const Term& t : s.terms) {
    if (!node(t.base).is_division) continue;
    for (const Expr atom : factors_of(t.base)) {
      const ExprKind kind = node(atom).kind;
      if (kind == ExprKind::mod) {
        if (s.terms.size() > 1 &&
            (join_remainder(s, t, atom) || join_low_digit(s, t, atom) || join_rounding(s, t, atom)))
          return true;
        if (join_digits(s, t, atom)) return true;
      } else if (kind == ExprKind::floordiv) {
        if (cancel_exact(s, t, atom)) return true;
        if (s.terms.size() > 1 && (join_difference(s, t, atom) || join_quotient(s, t, atom))) return true;
      }
    }
  }
  return false;
}

Expr intern_sum(const Sum& s) {
  if (s.terms.empty()) return intern_constant(s.constant);
  if (s.terms.size() == 1 && s.constant == 0) return scaled(s.terms[0].base, s.terms[0].coefficient);
  SmallVector<Expr, 12> args;
  for (const Term& t : s.terms) args.push_back(scaled(t.base, t.coefficient));
  if (s.constant != 0) args.push_back(intern_constant(s.constant));
  return intern(ExprKind::add, args.span(), s.constant);
}

} // namespace

Expr build(const Sum& s) {
  bool divisions = false;
  for (const Term& t : s.terms) divisions |= node(t.base).is_division;
  if (!divisions) return intern_sum(s);
  const RuleDepth depth;
  Sum joined = s;
  while (recombine(joined)) {
  }
  return intern_sum(joined);
}

std::optional<Expr> try_add(Expr a, Expr b, int64_t factor_of_b) {
  const auto compute = [&]() -> std::optional<Expr> {
    Sum s = sum_of(a);
    if (!add_to(s, b, factor_of_b)) return std::nullopt;
    return build(s);
  };
  a = folded(a);
  b = folded(b);
  if (factor_of_b == 1) return remembered(Op::add, a, b, compute);
  if (factor_of_b == -1) return remembered(Op::subtract, a, b, compute);
  return compute();
}

std::optional<Expr> try_multiply(Expr a, Expr b) {
  a = folded(a);
  b = folded(b);
  return remembered(Op::multiply, a, b, [&]() -> std::optional<Expr> {
    if (node(a).kind == ExprKind::constant) std::swap(a, b);
    const Node &x = node(a), &y = node(b);
    Sum out;
    if (y.kind == ExprKind::constant) {
      if (!add_to(out, a, y.value)) return std::nullopt;
      return build(out);
    }
    const size_t size_a = x.kind == ExprKind::add ? x.arg_count : 1,
                 size_b = y.kind == ExprKind::add ? y.arg_count : 1;
    const auto multiply_terms = [&](Expr p, int64_t c, Expr q, int64_t d) {
      SmallVector<Expr, 8> atoms;
      int64_t coefficient = 0;
      if (__builtin_mul_overflow(c, d, &coefficient)) return false;
      for (const Expr f : factors_of(p)) atoms.push_back(f);
      for (const Expr f : factors_of(q)) atoms.push_back(f);
      const Expr product = product_of_atoms(atoms.span());
      return add_to(out, product, coefficient); // it may be a constant, where its range is a single value
    };
    const auto split = [](Expr e) -> Term {
      const Node& n = node(e);
      return n.kind == ExprKind::mul ? Term{n.base, n.value} : Term{e, 1};
    };
    if (size_a * size_b > max_expanded_terms) {
      const Term p = split(a), q = split(b);
      if (!multiply_terms(p.base, p.coefficient, q.base, q.coefficient)) return std::nullopt;
      return build(out);
    }
    const Sum left = sum_of(a), right = sum_of(b);
    for (const Term& p : left.terms) {
      for (const Term& q : right.terms)
        if (!multiply_terms(p.base, p.coefficient, q.base, q.coefficient)) return std::nullopt;
      int64_t c = 0;
      if (__builtin_mul_overflow(p.coefficient, right.constant, &c) || !add_term(out, p.base, c))
        return std::nullopt;
    }
    if (!add_to(out, right, left.constant)) return std::nullopt;
    return build(out);
  });
}

} // namespace expr_detail

using namespace expr_detail;

Expr operator+(Expr a, Expr b) {
  const auto result = try_add(a, b);
  if (!result) throw_overflow("+", a, b);
  return *result;
}
Expr operator-(Expr a, Expr b) {
  const auto result = try_add(a, b, -1);
  if (!result) throw_overflow("-", a, b);
  return *result;
}
Expr operator-(Expr a) { return a * Expr(-1); }
Expr operator*(Expr a, Expr b) {
  const auto result = try_multiply(a, b);
  if (!result) throw_overflow("*", a, b);
  return *result;
}

Expr sum(std::span<const Expr> args) {
  if (args.empty()) return Expr();
  Sum s;
  for (const Expr arg : args)
    if (!add_to(s, folded(arg), 1)) throw Error("[expr] a constant of a sum does not fit 64 bits");
  return build(s);
}
Expr product(std::span<const Expr> args) {
  Expr out(1);
  for (const Expr arg : args) out *= arg;
  return out;
}

} // namespace luminal
