// cone/cone_digits.cpp -- axes of maps are cut where they read folds of the same kernel by blocks, and joined
// where only both together say what an element is.
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

namespace {

/// Is a choice made by an index expression with both?
bool chosen_by(const Stage& stage, Expr a, Expr b) {
  bool found = false;
  visit_stage(stage, [&](const Formula& f) {
    const auto* index = f.as<FormulaIndex>();
    found |= index && f.dtype == DType::boolean && depends_on(index->value, a) && depends_on(index->value, b);
  });
  return found;
}

bool divides(Expr e, Expr symbol) {
  if (!depends_on(e, symbol)) return false;
  if (e.kind() == ExprKind::floordiv || e.kind() == ExprKind::mod) return true;
  return std::ranges::any_of(e.args(), [&](Expr arg) { return divides(arg, symbol); });
}

} // namespace

/// Nine elements that are made one by one and seen as a matrix of 3 x 3: a map runs over the nine, so that
/// what is chosen for each is known where they are written out.
void ConeBuilder::join_digits() {
  constexpr int64_t most_elements = 64;
  for (const StageId s : order_) {
    Stage& stage = open_[s];
    const auto maps = [](const Component& c) { return c.kind == ComponentKind::map && !c.after && c.out; };
    if (!std::ranges::all_of(stage.components, maps) || !stage.ordered.empty() || stage.scan_axis ||
        !stage.domain.is_constant(1) || !stage.needed.is_constant(1))
      continue;
    for (size_t i = 0; i + 1 < stage.axes.size(); i++) {
      const AxisId outer = stage.axes[i], inner = stage.axes[i + 1];
      const Expr rows = pool_.extent(outer), row = pool_.extent(inner);
      const Expr a = pool_.symbol(outer), b = pool_.symbol(inner);
      if (!rows.is_constant() || !row.is_constant() || rows.value() < 2 || row.value() < 2 ||
          rows.value() > most_elements / row.value() || !pool_.in_one_stage(outer) ||
          !pool_.in_one_stage(inner) || !chosen_by(stage, a, b) ||
          std::ranges::any_of(cone_.holes, [&](const ConeHole& hole) {
            const std::vector<Expr> read = index_exprs(hole.value);
            return std::ranges::any_of(read, [&](Expr e) { return depends_on(e, a) || depends_on(e, b); });
          }))
        continue;
      const AxisId joint = pool_.add("", rows * row, s);
      const Expr j = pool_.symbol(joint);
      Stage joined = stage;
      substitute_stage(joined, {{a, floordiv(j, row)}, {b, mod(j, row)}});
      bool plain = true;
      for (const Component& c : joined.components)
        for (Expr e : index_exprs(c.body)) plain &= !divides(e, j);
      if (!plain) continue;
      const auto replace = [&](std::vector<AxisId>& axes) {
        std::ranges::replace(axes, outer, joint);
        std::erase(axes, inner);
      };
      replace(joined.axes);
      for (Component& c : joined.components) replace(c.axes);
      stage = std::move(joined);
      i--;
    }
  }
}

} // namespace luminal::kernel
