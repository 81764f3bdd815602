// expr/prove.cpp -- what holds for all values of the symbols: ranges first, then a bounded search
// that adds up known inequalities.
#include "base/hash.h"
#include "expr/canonical.h"
#include "expr/counterexample.h"
#include "expr/rebuild_expr.h"
#include <algorithm>
#include <array>
#include <unordered_map>

namespace luminal {
using namespace expr_detail;

namespace {

// Every fact is a sum that is never positive.
using Facts = std::vector<Sum>;

constexpr int max_steps = 400; // sums looked at in one proof: all of them take some million instructions
constexpr int max_depth_of_proof = 5;
constexpr size_t max_terms = 24;

void add_fact(Facts& facts, Expr low, Expr high, int64_t constant = 0) { // low + constant <= high
  Sum s = sum_of(low);
  if (add_to(s, high, -1) && !__builtin_add_overflow(s.constant, constant, &s.constant)) facts.push_back(s);
}

void add_assumption(Facts& facts, Expr condition) {
  const Node& n = node(condition);
  switch (n.kind) {
  case ExprKind::lt: add_fact(facts, n.args[0], n.args[1], 1); break;
  case ExprKind::eq:
    add_fact(facts, n.args[0], n.args[1]);
    add_fact(facts, n.args[1], n.args[0]);
    break;
  case ExprKind::logical_and:
    for (const Expr arg : n.arg_span()) add_assumption(facts, arg);
    break;
  default:
    if (Interval{0, 1}.contains(n.range)) add_fact(facts, Expr(1), condition);
  }
}

// What the meaning of an atom says, beyond its range.
void add_facts_of_atom(Facts& facts, Expr atom) {
  const Node& n = node(atom);
  const auto args = n.arg_span();
  switch (n.kind) {
  case ExprKind::mod:
    if (node(args[1]).range.low > 0) {
      if (node(args[1]).kind != ExprKind::constant) add_fact(facts, atom, args[1], 1);
      if (node(args[0]).range.low >= 0) add_fact(facts, atom, args[0]);
    }
    break;
  case ExprKind::floordiv:
    if (node(args[1]).range.low > 0) {
      // n*q <= x < n*q + n
      if (const auto product = try_multiply(args[1], atom)) {
        add_fact(facts, *product, args[0]);
        if (const auto next = try_add(*product, args[1])) add_fact(facts, args[0], *next, 1);
      }
      if (node(args[0]).range.low >= 0 && node(args[1]).kind != ExprKind::constant)
        add_fact(facts, atom, args[0]);
    }
    break;
  case ExprKind::min:
    for (const Expr arg : args) add_fact(facts, atom, arg);
    break;
  case ExprKind::max:
    for (const Expr arg : args) add_fact(facts, arg, atom);
    break;
  default: break;
  }
}

Facts facts_of(std::span<const Expr> assumptions) {
  Facts facts;
  for (const Expr a : assumptions)
    add_assumption(facts, Interval{0, 1}.contains(node(a).range) ? a : ne(a, Expr()));
  return facts;
}

/// What may be used, and points at which it holds.
struct Assumptions {
  explicit Assumptions(std::span<const Expr> conditions) : facts(facts_of(conditions)), points(facts) {}
  Assumptions(const Assumptions&) = delete;
  const Facts facts;
  Counterexamples points;
};

class Prover {
public:
  explicit Prover(const Facts& facts) : assumptions_(facts) {}

  /// Is d <= 0 everywhere?
  bool nonpositive(const Sum& d) {
    for (int depth = 1; depth <= max_depth_of_proof && steps_ > 0; ++depth) {
      cut_ = false;
      seen_.clear();
      if (search(d, depth)) return true;
      if (!cut_) return false; // deeper finds nothing new
    }
    return false;
  }

private:
  const Facts& assumptions_;
  int steps_ = max_steps;
  bool cut_ = false;
  std::vector<std::pair<uint64_t, int>> seen_; // sums that were tried, and how deep

