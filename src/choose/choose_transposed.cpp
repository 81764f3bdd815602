// choose/choose_transposed.cpp -- the default schedule of products over several summed axes where
// the rows of both operands run along the sum: gradients of a convolution's weights.
#include "base/contains.h"
#include "choose/default_scheduler.h"
#include "cone/formula.h"
#include <algorithm>

namespace luminal::kernel {

/// Lanes go along one operand's kept axis: panels of it are transposed as they are copied, for the
/// whole sum. The other operand is read where it lies, or where copy_padded() copied it: windows of it
/// overlap, and the rows of a register tile are those of a window first.
bool DefaultScheduler::transposed_panels(StageId s, const std::vector<std::string>& common) {
  const Stage& st = stage(s);
  const std::vector<const Formula*> both = factors(s);
  if (both.empty() || !common.empty() || !st.domain.is_constant(1)) return false;
  const FormulaLoad* const loads[] = {load_of(*both[0]), load_of(*both[1])};
  std::vector<Expr> index[2];
  for (int load : {0, 1}) {
    const ConeValue& value = value_at(loads[size_t(load)]->value);
    if (!loads[size_t(load)]->guard.is_constant(1) || value.dtype != DType::f32 ||
        both[size_t(load)]->dtype != DType::f32)
      return false;
    index[load] = over_loops(nest(s), loads[size_t(load)]->index);
  }
  const auto moves = [&](int load, const StageLoop& l) { return varies(index[load], l.symbol); };
  const auto side_by_side = [&](int load, const StageLoop& l) {
    return step_of(nests_.cone, loads[size_t(load)]->value, index[load], l.symbol) == Step::contiguous;
  };
  std::vector<const StageLoop*> depth, kept[2]; // kept: along which that operand moves
  for (auto& l : nest(s).loops) {
    if (!l.symbol.is_symbol()) continue;
    if (!l.extent.is_constant()) return false;
    const bool first = moves(0, l), second = moves(1, l);
    if (loop_reduces(s, l)) {
      if (!first || !second) return false;
      depth.push_back(&l);
    } else if (first == second)
      return false;
    else
      kept[first ? 0 : 1].push_back(&l);
  }
  if (depth.size() < 2 || reduced_axes(st).size() < 2) return false;
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
    const StageLoop& n = *kept[load][0];
    if (trips(n) < limits_.lanes || !axis_of(n) || side_by_side(load, n) ||
        value_at(loads[size_t(load)]->value).role == ValueRole::interior ||
        std::ranges::none_of(depth, [&](auto* l) { return side_by_side(load, *l); }))
      continue;
    if (!found || written(n)) found = load;
  }
  if (!found) return false;
  const int panel = *found;
  const StageLoop n = *kept[panel][0];
  std::vector<StageLoop> rows;
  int64_t uses = 1, deep = 1;
  for (auto* l : kept[1 - panel]) rows.push_back(*l), uses *= trips(*l);
  for (auto* l : depth) deep *= trips(*l);
  if (uses < fewest_transposed || deep < 64) return false;

  // The register tile: whole inner rows, a part of the next loop, and vectors; full panels for all
  // workers.
  struct Choice {
    int64_t vectors = 1, part = 1;
    size_t whole = 0; // of the inner loops
    double cost = 0;
  } usual;
  const int64_t lanes = limits_.lanes, all_vectors = (trips(n) + lanes - 1) / lanes;
  for (int64_t v = 1; v <= std::min<int64_t>(4, all_vectors); v++) {
    int64_t inner = 1;
    for (size_t whole = 0; whole <= rows.size(); whole++) {
      const int64_t next = whole < rows.size() ? trips(rows[rows.size() - 1 - whole]) : 1;
      for (int64_t part = 1; part <= next && tile_fits(inner * part, v); part++) {
        if (part == next && next > 1) break; // that is one more whole loop
        const int64_t panels = (all_vectors + v - 1) / v, last = all_vectors - (panels - 1) * v;
        // Vectors of panels come from beyond the first cache, for all rows of a tile at once.
        const double far = deep * v * lanes * 4 > limits_.l2 / 2 ? 0.3 : 0.1;
        const int64_t tiles = (next + part - 1) / part, others = uses / inner / next;
        const double cost = (1 + far * double(tiles) / double(inner * next)) *
                            (double(panels - 1) * tile_cost(inner, next, inner, part, v) +
                             tile_cost(inner, next, inner, part, last)) *
                            double(others) * double(round_up(panels, limits_.threads)) / double(panels);
        if (usual.cost == 0 || cost < usual.cost * 0.999) usual = {v, part, whole, cost};
      }
      inner *= next;
      if (whole == rows.size() || !tile_fits(inner, v)) break;
    }
  }
  if (usual.cost == 0 || !ask(s, "transposed", 1, {0, 1})) return false;
  const int64_t columns = usual.vectors * lanes;

