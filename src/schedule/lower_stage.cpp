// schedule/lower_stage.cpp -- the loops of one stage: outer loops, full tiles and remainders, the
// three phases of a fold.
#include "base/check.h"
#include "base/contains.h"
#include "schedule/lowering.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

/// A loop of fewer trips (the last, static remainder) takes the place of a loop.
void shrink(StageNest& nest, std::vector<Guard>& within, size_t position, Expr extent) {
  StageLoop& loop = nest.loops[position];
  Expr symbol = extent.is_constant(1) ? Expr(0) : Expr::symbol(loop.name, {0, extent.value() - 1});
  ExprMap<Expr> map{{loop.symbol, symbol}};
  for (auto& [axis, value] : nest.axis_values) value = substitute(value, map);
  for (Guard& g : nest.guards) g.value = substitute(g.value, map);
  for (Guard& g : within) g.value = substitute(g.value, map);
  loop.symbol = symbol;
  loop.extent = extent;
}

} // namespace

StageLowering::StageLowering(Lowering& lowering, StageId stage)
    : l_(lowering), stage_(stage), s_(lowering.n_.cone.stages[stage]) {}

bool StageLowering::reduces(const StageLoop& loop) const {
  const StageNest& nest = l_.n_.stages[stage_];
  const StageLoop* own = nest.find(loop.name);
  if (!own) return false;
  return kernel::reduces(l_.n_.cone, s_, nest, *own);
}

void StageLowering::check_trips(const std::string& loop, Expr begin, Expr end) const {
  if (prove(lt(begin, end)) != Truth::yes)
    refuse("stage {}: loop {} may have no trip at all, and its result would never be written", s_.name, loop);
}

// ---- positions of loops that are not open ----

std::vector<const StageLoop*> StageLowering::unopened(const State& state, Expr e) const {
  std::vector<const StageLoop*> out;
  for (auto& l : state.nest.loops)
    if (l.symbol.is_symbol() && !state.opened.contains(l.symbol) && !l_.is_open(l.name) &&
        depends_on(e, l.symbol))
      out.push_back(&l);
  return out;
}

Expr StageLowering::at_first(const State& state, Expr e) const {
  ExprMap<Expr> map;
  for (auto* l : unopened(state, e)) map[l->symbol] = 0;
  return substitute(e, map);
}

std::optional<Expr> StageLowering::at_last(const State& state, Expr e) const {
  ExprMap<Expr> map;
  for (auto* l : unopened(state, e)) {
    auto c = coefficient_of(e, l->symbol);
    if (!c || !c->is_constant() || c->value() < 0) return {};
    map[l->symbol] =
        l->extent.is_constant(0) ? Expr(0) : l->extent - 1; // a loop that never runs may end anywhere
  }
  return substitute(e, map);
}

bool StageLowering::reduction_guard(const State& state, const Guard& guard) const {
  if (guard.reduction) return true;
  for (auto& l : state.nest.loops)
    if (l.symbol.is_symbol() && depends_on(guard.value, l.symbol) && folds_ && reduces(l)) return true;
  return false;
}

// ---- outer loops ----

void StageLowering::check_parallel(const StageLoop& loop) const {
  const StageNest& nest = l_.n_.stages[stage_];
  for (size_t i = 0; i < rest_.size() && nest.loops[rest_[i]].name != loop.name; i++) {
    const StageLoop& outside = nest.loops[rest_[i]];
    if (!outside.symbol.is_symbol()) continue;
    bool keeps_order = folds_ && reduces(outside);
    for (AxisId a : s_.ordered) keeps_order |= depends_on_loop(nest, l_.n_.cone.axes[a].symbol, outside);
    if (keeps_order)
      refuse("stage {}: parallel loop {} stands inside of {}, whose trips take turns at the same elements",
             s_.name, loop.name, outside.name);
  }
  for (auto& o : l_.open_)
    if (o.parallel && !o.name.empty() && o.level >= loop.level)
      refuse("parallel loops of one level stand inside each other: {} in {}", loop.name, o.name);
}