  bool seen_before(const Sum& d, int depth) {
    uint64_t hash = hash_mix(0x6C756D, static_cast<uint64_t>(d.constant));
    for (const Term& t : d.terms)
      hash = hash_mix(hash_mix(hash, t.base.id()), static_cast<uint64_t>(t.coefficient));
    for (auto& [known, tried] : seen_)
      if (known == hash) {
        if (tried >= depth) return true;
        tried = depth;
        return false;
      }
    seen_.emplace_back(hash, depth);
    return false;
  }

  bool search(const Sum& d, int depth) {
    if (--steps_ <= 0) return false;
    if (range_of(d).high <= 0) return true;
    if (depth == 0) cut_ = true;
    if (depth == 0 || d.terms.size() > max_terms || seen_before(d, depth)) return false;

    Facts own;
    for (const Term& t : d.terms)
      for (const Expr atom : factors_of(t.base)) add_facts_of_atom(own, atom);
    // A term without an upper bound must go: then only that one is looked at.
    const Term* unbounded = nullptr;
    for (const Term& t : d.terms)
      if (!unbounded && range_of(t).high == unbounded_high) unbounded = &t;
    // m*d == k*w*f + rest with w >= 0 and f <= 0: it is enough that rest <= 0. Terms are taken out
    // one by one that way; the constant of f counts as a term, it meets the term w itself.
    const Expr one = intern_constant(1);
    const auto try_fact = [&](const Sum& f, Expr have, int64_t coefficient, const Term& want) {
      if ((coefficient > 0) != (want.coefficient > 0) || (unbounded && unbounded != &want)) return false;
      if (want.coefficient == INT64_MIN || coefficient == INT64_MIN) return false;
      const auto w = have == one         ? std::optional(want.base)
                     : have == want.base ? std::optional(one)
                                         : divide_bases(want.base, have);
      if (!w || node(*w).range.low < 0) return false;
      const int64_t g = common_divisor(want.coefficient, coefficient);
      const int64_t m = std::abs(coefficient) / g, k = std::abs(want.coefficient) / g;
      Sum rest;
      return add_to(rest, d, m) && subtract_product(rest, f, *w, k) && search(rest, depth - 1);
    };
    for (const Facts* facts : std::initializer_list<const Facts*>{&own, &assumptions_})
      for (const Sum& f : *facts)
        for (const Term& want : d.terms) {
          for (const Term& have : f.terms)
            if (try_fact(f, have.base, have.coefficient, want)) return true;
          if (f.constant != 0 && try_fact(f, one, f.constant, want)) return true;
          if (steps_ <= 0) return false;
        }
    // A factor of a product that is not negative may take the end of its range that makes the sum
    // larger.
    for (const Term& t : d.terms) {
      if (factors_of(t.base).size() < 2) continue;
      for (const Expr atom : factors_of(t.base)) {
        const Interval range = node(atom).range;
        const int64_t end = t.coefficient > 0 ? range.high : range.low;
        const Expr others = without_factor(t.base, atom);
        if (end == (t.coefficient > 0 ? unbounded_high : unbounded_low) || end == 0 ||
            node(others).range.low < 0)
          continue;
        Sum larger = d;
        int64_t c = 0;
        if (t.coefficient == INT64_MIN || !add_term(larger, t.base, -t.coefficient)) continue;
        if (__builtin_mul_overflow(t.coefficient, end, &c) || !add_to(larger, others, c)) continue;
        if (search(larger, depth - 1)) return true;
      }
    }
    // A minimum is one of its arguments: true for each is true.
    for (const Term& t : d.terms)
      for (const Expr atom : factors_of(t.base)) {
        const ExprKind kind = node(atom).kind;
        const bool split =
            (kind == ExprKind::min && t.coefficient < 0) || (kind == ExprKind::max && t.coefficient > 0);
        if (!split || factors_of(t.base).size() > 1) continue;
        bool all = true;
        for (const Expr arg : node(atom).arg_span()) {
          Sum chosen = d;
          all = all && t.coefficient != INT64_MIN && add_term(chosen, t.base, -t.coefficient) &&
                add_to(chosen, arg, t.coefficient) && search(sum_of(build(chosen)), depth - 1);
          if (!all) break;
        }
        if (all) return true;
      }
    return false;
  }

