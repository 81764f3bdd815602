// schedule/lower_analysis.cpp -- what is known of a stage before its loops are made: which loops are
// those of its tile, how its folds go on from trip to trip, where its accumulators lie.
#include "base/contains.h"
#include "schedule/lowering.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

bool accumulates(const Component& c) {
  return c.kind == ComponentKind::fold || c.kind == ComponentKind::scan;
}

} // namespace

void StageLowering::analyse() {
  find_folds();
  divide_loops();
  const StageLoop* lane = find_lane();
  check_lane(lane);
  check_scan(lane);
  find_carried();
  const int64_t size = place_accumulators();
  registers_.assign(s_.components.size(), {});
  if (folds_) make_accumulators(size, lane);
}

void StageLowering::find_folds() {
  std::optional<std::vector<AxisId>> axes;
  for (auto& c : s_.components) {
    if (!accumulates(c)) continue;
    folds_ = true;
    if (axes && *axes != c.axes && !s_.scan_axis)
      refuse("stage {}: its components run over different axes; `cascade {} LOOP` makes a stage of each",
             s_.name, s_.name);
    axes = c.axes;
  }
}

/// Loops that are not open: the outer ones end with the last that is neither of a tile nor reduced.
void StageLowering::divide_loops() {
  const StageNest& nest = l_.n_.stages[stage_];
  for (size_t i = 0; i < nest.loops.size(); i++) {
    const StageLoop& l = nest.loops[i];
    if (l_.is_open(l.name)) continue;
    rest_.push_back(i);
    if (l.kind == LoopKind::parallel && l.symbol.is_symbol() && reduces(l))
      refuse("stage {}: loop {} is part of the reduction and cannot be parallel (split_reduction makes "
             "independent parts)",
             s_.name, l.name);
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
}

/// The tile's vector loop, or null; notes which of the tile's loops hold parts of a reduction.
const StageLoop* StageLowering::find_lane() {
  const StageNest& nest = l_.n_.stages[stage_];
  const StageLoop* lane = nullptr;
  for (size_t i = cut_; i < rest_.size(); i++) {
    const StageLoop& l = nest.loops[rest_[i]];
    if (!l.symbol.is_symbol()) continue;
    if (l.kind == LoopKind::vector) lane = &l, across_ = folds_ && reduces(l);
    if (l.kind == LoopKind::unrolled && folds_ && reduces(l) && !s_.monoid) partial_ = true;
  }
  return lane;
}

void StageLowering::check_lane(const StageLoop* lane) const {
  if (!lane) return;
  if (across_) {
    if (s_.monoid && !scans_in_lanes(s_))
      refuse("stage {}: lanes of loop {} hold states of a tuple, which cannot be combined; cascade it first",
             s_.name, lane->name);
    for (auto& c : s_.components)
      if (c.kind == ComponentKind::fold && c.op != Op::add && c.op != Op::max && c.op != Op::min &&
          c.op != Op::mul)
        refuse("stage {}: lanes cannot be combined by {}", s_.name, row(c.op).name);
  }
  const StageNest& nest = l_.n_.stages[stage_];
  for (auto& c : s_.components)
    if (c.kind == ComponentKind::update &&
        depends_on(luminal::substitute(s_.domain, nest.axis_values), lane->symbol))
      refuse("stage {}: its domain varies along the vector loop {}", s_.name, lane->name);
}

void StageLowering::check_scan(const StageLoop* lane) const {
  if (!s_.scan_axis) return;
  const StageNest& nest = l_.n_.stages[stage_];
  if (lane && !across_)
    for (auto& c : s_.components)
      for (AxisId a : s_.axes)
        if (!contains(c.axes, a) && depends_on_loop(nest, l_.n_.cone.axes[a].symbol, *lane))
          refuse("stage {}: all lanes of loop {} would write the same result", s_.name, lane->name);
  for (size_t i = 0; i < nest.loops.size(); i++) {
    const StageLoop& l = nest.loops[i];
    if (!l.symbol.is_symbol() || !reduces(l)) continue;
    if (l_.is_open(l.name))
      refuse("stage {}: other stages cannot run inside of the scan along {}", s_.name, l.name);
    for (size_t r = 0; r < cut_; r++)
      if (rest_[r] == i)
        refuse("stage {}: a serial loop stands inside of the scan along {}", s_.name, l.name);
  }
}

/// Reduction loops outside of the tile: the accumulator goes on from trip to trip. (The tiles of a
/// cascade begin from the state: that is their `init`.)
void StageLowering::find_carried() {
  const StageNest& nest = l_.n_.stages[stage_];
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
}

/// Strides of the accumulators in their registers: one place for each unrolled loop and lane. How
/// many places there are.
int64_t StageLowering::place_accumulators() {
  const StageNest& nest = l_.n_.stages[stage_];
  strides_.assign(nest.loops.size(), 0);
  int64_t size = 1;
  for (size_t i = rest_.size(); i-- > cut_;) {
    const StageLoop& l = nest.loops[rest_[i]];
    if (l.kind != LoopKind::vector || !l.symbol.is_symbol() || !indexes_accumulator(l)) continue;
    strides_[rest_[i]] = 1;
    size = l.extent.value();
  }
  for (size_t i = rest_.size(); i-- > cut_;) {
    const StageLoop& l = nest.loops[rest_[i]];
    if (l.kind != LoopKind::unrolled || !l.symbol.is_symbol() || !indexes_accumulator(l)) continue;
    strides_[rest_[i]] = size;
    size *= l.extent.value();
  }
  return size;
}

void StageLowering::make_accumulators(int64_t size, const StageLoop* lane) {
  if (size > 1 << 14) refuse("stage {}: {} accumulators are more than registers can hold", s_.name, size);
  const StageNest& nest = l_.n_.stages[stage_];
  // Lanes beyond the end of a part have no element, but a sum.
  const bool dead_lanes_count = across_ || (lane && std::ranges::any_of(nest.guards, [&](const Guard& g) {
                                              return g.reduction && depends_on(g.value, lane->symbol);
                                            }));
  const auto buffers = [&](const std::string& suffix) {
    std::vector<BufferId> made;
    for (size_t c = 0; c < s_.components.size(); c++) {
      if (!accumulates(s_.components[c])) {
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
  if (loop.kind == LoopKind::vector) return !(across_ && s_.scan_axis); // a scan goes on from one state
  return loop.kind == LoopKind::unrolled && (partial_ || !folds_ || !reduces(loop));
}

} // namespace luminal::kernel
