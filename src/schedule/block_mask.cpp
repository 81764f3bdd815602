// schedule/block_mask.cpp -- the directive block_mask: in which blocks of a fold's elements a condition of
// data leaves any that counts.
//
// An element does not count where it is the identity of the fold: `select(condition, x, -inf)` of a maximum
// where the condition is false. The other components of a tuple follow: their transforms give the identity
// where they read an old value that is one (`select(old0 == -inf, 0, ..)`).
#include "base/contains.h"
#include "cone/formula.h"
#include "ir/identity.h"
#include "schedule/nest.h"
#include <algorithm>
#include <cmath>

namespace luminal::kernel {
namespace {

/// What a formula is worth where a condition in it is known, whatever else it reads.
class KnownValue {
public:
  KnownValue(FormulaRef condition, bool holds) : condition_(std::move(condition)), holds_(holds) {}
  std::optional<double> operator()(const FormulaRef& f) {
    const auto seen = known_.find(f.get()); // formulas share their parts
    if (seen != known_.end()) return seen->second;
    return known_[f.get()] = value_of(f);
  }

private:
  std::optional<double> value_of(const FormulaRef& f) {
    if (condition_ && equal(f, condition_)) return holds_;
    if (const auto* constant = f->as<FormulaConstant>()) return constant->value;
    if (const auto* cast = f->as<FormulaCast>()) {
      const auto x = (*this)(cast->x);
      const bool kept =
          x && is_float(f->dtype) && (*x == 0 || (std::isinf(*x) && std::isinf(greatest(f->dtype))));
      return kept ? x : std::nullopt;
    }
    const auto* op = f->as<FormulaOp>();
    if (!op) return {};
    if (op->op == Op::select) {
      const auto chosen = (*this)(op->args[0]), one = (*this)(op->args[1]), other = (*this)(op->args[2]);
      return chosen ? (*chosen != 0 ? one : other) : one == other ? one : std::nullopt;
    }
    if (!is_float(op->args[0]->dtype)) return {};
    std::vector<double> args;
    for (const FormulaRef& arg : op->args) {
      const auto value = (*this)(arg);
      if (!value) return {};
      args.push_back(*value);
    }
    return apply_f64(op->op, f->dtype, args.data());
  }

