// schedule/lower_lanes.cpp -- lanes beyond the end of an axis that may run: a stage that touches
// nothing but scratch with them needs no second body.
#include "schedule/lowering.h"
#include <algorithm>

namespace luminal::kernel {

namespace {

bool reads_with(const std::vector<Expr>& exprs, Expr lane) {
  return std::ranges::any_of(exprs, [&](Expr e) { return depends_on(e, lane); });
}

} // namespace

/// The vector loop that alone reaches beyond the end of an axis.
const StageLoop* StageLowering::lane_end(const State& state, const Guard& guard) const {
  auto loops = unopened(state, guard.value);
  const bool lanes = loops.size() == 1 && loops[0]->kind == LoopKind::vector && !reduces(*loops[0]);
  return lanes ? loops[0] : nullptr;
}

void StageLowering::note_lanes(const State& state, size_t g, Expr lane) const {
  LaneUse& use = l_.lane_uses_[stage_];
  use.ends.insert(g);
  const Cone& cone = l_.n_.cone;
  // Is the element the stage's own scratch, whatever lane it is?
  auto inside = [&](ValueId value, const std::vector<Expr>& index) {
    if (!value || cone.values[value].role != ValueRole::interior) return false;
    const Place& place = l_.places_[value];
    for (size_t d = 0; d < index.size(); d++) {
      const Expr at = value_at(state, index[d]) - place.base[d];
      if (!depends_on(at, lane)) continue;
      if (prove(le(0, at)) != Truth::yes || prove(lt(at, place.extents[d])) != Truth::yes) return false;
    }
    return true;
  };
  bool own = holes_of(cone, s_).empty();
  for (auto& c : s_.components) {
    own = own && (c.kind == ComponentKind::map || c.kind == ComponentKind::fold);
    if (!c.out) continue;
    own = own && inside(c.out, c.index);
    use.writes.insert(c.out);
  }
  bool runs = own;
  visit_loads(s_, [&](const FormulaLoad& f) {
    std::vector<Expr> at;
    for (Expr e : f.index) at.push_back(value_at(state, e));
    if (!reads_with(at, lane)) return;
    runs = runs && inside(f.value, f.index);
    use.reads.insert(f.value);
    for (size_t d = 0; d < at.size(); d++)
      if (depends_on(at[d], lane)) l_.lane_dims_[f.value].insert(d);
  });
  use.runs = use.runs && runs;
  use.fills = use.fills && own && !folds_;
}

/// Zeros for the lanes that a copy leaves out.
Body StageLowering::zeros(State state) {
  state.held.assign(state.held.size(), true);
  return nest_of(
      cut_, std::move(state), [](const StageLoop&) { return true; }, {},
      [&](State& in) {
        Body b;
        for (auto& c : s_.components)
          b.push_back(store(l_.places_[c.out].buffer, offset_of(in, c.out, c.index),
                            is_float(c.dtype) ? constant(c.dtype, 0) : index(Expr(0), c.dtype)));
        return b;
      });
}

IdVector<StageId, Lanes> Lowering::lanes_that_run() const {
  // Ends of axes that are not ends of lanes: what a stage leaves out there, others may not read by
  // lane.
  auto ends = [&](StageId s, const std::function<bool(Expr)>& of_interest) {
    const StageNest& nest = n_.stages[s];
    for (size_t g = 0; g < nest.guards.size(); g++) {
      const Guard& guard = nest.guards[g];
      bool counts = false, reduction = guard.reduction;
      for (auto& l : nest.loops)
        if (l.symbol.is_symbol() && depends_on(guard.value, l.symbol)) {
          reduction |= reduces(n_.cone, n_.cone.stages[s], nest, l);
          counts |= of_interest(l.symbol);
        }
      if (counts && !reduction && !lane_uses_[s].ends.contains(g) &&
          prove(lt(guard.value, guard.limit)) != Truth::yes)
        return true;
    }
    return false;
  };
  // Does it write all that others may read of the value by lane?
  auto complete = [&](StageId s, const Component& c) {
    const auto dims = lane_dims_.find(c.out);
    if (dims == lane_dims_.end()) return true;
    return !ends(s, [&](Expr loop) {
      return std::ranges::any_of(dims->second, [&](size_t d) {
        return depends_on(substitute(c.index[d], n_.stages[s].axis_values), loop);
      });
    });
  };
  IdVector<StageId, Lanes> lanes(n_.stages.size(), Lanes::masked);
  std::set<ValueId> whole; // values of which every lane is written
  for (const ValueId v : n_.cone.values.ids())
    if (n_.cone.values[v].role == ValueRole::interior) whole.insert(v);
  for (bool changed = true; changed;) {
    changed = false;
    for (const StageId s : n_.stages.ids()) {
      const LaneUse& use = lane_uses_[s];
      const bool runs = use.runs && std::ranges::includes(whole, use.reads);
      const bool fills = use.fills && !ends(s, [](Expr) { return true; });
      lanes[s] = runs ? Lanes::whole : fills ? Lanes::filled : Lanes::masked;
      for (auto& c : n_.cone.stages[s].components)
        if (c.out && (lanes[s] == Lanes::masked || !complete(s, c))) changed |= whole.erase(c.out) > 0;
    }
  }
  // Zeros are for somebody who reads them.
  std::set<ValueId> read;
  for (const StageId s : n_.stages.ids()) {
    if (lane_uses_[s].ends.empty()) lanes[s] = Lanes::masked;
    if (lanes[s] == Lanes::whole) read.insert(lane_uses_[s].reads.begin(), lane_uses_[s].reads.end());
  }
  for (const StageId s : n_.stages.ids())
    if (lanes[s] == Lanes::filled &&
        std::ranges::none_of(lane_uses_[s].writes, [&](ValueId v) { return read.contains(v); }))
      lanes[s] = Lanes::masked;
  return lanes;
}

} // namespace luminal::kernel
