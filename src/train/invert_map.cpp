// train/invert_map.cpp -- solves map(i) = j for i.
//
// Equations `left over the unknown axes = right over known ones` are rewritten until every axis is
// known. Each step keeps the set of solutions:
//   r + floordiv(e, c) = p, mod(e, c) = q   c * r + e = c * p + q      where 0 <= q < c
//   floordiv(c * a + k, d) = p alone        a from ceil((d * p - k) / c) on, as many as d has multiples of c
//   floordiv(e, c) = p alone                e = c * p + f              f free in 0..c-1
//   mod(e, c) = q alone                     e = c * f + q              f free in e's range / c
//   c * a = p                               a = p / c                  where c divides p
//   c1 * a1 + .. + cn * an = p, digits      a1 = p / c1, rest p mod c1 (each c above the rest's sum)
//   r + floordiv(c * a + k, d) = p          a from ceil((d * (p - R + 1) - k) / c) on, as many as R values
//                                           of r reach (windows that divide an axis unevenly)
//   otherwise                               the shortest axis is free, and goes to the right side
// An axis that no equation names is free (a broadcast); an equation without an unknown is a
// condition (a diagonal). At last every axis must lie in its extent.
#include "train/invert_map.h"
#include <algorithm>

namespace luminal::train {
namespace {

constexpr int known_axes = 100, free_axes = 200; // numbers of the symbols while solving

struct Equation {
  Expr left, right;
};
/// coefficient * atom, 0 <= atom <= high.
struct Term {
  Expr coefficient, atom, high;
  Expr low = 0;
  bool negative = false;
};

class Solver {
public:
  Solver(const Shape& view, const Shape& x, std::span<const Expr> assumptions)
      : view_(view), x_(x), assumptions_(assumptions.begin(), assumptions.end()), known_(view.size()) {
    for (size_t d = 0; d < view.size(); ++d) {
      axes_.push_back(axis_symbol(int(d), view[d]));
      if (axes_[d].is_constant()) known_[d] = Expr(0);
      if (axes_[d].is_symbol()) assumptions_.push_back(lt(axes_[d], view[d]));
    }
    for (size_t e = 0; e < x.size(); ++e)
      if (const Expr t = axis_symbol(known_axes + int(e), x[e]); t.is_symbol())
        assumptions_.push_back(lt(t, x[e]));
  }

  std::optional<InverseMap> run(const std::vector<Expr>& map, Expr predicate) {
    for (size_t e = 0; e < map.size(); ++e)
      equations_.push_back({map[e], axis_symbol(known_axes + int(e), x_[e])});
    for (int step = 0; step < 200 && !equations_.empty(); ++step)
      if (!settle_known() && !join_quotients() && !solve_one() && !solve_uneven() && !free_one()) return {};
    if (!equations_.empty()) return {};
    for (size_t d = 0; d < view_.size(); ++d)
      if (!known_[d]) make_free(d);
    return finish(predicate);
  }

private:
  bool unknown(Expr e) const {
    for (Expr s : symbols_of(e))
      for (size_t d = 0; d < axes_.size(); ++d)
        if (!known_[d] && s == axes_[d]) return true;
    return false;
  }
  Expr with_known(Expr e) const {
    ExprMap<Expr> places;
    for (size_t d = 0; d < axes_.size(); ++d)
      if (known_[d] && axes_[d].is_symbol() && depends_on(e, axes_[d])) places[axes_[d]] = *known_[d];
    return places.empty() ? e : substitute(e, places);
  }
  void require(Expr condition) {
    if (prove(condition, assumptions_) != Truth::yes) condition_ = logical_and(condition_, condition);
  }
  Expr free_symbol(Expr extent) {
    free_.push_back(extent);
    const Expr f = axis_symbol(free_axes + int(free_.size()) - 1, extent);
    if (f.is_symbol()) assumptions_.push_back(lt(f, extent));
    return f;
  }
  void make_free(size_t d) { known_[d] = free_symbol(view_[d]); }

  /// Equations without unknowns are conditions.
  bool settle_known() {
    const auto done = std::remove_if(equations_.begin(), equations_.end(), [&](const Equation& e) {
      if (unknown(e.left)) return false;
      require(eq(with_known(e.left), e.right));
      return true;
    });
    const bool any = done != equations_.end();
    equations_.erase(done, equations_.end());
    return any;
  }

