// schedule/padded_copy.cpp -- the directive padded_copy: a copy of everything that windows reach of
// a value, with the zeros around it, whole or block by block.
#include "base/contains.h"
#include "cone/formula.h"
#include "schedule/nest.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

struct Read {
  std::vector<Expr> index;
  Expr guard = 1;
  std::set<StageId> stages;
  DType dtype;        ///< of the copy: what all its readers convert the value to
  bool words = false; ///< it is read in words of several elements, as they lie
};

/// A value that is converted to a wider type as it is read.
bool is_conversion(const Formula& f, ValueId value) {
  const auto* cast = f.as<FormulaCast>();
  const FormulaLoad* load = cast ? load_of(*cast->x) : nullptr;
  return load && load->value == value && bits(f.dtype) >= bits(cast->x->dtype);
}

Read read_of(const Nests& nests, ValueId value, bool in_blocks) {
  const ConeValue& v = nests.cone.values[value];
  Read read;
  int loads = 0, conversions = 0;
  for (const StageId s : nests.cone.stages.ids())
    visit_stage(nests.cone.stages[s], [&](const Formula& f) {
      if (is_conversion(f, value)) {
        conversions += conversions == 0 || read.dtype == f.dtype;
        read.dtype = f.dtype;
      }
      const FormulaLoad* load = load_of(f);
      if (!load || load->value != value) return;
      loads++;
      const bool words = f.dtype != v.dtype;
      if (words && (f.dtype != DType::u32 || bits(v.dtype) >= 32 || !v.layout.empty() || in_blocks))
        refuse("{} is read as {}: a copy would not hold its bytes", v.name, luminal::to_string(f.dtype));
      if (!read.stages.empty() &&
          (load->index != read.index || load->guard != read.guard || words != read.words))
        refuse("{} is read at several places", v.name);
      read.index = load->index, read.guard = load->guard, read.words = words;
      read.stages.insert(s);
    });
  if (read.stages.empty()) refuse("no stage reads {}", v.name);
  if (conversions < loads) read.dtype = v.dtype;
  return read;
}

/// The axis becomes two in all stages: AXIS.b runs over blocks of so many elements, AXIS.r within
/// one. Gives the first.
AxisId cut_axis(Nests& nests, const std::string& name, int64_t size) {
  const auto found = std::ranges::find(nests.cone.axes, name, &ConeAxis::name);
  if (found == nests.cone.axes.end()) refuse("there is no axis {}", name);
  const AxisId whole(found - nests.cone.axes.begin());
  const Expr extent = found->extent, symbol = found->symbol;
  if (!extent.is_constant() || size < 2 || extent.value() <= size || extent.value() % size)
    refuse("axis {} is not made of several blocks of {} elements", name, size);
  for (auto& hole : nests.cone.holes)
    for (Expr e : index_exprs(hole.value))
      if (depends_on(e, symbol)) refuse("an index that is read from memory varies with {}", name);
  const AxisId parts[] = {nests.cone.axes.end_id(), nests.cone.axes.end_id() + 1};
  StageLoop loops[2];
  for (int i : {0, 1}) {
    const int64_t trips = i == 0 ? extent.value() / size : size;
    const std::string part = nests.free_name(name + (i == 0 ? ".b" : ".r"));
    loops[i] = {part, Expr::symbol(part, {0, trips - 1}), trips};
    nests.cone.axes.push_back({part, trips, loops[i].symbol});
  }
  const ExprMap<Expr> map{{symbol, loops[0].symbol * size + loops[1].symbol}};
  const auto cut = [&](std::vector<AxisId>& axes) {
    const auto at = std::ranges::find(axes, whole);
    if (at == axes.end()) return;
    *at = parts[1];
    axes.insert(at, parts[0]);
  };
  for (const StageId s : nests.cone.stages.ids()) {
    Stage& stage = nests.cone.stages[s];
    StageNest& nest = nests.stages[s];
    if (!contains(stage.axes, whole)) continue;
    const auto loop = std::ranges::find(nest.loops, name, &StageLoop::name);
    const bool fresh = loop != nest.loops.end() && loop->kind == LoopKind::serial && loop->jam == 1 &&
                       nest.axis_values.at(symbol) == loop->symbol && nest.guards.empty() &&
                       nest.prefetches.empty();
    if (!fresh) refuse("stage {}: its loops have been changed before {} is cut", stage.name, name);
    if (!stage.ordered.empty() || stage.scan_axis) refuse("stage {} keeps the order of its axes", stage.name);
    *loop = loops[1];
    nest.loops.insert(loop, loops[0]);
    nest.axis_values.erase(symbol);
    for (auto& part : loops) nest.axis_values[part.symbol] = part.symbol;
    substitute_stage(stage, map);
    cut(stage.axes);
    for (Component& c : stage.components) cut(c.axes), std::ranges::sort(c.axes);
  }
  for (ConeValue& v : nests.cone.values) std::ranges::replace(v.axes, whole, AxisId());
  return parts[0];
}

/// A dimension of a copy that is read through windows.
struct WindowAxis {
  AxisId axis;
  Expr place, at; // where the copy reads, and where it is read
};

