// schedule/lower_point.cpp -- the statements of one point of a stage: formulas to values,
// accumulation, results.
#include "base/check.h"
#include "base/contains.h"
#include "loop/unit.h"
#include "schedule/lowering.h"
#include <algorithm>
#include <set>

namespace luminal::kernel {
namespace {
/// a*b - c*d of floats, where nobody else reads the products.
bool is_difference(const Formula& f, const std::map<const Formula*, int>& uses) {
  return applies(f, Op::sub) && is_float(f.dtype) && std::ranges::all_of(args_of(f), [&](auto& a) {
           return applies(*a, Op::mul) && uses.at(a.get()) <= 1;
         });
}

/// Steps of a dot instruction, one after the other, of which the first adds to nothing.
bool starts_at_zero(const Formula& f) {
  const auto* dot = f.as<FormulaUserOp>();
  return dot && find_lane_unit(dot->name) && (is_constant(dot->args[0], 0) || starts_at_zero(*dot->args[0]));
}

/// Is something of what the guard bounds divided?
bool divides(Expr e, const Guard& guard) {
  if (e.kind() == ExprKind::floordiv || e.kind() == ExprKind::mod)
    return std::ranges::any_of(symbols_of(guard.value), [&](Expr s) { return depends_on(e, s); });
  return std::ranges::any_of(e.args(), [&](Expr part) { return divides(part, guard); });
}
} // namespace

Expr StageLowering::value_at(const State& state, Expr e) const {
  return substitute(e, state.nest.axis_values);
}

Expr StageLowering::condition_at(const State& state, Expr condition) const {
  if (!l_.assumed_.yes.empty()) {
    std::vector<Expr> left;
    if (condition.kind() == ExprKind::logical_and) {
      for (Expr e : condition.args())
        if (!l_.assumed(e)) left.push_back(e);
    } else if (!l_.assumed(condition)) {
      left.push_back(condition);
    }
    condition = logical_and(left);
  }
  return value_at(state, condition);
}

Expr StageLowering::offset_of(const State& state, ValueId value, const std::vector<Expr>& index) const {
  if (!value)
    refuse("stage {} keeps its folds in registers alone, and its loops leave them before they are finished",
           s_.name);
  const Place& place = l_.places_[value];
  LUMINAL_CHECK(place.buffer, "{} has no storage", l_.n_.cone.values[value].name);
  std::vector<Expr> at;
  for (size_t d = 0; d < index.size(); d++) at.push_back(value_at(state, index[d]) - place.base[d]);
  const Expr offset = layout_offset(place.layout, place.extents, at);
  // Points beyond a guard are left out, and dead lanes touch nothing: what divides by the length of
  // an axis that was cut with a remainder is plain.
  std::vector<Expr> facts;
  for (const Guard& g : state.within)
    if (divides(offset, g)) facts.push_back(lt(g.value, g.limit));
  return (facts.empty() ? offset : simplify_under(offset, facts)) + place.slot;
}

Expr StageLowering::accumulator_offset(const State& state, const std::vector<int64_t>* parts) const {
  Expr offset = 0;
  size_t next = 0;
  for (size_t i = cut_; i < rest_.size(); i++) {
    const StageLoop& l = state.nest.loops[rest_[i]];
    int64_t stride = strides_[rest_[i]];
    if (stride == 0 || state.apart.contains(rest_[i])) continue;
    bool combined = l.kind == LoopKind::unrolled && partial_ && reduces(l);
    offset += (combined && parts ? Expr((*parts)[next++]) : l.symbol) * stride;
  }
  return offset;
}

ValueRef StageLowering::accumulator(const State& state, size_t component) const {
  return load(l_.kernel_, registers_[component], accumulator_offset(state));
}

/// What the statements of a phase index with: for the lets of holes.
std::vector<Expr> StageLowering::exprs_of(bool body, bool after) const {
  std::vector<Expr> out;
  auto add = [&](const FormulaRef& f) {
    if (!f) return;
    auto part = index_exprs(f);
    out.insert(out.end(), part.begin(), part.end());
  };
  if (body) out.push_back(s_.domain);
  for (auto& c : s_.components) {
    if (c.after ? after : body) add(c.body);
    if (body || after) add(c.init);
    out.insert(out.end(), c.index.begin(), c.index.end());
  }
  return out;
}

// ---- formulas ----

void StageLowering::count_uses(Values& values, const FormulaRef& formula) {
  if (!formula || ++values.uses[formula.get()] > 1) return;
  for (auto& a : args_of(*formula)) count_uses(values, a);
}

ValueRef StageLowering::named(Values& values, ValueRef value) {
  if (value->is<Constant>() || value->is<Let>()) return value;
  const LetId number(l_.kernel_.lets++);
  values.body->push_back(let(number, value));
  return let_value(value->dtype, number);
}

ValueRef StageLowering::loaded(const State& state, const FormulaLoad& f, DType dtype) const {
  Expr guard = f.guard.is_constant(1) ? f.guard : condition_at(state, f.guard);
  const Truth holds = prove(guard);
  if (holds == Truth::no) return constant(dtype, 0);
  if (holds == Truth::yes) guard = 1;
  if (const GroupTile* tile = tile_of(f)) {
    std::vector<Expr> at;
    for (size_t d = 0; d < f.index.size(); d++)
      at.push_back(value_at(state, f.index[d]) - tile->place.base[d]);
    return load_as(dtype, tile->place.buffer,
                   layout_offset(tile->place.layout, tile->place.extents, at) + tile->place.slot, guard);
  }
  const BufferId buffer = l_.places_[f.value].buffer;
  // Words of neighbours along the last dimension, as the directive unit makes them: these have to
  // be contiguous.
  const ConeValue& value = l_.n_.cone.values[f.value];
  const Layout& layout = l_.places_[f.value].layout;
  if (bits(dtype) > bits(value.dtype) && value.role == ValueRole::interior &&
      (layout.empty() || layout.back() != LayoutDim{.dim = int(value.shape.size()) - 1}))
    refuse("stage {} reads {} in words: neighbours along its last dimension are not contiguous", s_.name,
           value.name);
  return load_as(dtype, buffer, offset_of(state, f.value, f.index), guard);
}

ValueRef StageLowering::value_of(Values& values, const FormulaRef& f) {
  auto found = values.made.find(f.get());
  if (found != values.made.end()) return found->second;
  ValueRef v = visit(
      *f, [&](const FormulaConstant& c) { return constant(f->dtype, c.value); },
      [&](const FormulaLoad& load) { return loaded(*values.state, load, f->dtype); },
      [&](const FormulaIndex& i) {
        if (f->dtype != DType::boolean) return index(value_at(*values.state, i.value), f->dtype);
        Expr e = condition_at(*values.state, i.value);
        if (prove(e) == Truth::yes) e = 1;
        return e.is_constant() ? constant(DType::boolean, e.value() != 0) : index(e, f->dtype);
      },
      [&](const FormulaComponent& c) {
        const ValueRef made = values.components.at(size_t(c.number));
        LUMINAL_CHECK(made != nullptr, "component {} of stage {} is read before it is made", c.number,
                      s_.name);
        return made;
      },
      [&](const FormulaCast& c) { return cast(f->dtype, value_of(values, c.x)); },
      [&](const FormulaBitcast& c) { return bitcast(f->dtype, value_of(values, c.x)); },
      [&](const FormulaOp& op) { return operation(values, op, f->dtype); },
      [&](const FormulaUserOp& op) {
        std::vector<ValueRef> args;
        for (auto& a : op.args) args.push_back(value_of(values, a));
        return apply(op.name, std::move(args));
      });
  const bool shared = values.uses[f.get()] > 1 && !f->is<FormulaConstant>() && !f->is<FormulaComponent>() &&
                      !f->is<FormulaIndex>();
  if (shared) v = named(values, std::move(v));
  values.made[f.get()] = v;
  return v;
}

ValueRef StageLowering::operation(Values& values, const FormulaOp& op, DType dtype) {
  if (op.op == Op::select) {
    ValueRef chosen = value_of(values, op.args[0]);
    if (const auto* known = chosen->as<Constant>())
      return value_of(values, op.args[known->value != 0 ? 1 : 2]);
  }
  if (ValueRef sum = sum_into_unit(values, op, dtype)) return sum;
  std::vector<ValueRef> args;
  for (auto& a : op.args) args.push_back(value_of(values, a));
  if (op.op == Op::bit_and && dtype == DType::u32 && args[1]->is<Constant>() &&
      args[1]->as<Constant>()->value == double(UINT32_MAX))
    return args[0]; // a mask of which all is chosen
  return apply(op.op, std::move(args));
}

ValueRef StageLowering::unit_from(Values& values, const ValueRef& start, const Formula& f) {
  const auto& [unit, args] = *f.as<FormulaUserOp>();
  return apply(unit, {is_constant(args[0], 0) ? start : unit_from(values, start, *args[0]),
                      value_of(values, args[1]), value_of(values, args[2])});
}

/// x + unit(0, a, b) of integers is unit(x, a, b).
ValueRef StageLowering::sum_into_unit(Values& values, const FormulaOp& sum, DType dtype) {
  if (sum.op != Op::add || !is_integer(dtype)) return nullptr;
  for (size_t i = 0; i < 2; i++) {
    const FormulaRef &dot = sum.args[i], &other = sum.args[1 - i];
    if (!starts_at_zero(*dot) || values.uses[dot.get()] > 1) continue;
    return unit_from(values, value_of(values, other), *dot);
  }
  return nullptr;
}

ValueRef StageLowering::accumulate(Values& values, const Component& c, const ValueRef& accumulated) {
  const FormulaRef& body = c.body;
  if (c.op == Op::add && starts_at_zero(*body) && values.uses[body.get()] <= 1)
    return unit_from(values, accumulated, *body);
  const std::span<const FormulaRef> args = args_of(*body);
  bool product = applies(*body, Op::mul) && is_float(body->dtype);
  if (l_.options_.contract && c.op == Op::add && product && values.uses[body.get()] <= 1)
    return apply(Op::fma, {value_of(values, args[0]), value_of(values, args[1]), accumulated});
  if (l_.options_.contract && c.op == Op::add && values.uses[body.get()] <= 1 &&
      is_difference(*body, values.uses)) {
    // acc + (a*b - c*d): two steps.
    const std::span<const FormulaRef> plus = args_of(*args[0]), minus = args_of(*args[1]);
    ValueRef sum = apply(Op::fma, {value_of(values, plus[0]), value_of(values, plus[1]), accumulated});
    return apply(Op::fma, {apply(Op::neg, {value_of(values, minus[0])}), value_of(values, minus[1]), sum});
  }
  return apply(c.op, {accumulated, value_of(values, body)});
}

// ---- tuples ----

ValueRef StageLowering::transform(Values& values, int component, const ValueRef& self,
                                  const std::vector<ValueRef>& old, const std::vector<ValueRef>& next) {
  const MonoidComponent& m = s_.monoid->components()[size_t(component)];
  if (m.transform.is_leaf(0)) return self;
  // The program as a formula over components: 0 self, then old and new in turn.
  std::vector<FormulaRef> leaves{formula_component(0, self->dtype)};
  std::vector<ValueRef> bound{self};
  for (int j = 0; j < component; j++)
    for (auto* list : {&old, &next}) {
      leaves.push_back(formula_component(int(bound.size()), (*list)[size_t(j)]->dtype));
      bound.push_back((*list)[size_t(j)]);
    }
  FormulaRef program = formula_of(m.transform, leaves, m.dtype);
  Values inner{values.body, values.state, {}, {}, bound};
  count_uses(inner, program);
  return value_of(inner, program);
}

std::vector<ValueRef> StageLowering::combine_states(Values& values, const std::vector<ValueRef>& a,
                                                    const std::vector<ValueRef>& b) {
  std::vector<ValueRef> c;
  for (int i = 0; i < s_.monoid->size(); i++) {
    ValueRef x = transform(values, i, a[size_t(i)], a, c), y = transform(values, i, b[size_t(i)], b, c);
    c.push_back(named(values, apply(s_.monoid->components()[size_t(i)].op, {x, y})));
  }
  return c;
}

// ---- the innermost statements ----

/// Of the points that have one result of a component, whose axes are not all of the stage's: the
/// first, which writes it.
Expr StageLowering::first_of_others(const State& state, const Component& part) const {
  Expr first = 1;
  for (const AxisId a : s_.axes)
    if (a != s_.scan_axis && !contains(part.axes, a))
      first = logical_and(first, eq(value_at(state, l_.n_.cone.axes[a].symbol), 0));
  return first;
}

Body StageLowering::point(State& state) {
  Body body;
  Values values{&body, &state, state.made, {}, std::vector<ValueRef>(s_.components.size())};
  for (auto& c : s_.components)
    if (!c.after || s_.scan_axis) count_uses(values, c.body);
  Expr domain = condition_at(state, s_.domain);
  for (size_t g = 0; g < state.held.size(); g++) // ends of axes that no loop sees to
    if (!state.held[g])
      domain = logical_and(domain, lt(state.nest.guards[g].value, state.nest.guards[g].limit));
  if (prove(domain) == Truth::yes) domain = 1;
  bool by_lane = !domain.is_constant() && state.lane.is_symbol() &&
                 (depends_on(domain, state.lane) || !holes_of(l_.n_.cone, std::span(&s_.domain, 1)).empty());
  // A point outside of the domain leaves the accumulator as it is.
  auto kept = [&](ValueRef next, const ValueRef& before) {
    return by_lane ? apply(Op::select, {index(domain, DType::boolean), std::move(next), before}) : next;
  };
  if (s_.monoid) {
    size_t n = size_t(s_.monoid->size());
    std::vector<ValueRef> before, element;
    for (size_t c = 0; c < n; c++) before.push_back(named(values, accumulator(state, c)));
    for (size_t c = 0; c < n; c++) element.push_back(named(values, value_of(values, s_.components[c].body)));
    // Lanes along the scan: what was before them, and what they make of each other.
    if (across_ && !domain.is_constant(1))
      refuse("stage {}: its domain varies along the vector loop {}", s_.name, state.lane.name());
    if (across_) element[0] = named(values, scan_lanes(s_.components[0].op, element[0]));
    auto next = combine_states(values, before, element);
    for (size_t c = 0; c < n; c++) {
      const Component& part = s_.components[c];
      if (part.kind == ComponentKind::scan && part.out) {
        StmtRef prefix = store(l_.places_[part.out].buffer, offset_of(state, part.out, part.index),
                               s_.scan_exclusive ? before[c] : next[c]);
        const Expr first = first_of_others(state, part);
        body.push_back(first.is_constant(1) ? prefix : if_then(first, {prefix}));
      }
      const ValueRef state_after = across_ ? last_lane(next[c]) : kept(next[c], before[c]);
      body.push_back(store(registers_[c], accumulator_offset(state), state_after));
      if (part.kind == ComponentKind::scan) values.components[c] = s_.scan_exclusive ? before[c] : next[c];
    }
    if (s_.scan_axis) epilogue(values, state);
  }
  // A result may lie in the place of what another one reads: several are made before one is stored.
  Body stores;
  std::set<ValueId> written;
  for (const Component& c : s_.components)
    if (c.kind == ComponentKind::map && !c.after && c.out) written.insert(c.out);
  const bool several = written.size() > 1;
  for (size_t i = s_.monoid ? size_t(s_.monoid->size()) : 0; i < s_.components.size(); i++) {
    const Component& c = s_.components[i];
    if (c.after) continue;
    switch (c.kind) {
    case ComponentKind::map: {
      ValueRef v = value_of(values, c.body);
      bool read_later = false;
      for (size_t j = i + 1; j < s_.components.size(); j++)
        read_later |= !s_.components[j].after && reads_component(s_.components[j].body, int(i));
      if (read_later || (several && c.out)) v = named(values, v);
      values.components[i] = v;
      if (c.out)
        (several ? stores : body)
            .push_back(store(l_.places_[c.out].buffer, offset_of(state, c.out, c.index), v));
      break;
    }
    case ComponentKind::fold: {
      ValueRef before = accumulator(state, i);
      body.push_back(
          store(registers_[i], accumulator_offset(state), kept(accumulate(values, c, before), before)));
      break;
    }
    case ComponentKind::scan: LUMINAL_CHECK(false, "a scan without a monoid"); break;
    case ComponentKind::update: {
      BufferId buffer = l_.places_[c.out].buffer;
      Expr offset = offset_of(state, c.out, c.index);
      ValueRef v = value_of(values, c.body);
      if (!c.set) v = apply(c.op, {load(l_.kernel_, buffer, offset), v});
      body.push_back(store(buffer, offset, v));
      break;
    }
    }
  }
  append(body, std::move(stores));
  bool maps_only =
      !folds_ && std::ranges::all_of(s_.components, [](auto& c) { return c.kind == ComponentKind::map; });
  if (domain.is_constant(1) || by_lane || maps_only) return body;
  return {if_then(domain, std::move(body))};
}

} // namespace luminal::kernel
