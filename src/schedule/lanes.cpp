// schedule/lanes.cpp -- directives for groups of lanes that work together, and which nests groups can run.
#include "base/contains.h"
#include "cone/formula.h"
#include "loop/unit.h"
#include "schedule/nest.h"
#include <algorithm>

namespace luminal::kernel {

namespace {
constexpr int64_t most_lanes = 1024; // of a group, on every device that has groups
constexpr int64_t most_tiles = 8;    // of one operand
} // namespace

void distribute_over_lanes(Nests& nests, const Directive& d) {
  for (size_t i = 1; i < d.words.size(); i++) {
    bool any = false;
    if (d.words[0] != "*") nests.stage(d.words[0]);
    for (const StageId s : nests.stages.ids()) {
      const Stage& stage = nests.cone.stages[s];
      StageLoop* loop = nests.stages[s].find(d.words[i]);
      if ((d.words[0] != "*" && stage.name != d.words[0]) || !loop) continue;
      any = true;
      if (!loop->extent.is_constant())
        refuse("loop {} has {} trips, which is not a constant: lanes are counted when the code is made",
               loop->name, luminal::to_string(loop->extent));
      if (loop->extent.value() < 1 || loop->extent.value() > most_lanes)
        refuse("loop {} has {} trips: a group has between 1 and {} lanes", loop->name, loop->extent.value(),
               most_lanes);
      for (AxisId a : stage.ordered)
        if (depends_on_loop(nests.stages[s], nests.cone.axes[a].symbol, *loop))
          refuse("loop {} of stage {} keeps its order and cannot be distributed over lanes", loop->name,
                 stage.name);
      loop->kind = LoopKind::parallel;
      loop->level = 1;
      loop->lane = true;
    }
    if (!any) refuse("{} has no loop {}", d.words[0] == "*" ? "no stage" : "stage " + d.words[0], d.words[i]);
  }
}

void group_copy(Nests& nests, const Directive& d) {
  const std::string &stage = d.words[0], &value = d.words[1], &loop = d.words[2];
  const int64_t tiles = d.numbers.empty() ? 1 : d.numbers[0];
  StageNest& nest = nests.stages[nests.stage(stage)];
  const ValueId v = nests.value(value);
  if (!nest.find(loop)) refuse("stage {} has no loop {}", stage, loop);
  if (nests.cone.values[v].role == ValueRole::interior)
    refuse("{} is made in this kernel: it lies in the group's memory already", value);
  if (!contains(nests.readers(v), nests.stage(stage))) refuse("stage {} does not read {}", stage, value);
  if (tiles < 1 || tiles > most_tiles)
    refuse("{} has {} tiles in the group's memory: 1 to {} are possible", value, tiles, most_tiles);
  for (const GroupCopy& other : nest.group_copies)
    if (other.loop == loop && other.tiles != tiles)
      refuse("copies in loop {} have {} and {} tiles", loop, other.tiles, tiles);
  nest.group_copies.push_back({v, loop, int(tiles)});
}

void use_lane_unit(Nests& nests, const Directive& d) {
  StageNest& nest = nests.stages[nests.stage(d.words[0])];
  const auto unit = find_unit(d.words[1]);
  if (!unit || unit->lanes == 1) refuse("{} is not a unit of several lanes", d.words[1]);
  const int64_t extents[] = {unit->m, unit->n, unit->k};
  for (size_t i = 0; i < 3; i++) {
    StageLoop* loop = nest.find(d.words[i + 2]);
    if (!loop) refuse("stage {} has no loop {}", d.words[0], d.words[i + 2]);
    if (!loop->extent.is_constant(extents[i]))
      refuse("loop {} has {} trips, {} takes {}", loop->name, luminal::to_string(loop->extent), unit->name,
             extents[i]);
    loop->kind = LoopKind::unrolled;
  }
  nest.lane_unit = LaneUnit{unit->name, d.words[2], d.words[3], d.words[4]};
}

int64_t unit_lanes(const StageNest& nest) {
  return nest.lane_unit ? find_unit(nest.lane_unit->unit)->lanes : 1;
}

bool in_groups(const Nests& nests) {
  return std::ranges::any_of(nests.stages, [](const StageNest& nest) {
    return nest.lane_unit || !nest.group_copies.empty() || std::ranges::any_of(nest.loops, &StageLoop::lane);
  });
}

namespace {

/// Loops of one stage: the group's, then those of each lane.
void check_loops(const Nests& nests, StageId s, const Groups& groups) {
  const Stage& stage = nests.cone.stages[s];
  const StageNest& nest = nests.stages[s];
  bool reduction = false; // a loop of the reduction is open
  for (const StageLoop& loop : nest.loops) {
    if (!loop.symbol.is_symbol() || loop.name == groups.loop) continue;
    if (loop.kind == LoopKind::parallel && !loop.lane)
      refuse("stage {}: loop {} is parallel; the groups are trips of one outermost loop (`merge` makes one)",
             stage.name, loop.name);
    if (loop.kind == LoopKind::vector)
      refuse("stage {}: loop {} is a vector loop, and lanes of a group act one by one", stage.name,
             loop.name);
    const bool folds =
        std::ranges::any_of(stage.components, [](auto& c) { return c.kind == ComponentKind::fold; });
    const bool reduces_here = folds && reduces(nests.cone, stage, nest, loop);
    if (loop.kind == LoopKind::serial && !reduces_here && reduction)
      refuse("stage {}: loop {} of the results stands inside of the reduction", stage.name, loop.name);
    reduction |= reduces_here && !loop.lane;
  }
  for (const Component& c : stage.components) {
    if (c.kind == ComponentKind::scan) refuse("stage {} is a scan: lanes do not take turns", stage.name);
    if (c.kind == ComponentKind::update)
      refuse("stage {} updates {}: lanes do not take turns", stage.name, nests.cone.values[c.out].name);
  }
  if (!nest.together.empty())
    refuse("stage {} takes turns with others in loop {}: groups run stages one after the other", stage.name,
           nest.together);
}

/// Lanes that the stage needs; lanes of the reduction are the innermost ones, so that they are neighbours.
int64_t lanes_of(const Nests& nests, StageId s) {
  const Stage& stage = nests.cone.stages[s];
  const StageNest& nest = nests.stages[s];
  int64_t lanes = unit_lanes(nest);
  bool reduction = false;
  for (const StageLoop& loop : nest.loops) {
    if (!loop.lane) continue;
    const bool here = loop.symbol.is_symbol() && reduces(nests.cone, stage, nest, loop);
    if (reduction && !here && loop.symbol.is_symbol())
      refuse("stage {}: the lanes of loop {} stand inside of lanes of the reduction", stage.name, loop.name);
    reduction |= here;
    lanes *= loop.extent.value();
    if (lanes > most_lanes)
      refuse("stage {} has {} lanes: a group has between 1 and {}", stage.name, lanes, most_lanes);
  }
  return lanes;
}

} // namespace

Groups groups_of(const Nests& nests) {
  Groups groups;
  const auto of_groups = [](const StageNest& nest) {
    return !nest.loops.empty() && nest.loops[0].kind == LoopKind::parallel && !nest.loops[0].lane;
  };
  if (of_groups(nests.stages.front())) {
    const StageLoop& loop = nests.stages.front().loops[0];
    groups.loop = loop.name, groups.symbol = loop.symbol, groups.extent = loop.extent;
  }
  for (const StageId s : nests.stages.ids()) {
    const Stage& stage = nests.cone.stages[s];
    const StageNest& nest = nests.stages[s];
    if (of_groups(nest) == groups.loop.empty())
      refuse("stage {}: its outermost loop is not the loop of the groups of stage {}", stage.name,
             nests.cone.stages.front().name);
    if (!groups.loop.empty()) {
      const StageLoop& own = nest.loops[0];
      if (own.level != 0) refuse("stage {}: the loop {} of the groups has level 0", stage.name, own.name);
      if (own.name != groups.loop || own.symbol != groups.symbol || own.extent != groups.extent)
        refuse("stage {}: loop {} is not the loop {} of the groups of stage {}", stage.name, own.name,
               groups.loop, nests.cone.stages.front().name);
      if (reduces(nests.cone, stage, nest, own))
        refuse("stage {}: loop {} is part of the reduction and cannot be parallel (split_reduction makes "
               "independent parts)",
               stage.name, own.name);
    }
    check_loops(nests, s, groups);
    groups.lanes = std::max(groups.lanes, lanes_of(nests, s));
  }
  if (!nests.predicate_splits.empty() || !nests.roles.empty())
    refuse("loops of groups have no parts and no roles");
  return groups;
}

} // namespace luminal::kernel
