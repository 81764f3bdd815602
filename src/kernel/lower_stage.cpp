// kernel/lower_stage.cpp -- the loops of one stage: outer loops, full tiles and remainders, the three phases of a fold.
#include "base/check.h"
#include "kernel/lowering.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

void append(Body& to, Body from) { to.insert(to.end(), from.begin(), from.end()); }

/// A loop of fewer trips (the last, static remainder) takes the place of a loop.
void shrink(StageNest& nest, size_t position, Expr extent) {
  StageLoop& loop = nest.loops[position];
  Expr symbol = extent.is_constant(1) ? Expr(0) : Expr::symbol(loop.name, {0, extent.value() - 1});
  ExprMap<Expr> map{{loop.symbol, symbol}};
  for (auto& [axis, value] : nest.axis_values) value = substitute(value, map);
  for (Guard& g : nest.guards) g.value = substitute(g.value, map);
  loop.symbol = symbol;
  loop.extent = extent;
}

} // namespace

StageLowering::StageLowering(Lowering& lowering, int stage)
    : l_(lowering), stage_(stage), s_(lowering.n_.cone.stages[size_t(stage)]) {}

bool StageLowering::reduces(const StageLoop& loop) const {
  const StageNest& nest = l_.n_.stages[size_t(stage_)];
  const StageLoop* own = nest.find(loop.name);
  if (!own) return false;
  bool reduced = false, kept = false;
  for (int a : s_.axes) {
    if (!depends_on_loop(nest, l_.n_.cone.axes[size_t(a)].symbol, *own)) continue;
    bool out = a == s_.scan_axis;
    for (auto& c : s_.components)
      if (c.kind == ComponentKind::fold) out |= std::ranges::find(c.axes, a) == c.axes.end();
    (out ? reduced : kept) = true;
  }
  if (reduced && kept)
    refuse("stage {}: loop {} runs over reduced and other axes at once", s_.name, loop.name);
  return reduced;
}

bool StageLowering::in_tile(const StageLoop& loop) const {
  for (size_t i = cut_; i < rest_.size(); i++)
    if (l_.n_.stages[size_t(stage_)].loops[rest_[i]].name == loop.name) return true;
  return false;
}

void StageLowering::analyse() {
  const StageNest& nest = l_.n_.stages[size_t(stage_)];
  int folds = 0;
  std::optional<std::vector<int>> axes;
  for (auto& c : s_.components) {
    if (c.kind != ComponentKind::fold && c.kind != ComponentKind::scan) continue;
    folds++;
    if (axes && *axes != c.axes)
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
        depends_on(value_at({nest, {}, {}, {}, 0}, s_.domain), lane->symbol))
      refuse("stage {}: its domain varies along the vector loop {}", s_.name, lane->name);

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
  registers_.assign(s_.components.size(), -1);
  if (!folds_) return;
  if (size > 1 << 14) refuse("stage {}: {} accumulators are more than registers can hold", s_.name, size);
  auto& known = l_.accumulators_[stage_];
  if (known.empty()) {
    for (size_t c = 0; c < s_.components.size(); c++) {
      bool fold =
          s_.components[c].kind == ComponentKind::fold || s_.components[c].kind == ComponentKind::scan;
      if (!fold) {
        known.push_back(-1);
        continue;
      }
      Buffer b;
      b.name = s_.components.size() == 1 ? s_.name + ".acc" : fmt::format("{}.acc{}", s_.name, c);
      b.space = Space::registers;
      b.access = Access::scratch;
      b.dtype = s_.components[c].dtype;
      b.size = size;
      b.padded = !across_;
      known.push_back(add_buffer(l_.kernel_, std::move(b)));
    }
  }
  registers_ = known;
}

bool StageLowering::indexes_accumulator(const StageLoop& loop) const {
  if (loop.kind == LoopKind::vector) return true;
  return loop.kind == LoopKind::unrolled && (partial_ || !folds_ || !reduces(loop));
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
    map[l->symbol] = l->extent - 1;
  }
  return substitute(e, map);
}

bool StageLowering::reduction_guard(const State& state, const Guard& guard) const {
  for (auto& l : state.nest.loops)
    if (l.symbol.is_symbol() && depends_on(guard.value, l.symbol) && folds_ && reduces(l)) return true;
  return false;
}

