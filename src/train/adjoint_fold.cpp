// train/adjoint_fold.cpp -- gradients of folds.
//
// Bodies are first lifted to all axes of their result and the folded ones, the identity outside of
// the domain; the view that lifts them has its own gradient. Then
//   sum       everybody has the gradient
//   max, min  it is shared evenly by all elements that equal the result (PyTorch's amax, amin); of a
//             window the first of them has it (PyTorch's pools); nobody has any where it cancels: shift.h
//   prod      times the product of the others: products of those before and of those behind
//   tuples    combine(combine(before, element), behind), axis by axis: see combine.cpp
#include "train/shift.h"
#include <algorithm>
#include <set>

namespace luminal::train {
namespace {

/// A body over the axes `axes` of the space, the identity of its component outside of the domain.
struct Lifted {
  ViewAttr view;
  std::vector<NodeId> inputs;
  NodeId node;
};
Lifted lifted(Terms& t, const Node& fold, const FoldAttr& attr, int component, const std::vector<int>& axes) {
  const std::vector<int>& own = attr.body_axes[size_t(component)];
  Lifted l;
  ExprMap<Expr> places;
  for (size_t d = 0; d < axes.size(); ++d) {
    l.view.shape.push_back(attr.space[size_t(axes[d])]);
    if (const Expr i = axis_symbol(axes[d], l.view.shape.back()); i.is_symbol())
      places[i] = axis_symbol(int(d), l.view.shape.back());
  }
  for (int axis : own)
    l.view.map.push_back(
        axis_symbol(int(std::ranges::find(axes, axis) - axes.begin()), attr.space[size_t(axis)]));
  l.view.predicate = substitute(attr.where, places);
  l.view.fill = attr.monoid.identity(component);
  l.inputs = {fold.inputs[size_t(component)]};
  for (Hole hole : attr.holes) {
    const NodeId operand = fold.inputs[size_t(hole.input)];
    const auto at = std::find(l.inputs.begin() + 1, l.inputs.end(), operand);
    hole.input = int(at - l.inputs.begin());
    if (at == l.inputs.end()) l.inputs.push_back(operand);
    for (int& axis : hole.axes) axis = int(std::ranges::find(axes, axis) - axes.begin());
    l.view.holes.push_back(hole);
  }
  const bool same = own == axes && l.view.predicate.is_constant(1) && l.view.holes.empty();
  l.node = same ? l.inputs[0] : t.b.add(l.view, l.inputs);
  return l;
}
NodeId body_gradient(Terms& t, const Lifted& l, NodeId g) {
  return l.node == l.inputs[0] ? g : view_adjoint(t, l.view, l.inputs, g);
}

std::vector<int> places_in(const std::vector<int>& axes, const std::vector<int>& some) {
  std::vector<int> list;
  for (int axis : some) list.push_back(int(std::ranges::find(axes, axis) - axes.begin()));
  return list;
}

/// A body that reads windows: some index adds a folded axis to another one.
bool reads_windows(const Terms& t, NodeId body, const std::vector<int>& folded) {
  const auto* view = std::get_if<ViewAttr>(&t[body].attr);
  if (!view) return false;
  for (Expr index : view->map) {
    if (symbols_of(index).size() < 2) continue;
    for (int axis : folded)
      if (depends_on(index, axis_symbol(axis, view->shape[size_t(axis)]))) return true;
  }
  return false;
}
/// true at the first of the marked elements along the axes.
NodeId first_of(Terms& t, NodeId marked, const std::vector<int>& folded, const std::vector<int>& kept) {
  const Shape full = t.shape(marked);
  Expr flat = 0, count = 1;
  for (int axis : folded) {
    flat = flat * full[size_t(axis)] + axis_symbol(axis, full[size_t(axis)]);
    count = count * full[size_t(axis)];
  }
  const NodeId place = t.b.iota(full, flat);
  const NodeId first = t.b.reduce(Op::min, t.select(marked, place, t.b.iota(full, count)), folded);
  return t.b.map(Op::eq, {place, t.expand(first, full, kept)});
}

/// The product of all other elements along the axes.
NodeId product_of_others(Terms& t, NodeId x, const std::vector<int>& axes) {
  const Shape full = t.shape(x);
  std::vector<int> left; // axes of `level` in `full`
  for (size_t d = 0; d < full.size(); ++d) left.push_back(int(d));
  NodeId level = x;
  std::optional<NodeId> total;
  for (size_t k = axes.size(); k-- > 0;) {
    const int axis = int(std::ranges::find(left, axes[k]) - left.begin());
    const NodeId others =
        t.mul(t.scan(Op::mul, level, axis, true, false), t.scan(Op::mul, level, axis, true, true));
    const NodeId wide = t.expand(others, full, left);
    total = total ? t.mul(*total, wide) : wide;
    if (k > 0) level = t.b.reduce(Op::mul, level, {axis});
    left.erase(left.begin() + axis);
  }
  return *total;
}

} // namespace

void Reverse::fold(NodeId id, const FoldAttr& attr, const Results& g) {
  // A component whose transform reads others needs all of them; the rest go by themselves.
  bool tuple = false;
  for (int c = 0; c < attr.monoid.size(); ++c)
    tuple |= g[size_t(c)] && is_float(t_[id].types[size_t(c)].dtype) &&
             !attr.monoid.components()[size_t(c)].transform.is_leaf(0);
  if (tuple) return fold_tuple(id, attr, g);
  for (int c = 0; c < attr.monoid.size(); ++c)
    if (g[size_t(c)] && active(t_[id].inputs[size_t(c)])) fold_plain(id, attr, c, *g[size_t(c)]);
}

void Reverse::fold_plain(NodeId id, const FoldAttr& attr, int component, NodeId g) {
  const Node node = t_[id];
  if (windows(attr, node.inputs[size_t(component)], g)) return;
  const std::vector<int> outer = result_axes(attr, component);
  std::set<int> all(outer.begin(), outer.end());
  all.insert(attr.reduced.begin(), attr.reduced.end());
  const std::vector<int> axes(all.begin(), all.end());
  const std::vector<int> kept = places_in(axes, outer), folded = places_in(axes, attr.reduced);
  const Lifted body = lifted(t_, node, attr, component, axes);
  const Shape full = t_.shape(body.node);
  NodeId given;
  switch (attr.monoid.components()[size_t(component)].op) {
  case Op::add: given = t_.expand(g, full, kept); break;
  case Op::mul: given = t_.mul(t_.expand(g, full, kept), product_of_others(t_, body.node, folded)); break;
  default: {
    if (cancels(t_, again_ ? again_->original(id) : id, seeds_, active_.end_id())) return;
    const NodeId best = t_.same(body.node, t_.expand(t_.b.get(id, component), full, kept));
    if (reads_windows(t_, body.node, folded)) {
      given = t_.masked(first_of(t_, best, folded, kept), t_.expand(g, full, kept));
      break;
    }
    const DType counted = bits(t_.dtype(g)) < 32 ? DType::f32 : t_.dtype(g);
    const NodeId count = t_.b.reduce(Op::add, t_.b.cast(best, counted), folded);
    const NodeId share = t_.b.cast(t_.b.map(Op::div, {t_.b.cast(g, counted), count}), t_.dtype(g));
    given = t_.masked(best, t_.expand(share, full, kept));
  }
  }
  give(node.inputs[size_t(component)], body_gradient(t_, body, given));
}

void Reverse::fold_tuple(NodeId id, const FoldAttr& attr, const Results& g) {
  const Node node = t_[id];
  const size_t count = size_t(attr.monoid.size());
  std::vector<int> axes(attr.space.size());
  for (size_t d = 0; d < axes.size(); ++d) axes[d] = int(d);
  std::vector<Lifted> bodies;
  std::vector<std::vector<NodeId>> levels(1); // states after folding no axis, the last one, the last two, ..
  for (size_t c = 0; c < count; ++c) {
    bodies.push_back(lifted(t_, node, attr, int(c), axes));
    levels[0].push_back(bodies[c].node);
  }
  const auto along = [&](const std::vector<NodeId>& states, int axis, bool exclusive, bool reverse) {
    std::vector<int> every;
    for (size_t d = 0; d < t_.shape(states[0]).size(); ++d) every.push_back(int(d));
    ScanAttr scan{.monoid = attr.monoid,
                  .space = t_.shape(states[0]),
                  .axis = axis,
                  .body_axes = std::vector<std::vector<int>>(count, every),
                  .exclusive = exclusive,
                  .reverse = reverse};
    return t_.results(t_.b.add(scan, states));
  };
  for (size_t k = attr.reduced.size(); k-- > 1;) {
    std::vector<int> every;
    for (size_t d = 0; d < t_.shape(levels.back()[0]).size(); ++d) every.push_back(int(d));
    FoldAttr inner{.monoid = attr.monoid,
                   .space = t_.shape(levels.back()[0]),
                   .reduced = {attr.reduced[k]},
                   .body_axes = std::vector<std::vector<int>>(count, every),
                   .where = 1,
                   .holes = {}};
    levels.push_back(t_.results(t_.b.add(inner, levels.back())));
  }
  // The gradient of a result without some outer axis belongs to one of its equal copies.
  std::vector<int> outer;
  Shape outer_shape;
  for (int d : axes)
    if (std::ranges::find(attr.reduced, d) == attr.reduced.end()) {
      outer.push_back(d);
      outer_shape.push_back(attr.space[size_t(d)]);
    }
  std::vector<Gradient> now(count);
  for (size_t c = 0; c < count; ++c) {
    if (!g[c]) continue;
    const std::vector<int> own = result_axes(attr, int(c));
    std::vector<Expr> map;
    Expr first = 1;
    for (size_t d = 0; d < outer.size(); ++d) {
      const Expr i = axis_symbol(int(d), outer_shape[d]);
      if (std::ranges::find(own, outer[d]) != own.end())
        map.push_back(i);
      else
        first = logical_and(first, eq(i, 0));
    }
    now[c] = map.size() == outer.size() ? *g[c] : t_.b.view(*g[c], outer_shape, map, first);
  }
  for (size_t level = levels.size(); level-- > 0;) {
    const int axis = attr.reduced[levels.size() - 1 - level];
    const std::vector<NodeId>& states = levels[level];
    const Shape full = t_.shape(states[0]);
    std::vector<int> kept;
    for (size_t d = 0; d < full.size(); ++d)
      if (int(d) != axis) kept.push_back(int(d));
    for (Gradient& one : now)
      if (one) one = t_.expand(*one, full, kept);
    const std::vector<NodeId> before = along(states, axis, true, false),
                              behind = along(states, axis, true, true);
    const std::vector<NodeId> upto = combined(t_, attr.monoid, before, states);
    now = combine_gradients(t_, attr.monoid, upto, behind, now).a;
    now = combine_gradients(t_, attr.monoid, before, states, now).b;
  }
  for (size_t c = 0; c < count; ++c)
    if (now[c] && active(node.inputs[c])) give(node.inputs[c], body_gradient(t_, bodies[c], *now[c]));
}

} // namespace luminal::train
