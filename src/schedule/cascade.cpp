// schedule/cascade.cpp -- a tuple fold returns to plain folds inside each trip of a loop; plain folds
// carry their states in scratch.
//
// For a tile with states b (the bodies) and a carried state A, component i in order:
//   N_i = op_i( T_i(self = A_i, old = A, new = N),  op_i over the tile of T_i(self = b_i, old = b, new = N) )
// T is a homomorphism of op that composes (ir/monoid.h), so this is the monoid's combine. A factor
// that several transforms share, T = self * w, is computed once for each point of the tile (the
// exponentials of differences, STAGE.w) and once for the state (the correction, STAGE.c). Where T
// rounds its factor, T = self * cast<f32>(cast<bf16>(w)), the weights of a tile are rounded where
// they are multiplied, in the frame of the tile's new state. Corrections of states, and other
// transforms with the same w, take it as it is: wider intermediate values are a reassociation.
// A sum of the same integer over a known number of points (the count of Welford's statistics) is
// known: no loop adds it up.
#include "base/check.h"
#include "base/contains.h"
#include "cone/formula.h"
#include "ir/identity.h"
#include "schedule/linear_factor.h"
#include "schedule/nest.h"
#include <algorithm>
#include <cmath>

namespace luminal::kernel {
namespace {

/// x * 1, 1 * x and x + 0 without the constant (a zero may change its sign).
FormulaRef simplified(const FormulaRef& formula) {
  return FormulaRewriter([](const FormulaRef& f) -> FormulaRef {
    if (!applies(*f, Op::mul) && !applies(*f, Op::add)) return f;
    const std::span<const FormulaRef> args = args_of(*f);
    for (size_t side : {0, 1})
      if (is_constant(args[side], applies(*f, Op::mul) ? 1 : 0)) return args[1 - side];
    return f;
  })(formula);
}

class Cascade {
public:
  Cascade(Nests& nests, StageId stage, std::string loop)
      : n_(nests), stage_(stage), f_(nests.cone.stages[stage]), nest_(nests.stages[stage]),
        loop_(std::move(loop)) {}
  void run();

private:
  /// Factors that transforms share.
  struct Factor {
    Scalar program;
    int first;
    std::vector<int> users;
    ValueId weights, correction;
    std::vector<AxisId> weight_axes, correction_axes;
  };
  using Entries = std::vector<std::pair<Stage, StageNest>>;

  // The steps, in their order.
  void join_plain_folds();
  void check_form();
  void share_factors();
  void find_known();
  void find_axes_of_factors();
  void make_states();
  void shape_states();
  void begin_states();
  void fold_component(int i);
  void scale_by_factor(int i, Factor& factor, Stage& stage, Component& fold);
  void hand_on_states();
  void finish();
  void narrow_sources();
  void insert_stages();