// ---- outer loops ----

Body StageLowering::run() {
  analyse();
  State state;
  state.nest = l_.n_.stages[size_t(stage_)];
  for (auto& g : state.nest.guards) state.held.push_back(prove(lt(g.value, g.limit)) == Truth::yes);
  for (size_t g = 0; g < state.held.size(); g++) // serial loops that are open already end where the axis does
    if (unopened(state, state.nest.guards[g].value).empty()) state.held[g] = true;
  if (s_.scan_reverse && s_.scan_axis >= 0) {
    auto& axis = l_.n_.cone.axes[size_t(s_.scan_axis)];
    state.nest.axis_values[axis.symbol] = axis.extent - 1 - state.nest.axis_values[axis.symbol];
  }
  Body body = hole_lets(state, exprs_of(true, true));
  append(body, outer(0, std::move(state)));
  return body;
}

Body StageLowering::outer(size_t i, State state) {
  if (i == cut_) return tails(std::move(state), 0);
  StageLoop loop = state.nest.loops[rest_[i]];
  if (!loop.symbol.is_symbol()) {
    if (loop.kind != LoopKind::parallel || l_.parallel_open()) return outer(i + 1, std::move(state));
    l_.open_.push_back({loop.name, 0, 0, 1, 1, true});
    Body body = outer(i + 1, std::move(state));
    l_.open_.pop_back();
    return {parallel_loop(Expr::symbol(loop.name, {0, 0}), 0, 1, std::move(body), loop.level)};
  }
  auto bounds = l_.bounds(state.nest, loop);
  if (l_.n_.stages[size_t(stage_)].bounds.contains(loop.name))
    if (auto r = l_.domain_range(stage_, state.nest, loop)) {
      bounds.begin = max(bounds.begin, r->some_begin);
      bounds.end = min(bounds.end, r->some_end);
    }
  bool parallel = loop.kind == LoopKind::parallel;
  l_.open_.push_back({loop.name, loop.symbol, bounds.begin, bounds.end, loop.extent, parallel});
  bool carry = folds_ && reduces(loop);
  if (carry) carried_.push_back({loop.symbol, {bounds.begin, bounds.end}});
  state.opened.insert(loop.symbol);
  Expr odd = 1; // guards that the loop's bounds cannot express
  for (size_t g = 0; g < state.held.size(); g++) {
    const Guard& guard = state.nest.guards[g];
    if (state.held[g] || !depends_on(guard.value, loop.symbol) || !unopened(state, guard.value).empty())
      continue;
    auto c = coefficient_of(guard.value, loop.symbol);
    if (loop.kind == LoopKind::unrolled || !c || !c->is_constant() || c->value() < 1)
      odd = logical_and(odd, lt(guard.value, guard.limit));
    state.held[g] = true;
  }
  Body body = hole_lets(state, exprs_of(true, true));
  append(body, prefetches(state, loop));
  append(body, outer(i + 1, std::move(state)));
  if (!odd.is_constant(1)) body = {if_then(odd, std::move(body))};
  if (carry) carried_.pop_back();
  l_.open_.pop_back();
  if (parallel) return {parallel_loop(loop.symbol, bounds.begin, bounds.end, std::move(body), loop.level)};
  if (loop.kind == LoopKind::unrolled)
    return {kernel::loop(LoopKind::unrolled, loop.symbol, 0, loop.extent, std::move(body))};
  if (loop.jam > 1) return {jammed_loop(loop.symbol, bounds.begin, bounds.end, loop.jam, std::move(body))};
  return {kernel::loop(LoopKind::serial, loop.symbol, bounds.begin, bounds.end, std::move(body))};
}

// ---- full tiles and remainders: full ones run without guards; what is left at the end of an axis gets a body of its own, smaller
// where the remainder is a static fact, guarded where it is not ----

