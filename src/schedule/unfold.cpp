// schedule/unfold.cpp -- the directive unfold: a fold over a few points becomes a map that combines
// them one after the other. Where an axis that it keeps is written out as well (segments), what the
// points are multiplied with is known, and zeros and ones are not multiplied.
#include "cone/formula.h"
#include "ir/identity.h"
#include "schedule/nest.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

constexpr int64_t most_points = 16;

} // namespace

FormulaRef without_units(const FormulaRef& f) {
  if (!is_float(f->dtype)) return f;
  if (const auto* index = f->as<FormulaIndex>(); index && index->value.is_constant())
    return formula_constant(f->dtype, double(index->value.value()));
  if (const auto* cast = f->as<FormulaCast>(); cast && is_integer(cast->x->dtype))
    if (const auto* known = cast->x->as<FormulaConstant>())
      return formula_constant(f->dtype, round_to(f->dtype, known->value));
  const auto* op = f->as<FormulaOp>();
  if (!op) return f;
  const auto& x = op->args;
  switch (op->op) {
  case Op::add:
    if (is_constant(x[0], 0)) return x[1];
    if (is_constant(x[1], 0)) return x[0];
    return f;
  case Op::mul:
    for (const size_t i : {0, 1}) {
      if (is_constant(x[i], 1)) return x[1 - i];
      if (is_constant(x[i], -1)) return formula_op(Op::neg, {x[1 - i]});
    }
    return f;
  case Op::fma:
    if (is_constant(x[2], 0)) return without_units(formula_op(Op::mul, {x[0], x[1]}));
    for (const size_t i : {0, 1}) {
      if (is_constant(x[i], 1)) return formula_op(Op::add, {x[2], x[1 - i]});
      if (is_constant(x[i], -1)) return formula_op(Op::sub, {x[2], x[1 - i]});
    }
    return f;
  default: return f;
  }
}

void unfold(Nests& nests, const std::string& name) {
  const StageId s = nests.stage(name);
  const Stage& whole = nests.cone.stages[s];
  if (whole.monoid || whole.components.size() != 1 || whole.components[0].kind != ComponentKind::fold ||
      whole.components[0].init)
    refuse("stage {} is not one fold alone", name);
  if (!nests.stages[s].together.empty()) refuse("stage {} is part of a cascade", name);
  const Component fold = whole.components[0];
  std::vector<ExprMap<Expr>> points{{}};
  for (const AxisId a : whole.axes) {
    if (std::ranges::find(fold.axes, a) != fold.axes.end()) continue;
    const ConeAxis& axis = nests.cone.axes[a];
    if (!axis.extent.is_constant() || axis.extent.value() * int64_t(points.size()) > most_points)
      refuse("stage {} has more points than {} along {}", name, most_points, axis.name);
    for (const HoleId h : holes_of(nests.cone, whole))
      for (const Expr e : index_exprs(nests.cone.holes[h].value))
        if (depends_on(e, axis.symbol)) refuse("an index that is read from memory varies with {}", axis.name);
    std::vector<ExprMap<Expr>> more;
    for (const ExprMap<Expr>& point : points)
      for (int64_t i = 0; i < axis.extent.value(); i++) {
        more.push_back(point);
        if (axis.symbol.is_symbol()) more.back()[axis.symbol] = i;
      }
    points = std::move(more);
  }
  FormulaRef sum = formula_constant(fold.dtype, identity_f64(fold.op, fold.dtype));
  for (const ExprMap<Expr>& point : points) {
    const Expr taken = substitute(whole.domain, point);
    if (taken.is_constant(0)) continue;
    const FormulaRef body = substitute(fold.body, point);
    const bool product =
        fold.op == Op::add && applies(*body, Op::mul) && is_float(body->dtype) && body->dtype == fold.dtype;
    FormulaRef with = product ? formula_op(Op::fma, {args_of(*body)[0], args_of(*body)[1], sum})
                              : formula_op(fold.op, {sum, formula_cast(fold.dtype, body)});
    with = without_units(with);
    sum = taken.is_constant() ? with
                              : formula_op(Op::select, {formula_index(taken, DType::boolean), with, sum});
  }
  Stage map = whole;
  map.domain = 1;
  map.axes = {};
  for (const AxisId a : whole.axes)
    if (std::ranges::find(fold.axes, a) != fold.axes.end()) map.axes.push_back(a);
  map.components[0].kind = ComponentKind::map;
  map.components[0].body = sum;
  const std::string at = nests.stages[s].at;
  nests.erase_stage(s);
  StageNest own = nests.fresh(map);
  own.at = at;
  nests.insert_stage(s, std::move(map), std::move(own));
}

} // namespace luminal::kernel