/// The axis of the copy is the index e, counted from its least value on. One of the axes in it is a
/// function of that and of the others: so the condition becomes one on the copy's own axes. `begin`: of a
/// block; `whole`: the value's extent.
WindowAxis window_axis(Nests& nests, const std::string& value, const std::string& axis, Expr e, Expr begin,
                       Expr whole, Expr& guard) {
  const Interval range = e.range();
  if (range.low == unbounded_low || range.high == unbounded_high)
    refuse("{}: where {} ends is not known", value, luminal::to_string(e));
  const std::string name = nests.free_name(axis);
  const Expr symbol = Expr::symbol(name, {0, range.high - range.low});
  Expr solved;
  int64_t step = 0; // of the index along that axis
  for (Expr s : symbols_of(e))
    for (int64_t by : {1, -1})
      if (step == 0 && !depends_on(e - s * by, s)) solved = s, step = by;
  if (step == 0) refuse("{}: no axis varies with {} in single steps", value, luminal::to_string(e));
  // What is read backwards lies the other way round in the copy.
  const Expr inside = step > 0 ? symbol + range.low : range.high - symbol;
  ExprMap<Expr> map;
  map[solved] = (inside - (e - solved * step)) * step;
  guard = substitute(guard, map);
  // Places between those that are read may lie anywhere.
  const Expr place = inside + begin;
  guard = logical_and(guard, logical_and(ge(place, 0), lt(place, whole)));
  const AxisId made = nests.cone.axes.add({name, range.high - range.low + 1, symbol});
  return {made, place, step > 0 ? e - range.low : range.high - e};
}

} // namespace

void padded_copy(Nests& nests, const std::string& value, const std::string& copy, const std::string& axis,
                 int64_t size) {
  const ValueId v = nests.value(value);
  std::optional<ConeAxis> block;
  AxisId block_axis;
  if (!axis.empty()) block_axis = cut_axis(nests, axis, size), block = nests.cone.axes[block_axis];
  const Read read = read_of(nests, v, block.has_value());
  ConeValue c = nests.cone.values[v];
  const DType dtype = c.dtype;
  c.dtype = read.dtype;
  c.name = copy;
  c.role = ValueRole::interior;
  c.layout.clear();
  c.axes.assign(c.shape.size(), AxisId());
  Stage stage;
  stage.name = nests.free_stage_name(copy);
  Component part;
  part.dtype = c.dtype;
  std::vector<Expr> from, at; // where the copy reads, and where it is read
  Expr guard = read.guard;
  std::vector<Expr> own; // symbols of the copy's axes
  std::set<AxisId> taken;
  bool in_blocks = false;
  for (size_t d = 0; d < c.shape.size(); d++) {
    // Where the block begins, and how far from there.
    Expr begin = 0, e = read.index[d];
    if (block && depends_on(e, block->symbol)) {
      const auto step = coefficient_of(e, block->symbol);
      if (!step || !step->is_constant()) refuse("{}: blocks of {} are not in equal steps", value, axis);
      begin = block->symbol * *step;
      e = e - begin;
      in_blocks = true;
    }
    const Expr whole = c.shape[d];
    const bool of_words = read.words && d + 1 == c.shape.size(); // the copy has all of their elements
    if (e.is_constant() && begin.is_constant(0) && !of_words) {
      c.shape[d] = 1;
      from.push_back(e), at.push_back(0), part.index.push_back(0);
      continue;
    }
    AxisId own_axis = begin.is_constant(0) && !of_words ? plain_axis(nests.cone, e) : AxisId();
    if (of_words) {
      own_axis = add_axis(nests, fmt::format("{}_{}", copy, d), whole);
      taken.insert(own_axis);
      from.push_back(nests.cone.axes[own_axis].symbol), at.push_back(e);
    } else if (own_axis) {
      if (!taken.insert(own_axis).second) refuse("{} is read along a diagonal", value);
      c.shape[d] = nests.cone.axes[own_axis].extent;
      from.push_back(e), at.push_back(e);
    } else {
      const WindowAxis window =
          window_axis(nests, value, fmt::format("{}_{}", copy, d), e, begin, whole, guard);
      own_axis = window.axis;
      c.shape[d] = nests.cone.axes[own_axis].extent;
      from.push_back(window.place), at.push_back(window.at);
    }
    c.axes[d] = own_axis;
    part.index.push_back(nests.cone.axes[own_axis].symbol);
    own.push_back(part.index.back());
    stage.axes.push_back(own_axis);
  }
  if (block) { // the copies of all blocks, one after the other
    if (!in_blocks) refuse("{} is not read along {}", value, axis);
    c.shape.insert(c.shape.begin(), block->extent);
    c.axes.insert(c.axes.begin(), block_axis);
    part.index.insert(part.index.begin(), block->symbol);
    at.insert(at.begin(), block->symbol);
    own.push_back(block->symbol);
    stage.axes.insert(stage.axes.begin(), block_axis);
  }
  for (Expr s : symbols_of(guard))
    if (!contains(own, s)) refuse("{}: whether it is read does not depend on the place in it alone", value);
  const ValueId made = nests.add_value(c);
  part.out = made;
  part.axes = stage.axes;
  std::ranges::sort(part.axes);
  part.body = formula_load(v, dtype, from, guard);
  if (c.dtype != dtype) part.body = formula_cast(c.dtype, part.body);
  stage.components.push_back(part);
  for (StageId s : read.stages) {
    FormulaRewriter rewriter([&](const FormulaRef& f) {
      const FormulaLoad* load = load_of(*f);
      const bool whole = c.dtype == dtype ? load && load->value == v : is_conversion(*f, v);
      return whole ? formula_load(made, f->dtype, at) : f;
    });
    rewrite_stage(nests.cone.stages[s], [&](const FormulaRef& f) { return rewriter(f); });
  }
  // (In front of a copy of the other operand, which stands beside the sum.)
  const bool first = read.words && nests.cone.values[v].role == ValueRole::input;
  insert_copy(nests, first ? StageId(0) : *read.stages.begin(), std::move(stage));
}

} // namespace luminal::kernel