Body StageLowering::tails(State state, size_t g) {
  if (g == state.held.size()) return tile(state);
  Guard guard = state.nest.guards[g];
  if (state.held[g] || reduction_guard(state, guard)) return tails(std::move(state), g + 1);
  auto loops = unopened(state, guard.value);
  auto last = at_last(state, guard.value);
  Expr base = at_first(state, guard.value);
  if (!last) return tails(std::move(state), g + 1); // guarded inside
  Expr fits = lt(*last, guard.limit);
  Truth full_only = prove(fits);
  Expr cover = *last - base + 1;
  int64_t rest = 0; // elements of the remainder, where known
  if (cover.is_constant() && base.multiple() % cover.value() == 0) {
    if (guard.limit.multiple() % cover.value() == 0) full_only = Truth::yes;
    if (guard.limit.is_constant()) rest = guard.limit.value() % cover.value();
  }
  State full = state;
  full.held[g] = true;
  if (full_only == Truth::yes) return tails(std::move(full), g + 1);
  State part = std::move(state);
  if (rest > 0) {
    part.nest.guards[g] = {guard.value - base, Expr(rest)};
    std::vector<size_t> written_out;
    for (size_t p : rest_)
      if (part.nest.loops[p].kind == LoopKind::unrolled && part.nest.loops[p].symbol.is_symbol() &&
          depends_on(guard.value, part.nest.loops[p].symbol))
        written_out.push_back(p);
    if (written_out.empty()) {
      if (rest % cover.value() == 0) part.held[g] = true;
    } else if (written_out.size() == 1) {
      const StageLoop& l = part.nest.loops[written_out[0]];
      int64_t c = coefficient_of(guard.value, l.symbol)->value();
      // The other loops of the guard (lanes) must lie within one step of this one.
      auto others = *last - (l.extent - 1) * c - base;
      if (others.is_constant() && others.value() < c) {
        shrink(part.nest, written_out[0], Expr((rest + c - 1) / c));
        if (rest % c == 0) part.held[g] = true;
      }
    }
  }
  if (full_only == Truth::no) return tails(std::move(part), g + 1);
  return {if_then(fits, tails(std::move(full), g + 1), tails(std::move(part), g + 1))};
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
  for (int h : holes_of(l_.n_.cone, exprs)) {
    if (state.holes.contains(h)) continue;
    const ConeHole& hole = l_.n_.cone.holes[size_t(h)];
    auto indices = index_exprs(hole.value);
    bool ready = true;
    for (Expr e : indices) {
      for (int inner : holes_of(l_.n_.cone, std::span(&e, 1))) ready &= state.holes.contains(inner);
      ready &= unopened(state, value_at(state, e)).empty();
    }
    if (!ready) continue;
    state.holes.insert(h);
    Values values{&out, &state, {}, {}, {}};
    count_uses(values, hole.value);
    ValueRef value = value_of(values, hole.value);
    out.push_back(let_index(hole.symbol, value));
  }
  return out;
}

Body StageLowering::prefetches(const State& state, const StageLoop& loop) {
  Body out;
  for (auto& p : state.nest.prefetches) {
    if (p.loop != loop.name) continue;
    std::vector<Expr> index;
    visit_stage(s_, [&](const Formula& f) {
      if (f.kind == FormulaKind::load && f.value == p.value && index.empty()) index = f.index;
    });
    if (index.empty())
      refuse("prefetch: stage {} does not read {}", s_.name, l_.n_.cone.values[size_t(p.value)].name);
    Expr offset = substitute(offset_of(state, p.value, index), {{loop.symbol, loop.symbol + p.distance}});
    if (!holes_of(l_.n_.cone, std::span(&offset, 1)).empty()) continue;
    Body here;
    std::vector<const StageLoop*> rows;
    for (auto* l : unopened(state, offset))
      if (l->kind == LoopKind::unrolled && !reduces(*l)) rows.push_back(l);
    State inside = state;
    for (auto* l : rows) inside.opened.insert(l->symbol);
    here.push_back(prefetch(l_.places_[size_t(p.value)].buffer, at_first(inside, offset)));
    for (size_t r = rows.size(); r-- > 0;)
      here = {kernel::loop(LoopKind::unrolled, rows[r]->symbol, 0, rows[r]->extent, std::move(here))};
    append(out, std::move(here));
  }
  return out;
}

// ---- loops of the tile ----

Body StageLowering::inside(size_t i, State& state, const Want& want, const std::vector<Expr>& exprs,
                           const Inner& inner) {
  Body body = hole_lets(state, exprs);
  append(body, nest_of(i + 1, state, want, exprs, inner));
  return body;
}

