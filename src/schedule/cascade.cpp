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
  void join_plain_folds();
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
    ConeValue v;
    v.name = n_.free_name(name);
    v.dtype = dtype;
    v.role = ValueRole::interior;
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
    for (int j = 0; j < i; j++) {
      leaves.push_back(old(j));
      leaves.push_back(next(j));
    }
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
  int n = f_.monoid->size();
  carried_ = loop_ != "root";
  if (f_.scan_axis || nest_.rolling) refuse("stage {} is a scan", f_.name);
  std::set<AxisId> kept;
  for (int i = 0; i < n; i++) kept.insert(comp(i).axes.begin(), comp(i).axes.end());
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
  for (size_t i = size_t(n); i < f_.components.size(); i++)
    if (!f_.components[i].after) refuse("stage {} has more components than its tuple", f_.name);
  for (int i = 0; i < n; i++)
    visit(comp(i).body, [&](const Formula& f) {
      if (f.is<FormulaComponent>()) refuse("stage {}: a body reads another component", f_.name);
    });

  std::vector<std::pair<Stage, StageNest>> before, tile, after;
  auto add = [&](std::vector<std::pair<Stage, StageNest>>& list, Stage s, bool in_tile) {
    StageNest nest = loops_of(s);
    if (in_tile && carried_) {
      nest.together = loop_;
      nest.cascade = n_.cascades + 1;
      nest.at = tile.empty() ? nest_.at : loop_;
    }
    list.push_back({std::move(s), std::move(nest)});
  };

  // Factors that transforms share.
  struct Factor {
    Scalar program;
    int first;
    std::vector<int> users;
    ValueId weights, correction;
    std::vector<AxisId> weight_axes, correction_axes;
  };
  std::vector<Factor> factors;
  std::vector<int> factor_of(size_t(n), -1);
  std::vector<std::vector<DType>> through(static_cast<size_t>(n)); // types that its weights are rounded to
  const auto& parts = f_.monoid->components();
  const bool one_type = std::ranges::all_of(parts, [&](auto& m) { return m.dtype == parts[0].dtype; });
  for (int i = 0; i < n; i++) {
    const MonoidComponent& m = f_.monoid->components()[size_t(i)];
    if (m.op != Op::add || m.transform.is_leaf(0)) continue;
    auto w = linear_factor(m.transform, m.transform.nodes().size() - 1, m.dtype);
    if (!w) continue;
    if (!one_type) w = LinearFactor{w->rounded()};
    through[size_t(i)] = w->through;
    for (size_t k = 0; k < factors.size() && factor_of[size_t(i)] < 0; k++)
      if (factors[k].program == w->program) {
        factors[k].users.push_back(i);
        factor_of[size_t(i)] = int(k);
      }
    if (factor_of[size_t(i)] >= 0) continue;
    factor_of[size_t(i)] = int(factors.size());
    factors.push_back({w->program, i, {i}, {}, {}, {}, {}});
  }
  // The correction of one component is computed where it is used, as often as it has states.
  const auto corrects_in_place = [&](const Factor& factor) {
    return factor.users.size() == 1 && std::ranges::none_of(factor.program.nodes(), [](auto& node) {
             return node.kind == ScalarNode::Kind::op && is_long_chain(node.op);
           });
  };
  for (int i = 0; i < n; i++) known_.push_back(known_sum(i));
  // The first stage of a tile opens its loop: it has to be a fold.
  const auto first = std::ranges::find_if_not(known_, [](auto& sum) { return sum.has_value(); });
  const int opener = first == known_.end() ? -1 : int(first - known_.begin());
  if (opener < 0 ||
      (factor_of[size_t(opener)] >= 0 && !corrects_in_place(factors[size_t(factor_of[size_t(opener)])])))
    known_.assign(size_t(n), {});
  for (int i = 0; i < n; i++)
    if (known_[size_t(i)]) replace_known(f_.components[size_t(i)]);
  for (Factor& factor : factors) {
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
  // The carried state. A result that leaves the kernel is copied out at the end.
  state_.resize(size_t(n));
  next_.resize(size_t(n));
  std::vector<bool> read(size_t(n), false), copied_out(size_t(n), false);
  for (int i = 0; i < n; i++) {
    for (int j : f_.monoid->dependencies(i)) read[size_t(j)] = true;
    auto& transform = f_.monoid->components()[size_t(i)].transform;
    for (int j = 0; j < i; j++)
      if (transform.reads(1 + 2 * j) || transform.reads(2 + 2 * j)) read[size_t(j)] = true;
  }
  for (int i = 0; i < n; i++) {
    if (known_[size_t(i)] && !carried_) continue; // without a state
    Component& c = f_.components[size_t(i)];
    bool leaves_kernel = c.out && n_.cone.values[c.out].role != ValueRole::interior;
    if (!c.out || (leaves_kernel && carried_)) {
      std::string name = !c.out ? fmt::format("{}.{}", f_.name, i) : n_.cone.values[c.out].name + ".state";
      ValueId v = new_value(name, c.dtype, c.axes);
      copied_out[size_t(i)] = bool(c.out);
      state_[size_t(i)] = v;
      if (!c.out) c.index = plain(c.axes);
    } else {
      state_[size_t(i)] = c.out;
    }
    next_[size_t(i)] = state_[size_t(i)];
    if (carried_ && read[size_t(i)] && !known_[size_t(i)])
      next_[size_t(i)] = new_value(n_.cone.values[state_[size_t(i)]].name + ".new", c.dtype, c.axes);
  }
  // New states are indexed by the plain axes of their component.
  std::vector<std::vector<Expr>> out_index;
  for (int i = 0; i < n; i++) {
    out_index.push_back(f_.components[size_t(i)].index);
    bool own = state_[size_t(i)] != f_.components[size_t(i)].out || next_[size_t(i)] != state_[size_t(i)];
    if (own && f_.components[size_t(i)].index.size() != f_.components[size_t(i)].axes.size()) {
      // Dimensions of extent 1: give the new values the same shape as the result.
      const ConeValue& result = n_.cone.values[f_.components[size_t(i)].out];
      for (ValueId v : {state_[size_t(i)], next_[size_t(i)]}) {
        n_.cone.values[v].shape = result.shape;
        n_.cone.values[v].axes = result.axes;
      }
    } else if (own) {
      f_.components[size_t(i)].index = out_index.back();
      if (f_.components[size_t(i)].out) {
        const ConeValue& result = n_.cone.values[f_.components[size_t(i)].out];
        for (ValueId v : {state_[size_t(i)], next_[size_t(i)]}) {
          n_.cone.values[v].shape = result.shape;
          n_.cone.values[v].axes = result.axes;
        }
      }
    }
  }
  if (carried_) {
    // States with most axes first: their nest may hold the others.
    std::vector<std::vector<AxisId>> order;
    for (int i = 0; i < n; i++)
      if (!contains(order, comp(i).axes)) order.push_back(comp(i).axes);
    std::ranges::stable_sort(order, [](auto& a, auto& b) { return a.size() > b.size(); });
    std::map<std::vector<AxisId>, Stage> inits;
    for (size_t k = 0; k < order.size(); k++)
      inits[order[k]] =
          new_stage(k == 0 ? f_.name + ".init" : fmt::format("{}.init{}", f_.name, k), order[k]);
    for (int i = 0; i < n; i++) {
      FormulaRef identity = is_float(comp(i).dtype)
                                ? formula_constant(comp(i).dtype, identity_f64(comp(i).op, comp(i).dtype))
                                : formula_index(Expr(identity_i64(comp(i).op, comp(i).dtype)), comp(i).dtype);
      inits[comp(i).axes].components.push_back(
          map_to(state_[size_t(i)], identity, comp(i).index, comp(i).axes));
    }
    for (auto& axes : order) add(before, inits[axes], false);
  }

  for (int i = 0; i < n; i++) {
    const Component& c = comp(i);
    const MonoidComponent& m = f_.monoid->components()[size_t(i)];
    if (known_[size_t(i)]) continue;
    Component fold = c;
    fold.out = next_[size_t(i)];
    fold.after = false;
    Stage s = new_stage(n_.cone.values[c.out ? c.out : state_[size_t(i)]].name, with_reduced(c.axes));
    s.domain = f_.domain;
    auto body_of = [&](int j) { return comp(j).body; };
    auto state_of = [&](int j) { return state(j); };
    if (m.transform.is_leaf(0)) {
      if (carried_) fold.init = state(i);
    } else if (factor_of[size_t(i)] >= 0) {
      Factor& factor = factors[size_t(factor_of[size_t(i)])];
      if (factor.first == i && carried_)
        fold.init = with(factor.program, i, formula_constant(c.dtype, 1), state_of);
      if (factor.first == i && carried_ && !corrects_in_place(factor)) {
        Stage correction = new_stage(f_.name + ".c", factor.correction_axes);
        FormulaRef value = fold.init;
        factor.correction = new_value(f_.name + ".c", c.dtype, factor.correction_axes);
        correction.components.push_back(
            map_to(factor.correction, value, plain(factor.correction_axes), factor.correction_axes));
        add(tile, std::move(correction), true);
      }
      bool one = is_constant(c.body, 1);
      FormulaRef weight;
      bool shared = factor.users.size() > 1;
      if (shared && !factor.weights) {
        FormulaRef value = with(factor.program, i, formula_constant(c.dtype, 1), body_of);
        factor.weights = new_value(f_.name + ".w", c.dtype, factor.weight_axes);
        Component map = map_to(factor.weights, value, plain(factor.weight_axes), factor.weight_axes);
        auto mine = with_reduced(c.axes);
        if (mine == factor.weight_axes) { // computed on the way of this fold
          s.components.push_back(map);
          weight = formula_component(0, c.dtype);
        } else {
          Stage weights = new_stage(f_.name + ".w", factor.weight_axes);
          weights.domain = f_.domain;
          weights.components.push_back(map);
          add(tile, std::move(weights), true);
        }
      }
      if (!weight)
        weight = shared ? formula_load(factor.weights, c.dtype, plain(factor.weight_axes))
                        : with(factor.program, i, formula_constant(c.dtype, 1), body_of);
      for (DType type : through[size_t(i)]) weight = formula_cast(type, weight);
      fold.body = one ? weight : formula_op(Op::mul, {weight, c.body});
      if (carried_ && factor.correction)
        fold.init = formula_load(factor.correction, c.dtype, plain(factor.correction_axes));
      if (carried_) fold.init = formula_op(Op::mul, {state(i), fold.init});
    } else {
      fold.body = with(m.transform, i, c.body, body_of);
      if (carried_) fold.init = with(m.transform, i, state(i), state_of);
    }
    s.components.push_back(std::move(fold));
    add(tile, std::move(s), true);
  }
  if (carried_) {
    std::map<std::vector<AxisId>, size_t> where;
    std::vector<Stage> steps;
    for (int i = 0; i < n; i++) {
      if (next_[size_t(i)] == state_[size_t(i)] && !known_[size_t(i)]) continue;
      auto [slot, fresh] = where.try_emplace(comp(i).axes, steps.size());
      if (fresh) {
        steps.push_back(new_stage(f_.name + ".next", comp(i).axes));
        if (steps.size() > 1)
          steps.back().name = n_.free_stage_name(fmt::format("{}.next{}", f_.name, steps.size() - 1));
      }
      steps[slot->second].components.push_back(
          map_to(state_[size_t(i)], next(i), comp(i).index, comp(i).axes));
    }
    for (auto& s : steps) add(tile, std::move(s), true);
  }

  // What followed the fold reads the finished state.
  auto finished = [&](const FormulaRef& f) {
    return FormulaRewriter([&](const FormulaRef& x) -> FormulaRef {
      const auto* part = x->as<FormulaComponent>();
      if (!part) return x;
      LUMINAL_CHECK(part->number < n, "stage {}: an epilogue reads an epilogue", f_.name);
      return known_[size_t(part->number)] ? known_total(comp(part->number)) : state(part->number);
    })(f);
  };
  for (size_t i = size_t(n); i < f_.components.size(); i++) {
    Component c = f_.components[i];
    c.after = false;
    c.body = finished(c.body);
    Stage s = new_stage(c.out ? n_.cone.values[c.out].name : f_.name + ".out", c.axes);
    s.components.push_back(std::move(c));
    add(after, std::move(s), false);
  }
  std::vector<Stage> outs;
  for (int i = 0; i < n; i++) {
    if (!copied_out[size_t(i)]) continue;
    if (outs.empty() || outs.back().components[0].axes != comp(i).axes)
      outs.push_back(new_stage(
          outs.empty() ? f_.name + ".out" : fmt::format("{}.out{}", f_.name, outs.size()), comp(i).axes));
    outs.back().components.push_back(map_to(comp(i).out, state(i), out_index[size_t(i)], comp(i).axes));
  }
  for (auto& s : outs) add(after, std::move(s), false);
  // One stage alone waits for nobody: where its loop is not shared, it sums from the state on.
  if (tile.size() == 1) tile[0].second.together.clear();
  n_.cascades++;
  n_.erase_stage(stage_);
  // What only these stages read is needed only in their domain.
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
  StageId where = stage_;
  auto name_and_insert = [&](StageId position, std::pair<Stage, StageNest> entry) {
    entry.first.name = n_.free_stage_name(entry.first.name);
    n_.insert_stage(position, std::move(entry.first), std::move(entry.second));
  };
  // States begin before everything: what is made inside the loops may then follow.
  for (size_t i = 0; i < before.size(); i++, where++) name_and_insert(StageId(i), std::move(before[i]));
  for (auto* list : {&tile, &after})
    for (auto& entry : *list) name_and_insert(where++, std::move(entry));
}

} // namespace

void cascade(Nests& nests, const std::string& stage, const std::string& loop) {
  Cascade(nests, nests.stage(stage), loop).run();
}

} // namespace luminal::kernel
