// schedule/dot_unit.cpp -- the directive `unit`: a sum of products of narrow numbers becomes steps
// of a dot instruction on words that hold several of them.
#include "base/contains.h"
#include "cone/formula.h"
#include "schedule/dot_words.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::kernel {
namespace {

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

/// How far apart two elements are that follow each other along an axis.
std::optional<Expr> step_along(const Cone& cone, const FormulaLoad& f, Expr axis) {
  return coefficient_of(layout_offset(cone.values[f.value], f.index), axis);
}
/// Do its elements lie apart along the columns?
bool lies_across(const Cone& cone, const FormulaRef& operand, const std::optional<Expr>& columns) {
  constexpr int64_t near = 4; // elements: windows in steps
  bool across = false;
  visit_loads(operand, [&](const FormulaLoad& f) {
    const auto step = columns ? step_along(cone, f, *columns) : Expr(0);
    across |= !step || !step->is_constant() || std::abs(step->value()) > near;
  });
  return across;
}
bool is_contiguous(const Cone& cone, const FormulaRef& operand, Expr axis) {
  bool contiguous = false;
  visit_loads(operand, [&](const FormulaLoad& f) {
    const auto step = step_along(cone, f, axis);
    contiguous |= step && step->is_constant(1);
  });
  return contiguous;
}

/// Is every value of `from` one of `to`?
bool fits(DType from, DType to) { return from == to || (from == DType::u4 && bits(to) == 8); }

/// A sum of products, and how a unit computes it.
class DotSum {
public:
  DotSum(Nests& nests, const std::string& stage, const std::string& unit, std::span<const std::string> copies,
         WordsOf of);
  void use();

private:
  /// Words along one reduced axis.
  struct Along {
    AxisId id;
    ConeAxis axis;
    WordLoops loops;
    int64_t words = 0;
    std::string name; // of the words' axis and loop
    Expr symbol;
    FormulaRef a, b; // the factors in words; null: to be copied
    FormulaRef word; // of the operand that is copied, where it lies in words
    WordDomain domain = {};
  };

  void find_factors();
  bool varies_with_holes(AxisId axis) const;
  std::vector<AxisId> order() const;
  std::optional<Along> along(AxisId axis) const;
  bool find_words(Along& w, bool whole) const;
  void begin_with_rest(const Along& w);
  void mask(Along& w);
  void read_copies(Along& w);
  int64_t steps_of(const Along& w) const;
  void write_out(const Along& w, int64_t steps);
  void take_steps(const Along& w);
  FormulaRef step(const Along& w, FormulaRef sum, const ExprMap<Expr>& at) const;
  void run_over_words(StageNest& nest, const Along& w) const;
  Component& fold() { return stage_.components[0]; }

