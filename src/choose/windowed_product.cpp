// choose/windowed_product.cpp -- sums of products with an operand that is read through windows: which axes
// do what.
#include "base/contains.h"
#include "choose/choose_windows.h"
#include "choose/contraction.h"
#include "cone/conversion.h"
#include "cone/formula.h"
#include "loop/unit.h"
#include <algorithm>

namespace luminal::kernel {

namespace {
/// The symbols of a stage's axes in indices, the first index first; in one of them those of kept axes first.
std::vector<Expr> axes_in_order(const Cone& cone, const Stage& st, const std::vector<Expr>& index) {
  std::vector<Expr> out;
  for (Expr e : index)
    for (const bool kept : {true, false})
      for (AxisId a : st.axes)
        if (const Expr symbol = cone.axes[a].symbol;
            symbol.is_symbol() && depends_on(e, symbol) && contains(st.components[0].axes, a) == kept)
          out.push_back(symbol);
  return out;
}
} // namespace

std::optional<WindowedProduct> windowed_product(const Cone& cone, const Stage& st) {
  const std::vector<const Formula*> loads = factors_of(st);
  if (loads.empty()) return {};
  std::map<const Formula*, const Formula*> converted; // what a load is converted to
  visit(st.components[0].body, [&](const Formula& f) {
    const Formula* load = f.origin.empty() ? nullptr : converted_load(f);
    if (load) converted.try_emplace(load, &f);
  });
  std::optional<WindowedProduct> found;
  for (int i = 0; i < 2; i++) {
    const Formula &first = *loads[size_t(i)], &second = *loads[size_t(1 - i)];
    const FormulaLoad &x = *load_of(first), &w = *load_of(second);
    // (A load of words is not a node of the graph and has no name.)
    const auto named = converted.find(&first);
    const bool words = first.dtype == DType::u32 && cone.values[x.value].dtype == DType::u32;
    if (named == converted.end() && !words) continue;
    WindowedProduct p;
    p.x = &first, p.w = &second;
    if (!words) p.origin = named->second->origin;
    if (const auto other = converted.find(&second); other != converted.end())
      p.other_origin = other->second->origin;
    bool suits = true;
    for (AxisId a : st.axes) {
      const ConeAxis& axis = cone.axes[a];
      if (!axis.symbol.is_symbol()) continue;
      if (!axis.extent.is_constant()) suits = false;
      const int64_t n = suits ? axis.extent.value() : 1;
      const bool reduced = !contains(st.components[0].axes, a);
      suits = suits && (!reduced || varies(w.index, axis.symbol));
      if (reduced) {
        p.depth *= n;
        continue;
      }
      if (varies(x.index, axis.symbol) && varies(w.index, axis.symbol)) {
        p.groups.push_back(a);
        continue;
      }
      if (varies(x.index, axis.symbol)) continue;
      p.uses *= n;
      p.outputs.push_back(a);
    }
    // The kept axes along which it is read, as they lie: the innermost one is a run. (A view whose elements
    // are converted before another one reads them has no plain indices.)
    const auto lies_along = [&](const std::vector<Expr>& at) {
      for (Expr e : at)
        for (const AxisId a : cone.axes.ids()) {
          if (cone.axes[a].symbol != e) continue;
          const bool kept = contains(st.components[0].axes, a);
          if (!contains(p.groups, a)) (kept ? p.kept : p.summed).push_back(a);
        }
    };
    if (!words) lies_along(named->second->at);
    if (p.kept.empty()) p.summed.clear(), lies_along(axes_in_order(cone, st, x.index));
    if (!suits || p.kept.empty()) continue;
    p.run = cone.axes[p.kept.back()].extent.value();
    p.rows = p.kept.size() < 2 ? 1 : cone.axes[p.kept[p.kept.size() - 2]].extent.value();
    for (size_t k = 0; k + 2 < p.kept.size(); k++) p.images *= cone.axes[p.kept[k]].extent.value();
    for (size_t k = 0; k + 2 < p.kept.size(); k++) {
      if (!contains(x.index, cone.axes[p.kept[k]].symbol)) break;
      p.batches.push_back(p.kept[k]);
    }
    p.step = step_of(cone, x.value, x.index, cone.axes[p.kept.back()].symbol);
    p.window = !x.guard.is_constant(1) || std::ranges::any_of(x.index, [&](Expr e) {
      const std::vector<Expr> along = symbols_of(e);
      return std::ranges::count_if(along, [&](Expr symbol) {
               return std::ranges::none_of(p.groups, [&](AxisId a) { return cone.axes[a].symbol == symbol; });
             }) > 1;
    });
    if (!found || (p.window && !found->window)) found = std::move(p);
  }
  return found;
}

std::optional<WindowedProduct> one_windowed_product(const Cone& cone, const Stage& st) {
  std::optional<WindowedProduct> p = windowed_product(cone, st);
  return p && p->groups.empty() ? p : std::nullopt;
}

bool pays_on_tiles(const Cone& cone, const Stage& stage, const WindowedProduct& p,
                   const MachineLimits& limits) {
  const auto tile = [&](const std::string& name) {
    const auto unit = find_unit(name);
    return unit && unit->tiles && unit->n == limits.lanes && is_float(unit->a.dtype) &&
           unit->a.dtype == p.x->dtype && unit->b.dtype == p.w->dtype;
  };
  if (std::ranges::none_of(limits.units, tile) || p.outputs.size() != 1 || p.depth < 2 * limits.lanes ||
      !load_of(*p.w)->guard.is_constant(1) ||
      stage.components[0].index.back() != cone.axes[p.kept.back()].symbol)
    return false;
  // The other operand is contiguous along the sum, all of it.
  const FormulaLoad& w = *load_of(*p.w);
  std::vector<std::pair<int64_t, int64_t>> steps; // and extents
  const Expr offset = layout_offset(cone.values[w.value], w.index);
  for (AxisId a : p.summed) {
    if (!cone.axes[a].symbol.is_symbol()) continue;
    const auto step = coefficient_of(offset, cone.axes[a].symbol);
    if (!step || !step->is_constant()) return false;
    steps.emplace_back(step->value(), cone.axes[a].extent.value());
  }
  std::ranges::sort(steps);
  int64_t run = 1;
  for (auto [step, extent] : steps) {
    if (step != run) return false;
    run *= extent;
  }
  if (run != p.depth) return false;
  // Cycles for a word of the sum and a vector of columns. As f32 it is two multiply-adds for each row, two of
  // which begin in one; tiles take a fifth of that, rows that fill none take as long. Copied as a matrix and
  // put together in words it takes as long as 14 rows (measured on Sapphire Rapids), where the matrix and the
  // results stay in the caches.
  constexpr double copied = 14, of_tile_row = 0.2, gain = 0.8;
  const int64_t columns = p.run * p.rows * p.images, whole = p.uses / limits.lanes * limits.lanes;
  const double tiles = copied + of_tile_row * double(whole) + double(p.uses - whole);
  int64_t bytes = columns * (p.depth * bits(p.x->dtype) / 8 + p.uses * 4);
  for (AxisId a : p.groups) bytes *= cone.axes[a].extent.value();
  return columns >= 2 * limits.lanes && p.uses >= 2 * limits.lanes && bytes <= 4 * limits.l2 &&
         tiles < gain * double(p.uses) * share_of(columns, limits.lanes);
}

} // namespace luminal::kernel
