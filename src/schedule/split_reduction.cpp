// schedule/split_reduction.cpp -- a fold in independent parts: partial states in scratch, combined
// by a second stage in a fixed order, so that the result does not depend on the number of workers
// (split-K).
#include "base/check.h"
#include "base/contains.h"
#include "cone/formula.h"
#include "schedule/nest.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

AxisId new_axis(Nests& nests, const std::string& wish, Expr extent) {
  std::string name = nests.free_name(wish);
  int64_t high = extent.range().high;
  return nests.cone.axes.add(
      {name, extent,
       Expr::symbol(name, {0, high == unbounded_high ? high : std::max<int64_t>(high - 1, 0)})});
}

/// The axis that is split, and why it cannot be.
AxisId split_axis(const Nests& nests, StageId s, const std::string& axis_name) {
  const Stage& fold = nests.cone.stages[s];
  AxisId k;
  for (AxisId a : fold.axes)
    if (nests.cone.axes[a].name == axis_name) k = a;
  if (!k) refuse("stage {} has no axis {}", fold.name, axis_name);
  if (!nests.cone.axes[k].symbol.is_symbol()) refuse("axis {} is one word", axis_name);
  for (auto& c : fold.components) {
    if (c.kind != ComponentKind::fold && !(c.kind == ComponentKind::map && c.after))
      refuse("stage {} is not a fold", fold.name);
    if (c.kind == ComponentKind::fold && contains(c.axes, k))
      refuse("stage {} does not reduce {}", fold.name, axis_name);
    if (c.init) refuse("stage {} goes on from an earlier state", fold.name);
  }
  // The combining stage runs over what the fold keeps, to the ends of its axes.
  const StageNest& folded = nests.stages[s];
  for (const Guard& g : folded.guards)
    if (!g.reduction &&
        std::ranges::none_of(folded.axis_values, [&](auto& v) { return v.second == g.value; }))
      refuse("stage {} keeps parts of an axis that does not end with them", fold.name);
  return k;
}

/// k = (round * count + part) * block + place; contiguous parts have one round.
struct Parts {
  AxisId part;
  std::vector<AxisId> inner; // round and place, or place alone
  Expr value;                // of k
  bool covers = false;       // exactly the axis
  std::vector<AxisId> axes() const {
    std::vector<AxisId> all{part};
    all.insert(all.end(), inner.begin(), inner.end());
    return all;
  }
};

/// Without a block the parts are contiguous.
Parts make_parts(Nests& nests, const ConeAxis& axis, int64_t count, std::optional<int64_t> block) {
  if (block && *block < 1) refuse("a block has at least one element");
  Parts out;
  out.part = new_axis(nests, axis.name + ".part", count);
  const Expr p = nests.cone.axes[out.part].symbol;
  Expr covered;
  if (!block) {
    if (!axis.extent.is_constant())
      refuse("the extent of {} is not constant: distribute it in blocks (a second number)", axis.name);
    const int64_t size = (axis.extent.value() + count - 1) / count;
    const AxisId place = new_axis(nests, axis.name + ".in", size);
    out.inner = {place};
    out.value = p * size + nests.cone.axes[place].symbol;
    covered = size * count;
  } else {
    const AxisId round = new_axis(nests, axis.name + ".round", ceildiv(axis.extent, *block * count));
    const AxisId place = new_axis(nests, axis.name + ".in", *block);
    out.inner = {round, place};
    out.value = (nests.cone.axes[round].symbol * count + p) * *block + nests.cone.axes[place].symbol;
    covered = nests.cone.axes[round].extent * (count * *block);
  }
  out.covers = prove(le(covered, axis.extent)) == Truth::yes;
  return out;
}