  /// A quotient and its remainder are one equation: r + floordiv(e, c) = p and mod(e, c) = q are
  /// c * r + e = c * p + q.
  bool join_quotients() {
    for (size_t m = 0; m < equations_.size(); ++m) {
      const Expr left = equations_[m].left;
      if (left.kind() != ExprKind::mod || unknown(left.args()[1])) continue;
      const Expr e = left.args()[0], c = left.args()[1], quotient = floordiv(e, c);
      for (size_t q = 0; q < equations_.size(); ++q) {
        if (q == m || !has_term(equations_[q].left, quotient)) continue;
        const Expr rest = equations_[m].right;
        require(ge(rest, 0));
        require(lt(rest, c));
        const Equation joined{c * (equations_[q].left - quotient) + e, c * equations_[q].right + rest};
        equations_.erase(equations_.begin() + std::ptrdiff_t(std::max(m, q)));
        equations_.erase(equations_.begin() + std::ptrdiff_t(std::min(m, q)));
        equations_.push_back(joined);
        return true;
      }
    }
    return false;
  }
  static bool has_term(Expr sum, Expr term) {
    for (const auto& [own, coefficient] : affine_terms(sum).terms)
      if (own == term && coefficient == 1) return true;
    return false;
  }

  /// The terms with unknown axes, and the rest moved to the right side; nothing where a term has a
  /// product of unknowns.
  std::optional<std::vector<Term>> terms_of(const Equation& equation, Expr& right) {
    std::vector<Term> terms;
    const Affine affine = affine_terms(equation.left);
    right = equation.right - affine.constant;
    for (const auto& [product, coefficient] : affine.terms) {
      if (!unknown(product)) {
        right = right - with_known(product) * coefficient;
        continue;
      }
      Term term{coefficient, product, 0};
      if (product.kind() == ExprKind::mul) {
        term.atom = 1;
        int unknowns = 0;
        for (Expr factor : product.args()) {
          if (!unknown(factor)) {
            term.coefficient = term.coefficient * with_known(factor);
          } else {
            term.atom = factor;
            ++unknowns;
          }
        }
        if (unknowns != 1) return {};
      }
      if (!bounds(term)) return {};
      terms.push_back(term);
    }
    return terms;
  }
  /// Range of the atom, and a positive coefficient: a falling term counts from its end.
  bool bounds(Term& term) {
    bool axis = false;
    for (size_t d = 0; d < axes_.size(); ++d)
      if (term.atom == axes_[d]) {
        term.high = view_[d] - 1;
        axis = true;
      }
    if (!axis) {
      const Interval range = term.atom.range();
      if (!range.is_bounded()) return false;
      term.low = range.low;
      term.high = Expr(range.high) - range.low;
    }
    if (prove(ge(term.coefficient, 1), assumptions_) == Truth::yes) return true;
    term.negative = true;
    term.coefficient = Expr(0) - term.coefficient;
    return prove(ge(term.coefficient, 1), assumptions_) == Truth::yes;
  }

  bool solve_one() {
    for (size_t k = 0; k < equations_.size(); ++k) {
      Expr right;
      const auto terms = terms_of(equations_[k], right);
      if (!terms || terms->empty()) continue;
      if (terms->size() == 1 && !alone_solvable(terms->front())) continue;
      if (!solve_digits(*terms, right, k)) continue;
      return true;
    }
    return false;
  }
  /// One atom: an axis, or a quotient or remainder that has no partner.
  bool alone_solvable(const Term& term) const {
    return is_axis(term.atom) || term.atom.kind() == ExprKind::floordiv || term.atom.kind() == ExprKind::mod;
  }
  bool is_axis(Expr e) const { return std::find(axes_.begin(), axes_.end(), e) != axes_.end(); }