Body StageLowering::run() {
  // A scan over no elements has no results, and backwards no first element either.
  if (s_.scan_axis && l_.n_.cone.axes[s_.scan_axis].extent.is_constant(0)) return {};
  analyse();
  State state;
  state.nest = l_.n_.stages[stage_];
  state.within = state.nest.guards;
  for (auto& g : state.nest.guards) state.held.push_back(prove(lt(g.value, g.limit)) == Truth::yes);
  for (size_t g = 0; g < state.held.size();
       g++) { // serial loops that are open already end where the axis does
    const Guard& guard = state.nest.guards[g];
    if (!unopened(state, guard.value).empty()) continue;
    bool enforced = !reduction_guard(state, guard);
    for (auto& o : l_.open_)
      for (auto& e : o.enforced) enforced |= e.value == guard.value && e.limit == guard.limit;
    if (enforced) state.held[g] = true;
  }
  if (s_.scan_reverse && s_.scan_axis) {
    auto& axis = l_.n_.cone.axes[s_.scan_axis];
    state.nest.axis_values[axis.symbol] = axis.extent - 1 - state.nest.axis_values[axis.symbol];
  }
  // Loops that are open may run on where this stage has ended.
  Expr alive = 1;
  for (size_t g = 0; g < state.held.size(); g++) {
    const Guard& guard = state.nest.guards[g];
    if (state.held[g] && prove(lt(guard.value, guard.limit)) == Truth::yes) continue;
    bool open = false, enforced = false;
    for (auto& o : l_.open_) {
      open |= o.symbol.is_symbol() && depends_on(guard.value, o.symbol);
      for (auto& e : o.enforced) enforced |= e.value == guard.value && e.limit == guard.limit;
    }
    if (!open || enforced || reduction_guard(state, guard)) continue;
    alive = logical_and(alive, lt(at_first(state, guard.value), guard.limit));
  }
  Body body = hole_lets(state, exprs_of(true, true));
  append(body, outer(0, std::move(state)));
  if (!alive.is_constant(1)) body = {if_then(alive, std::move(body))};
  return body;
}

