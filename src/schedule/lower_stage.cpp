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

void StageLowering::analyse() {
  const StageNest& nest = l_.n_.stages[stage_];
  int folds = 0;
  std::optional<std::vector<AxisId>> axes;
  for (auto& c : s_.components) {
    if (c.kind != ComponentKind::fold && c.kind != ComponentKind::scan) continue;
    folds++;
    if (axes && *axes != c.axes && !s_.scan_axis)
      refuse("stage {}: its components run over different axes; `cascade {} LOOP` makes a stage of each",
             s_.name, s_.name);
    axes = c.axes;
  }
  folds_ = folds > 0;
  for (size_t i = 0; i < nest.loops.size(); i++) {
    const StageLoop& l = nest.loops[i];
    if (!l_.is_open(l.name)) {
      rest_.push_back(i);
      if (l.kind == LoopKind::parallel && l.symbol.is_symbol() && reduces(l))
        refuse("stage {}: loop {} is part of the reduction and cannot be parallel (split_reduction makes "
               "independent parts)",
               s_.name, l.name);
    }
  }
  for (size_t i = 0; i < rest_.size(); i++) {
    const StageLoop& l = nest.loops[rest_[i]];
    bool outer_kind = l.kind == LoopKind::serial || l.kind == LoopKind::parallel;
    if (outer_kind && l.symbol.is_symbol() && !reduces(l)) cut_ = i + 1;
  }
  for (size_t i = 0; i < cut_; i++) {
    const StageLoop& l = nest.loops[rest_[i]];
    if (l.kind == LoopKind::vector && l.symbol.is_symbol())
      refuse("stage {}: the vector loop {} stands outside of a serial loop", s_.name, l.name);
  }
  const StageLoop* lane = nullptr;
  for (size_t i = cut_; i < rest_.size(); i++) {
    const StageLoop& l = nest.loops[rest_[i]];
    if (!l.symbol.is_symbol()) continue;
    if (l.kind == LoopKind::vector) lane = &l, across_ = folds_ && reduces(l);
    if (l.kind == LoopKind::unrolled && folds_ && reduces(l) && !s_.monoid) partial_ = true;
  }
  if (across_) {
    if (s_.monoid)
      refuse("stage {}: lanes of loop {} hold states of a tuple, which cannot be combined; cascade it first",
             s_.name, lane->name);
    for (auto& c : s_.components)
      if (c.kind == ComponentKind::fold && c.op != Op::add && c.op != Op::max && c.op != Op::min &&
          c.op != Op::mul)
        refuse("stage {}: lanes cannot be combined by {}", s_.name, row(c.op).name);
  }
  for (auto& c : s_.components)
    if (c.kind == ComponentKind::update && lane &&
        depends_on(luminal::substitute(s_.domain, nest.axis_values), lane->symbol))
      refuse("stage {}: its domain varies along the vector loop {}", s_.name, lane->name);

  if (s_.scan_axis && lane)
    for (auto& c : s_.components)
      for (AxisId a : s_.axes)
        if (!contains(c.axes, a) && depends_on_loop(nest, l_.n_.cone.axes[a].symbol, *lane))
          refuse("stage {}: all lanes of loop {} would write the same result", s_.name, lane->name);
  if (s_.scan_axis)
    for (size_t i = 0; i < nest.loops.size(); i++) {
      const StageLoop& l = nest.loops[i];
      if (!l.symbol.is_symbol() || !reduces(l)) continue;
      if (l_.is_open(l.name))
        refuse("stage {}: other stages cannot run inside of the scan along {}", s_.name, l.name);
      for (size_t r = 0; r < cut_; r++)
        if (rest_[r] == i)
          refuse("stage {}: a serial loop stands inside of the scan along {}", s_.name, l.name);
    }

  // Reduction loops outside of the tile: the accumulator goes on from trip to trip.
  // (The tiles of a cascade begin from the state: that is their `init`.)
  bool in_tile = nest.together.empty();
  for (auto& o : l_.open_) {
    if (!in_tile) {
      in_tile = o.name == nest.together;
      continue;
    }
    const StageLoop* own = nest.find(o.name);
    if (!own || !own->symbol.is_symbol() || !folds_ || !reduces(*own)) continue;
    check_trips(o.name, o.begin, o.end);
    carried_.push_back({o.symbol, {o.begin, o.end}});
  }
  // Register buffers: one place for each unrolled loop and lane.
  strides_.assign(nest.loops.size(), 0);
  int64_t size = 1;
  for (size_t i = rest_.size(); i-- > cut_;) {
    const StageLoop& l = nest.loops[rest_[i]];
    if (l.kind != LoopKind::vector || !l.symbol.is_symbol()) continue;
    strides_[rest_[i]] = 1;
    size = l.extent.value();
  }
  for (size_t i = rest_.size(); i-- > cut_;) {
    const StageLoop& l = nest.loops[rest_[i]];
    if (l.kind != LoopKind::unrolled || !l.symbol.is_symbol() || !indexes_accumulator(l)) continue;
    strides_[rest_[i]] = size;
    size *= l.extent.value();
  }
  registers_.assign(s_.components.size(), {});
  if (!folds_) return;
  if (size > 1 << 14) refuse("stage {}: {} accumulators are more than registers can hold", s_.name, size);
  // Lanes beyond the end of a part have no element, but a sum.
  const bool dead_lanes_count = across_ || (lane && std::ranges::any_of(nest.guards, [&](const Guard& g) {
                                              return g.reduction && depends_on(g.value, lane->symbol);
                                            }));
  const auto buffers = [&](const std::string& suffix) {
    std::vector<BufferId> made;
    for (size_t c = 0; c < s_.components.size(); c++) {
      bool fold =
          s_.components[c].kind == ComponentKind::fold || s_.components[c].kind == ComponentKind::scan;
      if (!fold) {
        made.emplace_back();
        continue;
      }
      Buffer b;
      b.name = s_.components.size() == 1 ? s_.name + suffix : fmt::format("{}{}{}", s_.name, suffix, c);
      b.space = Space::registers;
      b.access = Access::scratch;
      b.dtype = s_.components[c].dtype;
      b.size = size;
      b.padded = !dead_lanes_count;
      made.push_back(add_buffer(l_.kernel_, std::move(b)));
    }
    return made;
  };
  auto& known = l_.accumulators_[stage_];
  if (known.empty()) known = buffers(".acc");
  registers_ = known;
  const bool blocked = std::ranges::any_of(nest.loops, [](const StageLoop& l) { return l.block > 0; });
  if (!blocked) return;
  check_blocks();
  auto& partial = l_.block_accumulators_[stage_];
  if (partial.empty()) partial = buffers(".block");
  of_block_ = partial;
}

