// cone/cone_digits.cpp -- axes of maps are cut where they read folds of the same kernel by blocks.
#include "base/contains.h"
#include "cone/cone_build.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

/// An axis of a map that reads a fold's result at axis / size, and the fold's axis there.
struct Digits {
  AxisId axis, outer;
  int64_t size;
};

std::optional<Digits> digits_of(const Cone& cone, const Stage& map) {
  std::optional<Digits> found;
  visit_loads(map, [&](const FormulaLoad& load) {
    const ConeValue& value = cone.values[load.value];
    if (value.role == ValueRole::input || value.axes.size() != load.index.size()) return;
    for (size_t d = 0; d < load.index.size(); d++) {
      const Expr e = load.index[d];
      const AxisId outer = value.axes[d];
      if (found || !outer || contains(map.axes, outer) || e.kind() != ExprKind::floordiv) continue;
      if (!e.args()[0].is_symbol() || !e.args()[1].is_constant()) continue;
      const int64_t size = e.args()[1].value();
      for (const AxisId a : map.axes)
        if (cone.axes[a].symbol == e.args()[0] && size > 1 && cone.axes[a].extent.is_constant() &&
            cone.axes[outer].extent.is_constant(cone.axes[a].extent.value() / size) &&
            cone.axes[a].extent.value() % size == 0)
          found = Digits{a, outer, size};
    }
  });
  return found;
}

} // namespace

/// A map over 64 channels that reads the statistics of 8 groups runs over groups and the 8 channels of
/// each: then it shares the axis of the groups with the fold, and one loop.
void ConeBuilder::share_digits() {
  for (const StageId s : cone_.stages.ids()) {
    Stage& stage = cone_.stages[s];
    const auto maps = [](const Component& c) { return c.kind == ComponentKind::map && !c.after && c.out; };
    if (!std::ranges::all_of(stage.components, maps) || !stage.ordered.empty() || stage.segment_group)
      continue;
    while (const auto digits = digits_of(cone_, stage)) {
      const auto has = [&](const Stage& other) { return contains(other.axes, digits->axis); };
      if (std::ranges::count_if(cone_.stages, has) != 1) break;
      ConeAxis& axis = cone_.axes[digits->axis];
      const Expr whole = axis.symbol;
      const std::string name = unique_name(axis.name);
      axis = {name, digits->size, Expr::symbol(name, {0, digits->size - 1})};
      substitute_stage(stage, {{whole, cone_.axes[digits->outer].symbol * digits->size + axis.symbol}});
      stage.axes.insert(std::ranges::find(stage.axes, digits->axis), digits->outer);
      for (Component& c : stage.components) {
        c.axes = stage.axes;
        std::ranges::sort(c.axes);
        for (size_t d = 0; d < c.index.size(); d++)
          if (AxisId& dim = cone_.values[c.out].axes[d]; dim == digits->axis) dim = AxisId();
      }
    }
  }
}

} // namespace luminal::kernel
