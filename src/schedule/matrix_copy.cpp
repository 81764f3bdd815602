// schedule/matrix_copy.cpp -- the directive `matrix`: an operand of a sum of products is copied as a matrix,
// so that the sum is a plain product of matrices whatever it is read through (windows, images, batches).
#include "base/contains.h"
#include "cone/formula.h"
#include "schedule/nest.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

/// Several axes as one: the place in it, the outermost first, and each of them as a function of that.
struct JointAxis {
  std::vector<AxisId> parts;
  int64_t extent = 1;

  Expr place(const Cone& cone) const {
    Expr at = 0;
    for (AxisId a : parts) at = at * cone.axes[a].extent + cone.axes[a].symbol;
    return at;
  }
  /// `symbol`: of the joint axis.
  void resolve(const Cone& cone, Expr symbol, ExprMap<Expr>& map) const {
    int64_t inside = 1;
    for (size_t i = parts.size(); i-- > 0;) {
      const ConeAxis& axis = cone.axes[parts[i]];
      const Expr outer = floordiv(symbol, inside);
      if (axis.symbol.is_symbol()) map[axis.symbol] = i == 0 ? outer : mod(outer, axis.extent);
      inside *= axis.extent.value();
    }
  }
};

JointAxis joint(const Cone& cone, std::vector<AxisId> parts) {
  JointAxis all{std::move(parts)};
  for (AxisId a : all.parts) all.extent *= cone.axes[a].extent.value();
  return all;
}

/// A stage of one map.
void write(Nests& nests, StageId before, const std::string& name, std::vector<AxisId> axes, ValueId out,
           std::vector<Expr> index, FormulaRef body) {
  Stage stage;
  stage.name = nests.free_stage_name(name);
  Component map;
  map.dtype = body->dtype, map.out = out, map.index = std::move(index), map.body = std::move(body);
  map.axes = stage.axes = std::move(axes);
  std::ranges::sort(map.axes);
  stage.components.push_back(std::move(map));
  insert_copy(nests, before, std::move(stage));
}

/// The summed axes in the order in which the elements of a plain load lie along them, the outermost first.
std::vector<AxisId> in_memory_order(const Cone& cone, const FormulaRef& operand, std::vector<AxisId> summed) {
  const FormulaLoad* load = nullptr;
  visit(operand, [&](const Formula& f) { load = load_of(f) ? load_of(f) : load; });
  if (!load) return summed;
  const Expr offset = layout_offset(cone.values[load->value], load->index);
  const auto step = [&](AxisId a) {
    const auto along = coefficient_of(offset, cone.axes[a].symbol);
    return along && along->is_constant() ? std::abs(along->value()) : int64_t{0};
  };
  std::ranges::stable_sort(summed, std::ranges::greater{}, step);
  return summed;
}

} // namespace