Body StageLowering::nest_of(size_t i, State state, const Want& want, const std::vector<Expr>& exprs,
                            const Inner& inner) {
  if (i == rest_.size()) return inner(state);
  StageLoop loop = state.nest.loops[rest_[i]];
  if (!want(loop) || !loop.symbol.is_symbol()) return nest_of(i + 1, std::move(state), want, exprs, inner);

  if (loop.kind == LoopKind::vector) {
    Expr active = loop.extent;
    for (size_t g = 0; g < state.held.size(); g++) {
      const Guard& guard = state.nest.guards[g];
      if (state.held[g] || !depends_on(guard.value, loop.symbol)) continue;
      auto c = coefficient_of(guard.value, loop.symbol);
      Expr rest = substitute(guard.value, {{loop.symbol, 0}});
      if (!c || !c->is_constant() || c->value() < 1 || unopened(state, rest).size() > 0)
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
    Body body = inside(i, state, want, exprs, inner);
    if (active == loop.extent)
      return {kernel::loop(LoopKind::vector, loop.symbol, 0, loop.extent, std::move(body))};
    return {masked_loop(loop.symbol, 0, loop.extent, active, std::move(body))};
  }

  if (loop.kind == LoopKind::unrolled) {
    state.opened.insert(loop.symbol);
    Expr alive = 1;
    for (size_t g = 0; g < state.held.size(); g++) {
      const Guard& guard = state.nest.guards[g];
      if (state.held[g] || !depends_on(guard.value, loop.symbol)) continue;
      Expr some = lt(at_first(state, guard.value), guard.limit);
      if (prove(some) != Truth::yes) alive = logical_and(alive, some);
      if (unopened(state, guard.value).empty()) state.held[g] = true;
    }
    Body body = inside(i, state, want, exprs, inner);
    if (!alive.is_constant(1)) body = {if_then(alive, std::move(body))};
    return {kernel::loop(LoopKind::unrolled, loop.symbol, 0, loop.extent, std::move(body))};
  }

  // A serial reduction loop: whole steps without guards, then what is left.
  Expr begin = 0, end = loop.extent, whole = loop.extent;
  State rest = state;
  rest.opened.insert(loop.symbol);
  State full = rest;
  bool left_over = false;
  Expr odd = 1;
  for (size_t g = 0; g < state.held.size(); g++) {
    const Guard& guard = state.nest.guards[g];
    if (state.held[g] || !depends_on(guard.value, loop.symbol)) continue;
    auto c = coefficient_of(guard.value, loop.symbol);
    if (!c || !c->is_constant() || c->value() < 1) {
      if (!unopened(rest, guard.value).empty())
        refuse("stage {}: loop {} was merged and its end is not regular", s_.name, loop.name);
      odd = logical_and(odd, lt(guard.value, guard.limit));
      rest.held[g] = full.held[g] = true;
      continue;
    }
    Expr first = at_first(rest, guard.value) - loop.symbol * *c;
    end = min(end, ceildiv(guard.limit - first, *c));
    if (unopened(rest, guard.value).empty()) {
      rest.held[g] = full.held[g] = true;
      whole = min(whole, ceildiv(guard.limit - first, *c));
      continue;
    }
    auto last = at_last(rest, guard.value);
    if (!last)
      refuse("stage {}: the loops inside {} were merged and its end is not regular", s_.name, loop.name);
    Expr final = *last - loop.symbol * *c;
    // The last trip that fits: c * trip + final < limit.
    Expr fit = floordiv(guard.limit - final - 1, *c) + 1;
    if (proves_equal(fit, ceildiv(guard.limit - first, *c))) {
      rest.held[g] = true;
    } else {
      left_over = true;
    }
    whole = min(whole, fit);
    full.held[g] = true;
  }
  if (l_.n_.stages[size_t(stage_)].bounds.contains(loop.name))
    if (auto r = l_.domain_range(stage_, state.nest, loop)) {
      begin = max(begin, r->some_begin);
      end = min(end, r->some_end);
      whole = min(whole, end);
    }
  auto part = [&](State s, Expr from, Expr to) -> Body {
    if ((to - from).is_constant(1) && from != Expr(0)) { // one trip, known where
      s.opened.erase(loop.symbol);
      ExprMap<Expr> map{{loop.symbol, from}};
      for (auto& [axis, value] : s.nest.axis_values) value = substitute(value, map);
      for (Guard& g : s.nest.guards) g.value = substitute(g.value, map);
      s.nest.loops[rest_[i]].symbol = 0;
      l_.open_.push_back({loop.name, 0, 0, 1, 1, false});
      Body body = inside(i, s, want, exprs, inner);
      l_.open_.pop_back();
      Expr alive = substitute(odd, map);
      return alive.is_constant(1) ? body : Body{if_then(alive, std::move(body))};
    }
    l_.open_.push_back({loop.name, loop.symbol, from, to, loop.extent, false});
    Body body = prefetches(s, loop);
    append(body, inside(i, s, want, exprs, inner));
    l_.open_.pop_back();
    if (!odd.is_constant(1)) body = {if_then(odd, std::move(body))};
    if (loop.jam > 1) return {jammed_loop(loop.symbol, from, to, loop.jam, std::move(body))};
    return {kernel::loop(LoopKind::serial, loop.symbol, from, to, std::move(body))};
  };
  Body out;
  if (!left_over) {
    append(out, part(full, begin, end));
    return out;
  }
  Expr middle = max(begin, whole);
  if (prove(le(middle, begin)) != Truth::yes) append(out, part(full, begin, middle));
  if (prove(le(end, middle)) != Truth::yes) append(out, part(rest, middle, end));
  return out;
}

// ---- the three phases of a fold ----

Body StageLowering::start(const State& state) {
  // Accumulators that are combined at the end, or begin anew, start from the identity.
  auto identity = [&] {
    State s = state;
    s.held.assign(s.held.size(), true);
    // All places, those of remainders too: the loops have their full extent.
    s.nest = l_.n_.stages[size_t(stage_)];
    s.held.assign(s.nest.guards.size(), true);
    return nest_of(
        cut_, s,
        [&](const StageLoop& l) {
          return l.kind != LoopKind::serial && l.kind != LoopKind::parallel && indexes_accumulator(l);
        },
        {},
        [&](State& in) {
          Body b;
          for (size_t c = 0; c < s_.components.size(); c++)
            if (registers_[c] >= 0) {
              const Component& part = s_.components[c];
              ValueRef v = is_float(part.dtype) ? constant(part.dtype, identity_f64(part.op))
                                                : index(Expr(identity_i64(part.op, part.dtype)), part.dtype);
              b.push_back(store(registers_[c], accumulator_offset(in), v));
            }
          return b;
        });
  };
  bool combined = partial_ || across_;
  bool init = std::ranges::any_of(s_.components, [](auto& c) { return c.init != nullptr; });
  if (combined || (!init && carried_.empty())) return identity();
  auto fill = [&](bool reload) {
    return nest_of(
        cut_, state,
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
            if (registers_[c] < 0) continue;
            const Component& part = s_.components[c];
            ValueRef v;
            if (part.init && !reload)
              v = value_of(values, part.init);
            else if (reload)
              v = load(l_.kernel_, l_.places_[size_t(part.out)].buffer, offset_of(in, part.out, part.index));
            else
              v = is_float(part.dtype) ? constant(part.dtype, identity_f64(part.op))
                                       : index(Expr(identity_i64(part.op, part.dtype)), part.dtype);
            b.push_back(store(registers_[c], accumulator_offset(in), v));
          }
          return b;
        });
  };
  if (carried_.empty()) return fill(false);
  for (auto& c : s_.components)
    if (c.kind == ComponentKind::fold && c.out < 0)
      refuse("stage {}: a component has no storage to go on from one trip of {} to the next", s_.name,
             luminal::to_string(carried_[0].first));
  Expr first = 1;
  for (auto& [symbol, range] : carried_) first = logical_and(first, eq(symbol, range.first));
  return {if_then(first, init ? fill(false) : identity(), fill(true))};
}

Body StageLowering::reduction(const State& state) {
  return nest_of(
      cut_, state, [](const StageLoop&) { return true; }, exprs_of(true, false),
      [&](State& in) { return point(in); });
}

Body StageLowering::finish(const State& state) {
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