  bool solve_digits(std::vector<Term> terms, Expr right, size_t equation) {
    // largest coefficient first; each above what the rest can add up to
    std::vector<Term> order;
    while (!terms.empty()) {
      size_t best = 0;
      for (size_t k = 1; k < terms.size(); ++k)
        if (prove(ge(terms[k].coefficient, terms[best].coefficient), assumptions_) == Truth::yes) best = k;
      order.push_back(terms[best]);
      terms.erase(terms.begin() + std::ptrdiff_t(best));
    }
    Expr below = 0;
    for (size_t k = order.size(); k-- > 0;) {
      if (k + 1 < order.size() && prove(lt(below, order[k].coefficient), assumptions_) != Truth::yes)
        return false;
      below = below + order[k].coefficient * order[k].high;
    }
    for (const Term& term : order) // the sum of the lowest values of the terms
      right = right - (term.negative ? Expr(0) - term.coefficient * (term.low + term.high)
                                     : term.coefficient * term.low);
    std::vector<Equation> found;
    for (size_t k = 0; k < order.size(); ++k) {
      const Term& term = order[k];
      Expr digit = right;
      if (!term.coefficient.is_constant(1)) {
        digit = floordiv(right, term.coefficient);
        right = mod(right, term.coefficient);
        if (k + 1 == order.size()) require(eq(right, 0));
      }
      found.push_back({term.atom, term.negative ? term.low + term.high - digit : term.low + digit});
    }
    equations_.erase(equations_.begin() + std::ptrdiff_t(equation));
    for (const Equation& e : found) settle(e, found.size() == 1);
    return true;
  }
  /// An axis is known now; an atom is an equation of its own.
  void settle(const Equation& e, bool alone) {
    for (size_t d = 0; d < axes_.size(); ++d)
      if (e.left == axes_[d]) {
        known_[d] = e.right;
        range_of_.push_back(d);
        return;
      }
    if (!alone || has_partner(e.left)) {
      equations_.push_back(e);
      return;
    }
    const Expr inner = e.left.args()[0], c = e.left.args()[1];
    if (e.left.kind() == ExprKind::floordiv) {
      if (!steps_within(inner, c, e.right)) equations_.push_back({inner, c * e.right + free_symbol(c)});
      return;
    }
    require(ge(e.right, 0));
    require(lt(e.right, c));
    if (rotation(inner, c, e.right)) return;
    const Interval range = inner.range();
    const Expr first = floordiv(Expr(range.low >= 0 ? 0 : range.low), c), last = floordiv(highest(inner), c);
    equations_.push_back({inner, c * (first + free_symbol(last - first + 1)) + e.right});
  }
  /// floordiv(c * axis + k, d) = p with steps of c > 1: of d values few are multiples of c (an image resized
  /// by a factor such as 40 / 27 has one or two elements for each old one).
  bool steps_within(Expr inner, Expr d, Expr p) {
    const Affine affine = affine_terms(inner);
    if (!d.is_constant() || affine.terms.size() != 1 || affine.terms[0].second < 2) return false;
    const auto& [axis, c] = affine.terms[0];
    if (!is_axis(axis)) return false;
    const Expr a = ceildiv(d * p - affine.constant, c) + free_symbol((d.value() - 1) / c + 1);
    require(lt(a * c + affine.constant, d * (p + 1)));
    settle({axis, a}, true);
    return true;
  }
  /// mod(+-axis + k, c) over all c values of the axis: one point for each remainder.
  bool rotation(Expr inner, Expr c, Expr rest) {
    Expr right;
    const auto terms = terms_of({inner, rest}, right);
    if (!terms || terms->size() != 1 || !terms->front().coefficient.is_constant(1)) return false;
    for (size_t d = 0; d < axes_.size(); ++d)
      if (terms->front().atom == axes_[d] && proves_equal(view_[d], c, assumptions_)) {
        known_[d] = mod(terms->front().negative ? Expr(0) - right : right, c);
        return true;
      }
    return false;
  }
  /// An upper bound of an affine expression of axes; its interval otherwise.
  Expr highest(Expr e) const {
    ExprMap<Expr> tops;
    bool affine = true;
    for (const auto& [term, coefficient] : affine_terms(e).terms) affine &= coefficient > 0;
    for (Expr s : symbols_of(e))
      for (size_t d = 0; d < axes_.size(); ++d)
        if (s == axes_[d]) tops[s] = view_[d] - 1;
    const Interval range = e.range();
    if (affine && !tops.empty() && !view_empty()) {
      bool plain = true;
      for (const auto& [term, coefficient] : affine_terms(e).terms)
        plain &= term.is_symbol() || term.kind() == ExprKind::mul;
      if (plain) return substitute(e, tops);
    }
    return range.high;
  }
  bool view_empty() const {
    return std::any_of(view_.begin(), view_.end(), [](Expr e) { return e.range().low < 1; });
  }
  bool has_partner(Expr atom) const {
    for (const Equation& e : equations_)
      for (const auto& [term, coefficient] : affine_terms(e.left).terms)
        if (term != atom && (term.kind() == ExprKind::mod || term.kind() == ExprKind::floordiv) &&
            term.args()[0] == atom.args()[0])
          return true;
    return false;
  }

