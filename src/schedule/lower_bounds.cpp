// schedule/lower_bounds.cpp -- between which bounds a loop runs: its guards, the points of a stage's
// domain, and the part of it where the domain is whole.
#include "schedule/lowering.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

std::vector<Expr> conjuncts(Expr condition) {
  if (condition.is_constant(1)) return {};
  if (condition.kind() == ExprKind::logical_and) return {condition.args().begin(), condition.args().end()};
  return {condition};
}

DomainRange intersection(DomainRange a, const DomainRange& b) {
  a.some_begin = max(a.some_begin, b.some_begin), a.some_end = min(a.some_end, b.some_end);
  a.all_begin = max(a.all_begin, b.all_begin), a.all_end = min(a.all_end, b.all_end);
  return a;
}

/// Of one or the other: what lies between them may hold, too. All of what both hold in whole where
/// they begin or end together, else what the first one does.
DomainRange hull(DomainRange a, const DomainRange& b) {
  a.some_begin = min(a.some_begin, b.some_begin), a.some_end = max(a.some_end, b.some_end);
  if (proves_equal(a.all_begin, b.all_begin))
    a.all_end = max(a.all_end, b.all_end);
  else if (proves_equal(a.all_end, b.all_end))
    a.all_begin = min(a.all_begin, b.all_begin);
  return a;
}

} // namespace

bool ends_along(Expr condition, Expr axis) {
  const auto linear = [&](Expr e) {
    if (e.kind() != ExprKind::lt) return false;
    const auto c = coefficient_of(e.args()[1] - e.args()[0], axis);
    return c && c->is_constant() && !c->is_constant(0);
  };
  return std::ranges::any_of(conjuncts(condition), [&](Expr e) {
    return e.kind() == ExprKind::logical_or
               ? std::ranges::all_of(e.args(), [&](Expr part) { return ends_along(part, axis); })
               : linear(e);
  });
}

Lowering::Bounds Lowering::bounds(const Stage& stage, const StageNest& nest, const StageLoop& loop) const {
  Bounds b{0, loop.extent, {}};
  if (!loop.symbol.is_symbol()) return b;
  for (auto& g : nest.guards) {
    if (!depends_on(g.value, loop.symbol)) continue;
    // What a fold keeps is written even where nothing is left to reduce.
    if (!reduces(n_.cone, stage, nest, loop)) {
      bool reduction = g.reduction;
      for (auto& l : nest.loops)
        if (l.symbol.is_symbol() && depends_on(g.value, l.symbol))
          reduction |= reduces(n_.cone, stage, nest, l);
      if (reduction) continue;
    }
    ExprMap<Expr> zero;
    for (auto& l : nest.loops)
      if (l.symbol.is_symbol() && !is_open(l.name) && l.name != loop.name) zero[l.symbol] = 0;
    Expr value = substitute(g.value, zero);
    auto c = coefficient_of(value, loop.symbol);
    if (!c || !c->is_constant() || c->value() < 1) continue; // the inner loops' guards see to it
    Expr rest = value - loop.symbol * *c;
    Expr end = ceildiv(g.limit - rest, *c);
    if (prove(ge(end, b.end)) != Truth::yes) b.end = min(b.end, end);
    b.enforced.push_back(g);
  }
  return b;
}

std::optional<DomainRange> Lowering::range_along(Expr condition, const StageNest& nest, const StageLoop& loop,
                                                 const std::set<HoleId>& known) const {
  DomainRange r{0, loop.extent, 0, loop.extent, {}};
  if (condition.kind() == ExprKind::logical_or) {
    std::optional<DomainRange> either;
    for (Expr part : condition.args()) {
      const auto range = range_along(part, nest, loop, known);
      if (!range) return {};
      either = either ? hull(*either, *range) : *range;
    }
    return either;
  }
  if (condition.kind() == ExprKind::logical_and) {
    std::optional<DomainRange> both;
    bool every = true;
    for (Expr part : condition.args()) {
      const auto range = range_along(part, nest, loop, known);
      every &= range.has_value();
      if (range) both = both ? intersection(*both, *range) : *range;
    }
    if (both && !every) both->all_begin = both->all_end = 0; // the rest holds where it does
    return both;
  }
  if (condition.kind() != ExprKind::lt) return {};
  for (const HoleId h : holes_of(n_.cone, std::span(&condition, 1)))
    if (!known.contains(h)) return {};
  const Expr gap = substitute(condition.args()[1], nest.axis_values) -
                   substitute(condition.args()[0], nest.axis_values); // > 0 holds
  if (!depends_on(gap, loop.symbol)) return {};
  const auto c = coefficient_of(gap, loop.symbol);
  if (!c || !c->is_constant() || c->is_constant(0)) return {};
  ExprMap<Expr> most, least;
  for (auto& l : nest.loops) {
    if (!l.symbol.is_symbol() || is_open(l.name) || l.name == loop.name || !depends_on(gap, l.symbol))
      continue;
    const auto k = coefficient_of(gap, l.symbol);
    if (!k || !k->is_constant()) return {};
    const bool rises = k->value() > 0;
    const Expr last =
        l.extent.is_constant(0) ? Expr(0) : l.extent - 1; // a loop that never runs may begin anywhere
    most[l.symbol] = rises ? last : Expr(0);
    least[l.symbol] = rises ? Expr(0) : last;
  }
  const Expr some = substitute(gap, most) - loop.symbol * *c, all = substitute(gap, least) - loop.symbol * *c;
  if (c->value() < 0) { // ends along the loop: loop < ceildiv(rest, -c)
    const int64_t k = -c->value();
    r.some_end = min(r.some_end, ceildiv(some, k));
    r.all_end = min(r.all_end, ceildiv(all, k));
  } else { // begins along the loop: loop > -rest / c
    r.some_begin = max(r.some_begin, floordiv(-some, c->value()) + 1);
    r.all_begin = max(r.all_begin, floordiv(-all, c->value()) + 1);
  }
  return r;
}

