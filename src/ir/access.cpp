// ir/access.cpp -- conditions under which a node's index expressions can be computed and stay in
// range.
#include "ir/access.h"
#include "base/check.h"
#include "expr/rebuild_expr.h"
#include "ir/infer.h"
#include "ir/text_names.h"
#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace luminal {
namespace {

struct Bounds {
  Expr low, high;
};

void collect(Expr e, std::vector<Expr>& divisors, std::vector<Expr>& wide) {
  for (Expr arg : e.args()) collect(arg, divisors, wide);
  const auto add = [](std::vector<Expr>& list, Expr x) {
    if (std::ranges::find(list, x) == list.end()) list.push_back(x);
  };
  if (e.is_constant() || e.is_symbol()) return;
  if (!e.range().is_bounded()) add(wide, e);
  if ((e.kind() == ExprKind::floordiv || e.kind() == ExprKind::mod) && e.args()[1].range().contains(0))
    add(divisors, e.args()[1]);
}

} // namespace

Expr without_traps(Expr e) {
  if (e.is_constant() || e.is_symbol()) return e;
  std::vector<Expr> args;
  for (Expr arg : e.args()) args.push_back(without_traps(arg));
  if (e.kind() == ExprKind::floordiv || e.kind() == ExprKind::mod) {
    Expr& divisor = args[1];
    if (divisor.range().low == 0)
      divisor = max(divisor, 1);
    else if (divisor.range().contains(0))
      divisor += eq(divisor, 0);
  }
  return expr_detail::make(e.kind(), args);
}

bool always_computable(Expr e) {
  if (e.is_constant() || e.is_symbol()) return true;
  if (!e.range().is_bounded()) return false;
  if ((e.kind() == ExprKind::floordiv || e.kind() == ExprKind::mod) && e.args()[1].range().contains(0))
    return false;
  return std::ranges::all_of(e.args(), always_computable);
}

namespace {

const std::vector<Expr>& map_of(const Attr& attr) {
  static const std::vector<Expr> none;
  if (auto* view = std::get_if<ViewAttr>(&attr)) return view->map;
  if (auto* scatter = std::get_if<ScatterAttr>(&attr)) return scatter->map;
  return none;
}

Expr condition_of(const Attr& attr) {
  if (auto* view = std::get_if<ViewAttr>(&attr)) return view->predicate;
  if (auto* scatter = std::get_if<ScatterAttr>(&attr)) return scatter->predicate;
  if (auto* fold = std::get_if<FoldAttr>(&attr)) return fold->where;
  return 1;
}

class Checker {
public:
  Checker(const Module& module, std::span<const Expr> facts, const Function& f, NodeId id)
      : module_(module), f_(f), id_(id), node_(f[id]), space_(expression_space(f, node_)),
        holes_(luminal::holes_of(node_.attr)), condition_(condition_of(node_.attr)) {
    assumptions_ = module.assumptions;
    assumptions_.insert(assumptions_.end(), facts.begin(), facts.end());
    for (size_t d = 0; d < space_.size(); d++)
      if (Expr i = axis_symbol(int(d), space_[d]); i.is_symbol()) {
        box_[i] = {0, space_[d] - 1};
        if (!space_[d].is_constant()) assumptions_.push_back(lt(i, space_[d]));
      }
    for (size_t h = 0; h < holes_.size(); h++) {
      const Expr symbol = hole_symbol(int(h), holes_[h].range);
      if (!symbol.is_symbol()) continue;
      Bounds bounds{holes_[h].range.low, holes_[h].range.high};
      if (const Expr limit = limit_of(h); !limit.is_constant(0)) {
        bounds = {max(min(bounds.low, limit - 1), 0), max(min(bounds.high, limit - 1), 0)};
        held_[symbol] = max(min(symbol, limit - 1), 0);
        if (holes_[h].policy == OutOfRange::fill) {
          counted_ = logical_and(counted_, logical_and(ge(symbol, 0), lt(symbol, limit)));
          nothing_ = logical_or(nothing_, lt(limit, 1));
        }
      }
      box_[symbol] = bounds;
    }
  }