  size_t number_of(Expr axis) const { return size_t(std::ranges::find(axes_, axis) - axes_.begin()); }
  /// s * a + floordiv(c * a + k, d) is one quotient of (s * d + c) * a + k.
  struct Begin {
    Expr axis, divisor;
    int64_t factor = 0, constant = 0;
  };
  std::optional<Begin> begin_of(const std::vector<Term>& terms, size_t within) const {
    std::optional<Begin> begin;
    const auto plain = [](const Term& t) { return !t.negative && t.coefficient.is_constant(); };
    for (size_t k = 0; k < terms.size(); ++k) {
      const Expr atom = terms[k].atom;
      if (k == within || atom.kind() != ExprKind::floordiv) continue;
      const Affine inner = affine_terms(atom.args()[0]);
      if (begin || !plain(terms[k]) || !terms[k].coefficient.is_constant(1) || inner.terms.size() != 1 ||
          !is_axis(inner.terms[0].first) || !atom.args()[1].is_constant())
        return {};
      begin = Begin{inner.terms[0].first, atom.args()[1], inner.terms[0].second, inner.constant};
    }
    for (size_t k = 0; begin && k < terms.size(); ++k) {
      if (k == within || terms[k].atom.kind() == ExprKind::floordiv) continue;
      if (terms[k].atom != begin->axis || !plain(terms[k])) return {};
      begin->factor += terms[k].coefficient.value() * begin->divisor.value();
    }
    return begin && begin->factor > 0 ? begin : std::nullopt;
  }
  bool solve_uneven() {
    for (size_t k = 0; k < equations_.size(); ++k) {
      Expr p;
      const auto terms = terms_of(equations_[k], p);
      for (size_t within = 0; terms && within < terms->size(); ++within) {
        const Term& r = (*terms)[within];
        if (!is_axis(r.atom) || r.negative || !r.coefficient.is_constant(1)) continue;
        const Expr taps = view_[number_of(r.atom)];
        const auto begin = begin_of(*terms, within);
        if (!begin || begin->axis == r.atom || !taps.is_constant() || taps.value() < 1) continue;
        equations_.erase(equations_.begin() + std::ptrdiff_t(k));
        const Expr d = begin->divisor, least = ceildiv(d * (p - taps + 1) - begin->constant, begin->factor);
        const Expr a = least + free_symbol((taps.value() * d.value() - 1) / begin->factor + 1);
        settle({begin->axis, a}, true);
        settle({r.atom, p - floordiv(a * begin->factor + begin->constant, d)}, true);
        return true;
      }
    }
    return false;
  }

  /// The shortest unknown axis that stands by itself in a sum becomes free.
  bool free_one() {
    std::optional<size_t> best;
    for (const Equation& equation : equations_) {
      for (const auto& [term, coefficient] : affine_terms(equation.left).terms)
        for (size_t d = 0; d < axes_.size(); ++d) {
          if (known_[d] || !depends_on(term, axes_[d])) continue;
          const bool plain = term == axes_[d] ||
                             (term.kind() == ExprKind::mul && std::ranges::count(term.args(), axes_[d]) == 1);
          if (plain && (!best || view_[d].range().high < view_[*best].range().high)) best = d;
        }
    }
    if (!best) return false;
    make_free(*best);
    return true;
  }

  InverseMap finish(Expr predicate) {
    for (size_t d : range_of_) {
      require(ge(*known_[d], 0));
      require(lt(*known_[d], view_[d]));
    }
    if (!predicate.is_constant(1)) require(with_known(predicate));
    ExprMap<Expr> names;
    for (size_t e = 0; e < x_.size(); ++e)
      if (const Expr t = axis_symbol(known_axes + int(e), x_[e]); t.is_symbol())
        names[t] = axis_symbol(int(e), x_[e]);
    for (size_t f = 0; f < free_.size(); ++f)
      if (const Expr s = axis_symbol(free_axes + int(f), free_[f]); s.is_symbol())
        names[s] = axis_symbol(int(x_.size() + f), free_[f]);
    InverseMap result;
    for (size_t d = 0; d < view_.size(); ++d) result.at.push_back(substitute(*known_[d], names));
    result.condition = substitute(condition_, names);
    result.free = free_;
    return result;
  }

  Shape view_, x_, free_;
  std::vector<Expr> axes_, assumptions_;
  std::vector<std::optional<Expr>> known_;
  std::vector<size_t> range_of_; // axes that were solved for: their range is a condition
  std::vector<Equation> equations_;
  Expr condition_ = 1;
};

} // namespace

std::optional<InverseMap> invert_map(const std::vector<Expr>& map, Expr predicate, const Shape& view,
                                     const Shape& x, std::span<const Expr> assumptions) {
  return Solver(view, x, assumptions).run(map, predicate);
}

} // namespace luminal::train