std::optional<DomainRange> Lowering::domain_range(StageId stage, const StageNest& nest, const StageLoop& loop,
                                                  const std::set<HoleId>& known, bool kept) const {
  if (!loop.symbol.is_symbol()) return {};
  std::optional<DomainRange> r;
  const Stage& s = n_.cone.stages[stage];
  auto conditions = conjuncts(s.needed);
  bool folds = std::ranges::any_of(s.components, [](auto& c) { return c.kind == ComponentKind::fold; });
  if (!folds || kept || reduces(n_.cone, s, nest, loop))
    for (Expr e : conjuncts(s.domain)) conditions.push_back(e);
  for (Expr condition : conditions) {
    if (assumed(condition)) continue;
    const auto range = range_along(condition, nest, loop, known);
    if (!range) continue;
    r = r ? intersection(*r, *range) : *range;
    r->conditions.push_back(condition);
  }
  return r;
}

bool Lowering::splits_level(const std::string& loop) const {
  size_t holders = 0;
  bool results = true;
  for (const StageId s : n_.stages.ids()) {
    const StageLoop* l = n_.stages[s].find(loop);
    if (!l) continue;
    if (n_.stages[s].bounds.contains(loop)) return false;
    holders++;
    results &= !domain_range(s, n_.stages[s], *l, {}) && domain_range(s, n_.stages[s], *l, {}, true);
  }
  return holders != 1 || !results;
}

namespace {
/// Conditions that code asks point by point.
int conditions(const Value& v) {
  const auto* load = v.as<Load>();
  int n = v.is<Index>() || (load && !load->guard.is_constant(1));
  for (auto& a : args_of(v)) n += conditions(*a);
  return n;
}
int conditions(const Body& body) {
  int n = 0;
  for (auto& s : body) {
    n += s->is<If>();
    if (const Value* value = value_of(*s)) n += conditions(*value);
    for (const Body* inside : bodies_of(*s)) n += conditions(*inside);
  }
  return n;
}
} // namespace

/// The statements of a loop that is whole from all_begin to all_end: those for which that makes a
/// difference stand there twice, under a condition.
Body Lowering::emit_parts(const TreeNode& node, const OpenLoop& loop, Expr all_begin, Expr all_end,
                          const std::function<void(std::function<void()>)>& whole_part, Touched& touched) {
  open_.push_back(loop);
  place_values(node);
  Body out, full, partial;
  const Expr is_full = logical_and(le(all_begin, loop.symbol), lt(loop.symbol, all_end));
  auto close = [&] {
    if (!full.empty() || !partial.empty()) out.push_back(if_then(is_full, full, partial));
    full.clear(), partial.clear();
  };
  for (auto& kid : node.kids) {
    const int lets = kernel_.lets;
    Body here;
    whole_part([&] {
      open_.back().begin = all_begin, open_.back().end = all_end;
      here = emit_node(*kid, true, touched);
      open_.back().begin = loop.begin, open_.back().end = loop.end;
    });
    const bool names = kernel_.lets != lets;
    Body any = emit_node(*kid, true, touched);
    if (conditions(any) == conditions(here)) {
      close();
      if (names) { // once more, from the same numbers on
        kernel_.lets = lets;
        any = emit_node(*kid, true, touched);
      }
      out.insert(out.end(), any.begin(), any.end());
      continue;
    }
    full.insert(full.end(), here.begin(), here.end());
    partial.insert(partial.end(), any.begin(), any.end());
  }
  close();
  out = under_mask(node, std::move(out), touched);
  open_.pop_back();
  return out;
}

} // namespace luminal::kernel
