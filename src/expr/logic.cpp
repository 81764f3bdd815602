// expr/logic.cpp -- min and max, comparisons, and, or, not.
#include "expr/canonical.h"
#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <functional>

namespace luminal {
namespace expr_detail {
namespace {

using List = SmallVector<Expr, 8>;

void sort_unique(List& list) {
  std::sort(list.begin(), list.end(), [](Expr a, Expr b) { return compare(a, b) < 0; });
  list.resize_down(static_cast<size_t>(std::unique(list.begin(), list.end()) - list.begin()));
}

// The range of a - b, tighter than the difference of the ranges.
Interval difference_range(Expr a, Expr b) {
  Sum s = sum_of(a);
  if (!add_to(s, b, -1)) return {};
  return range_of(s);
}

// ---- min and max ----
// One piece of code for both: `sign` is 1 for min and -1 for max.

void flatten(ExprKind kind, std::span<const Expr> args, List& out) {
  for (Expr arg : args) {
    arg = folded(arg);
    if (node(arg).kind == kind)
      flatten(kind, node(arg).arg_span(), out);
    else
      out.push_back(arg);
  }
}

// Terms that all arguments have in common (with one coefficient), and the constant if all have the
// same.
Sum common_part(const List& args) {
  Sum common = sum_of(args[0]);
  for (const Expr arg : args.span().subspan(1)) {
    const Sum other = sum_of(arg);
    Sum both;
    for (const Term& t : common.terms) {
      const Term* o = other.find(t.base);
      if (o && o->coefficient == t.coefficient) both.terms.push_back(t);
    }
    both.constant = other.constant == common.constant ? common.constant : 0;
    common = both;
  }
  return common;
}

Expr extreme(ExprKind kind, std::span<const Expr> input) {
  const ExprKind dual = kind == ExprKind::min ? ExprKind::max : ExprKind::min;
  const int sign = kind == ExprKind::min ? 1 : -1;
  List args;
  flatten(kind, input, args);
  sort_unique(args);

  // x never below y goes, if y is among the arguments of a min.
  for (size_t i = 0; i < args.size();) {
    bool drop = false;
    for (size_t k = 0; k < args.size() && !drop; ++k) {
      if (k == i) continue;
      const Interval d = difference_range(args[i], args[k]);
      drop = sign > 0 ? d.low >= 0 : d.high <= 0;
      // min(max(x, y), x) == x
      if (!drop && node(args[i]).kind == dual)
        for (const Expr inner : node(args[i]).arg_span()) drop |= inner == args[k];
    }
    if (drop)
      args.erase(i);
    else
      ++i;
  }
  if (args.size() == 1) return args[0];

  // A clamp has one form: max(min(x, high), low) == min(max(x, low), high) for constants low <=
  // high.
  if (kind == ExprKind::max && args.size() == 2 && node(args[1]).kind == ExprKind::constant &&
      node(args[0]).kind == dual) {
    const auto inner = node(args[0]).arg_span();
    const Node& high = node(inner.back());
    if (inner.size() >= 2 && high.kind == ExprKind::constant && node(args[1]).value <= high.value) {
      List rest;
      for (const Expr e : inner.subspan(0, inner.size() - 1)) rest.push_back(e);
      const Expr low_clamped =
          extreme(ExprKind::max, std::array{extreme(ExprKind::min, rest.span()), args[1]});
      return extreme(ExprKind::min, std::array{low_clamped, inner.back()});
    }
  }

  // min(x + c, y + c) == min(x, y) + c
  Sum common = common_part(args);
  if (!common.terms.empty() || common.constant != 0) {
    List rest;
    bool fits = true;
    for (const Expr arg : args) {
      Sum s = sum_of(arg);
      fits = fits && add_to(s, common, -1);
      rest.push_back(fits ? build(s) : arg);
    }
    if (fits && add_to(common, extreme(kind, rest.span()), 1)) return build(common);
  }

  // min(g*x, g*y) == g * min(x, y); min(-x, -y) == -max(x, y)
  int64_t g = 0;
  bool all_negative = true;
  for (const Expr arg : args) {
    const Sum s = sum_of(arg);
    g = common_divisor(g, s.constant);
    for (const Term& t : s.terms) g = common_divisor(g, t.coefficient);
    all_negative = all_negative && (s.terms.empty() ? s.constant <= 0 : s.terms[0].coefficient < 0);
  }
  if (g > 1 || all_negative) {
    List rest;
    for (const Expr arg : args) {
      Sum s = sum_of(arg);
      for (Term& t : s.terms) t.coefficient /= g;
      s.constant /= g;
      rest.push_back(build(s));
      if (all_negative) {
        const auto negated = try_multiply(rest.back(), Expr(-1));
        if (!negated) return intern(kind, args.span());
        rest.back() = *negated;
      }
    }
    const Expr inner = extreme(all_negative ? dual : kind, rest.span());
    if (const auto whole = try_multiply(inner, intern_constant(all_negative ? -g : g))) return *whole;
  }
  return intern(kind, args.span());
}

// ---- comparisons ----

// Sum < 0 and Sum == 0 as two-sided comparisons: positive terms left, the others and the constant
// right.
std::optional<Expr> two_sided(ExprKind kind, const Sum& s) {
  Sum left, right;
  bool fits = true;
  for (const Term& t : s.terms) {
    if (t.coefficient > 0)
      fits = fits && add_term(left, t.base, t.coefficient);
    else
      fits = fits && t.coefficient != INT64_MIN && add_term(right, t.base, -t.coefficient);
  }
  if (!fits) return std::nullopt;
  if (left.terms.empty())
    left.constant = s.constant;
  else if (__builtin_sub_overflow(int64_t{0}, s.constant, &right.constant))
    return std::nullopt;
  const Expr l = build(left), r = build(right);
  return intern(kind, std::array{l, r});
}

int64_t gcd_of(const Sum& s, bool with_multiples) {
  int64_t g = 0;
  for (const Term& t : s.terms) {
    int64_t d = t.coefficient;
    if (with_multiples && __builtin_mul_overflow(t.coefficient, node(t.base).multiple, &d)) d = t.coefficient;
    g = common_divisor(g, d);
  }
  return g;
}

// The condition s < 0.
std::optional<Expr> less_than_zero(Sum s) {
  for (;;) {
    const Interval range = range_of(s);
    if (range.high < 0) return intern_constant(1);
    if (range.low >= 0) return intern_constant(0);
    // All terms are multiples of m: terms <= -constant - 1 rounds down to a multiple of m. Then
    // divide by the coefficients' gcd.
    const int64_t m = gcd_of(s, true), g = gcd_of(s, false);
    int64_t bound = 0;
    if (__builtin_sub_overflow(int64_t{-1}, s.constant, &bound)) return std::nullopt;
    const int64_t rest = floor_remainder(bound, m);
    if (__builtin_sub_overflow(bound, rest, &bound)) return std::nullopt;
    for (Term& t : s.terms) t.coefficient /= g;
    if (bound / g == INT64_MIN) return std::nullopt;
    s.constant = -(bound / g) - 1;
    // floor(x/a) + y < 0  ==  x + a*y < 0, and y - floor(x/a) < 0  ==  a*y + a - 1 - x < 0, for a > 0
    const Term* division = nullptr;
    for (const Term& t : s.terms)
      if ((t.coefficient == 1 || t.coefficient == -1) && node(t.base).kind == ExprKind::floordiv &&
          !division && node(node(t.base).args[1]).range.low > 0)
        division = &t;
    if (!division) break;
    const Expr x = node(division->base).args[0], a = node(division->base).args[1];
    Sum y = s;
    const bool positive = division->coefficient == 1;
    if (!add_term(y, division->base, -division->coefficient)) break;
    const auto product = try_multiply(build(y), a);
    if (!product) break;
    Sum wider = sum_of(*product);
    if (!add_to(wider, x, positive ? 1 : -1)) break;
    if (!positive && (!add_to(wider, a, 1) || __builtin_sub_overflow(wider.constant, 1, &wider.constant)))
      break;
    const Expr again = build(wider);
    s = sum_of(again);
    if (s.is_constant()) return intern_constant(s.constant < 0 ? 1 : 0);
  }
  return two_sided(ExprKind::lt, s);
}

std::optional<Expr> compare_less(Expr a, Expr b) {
  a = folded(a);
  b = folded(b);
  return remembered(Op::lt, a, b, [&]() -> std::optional<Expr> {
    const RuleDepth depth;
    const auto difference = try_add(a, b, -1);
    if (difference) {
      const Sum s = sum_of(*difference);
      if (s.is_constant()) return intern_constant(s.constant < 0 ? 1 : 0);
      if (const auto result = less_than_zero(s)) return result;
    }
    // The difference overflows: only the ranges can say something.
    if (node(a).kind == ExprKind::constant && node(b).kind == ExprKind::constant)
      return intern_constant(node(a).value < node(b).value ? 1 : 0);
    return intern(ExprKind::lt, std::array{a, b});
  });
}

Expr equal(Expr a, Expr b, bool wanted) {
  a = folded(a);
  b = folded(b);
  return remembered(wanted ? Op::eq : Op::ne, a, b, [&]() -> Expr {
    const RuleDepth depth;
    const ExprKind kind = wanted ? ExprKind::eq : ExprKind::ne;
    const Expr yes = intern_constant(wanted ? 1 : 0), no = intern_constant(wanted ? 0 : 1);
    const auto difference = try_add(a, b, -1);
    if (!difference) {
      if (node(a).kind == ExprKind::constant && node(b).kind == ExprKind::constant)
        return no; // a - b overflows: not equal
      return compare(a, b) <= 0 ? intern(kind, std::array{a, b}) : intern(kind, std::array{b, a});
    }
    Sum s = sum_of(*difference);
    if (s.is_constant()) return s.constant == 0 ? yes : no;
    if (!range_of(s).contains(0)) return no;
    if (const int64_t m = gcd_of(s, true); s.constant % m != 0) return no;
    int64_t g = gcd_of(s, false);
    if (s.terms[0].coefficient < 0) g = -g;
    bool fits = g != -1 || s.constant != INT64_MIN;
    for (const Term& t : s.terms) fits = fits && (g != -1 || t.coefficient != INT64_MIN);
    if (fits) {
      for (Term& t : s.terms) t.coefficient /= g;
      s.constant /= g;
    }
    // A condition compared with 0 or 1.
    if (s.terms.size() == 1 && s.terms[0].coefficient == 1 &&
        Interval{0, 1}.contains(node(s.terms[0].base).range)) {
      const Expr condition = s.terms[0].base;
      if ((s.constant == 0) != wanted) return condition;
      const ExprKind inner = node(condition).kind;
      if (inner == ExprKind::lt || inner == ExprKind::eq || inner == ExprKind::ne ||
          inner == ExprKind::logical_and || inner == ExprKind::logical_or)
        return logical_not(condition);
      return intern(ExprKind::eq, std::array{condition, Expr()});
    }
    if (const auto result = two_sided(kind, s)) return *result;
    return compare(a, b) <= 0 ? intern(kind, std::array{a, b}) : intern(kind, std::array{b, a});
  });
}

// ---- and, or, not ----

Expr to_condition(Expr e) { return Interval{0, 1}.contains(node(e).range) ? e : ne(e, Expr()); }

// What two inequalities p: x < 0 and q: y < 0 say about each other.
enum class Relation : uint8_t {
  none,
  first_implies_second,
  second_implies_first,
  exclude,
  cover,
  complement,
  meet_once
};
Relation relate(Expr p, Expr q, Sum& x) {
  const Node &a = node(p), &b = node(q);
  if (a.kind != ExprKind::lt || b.kind != ExprKind::lt) return Relation::none;
  x = sum_of(a.args[0]);
  Sum y = sum_of(b.args[0]);
  if (!add_to(x, a.args[1], -1) || !add_to(y, b.args[1], -1) || x.terms.size() != y.terms.size())
    return Relation::none;
  Sum difference = x, total = x;
  if (add_to(difference, y, -1) && difference.is_constant())
    return difference.constant >= 0 ? Relation::first_implies_second : Relation::second_implies_first;
  if (add_to(total, y, 1) && total.is_constant()) {
    // y == total - x: both hold for -2 - total many values of x and one more, none holds where 0 <=
    // x <= total.
    if (total.constant >= 0) return Relation::exclude;
    if (total.constant == -1) return Relation::complement;
    return total.constant == -2 ? Relation::meet_once : Relation::cover;
  }
  return Relation::none;
}

void flatten_conditions(ExprKind kind, std::span<const Expr> args, List& out) {
  for (Expr arg : args) {
    arg = to_condition(folded(arg));
    if (node(arg).kind == kind)
      flatten_conditions(kind, node(arg).arg_span(), out);
    else
      out.push_back(arg);
  }
}

Expr junction(ExprKind kind, std::span<const Expr> input) {
  const bool is_and = kind == ExprKind::logical_and;
  const ExprKind dual = is_and ? ExprKind::logical_or : ExprKind::logical_and;
  const Expr neutral = intern_constant(is_and ? 1 : 0), absorbing = intern_constant(is_and ? 0 : 1);
  List args;
  flatten_conditions(kind, input, args);
  sort_unique(args);
  for (size_t i = 0; i < args.size();) {
    if (args[i] == absorbing) return absorbing;
    bool drop = args[i] == neutral;
    // The opposite of an inequality is found by relate().
    const Expr negated = node(args[i]).kind == ExprKind::lt ? Expr() : logical_not(args[i]);
    for (size_t k = 0; k < args.size() && !drop; ++k) {
      if (k == i) continue;
      if (args[k] == negated && negated != Expr()) return absorbing;
      // x and (x or y) == x
      if (node(args[i]).kind == dual)
        for (const Expr inner : node(args[i]).arg_span()) drop |= inner == args[k];
      Sum x;
      switch (relate(args[i], args[k], x)) {
      case Relation::none: break;
      // `and` keeps the stronger, `or` the weaker condition.
      case Relation::first_implies_second: drop |= !is_and; break;
      case Relation::second_implies_first: drop |= is_and; break;
      case Relation::complement: return absorbing;
      case Relation::exclude:
        if (is_and) return absorbing;
        break;
      case Relation::cover:
        if (!is_and) return absorbing;
        break;
      case Relation::meet_once: // x < 0 and -2 - x < 0 is x == -1; one of both always holds
        if (!is_and) return absorbing;
        if (i < k && !__builtin_add_overflow(x.constant, 1, &x.constant)) {
          const Expr same = equal(build(x), Expr(), true);
          args.erase(k);
          args[i] = same;
          const List again = args;
          return junction(kind, again.span());
        }
        break;
      }
    }
    if (drop)
      args.erase(i);
    else
      ++i;
  }
  if (args.empty()) return neutral;
  return args.size() == 1 ? args[0] : intern(kind, args.span());
}

} // namespace
} // namespace expr_detail

using namespace expr_detail;

Expr min(std::span<const Expr> args) {
  if (args.empty()) throw Error("[expr] min of nothing");
  return extreme(ExprKind::min, args);
}
Expr max(std::span<const Expr> args) {
  if (args.empty()) throw Error("[expr] max of nothing");
  return extreme(ExprKind::max, args);
}
Expr min(Expr a, Expr b) {
  return remembered(Op::min, a, b, [&] { return extreme(ExprKind::min, std::array{a, b}); });
}
Expr max(Expr a, Expr b) {
  return remembered(Op::max, a, b, [&] { return extreme(ExprKind::max, std::array{a, b}); });
}

Expr lt(Expr a, Expr b) {
  const auto result = compare_less(a, b);
  if (!result) throw_overflow("<", a, b);
  return *result;
}
Expr gt(Expr a, Expr b) { return lt(b, a); }
Expr le(Expr a, Expr b) { return logical_not(lt(b, a)); }
Expr ge(Expr a, Expr b) { return le(b, a); }
Expr eq(Expr a, Expr b) { return equal(a, b, true); }
Expr ne(Expr a, Expr b) { return equal(a, b, false); }

Expr logical_not(Expr a) {
  a = folded(a);
  return remembered(Op::negate, a, a, [&]() -> Expr {
    const RuleDepth depth;
    const Node& n = node(a);
    switch (n.kind) {
    case ExprKind::constant: return intern_constant(n.value == 0 ? 1 : 0);
    case ExprKind::lt: { // not (x < y)  ==  y < x + 1
      const auto wider = try_add(n.args[0], Expr(1));
      const auto result = wider ? compare_less(n.args[1], *wider) : std::nullopt;
      return result ? *result : intern(ExprKind::eq, std::array{a, Expr()});
    }
    case ExprKind::eq: return equal(n.args[0], n.args[1], false);
    case ExprKind::ne: return equal(n.args[0], n.args[1], true);
    case ExprKind::logical_and:
    case ExprKind::logical_or: {
      List negated;
      for (const Expr arg : n.arg_span()) negated.push_back(logical_not(arg));
      return junction(n.kind == ExprKind::logical_and ? ExprKind::logical_or : ExprKind::logical_and,
                      negated.span());
    }
    default: return equal(a, Expr(), true);
    }
  });
}

Expr logical_and(Expr a, Expr b) {
  return remembered(Op::both, a, b, [&] { return junction(ExprKind::logical_and, std::array{a, b}); });
}
Expr logical_or(Expr a, Expr b) {
  return remembered(Op::either, a, b, [&] { return junction(ExprKind::logical_or, std::array{a, b}); });
}
Expr logical_and(std::span<const Expr> args) { return junction(ExprKind::logical_and, args); }
Expr logical_or(std::span<const Expr> args) { return junction(ExprKind::logical_or, args); }

} // namespace luminal