  void add(Entries& list, Stage s, bool in_tile) {
    StageNest nest = loops_of(s);
    if (in_tile && carried_) {
      nest.together = loop_;
      nest.cascade = n_.cascades + 1;
      nest.at = tile_.empty() ? nest_.at : loop_;
    }
    list.push_back({std::move(s), std::move(nest)});
  }
  /// The correction of one component is computed where it is used, as often as it has states.
  static bool corrects_in_place(const Factor& factor) {
    return factor.users.size() == 1 && std::ranges::none_of(factor.program.nodes(), [](auto& node) {
             return node.kind == ScalarNode::Kind::op && is_long_chain(node.op);
           });
  }
  bool multiplies_subnormal(const Factor& factor) const {
    const auto f32 = [&](int i) { return comp(i).dtype == DType::f32 && through_[size_t(i)].empty(); };
    return weights_of_maximum(factor.program, *f_.monoid) && std::ranges::all_of(factor.users, f32) &&
           std::ranges::any_of(factor.users, [&](int i) { return !is_constant(comp(i).body, 1); });
  }
  Factor* factor_of(int i) { return factor_of_[size_t(i)] ? &factors_[*factor_of_[size_t(i)]] : nullptr; }
  std::vector<AxisId> axes_union(std::vector<AxisId> a, const std::vector<AxisId>& b) const {
    a.insert(a.end(), b.begin(), b.end());
    std::ranges::sort(a);
    a.erase(std::unique(a.begin(), a.end()), a.end());
    return a;
  }
  std::vector<AxisId> with_reduced(const std::vector<AxisId>& axes) const {
    return axes_union(axes, reduced_);
  }
  std::vector<Expr> plain(const std::vector<AxisId>& axes) const {
    std::vector<Expr> out;
    for (AxisId a : axes) out.push_back(n_.cone.axes[a].symbol);
    return out;
  }
  ValueId new_value(const std::string& name, DType dtype, const std::vector<AxisId>& axes) {
    ConeValue v = interior_value(n_.free_name(name), dtype);
    v.axes = axes;
    for (AxisId a : axes) v.shape.push_back(n_.cone.axes[a].extent);
    return n_.add_value(std::move(v));
  }
  Stage new_stage(const std::string& name, const std::vector<AxisId>& axes) const {
    Stage s;
    s.name = n_.free_stage_name(name);
    for (AxisId a : f_.axes) // in the order of the fold
      if (contains(axes, a)) s.axes.push_back(a);
    return s;
  }
  Component map_to(ValueId value, FormulaRef body, const std::vector<Expr>& index,
                   const std::vector<AxisId>& axes) const {
    Component c;
    c.dtype = body->dtype;
    c.out = value;
    c.index = index;
    c.axes = axes;
    c.body = std::move(body);
    return c;
  }
  /// The loops of the fold that a stage over fewer axes has.
  StageNest loops_of(const Stage& s) const {
    StageNest nest;
    for (AxisId a : s.axes)
      if (const Expr axis = n_.cone.axes[a].symbol; axis.is_symbol()) // (one word has none)
        nest.axis_values[axis] = nest_.axis_values.at(axis);
    for (auto& l : nest_.loops) {
      bool used = false;
      for (auto& [axis, value] : nest.axis_values)
        used |= l.symbol.is_symbol() && depends_on(value, l.symbol);
      for (AxisId a : s.axes) used |= !l.symbol.is_symbol() && n_.cone.axes[a].name == l.name;
      if (!used) continue;
      nest.loops.push_back(l);
    }
    bool reduces_here = std::ranges::any_of(reduced_, [&](AxisId a) { return contains(s.axes, a); });
    for (auto& g : nest_.guards) {
      if (g.reduction && !reduces_here) continue; // states are kept for parts without points, too
      bool all = true;
      for (Expr e : symbols_of(g.value)) {
        bool loop_of_fold = std::ranges::any_of(nest_.loops, [&](auto& l) { return l.symbol == e; });
        all &= !loop_of_fold || std::ranges::any_of(nest.loops, [&](auto& l) { return l.symbol == e; });
      }
      if (all) nest.guards.push_back(g);
    }
    return nest;
  }
  FormulaRef state(int i) const { return formula_load(state_[size_t(i)], comp(i).dtype, comp(i).index); }
  FormulaRef next(int i) const {
    if (!known_[size_t(i)]) return formula_load(next_[size_t(i)], comp(i).dtype, comp(i).index);
    const FormulaRef sum = formula_constant(comp(i).dtype, *known_[size_t(i)]);
    return carried_ ? formula_op(Op::add, {state(i), sum}) : sum;
  }
  std::optional<double> known_sum(int i) const;
  FormulaRef known_total(const Component& c) const {
    double all = c.body->as<FormulaConstant>()->value;
    for (AxisId a : reduced_) all *= double(n_.cone.axes[a].extent.value());
    return formula_constant(c.dtype, all);
  }
  void replace_known(Component& c);
  const Component& comp(int i) const { return f_.components[size_t(i)]; }
  /// A program over self, old, new with formulas for the old values.
  FormulaRef with(const Scalar& program, int i, FormulaRef self,
                  const std::function<FormulaRef(int)>& old) const {
    std::vector<FormulaRef> leaves{std::move(self)};
    for (int j = 0; j < i; j++) leaves.insert(leaves.end(), {old(j), next(j)});
    return simplified(formula_of(program, leaves, comp(i).dtype));
  }

