// kernel/frame.cpp -- the directive frame: a copy of everything that windows reach of a value, with the zeros around it.
#include "kernel/formula.h"
#include "kernel/nest.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

struct Read {
  std::vector<Expr> index;
  Expr guard = 1;
  std::set<int> stages;
};

Read read_of(const Nests& nests, int value) {
  const ConeValue& v = nests.cone.values[size_t(value)];
  Read read;
  for (size_t s = 0; s < nests.cone.stages.size(); s++)
    visit_stage(nests.cone.stages[s], [&](const Formula& f) {
      if (f.kind != FormulaKind::load || f.value != value) return;
      if (f.dtype != v.dtype)
        refuse("{} is read as {}: a copy would not hold its bytes", v.name, luminal::to_string(f.dtype));
      if (!read.stages.empty() && (f.index != read.index || f.guard != read.guard))
        refuse("{} is read at several places", v.name);
      read.index = f.index, read.guard = f.guard;
      read.stages.insert(int(s));
    });
  if (read.stages.empty()) refuse("no stage reads {}", v.name);
  return read;
}

} // namespace

void frame(Nests& nests, const std::string& value, const std::string& copy) {
  const int v = nests.value(value);
  const Read read = read_of(nests, v);
  ConeValue c = nests.cone.values[size_t(v)];
  c.name = copy;
  c.role = ValueRole::interior;
  c.layout.clear();
  c.axes.assign(c.shape.size(), -1);
  Stage stage;
  stage.name = nests.free_stage_name(copy);
  Component part;
  part.dtype = c.dtype;
  std::vector<Expr> from, at; // where the copy reads, and where it is read
  Expr guard = read.guard;
  std::vector<Expr> own; // symbols of the copy's axes
  std::set<int> taken;
  for (size_t d = 0; d < c.shape.size(); d++) {
    const Expr e = read.index[d];
    const Expr whole = c.shape[d];
    if (e.is_constant()) {
      c.shape[d] = 1;
      from.push_back(e), at.push_back(0), part.index.push_back(0);
      continue;
    }
    int axis = plain_axis(nests.cone, e).value_or(-1);
    if (axis >= 0 && !taken.insert(axis).second) refuse("{} is read along a diagonal", value);
    if (axis >= 0) {
      c.shape[d] = nests.cone.axes[size_t(axis)].extent;
      from.push_back(e), at.push_back(e);
    } else {
      const Interval range = e.range();
      if (range.low == unbounded_low || range.high == unbounded_high)
        refuse("{}: where {} ends is not known", value, luminal::to_string(e));
      // The axis of the copy is this index, counted from its least value on. One of the axes in it is a function of that and of the others: so the
      // condition becomes one on the copy's own axes.
      const std::string name = nests.free_name(copy + "_" + std::to_string(d));
      const Expr symbol = Expr::symbol(name, {0, range.high - range.low});
      Expr solved;
      bool known = false;
      for (Expr s : symbols_of(e))
        if (!known && !depends_on(e - s, s)) solved = s, known = true;
      if (!known) refuse("{}: no axis moves along {} in single steps", value, luminal::to_string(e));
      ExprMap<Expr> map;
      map[solved] = symbol + range.low - (e - solved);
      guard = substitute(guard, map);
      // Places between those that are read may lie anywhere.
      const Expr place = symbol + range.low;
      guard = logical_and(guard, logical_and(ge(place, 0), lt(place, whole)));
      axis = int(nests.cone.axes.size());
      nests.cone.axes.push_back({name, range.high - range.low + 1, symbol});
      c.shape[d] = range.high - range.low + 1;
      from.push_back(symbol + range.low), at.push_back(e - range.low);
    }
    c.axes[d] = axis;
    part.index.push_back(nests.cone.axes[size_t(axis)].symbol);
    own.push_back(part.index.back());
    stage.axes.push_back(axis);
  }
  for (Expr s : symbols_of(guard))
    if (std::ranges::find(own, s) == own.end())
      refuse("{}: whether it is read does not depend on the place in it alone", value);
  const int made = nests.add_value(c);
  part.out = made;
  part.axes = stage.axes;
  std::ranges::sort(part.axes);
  part.body = formula_load(v, c.dtype, from, guard);
  stage.components.push_back(part);
  for (int s : read.stages) {
    FormulaRewriter rewriter([&](const FormulaRef& f) {
      return f->kind == FormulaKind::load && f->value == v ? formula_load(made, f->dtype, at) : f;
    });
    rewrite_stage(nests.cone.stages[size_t(s)], [&](const FormulaRef& f) { return rewriter(f); });
  }
  StageNest nest = nests.fresh(stage);
  nests.insert_stage(*read.stages.begin(), std::move(stage), std::move(nest));
}

} // namespace luminal::kernel
