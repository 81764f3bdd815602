// schedule/lower_prefetch.cpp -- what is prefetched of its use: `prefetch`.
#include "schedule/lowering.h"
#include <algorithm>
#include <bit>

namespace luminal::kernel {

/// At the beginning of a trip of the loop, which is open.
Body StageLowering::prefetches(const State& state, const StageLoop& loop) {
  Body out;
  for (auto& p : state.nest.prefetches)
    if (p.inner == loop.name) append(out, prefetched(state, loop, p));
  // Of stages that lack the loop, by the first one that has it.
  const auto& stages = l_.n_.stages;
  const auto has_loop = [&](const StageNest& nest) { return nest.find(loop.name) != nullptr; };
  if (std::ranges::find_if(stages, has_loop) - stages.begin() != stage_.number()) return out;
  for (const StageId s : stages.ids())
    for (auto& p : stages[s].prefetches)
      if (p.inner == loop.name && !has_loop(stages[s])) append(out, StageLowering(l_, s).meanwhile(loop, p));
  return out;
}

/// The stage does not have the loop, which runs in p.loop.
Body StageLowering::meanwhile(const StageLoop& loop, const PrefetchRequest& p) {
  if (const ConeValue& value = l_.n_.cone.values[p.value]; value.role == ValueRole::interior)
    refuse("prefetch: {} lies in the kernel, {} is not a loop of stage {}", value.name, p.inner, s_.name);
  State state;
  state.nest = l_.n_.stages[stage_];
  state.within = state.nest.guards;
  for (auto& o : l_.open_)
    for (size_t i = 0; i < state.nest.loops.size(); i++) // known here to have one trip
      if (const StageLoop& l = state.nest.loops[i]; l.name == o.name && l.symbol != o.symbol)
        fix_loop(state, i, o.symbol);
  if (!l_.is_open(p.loop)) refuse("prefetch: loop {} does not run in loop {}", p.inner, p.loop);
  // Places in equal steps are one more loop: what lies between them is asked for once.
  const std::vector<Expr> places = prefetched_places(state, loop, p);
  std::optional<int64_t> step;
  for (size_t i = 1; i < places.size(); i++) {
    const Expr apart = places[i] - places[i - 1];
    if (!apart.is_constant() || apart.value() < 1 || apart.value() != step.value_or(apart.value())) {
      step = {};
      break;
    }
    step = apart.value();
  }
  if (step) return distributed_over(state, loop, p, places[0], {{*step, int64_t(places.size())}});
  Body out;
  for (Expr offset : places) append(out, distributed_over(state, loop, p, offset));
  return out;
}

/// Where the stage will touch the value, one place for each line that is known to be another one.
std::vector<Expr> StageLowering::prefetched_places(const State& state, const StageLoop& loop,
                                                   const PrefetchRequest& p) const {
  const StageLoop* far = state.nest.find(p.loop);
  if (!far) refuse("prefetch: stage {} has no loop {} any more", s_.name, p.loop);
  if (!far->symbol.is_symbol()) return {}; // one trip
  if (far->name != loop.name && !unopened(state, far->symbol).empty())
    refuse("prefetch: loop {} is not outside of {}", p.loop, p.inner);
  std::vector<Expr> offsets;
  const ConeValue& value = l_.n_.cone.values[p.value];
  const int64_t line = 512 / bits(value.dtype);
  const auto touches = [&](const std::vector<Expr>& index) {
    const Expr offset = offset_of(state, p.value, index);
    for (Expr known : offsets)
      if (const Expr apart = offset - known; apart.is_constant() && std::abs(apart.value()) < line) return;
    offsets.push_back(offset);
  };
  const auto loads = [&](const FormulaLoad& f) {
    if (f.value == p.value) touches(f.index);
  };
  for (auto& c : s_.components) {
    visit_loads(c.body, loads);
    if (!reduces(loop)) visit_loads(c.init, loads); // a sum begins once
    if (c.out == p.value) touches(c.index);
  }
  if (offsets.empty()) refuse("prefetch: stage {} does not touch {}", s_.name, value.name);
  std::erase_if(offsets, [&](Expr e) { return !holes_of(l_.n_.cone, std::span(&e, 1)).empty(); });
  for (Expr& offset : offsets) {
    // The place may lie beyond the last trip, where the loop's own variable never is.
    std::optional<Expr> step = coefficient_of(offset, far->symbol);
    if (!step) refuse("prefetch: {} is not read in equal steps along {}", value.name, far->name);
    offset = offset + *step * Expr(p.distance);
  }
  return offsets;
}

Body StageLowering::prefetched(const State& state, const StageLoop& loop, const PrefetchRequest& p) {
  Body out;
  const int64_t line = 512 / bits(l_.n_.cone.values[p.value].dtype);
  for (Expr offset : prefetched_places(state, loop, p)) {
    Body here;
    std::vector<const StageLoop*> rows;
    int64_t more_lines = 0; // of the lanes of one vector, behind the first one's
    for (auto* l : unopened(state, offset)) {
      const std::optional<Expr> apart = coefficient_of(offset, l->symbol);
      const bool known = apart && apart->is_constant() && l->extent.is_constant();
      const int64_t steps = known ? std::abs(apart->value()) : 0;
      const bool one_line = known && steps * (l->extent.value() - 1) < line; // the first place asks for all
      const bool lines = l->kind == LoopKind::vector && steps >= line;       // of lanes: one for each
      if ((lines || (l->kind == LoopKind::unrolled && !one_line)) && (!reduces(*l) || p.inner != p.loop))
        rows.push_back(l);
      else if (l->kind == LoopKind::vector && steps > 0 && apart->value() > 0)
        more_lines = (steps * l->extent.value() - 1) / line;
    }
    // Several trips meet the same lines of several rows.
    const std::optional<Expr> along = coefficient_of(offset, loop.symbol);
    const bool near = p.inner != p.loop && !rows.empty() && along && along->is_constant() &&
                      along->value() > 0 && along->value() < line;
    if (near || !p.all.empty()) {
      append(out, distributed_over(state, loop, p, offset));
      continue;
    }
    State inside = state;
    for (auto* l : rows) inside.opened.insert(l->symbol);
    for (int64_t n = 0; n <= more_lines; n++)
      here.push_back(prefetch(l_.places_[p.value].buffer, at_first(inside, offset + n * line)));
    for (size_t r = rows.size(); r-- > 0;)
      here = {kernel::loop(LoopKind::unrolled, rows[r]->symbol, 0, rows[r]->extent, std::move(here))};
    append(out, std::move(here));
  }
  return out;
}

/// All lines in which the offset lies in the loop's trips, in the loops that are not open yet and
/// in `rows` (step and count of each), in order of their addresses: each trip asks for its share.
/// (Asked for at once they would fill the queue of loads that wait for memory.)
Body StageLowering::distributed_over(const State& state, const StageLoop& loop, const PrefetchRequest& p,
                                     Expr offset, std::vector<std::pair<int64_t, int64_t>> rows) const {
  std::vector<const StageLoop*> loops = unopened(state, offset);
  if (depends_on(offset, loop.symbol)) loops.push_back(&loop);
  for (auto* l : loops) {
    const std::optional<Expr> step = coefficient_of(offset, l->symbol);
    if (!step || !step->is_constant() || step->value() < 1 || !l->extent.is_constant()) return {};
    rows.emplace_back(step->value(), l->extent.value());
    offset = substitute(offset, {{l->symbol, 0}});
  }
  std::ranges::sort(rows);
  const int64_t line = 512 / bits(l_.n_.cone.values[p.value].dtype);
  int64_t together = 1; // elements from the first to the last of one piece without a gap of a line
  size_t inside = 0;
  for (; inside < rows.size() && rows[inside].first < together + line; inside++)
    together += rows[inside].first * (rows[inside].second - 1);
  rows.erase(rows.begin(), rows.begin() + int64_t(inside));
  rows.insert(rows.begin(), {line, (together + line - 1) / line});
  int64_t lines = 1;
  for (auto& [step, count] : rows) lines *= count;
  // The trips of this loop, and of those around it that no other stage has, until a trip asks for
  // one line, or all of them.
  Expr trip = 0;
  int64_t trips = 1;
  for (size_t i = l_.open_.size(); i-- > 0 && (trips < lines || !p.all.empty());) {
    const OpenLoop& o = l_.open_[i];
    if (std::ranges::find(state.nest.loops, o.name, &StageLoop::block_loop) != state.nest.loops.end())
      continue; // over blocks of a loop's trips (blocked_sum)
    const bool own = std::ranges::count_if(l_.n_.stages, [&](auto& nest) { return nest.find(o.name); }) == 1;
    const bool known = o.extent.is_constant() || (o.name == p.all && o.extent.range().is_bounded());
    if (o.name != loop.name && (!own || o.name == p.loop || !known)) break;
    if (!known) return {};
    if (o.extent.is_constant(1) && o.name != p.all) continue;
    trip =
        trip + (o.symbol.is_symbol() ? o.symbol : o.begin) * trips; // (one trip may have a body of its own)
    trips *= o.extent.range().high;
    if (o.name == p.all) break;
  }
  const int64_t each = (lines + trips - 1) / trips;
  // (Steps of a tile unit ask for what their words do: a power of two of them has one line.)
  const int64_t shared = l_.n_.tile_units.empty() ? 1 : int64_t(std::bit_floor(uint64_t(trips / lines)));
  Body out;
  for (int64_t i = 0; i < each; i++) {
    Expr place = trip * each + i, at = offset;
    if (lines < trips) place = shared > 1 ? floordiv(trip, shared) : floordiv(trip * lines, trips);
    for (auto& [step, count] : rows) {
      at = at + mod(place, count) * step;
      place = floordiv(place, count);
    }
    out.push_back(prefetch(l_.places_[p.value].buffer, at));
  }
  return out;
}

} // namespace luminal::kernel