/// A stage with the axis runs over its parts: what one part needs is made where the part is.
void run_over_parts(Nests& nests, StageId i, AxisId k, const ConeAxis& axis, const Parts& parts) {
  Stage& stage = nests.cone.stages[i];
  StageNest& nest = nests.stages[i];
  const auto at = std::ranges::find(stage.axes, k);
  if (at == stage.axes.end()) return;
  const StageLoop* own = nest.find(axis.name);
  if (!own || own->symbol != nest.axis_values.at(axis.symbol))
    refuse("axis {} of stage {} is split already", axis.name, stage.name);
  if (contains(stage.ordered, k)) refuse("stage {} keeps the order of {}", stage.name, axis.name);
  const auto position = own - nest.loops.data();
  const Expr before = own->symbol;
  const bool reduced = std::ranges::any_of(
      stage.components, [&](auto& c) { return c.kind == ComponentKind::fold && !contains(c.axes, k); });
  const std::vector<AxisId> added = parts.axes();
  const auto where = at - stage.axes.begin();
  stage.axes.erase(at);
  stage.axes.insert(stage.axes.begin() + where, added.begin(), added.end());
  substitute_stage(stage, {{axis.symbol, parts.value}});
  for (auto& c : stage.components)
    if (auto it = std::ranges::find(c.axes, k); it != c.axes.end()) {
      c.axes.erase(it);
      c.axes.insert(c.axes.end(), added.begin(), added.end());
      std::ranges::sort(c.axes);
    }
  Stage only;
  only.axes = added;
  const StageNest fresh = nests.fresh(only);
  nest.axis_values.erase(axis.symbol);
  const Expr value = substitute(parts.value, fresh.axis_values);
  if (before.is_symbol())
    for (Guard& g : nest.guards) g.value = substitute(g.value, {{before, value}});
  for (auto& [a, v] : fresh.axis_values) nest.axis_values[a] = v;
  nest.loops.erase(nest.loops.begin() + position);
  nest.loops.insert(nest.loops.begin() + position, fresh.loops.begin(), fresh.loops.end());
  if (!parts.covers) nest.guards.push_back({value, axis.extent, reduced});
}

/// The fold leaves a state for each part; the stage that combines them.
Stage combine_parts(Nests& nests, Stage& fold, AxisId part) {
  const ConeAxis part_axis = nests.cone.axes[part];
  Stage combine;
  combine.name = nests.free_stage_name(fold.name + ".combine");
  combine.monoid = fold.monoid;
  std::set<AxisId> kept;
  for (auto& c : fold.components) kept.insert(c.axes.begin(), c.axes.end());
  for (AxisId a : fold.axes)
    if (kept.contains(a)) combine.axes.push_back(a);
  combine.axes.push_back(part);
  std::vector<Component> remaining;
  for (size_t i = 0; i < fold.components.size(); i++) {
    Component c = fold.components[i];
    if (c.after) {
      combine.components.push_back(c);
      continue;
    }
    const std::string base = c.out ? nests.cone.values[c.out].name : fmt::format("{}.{}", fold.name, i);
    ConeValue v = interior_value(nests.free_name(base + ".part"), c.dtype);
    std::vector<Expr> index{part_axis.symbol};
    v.axes = {part};
    v.shape = {part_axis.extent};
    for (AxisId a : c.axes) {
      v.axes.push_back(a);
      v.shape.push_back(nests.cone.axes[a].extent);
      index.push_back(nests.cone.axes[a].symbol);
    }
    Component whole = c;
    const ValueId partial = nests.add_value(v);
    whole.body = formula_load(partial, c.dtype, index);
    combine.components.push_back(whole);
    c.out = partial;
    c.index = index;
    c.axes.push_back(part);
    std::ranges::sort(c.axes);
    remaining.push_back(c);
  }
  fold.components = std::move(remaining);
  return combine;
}

} // namespace

void split_reduction(Nests& nests, const Directive& d) {
  const StageId s = nests.stage(d.words[0]);
  const std::string tree = d.words.size() > 2 ? d.words[2] : "serial";
  if (tree != "serial" && tree != "pairs") refuse("{} is not a combining tree (serial, pairs)", tree);
  const int64_t count = d.numbers[0];
  if (count < 2 || count > 4096) refuse("a reduction splits into 2 to 4096 parts");
  const AxisId k = split_axis(nests, s, d.words[1]);
  if (tree == "pairs" && nests.cone.stages[s].monoid)
    refuse("the states of a tuple are combined one after the other; pairs is for plain folds");
  const ConeAxis axis = nests.cone.axes[k];
  const Parts parts =
      make_parts(nests, axis, count, d.numbers.size() > 1 ? std::optional(d.numbers[1]) : std::nullopt);
  if (!parts.covers || nests.beyond.contains(k)) {
    nests.beyond.insert(parts.part);
    nests.beyond.insert(parts.inner.begin(), parts.inner.end());
  }
  for (const StageId i : nests.cone.stages.ids()) run_over_parts(nests, i, k, axis, parts);
  for (auto& h : nests.cone.holes)
    for (Expr e : index_exprs(h.value))
      if (depends_on(e, axis.symbol)) h.value = substitute(h.value, {{axis.symbol, parts.value}});
  Stage combine = combine_parts(nests, nests.cone.stages[s], parts.part);
  StageNest nest = nests.fresh(combine);
  if (tree == "pairs")
    for (auto& l : nest.loops)
      if (l.name == nests.cone.axes[parts.part].name) l.kind = LoopKind::unrolled;
  nests.insert_stage(s + 1, std::move(combine), std::move(nest));
}

} // namespace luminal::kernel