Body StageLowering::outer(size_t i, State state) {
  if (i == cut_) return tails(std::move(state), 0);
  StageLoop loop = state.nest.loops[rest_[i]];
  if (loop.kind == LoopKind::parallel && loop.symbol.is_symbol()) check_parallel(loop);
  if (!loop.symbol.is_symbol()) return outer(i + 1, std::move(state));
  auto bounds = l_.bounds(s_, state.nest, loop);
  if (l_.n_.stages[stage_].bounds.contains(loop.name))
    if (auto r = l_.domain_range(stage_, state.nest, loop, state.holes)) {
      bounds.begin = begin_within(max(bounds.begin, r->some_begin), loop.extent);
      bounds.end = min(bounds.end, r->some_end);
    }
  bool parallel = loop.kind == LoopKind::parallel;
  bool carry = folds_ && reduces(loop);
  if (carry) check_trips(loop.name, bounds.begin, bounds.end);
  state.opened.insert(loop.symbol);
  Expr odd = 1;                 // guards that the loop's bounds cannot express
  std::optional<size_t> splits; // a guard that whole tiles meet in all trips but the last ones
  Expr whole = bounds.end;
  bool regular = false;
  for (size_t g = 0; g < state.held.size(); g++) {
    const Guard& guard = state.nest.guards[g];
    if (state.held[g] || !depends_on(guard.value, loop.symbol)) continue;
    auto c = coefficient_of(guard.value, loop.symbol);
    bool linear = c && c->is_constant() && c->value() >= 1;
    if (unopened(state, guard.value).empty()) {
      if (!reduces(loop) && reduction_guard(state, guard)) continue; // its points are left out one by one
      if (loop.kind == LoopKind::unrolled || !linear) odd = logical_and(odd, lt(guard.value, guard.limit));
      state.held[g] = true;
      continue;
    }
    // All trips are written out, also those that begin beyond the end.
    if (loop.kind == LoopKind::unrolled && linear && (reduces(loop) || !reduction_guard(state, guard)))
      if (Expr some = lt(at_first(state, guard.value), guard.limit);
          prove(some, l_.open_facts(some)) != Truth::yes)
        odd = logical_and(odd, some);
    auto last = at_last(state, guard.value);
    if (loop.kind != LoopKind::serial || carry || i + 1 != cut_ || !linear || !last || splits ||
        reduction_guard(state, guard))
      continue;
    Expr rest = *last - loop.symbol * *c;
    whole = floordiv(guard.limit - rest - 1, *c) + 1;
    // A step is as long as what is inside: then the last whole trip is not before the first, nor
    // behind the end where this guard alone makes it.
    const Expr first = at_first(state, guard.value),
               own = ceildiv(guard.limit - first + loop.symbol * *c, *c);
    regular = prove(lt(*last - first, *c)) == Truth::yes && bounds.begin.is_constant(0) &&
              bounds.end == min(loop.extent, own);
    splits = g;
  }
  auto part = [&](State s, Expr begin, Expr end) -> Body {
    bool one = loop.kind == LoopKind::serial && (end - begin).is_constant(1);
    if (one) fix_loop(s, rest_[i], begin); // one trip, known where
    l_.open_.push_back({loop.name, one ? Expr(0) : loop.symbol, begin, end, loop.extent, parallel,
                        bounds.enforced, loop.level});
    if (carry) carried_.push_back({loop.symbol, {begin, end}});
    Body body = hole_lets(s, exprs_of(true, true));
    append(body, invariants(s, i + 1));
    if (!one) append(body, prefetches(s, loop));
    append(body, outer(i + 1, std::move(s)));
    if (carry) carried_.pop_back();
    l_.open_.pop_back();
    if (!odd.is_constant(1))
      body = {if_then(one ? substitute(odd, {{loop.symbol, begin}}) : odd, std::move(body))};
    if (one) return body;
    if (parallel) return {parallel_loop(loop.symbol, begin, end, std::move(body), loop.level)};
    if (loop.kind == LoopKind::unrolled)
      return {kernel::loop(LoopKind::unrolled, loop.symbol, 0, loop.extent, std::move(body))};
    if (loop.jam > 1) return {jammed_loop(loop.symbol, begin, end, loop.jam, std::move(body))};
    return {kernel::loop(LoopKind::serial, loop.symbol, begin, end, std::move(body))};
  };
  // Around what lies inside wherever the tile is, each trip by itself: its place is known.
  const auto parts = [&](const State& s, Expr begin, Expr end) -> Body {
    const auto r = l_.n_.predicate_splits.contains(loop.name)
                       ? l_.domain_range(stage_, s.nest, loop, s.holes, true)
                       : std::nullopt;
    if (!r || !begin.is_constant() || !end.is_constant()) return part(s, begin, end);
    const Expr all_begin = min(end, max(begin, r->all_begin)), all_end = max(all_begin, min(end, r->all_end));
    if (!all_begin.is_constant() || !all_end.is_constant()) return part(s, begin, end);
    Body out;
    for (int64_t at = begin.value(); at < all_begin.value(); at++) append(out, part(s, at, at + 1));
    const Assumed before = l_.assumed_;
    l_.assumed_.yes.insert(r->conditions.begin(), r->conditions.end());
    if (all_begin.value() < all_end.value()) append(out, part(s, all_begin, all_end));
    l_.assumed_ = before;
    for (int64_t at = all_end.value(); at < end.value(); at++) append(out, part(s, at, at + 1));
    return out;
  };
  if (!splits) return parts(state, bounds.begin, bounds.end);
  State full = state;
  full.held[*splits] = true;
  state.ended.insert(*splits);
  Expr middle = max(bounds.begin, min(whole, regular ? loop.extent : bounds.end));
  if (proves_equal(middle, bounds.end)) return parts(full, bounds.begin, bounds.end);
  Body out;
  if (prove(le(middle, bounds.begin)) != Truth::yes) append(out, parts(full, bounds.begin, middle));
  if (prove(le(bounds.end, middle), l_.open_facts(middle)) != Truth::yes)
    append(out, parts(state, middle, bounds.end));
  return out;
}

// ---- full tiles and remainders: full ones run without guards; what is left at the end of an axis
// gets a body of its own, smaller
// where the remainder is a static fact, guarded where it is not ----