/// blocked_sum is for plain folds: one loop inside of the register tile, and those outside of it.
void StageLowering::check_blocks() {
  const StageNest& nest = l_.n_.stages[stage_];
  int inside = 0;
  for (size_t i = 0; i < nest.loops.size(); i++) {
    const StageLoop& l = nest.loops[i];
    if (l.block == 0 || !l.symbol.is_symbol()) continue;
    if (l.kind != LoopKind::serial || !reduces(l))
      refuse("stage {}: loop {} is not a serial loop of its sum", s_.name, l.name);
    const auto at = std::ranges::find(rest_, i);
    if (at == rest_.end() || size_t(at - rest_.begin()) < cut_) {
      if (l.block != 1)
        refuse("stage {}: the sum goes through memory from one trip of loop {} to the next: its blocks have "
               "one trip",
               s_.name, l.name);
      anew_ = true;
    } else if (++inside > 1) {
      refuse("stage {}: the blocks of one loop are summed apart, not those of {} too", s_.name, l.name);
    }
  }
  for (const Component& c : s_.components) {
    if (c.kind == ComponentKind::map && c.after) continue;
    if (c.kind != ComponentKind::fold || s_.monoid)
      refuse("stage {} has more than plain folds, whose blocks cannot be added", s_.name);
  }
}

