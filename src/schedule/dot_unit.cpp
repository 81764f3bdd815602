// schedule/dot_unit.cpp -- the directive `unit`: a sum of products of narrow numbers becomes steps
// of a dot instruction on words that hold several of them.
#include "base/contains.h"
#include "cone/formula.h"
#include "loop/unit.h"
#include "schedule/nest.h"
#include <algorithm>
#include <fmt/format.h>

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

/// The domain of a sum whose steps are words.
struct WordDomain {
  Expr some = 1;                       // holds where an element of the word may take part
  std::vector<std::vector<Expr>> all;  // conditions for each element,
  std::vector<std::vector<Expr>> more; // those that do not follow from `some`
  std::set<AxisId> axes;               // that they depend on, the one of the words left out
};

/// Of the conditions of a domain `axis` = words * k + i: each holds for some element where it holds
/// for the first or for the last one.
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

/// The words with zeros in place of elements outside of the domain.
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

/// Elements put together in a word, the first one lowest.
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

/// The bits of an element at a place of the axis.
FormulaRef element_at(const FormulaRef& f, const ConeAxis& axis, Expr place, const Unit& unit) {
  const int width = 32 / unit.k;
  FormulaRef x = substitute(f, {{axis.symbol, place}});
  if (const auto* same = x->as<FormulaBitcast>();
      same && same->x->dtype == (width == 8 ? DType::u8 : DType::u16))
    return same->x;
  return bits(x->dtype) == width ? formula_bitcast(width == 8 ? DType::u8 : DType::u16, x) : x;
}

/// A value at axes of its own, all of its elements, and where a sum reads it.
struct WholeValue {
  FormulaRef element;
  std::vector<AxisId> axes;
  std::vector<Expr> index; // by those axes
  Expr guard = 1;
};

/// Is the operand a value of known size with the axis as one of its dimensions?
bool is_value_along(const Nests& nests, const FormulaRef& f, const ConeAxis& axis) {
  const FormulaLoad* load = load_of(*f);
  if (!load || depends_on(load->guard, axis.symbol)) return false;
  const ConeValue& value = nests.cone.values[load->value];
  const auto depending =
      std::ranges::count_if(load->index, [&](Expr e) { return depends_on(e, axis.symbol); });
  return f->dtype == value.dtype && depending == 1 && std::ranges::count(load->index, axis.symbol) == 1 &&
         std::ranges::all_of(value.shape, [](Expr e) { return e.is_constant(); });
}

/// Of such an operand.
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

