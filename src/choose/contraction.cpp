// choose/contraction.cpp -- the role of each axis of a stage and how each operand varies along it.
#include "choose/contraction.h"
#include "cone/formula.h"
#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace luminal::kernel {
namespace {

Operand operand_at(const Cone& cone, const Stage& stage, ValueId value, DType dtype,
                   const std::vector<Expr>& index, Expr guard) {
  const ConeValue& stored = cone.values[value];
  Operand out{value, bits(dtype), guard, stored.role == ValueRole::interior, {}, index};
  const int64_t width = std::max(1, bits(dtype) / bits(stored.dtype));
  for (const AxisId a : stage.axes)
    out.along.push_back(step_of(cone, value, index, cone.axes[a].symbol, width));
  return out;
}

/// Is the symbol added to a symbol of another axis in one index of an operand?
bool slides(const Cone& cone, const Stage& stage, const Contraction& c, Expr symbol) {
  for (const Operand& operand : c.operands)
    for (const Expr e : operand.index) {
      if (!depends_on(e, symbol)) continue;
      for (size_t i = 0; i < c.axes.size(); i++)
        if (const Expr other = cone.axes[c.axes[i]].symbol;
            other != symbol && c.roles[i] != AxisRole::reduction && depends_on(e, other) &&
            coefficient_of(e, symbol) && coefficient_of(e, other) && !stage.scan_axis)
          return true;
    }
  return false;
}

} // namespace

std::string_view to_string(AxisRole role) {
  constexpr std::string_view names[] = {"batch", "row", "column", "reduction", "window"};
  return names[size_t(role)];
}

std::optional<size_t> Contraction::position(AxisId axis) const {
  const auto found = std::ranges::find(axes, axis);
  if (found == axes.end()) return {};
  return size_t(found - axes.begin());
}

bool Contraction::reuses() const {
  if (!folds) return false;
  for (size_t i = 0; i < axes.size(); i++)
    if (roles[i] == AxisRole::row || roles[i] == AxisRole::column) return true;
  return false;
}

Contraction contraction_of(const Cone& cone, const Stage& stage) {
  Contraction c;
  c.axes = stage.axes;
  c.folds = has_fold(stage);
  visit_loads(stage, [&](const FormulaLoad& f, DType dtype) {
    const bool known = std::ranges::any_of(c.operands, [&](const Operand& o) {
      return o.value == f.value && o.index == f.index && o.bits == bits(dtype);
    });
    if (!known) c.operands.push_back(operand_at(cone, stage, f.value, dtype, f.index, f.guard));
  });
  for (const Component& part : stage.components)
    if (part.out)
      c.results.push_back(operand_at(cone, stage, part.out, cone.values[part.out].dtype, part.index, 1));

  // Of a tuple: what none of its components keeps.
  std::vector<AxisId> reduced;
  for (const AxisId a : reduced_axes(stage))
    if (a == stage.scan_axis || std::ranges::none_of(stage.components, [&](const Component& part) {
          return !part.after && std::ranges::find(part.axes, a) != part.axes.end();
        }))
      reduced.push_back(a);
  const auto varying = [&](size_t axis) {
    std::vector<bool> out;
    for (const Operand& o : c.operands) out.push_back(o.along[axis] != Step::none);
    return out;
  };
  // The kept axis along which the last result is contiguous.
  std::vector<bool> of_columns;
  for (size_t i = 0; i < c.axes.size() && !c.results.empty(); i++)
    if (c.results.back().along[i] == Step::contiguous &&
        std::ranges::find(reduced, c.axes[i]) == reduced.end())
      of_columns = varying(i);
  for (size_t i = 0; i < c.axes.size(); i++) {
    const std::vector<bool> varies = varying(i);
    const auto count = std::ranges::count(varies, true);
    AxisRole role = AxisRole::row;
    if (std::ranges::find(reduced, c.axes[i]) != reduced.end())
      role = AxisRole::reduction;
    else if (count == 0 || size_t(count) == varies.size())
      role = AxisRole::batch;
    else if (varies == of_columns)
      role = AxisRole::column;
    c.roles.push_back(role);
  }
  for (size_t i = 0; i < c.axes.size(); i++)
    if (c.roles[i] == AxisRole::reduction && slides(cone, stage, c, cone.axes[c.axes[i]].symbol))
      c.roles[i] = AxisRole::window;
  return c;
}

std::vector<const Formula*> factors_of(const Stage& stage) {
  std::vector<const Formula*> loads;
  if (stage.monoid || stage.components.empty()) return loads;
  const Component& sum = stage.components[0];
  if (sum.kind != ComponentKind::fold || sum.op != Op::add) return loads;
  visit(sum.body, [&](const Formula& f) {
    if (load_of(f)) loads.push_back(&f);
  });
  if (loads.size() != 2) loads.clear();
  return loads;
}

std::string to_string(const Cone& cone, const Contraction& c) {
  constexpr std::string_view steps[] = {"invariant", "contiguous", "near", "strided", "irregular"};
  std::vector<std::string> axes, uses;
  for (size_t i = 0; i < c.axes.size(); i++)
    axes.push_back(fmt::format("{} {}", cone.axes[c.axes[i]].name, to_string(c.roles[i])));
  const auto add = [&](const Operand& o, std::string_view sign) {
    std::vector<std::string> along;
    for (size_t i = 0; i < c.axes.size(); i++)
      along.push_back(fmt::format("{} {}", cone.axes[c.axes[i]].name, steps[size_t(o.along[i])]));
    uses.push_back(fmt::format("{}{} {} bits [{}]{}", sign, cone.values[o.value].name, o.bits,
                               fmt::join(along, ", "),
                               o.guard.is_constant(1) ? "" : fmt::format(" where {}", to_string(o.guard))));
  };
  for (const Operand& o : c.operands) add(o, "");
  for (const Operand& o : c.results) add(o, "-> ");
  return fmt::format("{}; {}", fmt::join(axes, ", "), fmt::join(uses, "; "));
}

} // namespace luminal::kernel