  // s -= k * w * f
  static bool subtract_product(Sum& s, const Sum& f, Expr w, int64_t k) {
    if (node(w).kind == ExprKind::constant) return add_to(s, f, -k);
    for (const Term& t : f.terms) {
      int64_t c = 0;
      const auto product = try_multiply(t.base, w);
      if (!product || __builtin_mul_overflow(t.coefficient, -k, &c) || !add_to(s, *product, c)) return false;
    }
    int64_t c = 0;
    return !__builtin_mul_overflow(f.constant, -k, &c) && add_to(s, w, c);
  }
};

bool proves_not_above(Assumptions& assumed, Expr a, Expr b, int64_t constant) { // a + constant <= b
  Sum d = sum_of(folded(a));
  if (!add_to(d, folded(b), -1) || __builtin_add_overflow(d.constant, constant, &d.constant)) return false;
  if (range_of(d).high <= 0) return true;
  return !assumed.points.positive(d) && Prover(assumed.facts).nonpositive(d);
}

Truth inverse(Truth t) { return t == Truth::yes ? Truth::no : t == Truth::no ? Truth::yes : Truth::unknown; }

Truth prove_with(Expr condition, Assumptions& assumed, std::span<const Expr> known) {
  condition = folded(condition);
  const Node& n = node(condition);
  if (n.kind == ExprKind::constant) return n.value != 0 ? Truth::yes : Truth::no;
  for (const Expr k : known)
    if (k == condition) return Truth::yes;
  if (!known.empty()) {
    const Expr negated = logical_not(condition);
    for (const Expr k : known)
      if (k == negated) return Truth::no;
  }
  const auto args = n.arg_span();
  switch (n.kind) {
  case ExprKind::lt:
    if (proves_not_above(assumed, args[0], args[1], 1)) return Truth::yes;
    if (proves_not_above(assumed, args[1], args[0], 0)) return Truth::no;
    return Truth::unknown;
  case ExprKind::eq:
    if (proves_not_above(assumed, args[0], args[1], 1) || proves_not_above(assumed, args[1], args[0], 1))
      return Truth::no;
    if (proves_not_above(assumed, args[0], args[1], 0) && proves_not_above(assumed, args[1], args[0], 0))
      return Truth::yes;
    return Truth::unknown;
  case ExprKind::ne: return inverse(prove_with(logical_not(condition), assumed, {}));
  case ExprKind::logical_and:
  case ExprKind::logical_or: {
    const Truth decisive = n.kind == ExprKind::logical_and ? Truth::no : Truth::yes;
    bool all = true;
    for (const Expr arg : args) {
      const Truth t = prove_with(arg, assumed, known);
      if (t == decisive) return decisive;
      all = all && t == inverse(decisive);
    }
    return all ? inverse(decisive) : Truth::unknown;
  }
  default:
    if (n.range.low > 0 || n.range.high < 0) return Truth::yes;
    return inverse(prove_with(eq(condition, Expr()), assumed, {}));
  }
}

// Conditions that are assumed, one by one, for recognition by identity.
void flatten(std::span<const Expr> assumptions, std::vector<Expr>& out) {
  for (const Expr a : assumptions) {
    out.push_back(a);
    if (node(a).kind == ExprKind::logical_and) flatten(node(a).arg_span(), out);
  }
}

// The symbol of the same name with the tighter facts that the assumptions give it alone.
Expr refined(Expr symbol, const Facts& facts, std::span<const Expr> known) {
  Interval range = symbol.range();
  int64_t multiple = std::max<int64_t>(symbol.multiple(), 1);
  for (const Sum& f : facts) {
    const Term* own = f.find(symbol);
    if (!own) continue;
    Sum rest = f; // c * symbol <= -rest
    if (own->coefficient == INT64_MIN || !add_term(rest, symbol, -own->coefficient)) continue;
    const int64_t low = range_of(rest).low;
    if (low == unbounded_low) continue;
    const int64_t bound = -low, c = own->coefficient;
    if (c > 0)
      range.high = std::min(range.high, floor_quotient(bound, c));
    else if (bound != INT64_MIN)
      range.low = std::max(range.low, -floor_quotient(bound, -c));
  }
  for (const Expr k : known) {
    const Node& n = node(k);
    if (n.kind != ExprKind::eq || node(n.args[0]).kind != ExprKind::mod || !n.args[1].is_constant(0))
      continue;
    const Node& remainder = node(n.args[0]);
    const Node& divisor = node(remainder.args[1]);
    if (remainder.args[0] != symbol || divisor.kind != ExprKind::constant || divisor.value <= 0) continue;
    int64_t both = 0;
    if (!__builtin_mul_overflow(multiple / common_divisor(multiple, divisor.value), divisor.value, &both))
      multiple = both;
  }
  const Interval tight = interval_of_multiples(range, multiple);
  if (tight.low > tight.high) return symbol; // the assumptions contradict each other
  return intern_symbol(symbol.name(), tight, multiple);
}

} // namespace

namespace {

/// Answers by condition and assumptions. Nodes are never freed, and an answer depends on nothing
/// else. The loops of equal tiles in different kernels ask the same.
class Answers {
public:
  using Key = std::vector<uint64_t>;
  const Truth* find(const Key& key) const {
    const auto found = known_.find(key);
    return found == known_.end() ? nullptr : &found->second;
  }
  void keep(Key key, Truth answer) {
    constexpr size_t most = 1 << 14;
    if (known_.size() >= most) known_.clear();
    known_.emplace(std::move(key), answer);
  }

private:
  struct KeyHash {
    size_t operator()(const Key& key) const { return hash64(key.data(), key.size() * sizeof key[0]); }
  };
  std::unordered_map<Key, Truth, KeyHash> known_;
};

} // namespace

Truth prove(Expr condition) { return prove(condition, std::span<const Expr>()); }
Truth prove(Expr condition, std::span<const Expr> assumptions) {
  if (condition.is_constant()) return condition.value() != 0 ? Truth::yes : Truth::no;
  thread_local Answers answers;
  Answers::Key key{condition.id()};
  for (const Expr a : assumptions) key.push_back(a.id());
  if (const Truth* answer = answers.find(key)) return *answer;
  std::vector<Expr> known;
  flatten(assumptions, known);
  Assumptions assumed(assumptions);
  const Truth answer = prove_with(condition, assumed, known);
  answers.keep(std::move(key), answer);
  return answer;
}
Truth prove(Expr condition, std::initializer_list<Expr> assumptions) {
  return prove(condition, std::span(assumptions.begin(), assumptions.size()));
}

bool proves_equal(Expr a, Expr b) { return proves_equal(a, b, {}); }
bool proves_equal(Expr a, Expr b, std::span<const Expr> assumptions) {
  if (a == b) return true;
  const auto difference = try_add(a, b, -1);
  if (!difference) return false;
  if (node(*difference).kind == ExprKind::constant) return node(*difference).value == 0;
  return prove(eq(*difference, Expr()), assumptions) == Truth::yes;
}

namespace {
/// (a*f + r) // (g*f) == a // g and (a*f + r) % (g*f) == a % g * f + r, where 0 <= r < f: of places in a box
/// whose extents are symbols. (Divisors that are constants are taken apart where expressions are made.)
std::optional<Expr> without_digit(Expr division, Assumptions& assumed) {
  const Node& n = node(division);
  const Sum divisor = sum_of(n.arg_span()[1]), value = sum_of(n.arg_span()[0]);
  if (divisor.terms.size() != 1 || divisor.constant != 0 || node(n.arg_span()[1]).range.low <= 0) return {};
  const Term& product = divisor.terms[0];
  for (const Expr factor : factors_of(product.base)) {
    if (node(factor).range.low <= 0) continue;
    Sum multiples, rest;
    rest.constant = value.constant;
    bool exact = true;
    for (const Term& t : value.terms) {
      const auto quotient = divide_bases(t.base, factor);
      exact = exact && (quotient ? add_to(multiples, *quotient, t.coefficient)
                                 : add_term(rest, t.base, t.coefficient));
    }
    if (!exact || (multiples.terms.empty() && multiples.constant == 0)) continue;
    const Expr r = build(rest), a = build(multiples);
    if (!proves_not_above(assumed, Expr(), r, 0) || !proves_not_above(assumed, r, factor, 1)) continue;
    const Expr g = scaled(without_factor(product.base, factor), product.coefficient);
    const bool whole = g.is_constant(1);
    if (n.kind == ExprKind::floordiv) {
      const Expr quotient = whole ? a : floordiv(a, g);
      return quotient.kind() == ExprKind::floordiv ? without_digit(quotient, assumed).value_or(quotient)
                                                   : quotient;
    }
    Expr remainder = whole ? Expr() : mod(a, g);
    if (remainder.kind() == ExprKind::mod) remainder = without_digit(remainder, assumed).value_or(remainder);
    return remainder * factor + r;
  }
  return {};
}

Expr simplified(Expr e, std::span<const Expr> assumptions) {
  std::vector<Expr> known;
  flatten(assumptions, known);
  Assumptions assumed(assumptions);

  // First with tighter symbols, then the old symbols put back.
  std::unordered_map<uint32_t, Expr> back;
  Rebuilder tighten;
  tighten.leaf = [&](Expr symbol) {
    const Expr tight = refined(symbol, assumed.facts, known);
    if (tight != symbol) back.emplace(tight.id(), symbol);
    return tight;
  };
  // A symbol of one value disappears where it is an operand; alone it is replaced here.
  e = folded(tighten.of(e));
  Rebuilder restore;
  restore.leaf = [&](Expr symbol) {
    const auto found = back.find(symbol.id());
    return found == back.end() ? symbol : found->second;
  };
  e = restore.of(e);

  Rebuilder decide;
  decide.node_done = [&](Expr made) -> Expr {
    const Node& n = node(made);
    const auto args = n.arg_span();
    switch (n.kind) {
    case ExprKind::lt:
    case ExprKind::eq:
    case ExprKind::ne: {
      const Truth t = prove_with(made, assumed, known);
      return t == Truth::unknown ? made : Expr(t == Truth::yes ? 1 : 0);
    }
    case ExprKind::min:
    case ExprKind::max: {
      std::vector<Expr> kept(args.begin(), args.end());
      for (size_t i = 0; i < kept.size() && kept.size() > 1;) {
        const bool drop = std::any_of(kept.begin(), kept.end(), [&](Expr other) {
          if (other == kept[i]) return false;
          return n.kind == ExprKind::min ? proves_not_above(assumed, other, kept[i], 0)
                                         : proves_not_above(assumed, kept[i], other, 0);
        });
        if (drop)
          kept.erase(kept.begin() + static_cast<std::ptrdiff_t>(i));
        else
          ++i;
      }
      return kept.size() == args.size() ? made : make(n.kind, kept);
    }
    case ExprKind::floordiv:
    case ExprKind::mod:
      if (node(args[1]).range.low > 0 && proves_not_above(assumed, Expr(), args[0], 0) &&
          proves_not_above(assumed, args[0], args[1], 1))
        return n.kind == ExprKind::mod ? args[0] : Expr();
      return without_digit(made, assumed).value_or(made);
    default: return made;
    }
  };
  return decide.of(e);
}
} // namespace

Expr simplify_under(Expr e, std::span<const Expr> assumptions) {
  if (assumptions.empty()) return e;
  try {
    return simplified(e, assumptions);
  } catch (const Error&) { // a constant on the way does not fit: nothing is simplified
    return e;
  }
}
Expr simplify_under(Expr e, std::initializer_list<Expr> assumptions) {
  return simplify_under(e, std::span(assumptions.begin(), assumptions.size()));
}

} // namespace luminal