void matrix_copy(Nests& nests, const std::string& stage_name, const std::string& copy, int64_t multiple) {
  const StageId s = nests.stage(stage_name);
  Cone& cone = nests.cone;
  const Stage before = cone.stages[s];
  if (before.components.size() != 1 || before.components[0].kind != ComponentKind::fold || before.monoid ||
      before.components[0].init || !applies(*before.components[0].body, Op::mul))
    refuse("stage {} is not one sum of products", stage_name);
  const Component fold = before.components[0];
  if (!before.domain.is_constant(1) || !before.needed.is_constant(1) || !before.ordered.empty() ||
      !holes_of(cone, before).empty())
    refuse("stage {} leaves out points of its sum", stage_name);
  const ValueId out = fold.out;
  if (multiple < 1) refuse("columns in multiples of {}", multiple);
  for (AxisId a : before.axes)
    if (!cone.axes[a].extent.is_constant() || cone.axes[a].extent.is_constant(0))
      refuse("the extent of {} is not known", cone.axes[a].name);
  const bool changed = std::ranges::any_of(nests.stages[s].loops, [&](const StageLoop& l) {
    return l.kind != LoopKind::serial || (l.symbol.is_symbol() && !plain_axis(cone, l.symbol));
  });
  if (changed || !cone.values[out].layout.empty())
    refuse("the loops or results of stage {} have been changed before", stage_name);

  // Columns: axes of the results along which one operand alone moves, and the results side by side.
  const std::span<const FormulaRef> factors = args_of(*fold.body);
  const auto moves = [&](size_t i, AxisId a) {
    return varies_with(cone, index_exprs(factors[i]), cone.axes[a].symbol);
  };
  std::vector<AxisId> dims; // of the results, by their dimensions
  for (Expr e : fold.index) {
    const AxisId axis = plain_axis(cone, e);
    if (!axis && !e.is_constant(0)) refuse("stage {} writes its results at no plain axes", stage_name);
    dims.push_back(axis);
  }
  const auto last = std::ranges::find_if(dims.rbegin(), dims.rend(), [](AxisId a) { return bool(a); });
  if (last == dims.rend() || moves(0, *last) == moves(1, *last))
    refuse("the results of stage {} are contiguous along no axis of one operand", stage_name);
  const size_t side = moves(0, *last) ? 0 : 1;
  // (Axes of both operands are batches: each has a matrix of its own.)
  std::vector<AxisId> summed, columns, batches, others;
  for (AxisId a : before.axes)
    if (!contains(fold.axes, a)) summed.push_back(a);
  for (AxisId a : dims) {
    if (!a) continue;
    const bool both = moves(side, a) && moves(1 - side, a);
    if (both) batches.push_back(a);
    (moves(side, a) && !both ? columns : others).push_back(a);
  }
  const auto in_batches = [&](const auto&... last) {
    std::vector<Expr> index;
    for (AxisId a : batches) index.push_back(cone.axes[a].symbol);
    (index.push_back(last), ...);
    return index;
  };
  const JointAxis sum = joint(cone, in_memory_order(cone, factors[1 - side], summed)),
                  column = joint(cone, columns);
  const int64_t width = (column.extent + multiple - 1) / multiple * multiple;

  // The copy.
  const auto* cast = factors[side]->as<FormulaCast>();
  const FormulaRef number = cast ? cast->x : factors[side]; // narrow, where it is converted
  // (The bits of narrow floats: copied as numbers they would be rounded again.)
  const bool as_bits = is_float(number->dtype) && bits(number->dtype) == 16 && load_of(*number);
  const FormulaRef element = as_bits ? formula_bitcast(DType::u16, number) : number;
  ConeValue matrix = interior_value(copy, element->dtype);
  matrix.axes = batches;
  for (AxisId a : batches) matrix.shape.push_back(cone.axes[a].extent);
  for (const JointAxis* of : {&sum, &column})
    matrix.shape.emplace_back(of->extent), matrix.axes.emplace_back();
  const AxisId k = add_axis(nests, copy + ".k", sum.extent), n = add_axis(nests, copy + ".n", width);
  const ValueId made = nests.add_value(std::move(matrix));
  std::vector<AxisId> axes = batches;
  axes.insert(axes.end(), sum.parts.begin(), sum.parts.end());
  axes.insert(axes.end(), columns.begin(), columns.end());
  write(nests, nests.stage(stage_name), copy, axes, made, in_batches(sum.place(cone), column.place(cone)),
        element);

  // The product.
  Stage product = before;
  ExprMap<Expr> map;
  sum.resolve(cone, cone.axes[k].symbol, map);
  FormulaRef read = formula_load(made, element->dtype, in_batches(cone.axes[k].symbol, cone.axes[n].symbol),
                                 lt(cone.axes[n].symbol, column.extent));
  if (as_bits) read = formula_bitcast(number->dtype, read);
  if (cast) read = formula_cast(factors[side]->dtype, read);
  const FormulaRef other = substitute(factors[1 - side], map);
  Component& c = product.components[0];
  c.body = formula_op(Op::mul, side == 0 ? std::vector{read, other} : std::vector{other, read});
  std::vector<Expr> shape;
  std::vector<AxisId> result_axes;
  c.index.clear();
  for (AxisId a : others) {
    shape.push_back(cone.axes[a].extent), result_axes.push_back(a);
    c.index.push_back(cone.axes[a].symbol);
  }
  shape.emplace_back(width), result_axes.push_back(n), c.index.push_back(cone.axes[n].symbol);
  product.axes = c.axes = result_axes;
  product.axes.push_back(k);
  std::ranges::sort(c.axes);
  // What is read outside of the kernel is written from there, in its own order.
  const bool stored = cone.values[out].role != ValueRole::interior;
  const ValueId results =
      stored ? nests.add_value(interior_value(nests.free_name(copy + ".sums"), fold.dtype)) : out;
  cone.values[results].shape = shape;
  cone.values[results].axes = result_axes;
  c.out = results;
  const StageId at = nests.stage(stage_name);
  nests.stages[at] = nests.fresh(product);
  cone.stages[at] = std::move(product);
  const auto result_at = [&](const std::vector<Expr>& index) {
    std::vector<Expr> there;
    Expr place = 0;
    for (size_t d = 0; d < dims.size(); d++) {
      if (!dims[d]) continue;
      if (contains(columns, dims[d]))
        place = place * cone.axes[dims[d]].extent + index[d];
      else
        there.push_back(index[d]);
    }
    there.push_back(place);
    return there;
  };
  if (stored) {
    std::vector<AxisId> kept;
    for (AxisId a : dims)
      if (a) kept.push_back(a);
    write(nests, at + 1, copy + ".results", std::move(kept), out, fold.index,
          formula_load(results, fold.dtype, result_at(fold.index)));
    return;
  }
  FormulaRewriter rewriter([&](const FormulaRef& f) {
    const FormulaLoad* load = load_of(*f);
    return load && load->value == out ? formula_load(out, f->dtype, result_at(load->index), load->guard) : f;
  });
  for (StageId r = at + 1; r < cone.stages.end_id(); r++)
    rewrite_stage(cone.stages[r], [&](const FormulaRef& f) { return rewriter(f); });
}

} // namespace luminal::kernel
