// compile/plan_kernels.cpp -- the distinct kernels of a plan, their schedules and loops.
#include "compile/custom_kernel.h"
#include "compile/pass_list.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::compile {
namespace {

/// Equal cones of different layers share one kernel, whatever their names; dimensions are
/// arguments, so they count.
Hash128 cone_key(const kernel::CanonicalCone& cone) {
  Hasher h;
  h.add(structural_hash128(cone.cone));
  for (const auto& [canonical, given] : cone.dimensions) h.add(given.name());
  return h.value128();
}

/// Every result has no elements, at any sizes.
bool writes_nothing(const kernel::Cone& cone) {
  return std::all_of(cone.values.begin(), cone.values.end(), [](const kernel::ConeValue& value) {
    const bool empty =
        std::any_of(value.shape.begin(), value.shape.end(), [](Expr e) { return e.is_constant(0); });
    return value.role == kernel::ValueRole::output ? empty : value.role != kernel::ValueRole::inout;
  });
}

/// Points of all stages; unbounded products are cut off, since only small numbers matter.
Expr points_of(const kernel::Cone& cone) {
  Expr total = 0;
  for (const auto& stage : cone.stages) {
    Expr points = 1;
    for (const kernel::AxisId axis : stage.axes)
      points = min(points * cone.axes[axis].extent, int64_t(1) << 31);
    total += points;
  }
  return total;
}

/// Gives the kernels of a part of a function their numbers, in the order in which steps stand.
class Numbering {
public:
  explicit Numbering(PlanState& state) : state_(state) {}

  Result<void> run(FunctionPlan& f) {
    if (f.load)
      if (auto done = run(f, *f.load); !done) return done;
    return run(f, f.step);
  }

private:
  Result<void> run(FunctionPlan& f, Section& section) {
    for (int a : section.order) {
      Action& action = section.actions[size_t(a)];
      for (NodeId id : action.boundary ? action.roots : action.checked)
        if (const auto inner = f.inner.find(id); inner != f.inner.end())
          for (FunctionPlan* function : inner->second)
            if (function)
              if (auto done = run(*function); !done) return done;
      if (!action.boundary) {
        if (!writes_nothing(*action.cone)) number(f, action);
      } else if (auto done = number_boundary(*f.function, action); !done) {
        return done;
      }
    }
    return {};
  }

  Result<void> number_boundary(const Function& f, Action& action) {
    const Node& node = f[action.roots[0]];
    if (const auto* attr = std::get_if<CollectiveAttr>(&node.attr))
      return Failure{
          fmt::format("{} over the group {}: the other members are other processes, and the device "
                      "cpu runs plans of one; a group of one member (\"{}:1\") runs",
                      attr->kind, attr->group, attr->group.substr(0, attr->group.rfind(':')))};
    if (node.kind != NodeKind::custom) return {};
    auto kernel = custom_kernel(state_, f, action.roots[0]);
    if (!kernel) return kernel.failure();
    action.kernel = *kernel;
    return {};
  }

  void number(const FunctionPlan& f, Action& action) {
    if (action.kernel) return;
    if (auto found = state_.kernel_by_shape.find(action.shape); found != state_.kernel_by_shape.end()) {
      action.kernel = found->second;
      return;
    }
    const runtime::CodeId fresh = state_.kernels.end_id();
    kernel::Cone named = *action.cone;
    named.name = fmt::format("k{}", fresh);
    kernel::CanonicalCone canonical = kernel::canonical(named);
    const auto [found, is_new] = state_.kernel_by_cone.try_emplace(cone_key(canonical), fresh);
    action.kernel = state_.kernel_by_shape[action.shape] = found->second;
    if (!is_new) return;
    runtime::KernelCode code;
    code.name = named.name;
    code.points = points_of(named);
    for (const kernel::ConeValue& value : named.values)
      if (value.role != kernel::ValueRole::interior)
        code.writes.push_back(value.role != kernel::ValueRole::input);
    state_.plan.kernels.push_back(std::move(code));
    state_.kernels.emplace_back();
    state_.distinct.push_back({&f, action.roots, std::move(named), std::move(canonical), fresh});
  }

  PlanState& state_;
};

} // namespace

Result<void> find_distinct(PlanState& state) { return Numbering(state).run(state.entry()); }

Result<void> choose_schedules(PlanState& state) {
  for (const DistinctKernel& kernel : state.distinct) {
    runtime::KernelCode& code = state.plan.kernels[kernel.number];
    auto made = state.planner.choose({&state.module, kernel.function->counters, kernel.function->function,
                                      kernel.roots, &kernel.given, &kernel.canonical},
                                     code.points);
    if (!made) return made.failure();
    code.caps = made->caps;
    code.point_ns = made->point_ns;
    state.kernels[kernel.number] = std::move(*made);
  }
  return {};
}

Result<void> lower_schedules(PlanState& state) {
  for (const DistinctKernel& kernel : state.distinct) {
    PlannedKernel& made = state.kernels[kernel.number];
    if (auto done = state.planner.lower(kernel.given, kernel.canonical, made); !done) return done;
    made.loops.name = kernel.given.name;
    for (const Expr symbol : made.loops.symbols)
      state.plan.kernels[kernel.number].symbols.push_back(kernel.canonical.dimensions.at(symbol));
  }
  return {};
}

} // namespace luminal::compile