  Nests& nests_;
  const std::string& stage_name_;
  const std::string& unit_name_;
  std::span<const std::string> copies_;
  WordsOf of_;
  const Unit* unit_;
  bool tiles_ =
      false; // of a unit with tile registers: its steps are those of its lane unit until loops are made
  DType accumulator_;
  StageId s_;
  Stage stage_; // as it will be
  FormulaRef product_, a_, b_;
  std::vector<AxisId> reduced_;
  std::vector<HoleId> holes_;
};

DotSum::DotSum(Nests& nests, const std::string& stage, const std::string& unit,
               std::span<const std::string> copies, WordsOf of)
    : nests_(nests), stage_name_(stage), unit_name_(unit), copies_(copies), of_(of) {
  const std::optional<Unit> described = find_unit(unit);
  tiles_ = described && described->tiles;
  unit_ = find_lane_unit(tiles_ ? described->lane_unit : unit);
  if (!unit_) refuse("there is no dot instruction {}", unit);
  if (tiles_ && of == WordsOf::values) refuse("{} reads copies of what the sum reads", unit);
  accumulator_ = unit_->accumulator.dtype;
  s_ = nests.stage(stage);
  stage_ = nests.cone.stages[s_];
  if (stage_.components.empty()) refuse("stage {} is empty", stage);
  for (size_t c = 1; c < stage_.components.size(); c++)
    if (!stage_.components[c].after) refuse("stage {} computes several things at once", stage);
  if (nests.stages[s_].rolling) refuse("stage {} is a scan", stage);
  if (stage_.monoid || fold().kind != ComponentKind::fold || fold().op != Op::add ||
      fold().dtype != accumulator_)
    refuse("stage {} is not a sum of {}", stage, luminal::to_string(accumulator_));
  product_ = fold().body;
  find_factors();
  for (AxisId axis : stage_.axes)
    if (!contains(fold().axes, axis)) reduced_.push_back(axis);
  holes_ = holes_of(nests.cone, index_exprs(product_));
}

void DotSum::find_factors() {
  const auto factor = [&](size_t i) {
    const auto* cast = applies(*product_, Op::mul) ? args_of(*product_)[i]->as<FormulaCast>() : nullptr;
    return cast ? cast->x : nullptr;
  };
  a_ = factor(0), b_ = factor(1);
  if (!a_ || !b_) refuse("stage {} sums no products of converted numbers", stage_name_);
  if (!fits(a_->dtype, unit_->a.dtype) || !fits(b_->dtype, unit_->b.dtype)) std::swap(a_, b_);
  if (!fits(a_->dtype, unit_->a.dtype) || !fits(b_->dtype, unit_->b.dtype))
    refuse("{} multiplies {} and {}, stage {} {} and {}", unit_name_, luminal::to_string(unit_->a.dtype),
           luminal::to_string(unit_->b.dtype), stage_name_, luminal::to_string(a_->dtype),
           luminal::to_string(b_->dtype));
}

/// Elements side by side in the sum may then lie anywhere.
bool DotSum::varies_with_holes(AxisId axis) const {
  return std::ranges::any_of(holes_, [&](HoleId h) {
    return varies_with(nests_.cone, index_exprs(nests_.cone.holes[h].value), nests_.cone.axes[axis].symbol);
  });
}

/// The reduced axes, the innermost first; those of which the last word would not be full come last.
std::vector<AxisId> DotSum::order() const {
  std::vector<AxisId> order(reduced_.rbegin(), reduced_.rend());
  std::ranges::stable_partition(order, [&](AxisId axis) {
    const Expr extent = nests_.cone.axes[axis].extent;
    return extent.is_constant() && extent.value() % unit_->k == 0;
  });
  return order;
}

std::optional<DotSum::Along> DotSum::along(AxisId id) const {
  const ConeAxis& axis = nests_.cone.axes[id];
  if (!axis.extent.is_constant() || varies_with_holes(id)) return {};
  const std::optional<WordLoops> loops = word_loops(nests_.stages[s_], axis, *unit_);
  if (!loops) return {};
  const int64_t extent = axis.extent.value();
  const bool ragged = extent % unit_->k != 0;
  // Where that is the whole sum, it begins from what fills no word; else copies may end within one.
  const bool begins = ragged && reduced_.size() == 1 && !loops->split && stage_.domain.is_constant(1);
  if (ragged && !begins && copies_.size() < 2) return {};
  const int64_t words = begins ? extent / unit_->k : (extent + unit_->k - 1) / unit_->k;
  if (words == 0 || (words == 1 && loops->split)) return {};
  const std::string name = nests_.free_name(axis.name + ".words");
  const Expr symbol = words == 1 ? Expr(0) : Expr::symbol(name, {0, words - 1});
  Along w{id, axis, *loops, words, name, symbol, nullptr, nullptr, nullptr};
  if (!find_words(w, !ragged || begins)) return {};
  return w;
}

/// The factors in words, as far as they lie so; false where copies do not make up for the others.
bool DotSum::find_words(Along& w, bool whole) const {
  if (whole) {
    w.a = in_words(nests_.cone, a_, w.axis.symbol, w.symbol, *unit_);
    w.b = in_words(nests_.cone, b_, w.axis.symbol, w.symbol, *unit_);
  }
  // On tiles the operand with columns may be read from a copy, the other one as it lies or from a second. Of
  // two operands that lie in words the one with columns is copied, so that its words lie along these.
  const bool in_words_already = of_ == WordsOf::reads && copies_.size() == 1 && w.a && w.b;
  if (tiles_ || in_words_already) {
    const std::optional<Expr> columns = columns_of(nests_.cone, stage_);
    if (!columns) refuse("the results of stage {} are contiguous along no axis", stage_name_);
    const auto has_columns = [&](const FormulaRef& f) {
      return varies_with(nests_.cone, index_exprs(f), *columns);
    };
    if (has_columns(a_) == has_columns(b_) || !stage_.domain.is_constant(1)) return false;
    if (!copies_.empty()) w.word = std::exchange(has_columns(a_) ? w.a : w.b, nullptr);
  }
  if (of_ == WordsOf::values &&
      !((w.a || is_value_along(nests_, a_, w.axis)) && (w.b || is_value_along(nests_, b_, w.axis))))
    return false;
  return size_t(!w.a) + size_t(!w.b) == copies_.size() && (copies_.empty() || w.words > 1);
}

void DotSum::use() {
  constexpr int64_t most_written_out = 8;
  for (const AxisId axis : order()) {
    std::optional<Along> w = along(axis);
    if (!w) continue;
    begin_with_rest(*w);
    w->domain = word_domain(nests_, stage_, w->axis, w->symbol, *unit_);
    mask(*w);
    if (!copies_.empty()) return read_copies(*w);
    const int64_t steps = steps_of(*w);
    if (steps <= most_written_out && stage_.components.size() == 1 && !tiles_)
      write_out(*w, steps);
    else
      take_steps(*w);
    nests_.cone.stages[s_] = std::move(stage_);
    return;
  }
  refuse("stage {}: its operands do not lie in words of {} elements along any reduced axis", stage_name_,
         unit_->k);
}

/// The sum begins from the elements behind the last whole word.
void DotSum::begin_with_rest(const Along& w) {
  const int64_t begin = w.words * unit_->k, extent = w.axis.extent.value();
  FormulaRef& init = fold().init;
  if (begin >= extent) return;
  if (!is_float(accumulator_)) {
    for (int64_t i = begin; i < extent; i++) {
      const FormulaRef rest = substitute(product_, {{w.axis.symbol, i}});
      init = init ? formula_op(Op::add, {init, rest}) : rest;
    }
    return;
  }
  // One more step, of a word that ends with zeros: then all that is summed up comes from the
  // instruction.
  std::vector<FormulaRef> of_a, of_b;
  for (int64_t i = begin; i < extent; i++) {
    of_a.push_back(element_at(a_, w.axis, i, *unit_));
    of_b.push_back(element_at(b_, w.axis, i, *unit_));
  }
  const FormulaRef before = init ? init : formula_constant(accumulator_, 0);
  init = formula_user_op(unit_->name, accumulator_, {before, word_of(of_a, *unit_), word_of(of_b, *unit_)});
}

/// Words that are read as they lie have zeros outside of the domain.
void DotSum::mask(Along& w) {
  if (w.domain.some.is_constant(1)) return;
  for (FormulaRef* operand : {&w.a, &w.b}) {
    if (!*operand) continue;
    visit_loads(*operand, [&](const FormulaLoad& f) {
      if (nests_.cone.values[f.value].role == ValueRole::interior)
        refuse("{} may not be made outside of the domain of stage {}", nests_.cone.values[f.value].name,
               stage_name_);
    });
    *operand = masked(*operand, w.domain, *unit_);
  }
}

/// The loops run over words.
void DotSum::run_over_words(StageNest& nest, const Along& w) const {
  nest.axis_values.erase(w.axis.symbol);
  StageLoop& loop = *nest.find(w.loops.name);
  if (!w.loops.split) {
    if (w.words > 1) nest.axis_values[w.symbol] = w.symbol;
    loop = {w.name, w.symbol, w.words};
    return;
  }
  const std::string inner = nests_.free_name(loop.name + ".words");
  const int64_t trips = loop.extent.value() / unit_->k;
  loop = {inner, trips == 1 ? Expr(0) : Expr::symbol(inner, {0, trips - 1}), trips};
  const Expr value = floordiv(w.loops.outside, unit_->k) + loop.symbol;
  nest.axis_values[w.symbol] = value;
  if (w.loops.guard) {
    Guard& guard = nest.guards[*w.loops.guard];
    guard = {value, w.words, guard.reduction};
  }
}

void DotSum::read_copies(Along& w) {
  const AxisId position = nests_.cone.axes.add({w.name, w.words, w.symbol});
  const std::optional<Expr> columns = columns_of(nests_.cone, stage_);
  const auto has_columns = [&](const FormulaRef& f) {
    return columns && varies_with(nests_.cone, index_exprs(f), *columns);
  };
  const bool by_columns = columns && (tiles_ || w.word);
  std::vector<std::pair<FormulaRef*, FormulaRef*>> operands; // words, and what they are made of
  for (const auto& both : {std::pair(&w.a, &a_), std::pair(&w.b, &b_)})
    if (!*both.first) operands.push_back(both);
  // Each copy is a stage in front of the sum. Of tiles, that of columns is named first and stands beside it.
  if (operands.size() == 2 && by_columns && has_columns(*operands[0].second))
    std::swap(operands[0], operands[1]);
  // A copy lies as its operand does, or along the columns, or, where the other operand's words lie apart
  // along these, along the sum.
  const Cone& cone = nests_.cone;
  const auto follows_results = [&](const FormulaRef& f) {
    return std::ranges::any_of(fold().axes, [&](AxisId axis) {
      return !contains(reduced_, axis) && is_contiguous(cone, f, cone.axes[axis].symbol);
    });
  };
  const auto reorders = [&](const FormulaRef& f, const FormulaRef& other, bool in_words) {
    return by_columns || lies_across(cone, f, columns) ||
           (in_words && !has_columns(f) && !follows_results(f) && lies_across(cone, other, columns));
  };
  const bool a_moves = reorders(a_, b_, bool(w.b)), b_moves = reorders(b_, a_, bool(w.a));
  StageId s = s_;
  for (size_t i = 0; i < operands.size(); i++, s++) {
    const auto& [word, operand] = operands[i];
    const std::string& name = copies_[by_columns ? copies_.size() - 1 - i : i];
    const bool moves = operand == &a_ ? a_moves : b_moves;
    const WordsCopy copy{name, of_, *operand, has_columns(*operand) ? w.word : nullptr,
                         moves ? columns : std::nullopt};
    *word = insert_words(nests_, s, copy, w.axis, position, w.domain, *unit_);
  }
  fold().body = step(w, formula_constant(accumulator_, 0), {});
  std::ranges::replace(stage_.axes, w.id, position);
  stage_.domain = w.domain.some;
  run_over_words(nests_.stages[s], w);
  nests_.cone.stages[s] = std::move(stage_);
  if (tiles_) nests_.tile_units.insert(unit_name_);
}

FormulaRef DotSum::step(const Along& w, FormulaRef sum, const ExprMap<Expr>& at) const {
  return formula_user_op(unit_->name, accumulator_,
                         {std::move(sum), substitute(w.a, at), substitute(w.b, at)});
}

constexpr int64_t too_many_steps = 1 << 20;

/// Of the whole sum, where they could be written out.
int64_t DotSum::steps_of(const Along& w) const {
  int64_t steps = w.loops.split || !stage_.domain.is_constant(1) ? too_many_steps : w.words;
  for (AxisId other : reduced_) {
    if (other == w.id) continue;
    const Expr along = nests_.cone.axes[other].extent;
    if (varies_with_holes(other)) steps = too_many_steps;
    steps = along.is_constant() && steps <= 64 ? steps * along.value() : too_many_steps;
  }
  return steps;
}

/// Few steps: all of them at each point, and no reduction is left.
void DotSum::write_out(const Along& w, int64_t steps) {
  FormulaRef sum = fold().init ? fold().init : formula_constant(accumulator_, 0);
  for (int64_t i = 0; i < steps; i++) {
    ExprMap<Expr> at;
    int64_t rest = i;
    if (w.words > 1) at[w.symbol] = rest % w.words, rest /= w.words;
    for (size_t r = reduced_.size(); r-- > 0;) {
      if (reduced_[r] == w.id) continue;
      const ConeAxis& other = nests_.cone.axes[reduced_[r]];
      if (other.symbol.is_symbol()) at[other.symbol] = rest % other.extent.value();
      rest /= other.extent.value();
    }
    sum = step(w, sum, at);
  }
  fold().kind = ComponentKind::map;
  fold().body = sum;
  fold().init = nullptr;
  stage_.axes = fold().axes;
  nests_.stages[s_] = nests_.fresh(stage_);
}

void DotSum::take_steps(const Along& w) {
  fold().body = step(w, formula_constant(accumulator_, 0), {});
  const AxisId position = nests_.cone.axes.add({w.name, w.words, w.symbol});
  std::ranges::replace(stage_.axes, w.id, position);
  stage_.domain = w.domain.some;
  run_over_words(nests_.stages[s_], w);
  if (tiles_) nests_.tile_units.insert(unit_name_);
}

} // namespace

void use_unit(Nests& nests, const std::string& stage, const std::string& unit,
              std::span<const std::string> copies, WordsOf of) {
  DotSum(nests, stage, unit, copies, of).use();
}

} // namespace luminal::kernel