/// A copy of an operand in words: a stage of its own, and the load of a word of it. What knows all
/// axes of the domain has zeros outside of it; what reads nothing that the kernel makes comes
/// before the loops of a cascade. `words_first`: as the first dimension. `word`: where the operand lies
/// in words, one of them.
FormulaRef copied(Nests& nests, StageId stage, const std::string& name, WordsOf what,
                  const FormulaRef& operand, const FormulaRef& word, const ConeAxis& axis, AxisId words_axis,
                  bool words_first, const WordDomain& domain, const Unit& unit) {
  for (auto& other : nests.cone.values)
    if (other.name == name) refuse("the name {} belongs to a value already", name);
  const ConeAxis words = nests.cone.axes[words_axis];
  std::optional<WholeValue> whole;
  if (what == WordsOf::values) whole = whole_value(nests, operand, name, axis);
  const FormulaRef& f = whole ? whole->element : operand;
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
  if (words_first && !whole)
    std::ranges::stable_partition(dims, [&](AxisId a) { return nests.cone.axes[a].symbol == axis.symbol; });
  const bool inside_domain = !whole && !domain.some.is_constant(1) &&
                             std::ranges::all_of(domain.axes, [&](AxisId a) { return contains(dims, a); });
  bool of_kernel = false;
  visit_loads(f, [&](const FormulaLoad& part) {
    of_kernel |= nests.cone.values[part.value].role != ValueRole::input;
  });
  std::vector<FormulaRef> elements;
  for (int i = 0; i < unit.k; i++) {
    const Expr at = words.symbol * unit.k + i;
    FormulaRef x = element_at(f, axis, at, unit);
    std::vector<Expr> conditions{lt(at, axis.extent)};
    if (inside_domain) {
      const std::vector<Expr>& own = domain.all[size_t(i)];
      conditions.insert(conditions.end(), own.begin(), own.end());
    }
    for (Expr inside : conditions)
      if (prove(inside) != Truth::yes)
        x = formula_op(Op::select, {formula_index(inside, DType::boolean), guarded(x, inside),
                                    formula_constant(x->dtype, 0)});
    elements.push_back(std::move(x));
  }
  ConeValue value = interior_value(name, DType::u32);
  Component part;
  part.dtype = DType::u32;
  part.body = word ? word : word_of(elements, unit);
  Stage stage_of_copy;
  stage_of_copy.name = nests.free_stage_name(name);
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

/// The loops along an axis, of which the innermost one, serial and in steps of one, takes whole
/// words.
struct WordLoops {
  std::string name;            // of the innermost one
  bool split = false;          // there are others
  Expr outside = 0;            // axis = outside + the innermost loop
  std::optional<size_t> guard; // of the end of the axis
};

std::optional<WordLoops> word_loops(const StageNest& nest, const ConeAxis& axis, const Unit& unit) {
  const Expr value = nest.axis_values.at(axis.symbol);
  for (auto& loop : nest.loops) {
    if (loop.kind != LoopKind::serial) continue;
    if (value == loop.symbol && loop.name == axis.name) return WordLoops{loop.name};
    if (!loop.symbol.is_symbol() || !depends_on(value, loop.symbol)) continue;
    const std::optional<Expr> step = coefficient_of(value, loop.symbol);
    if (!step || !step->is_constant(1)) continue;
    WordLoops out{loop.name, true, value - loop.symbol};
    if (!loop.extent.is_constant() || loop.extent.value() % unit.k || out.outside.multiple() % unit.k)
      return {};
    for (size_t g = 0; g < nest.guards.size(); g++) {
      if (!depends_on(nest.guards[g].value, loop.symbol)) continue;
      if (nest.guards[g].value != value || nest.guards[g].limit != axis.extent || out.guard) return {};
      out.guard = g;
    }
    return out;
  }
  return {};
}

/// The axis along which the results of a stage are contiguous.
std::optional<Expr> columns_of(const Cone& cone, const Stage& stage) {
  std::optional<Expr> columns;
  for (const Component& c : stage.components)
    if (c.out && !c.index.empty() && plain_axis(cone, c.index.back())) columns = c.index.back();
  return columns;
}

/// Is every value of `from` one of `to`?
bool fits(DType from, DType to) { return from == to || (from == DType::u4 && bits(to) == 8); }

} // namespace