  std::vector<AccessCheck> run() {
    for (Expr extent : space_)
      if (extent.is_constant(0)) return {};
    computable(condition_, 1);
    if (!condition_.is_constant()) assumptions_.push_back(condition_);
    if (condition_.is_constant(0)) return {};
    if (auto* iota = std::get_if<IotaAttr>(&node_.attr)) computable(iota->value, 1);
    if (auto* random = std::get_if<RandomAttr>(&node_.attr)) computable(random->counter, 1);
    const std::vector<Expr>& map = map_of(node_.attr);
    for (Expr index : map) computable(index, condition_);
    if (map.empty() || plainly_inside(map, space_, target())) return std::move(checks_);
    for (size_t k = 0; k < map.size(); k++) inside(map[k], target()[k], int(k));
    return std::move(checks_);
  }

private:
  const Shape& target() const { return f_[node_.inputs[0]].type().shape; }
  /// 0: the hole has no limit but its range.
  Expr limit_of(size_t h) const {
    if (map_of(node_.attr).empty()) return 0;
    const std::vector<Expr> extents = hole_extents(node_.attr, target(), h);
    return extents.empty() ? Expr(0) : min(extents);
  }
  bool proved(Expr condition) const { return prove(condition, assumptions_) == Truth::yes; }
  std::string text(Expr e) const {
    if (names_.empty()) names_ = axis_names(f_, node_);
    return expression_text(e, space_, names_);
  }
  std::string name(NodeId id) const {
    if (node_names_.empty()) node_names_ = node_names(f_);
    return node_names_[id];
  }
  std::string head() const {
    return fmt::format("[{}] {}", node_.origin.empty() ? operation_name(node_.attr) : node_.origin,
                       name(id_));
  }

  /// Expressions over dimensions that bound `e` in the box of axes and holes. Where a divisor may
  /// be 0 or less, `positive` says when it is not.
  std::optional<Bounds> bounds(Expr e, Expr& positive) const {
    try {
      return bounds_of(e, positive);
    } catch (const Error&) {
      return {}; // a bound needs a constant of more than 64 bits
    }
  }
  std::optional<Bounds> bounds_of(Expr e, Expr& positive) const {
    if (std::ranges::none_of(symbols_of(e), [&](Expr s) { return box_.contains(s); })) return Bounds{e, e};
    if (e.is_symbol()) return box_.at(e);
    std::vector<Bounds> args;
    for (Expr arg : e.args()) {
      auto part = bounds_of(arg, positive);
      if (!part) return {};
      args.push_back(*part);
    }
    switch (e.kind()) {
    case ExprKind::add: {
      Bounds total{0, 0};
      for (const Bounds& b : args) total = {total.low + b.low, total.high + b.high};
      return total;
    }
    case ExprKind::mul: {
      Bounds all = args[0];
      for (size_t k = 1; k < args.size(); k++) {
        const Bounds& b = args[k];
        if (all.low.range().low >= 0 && b.low.range().low >= 0)
          all = {all.low * b.low, all.high * b.high};
        else {
          const std::vector<Expr> corners{all.low * b.low, all.low * b.high, all.high * b.low,
                                          all.high * b.high};
          all = {min(corners), max(corners)};
        }
      }
      return all;
    }
    case ExprKind::floordiv:
    case ExprKind::mod: {
      positive = logical_and(positive, ge(args[1].low, 1));
      const Expr least = max(args[1].low, 1), most = max(args[1].high, 1);
      if (e.kind() == ExprKind::mod)
        return Bounds{0, args[0].low.range().low >= 0 ? min(args[0].high, most - 1) : most - 1};
      return Bounds{min(floordiv(args[0].low, least), floordiv(args[0].low, most)),
                    max(floordiv(args[0].high, least), floordiv(args[0].high, most))};
    }
    case ExprKind::min:
    case ExprKind::max: {
      std::vector<Expr> lows, highs;
      for (const Bounds& b : args) lows.push_back(b.low), highs.push_back(b.high);
      const bool least = e.kind() == ExprKind::min;
      return Bounds{least ? min(lows) : max(lows), least ? min(highs) : max(highs)};
    }
    default: return Bounds{0, 1};
    }
  }

  /// Adds a check unless it is known to hold. `good` over dimensions; `broken` at a point; inexact:
  /// no kernel could tell.
  void add(Expr good, Expr broken, bool exact, std::string what) {
    good = logical_or(good, nothing_);
    for (Expr extent : space_)
      if (!extent.is_constant()) good = logical_or(good, eq(extent, 0));
    if (proved(good)) return;
    AccessCheck check;
    check.enough = without_traps(good); // what it divides by is checked by itself
    check.text = std::move(what);
    if (exact) make_violation(without_traps(broken), check);
    checks_.push_back(std::move(check));
  }

