// ir/passes/reductions.cpp -- folds that need no loop: over axes of extent 1, over what does not
// vary, and folds of folds.
//
// A fold starts from its identity. max, min, any, all and every fold of integers over one element
// give the element; a floating sum gives 0 + x, which is x but for -0, and stays an addition where
// x may be -0. Only folds of plain monoids are looked at; others keep their axes.
#include "ir/passes/edit.h"
#include <algorithm>
#include <set>

namespace luminal::passes {
namespace {

bool is_plain(const FoldAttr& fold) {
  for (const MonoidComponent& c : fold.monoid.components())
    if (!c.transform.is_leaf(0)) return false;
  return fold.where.is_constant(1) && fold.holes.empty();
}
bool is_idempotent(Op op) { return op == Op::max || op == Op::min || op == Op::bit_or || op == Op::bit_and; }
bool is_exact_in_any_order(Op op, DType type) { return is_idempotent(op) || !is_float(type); }
bool has(const std::vector<int>& list, int value) {
  return std::find(list.begin(), list.end(), value) != list.end();
}
bool at_least_one(Expr extent) { return extent.range().low >= 1; }

/// Positions of a body's shape whose index it never reads: a view that repeats its source along
/// them.
std::set<int> repeated_axes(const Rebuild& r, NodeId body) {
  std::set<int> axes;
  const Node& node = r[body];
  if (node.kind != NodeKind::view) return axes;
  const auto& view = std::get<ViewAttr>(node.attr);
  for (size_t d = 0; d < view.shape.size(); ++d) {
    const Expr axis = axis_symbol(int(d), view.shape[d]);
    bool read = !axis.is_symbol() || depends_on(view.predicate, axis);
    for (Expr e : view.map) read |= depends_on(e, axis);
    for (const Hole& hole : view.holes) read |= has(hole.axes, int(d));
    if (!read) axes.insert(int(d));
  }
  return axes;
}

/// `x` read with index 0 along the axes `gone` (positions in its shape), which vanish.
std::optional<NodeId> without_axes(Rebuild& r, NodeId x, const std::set<int>& gone) {
  if (gone.empty()) return x;
  ViewAttr view;
  const Shape shape = r.type(x).shape;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (gone.contains(int(d))) {
      view.map.push_back(0);
    } else {
      view.map.push_back(axis_symbol(int(view.shape.size()), shape[d]));
      view.shape.push_back(shape[d]);
    }
  }
  auto id = r.add(view, {x});
  if (!id) return {};
  const Node made = r[*id]; // what is put down may move it
  if (auto simpler = view_rule(r, made, Numerics::exact)) return simpler;
  return id;
}

/// May the value be -0? Unknown counts as yes.
bool may_be_negative_zero(const Rebuild& r, NodeId id) {
  if (!is_float(r.type(id).dtype)) return false;
  if (auto number = number_of(r, id)) return number->is(-0.0);
  const Node& node = r[id];
  if (node.kind == NodeKind::cast) return is_float(r.type(node.inputs[0]).dtype);
  if (node.kind == NodeKind::random) return false;
  if (node.kind != NodeKind::map) return true;
  const auto& map = std::get<MapAttr>(node.attr);
  if (!map.user_op.empty()) return true;
  switch (map.op) {
  case Op::abs:
  case Op::exp2:
  case Op::exp:
  case Op::sigmoid: return false;
  default: return true;
  }
}

/// Component `c` of a plain fold without the axes `dropped` of its space, each of extent 1 or one
/// along which the body repeats itself.
std::optional<NodeId> drop_axes(Rebuild& r, const FoldAttr& fold, const std::vector<NodeId>& bodies, int c,
                                const std::set<int>& dropped, const TensorType& type) {
  const std::vector<int>& axes = fold.body_axes[size_t(c)];
  std::set<int> gone;
  for (size_t k = 0; k < axes.size(); ++k)
    if (dropped.contains(axes[k])) gone.insert(int(k));
  auto body = without_axes(r, bodies[size_t(c)], gone);
  if (!body) return {};
  const MonoidComponent& component = fold.monoid.components()[size_t(c)];
  std::vector<int> left;
  for (int d : fold.reduced)
    if (!dropped.contains(d)) left.push_back(d);
  if (left.empty()) {
    NodeId value = *body;
    if (component.op == Op::add && may_be_negative_zero(r, value))
      value = r.map(Op::add, {value, r.filled(r.type(value), 0)}, r.type(value));
    return r.type(value) == type ? std::optional(value) : std::nullopt;
  }
  FoldAttr smaller{.monoid = Monoid::plain(component.op, component.dtype),
                   .space = {},
                   .reduced = {},
                   .body_axes = {{}},
                   .where = 1,
                   .holes = {}};
  std::map<int, int> place;
  for (size_t d = 0; d < fold.space.size(); ++d)
    if (!dropped.contains(int(d))) {
      place[int(d)] = int(smaller.space.size());
      smaller.space.push_back(fold.space[d]);
    }
  for (int d : left) smaller.reduced.push_back(place[d]);
  for (int d : axes)
    if (!dropped.contains(d)) smaller.body_axes[0].push_back(place[d]);
  auto tuple = r.add(std::move(smaller), {*body});
  if (!tuple) return {};
  auto value = r.add(GetAttr{0}, {*tuple});
  return value && r.type(*value) == type ? value : std::nullopt;
}

/// fold(fold(x)) with one monoid of one component: one fold whose space has the inner axes last, so
/// that the order stays.
std::optional<NodeId> join(Rebuild& r, const FoldAttr& outer, NodeId body, const TensorType& type) {
  const Node& get = r[body];
  if (get.kind != NodeKind::get || outer.monoid.size() != 1 || !r.used_once(body)) return {};
  const Node& tuple = r[get.inputs[0]];
  const auto* found = std::get_if<FoldAttr>(&tuple.attr);
  if (!found || !is_plain(*found) || found->monoid != outer.monoid) return {};
  const FoldAttr inner = *found;
  const NodeId source = tuple.inputs[0];
  FoldAttr both{.monoid = outer.monoid,
                .space = outer.space,
                .reduced = outer.reduced,
                .body_axes = {{}},
                .where = 1,
                .holes = {}};
  // Axis a of the inner space: the outer axis at which its result is read, or a new one. The body's
  // axes must ascend.
  const std::vector<int> kept = result_axes(inner, 0);
  const std::vector<int>& read_at = outer.body_axes[0];
  std::vector<int> order;
  for (int a : inner.body_axes[0]) {
    const auto at = std::find(kept.begin(), kept.end(), a);
    order.push_back(at == kept.end() ? -1 : read_at[size_t(at - kept.begin())]);
  }
  for (size_t k = 0; k < inner.space.size(); ++k)
    if (has(inner.reduced, int(k)) && !has(inner.body_axes[0], int(k))) return {}; // a count: another rule's
  std::vector<Expr> extents;
  for (size_t k = 0; k < order.size(); ++k)
    if (order[k] < 0) {
      order[k] = int(both.space.size());
      both.reduced.push_back(order[k]);
      both.space.push_back(inner.space[size_t(inner.body_axes[0][k])]);
    }
  std::vector<int> sorted = order;
  std::sort(sorted.begin(), sorted.end());
  NodeId x = source;
  if (sorted != order) { // the source's axes in the order of the space
    ViewAttr view;
    const Shape shape = r.type(source).shape;
    view.map.resize(order.size());
    for (size_t k = 0; k < sorted.size(); ++k) {
      const size_t from = size_t(std::find(order.begin(), order.end(), sorted[k]) - order.begin());
      view.map[from] = axis_symbol(int(k), shape[from]);
      view.shape.push_back(shape[from]);
    }
    auto moved = r.add(view, {source});
    if (!moved) return {};
    x = *moved;
  }
  both.body_axes[0] = sorted;
  auto joined = r.add(std::move(both), {x});
  if (!joined) return {};
  auto value = r.add(GetAttr{0}, {*joined});
  return value && r.type(*value) == type ? value : std::nullopt;
}

} // namespace