/// Where a tile meets the end of an axis.
struct StageLowering::AxisEnd {
  Expr base, last, cover; // the tile's elements base .. last, how many
  Expr fits;              // holds where the tile is full
  Truth full;             // does it?
  int64_t rest = 0;       // elements of the remainder, where known
  bool whole = false;     // the tile lies within the axis or behind it
  Expr within = 1;        // holds where the tile begins within the axis, unless bounds of loops see to it
};

StageLowering::AxisEnd StageLowering::axis_end(const State& state, const Guard& guard, Expr last) const {
  AxisEnd end;
  end.base = at_first(state, guard.value);
  end.last = last;
  end.fits = lt(last, guard.limit);
  end.full = prove(end.fits, l_.open_facts(end.fits));
  end.cover = last - end.base + 1;
  if (end.cover.is_constant() && end.base.multiple() % end.cover.value() == 0) {
    end.whole = guard.limit.multiple() % end.cover.value() == 0;
    if (guard.limit.is_constant()) end.rest = guard.limit.value() % end.cover.value();
  }
  if (end.whole || end.rest > 0)
    for (const OpenLoop& o : l_.open_) {
      if (!o.symbol.is_symbol() || !depends_on(end.base, o.symbol)) continue;
      auto c = coefficient_of(end.base, o.symbol);
      if (!c || !c->is_constant() || c->value() < 1) end.within = lt(end.base, guard.limit);
    }
  if (prove(end.within, l_.open_facts(end.within)) == Truth::yes) end.within = 1;
  return end;
}

Body StageLowering::tails(State state, size_t g) {
  if (g == state.held.size()) return tile(state);
  const Guard guard = state.nest.guards[g];
  if (state.held[g] || reduction_guard(state, guard)) return tails(std::move(state), g + 1);
  const std::optional<Expr> last = at_last(state, guard.value);
  if (!last) return tails(std::move(state), g + 1); // guarded inside
  const AxisEnd end = axis_end(state, guard, *last);
  const auto where = [&](Body body) -> Body {
    if (end.within.is_constant(1)) return body;
    return {if_then(end.within, std::move(body))};
  };
  State full = state;
  full.held[g] = true;
  if (end.full == Truth::yes) return tails(std::move(full), g + 1);
  if (end.whole) return where(tails(std::move(full), g + 1));
  const Lanes lanes = l_.lanes_[stage_];
  if (const StageLoop* lane = lane_end(state, guard)) {
    if (lanes == Lanes::whole) {
      full.within[g] = {0, 1};
      return tails(std::move(full), g + 1);
    }
    note_lanes(state, g, lane->symbol);
  }
  const Body filled = lanes == Lanes::filled ? zeros(full) : Body();
  const auto rest_of = [&](State part) -> Body {
    Body body = filled;
    append(body, remainder(std::move(part), g, end));
    return where(std::move(body));
  };
  if (end.full == Truth::no || state.ended.contains(g)) return rest_of(std::move(state));
  Body full_body = tails(std::move(full), g + 1);
  return {if_then(end.fits, std::move(full_body), rest_of(std::move(state)))};
}

Body StageLowering::remainder(State part, size_t g, const AxisEnd& end) {
  const Guard guard = part.nest.guards[g];
  std::vector<size_t> written_out; // unrolled loops that reach the end of the axis
  for (size_t i = cut_; i < rest_.size(); i++) {
    const StageLoop& l = part.nest.loops[rest_[i]];
    if (l.kind == LoopKind::unrolled && l.symbol.is_symbol() && !part.opened.contains(l.symbol) &&
        depends_on(guard.value, l.symbol))
      written_out.push_back(rest_[i]);
  }
  bool shrunk = false;
  if (end.rest > 0) {
    part.nest.guards[g] = {guard.value - end.base, Expr(end.rest), guard.reduction};
    if (written_out.size() == 1) {
      const StageLoop& l = part.nest.loops[written_out[0]];
      int64_t c = coefficient_of(guard.value, l.symbol)->value();
      // The other loops of the guard (lanes) must lie within one step of this one.
      auto others = end.last - (l.extent - 1) * c - end.base;
      if (others.is_constant() && others.value() < c) {
        shrink(part.nest, part.within, written_out[0], Expr((end.rest + c - 1) / c));
        if (end.rest % c == 0) part.held[g] = true;
        shrunk = true;
      }
    }
    // Beside many whole tiles one body of each loop is enough: what it costs is seldom paid, and it
    // is quarter the code.
    constexpr int64_t many = 4;
    if (guard.limit.value() >= many * end.cover.value())
      for (StageLoop& l : part.nest.loops) l.jam = 1;
  }
  if (shrunk || written_out.size() != 1) return tails(std::move(part), g + 1);
  return step_by_step(std::move(part), g, written_out[0]);
}

