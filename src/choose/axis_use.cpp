// choose/axis_use.cpp -- how the reads and writes of a stage vary with its axes.
#include "choose/axis_use.h"
#include "base/contains.h"
#include "cone/formula.h"
#include <algorithm>

namespace luminal::kernel {

Step step_of(const Cone& cone, ValueId value, const std::vector<Expr>& index, Expr symbol, int64_t width) {
  for (Expr e : index)
    for (HoleId h : holes_of(cone, std::span(&e, 1)))
      for (Expr inner : index_exprs(cone.holes[h].value))
        if (depends_on(inner, symbol)) return Step::irregular;
  const Expr offset = layout_offset(cone.values[value], index);
  if (!depends_on(offset, symbol)) return Step::none;
  auto c = coefficient_of(offset, symbol);
  if (!c) return Step::irregular;
  if (c->is_constant(width)) return Step::contiguous;
  if (!c->is_constant()) return Step::strided;
  const int64_t step = c->value();
  const bool near = step > width && step <= 4 * width && step % width == 0;
  return near || step == -width ? Step::near : Step::strided;
}

Step step_of(const Cone& cone, const Formula& formula, Expr symbol) {
  const FormulaLoad& load = *load_of(formula);
  const int elements = std::max(1, bits(formula.dtype) / bits(cone.values[load.value].dtype));
  return step_of(cone, load.value, load.index, symbol, elements);
}

bool varies(std::span<const Expr> index, Expr symbol) {
  return std::ranges::any_of(index, [&](Expr e) { return depends_on(e, symbol); });
}

std::vector<Expr> over_loops(const StageNest& nest, const std::vector<Expr>& index) {
  std::vector<Expr> out;
  for (Expr e : index) out.push_back(substitute(e, nest.axis_values));
  return out;
}

AxisUse use_along(const Nests& nests, StageId stage, Expr symbol) {
  const Stage& s = nests.cone.stages[stage];
  const StageNest& nest = nests.stages[stage];
  AxisUse use;
  auto count = [&](Step step) {
    switch (step) {
    case Step::none: break;
    case Step::contiguous: use.contiguous++; break;
    case Step::near: use.near++; break;
    case Step::strided: use.strided++; break;
    case Step::irregular: use.irregular++; break;
    }
  };
  auto at = [&](const std::vector<Expr>& index) { return over_loops(nest, index); };
  // Holes are read at axes, not at loops: an axis that the symbol moves makes them irregular.
  std::set<HoleId> moved;
  for (const HoleId h : nests.cone.holes.ids())
    for (Expr e : index_exprs(nests.cone.holes[h].value))
      if (depends_on(substitute(e, nest.axis_values), symbol)) moved.insert(h);
  auto irregular = [&](const std::vector<Expr>& index) {
    for (HoleId h : holes_of(nests.cone, index))
      if (moved.contains(h)) return true;
    return false;
  };
  const auto step_of_load = [&](const FormulaLoad& f, DType dtype) {
    const DType stored = nests.cone.values[f.value].dtype;
    const bool words = dtype == DType::u32 && bits(stored) < 32 && bits(stored) >= 8;
    const int64_t width = words ? 32 / bits(stored) : 1;
    Step step =
        irregular(f.index) ? Step::irregular : step_of(nests.cone, f.value, at(f.index), symbol, width);
    if ((step == Step::contiguous || step == Step::near) && dtype != stored && !words) step = Step::strided;
    return step;
  };
  // Where an index from memory is read along the symbol, and nothing else but it moves.
  const auto gathers = [&](const FormulaLoad& f) {
    const Expr guard = substitute(f.guard, nest.axis_values);
    if (depends_on(guard, symbol) || varies(at(f.index), symbol)) return false;
    for (HoleId h : holes_of(nests.cone, f.index)) {
      bool plain = true;
      visit(nests.cone.holes[h].value, [&](const Formula& part) {
        const auto* load = part.as<FormulaLoad>();
        if (const auto* number = part.as<FormulaIndex>())
          plain = plain && !depends_on(substitute(number->value, nest.axis_values), symbol);
        if (!load) return;
        const Step step = step_of(nests.cone, load->value, at(load->index), symbol);
        plain = plain && load->guard.is_constant(1) && (step == Step::none || step == Step::contiguous);
      });
      if (!plain) return false;
    }
    return true;
  };
  visit_loads(s, [&](const FormulaLoad& f, DType dtype) {
    const Step step = step_of_load(f, dtype);
    count(step);
    use.gathers += step == Step::irregular && irregular(f.index) && gathers(f);
    use.computed += step == Step::irregular && !irregular(f.index);
    if (step != Step::near) return;
    const auto along = coefficient_of(layout_offset(nests.cone.values[f.value], at(f.index)), symbol);
    use.backwards += along && along->is_constant() && along->value() < 0;
  });
  for (const Component& c : s.components)
    if (c.after)
      visit_loads(c.body, [&](const FormulaLoad& f, DType dtype) {
        use.strided_after += step_of_load(f, dtype) == Step::strided;
      });
  use.rows = in_rows(nests, stage, symbol);
  for (auto& c : s.components) {
    if (!c.out || use.rows) continue;
    Step step = irregular(c.index) ? Step::irregular : step_of(nests.cone, c.out, at(c.index), symbol);
    if (step == Step::near) step = Step::strided;
    count(step);
    use.strided_after += step == Step::strided;
    use.store_contiguous |= step == Step::contiguous;
  }
  return use;
}

bool in_rows(const Nests& nests, StageId stage, Expr symbol) {
  const Stage& s = nests.cone.stages[stage];
  if (s.components.size() < 2 || !symbol.is_symbol()) return false;
  const ValueId out = s.components[0].out;
  if (!out || bits(nests.cone.values[out].dtype) != 32) return false;
  std::vector<int64_t> places;
  std::optional<Expr> first;
  int64_t step = 0;
  for (const Component& c : s.components) {
    if (c.kind != ComponentKind::map || c.out != out) return false;
    const Expr offset = layout_offset(nests.cone.values[out], over_loops(nests.stages[stage], c.index));
    const auto along = coefficient_of(offset, symbol);
    if (!along || !along->is_constant() || along->value() < 2) return false;
    if (!first) first = offset, step = along->value();
    const Expr apart = offset - *first;
    if (step != along->value() || !apart.is_constant()) return false;
    places.push_back(apart.value());
  }
  std::ranges::sort(places);
  // Rows of a few elements with others between them would be written in small pieces.
  for (size_t begin = 0, end; begin < places.size(); begin = end) {
    end = begin + 1;
    while (end < places.size() && places[end] == places[end - 1] + 1) end++;
    const auto length = int64_t(end - begin);
    if (length > step || length < 2 || (length < step && length % 4 != 0)) return false;
  }
  return true;
}

namespace {
/// The steps of the symbol after which the expression, or what is divided inside of it, moves; 1
/// where nothing is divided.
int64_t find_blocks(Expr e, Expr symbol, std::set<int64_t>& out) {
  int64_t step = 1;
  for (Expr a : e.args()) step = std::max(step, find_blocks(a, symbol, out));
  bool divides = e.kind() == ExprKind::floordiv || e.kind() == ExprKind::mod;
  if (!divides || !e.args()[1].is_constant() || e.args()[1].value() < 2 || !depends_on(e.args()[0], symbol))
    return step;
  int64_t block = e.args()[1].value();
  if (step > (int64_t{1} << 40) / block) return step;
  out.insert(step * block); // of quotients: (k // 64) % 8 comes round after 512
  return e.kind() == ExprKind::floordiv ? step * block : step;
}
} // namespace

std::vector<int64_t> blocks_of(const Cone& cone, const Stage& stage, Expr axis_symbol) {
  std::set<int64_t> out;
  // Where an element lies: [k // 28, k % 28] of rows of 28 is k.
  const auto offset = [&](const FormulaRef& f) -> FormulaRef {
    const FormulaLoad* load = load_of(*f);
    if (!load) return f;
    return formula_load(load->value, f->dtype, {layout_offset(cone.values[load->value], load->index)},
                        load->guard);
  };
  Stage flat = stage;
  rewrite_stage(flat, FormulaRewriter(offset));
  for (Component& c : flat.components)
    if (c.out) c.index = {layout_offset(cone.values[c.out], c.index)};
  for (Expr e : index_exprs(flat)) find_blocks(e, axis_symbol, out);
  for (HoleId h : holes_of(cone, stage))
    for (Expr e : index_exprs(cone.holes[h].value)) find_blocks(e, axis_symbol, out);
  return {out.begin(), out.end()};
}

bool has_fold(const Stage& stage) {
  return std::ranges::any_of(stage.components, [](auto& c) { return c.kind == ComponentKind::fold; });
}

std::vector<AxisId> reduced_axes(const Stage& stage) {
  std::vector<AxisId> out;
  for (AxisId a : stage.axes) {
    bool reduced = a == stage.scan_axis;
    for (auto& c : stage.components) reduced |= c.kind == ComponentKind::fold && !contains(c.axes, a);
    if (reduced) out.push_back(a);
  }
  return out;
}

} // namespace luminal::kernel