  FormulaRef condition_; // null: none
  bool holds_;
  std::map<const Formula*, std::optional<double>> known_;
};

/// Are all components of the fold their identities where the condition has this value?
bool hides(const Stage& fold, const FormulaRef& condition, bool holds) {
  std::vector<FormulaRef> old; // of the components so far: constants where they are identities
  for (size_t i = 0; i < size_t(fold.monoid->size()); i++) {
    const Component& c = fold.components[i];
    const MonoidComponent& m = fold.monoid->components()[i];
    if (!is_float(c.dtype)) return false;
    const double identity = identity_f64(m.op, c.dtype);
    std::vector<FormulaRef> leaves{formula_component(int(i), c.dtype)};
    const auto own = KnownValue(condition, holds)(c.body);
    if (own == identity) leaves[0] = formula_constant(c.dtype, identity);
    for (size_t j = 0; j < i; j++) {
      leaves.push_back(old[j]);
      leaves.push_back(formula_component(int(j), fold.components[j].dtype)); // the new value
    }
    if (KnownValue(nullptr, false)(formula_of(m.transform, leaves, c.dtype)) != identity) return false;
    old.push_back(formula_constant(c.dtype, identity));
  }
  return true;
}

/// The condition under which an element of the fold counts, as far as values in memory decide it; null where
/// they do not.
FormulaRef counts(const Stage& fold) {
  std::vector<FormulaRef> seen;
  FormulaRef all;
  const auto consider = [&](const FormulaRef& condition) {
    bool data = false;
    visit_loads(condition, [&](const FormulaLoad&) { data = true; });
    if (!data || std::ranges::any_of(seen, [&](auto& other) { return equal(other, condition); })) return;
    seen.push_back(condition);
    FormulaRef part;
    if (hides(fold, condition, false)) part = condition;
    if (!part && hides(fold, condition, true)) part = formula_op(Op::bit_not, {condition});
    if (part) all = all ? formula_op(Op::bit_and, {all, part}) : part;
  };
  for (size_t i = 0; i < size_t(fold.monoid->size()); i++)
    visit(fold.components[i].body, [&](const Formula& f) {
      if (applies(f, Op::select)) consider(args_of(f)[0]);
    });
  return all;
}

void check_readable(const Cone& cone, const Stage& fold, const FormulaRef& condition) {
  visit(condition, [&](const Formula& f) {
    const FormulaLoad* load = load_of(f);
    if (f.is<FormulaComponent>() || (load && cone.values[load->value].role != ValueRole::input))
      refuse("stage {}: its condition is computed in the kernel", fold.name);
  });
  if (!holes_of(cone, index_exprs(condition)).empty())
    refuse("stage {}: its condition is read through indices from memory", fold.name);
}

} // namespace

void block_mask(Nests& nests, const std::string& stage, const std::string& mask,
                std::span<const std::string> axes, std::span<const int64_t> sizes) {
  const Stage& fold = nests.cone.stages[nests.stage(stage)];
  if (!fold.monoid || fold.scan_axis) refuse("stage {} is not a fold of several components", stage);
  if (axes.size() != sizes.size()) refuse("the size of a block along each axis is expected");
  const FormulaRef condition = counts(fold);
  if (!condition) refuse("stage {}: its elements count whatever is read", stage);
  check_readable(nests.cone, fold, condition);

  Stage any;
  any.name = nests.free_stage_name(mask);
  Component part;
  part.kind = ComponentKind::fold, part.op = Op::max, part.dtype = DType::i32;
  ConeValue value = interior_value(mask, part.dtype);
  BlockMask made;
  ExprMap<Expr> places; // of the fold's axes
  std::vector<AxisId> summed;
  const auto keep = [&](AxisId axis, Expr index) {
    any.axes.push_back(axis), value.axes.push_back(axis), part.axes.push_back(axis);
    value.shape.push_back(nests.cone.axes[axis].extent);
    part.index.push_back(nests.cone.axes[axis].symbol);
    made.index.push_back(index);
  };
  for (AxisId a : fold.axes) {
    const ConeAxis axis = nests.cone.axes[a];
    const auto named = std::ranges::find(axes, axis.name);
    if (!axis.symbol.is_symbol() || !varies_with(nests.cone, index_exprs(condition), axis.symbol)) {
      if (named != axes.end()) refuse("stage {}: its condition does not vary with {}", stage, axis.name);
      continue;
    }
    if (named == axes.end()) {
      keep(a, axis.symbol);
      continue;
    }
    const int64_t size = sizes[size_t(named - axes.begin())];
    if (size < 2) refuse("a block has at least two elements");
    const AxisId blocks = add_axis(nests, axis.name + ".b", ceildiv(axis.extent, size)),
                 within = add_axis(nests, axis.name + ".r", size);
    const Expr place = nests.cone.axes[blocks].symbol * size + nests.cone.axes[within].symbol;
    keep(blocks, floordiv(axis.symbol, size));
    summed.push_back(within);
    places[axis.symbol] = place;
    if (prove(lt(place, axis.extent)) != Truth::yes)
      any.domain = logical_and(any.domain, lt(place, axis.extent));
  }
  if (summed.size() != axes.size()) refuse("stage {} does not have all of the axes", stage);
  any.axes.insert(any.axes.end(), summed.begin(), summed.end());
  std::ranges::sort(part.axes);
  part.body = formula_cast(part.dtype, substitute(condition, places));
  made.stage = stage;
  made.any = part.out = nests.add_value(std::move(value));
  made.symbol = Expr::symbol(nests.free_name(mask + ".any"), {0, 1});
  any.components.push_back(std::move(part));
  nests.block_masks.push_back(std::move(made));
  insert_copy(nests, StageId(0), std::move(any));
}

} // namespace luminal::kernel