/// A loop that is written out, of which nobody knows how much is left, runs step by step around a
/// tile of one step.
Body StageLowering::step_by_step(State part, size_t g, size_t position) {
  const StageLoop l = part.nest.loops[position];
  const Guard rule = part.nest.guards[g];
  auto c = coefficient_of(rule.value, l.symbol);
  if (!c || !c->is_constant() || c->value() < 1) return tails(std::move(part), g + 1);
  Expr end = min(l.extent, ceildiv(rule.limit - at_first(part, rule.value), *c));
  part.apart.insert(position);
  part.opened.insert(l.symbol);
  if (unopened(part, rule.value).empty()) part.held[g] = true;
  l_.open_.push_back({l.name, l.symbol, 0, end, l.extent, false, {}});
  Expr odd = 1; // of other splits of the axis: the loop ends where this one does
  for (size_t h = g + 1; h < part.held.size(); h++) {
    const Guard& other = part.nest.guards[h];
    if (part.held[h] || !depends_on(other.value, l.symbol) || reduction_guard(part, other)) continue;
    const Expr some = lt(at_first(part, other.value), other.limit);
    if (prove(some, l_.open_facts(some)) != Truth::yes) odd = logical_and(odd, some);
    if (unopened(part, other.value).empty()) part.held[h] = true;
  }
  Body body = hole_lets(part, exprs_of(true, true));
  append(body, invariants(part, cut_));
  append(body, tails(std::move(part), g + 1));
  l_.open_.pop_back();
  if (!odd.is_constant(1)) body = {if_then(odd, std::move(body))};
  return {kernel::loop(LoopKind::serial, l.symbol, 0, end, std::move(body))};
}

/// The loop has one trip, at `place`.
void StageLowering::fix_loop(State& state, size_t position, Expr place) const {
  StageLoop& loop = state.nest.loops[position];
  state.opened.erase(loop.symbol);
  ExprMap<Expr> map{{loop.symbol, place}};
  for (auto& [axis, value] : state.nest.axis_values) value = substitute(value, map);
  for (Guard& g : state.nest.guards) g.value = substitute(g.value, map);
  for (Guard& g : state.within) g.value = substitute(g.value, map);
  loop.symbol = 0;
}

Body StageLowering::tile(const State& state) {
  if (!folds_) return reduction(state);
  Body body = start(state);
  append(body, reduction(state));
  append(body, finish(state));
  return body;
}

Body StageLowering::hole_lets(State& state, const std::vector<Expr>& exprs) {
  Body out;
  for (HoleId h : holes_of(l_.n_.cone, exprs)) {
    if (state.holes.contains(h)) continue;
    const ConeHole& hole = l_.n_.cone.holes[h];
    auto indices = index_exprs(hole.value);
    bool ready = true;
    for (Expr e : indices) {
      for (HoleId inner : holes_of(l_.n_.cone, std::span(&e, 1))) ready &= state.holes.contains(inner);
      ready &= unopened(state, value_at(state, e)).empty();
    }
    if (!ready) continue;
    state.holes.insert(h);
    // What an index is found from may be read by other indices and by the body: it gets a name for
    // all of them.
    Values values{&out, &state, state.made, {}, {}};
    for (auto& other : l_.n_.cone.holes) count_uses(values, other.value);
    for (auto& c : s_.components) count_uses(values, c.body);
    ValueRef value = value_of(values, hole.value);
    out.push_back(let_index(hole.symbol, value));
    if (std::ranges::any_of(s_.components, [](auto& c) { return c.kind == ComponentKind::update; })) continue;
    for (auto& [formula, made] : values.made)
      if (made->is<Let>()) state.made.try_emplace(formula, made);
  }
  return out;
}

} // namespace luminal::kernel
