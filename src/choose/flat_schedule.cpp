// choose/flat_schedule.cpp -- one parallel loop for each stage.
#include "choose/flat_schedule.h"
#include "base/contains.h"
#include "schedule/lower.h"
#include "schedule/nest.h"
#include <fmt/format.h>

namespace luminal::kernel {
std::vector<AxisId> independent_axes(const Stage& stage) {
  std::vector<AxisId> axes;
  for (const AxisId axis : stage.axes) {
    bool kept = axis != stage.scan_axis && !contains(stage.ordered, axis);
    for (const Component& c : stage.components)
      kept &= c.kind == ComponentKind::update || contains(c.axes, axis);
    if (kept) axes.push_back(axis);
  }
  return axes;
}

namespace {

std::string free_name(const Cone& cone, std::string name) {
  const auto taken = [&] {
    return std::ranges::any_of(cone.axes, [&](const ConeAxis& a) { return a.name == name; }) ||
           std::ranges::any_of(cone.values, [&](const ConeValue& v) { return v.name == name; }) ||
           std::ranges::any_of(cone.symbols, [&](Expr s) { return s.name() == name; }) ||
           std::ranges::any_of(cone.holes, [&](const ConeHole& h) { return h.symbol.name() == name; });
  };
  while (taken()) name += "_";
  return name;
}

/// How many of the independent axes become one loop.
Schedule distributed(const Cone& cone, const Stage& stage, size_t number, size_t most) {
  Schedule schedule;
  std::vector<AxisId> outer = independent_axes(stage);
  if (outer.size() > most) outer.resize(most);
  if (outer.empty()) return schedule;
  const auto name = [&](AxisId axis) { return cone.axes[axis].name; };
  std::vector<std::string> order{stage.name};
  for (const AxisId axis : outer) order.push_back(name(axis));
  for (const AxisId axis : stage.axes)
    if (!contains(outer, axis)) order.push_back(name(axis));
  schedule.add(DirectiveKind::order, order);
  std::string loop = name(outer[0]);
  if (outer.size() > 1) {
    const std::string merged = free_name(cone, fmt::format("w{}", number));
    for (size_t i = 1; i < outer.size(); ++i) {
      schedule.add(DirectiveKind::merge, {stage.name, loop, name(outer[i]), merged});
      loop = merged;
    }
  }
  schedule.add(DirectiveKind::parallel, {stage.name, loop});
  return schedule;
}

Schedule joined(const Schedule& a, const Schedule& b) {
  Schedule both = a;
  both.directives.insert(both.directives.end(), b.directives.begin(), b.directives.end());
  return both;
}

} // namespace

Schedule fused_stages(const Cone& cone) {
  Schedule schedule;
  const auto is_legal = [&](const Schedule& with) { return lower(cone, with).ok(); };
  // A tuple over different axes becomes plain folds one after the other.
  if (!is_legal(schedule))
    for (const Stage& stage : cone.stages)
      if (stage.monoid && !stage.scan_axis) schedule.add(DirectiveKind::cascade, {stage.name, "root"});
  if (!is_legal(schedule)) return schedule;
  // Maps on a finished fold, and maps on maps, join the stage before them where they can.
  for (StageId s(0);;) {
    const Cone present = apply(cone, schedule).cone;
    if (!present.stages.has(s + 1)) break;
    Schedule with = schedule;
    with.add(DirectiveKind::fuse, {present.stages[s].name, present.stages[s + 1].name});
    if (is_legal(with))
      schedule = std::move(with);
    else
      ++s;
  }
  return schedule;
}

DefaultKernel flat_kernel(const Cone& cone) {
  Schedule schedule = fused_stages(cone);
  const auto is_legal = [&](const Schedule& with) { return lower(cone, with).ok(); };
  if (Result<Kernel> kernel = lower(cone, schedule); !kernel) return {std::move(schedule), std::move(kernel)};
  const Cone present = apply(cone, schedule).cone;
  for (const StageId s : present.stages.ids())
    // Fewer axes where all of them are not legal: an inner one without elements, a tail of its own.
    for (size_t most = independent_axes(present.stages[s]).size(); most > 0; --most) {
      Schedule with = joined(schedule, distributed(present, present.stages[s], s.index(), most));
      if (!is_legal(with)) continue;
      schedule = std::move(with);
      break;
    }
  Result<Kernel> kernel = lower(cone, schedule);
  return {std::move(schedule), std::move(kernel)};
}

} // namespace luminal::kernel
