// choose/choose_transposed.cpp -- when panels pay for their copy; the default schedule of products over
// several summed axes where both operands are contiguous along the sum: gradients of a convolution's weights.
#include "base/contains.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>

namespace luminal::kernel {

/// Rows of panels that lie in steps of a power of two fall into few sets of the second cache: so many of them
/// stay there. (Where it holds them all, or they are whole pages and are copied: the whole sum.)
int64_t DefaultScheduler::rows_in_sets(const Product& p) const {
  constexpr int64_t page = 4096, reach = 1 << 19;
  const int64_t row = p.columns * 4, step = row & -row;
  return step >= page || step * p.deep <= 2 * reach ? p.deep : reach / step;
}

/// What the second cache holds, and what few rows use, is read in place, prefetched; else the panels pay
/// for the copy.
bool DefaultScheduler::panels_pay(const Product& p, int64_t few_rows) const {
  constexpr int64_t page = 4096, line = 64;
  const int64_t row = p.columns * 4;
  const bool beyond = p.deep * row > limits_.l2;
  if (limits_.full_rate) { // in place it is slow without prefetches, and where a vector lies in two lines
    if (row % page == 0 && p.deep >= 256) return p.rows >= 32;
    if (rows_in_sets(p) < p.deep) return p.rows >= 192; // fewer rows: the sum in parts
    if (row % line != 0 && p.deep * row > 2 * limits_.l1) return p.rows >= 128;
    if (beyond && row >= page) return p.rows >= 64;
  }
  return beyond && p.rows > few_rows;
}

/// The axes of which a loop is one run, in the order of the dimensions along which the load moves with it;
/// none: it is something else.
std::vector<std::string> DefaultScheduler::axes_of_run(StageId s, const FormulaLoad& load,
                                                       const StageLoop& l) const {
  const std::vector<AxisId>& axes = stage(s).axes;
  const auto along = [&](AxisId a) { return depends_on_loop(nest(s), axis_at(a).symbol, l); };
  std::vector<std::string> names;
  Expr place = 0;
  for (Expr e : load.index) {
    const AxisId a = plain_axis(nests_.cone, e);
    if (!a || !along(a)) continue;
    place = place * axis_at(a).extent + substitute(e, nest(s).axis_values);
    names.push_back(axis_at(a).name);
  }
  return place == l.symbol && std::ranges::count_if(axes, along) == std::ptrdiff_t(names.size())
             ? names
             : std::vector<std::string>();
}

/// The name of a copy's dimension along several axes (`stage`).
std::string DefaultScheduler::joint_dimension(const std::string& copy) const {
  const ConeValue& value = value_at(nests_.value(copy));
  size_t d = 0;
  while (value.axes[d] || value.shape[d].is_constant(1)) d++;
  return "d" + std::to_string(d);
}

/// The loops of a product of f32 operands of constant extents without conditions, over several summed axes.
std::optional<DefaultScheduler::OperandLoops>
DefaultScheduler::operand_loops(StageId s, const std::vector<std::string>& common) const {
  const Stage& st = stage(s);
  const std::vector<const Formula*> both = factors(s);
  if (both.empty() || !common.empty() || !st.domain.is_constant(1)) return {};
  OperandLoops made{{load_of(*both[0]), load_of(*both[1])}, {}, {}, {}};
  auto& [loads, index, depth, kept] = made;
  for (int load : {0, 1}) {
    const ConeValue& value = value_at(loads[size_t(load)]->value);
    if (!loads[size_t(load)]->guard.is_constant(1) || value.dtype != DType::f32 ||
        both[size_t(load)]->dtype != DType::f32)
      return {};
    index[load] = over_loops(nest(s), loads[size_t(load)]->index);
  }
  for (auto& l : nest(s).loops) {
    if (!l.symbol.is_symbol()) continue;
    if (!l.extent.is_constant()) return {};
    const bool first = varies(index[0], l.symbol), second = varies(index[1], l.symbol);
    if (first && second && loop_reduces(s, l))
      depth.push_back(l);
    else if (first != second && !loop_reduces(s, l))
      kept[first ? 0 : 1].push_back(l);
    else
      return {};
  }
  if (depth.size() < 2 || reduced_axes(st).size() < 2) return {};
  return made;
}

bool DefaultScheduler::OperandLoops::contiguous(const Cone& cone, int load, const StageLoop& l) const {
  return step_of(cone, loads[size_t(load)]->value, index[size_t(load)], l.symbol) == Step::contiguous;
}

/// What transposed_panels() takes on, or nothing: one operand has a single kept axis and rows along a summed
/// one.
std::optional<DefaultScheduler::PanelProduct>
DefaultScheduler::panel_product(StageId s, const std::vector<std::string>& common) const {
  const Stage& st = stage(s);
  const auto loops = operand_loops(s, common);
  if (!loops) return {};
  const auto& [loads, index, depth, kept] = *loops;
  const auto contiguous = [&](int load, const StageLoop& l) {
    return loops->contiguous(nests_.cone, load, l);
  };
  const auto axis_of = [&](const StageLoop& l) {
    const auto found = std::ranges::find(nests_.cone.axes, l.symbol, &ConeAxis::symbol);
    return found == nests_.cone.axes.end() ? AxisId() : AxisId(found - nests_.cone.axes.begin());
  };
  const auto written = [&](const StageLoop& l) {
    return std::ranges::all_of(st.components, [&](auto& c) {
      return !c.out ||
             step_of(nests_.cone, c.out, over_loops(nest(s), c.index), l.symbol) == Step::contiguous;
    });
  };
  // The panels' operand has one kept axis, along which the results are contiguous, if there is a
  // choice; its rows run along a summed one.
  std::optional<int> found;
  for (int load : {0, 1}) {
    if (kept[load].size() != 1 || kept[1 - load].empty()) continue;
    const StageLoop& n = kept[load][0];
    if (trips(n) < limits_.lanes || !axis_of(n) || contiguous(load, n) ||
        value_at(loads[size_t(load)]->value).role == ValueRole::interior ||
        std::ranges::none_of(depth, [&](auto& l) { return contiguous(load, l); }))
      continue;
    if (!found || written(n)) found = load;
  }
  if (!found) return {};
  PanelProduct p{kept[*found][0], axis_of(kept[*found][0]), loads[size_t(*found)], {}};
  for (auto& l : kept[1 - *found]) p.rows.push_back(l), p.uses *= trips(l);
  for (auto& l : depth) p.deep *= trips(l);
  if (p.uses < fewest_transposed || p.deep < 64) return {};
  return p;
}

/// The register tile: whole inner rows, a part of the next loop, and vectors; full panels for all workers.
DefaultScheduler::PanelTile DefaultScheduler::panel_tile(const PanelProduct& p) const {
  PanelTile usual;
  const int64_t lanes = limits_.lanes, all_vectors = (trips(p.columns) + lanes - 1) / lanes;
  for (int64_t v = 1; v <= std::min<int64_t>(4, all_vectors); v++) {
    int64_t inner = 1;
    for (size_t whole = 0; whole <= p.rows.size(); whole++) {
      const int64_t next = whole < p.rows.size() ? trips(p.rows[p.rows.size() - 1 - whole]) : 1;
      for (int64_t part = 1; part <= next && tile_fits(inner * part, v); part++) {
        if (part == next && next > 1) break; // that is one more whole loop
        const int64_t panels = (all_vectors + v - 1) / v, last = all_vectors - (panels - 1) * v;
        // Vectors of panels come from beyond the first cache, for all rows of a tile at once.
        const double far = p.deep * v * lanes * 4 > limits_.l2 / 2 ? 0.3 : 0.1;
        const int64_t tiles = (next + part - 1) / part, others = p.uses / inner / next;
        const double cost = (1 + far * double(tiles) / double(inner * next)) *
                            (double(panels - 1) * tile_cost(inner, next, inner, part, v) +
                             tile_cost(inner, next, inner, part, last)) *
                            double(others) * double(round_up(panels, limits_.threads)) / double(panels);
        if (usual.cost == 0 || cost < usual.cost * 0.999) usual = {v, part, whole, cost};
      }
      inner *= next;
      if (whole == p.rows.size() || !tile_fits(inner, v)) break;
    }
  }
  return usual;
}

/// The copy: its own loops are the axes of the operand, neighbours along memory are one. False where it
/// cannot be made; else s is the stage of the product behind it, both with their columns cut.
bool DefaultScheduler::copy_panels(StageId& s, const PanelProduct& p, int64_t columns, PanelLoops& l) {
  const std::string name = stage(s).name, value = value_at(p.load->value).name, n = p.columns.name,
                    copy = nests_.free_name(value + ".panels");
  std::vector<std::string> axes; // as they lie
  size_t run = 0;                // the first of those that are one run of memory
  for (Expr e : p.load->index) {
    if (e.is_constant()) continue;
    const AxisId axis = plain_axis(nests_.cone, e);
    if (!axis) return false;
    if (axis == p.axis)
      run = axes.size();
    else
      axes.push_back(axis_at(axis).name);
  }
  if (run == axes.size() || !try_add(DirectiveKind::stage, {value, copy})) return false;
  s++;
  const auto fresh = [&](const std::string& wish) { return nests_.free_name(wish); };
  const std::string inside = fresh(n + ".q");
  l = {copy, fresh(n + ".p"), fresh(n + ".v"), fresh(n + ".l")};
  for (const std::string& who : {name, copy}) {
    add(DirectiveKind::split, {who, n, l.panels, inside}, {columns});
    add(DirectiveKind::split, {who, inside, l.vectors, l.lanes}, {limits_.lanes});
  }
  std::vector<std::string> stored{copy, l.panels};
  stored.insert(stored.end(), axes.begin(), axes.end());
  stored.push_back(n);
  order_loops(copy, {{l.panels, l.vectors, l.lanes}, axes});
  while (axes.size() > run + 1) {
    const std::string inner = axes.back();
    axes.pop_back();
    add(DirectiveKind::merge, {copy, axes.back(), inner, inner});
    axes.back() = inner;
  }
  // In squares, in registers.
  const std::string along = axes.back();
  axes.pop_back();
  if (trips(*nest(s - 1).find(along)) >= limits_.lanes) {
    const std::string kt = fresh(along + ".t"), ku = fresh(along + ".u");
    add(DirectiveKind::split, {copy, along, kt, ku}, {limits_.lanes});
    order_loops(copy, {{l.panels}, axes, {l.vectors, kt, ku, l.lanes}});
    add(DirectiveKind::unroll, {copy, ku});
  } else
    order_loops(copy, {{l.panels}, axes, {l.vectors, along, l.lanes}});
  add(DirectiveKind::store, stored);
  add(DirectiveKind::vector, {copy, l.lanes});
  return true;
}

/// Windows of an image whose channels are contiguous, as the results are along them: lanes go along
/// these, and a tile has some rows of the other operand beside the places of the innermost window,
/// which overlap. Nothing is copied into panels.
bool DefaultScheduler::lanes_of_channels(StageId s, const std::vector<std::string>& common) {
  const auto loops = operand_loops(s, common);
  if (!loops) return false;
  const auto written = [&](const StageLoop& l) {
    return std::ranges::all_of(stage(s).components, [&](auto& c) {
      return !c.out || value_at(c.out).role != ValueRole::output ||
             step_of(nests_.cone, c.out, over_loops(nest(s), c.index), l.symbol) == Step::contiguous;
    });
  };
  for (int load : {0, 1}) {
    std::vector<StageLoop> windows = loops->kept[load], rows = loops->kept[1 - load];
    const auto lanes = std::ranges::find_if(windows, [&](auto& l) {
      return trips(l) % limits_.lanes == 0 && loops->contiguous(nests_.cone, load, l) && written(l);
    });
    if (lanes == windows.end() || windows.size() < 2 || rows.empty()) continue;
    const std::string channels = lanes->name;
    const int64_t all_vectors = trips(*lanes) / limits_.lanes;
    windows.erase(lanes);
    const int64_t vectors = std::min<int64_t>(all_vectors, 2), window = trips(windows.back());
    int64_t part = std::min<int64_t>(trips(rows.back()), 8);
    while (part > 0 && !tile_fits(part * window, vectors)) part--;
    if (part == 0 || window > 4 || !ask(s, "channels", 1, {0, 1})) continue;
    const std::string name = stage(s).name;
    const auto fresh = [&](const std::string& wish) { return nests_.free_name(wish); };
    const std::string panel = fresh(channels + ".p"), inside = fresh(channels + ".q"),
                      vector = fresh(channels + ".v"), lane = fresh(channels + ".l"),
                      tile = fresh(rows.back().name + ".t"), row = fresh(rows.back().name + ".i");
    add(DirectiveKind::split, {name, channels, panel, inside}, {vectors * limits_.lanes});
    add(DirectiveKind::split, {name, inside, vector, lane}, {limits_.lanes});
    add(DirectiveKind::split, {name, rows.back().name, tile, row}, {part});
    std::vector<std::string> outside, summed;
    for (size_t r = 0; r + 1 < rows.size(); r++) outside.push_back(rows[r].name);
    outside.push_back(tile);
    for (size_t w = 0; w + 1 < windows.size(); w++) outside.push_back(windows[w].name);
    for (auto& l : loops->depth) summed.push_back(l.name);
    order_loops(name, {{panel}, outside, summed, {row, windows.back().name, vector, lane}});
    add(DirectiveKind::vector, {name, lane});
    add(DirectiveKind::unroll, {name, row, windows.back().name, vector});
    add(DirectiveKind::parallel, {name, all_vectors > vectors ? panel : outside.front()});
    done_ = s;
    return true;
  }
  return false;
}

/// Lanes go along one operand's kept axis: panels of it are transposed as they are copied, for the
/// whole sum. The other operand is read where it lies, or where copy_padded() copied it: windows of it
/// overlap, and the rows of a register tile are those of a window first.
bool DefaultScheduler::transposed_panels(StageId s, const std::vector<std::string>& common) {
  const std::optional<PanelProduct> p = panel_product(s, common);
  if (!p) return false;
  const PanelTile tile = panel_tile(*p);
  if (tile.cost == 0 || !ask(s, "transposed", 1, {0, 1})) return false;
  PanelLoops l;
  if (!copy_panels(s, *p, tile.vectors * limits_.lanes, l)) return false;
  const std::string name = stage(s).name;
  std::vector<std::string> outside, inside, summed;
  const size_t first = p->rows.size() - tile.whole; // of the loops that are written out
  for (size_t r = 0; r < p->rows.size(); r++) (r < first ? outside : inside).push_back(p->rows[r].name);
  if (tile.part > 1) {
    const std::string ri = nests_.free_name(outside.back() + ".i"),
                      rt = nests_.free_name(outside.back() + ".t");
    add(DirectiveKind::split, {name, outside.back(), rt, ri}, {tile.part});
    outside.back() = rt;
    inside.insert(inside.begin(), ri);
  }
  for (auto& loop : nest(s).loops)
    if (loop_reduces(s, loop) && loop.symbol.is_symbol()) summed.push_back(loop.name);
  order_loops(name, {{l.panels}, outside, summed, inside, {l.vectors, l.lanes}});
  inside.push_back(l.vectors);
  inside.insert(inside.begin(), name);
  add(DirectiveKind::vector, {name, l.lanes});
  add(DirectiveKind::unroll, inside);
  add(DirectiveKind::at, {name, l.panels});
  for (const std::string& who : {l.copy, name}) add(DirectiveKind::parallel, {who, l.panels});
  done_ = s;
  return true;
}

/// Is it read along the reduction, element by element, and along the lanes with large steps?
bool DefaultScheduler::lies_across(const FormulaLoad& f, const Tuple& t) const {
  const Expr lanes = axis_at(t.lanes).symbol, reduced = axis_at(t.reduced).symbol;
  return f.guard.is_constant(1) && value_at(f.value).role != ValueRole::interior && varies(f.index, lanes) &&
         step_of(nests_.cone, f.value, f.index, lanes) != Step::contiguous &&
         step_of(nests_.cone, f.value, f.index, reduced) == Step::contiguous;
}

/// What the stages of tiles read from memory across the lanes (a row of a mask for each lane) is transposed
/// in a copy of the tile.
void DefaultScheduler::transpose_tiles(const Tuple& t) {
  std::vector<std::string> values;
  for (StageId s(0); s <= t.stage; s++)
    visit_loads(stage(s), [&](const FormulaLoad& f) {
      if (!lies_across(f, t)) return;
      if (const std::string& name = value_at(f.value).name; !contains(values, name)) values.push_back(name);
    });
  for (const std::string& value : values) {
    const std::string copy = nests_.free_name(value + ".lanes");
    Attempt attempt = begin();
    const size_t axes = nests_.cone.axes.size();
    if (try_add(DirectiveKind::stage, {value, copy}) && nests_.cone.axes.size() == axes)
      transposed_.insert(stage(nests_.stage(copy)).name);
    else
      undo(std::move(attempt));
  }
}

} // namespace luminal::kernel
