// schedule/dot_words.cpp -- several narrow numbers in one word: operands that lie so already, and
// copies that are made so.
#include "schedule/dot_words.h"
#include "base/contains.h"
#include "cone/formula.h"
#include <algorithm>
#include <fmt/format.h>
#include <functional>

namespace luminal::kernel {
namespace {

/// The k neighbours along an axis in one u32: what the elements are made of is made for all of them
/// at once.
class Words {
public:
  /// `axis` = k * word + 0 .. k - 1.
  Words(const Cone& cone, Expr axis, Expr word, const Unit& unit)
      : cone_(cone), axis_(axis), first_(word * unit.k), k_(unit.k), width_(32 / unit.k) {}

  /// Null where the elements are not contiguous, or an operation on them has no form on words.
  FormulaRef operator()(const FormulaRef& f) const {
    if (!varies(f)) return spread(f);
    return visit(
        *f, [&](const FormulaLoad& load) { return loaded(load, f->dtype); },
        [&](const FormulaBitcast& same) { return bits(same.x->dtype) == width_ ? (*this)(same.x) : nullptr; },
        [&](const FormulaCast& cast) { return converted(cast.x, f->dtype); },
        [&](const FormulaOp& op) { return combined(op, f->dtype); },
        [](const auto&) { return FormulaRef(); });
  }

private:
  bool varies(const FormulaRef& f) const {
    return std::ranges::any_of(index_exprs(f), [&](Expr e) { return depends_on(e, axis_); });
  }
  FormulaRef word(double value) const { return formula_constant(DType::u32, value); }
  /// The same byte (or half) everywhere.
  FormulaRef all(uint32_t element) const {
    return word(width_ == 8 ? element * 0x01010101u : element * 0x00010001u);
  }
  FormulaRef spread(const FormulaRef& f) const {
    if (const auto* known = f->as<FormulaConstant>(); known && is_integer(f->dtype))
      return all(uint32_t(int64_t(known->value)) & ((1u << width_) - 1));
    if (bits(f->dtype) > width_ || f->dtype == DType::i4) return nullptr;
    const DType unsigned_type = width_ == 8 ? DType::u8 : DType::u16;
    FormulaRef x = bits(f->dtype) == width_ ? formula_bitcast(unsigned_type, f) : f;
    return formula_op(Op::mul, {formula_cast(DType::u32, x), all(1)});
  }
  FormulaRef loaded(const FormulaLoad& f, DType dtype) const {
    const ConeValue& v = cone_.values[f.value];
    if (bits(dtype) != width_ || bits(v.dtype) != width_ || depends_on(f.guard, axis_)) return nullptr;
    const auto at = [&](int64_t element) {
      std::vector<Expr> index;
      for (Expr e : f.index) index.push_back(luminal::substitute(e, {{axis_, first_ + element}}));
      return index;
    };
    const Expr begin = layout_offset(v, at(0));
    for (int64_t i = 1; i < k_; i++)
      if (!proves_equal(layout_offset(v, at(i)), begin + i)) return nullptr;
    return formula_load(f.value, DType::u32, at(0), f.guard);
  }
  FormulaRef converted(const FormulaRef& f, DType to) const {
    const DType from = f->dtype;
    if (width_ != 8 || !is_integer(from) || !is_integer(to) || bits(from) > 8 || bits(to) > 8 ||
        from == DType::i4 || to == DType::i4)
      return nullptr;
    FormulaRef x = (*this)(f);
    return x && to == DType::u4 ? formula_op(Op::bit_and, {x, all(15)}) : x;
  }
  FormulaRef combined(const FormulaOp& f, DType dtype) const {
    if (width_ != 8) return nullptr;
    switch (f.op) {
    case Op::bit_and:
    case Op::bit_or:
    case Op::bit_xor: {
      FormulaRef a = (*this)(f.args[0]), b = (*this)(f.args[1]);
      return a && b ? formula_op(f.op, {a, b}) : nullptr;
    }
    case Op::shl:
    case Op::shr: { // bits that come over from a neighbour are taken away
      if (varies(f.args[1]) || dtype != DType::u8) return nullptr;
      FormulaRef a = (*this)(f.args[0]);
      if (!a) return nullptr;
      FormulaRef kept;
      if (const auto* known = f.args[1]->as<FormulaConstant>()) {
        const auto by = uint32_t(known->value);
        if (by >= 8) return all(0);
        kept = all(f.op == Op::shr ? 255u >> by : 255u << by & 255u);
      } else {
        kept = spread(formula_op(f.op, {formula_constant(DType::u8, 255), f.args[1]}));
      }
      return formula_op(Op::bit_and, {formula_op(f.op, {a, formula_cast(DType::u32, f.args[1])}), kept});
    }
    default: return nullptr;
    }
  }