bool StageLowering::indexes_accumulator(const StageLoop& loop) const {
  if (loop.kind == LoopKind::vector) return true;
  return loop.kind == LoopKind::unrolled && (partial_ || !folds_ || !reduces(loop));
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
    if (auto r = l_.domain_range(stage_, state.nest, loop)) {
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
    const auto r = l_.n_.predicate_splits.contains(loop.name) ? l_.domain_range(stage_, s.nest, loop, true)
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

Body StageLowering::tails(State state, size_t g) {
  if (g == state.held.size()) return tile(state);
  Guard guard = state.nest.guards[g];
  if (state.held[g] || reduction_guard(state, guard)) return tails(std::move(state), g + 1);
  auto last = at_last(state, guard.value);
  Expr base = at_first(state, guard.value);
  if (!last) return tails(std::move(state), g + 1); // guarded inside
  Expr fits = lt(*last, guard.limit);
  Truth full_only = prove(fits, l_.open_facts(fits));
  Expr cover = *last - base + 1;
  int64_t rest = 0;   // elements of the remainder, where known
  bool whole = false; // the tile lies within the axis or behind it
  if (cover.is_constant() && base.multiple() % cover.value() == 0) {
    whole = guard.limit.multiple() % cover.value() == 0;
    if (guard.limit.is_constant()) rest = guard.limit.value() % cover.value();
  }
  // What is left of the axis is known where the tile begins within it; bounds of loops see to that,
  // where they can express it.
  Expr within = 1;
  if (whole || rest > 0)
    for (const OpenLoop& o : l_.open_) {
      if (!o.symbol.is_symbol() || !depends_on(base, o.symbol)) continue;
      auto c = coefficient_of(base, o.symbol);
      if (!c || !c->is_constant() || c->value() < 1) within = lt(base, guard.limit);
    }
  if (prove(within, l_.open_facts(within)) == Truth::yes) within = 1;
  const auto where = [&](Body body) -> Body {
    if (within.is_constant(1)) return body;
    return {if_then(within, std::move(body))};
  };
  State full = state;
  full.held[g] = true;
  if (full_only == Truth::yes) return tails(std::move(full), g + 1);
  if (whole) return where(tails(std::move(full), g + 1));
  const Lanes lanes = l_.lanes_[stage_];
  if (const StageLoop* lane = lane_end(state, guard)) {
    if (lanes == Lanes::whole) {
      full.within[g] = {0, 1};
      return tails(std::move(full), g + 1);
    }
    note_lanes(state, g, lane->symbol);
  }
  if (state.ended.contains(g)) full_only = Truth::no;
  State part = std::move(state);
  std::vector<size_t> written_out; // unrolled loops that reach the end of the axis
  for (size_t i = cut_; i < rest_.size(); i++) {
    const StageLoop& l = part.nest.loops[rest_[i]];
    if (l.kind == LoopKind::unrolled && l.symbol.is_symbol() && !part.opened.contains(l.symbol) &&
        depends_on(guard.value, l.symbol))
      written_out.push_back(rest_[i]);
  }
  bool shrunk = false;
  if (rest > 0) {
    part.nest.guards[g] = {guard.value - base, Expr(rest), guard.reduction};
    if (written_out.size() == 1) {
      const StageLoop& l = part.nest.loops[written_out[0]];
      int64_t c = coefficient_of(guard.value, l.symbol)->value();
      // The other loops of the guard (lanes) must lie within one step of this one.
      auto others = *last - (l.extent - 1) * c - base;
      if (others.is_constant() && others.value() < c) {
        shrink(part.nest, part.within, written_out[0], Expr((rest + c - 1) / c));
        if (rest % c == 0) part.held[g] = true;
        shrunk = true;
      }
    }
  }
  // A loop that is written out, of which nobody knows how much is left, runs step by step around a
  // tile of one step.
  auto remains = [&]() -> Body {
    if (shrunk || written_out.size() != 1) return tails(std::move(part), g + 1);
    const StageLoop l = part.nest.loops[written_out[0]];
    const Guard rule = part.nest.guards[g];
    auto c = coefficient_of(rule.value, l.symbol);
    if (!c || !c->is_constant() || c->value() < 1) return tails(std::move(part), g + 1);
    Expr end = min(l.extent, ceildiv(rule.limit - at_first(part, rule.value), *c));
    part.apart.insert(written_out[0]);
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
  };
  Body filled;
  if (lanes == Lanes::filled) filled = zeros(full);
  auto remainder = [&]() -> Body {
    Body body = filled;
    append(body, remains());
    return where(std::move(body));
  };
  // Beside many whole tiles one body of each loop is enough: what it costs is seldom paid, and it
  // is quarter the code.
  constexpr int64_t many = 4;
  if (rest > 0 && guard.limit.value() >= many * cover.value())
    for (StageLoop& l : part.nest.loops) l.jam = 1;
  if (full_only == Truth::no) return remainder();
  Body full_body = tails(std::move(full), g + 1);
  return {if_then(fits, std::move(full_body), remainder())};
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
