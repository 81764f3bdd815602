// schedule/lower_group.cpp -- nests that groups of lanes run: one loop over groups, one loop over the lanes
// of a group, and inside of it all stages, one after the other, with barriers of the group between them.
//
// What a lane accumulates stays in its registers from the first step of a fold to the last; what lanes read
// of each other, copies of operands and results for later stages, lies in the group's memory.
#include "base/check.h"
#include "base/contains.h"
#include "cone/formula.h"
#include "ir/identity.h"
#include "schedule/lowering.h"
#include <algorithm>
#include <bit>

namespace luminal::kernel {
namespace {

/// Do the lanes of the stage's unit run this loop together?
bool is_of_unit(const StageNest& nest, std::string_view loop) {
  return nest.lane_unit &&
         (loop == nest.lane_unit->m || loop == nest.lane_unit->n || loop == nest.lane_unit->k);
}

bool is_fold(const Component& c) { return c.kind == ComponentKind::fold; }

} // namespace

// ---- the kernel ----

/// Values that stages hand on lie in the group's memory, as much as one group makes of them.
void Lowering::place_in_group(const Groups& groups) {
  std::set<Expr, ExprLess> outer;
  if (groups.symbol.is_symbol()) outer.insert(groups.symbol);
  for (const ValueId v : n_.cone.values.ids()) {
    const ConeValue& value = n_.cone.values[v];
    Place& place = places_[v];
    if (value.role != ValueRole::interior || !place.buffer) continue;
    bool first = true;
    for (const StageId s : n_.cone.stages.ids())
      for (auto& c : n_.cone.stages[s].components) {
        if (c.out != v) continue;
        for (size_t d = 0; d < value.shape.size(); d++) {
          const auto [base, extent] = region(s, c, d, outer);
          if (!first && !proves_equal(place.base[d], base))
            refuse("stages write {} at different places of one group", value.name);
          place.extents[d] = first ? extent : max(place.extents[d], extent);
          place.base[d] = base;
        }
        first = false;
      }
    const Expr size = layout_size(place.layout, place.extents);
    if (!size.is_constant())
      refuse("the size of {} in loop {} is not constant: {}", value.name,
             groups.loop.empty() ? "root" : groups.loop, luminal::to_string(size));
    Buffer& buffer = kernel_.buffers[place.buffer];
    buffer.space = Space::group;
    buffer.size = size;
    buffer.alignment = 16;
  }
}

/// A group reads of what stages write only what it wrote itself.
void Lowering::check_in_group(const Groups& groups, ValueId value) {
  if (!groups.symbol.is_symbol()) return;
  const std::set<Expr, ExprLess> shared{groups.symbol};
  for (const StageId w : n_.stages.ids())
    for (auto& c : n_.cone.stages[w].components) {
      if (c.out != value) continue;
      for (StageId r : n_.readers(value)) {
        if (r == w) continue;
        const StageNest& nest = n_.stages[r];
        std::vector<Expr> facts;
        for (auto& g : nest.guards) facts.push_back(lt(g.value, g.limit));
        for (size_t d = 0; d < c.index.size(); d++) {
          const Region written = region(w, c, d, shared);
          if (written.base.is_constant(0) &&
              prove(ge(written.extent, n_.cone.values[value].shape[d])) == Truth::yes)
            continue;
          visit_loads(n_.cone.stages[r], [&](const FormulaLoad& f) {
            if (f.value != value) return;
            const Expr at = substitute(f.index[d], nest.axis_values) - written.base;
            if (prove(ge(at, 0), facts) != Truth::yes || prove(lt(at, written.extent), facts) != Truth::yes)
              refuse("stage {} reads {} outside of what {} makes in one trip of {}", n_.cone.stages[r].name,
                     n_.cone.values[value].name, n_.cone.stages[w].name, groups.loop);
          });
        }
      }
    }
}

Kernel Lowering::run_groups() {
  const Groups groups = groups_of(n_);
  place_in_group(groups);
  for (const ValueId v : n_.cone.values.ids())
    if (n_.cone.values[v].role != ValueRole::input && places_[v].buffer) check_in_group(groups, v);
  const Expr lane = Expr::symbol(n_.free_name("lane"), {0, groups.lanes - 1});
  open_.push_back({groups.loop, groups.symbol, 0, groups.extent, groups.extent, true, {}, 0});
  Body body;
  std::set<BufferId> read, written; // since the last barrier
  for (const StageId s : n_.stages.ids()) {
    std::set<BufferId> reads, writes;
    const auto note = [&](const FormulaLoad& f) { reads.insert(places_[f.value].buffer); };
    visit_loads(n_.cone.stages[s], note);
    for (HoleId h : holes_of(n_.cone, n_.cone.stages[s])) visit_loads(n_.cone.holes[h].value, note);
    for (auto& c : n_.cone.stages[s].components)
      if (c.out) writes.insert(places_[c.out].buffer);
    const auto meets = [](const std::set<BufferId>& a, const std::set<BufferId>& b) {
      return std::ranges::any_of(a, [&](BufferId x) { return b.contains(x); });
    };
    if (meets(reads, written) || meets(writes, written) || meets(writes, read)) {
      body.push_back(barrier(1));
      read.clear(), written.clear();
    }
    append(body, StageLowering(*this, s).run_in_group(groups, lane));
    read.merge(reads), written.merge(writes);
  }
  open_.pop_back();
  // The next group of this worker writes to the same memory.
  if (std::ranges::any_of(kernel_.buffers, [](const Buffer& b) { return b.space == Space::group; }))
    body.push_back(barrier(1));
  const Expr symbol = groups.symbol.is_symbol() ? groups.symbol : Expr::symbol(n_.free_name("one"), {0, 0});
  kernel_.body = {
      parallel_loop(symbol, 0, groups.extent, {parallel_loop(lane, 0, groups.lanes, std::move(body), 1)}, 0)};
  return std::move(kernel_);
}

// ---- one stage ----

void StageLowering::analyse_group(Expr lane, State& state) {
  const StageNest& nest = l_.n_.stages[stage_];
  state.nest = nest;
  std::optional<std::vector<AxisId>> axes;
  for (auto& c : s_.components) {
    if (!is_fold(c)) continue;
    if (axes && *axes != c.axes)
      refuse("stage {}: its components run over different axes; `cascade {} LOOP` makes a stage of each",
             s_.name, s_.name);
    axes = c.axes;
    folds_ = true;
  }
  if (nest.lane_unit) find_lane_product(state);
  // The lane's place in the loops that are distributed.
  int64_t inner = unit_lanes(nest);
  ExprMap<Expr> places;
  for (size_t i = nest.loops.size(); i-- > 0;) {
    const StageLoop& l = nest.loops[i];
    if (!l.lane) continue;
    if (l.symbol.is_symbol()) {
      if (folds_ && reduces(l)) reduced_lanes_ *= l.extent.value();
      const Expr here = inner == 1 ? lane : floordiv(lane, inner);
      const bool outermost = inner * l.extent.value() >= group_lanes_;
      places[l.symbol] = outermost ? here : mod(here, l.extent);
      state.nest.loops[i].symbol = 0;
    }
    inner *= l.extent.value();
  }
  for (auto& [axis, value] : state.nest.axis_values) value = substitute(value, places);
  for (Guard& g : state.nest.guards) g.value = substitute(g.value, places);
  if (product_) lanes_of_results(state, lane);
  state.within = state.nest.guards;
  for (size_t g = 0; g < nest.guards.size(); g++) {
    const Expr holds = lt(state.nest.guards[g].value, state.nest.guards[g].limit);
    state.held.push_back(prove(holds, l_.open_facts(holds)) == Truth::yes);
  }
  for (size_t i = 0; i < state.nest.loops.size(); i++) {
    const StageLoop& l = state.nest.loops[i];
    if ((l.lane || l.kind != LoopKind::parallel) && !is_of_unit(nest, l.name)) rest_.push_back(i);
  }
  for (size_t i = 0; i < rest_.size(); i++) {
    const StageLoop& l = state.nest.loops[rest_[i]];
    if (l.kind == LoopKind::serial && l.symbol.is_symbol() && folds_ && !reduces(l)) cut_ = i + 1;
  }
  for (const StageLoop& l : nest.loops)
    if (l.block > 0) refuse("stage {}: lanes of a group do not sum loop {} in blocks", s_.name, l.name);
  strides_.assign(state.nest.loops.size(), 0);
  registers_.assign(s_.components.size(), {});
  if (!folds_) return;
  int64_t size = 1;
  for (size_t i = rest_.size(); i-- > cut_;) {
    const StageLoop& l = state.nest.loops[rest_[i]];
    if (l.lane || l.kind != LoopKind::unrolled || !l.symbol.is_symbol() || reduces(l)) continue;
    strides_[rest_[i]] = size;
    size *= l.extent.value();
  }
  if (size > 1 << 10) refuse("stage {}: {} accumulators are more than registers can hold", s_.name, size);
  for (size_t c = 0; c < s_.components.size(); c++) {
    if (!is_fold(s_.components[c])) continue;
    Buffer b;
    b.name = s_.components.size() == 1 ? s_.name + ".acc" : fmt::format("{}.acc{}", s_.name, c);
    b.space = Space::registers;
    b.access = Access::scratch;
    b.dtype = s_.components[c].dtype;
    b.size = size;
    registers_[c] = add_buffer(l_.kernel_, std::move(b));
  }
}

Body StageLowering::run_in_group(const Groups& groups, Expr lane) {
  lane_number_ = lane;
  int64_t used = unit_lanes(l_.n_.stages[stage_]);
  for (auto& l : l_.n_.stages[stage_].loops)
    if (l.lane) used *= l.extent.value();
  group_lanes_ = used;
  State state;
  analyse_group(lane, state);
  place_tiles();
  if (product_) check_lane_product();
  if (used < groups.lanes && (reduced_lanes_ > 1 || !tiles_.empty()))
    refuse("stage {} uses {} of {} lanes: all of them have to take part in its copies and sums", s_.name,
           used, groups.lanes);
  Body body = copies(groups.loop);
  append(body, group_loops(0, std::move(state)));
  if (used < groups.lanes) body = {if_then(lt(lane, used), std::move(body))};
  return body;
}

/// Serial loops of the results, around the tile of a fold.
Body StageLowering::group_loops(size_t i, State state) {
  if (i == cut_) return group_tile(state);
  const StageLoop loop = state.nest.loops[rest_[i]];
  if (!loop.symbol.is_symbol()) return one_trip(loop, [&] { return group_loops(i + 1, std::move(state)); });
  return serial_in_group(i, std::move(state), [&](State in) { return group_loops(i + 1, std::move(in)); });
}

/// A loop that all lanes run together, as far as any of them has something to do; or one that each lane
/// writes out.
Body StageLowering::serial_in_group(size_t i, State state, const std::function<Body(State)>& inner) {
  const StageLoop loop = state.nest.loops[rest_[i]];
  state.opened.insert(loop.symbol);
  if (loop.kind == LoopKind::unrolled)
    return {kernel::loop(LoopKind::unrolled, loop.symbol, 0, loop.extent, inner(std::move(state)))};
  Expr end = loop.extent;
  for (size_t g = 0; g < state.held.size(); g++) {
    const Guard& guard = state.nest.guards[g];
    if (state.held[g] || !depends_on(guard.value, loop.symbol)) continue;
    const auto c = coefficient_of(guard.value, loop.symbol);
    if (!c || !c->is_constant() || c->value() < 1) continue;
    // The first of the lanes, at the first trip of what is inside.
    const Expr first = substitute(at_first(state, guard.value), {{lane_number_, 0}}) - loop.symbol * *c;
    end = min(end, ceildiv(guard.limit - first, *c));
    if (unopened(state, guard.value).empty() && !depends_on(guard.value, lane_number_)) state.held[g] = true;
  }
  l_.open_.push_back({loop.name, loop.symbol, 0, end, loop.extent, false, {}});
  const bool ring = ring_of(loop) > 1;
  Body body = ring ? Body() : copies(loop.name);
  append(body, inner(std::move(state)));
  if (ring) body = ring_body(loop, std::move(body));
  l_.open_.pop_back();
  const StmtRef whole = loop.jam > 1 ? jammed_loop(loop.symbol, 0, end, loop.jam, std::move(body))
                                     : kernel::loop(LoopKind::serial, loop.symbol, 0, end, std::move(body));
  return ring ? in_ring(loop, whole) : Body{whole};
}

/// A loop of one trip: its copies are made all the same.
Body StageLowering::one_trip(const StageLoop& loop, const std::function<Body()>& inner) {
  if (std::ranges::none_of(tiles_, [&](auto& tile) { return tile.loop == loop.name; })) return inner();
  l_.open_.push_back({loop.name, loop.symbol, 0, 1, 1, false, {}});
  Body body = copies(loop.name);
  append(body, inner());
  l_.open_.pop_back();
  return body;
}

Body StageLowering::group_tile(const State& state) {
  if (!folds_) return group_walk(0, state);
  Body body = group_start(state);
  append(body, group_walk(cut_, state));
  if (reduced_lanes_ > 1) append(body, combine_lanes(state));
  append(body, each_result(cut_, state, [&](State& in) {
           return where_held(in, false, [&](State& held) { return results(held); });
         }));
  return body;
}

/// The loops of the reduction, or of a map, then the point.
Body StageLowering::group_walk(size_t i, State state) {
  if (i == rest_.size() && product_) return unit_steps(state);
  if (i == rest_.size()) {
    body_phase_ = true;
    Body body = where_held(state, true, [&](State& held) { return point(held); });
    body_phase_ = false;
    return body;
  }
  const StageLoop loop = state.nest.loops[rest_[i]];
  if (!loop.symbol.is_symbol() && !loop.lane)
    return one_trip(loop, [&] { return group_walk(i + 1, std::move(state)); });
  if (!loop.symbol.is_symbol() || state.opened.contains(loop.symbol) || (product_ && !reduces(loop)))
    return group_walk(i + 1, std::move(state));
  return serial_in_group(i, std::move(state), [&](State in) { return group_walk(i + 1, std::move(in)); });
}

/// The accumulators of a lane.
Body StageLowering::each_result(size_t i, State state, const Inner& inner) const {
  if (i == rest_.size()) return inner(state);
  const StageLoop loop = state.nest.loops[rest_[i]];
  if (strides_[rest_[i]] == 0) return each_result(i + 1, std::move(state), inner);
  state.opened.insert(loop.symbol);
  Body body = each_result(i + 1, std::move(state), inner);
  return {kernel::loop(LoopKind::unrolled, loop.symbol, 0, loop.extent, std::move(body))};
}

/// Accumulators begin at the identity, or at what the fold starts from.
Body StageLowering::group_start(const State& state) {
  return each_result(cut_, state, [&](State& in) {
    Body body;
    bool init = false;
    for (size_t c = 0; c < s_.components.size(); c++) {
      if (!registers_[c]) continue;
      const Component& part = s_.components[c];
      const ValueRef identity = is_float(part.dtype)
                                    ? kernel::constant(part.dtype, identity_f64(part.op, part.dtype))
                                    : index(Expr(identity_i64(part.op, part.dtype)), part.dtype);
      body.push_back(store(registers_[c], accumulator_offset(in), identity));
      init |= part.init != nullptr;
    }
    if (!init) return body;
    append(body, where_held(in, false, [&](State& held) {
             Body b;
             Values values{&b, &held, {}, {}, {}};
             for (auto& c : s_.components)
               if (c.init) count_uses(values, c.init);
             for (size_t c = 0; c < s_.components.size(); c++)
               if (registers_[c] && s_.components[c].init)
                 b.push_back(
                     store(registers_[c], accumulator_offset(held), value_of(values, s_.components[c].init)));
             return b;
           }));
    return body;
  });
}

/// Do the points read nothing but copies of operands, whose elements are there for every lane?
bool StageLowering::reads_copies_alone() const {
  bool alone = folds_ && s_.domain.is_constant(1);
  for (auto& c : s_.components) {
    if (c.after) continue;
    alone = alone && is_fold(c) && holes_of(l_.n_.cone, index_exprs(c.body)).empty();
    visit_loads(c.body, [&](const FormulaLoad& f) { alone = alone && tile_of(f); });
  }
  return alone;
}

/// Statements for points that are within their axes. `body`: of the reduction, where results of lanes beyond
/// the end of an axis are nobody's.
Body StageLowering::where_held(State& state, bool body, const Inner& inner) {
  const bool whole = body && reads_copies_alone();
  Expr condition = 1;
  for (size_t g = 0; g < state.held.size(); g++) {
    const Guard& guard = state.nest.guards[g];
    if (state.held[g]) continue;
    // The guards as they were before lanes took the place of loops say what they are about.
    bool reduction = guard.reduction;
    const Guard& plain = l_.n_.stages[stage_].guards[g];
    for (auto& l : l_.n_.stages[stage_].loops)
      if (l.symbol.is_symbol() && depends_on(plain.value, l.symbol)) reduction |= folds_ && reduces(l);
    if ((!body && reduction) || (whole && !reduction)) continue;
    const Expr holds = lt(guard.value, guard.limit);
    if (prove(holds, l_.open_facts(holds)) != Truth::yes) condition = logical_and(condition, holds);
  }
  if (!body && reduced_lanes_ > 1)
    condition = logical_and(condition, eq(mod(lane_number_, reduced_lanes_), 0));
  State held = state;
  held.held.assign(held.held.size(), true);
  Body out = hole_lets(held, exprs_of(body, !body));
  append(out, inner(held));
  if (out.empty() || condition.is_constant(1)) return out;
  return {if_then(condition, std::move(out))};
}

/// The states `mine` and `theirs` of all components, combined.
std::vector<ValueRef> StageLowering::combined(Values& values, const std::vector<ValueRef>& mine,
                                              const std::vector<ValueRef>& theirs) {
  std::vector<ValueRef> both;
  if (s_.monoid) both = combine_states(values, mine, theirs);
  for (size_t c = both.size(); c < mine.size(); c++)
    both.push_back(!registers_[c] ? nullptr : apply(s_.components[c].op, {mine[c], theirs[c]}));
  return both;
}

/// Neighbouring lanes combine what they have accumulated by exchanges: lane l with lane l xor h, for h = n/2,
/// n/4, ..., 1. More lanes than exchange do so twice, by way of the group's memory.
Body StageLowering::exchange_lanes(const State& state) {
  const size_t count = s_.components.size();
  const int64_t near = std::min<int64_t>(reduced_lanes_, most_exchanging), far = reduced_lanes_ / near;
  std::vector<BufferId> others(count), parts(count);
  for (size_t c = 0; c < count; c++) {
    if (!registers_[c]) continue;
    Buffer b;
    b.name = l_.kernel_.buffers[registers_[c]].name + ".other";
    b.space = Space::registers;
    b.access = Access::scratch;
    b.dtype = s_.components[c].dtype;
    b.size = 1;
    others[c] = add_buffer(l_.kernel_, b);
    if (far == 1) continue;
    b.name = l_.kernel_.buffers[registers_[c]].name + ".lanes";
    b.space = Space::group;
    b.size = group_lanes_ / near;
    b.alignment = 16;
    parts[c] = add_buffer(l_.kernel_, std::move(b));
  }
  return each_result(cut_, state, [&](State& in) {
    Body body;
    const auto among = [&](int64_t lanes) {
      for (int64_t h = lanes / 2; h > 0; h /= 2) {
        for (size_t c = 0; c < count; c++)
          if (registers_[c]) body.push_back(exchange(others[c], 0, registers_[c], accumulator_offset(in), h));
        Values values{&body, &in, {}, {}, std::vector<ValueRef>(count)};
        std::vector<ValueRef> mine(count), theirs(count);
        for (size_t c = 0; c < count; c++) {
          if (!registers_[c]) continue;
          mine[c] = named(values, accumulator(in, c));
          theirs[c] = named(values, load(l_.kernel_, others[c], 0));
        }
        const std::vector<ValueRef> both = combined(values, mine, theirs);
        for (size_t c = 0; c < count; c++)
          if (registers_[c]) body.push_back(store(registers_[c], accumulator_offset(in), both[c]));
      }
    };
    among(near);
    if (far == 1) return body;
    const Expr lane = lane_number_, first = floordiv(lane, reduced_lanes_) * far;
    Body own;
    for (size_t c = 0; c < count; c++)
      if (parts[c]) own.push_back(store(parts[c], floordiv(lane, near), accumulator(in, c)));
    body.push_back(if_then(eq(mod(lane, near), 0), std::move(own)));
    body.push_back(barrier(1));
    for (size_t c = 0; c < count; c++)
      if (parts[c])
        body.push_back(
            store(registers_[c], accumulator_offset(in), load(l_.kernel_, parts[c], first + mod(lane, far))));
    among(far);
    body.push_back(barrier(1));
    return body;
  });
}

/// Neighbouring lanes combine what they have accumulated: lane l with lane l + h, for h = n/2, n/4, ..., 1.
Body StageLowering::combine_lanes(const State& state) {
  if (std::has_single_bit(uint64_t(reduced_lanes_)) && group_lanes_ % most_exchanging == 0)
    return exchange_lanes(state);
  std::vector<BufferId> parts(s_.components.size());
  for (size_t c = 0; c < s_.components.size(); c++) {
    if (!registers_[c]) continue;
    Buffer b;
    b.name = l_.kernel_.buffers[registers_[c]].name + ".lanes";
    b.space = Space::group;
    b.access = Access::scratch;
    b.dtype = s_.components[c].dtype;
    b.size = group_lanes_;
    b.alignment = 16;
    parts[c] = add_buffer(l_.kernel_, std::move(b));
  }
  const Expr lane = lane_number_, place = mod(lane, reduced_lanes_);
  return each_result(cut_, state, [&](State& in) {
    Body body;
    for (size_t c = 0; c < parts.size(); c++)
      if (parts[c]) body.push_back(store(parts[c], lane, accumulator(in, c)));
    body.push_back(barrier(1));
    for (int64_t h = int64_t(std::bit_ceil(uint64_t(reduced_lanes_))) / 2; h > 0; h /= 2) {
      Body step;
      Values values{&step, &in, {}, {}, std::vector<ValueRef>(s_.components.size())};
      std::vector<ValueRef> mine(parts.size()), theirs(parts.size());
      for (size_t c = 0; c < parts.size(); c++) {
        if (!parts[c]) continue;
        mine[c] = named(values, load(l_.kernel_, parts[c], lane));
        theirs[c] = named(values, load(l_.kernel_, parts[c], lane + h));
      }
      const std::vector<ValueRef> both = combined(values, mine, theirs);
      for (size_t c = 0; c < parts.size(); c++)
        if (parts[c]) step.push_back(store(parts[c], lane, both[c]));
      body.push_back(if_then(lt(place, std::min(h, reduced_lanes_ - h)), std::move(step)));
      body.push_back(barrier(1));
    }
    for (size_t c = 0; c < parts.size(); c++)
      if (parts[c])
        body.push_back(
            store(registers_[c], accumulator_offset(in), load(l_.kernel_, parts[c], lane - place)));
    body.push_back(barrier(1));
    return body;
  });
}

} // namespace luminal::kernel
