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

} // namespace

void split_reduction(Nests& nests, const Directive& d) {
  StageId s = nests.stage(d.words[0]);
  const std::string& axis_name = d.words[1];
  std::string tree = d.words.size() > 2 ? d.words[2] : "serial";
  if (tree != "serial" && tree != "pairs") refuse("{} is not a combining tree (serial, pairs)", tree);
  int64_t count = d.numbers[0];
  if (count < 2 || count > 4096) refuse("a reduction splits into 2 to 4096 parts");
  AxisId k;
  for (AxisId a : nests.cone.stages[s].axes)
    if (nests.cone.axes[a].name == axis_name) k = a;
  if (!k) refuse("stage {} has no axis {}", d.words[0], axis_name);
  const ConeAxis axis = nests.cone.axes[k];
  if (!axis.symbol.is_symbol()) refuse("axis {} is one word", axis_name);
  Stage& fold = nests.cone.stages[s];
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
  if (tree == "pairs" && fold.monoid)
    refuse("the states of a tuple are combined one after the other; pairs is for plain folds");

  // k = (round * count + part) * block + place; contiguous parts have one round.
  int64_t block = d.numbers.size() > 1 ? d.numbers[1] : 0;
  if (d.numbers.size() > 1 && block < 1) refuse("a block has at least one element");
  Expr value;
  std::vector<AxisId> inner;
  AxisId part = new_axis(nests, axis_name + ".part", count);
  Expr p = nests.cone.axes[part].symbol;
  Expr covered;
  if (block == 0) {
    if (!axis.extent.is_constant())
      refuse("the extent of {} is not constant: distribute it in blocks (a second number)", axis_name);
    int64_t size = (axis.extent.value() + count - 1) / count;
    AxisId place = new_axis(nests, axis_name + ".in", size);
    inner = {place};
    value = p * size + nests.cone.axes[place].symbol;
    covered = size * count;
  } else {
    AxisId round = new_axis(nests, axis_name + ".round", ceildiv(axis.extent, block * count));
    AxisId place = new_axis(nests, axis_name + ".in", block);
    inner = {round, place};
    value = (nests.cone.axes[round].symbol * count + p) * block + nests.cone.axes[place].symbol;
    covered = nests.cone.axes[round].extent * (count * block);
  }
  const bool covers = prove(le(covered, axis.extent)) == Truth::yes;
  if (!covers || nests.beyond.contains(k)) {
    nests.beyond.insert(part);
    nests.beyond.insert(inner.begin(), inner.end());
  }
  // Every stage that shares the axis runs over its parts: what one part needs is made where the
  // part is.
  for (const StageId i : nests.cone.stages.ids()) {
    Stage& stage = nests.cone.stages[i];
    StageNest& nest = nests.stages[i];
    auto at = std::ranges::find(stage.axes, k);
    if (at == stage.axes.end()) continue;
    const StageLoop* own = nest.find(axis_name);
    if (!own || own->symbol != nest.axis_values.at(axis.symbol))
      refuse("axis {} of stage {} is split already", axis_name, stage.name);
    if (contains(stage.ordered, k)) refuse("stage {} keeps the order of {}", stage.name, axis_name);
    size_t position = size_t(own - nest.loops.data());
    Expr before = own->symbol;
    bool reduced = std::ranges::any_of(
        stage.components, [&](auto& c) { return c.kind == ComponentKind::fold && !contains(c.axes, k); });
    std::vector<AxisId> added{part};
    added.insert(added.end(), inner.begin(), inner.end());
    long where = at - stage.axes.begin();
    stage.axes.erase(at);
    stage.axes.insert(stage.axes.begin() + where, added.begin(), added.end());
    substitute_stage(stage, {{axis.symbol, value}});
    for (auto& c : stage.components)
      if (auto it = std::ranges::find(c.axes, k); it != c.axes.end()) {
        c.axes.erase(it);
        c.axes.insert(c.axes.end(), added.begin(), added.end());
        std::ranges::sort(c.axes);
      }
    Stage only;
    only.axes = added;
    StageNest fresh = nests.fresh(only);
    nest.axis_values.erase(axis.symbol);
    if (before.is_symbol())
      for (Guard& g : nest.guards)
        g.value = substitute(g.value, {{before, substitute(value, fresh.axis_values)}});
    for (auto& [a, v] : fresh.axis_values) nest.axis_values[a] = v;
    nest.loops.erase(nest.loops.begin() + long(position));
    nest.loops.insert(nest.loops.begin() + long(position), fresh.loops.begin(), fresh.loops.end());
    if (!covers) nest.guards.push_back({substitute(value, fresh.axis_values), axis.extent, reduced});
  }
  for (auto& h : nests.cone.holes)
    for (Expr e : index_exprs(h.value))
      if (depends_on(e, axis.symbol)) h.value = substitute(h.value, {{axis.symbol, value}});

  // The partial states, and the stage that combines them.
  Stage& parts = nests.cone.stages[s];
  Stage combine;
  combine.name = nests.free_stage_name(parts.name + ".combine");
  combine.monoid = parts.monoid;
  std::set<AxisId> kept;
  for (auto& c : parts.components) kept.insert(c.axes.begin(), c.axes.end());
  for (AxisId a : parts.axes)
    if (kept.contains(a)) combine.axes.push_back(a);
  combine.axes.push_back(part);
  std::vector<Component> remaining;
  for (size_t i = 0; i < parts.components.size(); i++) {
    Component c = parts.components[i];
    if (c.after) {
      combine.components.push_back(c);
      continue;
    }
    ConeValue v;
    std::string base = c.out ? nests.cone.values[c.out].name : fmt::format("{}.{}", parts.name, i);
    v.name = nests.free_name(base + ".part");
    v.dtype = c.dtype;
    v.role = ValueRole::interior;
    std::vector<Expr> index{p};
    v.axes = {part};
    v.shape = {count};
    for (AxisId a : c.axes) {
      v.axes.push_back(a);
      v.shape.push_back(nests.cone.axes[a].extent);
      index.push_back(nests.cone.axes[a].symbol);
    }
    Component whole = c;
    ValueId pv = nests.add_value(v);
    whole.body = formula_load(pv, c.dtype, index);
    combine.components.push_back(whole);
    c.out = pv;
    c.index = index;
    c.axes.push_back(part);
    std::ranges::sort(c.axes);
    remaining.push_back(c);
  }
  parts.components = std::move(remaining);
  StageNest nest = nests.fresh(combine);
  if (tree == "pairs")
    for (auto& l : nest.loops)
      if (l.name == nests.cone.axes[part].name) l.kind = LoopKind::unrolled;
  nests.insert_stage(s + 1, std::move(combine), std::move(nest));
}

} // namespace luminal::kernel
