// schedule/lower_tile.cpp -- the loops of a tile, and the three phases of a fold: start, reduction,
// finish.
#include "base/check.h"
#include "cone/formula.h"
#include "cone/result_conditions.h"
#include "ir/identity.h"
#include "schedule/lowering.h"
#include <algorithm>
#include <set>
#include <utility>

namespace luminal::kernel {
// ---- loops of the tile ----

Body StageLowering::inside(size_t i, State& state, const Want& want, const std::vector<Expr>& exprs,
                           const Inner& inner) {
  Body body = hole_lets(state, exprs);
  if (body_phase_) append(body, invariants(state, i + 1));
  append(body, nest_of(i + 1, state, want, exprs, inner));
  return body;
}

Body StageLowering::invariants(State& state, size_t i) {
  // Nothing to gain where no loop is left to open.
  bool left = false;
  for (; i < rest_.size(); i++) {
    const StageLoop& l = state.nest.loops[rest_[i]];
    if (!l.symbol.is_symbol() || state.opened.contains(l.symbol)) continue;
    left = true;
    // An axis of one element or none: nothing that is read shows that it needs the axis, and
    // without an element it may not be read.
    if (l.extent.range().high <= 1 && prove(ge(l.extent, 1)) != Truth::yes) return {};
  }
  if (!left || prove(condition_at(state, s_.domain)) != Truth::yes) return {};
  Body out;
  // Does a place lie behind the end of an axis where this trip does? Conditions at the points see to that.
  const auto guarded = [&](Expr at) {
    for (size_t g = 0; g < state.held.size(); g++)
      if (const Expr value = state.nest.guards[g].value; !state.held[g] && unopened(state, value).empty())
        for (const Expr symbol : symbols_of(value))
          if (depends_on(at, symbol)) return true;
    return false;
  };
  std::map<const Formula*, bool> fixed; // no loop to be opened changes it
  std::function<bool(const FormulaRef&)> is_fixed = [&](const FormulaRef& f) {
    auto found = fixed.find(f.get());
    if (found != fixed.end()) return found->second;
    bool ok = !f->is<FormulaComponent>() && std::ranges::all_of(args_of(*f), is_fixed);
    const std::span<const Expr> at_index = index_of(*f);
    std::vector<Expr> read(at_index.begin(), at_index.end());
    read.push_back(guard_of(*f)); // whether a load reads at all may change where its index does not
    for (Expr e : read) {
      const Expr at = value_at(state, e);
      ok = ok && unopened(state, at).empty() && !guarded(at);
    }
    for (HoleId h : holes_of(l_.n_.cone, read)) ok = ok && state.holes.contains(h);
    return fixed[f.get()] = ok;
  };
  std::set<const Formula*> seen; // formulas share parts: each is walked once
  std::function<void(const FormulaRef&)> walk = [&](const FormulaRef& f) {
    const std::span<const FormulaRef> args = args_of(*f);
    if (args.empty() || state.made.contains(f.get()) || !seen.insert(f.get()).second) return;
    const auto* choice = applies(*f, Op::select) ? args[0]->as<FormulaIndex>() : nullptr;
    if (choice && prove(condition_at(state, choice->value)) == Truth::yes)
      return walk(args[1]); // what is not chosen is not written
    bool of_constants = std::ranges::all_of(
        args, [](auto& a) { return a->template is<FormulaConstant>() || a->template is<FormulaIndex>(); });
    if (!is_fixed(f) || of_constants) {
      for (auto& a : args) walk(a);
      return;
    }
    Values values{&out, &state, state.made, {}, {}};
    count_uses(values, f);
    ValueRef v = named(values, value_of(values, f));
    state.made[f.get()] = v;
  };
  for (auto& c : s_.components)
    if (!c.after) walk(c.body);
  return out;
}

namespace {
/// Trips of a loop at an end of its domain.
constexpr int64_t most_written_out = 16;
} // namespace

Body StageLowering::nest_of(size_t i, State state, const Want& want, const std::vector<Expr>& exprs,
                            const Inner& inner) {
  if (i == rest_.size()) return inner(state);
  const StageLoop loop = state.nest.loops[rest_[i]];
  if (!want(loop) || !loop.symbol.is_symbol() || state.opened.contains(loop.symbol))
    return nest_of(i + 1, std::move(state), want, exprs, inner);
  const Inner body = [&](State& in) { return inside(i, in, want, exprs, inner); };
  if (loop.kind == LoopKind::vector) return vector_loop(loop, std::move(state), body);
  if (loop.kind == LoopKind::unrolled) return unrolled_loop(loop, std::move(state), body);
  return serial_loop(loop, rest_[i], state, body);
}

Body StageLowering::vector_loop(const StageLoop& loop, State state, const Inner& inside) {
  Expr active = loop.extent;
  for (size_t g = 0; g < state.held.size(); g++) {
    const Guard& guard = state.nest.guards[g];
    if (state.held[g] || !depends_on(guard.value, loop.symbol)) continue;
    auto c = coefficient_of(guard.value, loop.symbol);
    Expr rest = substitute(guard.value, {{loop.symbol, 0}});
    if (!c || !c->is_constant() || c->value() < 1 || !unopened(state, rest).empty())
      refuse("stage {}: the end of an axis lies inside the vector loop {}, but not along it", s_.name,
             loop.name);
    Expr left = guard.limit - rest;
    state.held[g] = true;
    // Whole vectors or none: the loops around this one end there.
    if (left.multiple() % (c->value() * loop.extent.value()) == 0) continue;
    active = min(active, ceildiv(left, *c));
  }
  state.opened.insert(loop.symbol);
  state.lane = loop.symbol;
  Body body = inside(state);
  if (active == loop.extent)
    return {kernel::loop(LoopKind::vector, loop.symbol, 0, loop.extent, std::move(body))};
  return {masked_loop(loop.symbol, 0, loop.extent, active, std::move(body))};
}

Body StageLowering::unrolled_loop(const StageLoop& loop, State state, const Inner& inside) {
  state.opened.insert(loop.symbol);
  Expr alive = 1;
  for (size_t g = 0; g < state.held.size(); g++) {
    const Guard& guard = state.nest.guards[g];
    if (state.held[g] || !depends_on(guard.value, loop.symbol)) continue;
    Expr some = lt(at_first(state, guard.value), guard.limit);
    if (prove(some) != Truth::yes) alive = logical_and(alive, some);
    if (unopened(state, guard.value).empty()) state.held[g] = true;
  }
  Body body = inside(state);
  if (!alive.is_constant(1)) body = {if_then(alive, std::move(body))};
  return {kernel::loop(LoopKind::unrolled, loop.symbol, 0, loop.extent, std::move(body))};
}

/// Where the trips of a serial loop begin and end.
struct StageLowering::TripEnds {
  State full, rest;                  // guards held in whole steps, and in those that are left
  Expr begin = 0, end;               // trips
  Expr whole;                        // where whole steps end
  bool left_over = false;            // steps that are not whole
  Expr odd = 1;                      // holds at trips that count
  std::optional<DomainRange> ragged; // ends of the domain stand apart from what is inside of it
};

StageLowering::TripEnds StageLowering::trip_ends(const StageLoop& loop, const State& state) const {
  TripEnds t;
  t.end = t.whole = loop.extent;
  t.rest = state;
  t.rest.opened.insert(loop.symbol);
  t.full = t.rest;
  for (size_t g = 0; g < state.held.size(); g++) {
    const Guard& guard = state.nest.guards[g];
    if (state.held[g] || !depends_on(guard.value, loop.symbol)) continue;
    auto c = coefficient_of(guard.value, loop.symbol);
    if (!c || !c->is_constant() || c->value() < 1) {
      if (!unopened(t.rest, guard.value).empty())
        refuse("stage {}: loop {} was merged and its end is not regular", s_.name, loop.name);
      t.odd = logical_and(t.odd, lt(guard.value, guard.limit));
      t.rest.held[g] = t.full.held[g] = true;
      continue;
    }
    Expr first = at_first(t.rest, guard.value) - loop.symbol * *c;
    t.end = min(t.end, ceildiv(guard.limit - first, *c));
    if (unopened(t.rest, guard.value).empty()) {
      t.rest.held[g] = t.full.held[g] = true;
      t.whole = min(t.whole, ceildiv(guard.limit - first, *c));
      continue;
    }
    auto last = at_last(t.rest, guard.value);
    if (!last)
      refuse("stage {}: the loops inside {} were merged and its end is not regular", s_.name, loop.name);
    Expr final = *last - loop.symbol * *c;
    // The last trip that fits: c * trip + final < limit.
    Expr fit = floordiv(guard.limit - final - 1, *c) + 1;
    if (proves_equal(fit, ceildiv(guard.limit - first, *c)))
      t.rest.held[g] = true;
    else
      t.left_over = true;
    t.whole = min(t.whole, fit);
    t.full.held[g] = true;
  }
  return t;
}

/// Those of a loop that its domain bounds (predicate_bound); what holds in all trips is assumed from here on.
void StageLowering::bound_trips(const StageLoop& loop, const State& state, TripEnds& t) const {
  const auto r = l_.domain_range(stage_, state.nest, loop, state.holes);
  if (!r) return;
  t.begin = begin_within(max(t.begin, r->some_begin), loop.extent);
  t.end = min(t.end, r->some_end);
  t.whole = min(t.whole, t.end);
  // All of the tile is inside wherever some of it is.
  if (proves_equal(r->some_begin, r->all_begin) && proves_equal(r->some_end, r->all_end))
    l_.assumed_.yes.insert(r->conditions.begin(), r->conditions.end());
  else if (!t.left_over && l_.n_.predicate_splits.contains(loop.name))
    t.ragged = r;
}

/// The trips from one to another; `position`: of the loop in the nest.
Body StageLowering::trips(const StageLoop& loop, size_t position, State state, Expr from, Expr to, Expr odd,
                          const Inner& inside) {
  if ((to - from).is_constant(1)) { // one trip, known where
    fix_loop(state, position, from);
    l_.open_.push_back({loop.name, 0, 0, 1, 1, false, {}});
    Body body = inside(state);
    l_.open_.pop_back();
    Expr alive = substitute(odd, {{loop.symbol, from}});
    return alive.is_constant(1) ? body : Body{if_then(alive, std::move(body))};
  }
  const auto several = [&](const State& at, Expr first, Expr last) -> Body {
    State in = at;
    l_.open_.push_back({loop.name, loop.symbol, first, last, loop.extent, false, {}});
    Body body = prefetches(in, loop);
    append(body, inside(in));
    l_.open_.pop_back();
    if (!odd.is_constant(1)) body = {if_then(odd, std::move(body))};
    if (loop.jam > 1) return {jammed_loop(loop.symbol, first, last, loop.jam, std::move(body))};
    return {kernel::loop(LoopKind::serial, loop.symbol, first, last, std::move(body))};
  };
  return loop.block > 0 ? in_blocks(state, loop, from, to, several) : several(state, from, to);
}

/// A serial reduction loop: whole steps without guards, then what is left.
Body StageLowering::serial_loop(const StageLoop& loop, size_t position, const State& state,
                                const Inner& inside) {
  TripEnds t = trip_ends(loop, state);
  const Assumed before = l_.assumed_;
  const bool bounded = l_.n_.stages[stage_].bounds.contains(loop.name);
  if (bounded) bound_trips(loop, state, t);
  const auto part = [&](const State& s, Expr from, Expr to) {
    return trips(loop, position, s, from, to, t.odd, inside);
  };
  // Few trips of a known number are written out, so that each knows which points are inside.
  const auto ends = [&](Expr from, Expr to) -> Body {
    if (proves_equal(from, to)) return {};
    const Expr count = to - from;
    if (!count.is_constant() || count.value() > most_written_out) return part(t.full, from, to);
    Body body;
    for (int64_t k = 0; k < count.value(); k++) append(body, part(t.full, from + k, from + k + 1));
    return body;
  };
  Body out;
  if (t.ragged) {
    const Expr all_begin = min(t.end, max(t.begin, t.ragged->all_begin)),
               all_end = max(all_begin, min(t.end, t.ragged->all_end));
    append(out, ends(t.begin, all_begin));
    l_.assumed_.yes.insert(t.ragged->conditions.begin(), t.ragged->conditions.end());
    append(out, part(t.full, all_begin, all_end));
    l_.assumed_ = before;
    append(out, ends(all_end, t.end));
  } else if (!t.left_over) {
    append(out, part(t.full, t.begin, t.end));
  } else {
    Expr middle = max(t.begin, t.whole);
    if (prove(le(middle, t.begin)) != Truth::yes) append(out, part(t.full, t.begin, middle));
    if (prove(le(t.end, middle)) != Truth::yes) append(out, part(t.rest, middle, t.end));
  }
  l_.assumed_ = before;
  const Expr read = bounded ? some_result_is_read(state) : Expr(1);
  if (!read.is_constant(1)) out = {if_then(read, std::move(out))};
  return out;
}

/// Do the maps on finished folds read one of the results that the loops which are not open yet make?
Expr StageLowering::some_result_is_read(const State& state) const {
  Expr all = 1;
  for (const Expr condition : result_conditions(s_)) {
    if (const Expr sides[] = {condition}; !holes_of(l_.n_.cone, sides).empty()) continue;
    const Expr gap = substitute(condition.args()[1], state.nest.axis_values) -
                     substitute(condition.args()[0], state.nest.axis_values);
    ExprMap<Expr> most;
    bool linear = true;
    for (const StageLoop* l : unopened(state, gap)) {
      const auto c = coefficient_of(gap, l->symbol);
      linear = linear && c && c->is_constant();
      if (linear) most[l->symbol] = c->value() > 0 ? max(l->extent - 1, 0) : Expr(0);
    }
    if (!linear) continue;
    const Expr some = lt(0, substitute(gap, most));
    if (prove(some) != Truth::yes) all = logical_and(all, some);
  }
  return all;
}

// ---- the three phases of a fold ----

/// Accumulators that are combined at the end, or begin anew, start from the identity: all places, those
/// of remainders too, as the loops have their full extent.
Body StageLowering::identities(const State& state) {
  State all = state;
  const StageNest& whole = l_.n_.stages[stage_];
  // (Loops that are open already have one place here.)
  for (size_t i = 0; i < whole.loops.size(); i++)
    if (!state.opened.contains(state.nest.loops[i].symbol)) all.nest.loops[i] = whole.loops[i];
  all.held.assign(all.nest.guards.size(), true);
  return each_accumulator(all, [&](size_t c, Expr at) {
    const Component& part = s_.components[c];
    ValueRef v = is_float(part.dtype) ? constant(part.dtype, identity_f64(part.op, part.dtype))
                                      : index(Expr(identity_i64(part.op, part.dtype)), part.dtype);
    return store(registers_[c], at, v);
  });
}

Body StageLowering::each_accumulator(const State& state,
                                     const std::function<StmtRef(size_t component, Expr at)>& make) {
  return nest_of(
      cut_, state,
      [&](const StageLoop& l) {
        return l.kind != LoopKind::serial && l.kind != LoopKind::parallel && indexes_accumulator(l);
      },
      {},
      [&](State& in) {
        Body b;
        for (size_t c = 0; c < s_.components.size(); c++)
          if (registers_[c]) b.push_back(make(c, accumulator_offset(in)));
        return b;
      });
}

Body StageLowering::start(const State& state) {
  bool combined = partial_ || (across_ && !s_.scan_axis) || (anew_ && !carried_.empty());
  bool init = std::ranges::any_of(s_.components, [](auto& c) { return c.init != nullptr; });
  if (combined || (!init && carried_.empty())) return identities(state);
  State kept = state;
  for (size_t g = 0; g < kept.held.size(); g++)
    if (reduction_guard(kept, kept.nest.guards[g])) kept.held[g] = true;
  auto fill = [&](bool reload) {
    return nest_of(
        cut_, kept,
        [&](const StageLoop& l) {
          return (l.kind == LoopKind::unrolled || l.kind == LoopKind::vector) && !reduces(l);
        },
        exprs_of(true, false),
        [&](State& in) {
          Body b;
          Values values{&b, &in, {}, {}, {}};
          for (auto& c : s_.components)
            if (c.init) count_uses(values, c.init);
          for (size_t c = 0; c < s_.components.size(); c++) {
            if (!registers_[c]) continue;
            const Component& part = s_.components[c];
            ValueRef v;
            if (part.init && !reload)
              v = value_of(values, part.init);
            else if (reload)
              v = load(l_.kernel_, l_.places_[part.out].buffer, offset_of(in, part.out, part.index));
            else
              v = is_float(part.dtype) ? constant(part.dtype, identity_f64(part.op, part.dtype))
                                       : index(Expr(identity_i64(part.op, part.dtype)), part.dtype);
            b.push_back(store(registers_[c], accumulator_offset(in), v));
          }
          return b;
        });
  };
  if (carried_.empty()) return fill(false);
  for (auto& c : s_.components)
    if (c.kind == ComponentKind::fold && !c.out)
      refuse("stage {}: a component has no storage to go on from one trip of {} to the next", s_.name,
             luminal::to_string(carried_[0].first));
  Expr first = 1;
  for (auto& [symbol, range] : carried_) first = logical_and(first, eq(symbol, range.first));
  return {if_then(first, init ? fill(false) : identities(state), fill(true))};
}

/// Each block sums in accumulators of its own; what they hold is added behind it.
Body StageLowering::in_blocks(const State& state, const StageLoop& loop, Expr from, Expr to,
                              const std::function<Body(const State&, Expr, Expr)>& trips) {
  State kept = state; // lanes beyond the end of an axis are left out, as where the results are written
  for (size_t g = 0; g < kept.held.size(); g++)
    if (reduction_guard(kept, kept.nest.guards[g])) kept.held[g] = true;
  const auto block = [&](Expr first, Expr last) {
    const bool phase = std::exchange(body_phase_, false);
    std::swap(registers_, of_block_);
    Body body = identities(state);
    body_phase_ = phase;
    append(body, trips(state, first, last));
    body_phase_ = false;
    std::swap(registers_, of_block_);
    append(body, each_accumulator(kept, [&](size_t c, Expr at) {
             return store(registers_[c], at,
                          apply(s_.components[c].op,
                                {load(l_.kernel_, registers_[c], at), load(l_.kernel_, of_block_[c], at)}));
           }));
    body_phase_ = phase;
    return body;
  };
  // The loop over the blocks ends with the last whole one.
  const Expr whole = max(0, floordiv(to - from, loop.block));
  Body out;
  if (!whole.is_constant(0)) {
    const int64_t most = whole.range().high;
    const Expr symbol =
        Expr::symbol(loop.block_loop, {0, most == unbounded_high ? most : std::max<int64_t>(most - 1, 0)});
    const Expr first = from + symbol * loop.block;
    l_.open_.push_back({loop.block_loop, symbol, 0, whole, whole, false, {}});
    // Where the loop begins somewhere, that its blocks end within it shows by its end alone.
    Body body = block(first, from.is_constant() ? first + loop.block : min(first + loop.block, to));
    l_.open_.pop_back();
    out.push_back(kernel::loop(LoopKind::serial, symbol, 0, whole, std::move(body)));
  }
  const Expr rest = from + whole * loop.block;
  if (prove(le(to, rest)) != Truth::yes) append(out, block(rest, to));
  return out;
}

Body StageLowering::reduction(const State& state) {
  body_phase_ = true;
  Body body = nest_of(
      cut_, state, [](const StageLoop&) { return true; }, exprs_of(true, bool(s_.scan_axis)),
      [&](State& in) { return point(in); });
  body_phase_ = false;
  return body;
}

Body StageLowering::finish(const State& state) {
  if (s_.scan_axis) return {}; // each step wrote its results
  State s = state;
  for (size_t g = 0; g < s.held.size(); g++)
    if (reduction_guard(s, s.nest.guards[g])) s.held[g] = true;
  return nest_of(
      cut_, s,
      [&](const StageLoop& l) {
        return l.kind == LoopKind::vector || (l.kind == LoopKind::unrolled && !reduces(l));
      },
      exprs_of(false, true), [&](State& in) { return results(in); });
}

} // namespace luminal::kernel
