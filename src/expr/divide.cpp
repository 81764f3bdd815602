// expr/divide.cpp -- floor division and floor modulus. Every rule states its premise; d, g, a, b
// are divisors, q quotients.
#include "expr/canonical.h"
#include <algorithm>
#include <array>
#include <cstdlib>
#include <fmt/format.h>
#include <functional>

namespace luminal {
namespace expr_detail {
namespace {

int64_t divisor_of(const Term& t) { // of all values of the term
  int64_t product = 0;
  const int64_t c = t.coefficient == INT64_MIN ? int64_t{1} << 62 : std::abs(t.coefficient);
  return __builtin_mul_overflow(c, node(t.base).multiple, &product) ? c : product;
}

// atom / d where d divides the atom: one division, never the question itself again.
Expr exact_quotient_of_atom(Expr atom, int64_t d) {
  const Node& n = node(atom);
  if (n.kind == ExprKind::floordiv) {
    const Node& a = node(n.args[1]);
    int64_t ad = 0;
    if (a.kind == ExprKind::constant && a.value > 0 && !__builtin_mul_overflow(a.value, d, &ad))
      if (const auto merged = try_floordiv(n.args[0], intern_constant(ad))) return *merged;
  } else if (n.kind == ExprKind::mod && node(n.args[1]).range.low > 0 && node(n.args[1]).multiple % d == 0) {
    const auto high = try_floordiv(n.args[0], intern_constant(d)),
               digits = try_floordiv(n.args[1], intern_constant(d));
    if (high && digits)
      if (const auto quotient = try_mod(*high, *digits)) return *quotient;
  }
  return intern(ExprKind::floordiv, std::array{atom, intern_constant(d)});
}

// base / d for a base that d divides, as a product: exact divisions of single factors.
std::optional<Expr> exact_quotient(Expr base, int64_t d) {
  Expr out = intern_constant(1);
  for (const Expr f : factors_of(base)) {
    const int64_t g = common_divisor(node(f).multiple, d);
    d /= g;
    const auto product = try_multiply(out, g > 1 ? exact_quotient_of_atom(f, g) : f);
    if (!product) return std::nullopt;
    out = *product;
  }
  return d == 1 ? std::optional(out) : std::nullopt;
}

// Splits s = d * quotient + rest, rest with coefficients of size below d (signs kept) and a
// constant in [0, d).
bool split_by_constant(const Sum& s, int64_t d, Sum& quotient, Sum& rest) {
  for (const Term& t : s.terms) {
    const int64_t q = t.coefficient / d, r = t.coefficient % d;
    if (!add_term(quotient, t.base, q)) return false;
    if (r == 0) continue;
    // A term that d divides though its coefficient does not.
    if (divisor_of({t.base, r}) % d == 0) {
      const int64_t g = common_divisor(r, d);
      const auto exact = node(t.base).multiple % (d / g) == 0 ? exact_quotient(t.base, d / g) : std::nullopt;
      if (exact) {
        if (!add_to(quotient, *exact, r / g)) return false;
        continue;
      }
    }
    if (!add_term(rest, t.base, r)) return false;
  }
  rest.constant = floor_remainder(s.constant, d);
  return !__builtin_add_overflow(quotient.constant, floor_quotient(s.constant, d), &quotient.constant);
}

// Where the terms of s fall into D, all divisible by g (a divisor of d), and S with k*g <= S <
// (k+1)*g: takes S - k*g out of s and returns it. Then floor(s / d) == floor((D + k*g) / d) and s
// mod d == (D + k*g) mod d + (S - k*g).
bool take_low_part(Sum& s, int64_t d, Sum& low) {
  SmallVector<int64_t, 8> divisors;
  for (const Term& t : s.terms) divisors.push_back(common_divisor(divisor_of(t), d));
  SmallVector<int64_t, 8> candidates;
  for (const int64_t g : divisors)
    if (g > 1 && std::find(candidates.begin(), candidates.end(), g) == candidates.end())
      candidates.push_back(g);
  std::sort(candidates.begin(), candidates.end(), std::greater<>());
  for (const int64_t g : candidates) {
    Interval range = point(s.constant);
    bool any = false;
    for (size_t i = 0; i < s.terms.size(); ++i)
      if (divisors[i] % g != 0) {
        range = range + range_of(s.terms[i]);
        any = true;
      }
    if (!any && s.constant % g == 0) continue;
    if (!range.is_bounded()) continue;
    const int64_t k = floor_quotient(range.low, g);
    if (floor_quotient(range.high, g) != k) continue;
    int64_t shift = 0;
    if (__builtin_mul_overflow(k, g, &shift)) continue;
    Sum high;
    bool fits = true;
    for (size_t i = 0; i < s.terms.size(); ++i)
      fits = fits && add_term(divisors[i] % g != 0 ? low : high, s.terms[i].base, s.terms[i].coefficient);
    if (!fits || __builtin_sub_overflow(s.constant, shift, &low.constant)) return false;
    high.constant = shift;
    s = high;
    return true;
  }
  return false;
}

int64_t gcd_of_coefficients(const Sum& s, int64_t d) {
  for (const Term& t : s.terms) d = common_divisor(d, t.coefficient);
  return d;
}
void divide_all(Sum& s, int64_t g) { // the constant rounded down
  for (Term& t : s.terms) t.coefficient /= g;
  s.constant = floor_quotient(s.constant, g);
}

// Has build() left the sum as it was? Else there may be more to split.
bool still(Expr e, const Sum& s) {
  const Sum now = sum_of(e);
  if (now.constant != s.constant || now.terms.size() != s.terms.size()) return false;
  for (size_t i = 0; i < s.terms.size(); ++i)
    if (now.terms[i].base != s.terms[i].base || now.terms[i].coefficient != s.terms[i].coefficient)
      return false;
  return true;
}

std::optional<Expr> plus(Sum& quotient, Expr atom) {
  if (!add_to(quotient, atom, 1)) return std::nullopt;
  return build(quotient);
}

// floor(e / d), d > 1
std::optional<Expr> floordiv_by_constant(Expr e, int64_t d) {
  Sum quotient, all = sum_of(e);
  for (;;) {
    Sum q, rest;
    if (!split_by_constant(all, d, q, rest) || !add_to(quotient, q, 1)) return std::nullopt;
    const Interval range = range_of(rest);
    if (range.is_bounded() && floor_quotient(range.low, d) == floor_quotient(range.high, d)) {
      if (__builtin_add_overflow(quotient.constant, floor_quotient(range.low, d), &quotient.constant))
        return std::nullopt;
      return build(quotient);
    }
    // floor((g*x + c) / (g*b)) == floor((x + floor(c/g)) / b)
    if (const int64_t g = gcd_of_coefficients(rest, d); g > 1) {
      divide_all(rest, g);
      d /= g;
      all = rest;
      continue;
    }
    if (Sum low; take_low_part(rest, d, low)) {
      all = rest;
      continue;
    }
    // floor((floor(x/a) + s) / d) == floor((x + a*s) / (a*d)), a > 0: one division less.
    const Term* inner = nullptr;
    int inner_count = 0;
    for (const Term& t : rest.terms)
      if (t.coefficient == 1 && node(t.base).kind == ExprKind::floordiv) inner = &t, ++inner_count;
    if (inner_count == 1) {
      const Expr x = node(inner->base).args[0];
      const Node& a = node(node(inner->base).args[1]);
      int64_t ad = 0;
      Sum merged;
      if (a.kind == ExprKind::constant && a.value > 0 && !__builtin_mul_overflow(a.value, d, &ad) &&
          add_to(merged, x, 1)) {
        bool fits = true;
        for (const Term& t : rest.terms) {
          int64_t c = 0;
          if (&t != inner)
            fits = fits && !__builtin_mul_overflow(t.coefficient, a.value, &c) && add_term(merged, t.base, c);
        }
        int64_t c = 0;
        fits = fits && !__builtin_mul_overflow(rest.constant, a.value, &c) &&
               !__builtin_add_overflow(merged.constant, c, &merged.constant);
        if (fits) {
          d = ad;
          all = merged;
          continue;
        }
      } else if (a.kind != ExprKind::constant && a.range.low > 0 && rest.terms.size() == 1 &&
                 rest.constant == 0) {
        const auto product = try_multiply(node(inner->base).args[1], intern_constant(d));
        const auto merged_quotient = product ? try_floordiv(x, *product) : std::nullopt;
        if (merged_quotient) return plus(quotient, *merged_quotient);
      }
    }
    // floor((x mod m) / d) == floor(x/d) mod (m/d), d divides m > 0
    if (rest.terms.size() == 1 && rest.constant == 0 && rest.terms[0].coefficient == 1 &&
        node(rest.terms[0].base).kind == ExprKind::mod) {
      const auto args = node(rest.terms[0].base).arg_span();
      const Node& m = node(args[1]);
      if (m.range.low > 0 && m.multiple % d == 0) {
        const auto high = try_floordiv(args[0], intern_constant(d)),
                   digits = try_floordiv(args[1], intern_constant(d));
        const auto result = high && digits ? try_mod(*high, *digits) : std::nullopt;
        if (result) return plus(quotient, *result);
      }
    }
    const Expr numerator = build(rest);
    if (!still(numerator, rest)) {
      all = sum_of(numerator);
      continue;
    }
    return plus(quotient, intern(ExprKind::floordiv, std::array{numerator, intern_constant(d)}));
  }
}

// e mod d, d > 1
std::optional<Expr> mod_by_constant(Expr e, int64_t d) {
  Sum out, all = sum_of(e);
  int64_t scale = 1; // the result is out + scale * (all mod d)
  for (;;) {
    Sum rest;
    for (const Term& t : all.terms) {
      const int64_t r = t.coefficient % d;
      if (r != 0 && divisor_of({t.base, r}) % d != 0 && !add_term(rest, t.base, r)) return std::nullopt;
    }
    rest.constant = floor_remainder(all.constant, d);
    const Interval range = range_of(rest);
    if (range.is_bounded() && floor_quotient(range.low, d) == floor_quotient(range.high, d)) {
      int64_t shift = 0;
      if (__builtin_mul_overflow(floor_quotient(range.low, d), d, &shift) ||
          __builtin_sub_overflow(rest.constant, shift, &rest.constant) || !add_to(out, rest, scale))
        return std::nullopt;
      return build(out);
    }
    // (g*x + c) mod (g*b) == g * ((x + floor(c/g)) mod b) + c mod g
    if (const int64_t g = gcd_of_coefficients(rest, d); g > 1) {
      Sum low;
      low.constant = floor_remainder(rest.constant, g);
      if (!add_to(out, low, scale)) return std::nullopt;
      divide_all(rest, g);
      d /= g;
      scale *= g; // the product of these divides the first d
      all = rest;
      continue;
    }
    if (Sum low; take_low_part(rest, d, low)) {
      if (!add_to(out, low, scale)) return std::nullopt;
      all = rest;
      continue;
    }
    // c * (x mod m) == c * x modulo d, where d divides c*m
    bool unwrapped = false;
    for (const Term& t : rest.terms) {
      if (node(t.base).kind != ExprKind::mod) continue;
      const Node& m = node(node(t.base).args[1]);
      int64_t cm = 0;
      if (__builtin_mul_overflow(t.coefficient, m.multiple, &cm) || cm % d != 0) continue;
      Sum wider = rest;
      if (!add_term(wider, t.base, -t.coefficient) || !add_to(wider, node(t.base).args[0], t.coefficient))
        continue;
      all = wider;
      unwrapped = true;
      break;
    }
    if (unwrapped) continue;
    const Expr numerator = build(rest);
    if (!still(numerator, rest)) {
      all = sum_of(numerator);
      continue;
    }
    const Expr atom = intern(ExprKind::mod, std::array{numerator, intern_constant(d)});
    if (!add_to(out, atom, scale)) return std::nullopt;
    return build(out);
  }
}

struct Division {
  Sum quotient, rest; // e == quotient * n + rest
};

// Takes multiples of the symbolic divisor n out of e, as long as that leaves fewer terms.
bool split_by_symbolic(Expr e, const Sum& n, Division& out) {
  out.rest = sum_of(e);
  for (bool again = true; again;) {
    again = false;
    for (const Term& lead : n.terms) {
      for (const Term& t : out.rest.terms) {
        if (t.coefficient % lead.coefficient != 0) continue;
        const auto base = divide_bases(t.base, lead.base);
        if (!base) continue;
        const int64_t c = t.coefficient / lead.coefficient;
        Sum rest = out.rest, factor;
        bool fits = c != INT64_MIN && t.coefficient != INT64_MIN && add_to(factor, *base, c);
        for (const Term& other : n.terms) {
          int64_t k = 0;
          const auto product = try_multiply(*base, other.base);
          fits = fits && product && !__builtin_mul_overflow(-c, other.coefficient, &k) &&
                 add_to(rest, *product, k);
        }
        int64_t k = 0;
        fits = fits && !__builtin_mul_overflow(-c, n.constant, &k) && add_to(rest, *base, k);
        const size_t before = out.rest.terms.size() + (out.rest.constant != 0),
                     after = rest.terms.size() + (rest.constant != 0);
        if (!fits || after > before || rest.terms.size() >= out.rest.terms.size()) continue;
        if (!add_to(out.quotient, factor, 1)) return false;
        out.rest = rest;
        again = true;
        break;
      }
      if (again) break;
    }
  }
  return true;
}

// -1 or 0 where rest / n provably rounds to that, n > 0.
std::optional<int64_t> small_quotient(const Sum& rest, Expr n) {
  const Interval range = range_of(rest);
  if (range.low >= 0) {
    Sum room = sum_of(n); // n - 1 - rest >= 0
    if (add_to(room, rest, -1) && range_of(room).low >= 1) return 0;
  } else if (range.high < 0) {
    Sum room = rest; // rest + n >= 0
    if (add_to(room, n, 1) && range_of(room).low >= 0) return -1;
  }
  return std::nullopt;
}

// Divides numerator and divisor by what they share: a number g (the numerator's constant may leave
// a remainder), then atoms.
bool cancel_common(Sum& e, Sum& n, int64_t& g, int64_t& low, Expr& atoms) {
  g = common_divisor(gcd_of_coefficients(e, n.constant), gcd_of_coefficients(n, 0));
  low = 0;
  atoms = intern_constant(1);
  if (g > 1) {
    low = floor_remainder(e.constant, g);
    divide_all(e, g);
    divide_all(n, g);
  } else {
    g = 1;
  }
  if (n.terms.size() == 1 && n.constant == 0 && e.constant == 0 && !e.terms.empty()) {
    SmallVector<Expr, 8> shared;
    Expr divisor = n.terms[0].base;
    for (const Expr f : factors_of(n.terms[0].base)) {
      bool in_all = true;
      for (const Term& t : e.terms) in_all = in_all && divide_bases(t.base, f).has_value();
      if (!in_all) continue;
      Sum reduced;
      for (const Term& t : e.terms)
        if (!add_to(reduced, *divide_bases(t.base, f), t.coefficient)) return false;
      e = reduced;
      divisor = *divide_bases(divisor, f);
      shared.push_back(f);
      if (e.constant != 0) break; // a term was that factor alone
    }
    if (!shared.empty()) {
      const int64_t c = n.terms[0].coefficient;
      n = Sum{};
      if (!add_to(n, divisor, c)) return false;
      atoms = product_of_atoms(shared.span());
    }
  }
  return true;
}

std::optional<Expr> floordiv_by_symbolic(Expr e, Expr n) {
  if (node(n).range.high < 0) {
    const auto minus_e = try_multiply(e, Expr(-1)), minus_n = try_multiply(n, Expr(-1));
    if (!minus_e || !minus_n) return std::nullopt;
    return try_floordiv(*minus_e, *minus_n);
  }
  Division division;
  if (!split_by_symbolic(e, sum_of(n), division)) return std::nullopt;
  if (const auto small = small_quotient(division.rest, n)) {
    if (__builtin_add_overflow(division.quotient.constant, *small, &division.quotient.constant))
      return std::nullopt;
    return build(division.quotient);
  }
  // floor((g*x + c) / (g*y)) == floor((x + floor(c/g)) / y), and so for a shared factor other than
  // 0
  Sum divisor = sum_of(n);
  int64_t g = 1, low = 0;
  Expr atoms;
  if (!cancel_common(division.rest, divisor, g, low, atoms)) return std::nullopt;
  if (g > 1 || node(atoms).kind != ExprKind::constant) {
    const Expr numerator = build(division.rest), denominator = build(divisor);
    const auto reduced = try_floordiv(numerator, denominator);
    if (!reduced) return std::nullopt;
    return plus(division.quotient, *reduced);
  }
  const Expr rest = build(division.rest);
  const Node& r = node(rest);
  if (r.kind == ExprKind::floordiv && !node(r.args[1]).range.contains(0)) {
    // floor(floor(x/a) / n) == floor(x / (a*n)), n > 0, a not 0
    const auto product = try_multiply(r.args[1], n);
    const auto merged = product ? try_floordiv(r.args[0], *product) : std::nullopt;
    if (merged) return plus(division.quotient, *merged);
  }
  if (r.kind == ExprKind::mod && node(r.args[1]).range.low > 0) {
    // floor((x mod (n*k)) / n) == floor(x/n) mod k, k > 0
    Division m;
    if (split_by_symbolic(r.args[1], sum_of(n), m) && m.rest.is_constant() && m.rest.constant == 0) {
      const Expr k = build(m.quotient);
      const auto high = try_floordiv(r.args[0], n);
      const auto digits = high && node(k).range.low > 0 ? try_mod(*high, k) : std::nullopt;
      if (digits) return plus(division.quotient, *digits);
    }
  }
  return plus(division.quotient, intern(ExprKind::floordiv, std::array{rest, n}));
}

std::optional<Expr> mod_by_symbolic(Expr e, Expr n) {
  if (node(n).range.high < 0) {
    const auto minus_e = try_multiply(e, Expr(-1)), minus_n = try_multiply(n, Expr(-1));
    const auto result = minus_e && minus_n ? try_mod(*minus_e, *minus_n) : std::nullopt;
    return result ? try_multiply(*result, Expr(-1)) : std::nullopt;
  }
  Division division;
  if (!split_by_symbolic(e, sum_of(n), division)) return std::nullopt;
  if (const auto small = small_quotient(division.rest, n)) {
    if (!add_to(division.rest, n, -*small)) return std::nullopt;
    return build(division.rest);
  }
  // (g*x + c) mod (g*y) == g * ((x + floor(c/g)) mod y) + c mod g, and (f*x) mod (f*y) == f * (x
  // mod y)
  Sum divisor = sum_of(n);
  int64_t g = 1, low = 0;
  Expr atoms;
  if (!cancel_common(division.rest, divisor, g, low, atoms)) return std::nullopt;
  if (g > 1 || node(atoms).kind != ExprKind::constant) {
    const Expr numerator = build(division.rest), denominator = build(divisor);
    const auto reduced = try_mod(numerator, denominator);
    const auto wider = reduced ? try_multiply(*reduced, atoms) : std::nullopt;
    Sum out;
    out.constant = low;
    if (!wider || !add_to(out, *wider, g)) return std::nullopt;
    return build(out);
  }
  const Expr rest = build(division.rest);
  const Node& r = node(rest);
  if (r.kind == ExprKind::mod) {
    // (x mod (n*k)) mod n == x mod n
    Division m;
    if (split_by_symbolic(r.args[1], sum_of(n), m) && m.rest.is_constant() && m.rest.constant == 0)
      return try_mod(r.args[0], n);
  }
  return intern(ExprKind::mod, std::array{rest, n});
}

[[noreturn]] void throw_zero(const char* operation, Expr a) {
  throw Error(fmt::format("[expr] division by zero: ({}) {} 0", to_string(a), operation));
}

} // namespace

std::optional<Expr> try_floordiv(Expr a, Expr b) {
  a = folded(a);
  b = folded(b);
  return remembered(Op::floordiv, a, b, [&]() -> std::optional<Expr> {
    const RuleDepth depth;
    const Node &x = node(a), &y = node(b);
    if (y.kind == ExprKind::constant) {
      if (y.value == 0) return std::nullopt;
      if (y.value == 1) return a;
      if (x.kind == ExprKind::constant) {
        int64_t value = 0;
        return checked_floordiv(x.value, y.value, value) ? std::optional(intern_constant(value))
                                                         : std::nullopt;
      }
      if (y.value == INT64_MIN) return intern(ExprKind::floordiv, std::array{a, b});
      if (y.value > 1) return floordiv_by_constant(a, y.value);
      const auto minus = try_multiply(a, Expr(-1)); // floor(a / -d) == floor(-a / d)
      return minus ? try_floordiv(*minus, intern_constant(-y.value)) : std::nullopt;
    }
    if (y.range.contains(0)) return intern(ExprKind::floordiv, std::array{a, b});
    return floordiv_by_symbolic(a, b);
  });
}

std::optional<Expr> try_mod(Expr a, Expr b) {
  a = folded(a);
  b = folded(b);
  return remembered(Op::mod, a, b, [&]() -> std::optional<Expr> {
    const RuleDepth depth;
    const Node &x = node(a), &y = node(b);
    if (y.kind == ExprKind::constant) {
      if (y.value == 0) return std::nullopt;
      if (y.value == 1 || y.value == -1) return Expr();
      if (x.kind == ExprKind::constant) return intern_constant(floor_remainder(x.value, y.value));
      if (y.value == INT64_MIN) return intern(ExprKind::mod, std::array{a, b});
      if (y.value > 1) return mod_by_constant(a, y.value);
      const auto minus = try_multiply(a, Expr(-1)); // a mod -d == -(-a mod d)
      const auto result = minus ? try_mod(*minus, intern_constant(-y.value)) : std::nullopt;
      return result ? try_multiply(*result, Expr(-1)) : std::nullopt;
    }
    if (y.range.contains(0)) return intern(ExprKind::mod, std::array{a, b});
    return mod_by_symbolic(a, b);
  });
}

} // namespace expr_detail

using namespace expr_detail;

Expr floordiv(Expr a, Expr b) {
  const auto result = try_floordiv(a, b);
  if (!result && folded(b).is_constant(0)) throw_zero("//", a);
  if (!result) throw_overflow("//", a, b);
  return *result;
}
Expr mod(Expr a, Expr b) {
  const auto result = try_mod(a, b);
  if (!result && folded(b).is_constant(0)) throw_zero("%", a);
  if (!result) throw_overflow("%", a, b);
  return *result;
}
Expr ceildiv(Expr a, Expr b) {
  // -(-a // b) == (a + b - 1) // b for b > 0, the form that leaves no sign.
  if (folded(b).range().low > 0) return floordiv(a + b - 1, b);
  return -floordiv(-a, b);
}

} // namespace luminal
