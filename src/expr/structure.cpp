// expr/structure.cpp -- looking into expressions: symbols, substitution, affine views.
#include "base/check.h"
#include "expr/canonical.h"
#include "expr/rebuild_expr.h"
#include <algorithm>
#include <fmt/format.h>
#include <unordered_set>

namespace luminal {
namespace expr_detail {

Expr make(ExprKind kind, std::span<const Expr> args) {
  switch (kind) {
  case ExprKind::add: return sum(args);
  case ExprKind::mul: return product(args);
  case ExprKind::floordiv: return floordiv(args[0], args[1]);
  case ExprKind::mod: return mod(args[0], args[1]);
  case ExprKind::min: return min(args);
  case ExprKind::max: return max(args);
  case ExprKind::lt: return lt(args[0], args[1]);
  case ExprKind::eq: return eq(args[0], args[1]);
  case ExprKind::ne: return ne(args[0], args[1]);
  case ExprKind::logical_and: return logical_and(args);
  case ExprKind::logical_or: return logical_or(args);
  case ExprKind::constant:
  case ExprKind::symbol: break;
  }
  LUMINAL_CHECK(false, "a leaf has no arguments to be made from");
  return {};
}

Expr Rebuilder::of(Expr e) {
  const Node& n = node(e);
  if (n.kind == ExprKind::constant) return e;
  if (n.kind == ExprKind::symbol) return leaf ? leaf(e) : e;
  const bool deep = n.depth > 2; // enough that making it twice would cost more than remembering it
  if (deep)
    if (const auto found = known.find(e.id()); found != known.end()) return found->second;
  SmallVector<Expr, 8> args;
  bool changed = false;
  for (const Expr arg : n.arg_span()) {
    args.push_back(of(arg));
    changed |= args.back() != arg;
  }
  Expr out = changed ? make(n.kind, args.span()) : e;
  if (node_done) out = node_done(out);
  if (deep) known.emplace(e.id(), out);
  return out;
}

} // namespace expr_detail

using namespace expr_detail;

namespace {

struct Walker {
  std::unordered_set<uint32_t> seen; // what is deep enough that reading it twice would cost more
  std::vector<Expr> symbols;

  bool knows(Expr symbol) const { return std::find(symbols.begin(), symbols.end(), symbol) != symbols.end(); }
  void walk(Expr e) {
    const Node& n = node(e);
    if (n.kind == ExprKind::constant) return;
    if (n.kind == ExprKind::symbol) {
      if (!knows(e)) symbols.push_back(e);
      return;
    }
    if (n.depth > 2 && !seen.insert(e.id()).second) return;
    for (const Expr arg : n.arg_span()) walk(arg);
  }
};

} // namespace

std::vector<Expr> symbols_of(std::span<const Expr> exprs) {
  Walker walker;
  for (const Expr e : exprs) walker.walk(e);
  std::sort(walker.symbols.begin(), walker.symbols.end(), ExprLess{});
  return std::move(walker.symbols);
}
std::vector<Expr> symbols_of(Expr e) { return symbols_of(std::span(&e, 1)); }

bool depends_on(Expr e, Expr symbol) {
  if (e == symbol) return true;
  const Node& n = node(e);
  if (n.arg_span().empty()) return false;
  if (n.depth <= 4)
    return std::any_of(n.arg_span().begin(), n.arg_span().end(),
                       [&](Expr arg) { return depends_on(arg, symbol); });
  Walker walker;
  walker.walk(e);
  return walker.knows(symbol);
}

Expr substitute(Expr e, const ExprMap<Expr>& replacements) {
  if (e.is_constant()) return e;
  for (const auto& [symbol, replacement] : replacements) {
    if (!symbol.is_symbol())
      throw Error(fmt::format("[expr] substitute: {} is not a symbol", to_string(symbol)));
    const Node &s = node(symbol), &r = node(replacement);
    const bool wrong = r.range.high < s.range.low || s.range.high < r.range.low ||
                       (r.kind == ExprKind::constant && s.multiple > 1 && r.value % s.multiple != 0);
    if (wrong)
      throw Error(fmt::format("[expr] {} cannot stand for {}, which lies in {}..{} and is a multiple of {}",
                              to_string(replacement), s.name_view(), s.range.low, s.range.high, s.multiple));
  }
  Rebuilder rebuilder;
  rebuilder.leaf = [&](Expr symbol) {
    const auto found = replacements.find(symbol);
    return found == replacements.end() ? symbol : found->second;
  };
  return rebuilder.of(e);
}

Affine affine_terms(Expr e) {
  const Sum s = sum_of(e);
  Affine out;
  out.constant = s.constant;
  for (const Term& t : s.terms) out.terms.emplace_back(t.base, t.coefficient);
  return out;
}

std::optional<Expr> coefficient_of(Expr e, Expr symbol) {
  Expr total;
  for (const Term& t : sum_of(e).terms) {
    if (!depends_on(t.base, symbol)) continue;
    const auto cofactor = divide_bases(t.base, symbol);
    if (!cofactor || depends_on(*cofactor, symbol)) return std::nullopt;
    total += *cofactor * t.coefficient;
  }
  return total;
}

std::optional<std::pair<Expr, Expr>> divmod_split(Expr e, int64_t d) {
  if (d <= 0) throw Error(fmt::format("[expr] divmod_split: {} is not a positive divisor", d));
  Sum quotient, rest;
  const Sum all = sum_of(e);
  for (const Term& t : all.terms) {
    if (t.coefficient % d == 0 ? !add_term(quotient, t.base, t.coefficient / d)
                               : !add_term(rest, t.base, t.coefficient))
      return std::nullopt;
  }
  // The constant goes where it brings the rest into [0, d).
  rest.constant = floor_remainder(all.constant, d);
  quotient.constant = floor_quotient(all.constant, d);
  const Interval range = range_of(rest);
  if (!range.is_bounded()) return std::nullopt;
  const int64_t k = floor_quotient(range.low, d);
  int64_t shift = 0;
  if (floor_quotient(range.high, d) != k || __builtin_mul_overflow(k, d, &shift) ||
      __builtin_sub_overflow(rest.constant, shift, &rest.constant) ||
      __builtin_add_overflow(quotient.constant, k, &quotient.constant))
    return std::nullopt;
  return std::pair(build(quotient), build(rest));
}

} // namespace luminal