  /// Over the axes that matter, one bool: does any point break the condition?
  void make_violation(Expr broken, AccessCheck& check) const {
    broken = logical_and(counted_, broken);
    std::vector<bool> needed(space_.size());
    for (size_t d = 0; d < space_.size(); d++) {
      const Expr axis = axis_symbol(int(d), space_[d]);
      needed[d] = axis.is_symbol() && depends_on(broken, axis);
      for (const Hole& hole : holes_) needed[d] = needed[d] || std::ranges::count(hole.axes, int(d)) > 0;
    }
    ExprMap<Expr> renamed;
    std::vector<int> number(space_.size(), -1);
    std::vector<int> all;
    ViewAttr points;
    for (size_t d = 0; d < space_.size(); d++) {
      if (!needed[d]) continue;
      number[d] = int(points.shape.size());
      all.push_back(number[d]);
      const Expr axis = axis_symbol(int(d), space_[d]);
      if (axis.is_symbol()) renamed[axis] = axis_symbol(number[d], space_[d]);
      points.shape.push_back(space_[d]);
    }
    FunctionBuilder b("violation", &module_);
    std::vector<NodeId> inputs{b.constant(DType::boolean, 1)};
    std::map<int, int> operand; // input of the node -> input of the view
    for (Hole hole : holes_) {
      auto [at, fresh] = operand.try_emplace(hole.input, int(inputs.size()));
      if (fresh) {
        const NodeId value = node_.inputs[size_t(hole.input)];
        inputs.push_back(b.input(fmt::format("index{}", operand.size() - 1), f_[value].type()));
        check.operands.push_back(value);
      }
      hole.input = at->second;
      for (int& axis : hole.axes) axis = number[size_t(axis)];
      if (hole.policy == OutOfRange::error) hole.policy = OutOfRange::clamp; // checked by itself
      points.holes.push_back(std::move(hole));
    }
    points.predicate = substitute(broken, renamed);
    NodeId any = b.add(points, inputs);
    if (!all.empty()) any = b.reduce(Op::bit_or, any, all);
    b.result("violation", any);
    check.violation = b.finish();
  }

  /// Nothing divides by zero or leaves 64 bits where `where` holds.
  void computable(Expr e, Expr where) {
    if (always_computable(e)) return;
    std::vector<Expr> divisors, wide;
    collect(e, divisors, wide);
    for (Expr d : divisors) {
      if (proved(ne(d, 0))) continue;
      Expr positive = 1;
      auto range = bounds(d, positive);
      const Expr good =
          range ? logical_and(positive, logical_or(ge(range->low, 1), le(range->high, -1))) : Expr(0);
      add(good, logical_and(held(where), eq(held(d), 0)), always_computable(without_traps(d)),
          fmt::format("{}: {} divides by zero", head(), text(e)));
    }
    Expr fits = 1;
    for (Expr part : wide) {
      auto range = bounds(part, fits);
      fits = range ? logical_and(fits, logical_and(lt(INT64_MIN, range->low), lt(range->high, INT64_MAX)))
                   : Expr(0);
    }
    if (!wide.empty()) add(fits, 0, false, fmt::format("{}: {} needs more than 64 bits", head(), text(e)));
  }
  bool takes_its_bounds(Expr index) const {
    if (!condition_.is_constant(1) || !holes_.empty()) return false;
    const Affine affine = affine_terms(index);
    return std::ranges::all_of(affine.terms, [&](const auto& term) {
      return term.first.is_symbol() ||
             std::ranges::none_of(symbols_of(term.first), [&](Expr s) { return box_.contains(s); });
    });
  }
  Expr held(Expr e) const { return held_.empty() ? e : substitute(e, held_); }

  void inside(Expr index, Expr extent, int axis) {
    BoundCheck check{index, extent, axis, assumptions_, false};
    if (in_bounds(check) == Truth::yes) return;
    Expr positive = 1;
    auto range = bounds(index, positive);
    const Expr good =
        range ? logical_and(positive, logical_and(ge(range->low, 0), lt(range->high, extent))) : Expr(0);
    for (size_t h = 0; h < holes_.size(); h++) // checked where its integers are
      if (holes_[h].policy == OutOfRange::error && index == hole_symbol(int(h), holes_[h].range) &&
          !limit_of(h).is_constant(0))
        return;
    const Expr at = held(index);
    // The bounds of a sum of axes are values that it takes: where they leave the extent, a point
    // does.
    const bool exact = !takes_its_bounds(index) && always_computable(without_traps(at)) &&
                       always_computable(without_traps(extent)) &&
                       always_computable(without_traps(held(condition_)));
    const bool view = node_.kind == NodeKind::view;
    add(good, logical_and(held(condition_), logical_or(lt(at, 0), ge(at, extent))), exact,
        fmt::format("{} {} axis {} of {} at {}, which is not within 0 <= index < {}", head(),
                    view ? "reads" : "writes", axis, name(node_.inputs[0]), text(index), to_string(extent)));
  }