std::optional<NodeId> reduction_rule(Rebuild& r, const Node& node, Numerics allowed) {
  if (node.kind != NodeKind::get) return {};
  const Node& tuple = r[node.inputs[0]];
  const auto* found = std::get_if<FoldAttr>(&tuple.attr);
  if (!found || !is_plain(*found)) return {};
  const FoldAttr fold = *found;
  const std::vector<NodeId> bodies = tuple.inputs;
  const int c = std::get<GetAttr>(node.attr).index;
  const MonoidComponent& component = fold.monoid.components()[size_t(c)];
  const std::vector<int>& axes = fold.body_axes[size_t(c)];

  std::set<int> dropped;
  const std::set<int> repeated = repeated_axes(r, bodies[size_t(c)]);
  for (int d : fold.reduced) {
    const Expr extent = fold.space[size_t(d)];
    const auto at = std::find(axes.begin(), axes.end(), d);
    const bool varies = at != axes.end() && !repeated.contains(int(at - axes.begin()));
    if (extent.is_constant(1) || (is_idempotent(component.op) && !varies && at_least_one(extent)))
      dropped.insert(d);
  }
  // A floating sum that keeps some axes starts from 0 anyway; one that loses all of them gets it
  // back in drop_axes.
  if (!dropped.empty())
    if (auto value = drop_axes(r, fold, bodies, c, dropped, node.type())) return value;

  // A sum of what does not vary at all: n * x; of integers it wraps alike, of floats it is rounded
  // once.
  if (component.op == Op::add && !fold.reduced.empty() &&
      (!is_float(component.dtype) || allows(allowed, Numerics::range))) {
    std::set<int> all;
    Expr n = 1;
    bool varies = false;
    for (int d : fold.reduced) {
      const auto at = std::find(axes.begin(), axes.end(), d);
      varies |= at != axes.end() && !repeated.contains(int(at - axes.begin()));
      all.insert(d);
      n = n * fold.space[size_t(d)];
    }
    const bool fits =
        n.is_constant() && n.value() <= (is_float(component.dtype) ? int64_t(1) << 8 : INT64_MAX);
    if (!varies && fits) {
      FoldAttr one =
          fold; // max of one element is the element: drop_axes without the 0 that a sum starts from
      one.monoid = Monoid::plain(Op::max, component.dtype);
      one.body_axes = {axes};
      if (auto x = drop_axes(r, one, {bodies[size_t(c)]}, 0, all, node.type())) {
        std::vector<std::byte> data(size_t(storage_bytes(component.dtype, 1)));
        if (is_float(component.dtype))
          store_f64(component.dtype, data.data(), 0, double(n.value()));
        else
          store_i64(component.dtype, data.data(), 0, wrap(component.dtype, n.value()));
        const NodeId count = r.splat(r.constant({component.dtype, {}}, std::move(data)), node.type().shape);
        return r.map(Op::mul, {*x, count}, node.type());
      }
    }
  }
  if (fold.monoid.size() == 1 &&
      (is_exact_in_any_order(component.op, component.dtype) || allows(allowed, Numerics::reassoc)))
    return join(r, fold, bodies[0], node.type());
  return {};
}

} // namespace luminal::passes