  Nests& n_;
  StageId stage_;
  Stage f_;
  StageNest nest_;
  std::string loop_;
  bool carried_ = false; // a state goes from trip to trip
  std::vector<AxisId> reduced_;
  std::vector<ValueId> state_, next_;        // values by component
  std::vector<std::optional<double>> known_; // what one trip adds, by component
  std::vector<Factor> factors_;
  // By component: its place in factors_; the types that its weights are rounded to; is its result copied
  // out of its state; the index of the result.
  std::vector<std::optional<size_t>> factor_of_;
  std::vector<std::vector<DType>> through_;
  std::vector<bool> copied_out_;
  std::vector<std::vector<Expr>> out_index_;
  int count_ = 0; // of the tuple's components
  Entries before_, tile_, after_;
};

/// What the component adds up in one trip of the loop, where that is an integer that its type holds
/// however often it is added.
std::optional<double> Cascade::known_sum(int i) const {
  const Component& c = comp(i);
  const MonoidComponent& m = f_.monoid->components()[size_t(i)];
  const auto* term = c.body->as<FormulaConstant>();
  if (m.op != Op::add || !m.transform.is_leaf(0) || c.init || !f_.domain.is_constant(1) ||
      (c.out && n_.cone.values[c.out].role != ValueRole::interior) || !term ||
      std::trunc(term->value) != term->value || (c.dtype != DType::f32 && c.dtype != DType::f64))
    return {};
  double all = 1, trip = 1; // points
  for (AxisId a : reduced_) {
    const Expr extent = n_.cone.axes[a].extent;
    if (!extent.is_constant()) return {};
    all *= double(extent.value());
  }
  if (std::abs(term->value) * all > (c.dtype == DType::f32 ? 0x1p24 : 0x1p53)) return {};
  if (!carried_) return term->value * all;
  bool inside = false;
  for (const StageLoop& l : nest_.loops) {
    const bool summed = l.symbol.is_symbol() && std::ranges::any_of(reduced_, [&](AxisId a) {
                          return depends_on_loop(nest_, n_.cone.axes[a].symbol, l);
                        });
    if (!summed) continue;
    if (!l.extent.is_constant() || (!inside && l.name != loop_)) return {};
    if (inside) trip *= double(l.extent.value());
    inside = true;
  }
  // The last trip has as many points as the others.
  return trip * double(nest_.find(loop_)->extent.value()) == all ? std::optional(term->value * trip)
                                                                 : std::nullopt;
}

/// Who reads the finished sum has the number instead. The state is one for each trip of the loops
/// around that of the tiles.
void Cascade::replace_known(Component& c) {
  if (c.out) {
    const FormulaRef total = known_total(c);
    for (Stage& stage : n_.cone.stages)
      for (Component& reader : stage.components)
        for (FormulaRef* formula : {&reader.body, &reader.init})
          if (*formula)
            *formula = FormulaRewriter([&](const FormulaRef& f) {
              const FormulaLoad* load = load_of(*f);
              return load && load->value == c.out ? total : f;
            })(*formula);
    c.out = {};
  }
  std::vector<AxisId> around;
  for (const StageLoop& l : nest_.loops) {
    if (!carried_ || l.name == loop_) break;
    for (AxisId a : f_.axes)
      if (!contains(reduced_, a) && depends_on_loop(nest_, n_.cone.axes[a].symbol, l)) around.push_back(a);
  }
  c.axes = axes_union(c.axes, around);
  c.index = plain(c.axes);
}

/// Plain folds as a tuple whose transforms change nothing.
void Cascade::join_plain_folds() {
  std::vector<MonoidComponent> parts;
  for (size_t i = 0; i < f_.components.size(); i++) {
    const Component& c = f_.components[i];
    if (c.after) continue;
    if (c.kind != ComponentKind::fold || c.init || parts.size() != i)
      refuse("stage {} is not a tuple, and not made of folds alone", f_.name);
    parts.push_back({c.op, c.dtype, Scalar::leaf(0)});
  }
  if (parts.empty() || loop_ == "root")
    refuse("stage {} is not a tuple whose components read each other", f_.name);
  f_.monoid = Monoid::intern(std::move(parts));
}

void Cascade::run() {
  if (!f_.monoid) join_plain_folds();
  count_ = f_.monoid->size();
  check_form();
  share_factors();
  find_known();
  find_axes_of_factors();
  make_states();
  shape_states();
  if (carried_) begin_states();
  for (int i = 0; i < count_; i++)
    if (!known_[size_t(i)]) fold_component(i);
  if (carried_) hand_on_states();
  finish();
  // One stage alone waits for nobody: where its loop is not shared, it sums from the state on.
  if (tile_.size() == 1) tile_[0].second.together.clear();
  n_.cascades++;
  for (BlockMask& mask : n_.block_masks)
    if (mask.stage == f_.name && carried_) {
      mask.cascade = n_.cascades;
      for (Expr& e : mask.index) e = luminal::substitute(e, nest_.axis_values);
    }
  n_.erase_stage(stage_);
  narrow_sources();
  insert_stages();
}

/// Which axes are reduced, and whether a state goes from trip to trip.
void Cascade::check_form() {
  carried_ = loop_ != "root";
  if (f_.scan_axis || nest_.rolling) refuse("stage {} is a scan", f_.name);
  std::set<AxisId> kept;
  for (int i = 0; i < count_; i++) kept.insert(comp(i).axes.begin(), comp(i).axes.end());
  for (AxisId a : f_.axes)
    if (!kept.contains(a)) reduced_.push_back(a);
  if (carried_) {
    const StageLoop* l = nest_.find(loop_);
    if (!l) refuse("stage {} has no loop {}", f_.name, loop_);
    for (AxisId a : f_.axes)
      if (depends_on_loop(nest_, n_.cone.axes[a].symbol, *l) && kept.contains(a))
        refuse("loop {} is not part of the reduction", loop_);
    if (!l->symbol.is_symbol()) carried_ = false; // one trip
  }
  for (size_t i = size_t(count_); i < f_.components.size(); i++)
    if (!f_.components[i].after) refuse("stage {} has more components than its tuple", f_.name);
  for (int i = 0; i < count_; i++)
    visit(comp(i).body, [&](const Formula& f) {
      if (f.is<FormulaComponent>()) refuse("stage {}: a body reads another component", f_.name);
    });
}

void Cascade::share_factors() {
  factor_of_.resize(size_t(count_));
  through_.resize(size_t(count_));
  const auto& parts = f_.monoid->components();
  const bool one_type = std::ranges::all_of(parts, [&](auto& m) { return m.dtype == parts[0].dtype; });
  for (int i = 0; i < count_; i++) {
    const MonoidComponent& m = f_.monoid->components()[size_t(i)];
    if (m.op != Op::add || m.transform.is_leaf(0)) continue;
    auto w = linear_factor(m.transform, m.transform.nodes().size() - 1, m.dtype);
    if (!w) continue;
    if (!one_type) w = LinearFactor{w->rounded()};
    through_[size_t(i)] = w->through;
    const auto same = std::ranges::find(factors_, w->program, &Factor::program);
    factor_of_[size_t(i)] = size_t(same - factors_.begin());
    if (same != factors_.end())
      same->users.push_back(i);
    else
      factors_.push_back({w->program, i, {i}, {}, {}, {}, {}});
  }
}

/// Sums that are known beforehand need no fold.
void Cascade::find_known() {
  for (int i = 0; i < count_; i++) known_.push_back(known_sum(i));
  // The first stage of a tile opens its loop: it has to be a fold.
  const auto first = std::ranges::find_if_not(known_, [](auto& sum) { return sum.has_value(); });
  const Factor* factor = first == known_.end() ? nullptr : factor_of(int(first - known_.begin()));
  if (first == known_.end() || (factor && !corrects_in_place(*factor))) known_.assign(size_t(count_), {});
  for (int i = 0; i < count_; i++)
    if (known_[size_t(i)]) replace_known(f_.components[size_t(i)]);
}

void Cascade::find_axes_of_factors() {
  for (Factor& factor : factors_) {
    for (int j = 0; j < factor.first; j++) {
      bool old = factor.program.reads(1 + 2 * j), fresh = factor.program.reads(2 + 2 * j);
      if (old || fresh) factor.correction_axes = axes_union(factor.correction_axes, comp(j).axes);
      if (fresh) factor.weight_axes = axes_union(factor.weight_axes, comp(j).axes);
      if (!old) continue;
      const std::vector<Expr> exprs = index_exprs(comp(j).body);
      for (AxisId a : f_.axes)
        if (varies_with(n_.cone, exprs, n_.cone.axes[a].symbol))
          factor.weight_axes = axes_union(factor.weight_axes, {a});
    }
  }
}

/// The carried state. A result that leaves the kernel is copied out at the end.
void Cascade::make_states() {
  state_.resize(size_t(count_));
  next_.resize(size_t(count_));
  copied_out_.assign(size_t(count_), false);
  std::vector<bool> read(size_t(count_), false);
  for (int i = 0; i < count_; i++) {
    for (int j : f_.monoid->dependencies(i)) read[size_t(j)] = true;
    auto& transform = f_.monoid->components()[size_t(i)].transform;
    for (int j = 0; j < i; j++)
      if (transform.reads(1 + 2 * j) || transform.reads(2 + 2 * j)) read[size_t(j)] = true;
  }
  for (int i = 0; i < count_; i++) {
    if (known_[size_t(i)] && !carried_) continue; // without a state
    Component& c = f_.components[size_t(i)];
    bool leaves_kernel = c.out && n_.cone.values[c.out].role != ValueRole::interior;
    if (!c.out || (leaves_kernel && carried_)) {
      std::string name = !c.out ? fmt::format("{}.{}", f_.name, i) : n_.cone.values[c.out].name + ".state";
      ValueId v = new_value(name, c.dtype, c.axes);
      copied_out_[size_t(i)] = bool(c.out);
      state_[size_t(i)] = v;
      if (!c.out) c.index = plain(c.axes);
    } else {
      state_[size_t(i)] = c.out;
    }
    next_[size_t(i)] = state_[size_t(i)];
    if (carried_ && read[size_t(i)] && !known_[size_t(i)])
      next_[size_t(i)] = new_value(n_.cone.values[state_[size_t(i)]].name + ".new", c.dtype, c.axes);
  }
}

/// New values have the shape of the result, whose dimensions of extent 1 are not axes of the component.
void Cascade::shape_states() {
  for (int i = 0; i < count_; i++) {
    const Component& c = comp(i);
    out_index_.push_back(c.index);
    const bool own = state_[size_t(i)] != c.out || next_[size_t(i)] != state_[size_t(i)];
    if (!own || !c.out) continue;
    for (const ValueId v : {state_[size_t(i)], next_[size_t(i)]}) {
      n_.cone.values[v].shape = n_.cone.values[c.out].shape;
      n_.cone.values[v].axes = n_.cone.values[c.out].axes;
    }
  }
}

void Cascade::begin_states() {
  // States with most axes first: their nest may hold the others.
  std::vector<std::vector<AxisId>> order;
  for (int i = 0; i < count_; i++)
    if (!contains(order, comp(i).axes)) order.push_back(comp(i).axes);
  std::ranges::stable_sort(order, [](auto& a, auto& b) { return a.size() > b.size(); });
  std::map<std::vector<AxisId>, Stage> inits;
  for (size_t k = 0; k < order.size(); k++)
    inits[order[k]] = new_stage(k == 0 ? f_.name + ".init" : fmt::format("{}.init{}", f_.name, k), order[k]);
  for (int i = 0; i < count_; i++) {
    FormulaRef identity = is_float(comp(i).dtype)
                              ? formula_constant(comp(i).dtype, identity_f64(comp(i).op, comp(i).dtype))
                              : formula_index(Expr(identity_i64(comp(i).op, comp(i).dtype)), comp(i).dtype);
    inits[comp(i).axes].components.push_back(
        map_to(state_[size_t(i)], identity, comp(i).index, comp(i).axes));
  }
  for (auto& axes : order) add(before_, inits[axes], false);
}

/// The stage that folds one component over a tile.
void Cascade::fold_component(int i) {
  const Component& c = comp(i);
  const MonoidComponent& m = f_.monoid->components()[size_t(i)];
  Component fold = c;
  fold.out = next_[size_t(i)];
  fold.after = false;
  Stage s = new_stage(n_.cone.values[c.out ? c.out : state_[size_t(i)]].name, with_reduced(c.axes));
  s.domain = f_.domain;
  if (m.transform.is_leaf(0)) {
    if (carried_) fold.init = state(i);
  } else if (Factor* factor = factor_of(i)) {
    scale_by_factor(i, *factor, s, fold);
  } else {
    fold.body = with(m.transform, i, c.body, [&](int j) { return comp(j).body; });
    if (carried_) fold.init = with(m.transform, i, state(i), [&](int j) { return state(j); });
  }
  s.components.push_back(std::move(fold));
  add(tile_, std::move(s), true);
}

/// A sum whose terms are multiplied by a factor, which also corrects the sum so far.
void Cascade::scale_by_factor(int i, Factor& factor, Stage& stage, Component& fold) {
  const Component& c = comp(i);
  const auto body_of = [&](int j) { return comp(j).body; };
  const auto state_of = [&](int j) { return state(j); };
  if (factor.first == i && carried_)
    fold.init = with(factor.program, i, formula_constant(c.dtype, 1), state_of);
  if (factor.first == i && carried_ && !corrects_in_place(factor)) {
    Stage correction = new_stage(f_.name + ".c", factor.correction_axes);
    FormulaRef value = fold.init;
    factor.correction = new_value(f_.name + ".c", c.dtype, factor.correction_axes);
    correction.components.push_back(
        map_to(factor.correction, value, plain(factor.correction_axes), factor.correction_axes));
    add(tile_, std::move(correction), true);
  }
  const bool one = is_constant(c.body, 1), shared = factor.users.size() > 1;
  FormulaRef weight;
  const auto weight_of_point = [&] {
    const auto value = with(factor.program, i, formula_constant(c.dtype, 1), body_of);
    return multiplies_subnormal(factor) ? zero_where_subnormal(value) : value;
  };
  if (shared && !factor.weights) {
    FormulaRef value = weight_of_point();
    factor.weights = new_value(f_.name + ".w", c.dtype, factor.weight_axes);
    Component map = map_to(factor.weights, value, plain(factor.weight_axes), factor.weight_axes);
    auto mine = with_reduced(c.axes);
    if (mine == factor.weight_axes) { // computed on the way of this fold
      stage.components.push_back(map);
      weight = formula_component(0, c.dtype);
    } else {
      Stage weights = new_stage(f_.name + ".w", factor.weight_axes);
      weights.domain = f_.domain;
      weights.components.push_back(map);
      add(tile_, std::move(weights), true);
    }
  }
  if (!weight)
    weight = shared ? formula_load(factor.weights, c.dtype, plain(factor.weight_axes)) : weight_of_point();
  for (DType type : through_[size_t(i)]) weight = formula_cast(type, weight);
  fold.body = one ? weight : formula_op(Op::mul, {weight, c.body});
  if (carried_ && factor.correction)
    fold.init = formula_load(factor.correction, c.dtype, plain(factor.correction_axes));
  if (carried_) fold.init = formula_op(Op::mul, {state(i), fold.init});
}

void Cascade::hand_on_states() {
  std::map<std::vector<AxisId>, size_t> where;
  std::vector<Stage> steps;
  for (int i = 0; i < count_; i++) {
    if (next_[size_t(i)] == state_[size_t(i)] && !known_[size_t(i)]) continue;
    auto [slot, fresh] = where.try_emplace(comp(i).axes, steps.size());
    if (fresh) {
      steps.push_back(new_stage(f_.name + ".next", comp(i).axes));
      if (steps.size() > 1)
        steps.back().name = n_.free_stage_name(fmt::format("{}.next{}", f_.name, steps.size() - 1));
    }
    steps[slot->second].components.push_back(map_to(state_[size_t(i)], next(i), comp(i).index, comp(i).axes));
  }
  for (auto& s : steps) add(tile_, std::move(s), true);
}

void Cascade::finish() {
  // What followed the fold reads the finished state.
  auto finished = [&](const FormulaRef& f) {
    return FormulaRewriter([&](const FormulaRef& x) -> FormulaRef {
      const auto* part = x->as<FormulaComponent>();
      if (!part) return x;
      LUMINAL_CHECK(part->number < count_, "stage {}: an epilogue reads an epilogue", f_.name);
      return known_[size_t(part->number)] ? known_total(comp(part->number)) : state(part->number);
    })(f);
  };
  for (size_t i = size_t(count_); i < f_.components.size(); i++) {
    Component c = f_.components[i];
    c.after = false;
    c.body = finished(c.body);
    Stage s = new_stage(c.out ? n_.cone.values[c.out].name : f_.name + ".out", c.axes);
    s.components.push_back(std::move(c));
    add(after_, std::move(s), false);
  }
  std::vector<Stage> outs;
  for (int i = 0; i < count_; i++) {
    if (!copied_out_[size_t(i)]) continue;
    if (outs.empty() || outs.back().components[0].axes != comp(i).axes)
      outs.push_back(new_stage(
          outs.empty() ? f_.name + ".out" : fmt::format("{}.out{}", f_.name, outs.size()), comp(i).axes));
    outs.back().components.push_back(map_to(comp(i).out, state(i), out_index_[size_t(i)], comp(i).axes));
  }
  for (auto& s : outs) add(after_, std::move(s), false);
}

/// What only these stages read is needed only in their domain.
void Cascade::narrow_sources() {
  std::set<ValueId> sources;
  if (!f_.domain.is_constant(1))
    visit_loads(f_, [&](const FormulaLoad& f) {
      if (n_.cone.values[f.value].role == ValueRole::interior && n_.readers(f.value).empty())
        sources.insert(f.value);
    });
  for (ValueId v : sources) {
    StageId w = n_.writer(v);
    if (!w) continue;
    bool plain_reads = true;
    visit_loads(f_, [&](const FormulaLoad& f) {
      if (f.value != v) return;
      for (auto& c : n_.cone.stages[w].components) plain_reads &= c.out != v || c.index == f.index;
    });
    bool same_axes = true;
    for (Expr e : symbols_of(f_.domain))
      for (AxisId a : f_.axes)
        if (n_.cone.axes[a].symbol == e) same_axes &= contains(n_.cone.stages[w].axes, a);
    const bool alone =
        std::ranges::all_of(n_.cone.stages[w].components, [&](auto& c) { return c.out == v || !c.out; });
    if (plain_reads && same_axes && alone) n_.cone.stages[w].needed = f_.domain;
  }
}

void Cascade::insert_stages() {
  StageId where = stage_;
  auto name_and_insert = [&](StageId position, std::pair<Stage, StageNest> entry) {
    entry.first.name = n_.free_stage_name(entry.first.name);
    n_.insert_stage(position, std::move(entry.first), std::move(entry.second));
  };
  // States begin before everything: what is made inside the loops may then follow.
  for (size_t i = 0; i < before_.size(); i++, where++) name_and_insert(StageId(i), std::move(before_[i]));
  for (auto* list : {&tile_, &after_})
    for (auto& entry : *list) name_and_insert(where++, std::move(entry));
}

} // namespace

void cascade(Nests& nests, const std::string& stage, const std::string& loop) {
  Cascade(nests, nests.stage(stage), loop).run();
}

} // namespace luminal::kernel
