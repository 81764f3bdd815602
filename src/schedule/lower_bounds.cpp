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

} // namespace

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

std::optional<Lowering::Interval2> Lowering::domain_range(StageId stage, const StageNest& nest,
                                                          const StageLoop& loop, bool kept) const {
  if (!loop.symbol.is_symbol()) return {};
  Interval2 r{0, loop.extent, 0, loop.extent, {}};
  bool any = false;
  const Stage& s = n_.cone.stages[stage];
  auto conditions = conjuncts(s.needed);
  bool folds = std::ranges::any_of(s.components, [](auto& c) { return c.kind == ComponentKind::fold; });
  if (!folds || kept || reduces(n_.cone, s, nest, loop))
    for (Expr e : conjuncts(s.domain)) conditions.push_back(e);
  for (Expr original : conditions) {
    if (original.kind() != ExprKind::lt || assumed(original)) continue;
    Expr gap = substitute(original.args()[1], nest.axis_values) -
               substitute(original.args()[0], nest.axis_values); // > 0 holds
    if (!depends_on(gap, loop.symbol)) continue;
    auto c = coefficient_of(gap, loop.symbol);
    if (!c || !c->is_constant() || c->is_constant(0)) continue;
    ExprMap<Expr> most, least;
    bool linear = true;
    for (auto& l : nest.loops) {
      if (!l.symbol.is_symbol() || is_open(l.name) || l.name == loop.name || !depends_on(gap, l.symbol))
        continue;
      auto k = coefficient_of(gap, l.symbol);
      linear &= k && k->is_constant();
      if (!linear) break;
      bool rises = k->value() > 0;
      const Expr last =
          l.extent.is_constant(0) ? Expr(0) : l.extent - 1; // a loop that never runs may begin anywhere
      most[l.symbol] = rises ? last : Expr(0);
      least[l.symbol] = rises ? Expr(0) : last;
    }
    if (!linear) continue;
    any = true;
    r.conditions.push_back(original);
    Expr some = substitute(gap, most) - loop.symbol * *c, all = substitute(gap, least) - loop.symbol * *c;
    if (c->value() < 0) { // ends along the loop: loop < ceildiv(rest, -c)
      int64_t k = -c->value();
      r.some_end = min(r.some_end, ceildiv(some, k));
      r.all_end = min(r.all_end, ceildiv(all, k));
    } else { // begins along the loop: loop > -rest / c
      r.some_begin = max(r.some_begin, floordiv(-some, c->value()) + 1);
      r.all_begin = max(r.all_begin, floordiv(-all, c->value()) + 1);
    }
  }
  if (!any) return {};
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
    results &= !domain_range(s, n_.stages[s], *l) && domain_range(s, n_.stages[s], *l, true);
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
  open_.pop_back();
  return out;
}

} // namespace luminal::kernel
