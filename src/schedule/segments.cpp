// schedule/segments.cpp -- an axis of a stage is cut: of a map where its index expressions change
// (concatenations, padding, rolls), so that they are plain in each segment; of any stage at a given
// place, so that both parts have loops of their own.
#include "base/contains.h"
#include "cone/formula.h"
#include "schedule/nest.h"
#include <algorithm>
#include <set>

namespace luminal::kernel {
namespace {

constexpr size_t most_segments = 64;

/// Where along `symbol` (from 0 on) the sign of `gap` changes: the first place at which gap > 0
/// holds as it does not at 0, or no longer.
std::optional<int64_t> crossing(Expr gap, Expr symbol) {
  const auto c = coefficient_of(gap, symbol);
  if (!c || !c->is_constant() || c->is_constant(0)) return {};
  const Expr rest = gap - symbol * *c;
  if (!rest.is_constant()) return {};
  const Expr place = c->value() > 0 ? floordiv(-rest, c->value()) + 1 : ceildiv(rest, -c->value());
  return place.is_constant() ? std::optional(place.value()) : std::nullopt;
}

/// A place inside of 0 .. extent-1 where a part of the expression takes another form, the parts of
/// parts first.
std::optional<int64_t> change_of(Expr e, Expr symbol, int64_t extent, bool conditions_only) {
  if (!depends_on(e, symbol)) return {};
  for (Expr part : e.args())
    if (auto place = change_of(part, symbol, extent, conditions_only)) return place;
  const auto inside = [&](std::optional<int64_t> place) {
    return place && *place > 0 && *place < extent ? place : std::nullopt;
  };
  const auto args = e.args();
  switch (e.kind()) {
  case ExprKind::lt: return inside(crossing(args[1] - args[0], symbol));
  case ExprKind::eq:
  case ExprKind::ne: { // one place, or all others
    const auto first = crossing(args[1] - args[0], symbol), last = crossing(args[0] - args[1], symbol);
    if (!first || !last) return {};
    const auto begin = inside(std::min(*first, *last));
    return begin ? begin : inside(std::max(*first, *last));
  }
  case ExprKind::min:
  case ExprKind::max:
    if (conditions_only) return {};
    for (size_t i = 0; i < args.size(); i++)
      for (size_t j = 0; j < i; j++)
        if (auto place = inside(crossing(args[i] - args[j], symbol))) return place;
    return {};
  case ExprKind::mod:
  case ExprKind::floordiv: {
    // What comes round at the places where the axis itself does is a block of it, which a split
    // sees to: of the whole blocks. What is left of one behind them is a part of its own.
    if (conditions_only || !args[1].is_constant()) return {};
    const auto c = coefficient_of(args[0], symbol);
    if (!c || !c->is_constant(1)) return {};
    const Expr rest = args[0] - symbol;
    const int64_t m = args[1].value();
    if (!rest.is_constant() || m < 2) return {};
    if (mod(rest, m).is_constant(0)) return inside(extent - extent % m);
    if (extent > 2 * m) return {};
    return inside(m - mod(rest, m).value());
  }
  default: return {};
  }
}

/// A choice between values of which one is never taken here, and loads that never happen, are left
/// out.
FormulaRef without_choices(const FormulaRef& f) {
  if (applies(*f, Op::select))
    if (const auto* chosen = args_of(*f)[0]->as<FormulaConstant>())
      return args_of(*f)[chosen->value != 0 ? 1 : 2];
  if (guard_of(*f).is_constant(0)) return formula_constant(f->dtype, 0);
  return f;
}

Interval trips(int64_t extent) { return {0, extent - 1}; }

} // namespace

std::vector<int64_t> segment_ends(const Stage& stage, const ConeAxis& axis, bool conditions_only) {
  std::vector<int64_t> ends;
  if (!axis.extent.is_constant() || axis.extent.value() < 2 || !axis.symbol.is_symbol()) return ends;
  std::vector<Expr> exprs; // that vary along the axis, each once
  std::set<Expr, ExprLess> seen;
  for (Expr e : index_exprs(stage))
    if (depends_on(e, axis.symbol) && seen.insert(e).second) exprs.push_back(e);
  std::vector<std::pair<int64_t, int64_t>> open{{0, axis.extent.value()}};
  while (!open.empty()) {
    const auto [begin, end] = open.back();
    open.pop_back();
    const Expr symbol = Expr::symbol(axis.name, trips(end - begin));
    std::optional<int64_t> place;
    for (size_t i = 0; i < exprs.size() && !place && end - begin > 1; i++)
      place = change_of(substitute(exprs[i], {{axis.symbol, symbol + begin}}), symbol, end - begin,
                        conditions_only);
    if (!place) {
      ends.push_back(end);
      continue;
    }
    if (ends.size() + open.size() + 2 > most_segments) return {};
    open.push_back({begin + *place, end}); // the front goes first
    open.push_back({begin, begin + *place});
  }
  if (ends.size() == 1) ends.clear();
  return ends;
}

namespace {

/// The axis of a stage whose loops are as they were made.
AxisId axis_to_cut(const Nests& nests, StageId s, const std::string& axis_name) {
  const Stage& whole = nests.cone.stages[s];
  const auto a =
      std::ranges::find_if(whole.axes, [&](AxisId i) { return nests.cone.axes[i].name == axis_name; });
  if (a == whole.axes.end()) refuse("stage {} has no axis {}", whole.name, axis_name);
  if (!whole.ordered.empty() || whole.scan_axis) refuse("stage {} keeps the order of its axes", whole.name);
  const StageNest fresh = nests.fresh(whole), &nest = nests.stages[s];
  if (nest.loops.size() != fresh.loops.size() || !nest.guards.empty() || !nest.prefetches.empty() ||
      !std::ranges::equal(nest.loops, fresh.loops, [](auto& l, auto& r) {
        return l.name == r.name && l.symbol == r.symbol && l.kind == r.kind;
      }))
    refuse("stage {}: its loops have been changed before its axes are cut", whole.name);
  const Expr symbol = nests.cone.axes[*a].symbol;
  for (HoleId h : holes_of(nests.cone, whole))
    for (Expr e : index_exprs(nests.cone.holes[h].value))
      if (depends_on(e, symbol)) refuse("an index that is read from memory varies with {}", axis_name);
  return *a;
}

/// One stage for each part of the axis, over an axis of its own.
void cut_at(Nests& nests, StageId s, AxisId a, const std::vector<int64_t>& ends) {
  const Stage whole = nests.cone.stages[s];
  const size_t position = size_t(std::ranges::find(whole.axes, a) - whole.axes.begin());
  const ConeAxis axis = nests.cone.axes[a];
  const std::string at = nests.stages[s].at;
  int group = whole.segment_group;
  for (const Stage& other : nests.cone.stages) group = std::max(group, other.segment_group + 1);
  if (whole.segment_group > 0) group = whole.segment_group;
  for (const Component& c : whole.components)
    if (c.out)
      for (AxisId& of : nests.cone.values[c.out].axes)
        if (of == a) of = {};
  nests.erase_stage(s);
  int64_t begin = 0;
  for (size_t i = 0; i < ends.size(); i++) {
    Stage segment = whole;
    segment.segment_group = group;
    segment.name = nests.free_stage_name(fmt::format("{}.p{}", whole.name, i));
    const std::string part = nests.free_name(fmt::format("{}.p{}", axis.name, i));
    const int64_t extent = ends[i] - begin;
    const Expr symbol = Expr::symbol(part, trips(extent));
    const AxisId number = nests.cone.axes.add({part, extent, symbol});
    substitute_stage(segment, {{axis.symbol, extent == 1 ? Expr(begin) : symbol + begin}});
    FormulaRewriter simpler(without_choices);
    rewrite_stage(segment, [&](const FormulaRef& f) { return simpler(f); });
    segment.axes[position] = number;
    for (Component& c : segment.components) {
      std::ranges::replace(c.axes, a, number);
      std::ranges::sort(c.axes);
    }
    StageNest own = nests.fresh(segment);
    own.at = at;
    nests.insert_stage(s + int(i), std::move(segment), std::move(own));
    begin = ends[i];
  }
}

/// Formulas at one place of an axis. Of a choice that is decided there, only what is taken is
/// looked at.
class AtPlace {
public:
  AtPlace(Expr axis, Expr place) : place_{{axis, place}} {}
  FormulaRef operator()(const FormulaRef& f) {
    if (const auto known = done_.find(f.get()); known != done_.end()) return known->second;
    FormulaRef made = at(f);
    done_.emplace(f.get(), made);
    return made;
  }
  Expr operator()(Expr e) const { return luminal::substitute(e, place_); }

private:
  FormulaRef at(const FormulaRef& f) {
    if (applies(*f, Op::select))
      if (const FormulaRef first = (*this)(args_of(*f)[0]); const auto* chosen = first->as<FormulaConstant>())
        return (*this)(args_of(*f)[chosen->value != 0 ? 1 : 2]);
    Formula copy = with_exprs(*with_args(*f, std::ref(*this)), std::ref(*this));
    if (const auto* index = copy.as<FormulaIndex>())
      return without_units(formula_index(index->value, copy.dtype));
    return without_units(without_choices(std::make_shared<const Formula>(std::move(copy))));
  }