  // The copy: its own loops are the axes of the operand, neighbours along memory are one.
  const std::string name = st.name, value = value_at(loads[size_t(panel)]->value).name,
                    copy = nests_.free_name(value + ".panels");
  std::vector<std::string> axes; // as they lie
  size_t run = 0;                // the first of those that are one run of memory
  for (Expr e : loads[size_t(panel)]->index) {
    if (e.is_constant()) continue;
    const AxisId axis = plain_axis(nests_.cone, e);
    if (!axis) return false;
    if (axis == axis_of(n))
      run = axes.size();
    else
      axes.push_back(axis_at(axis).name);
  }
  if (run == axes.size() || !try_add(DirectiveKind::stage, {value, copy})) return false;
  s++;
  const auto fresh = [&](const std::string& wish) { return nests_.free_name(wish); };
  const std::string np = fresh(n.name + ".p"), nq = fresh(n.name + ".q"), nv = fresh(n.name + ".v"),
                    nl = fresh(n.name + ".l");
  for (const std::string& who : {name, copy}) {
    add(DirectiveKind::split, {who, n.name, np, nq}, {columns});
    add(DirectiveKind::split, {who, nq, nv, nl}, {lanes});
  }
  const auto in_order = [&](const std::string& who, std::initializer_list<std::vector<std::string>> loops) {
    std::vector<std::string> words{who};
    for (auto& some : loops) words.insert(words.end(), some.begin(), some.end());
    add(DirectiveKind::order, words);
  };
  std::vector<std::string> stored{copy, np};
  stored.insert(stored.end(), axes.begin(), axes.end());
  stored.push_back(n.name);
  in_order(copy, {{np, nv, nl}, axes});
  while (axes.size() > run + 1) {
    const std::string inner = axes.back();
    axes.pop_back();
    add(DirectiveKind::merge, {copy, axes.back(), inner, inner});
    axes.back() = inner;
  }
  // In squares, in registers.
  const std::string along = axes.back();
  axes.pop_back();
  if (trips(*nest(s - 1).find(along)) >= lanes) {
    const std::string kt = fresh(along + ".t"), ku = fresh(along + ".u");
    add(DirectiveKind::split, {copy, along, kt, ku}, {lanes});
    in_order(copy, {{np}, axes, {nv, kt, ku, nl}});
    add(DirectiveKind::unroll, {copy, ku});
  } else
    in_order(copy, {{np}, axes, {nv, along, nl}});
  add(DirectiveKind::store, stored);
  add(DirectiveKind::vector, {copy, nl});

  std::vector<std::string> outside, inside, summed;
  const size_t first = rows.size() - usual.whole; // of the loops that are written out
  for (size_t r = 0; r < rows.size(); r++) (r < first ? outside : inside).push_back(rows[r].name);
  if (usual.part > 1) {
    const std::string ri = fresh(outside.back() + ".i"), rt = fresh(outside.back() + ".t");
    add(DirectiveKind::split, {name, outside.back(), rt, ri}, {usual.part});
    outside.back() = rt;
    inside.insert(inside.begin(), ri);
  }
  for (auto& l : nest(s).loops)
    if (loop_reduces(s, l) && l.symbol.is_symbol()) summed.push_back(l.name);
  in_order(name, {{np}, outside, summed, inside, {nv, nl}});
  inside.push_back(nv);
  inside.insert(inside.begin(), name);
  add(DirectiveKind::vector, {name, nl});
  add(DirectiveKind::unroll, inside);
  add(DirectiveKind::at, {name, np});
  for (const std::string& who : {copy, name}) add(DirectiveKind::parallel, {who, np});
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