void use_unit(Nests& nests, const std::string& stage_name, const std::string& unit_name,
              std::span<const std::string> copies, WordsOf of) {
  // Steps of a unit with tile registers are those of its lane unit until the loops are made.
  const std::optional<Unit> described = find_unit(unit_name);
  const bool tiles = described && described->tiles;
  const Unit* unit = find_lane_unit(tiles ? described->lane_unit : unit_name);
  if (!unit) refuse("there is no dot instruction {}", unit_name);
  if (tiles && (copies.size() != 1 || of == WordsOf::values)) refuse("{} reads one copy in words", unit_name);
  StageId s = nests.stage(stage_name);
  Stage stage = nests.cone.stages[s];
  StageNest& nest = nests.stages[s];
  if (stage.components.empty()) refuse("stage {} is empty", stage_name);
  Component& fold = stage.components[0];
  for (size_t c = 1; c < stage.components.size(); c++)
    if (!stage.components[c].after) refuse("stage {} computes several things at once", stage_name);
  const DType accumulator = unit->accumulator.dtype;
  if (nest.rolling) refuse("stage {} is a scan", stage_name);
  if (stage.monoid || fold.kind != ComponentKind::fold || fold.op != Op::add || fold.dtype != accumulator)
    refuse("stage {} is not a sum of {}", stage_name, luminal::to_string(accumulator));
  const FormulaRef body = fold.body;
  const auto factor = [&](size_t i) {
    const auto* cast = applies(*body, Op::mul) ? args_of(*body)[i]->as<FormulaCast>() : nullptr;
    return cast ? cast->x : nullptr;
  };
  FormulaRef a = factor(0), b = factor(1);
  if (!a || !b) refuse("stage {} sums no products of converted numbers", stage_name);
  if (!fits(a->dtype, unit->a.dtype) || !fits(b->dtype, unit->b.dtype)) std::swap(a, b);
  if (!fits(a->dtype, unit->a.dtype) || !fits(b->dtype, unit->b.dtype))
    refuse("{} multiplies {} and {}, stage {} {} and {}", unit_name, luminal::to_string(unit->a.dtype),
           luminal::to_string(unit->b.dtype), stage_name, luminal::to_string(a->dtype),
           luminal::to_string(b->dtype));

  // The reduced axis along which both are contiguous, the innermost first.
  std::vector<AxisId> reduced;
  for (AxisId axis : stage.axes)
    if (!contains(fold.axes, axis)) reduced.push_back(axis);
  const std::vector<HoleId> holes = holes_of(nests.cone, index_exprs(body));
  const auto varies_with_holes = [&](AxisId axis) { // elements side by side in the sum may lie anywhere
    return std::ranges::any_of(holes, [&](HoleId h) {
      return varies_with(nests.cone, index_exprs(nests.cone.holes[h].value), nests.cone.axes[axis].symbol);
    });
  };
  // (Words of which the last one would not be full come last.)
  std::vector<AxisId> order(reduced.rbegin(), reduced.rend());
  std::ranges::stable_partition(order, [&](AxisId of_sum) {
    const Expr extent = nests.cone.axes[of_sum].extent;
    return extent.is_constant() && extent.value() % unit->k == 0;
  });
  for (const AxisId in_words : order) {
    const auto r = size_t(std::ranges::find(reduced, in_words) - reduced.begin());
    const ConeAxis axis = nests.cone.axes[in_words];
    if (!axis.extent.is_constant() || varies_with_holes(reduced[r])) continue;
    const std::optional<WordLoops> loops = word_loops(nest, axis, *unit);
    if (!loops) continue;
    const int64_t extent = axis.extent.value();
    const bool ragged = extent % unit->k != 0;
    // Where that is the whole sum, it begins from what fills no word; else copies may end within
    // one.
    const bool begins = ragged && reduced.size() == 1 && !loops->split && stage.domain.is_constant(1);
    if (ragged && !begins && copies.size() < 2) continue;
    const int64_t words = begins ? extent / unit->k : (extent + unit->k - 1) / unit->k;
    if (words == 0 || (words == 1 && loops->split)) continue;
    const std::string name = nests.free_name(axis.name + ".words");
    const Expr symbol = words == 1 ? Expr(0) : Expr::symbol(name, {0, words - 1});
    const Words pack(nests.cone, axis.symbol, symbol, *unit);
    const bool whole = !ragged || begins;
    FormulaRef x = whole ? pack(a) : nullptr, y = whole ? pack(b) : nullptr;
    FormulaRef word; // of the operand that is copied
    if (tiles) {     // the operand with columns is read from a copy, the one with rows as it lies
      const std::optional<Expr> columns = columns_of(nests.cone, stage);
      if (!columns) refuse("the results of stage {} are contiguous along no axis", stage_name);
      const auto has_columns = [&](const FormulaRef& f) {
        return varies_with(nests.cone, index_exprs(f), *columns);
      };
      if (has_columns(a) == has_columns(b) || !stage.domain.is_constant(1)) continue;
      word = std::exchange(has_columns(a) ? x : y, nullptr);
    }
    if (of == WordsOf::values &&
        !((x || is_value_along(nests, a, axis)) && (y || is_value_along(nests, b, axis))))
      continue;
    if (size_t(!x) + size_t(!y) != copies.size() || (!copies.empty() && words == 1)) continue;
    if (is_float(accumulator) && words * unit->k < extent) {
      // One more step, of a word that ends with zeros: then all that is summed up comes from the
      // instruction.
      std::vector<FormulaRef> of_a, of_b;
      for (int64_t i = words * unit->k; i < extent; i++) {
        of_a.push_back(element_at(a, axis, i, *unit));
        of_b.push_back(element_at(b, axis, i, *unit));
      }
      const FormulaRef before = fold.init ? fold.init : formula_constant(accumulator, 0);
      fold.init =
          formula_user_op(unit->name, accumulator, {before, word_of(of_a, *unit), word_of(of_b, *unit)});
    } else {
      for (int64_t i = words * unit->k; i < extent; i++) {
        const FormulaRef rest = substitute(body, {{axis.symbol, i}});
        fold.init = fold.init ? formula_op(Op::add, {fold.init, rest}) : rest;
      }
    }
    const WordDomain domain = word_domain(nests, stage, axis, symbol, *unit);
    for (FormulaRef* operand : {&x, &y}) {
      if (!*operand || domain.some.is_constant(1)) continue;
      visit_loads(*operand, [&](const FormulaLoad& f) {
        if (nests.cone.values[f.value].role == ValueRole::interior)
          refuse("{} may not be made outside of the domain of stage {}", nests.cone.values[f.value].name,
                 stage_name);
      });
      *operand = masked(*operand, domain, *unit);
    }
    /// The loops run over words.
    const auto replace = [&](StageNest& own) {
      own.axis_values.erase(axis.symbol);
      StageLoop& loop = *own.find(loops->name);
      if (!loops->split) {
        if (words > 1) own.axis_values[symbol] = symbol;
        loop = {name, symbol, words};
        return;
      }
      const std::string inner = nests.free_name(loop.name + ".words");
      const int64_t trips = loop.extent.value() / unit->k;
      loop = {inner, trips == 1 ? Expr(0) : Expr::symbol(inner, {0, trips - 1}), trips};
      const Expr value = floordiv(loops->outside, unit->k) + loop.symbol;
      own.axis_values[symbol] = value;
      if (loops->guard) own.guards[*loops->guard] = {value, words, own.guards[*loops->guard].reduction};
    };
    if (!copies.empty()) {
      const AxisId position = nests.cone.axes.add({name, words, symbol});
      size_t next = 0;
      for (auto& [operand, from] : {std::pair(&x, &a), std::pair(&y, &b)})
        if (!*operand) {
          *operand = copied(nests, s, copies[next++], of, *from, word, axis, position, tiles, domain, *unit);
          s++;
        }
      fold.body = formula_user_op(unit->name, accumulator, {formula_constant(accumulator, 0), x, y});
      std::ranges::replace(stage.axes, reduced[r], position);
      stage.domain = domain.some;
      replace(nests.stages[s]);
      nests.cone.stages[s] = std::move(stage);
      if (tiles) nests.tile_units.insert(unit_name);
      return;
    }
    const auto step = [&](FormulaRef sum, const ExprMap<Expr>& at) {
      return formula_user_op(unit->name, accumulator, {std::move(sum), substitute(x, at), substitute(y, at)});
    };
    std::vector<AxisId> others = reduced;
    others.erase(others.begin() + std::ptrdiff_t(r));
    int64_t steps = loops->split || !stage.domain.is_constant(1) ? 1 << 20 : words;
    for (AxisId other : others) {
      const Expr along = nests.cone.axes[other].extent;
      if (varies_with_holes(other)) steps = 1 << 20;
      steps = along.is_constant() && steps <= 64 ? steps * along.value() : 1 << 20;
    }
    const FormulaRef zero = formula_constant(accumulator, 0);
    constexpr int64_t most_written_out = 8;
    if (steps <= most_written_out && stage.components.size() == 1) {
      // Few steps: all of them at each point, and no reduction is left.
      FormulaRef sum = fold.init ? fold.init : zero;
      for (int64_t i = 0; i < steps; i++) {
        ExprMap<Expr> at;
        int64_t rest = i;
        if (words > 1) at[symbol] = rest % words, rest /= words;
        for (size_t o = others.size(); o-- > 0;) {
          const ConeAxis& other = nests.cone.axes[others[o]];
          if (other.symbol.is_symbol()) at[other.symbol] = rest % other.extent.value();
          rest /= other.extent.value();
        }
        sum = step(sum, at);
      }
      fold.kind = ComponentKind::map;
      fold.body = sum;
      fold.init = nullptr;
      stage.axes = fold.axes;
      nest = nests.fresh(stage);
    } else {
      fold.body = step(zero, {});
      const AxisId position = nests.cone.axes.add({name, words, symbol});
      std::ranges::replace(stage.axes, reduced[r], position);
      stage.domain = domain.some;
      replace(nest);
    }
    nests.cone.stages[s] = std::move(stage);
    return;
  }
  refuse("stage {}: its operands do not lie in words of {} elements along any reduced axis", stage_name,
         unit->k);
}

} // namespace luminal::kernel