  const Module& module_;
  const Function& f_;
  const NodeId id_;
  const Node& node_;
  const Shape space_;
  const std::vector<Hole>& holes_;
  const Expr condition_;
  std::vector<Expr> assumptions_;
  ExprMap<Bounds> box_;
  ExprMap<Expr> held_; // holes -> what the policy makes of them
  Expr counted_ = 1;   // points that the policy fill leaves
  Expr nothing_ = 0;   // it leaves none
  std::vector<AccessCheck> checks_;
  mutable std::vector<std::string> names_;
  mutable IdVector<NodeId, std::string> node_names_;
};

bool may_need_checks(const Function& f, const Node& node) {
  switch (node.kind) {
  case NodeKind::iota: return !always_computable(std::get<IotaAttr>(node.attr).value);
  case NodeKind::random: return !always_computable(std::get<RandomAttr>(node.attr).counter);
  case NodeKind::fold: return !always_computable(std::get<FoldAttr>(node.attr).where);
  case NodeKind::view:
  case NodeKind::scatter: {
    const std::vector<Expr>& map = map_of(node.attr);
    return !always_computable(condition_of(node.attr)) ||
           !plainly_inside(map, expression_space(f, node), f[node.inputs[0]].type().shape) ||
           !std::ranges::all_of(map, always_computable);
  }
  default: return false;
  }
}

} // namespace

std::vector<Expr> hole_extents(const Attr& attr, const Shape& target, size_t h) {
  const std::vector<Expr>& map = map_of(attr);
  const Expr symbol = hole_symbol(int(h), holes_of(attr)[h].range);
  std::vector<Expr> extents;
  if (!symbol.is_symbol() || depends_on(condition_of(attr), symbol)) return extents;
  for (size_t d = 0; d < map.size(); d++)
    if (map[d] == symbol) extents.push_back(target[d]);
  return extents;
}

std::vector<AccessCheck> access_checks(const Module& module, std::span<const Expr> facts, const Function& f,
                                       NodeId id) {
  if (!may_need_checks(f, f[id])) return {};
  return Checker(module, facts, f, id).run();
}

std::optional<Attr> without_traps(const Attr& attr) {
  Attr result = attr;
  bool changed = false;
  const auto clean = [&](Expr& e) {
    const Expr before = e;
    if (!always_computable(e)) e = without_traps(e);
    changed |= e != before;
  };
  if (auto* view = std::get_if<ViewAttr>(&result)) {
    for (Expr& e : view->map) clean(e);
    clean(view->predicate);
  } else if (auto* scatter = std::get_if<ScatterAttr>(&result)) {
    for (Expr& e : scatter->map) clean(e);
    clean(scatter->predicate);
  } else if (auto* fold = std::get_if<FoldAttr>(&result)) {
    clean(fold->where);
  } else if (auto* iota = std::get_if<IotaAttr>(&result)) {
    clean(iota->value);
  } else if (auto* random = std::get_if<RandomAttr>(&result)) {
    clean(random->counter);
  }
  if (!changed) return {};
  return result;
}

std::optional<Expr> open_limit(const Module& module, std::span<const Expr> facts, const Function& f,
                               NodeId id, size_t h) {
  const Node& node = f[id];
  if (node.kind != NodeKind::view && node.kind != NodeKind::scatter) return {};
  std::vector<Expr> facts_here = module.assumptions;
  facts_here.insert(facts_here.end(), facts.begin(), facts.end());
  std::vector<Expr> open;
  for (Expr extent : hole_extents(node.attr, f[node.inputs[0]].type().shape, h))
    if (prove(lt(holes_of(node.attr)[h].range.high, extent), facts_here) != Truth::yes)
      open.push_back(extent);
  if (open.empty()) return {};
  return min(open);
}

} // namespace luminal