  const Cone& cone_;
  Expr axis_, first_;
  int k_, width_;
};

} // namespace

FormulaRef in_words(const Cone& cone, const FormulaRef& f, Expr axis, Expr word, const Unit& unit) {
  return Words(cone, axis, word, unit)(f);
}

WordDomain word_domain(Nests& nests, const Stage& stage, const ConeAxis& axis, Expr words, const Unit& unit) {
  WordDomain out;
  out.all.resize(size_t(unit.k));
  out.more.resize(size_t(unit.k));
  if (stage.domain.is_constant(1)) return out;
  std::vector<Expr> conditions{stage.domain};
  if (stage.domain.kind() == ExprKind::logical_and)
    conditions.assign(stage.domain.args().begin(), stage.domain.args().end());
  if (!holes_of(nests.cone, conditions).empty())
    refuse("the domain of stage {} is found through indices from memory", stage.name);
  std::vector<Expr> some;
  for (Expr condition : conditions) {
    for (AxisId a : stage.axes)
      if (const Expr symbol = nests.cone.axes[a].symbol;
          symbol != axis.symbol && symbol.is_symbol() && depends_on(condition, symbol))
        out.axes.insert(a);
    std::optional<Expr> rises;
    if (condition.kind() == ExprKind::lt)
      rises = coefficient_of(condition.args()[1] - condition.args()[0], axis.symbol);
    if (depends_on(condition, axis.symbol) && (!rises || !rises->is_constant()))
      refuse("the domain of stage {} does not begin or end along {}", stage.name, axis.name);
    const int last = unit.k - 1, loosest = rises && rises->value() > 0 ? last : 0;
    for (int i = 0; i < unit.k; i++) {
      const Expr here = luminal::substitute(condition, {{axis.symbol, words * unit.k + i}});
      if (here != condition) nests.instances.insert({here, condition});
      out.all[size_t(i)].push_back(here);
      if (i == loosest) some.push_back(here);
      if (i != loosest && here != condition) out.more[size_t(i)].push_back(here);
    }
  }
  out.some = logical_and(some);
  return out;
}

FormulaRef masked(FormulaRef word, const WordDomain& domain, const Unit& unit) {
  const int width = 32 / unit.k;
  for (int i = 0; i < unit.k; i++)
    for (Expr condition : domain.more[size_t(i)]) {
      const uint32_t element = ((uint32_t{1} << width) - 1) << (i * width);
      const FormulaRef mask = formula_op(Op::select, {formula_index(condition, DType::boolean),
                                                      formula_constant(DType::u32, UINT32_MAX),
                                                      formula_constant(DType::u32, double(~element))});
      word = formula_op(Op::bit_and, {word, mask});
    }
  return word;
}

FormulaRef word_of(std::span<const FormulaRef> elements, const Unit& unit) {
  const int width = 32 / unit.k;
  FormulaRef word;
  for (size_t i = 0; i < elements.size(); i++) {
    FormulaRef x = formula_cast(DType::u32, elements[i]);
    if (i) x = formula_op(Op::shl, {x, formula_constant(DType::u32, double(i) * width)});
    word = word ? formula_op(Op::bit_or, {word, x}) : x;
  }
  return word;
}

FormulaRef element_at(const FormulaRef& f, const ConeAxis& axis, Expr place, const Unit& unit) {
  const int width = 32 / unit.k;
  FormulaRef x = substitute(f, {{axis.symbol, place}});
  if (const auto* same = x->as<FormulaBitcast>();
      same && same->x->dtype == (width == 8 ? DType::u8 : DType::u16))
    return same->x;
  return bits(x->dtype) == width ? formula_bitcast(width == 8 ? DType::u8 : DType::u16, x) : x;
}

bool is_value_along(const Nests& nests, const FormulaRef& f, const ConeAxis& axis) {
  const FormulaLoad* load = load_of(*f);
  if (!load || depends_on(load->guard, axis.symbol)) return false;
  const ConeValue& value = nests.cone.values[load->value];
  const auto depending =
      std::ranges::count_if(load->index, [&](Expr e) { return depends_on(e, axis.symbol); });
  return f->dtype == value.dtype && depending == 1 && std::ranges::count(load->index, axis.symbol) == 1 &&
         std::ranges::all_of(value.shape, [](Expr e) { return e.is_constant(); });
}

namespace {

/// A value at axes of its own, all of its elements, and where a sum reads it.
struct WholeValue {
  FormulaRef element;
  std::vector<AxisId> axes;
  std::vector<Expr> index; // by those axes
  Expr guard = 1;
};

/// Of an operand that is a value along the axis.
WholeValue whole_value(Nests& nests, const FormulaRef& operand, const std::string& name,
                       const ConeAxis& axis) {
  const FormulaLoad& f = *load_of(*operand);
  WholeValue out{nullptr, {}, {}, f.guard};
  std::vector<Expr> own;
  for (size_t d = 0; d < f.index.size(); d++) {
    const Expr e = f.index[d], extent = nests.cone.values[f.value].shape[d];
    if (e == axis.symbol) {
      own.push_back(e);
      out.axes.push_back(
          AxisId(std::ranges::find(nests.cone.axes, axis.name, &ConeAxis::name) - nests.cone.axes.begin()));
    } else if (extent.is_constant(1)) {
      own.push_back(0);
      continue;
    } else {
      const std::string dim = nests.free_name(fmt::format("{}_{}", name, d));
      own.push_back(Expr::symbol(dim, {0, extent.value() - 1}));
      out.axes.push_back(nests.cone.axes.add({dim, extent, own.back()}));
    }
    out.index.push_back(e);
  }
  out.element = formula_load(f.value, operand->dtype, std::move(own), 1);
  return out;
}

/// The word number `words` of elements along the axis, zeros behind its end and, if asked for, outside of the
/// domain.
FormulaRef assembled_word(const FormulaRef& f, const ConeAxis& axis, Expr words, const WordDomain* domain,
                          const Unit& unit) {
  std::vector<FormulaRef> elements;
  for (int i = 0; i < unit.k; i++) {
    const Expr at = words * unit.k + i;
    FormulaRef x = element_at(f, axis, at, unit);
    std::vector<Expr> conditions{lt(at, axis.extent)};
    if (domain) {
      const std::vector<Expr>& own = domain->all[size_t(i)];
      conditions.insert(conditions.end(), own.begin(), own.end());
    }
    for (Expr inside : conditions)
      if (prove(inside) != Truth::yes)
        x = formula_op(Op::select, {formula_index(inside, DType::boolean), guarded(x, inside),
                                    formula_constant(x->dtype, 0)});
    elements.push_back(std::move(x));
  }
  return word_of(elements, unit);
}

} // namespace

FormulaRef insert_words(Nests& nests, StageId stage, const WordsCopy& copy, const ConeAxis& axis,
                        AxisId words_axis, const WordDomain& domain, const Unit& unit) {
  for (auto& other : nests.cone.values)
    if (other.name == copy.name) refuse("the name {} belongs to a value already", copy.name);
  const ConeAxis words = nests.cone.axes[words_axis];
  std::optional<WholeValue> whole;
  if (copy.of == WordsOf::values) whole = whole_value(nests, copy.operand, copy.name, axis);
  const FormulaRef& f = whole ? whole->element : copy.operand;
  // Dimensions in the order of the first load that has them.
  std::vector<AxisId> dims = whole ? whole->axes : std::vector<AxisId>();
  const auto note = [&](Expr e) {
    for (AxisId a : nests.cone.stages[stage].axes)
      if (nests.cone.axes[a].symbol.is_symbol() && depends_on(e, nests.cone.axes[a].symbol) &&
          !contains(dims, a))
        dims.push_back(a);
  };
  visit(f, [&](const Formula& part) {
    if (part.is<FormulaComponent>()) refuse("an operand of {} is made in the same stage", unit.name);
    for (Expr e : index_of(part)) note(e);
    note(guard_of(part));
  });
  if (!whole && axis.extent.multiple() % unit.k != 0) note(axis.symbol); // zeros fill the last word
  if (copy.columns && !whole) {
    const auto is = [&](Expr symbol) {
      return [&, symbol](AxisId a) { return nests.cone.axes[a].symbol == symbol; };
    };
    const bool rows = std::ranges::none_of(dims, is(*copy.columns));
    std::ranges::stable_partition(dims, is(axis.symbol));
    std::ranges::stable_partition(dims, std::not_fn(is(rows ? axis.symbol : *copy.columns)));
  }
  const bool inside_domain = !whole && !domain.some.is_constant(1) &&
                             std::ranges::all_of(domain.axes, [&](AxisId a) { return contains(dims, a); });
  bool of_kernel = false;
  visit_loads(f, [&](const FormulaLoad& part) {
    of_kernel |= nests.cone.values[part.value].role != ValueRole::input;
  });
  ConeValue value = interior_value(copy.name, DType::u32);
  Component part;
  part.dtype = DType::u32;
  part.body =
      copy.word ? copy.word : assembled_word(f, axis, words.symbol, inside_domain ? &domain : nullptr, unit);
  Stage stage_of_copy;
  stage_of_copy.name = nests.free_stage_name(copy.name);
  if (inside_domain) stage_of_copy.domain = domain.some;
  for (AxisId d : dims) {
    const AxisId a = nests.cone.axes[d].symbol == axis.symbol ? words_axis : d;
    const ConeAxis& of = nests.cone.axes[a];
    value.shape.push_back(of.extent);
    value.axes.push_back(a);
    part.index.push_back(of.symbol);
    stage_of_copy.axes.push_back(a);
  }
  part.axes = stage_of_copy.axes;
  std::ranges::sort(part.axes);
  part.out = nests.add_value(std::move(value));
  FormulaRef load = formula_load(part.out, DType::u32, part.index);
  if (whole) {
    for (Expr& e : whole->index) e = luminal::substitute(e, {{axis.symbol, words.symbol}});
    load = formula_load(part.out, DType::u32, std::move(whole->index), whole->guard);
  }
  stage_of_copy.components.push_back(std::move(part));
  StageNest nest = nests.fresh(stage_of_copy);
  const bool first = nests.stages[stage].cascade != 0 && !of_kernel;
  nests.insert_stage(first ? StageId(0) : stage, std::move(stage_of_copy), std::move(nest));
  return inside_domain ? load : masked(load, domain, unit);
}

} // namespace luminal::kernel