  ExprMap<Expr> place_;
  std::map<const Formula*, FormulaRef> done_;
};

/// One stage whose components are the parts of the axis, of so many elements each.
void one_body(Nests& nests, StageId s, AxisId a, int64_t length) {
  const Stage whole = nests.cone.stages[s];
  const ConeAxis axis = nests.cone.axes[a];
  for (Expr e : {whole.domain, whole.needed})
    if (depends_on(e, axis.symbol)) refuse("stage {} is not for all of {}", whole.name, axis.name);
  Expr within = 0; // a part
  AxisId number;
  if (length > 1) {
    const std::string name = nests.free_name(axis.name + ".part");
    within = Expr::symbol(name, trips(length));
    number = nests.cone.axes.add({name, length, within});
  }
  const auto in_part = [&](std::vector<AxisId>& axes) {
    if (!number)
      std::erase(axes, a);
    else
      std::ranges::replace(axes, a, number);
  };
  Stage joint = whole;
  joint.components.clear();
  in_part(joint.axes);
  SharedFormulas shared;
  for (int64_t i = 0; i < axis.extent.value(); i += length) {
    AtPlace place(axis.symbol, within + i);
    const int before = int(joint.components.size());
    FormulaRewriter moved([&](const FormulaRef& f) {
      const auto* part = f->as<FormulaComponent>();
      return part ? formula_component(part->number + before, f->dtype) : f;
    });
    for (Component c : whole.components) {
      c.body = shared(moved(place(c.body)));
      for (Expr& e : c.index) e = place(e);
      in_part(c.axes);
      std::ranges::sort(c.axes);
      joint.components.push_back(std::move(c));
    }
  }
  for (const Component& c : whole.components)
    if (c.out)
      for (AxisId& of : nests.cone.values[c.out].axes)
        if (of == a) of = {};
  const std::string at = nests.stages[s].at;
  nests.erase_stage(s);
  StageNest own = nests.fresh(joint);
  own.at = at;
  nests.insert_stage(s, std::move(joint), std::move(own));
}

} // namespace

void segments(Nests& nests, const std::string& name, const std::string& axis_name, SegmentEnds at) {
  const StageId s = nests.stage(name);
  const Stage& whole = nests.cone.stages[s];
  for (const Component& c : whole.components)
    if (c.kind != ComponentKind::map || c.after)
      refuse("stage {} does not only map: its axes stay whole", name);
  const AxisId a = axis_to_cut(nests, s, axis_name);
  const ConeAxis& axis = nests.cone.axes[a];
  const std::vector<int64_t> ends = segment_ends(whole, axis, at != SegmentEnds::changes);
  if (ends.empty()) refuse("stage {}: nothing changes along {}", name, axis_name);
  if (at != SegmentEnds::elements) return cut_at(nests, s, a, ends);
  const int64_t length = ends[0];
  for (size_t i = 0; i < ends.size(); i++)
    if (ends[i] != length * int64_t(i + 1) || whole.segment_group > 0)
      refuse("stage {}: the parts of {} have no common length", name, axis_name);
  one_body(nests, s, a, length);
}

void split_at(Nests& nests, const std::string& name, const std::string& axis_name, int64_t count) {
  const StageId s = nests.stage(name);
  const AxisId a = axis_to_cut(nests, s, axis_name);
  const Stage& whole = nests.cone.stages[s];
  const Expr extent = nests.cone.axes[a].extent;
  if (!extent.is_constant() || count < 1 || count >= extent.value())
    refuse("stage {}: {} is not cut in two after {} elements", name, axis_name, count);
  if (!nests.stages[s].together.empty()) refuse("stage {} is part of a cascade", name);
  if (!whole.ordered.empty()) refuse("stage {} writes its results in order", name);
  for (const Component& c : whole.components) {
    if (c.kind != ComponentKind::map && c.kind != ComponentKind::fold)
      refuse("stage {} writes its results in order", name);
    if (!contains(c.axes, a) && (c.kind == ComponentKind::fold || c.after))
      refuse("stage {} reduces {}, which split_reduction cuts", name, axis_name);
  }
  cut_at(nests, s, a, {count, extent.value()});
}

} // namespace luminal::kernel
