// train/adjoint_scan.cpp -- gradients of scans: of sums a scan the other way round, of maxima and
// minima a scatter to the places that won, of all else a loop back over the stored states.
#include "train/reverse.h"
#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace luminal::train {
namespace {

/// A body read along all axes of the scan that its result has.
struct LiftedBody {
  ViewAttr view;
  NodeId body, node;
};
LiftedBody lifted(Terms& t, const Node& node, const ScanAttr& attr, int component,
                  const std::vector<int>& axes) {
  LiftedBody l;
  l.body = node.inputs[size_t(component)];
  for (int axis : axes) l.view.shape.push_back(attr.space[size_t(axis)]);
  for (int axis : attr.body_axes[size_t(component)]) {
    const int at = int(std::ranges::find(axes, axis) - axes.begin());
    l.view.map.push_back(axis_symbol(at, attr.space[size_t(axis)]));
  }
  l.node = attr.body_axes[size_t(component)] == axes ? l.body : t.b.add(l.view, {l.body});
  return l;
}
NodeId body_gradient(Terms& t, const LiftedBody& l, NodeId g) {
  return l.node == l.body ? g : view_adjoint(t, l.view, {l.body}, g);
}

/// x with the axis in front, last element first where `turned`; and back.
NodeId to_front(Terms& t, NodeId x, int axis, bool turned) {
  std::vector<int> order{axis};
  for (size_t d = 0; d < t.shape(x).size(); ++d)
    if (int(d) != axis) order.push_back(int(d));
  const NodeId front = axis == 0 ? x : t.b.permute(x, order);
  return turned ? t.flip(front, 0) : front;
}
NodeId from_front(Terms& t, NodeId x, int axis, bool turned) {
  const NodeId straight = turned ? t.flip(x, 0) : x;
  std::vector<int> order;
  for (size_t d = 1; d < t.shape(x).size(); ++d) order.push_back(int(d));
  order.insert(order.begin() + axis, 0);
  return axis == 0 ? straight : t.b.permute(straight, order);
}

} // namespace

void Reverse::scan(NodeId id, const ScanAttr& attr, const Results& g) {
  bool simple = true;
  for (int c = 0; c < attr.monoid.size(); ++c) {
    const MonoidComponent& own = attr.monoid.components()[size_t(c)];
    if (g[size_t(c)]) simple &= own.transform.is_leaf(0) && own.op != Op::mul;
  }
  if (!simple) return scan_tuple(id, attr, g);
  for (int c = 0; c < attr.monoid.size(); ++c)
    if (g[size_t(c)] && active(t_[id].inputs[size_t(c)])) scan_plain(id, attr, c, *g[size_t(c)]);
}

void Reverse::scan_plain(NodeId id, const ScanAttr& attr, int component, NodeId g) {
  const Node node = t_[id];
  const std::vector<int> axes = result_axes(attr, component);
  const int axis = int(std::ranges::find(axes, attr.axis) - axes.begin());
  const LiftedBody body = lifted(t_, node, attr, component, axes);
  const Op op = attr.monoid.components()[size_t(component)].op;
  if (op == Op::add) {
    const NodeId back = t_.scan(Op::add, g, axis, attr.exclusive, !attr.reverse);
    return give(body.body, body_gradient(t_, body, back));
  }
  // Who holds the record at each point? The last of equal ones in the order of the scan (PyTorch's
  // cummax): the greatest place so far, the least of a reverse scan.
  const Shape shape = t_.shape(body.node);
  const Expr extent = shape[size_t(axis)];
  const NodeId inclusive = t_.scan(op, body.node, axis, false, attr.reverse);
  const NodeId record = t_.same(body.node, inclusive);
  const NodeId place = t_.b.iota(shape, axis_symbol(axis, extent));
  const NodeId nowhere = t_.b.iota(shape, attr.reverse ? extent : Expr(-1));
  const NodeId holder = t_.scan(attr.reverse ? Op::min : Op::max, t_.select(record, place, nowhere), axis,
                                attr.exclusive, attr.reverse);
  ScatterAttr back{.map = {}, .predicate = 1, .op = Op::add, .unique = false, .holes = {}};
  std::vector<int> all;
  for (size_t d = 0; d < shape.size(); ++d) {
    all.push_back(int(d));
    back.map.push_back(axis_symbol(int(d), shape[d]));
  }
  const int64_t high = extent.range().high;
  const Interval range{0, high == unbounded_high ? high : std::max<int64_t>(high - 1, 0)};
  back.holes = {{2, all, range, OutOfRange::fill}};
  back.map[size_t(axis)] = hole_symbol(0, range);
  const NodeId sums = t_.b.add(back, {t_.zeros(t_.type(body.node)), g, holder});
  give(body.body, body_gradient(t_, body, sums));
}

/// States c_k = combine(c_(k-1), x_k). The gradient of c_k is that of its result, plus what c_(k+1)
/// sends back: a loop from the last point to the first.
void Reverse::scan_tuple(NodeId id, const ScanAttr& attr, const Results& g) {
  const Node node = t_[id];
  const size_t count = size_t(attr.monoid.size());
  std::vector<int> axes;
  std::set<int> used{attr.axis};
  for (const auto& list : attr.body_axes) used.insert(list.begin(), list.end());
  axes.assign(used.begin(), used.end());
  const int axis = int(std::ranges::find(axes, attr.axis) - axes.begin());
  std::vector<LiftedBody> bodies;
  std::vector<NodeId> elements;
  for (size_t c = 0; c < count; ++c) {
    bodies.push_back(lifted(t_, node, attr, int(c), axes));
    elements.push_back(bodies[c].node);
  }
  const Shape full = t_.shape(elements[0]);
  std::vector<int> every;
  for (size_t d = 0; d < full.size(); ++d) every.push_back(int(d));
  ScanAttr states{.monoid = attr.monoid,
                  .space = full,
                  .axis = axis,
                  .body_axes = std::vector<std::vector<int>>(count, every),
                  .exclusive = true,
                  .reverse = attr.reverse};
  const std::vector<NodeId> before = t_.results(t_.b.add(states, elements));
  const bool turned = !attr.reverse;
  std::vector<int> floats;
  for (size_t c = 0; c < count; ++c)
    if (is_float(attr.monoid.components()[c].dtype)) floats.push_back(int(c));
  // stepped: states before, elements, gradients of the results (of the first of equal copies)
  std::vector<NodeId> stepped;
  for (NodeId x : before) stepped.push_back(to_front(t_, x, axis, turned));
  for (NodeId x : elements) stepped.push_back(to_front(t_, x, axis, turned));
  for (int c : floats) {
    if (!g[size_t(c)]) {
      stepped.push_back(to_front(t_, t_.zeros(t_.type(elements[size_t(c)])), axis, turned));
      continue;
    }
    const std::vector<int> own = result_axes(attr, c);
    std::vector<Expr> map;
    Expr first = 1;
    for (size_t d = 0; d < axes.size(); ++d) {
      const Expr i = axis_symbol(int(d), full[d]);
      if (std::ranges::find(own, axes[d]) != own.end())
        map.push_back(i);
      else
        first = logical_and(first, eq(i, 0));
    }
    const NodeId wide =
        map.size() == full.size() ? *g[size_t(c)] : t_.b.view(*g[size_t(c)], full, map, first);
    stepped.push_back(to_front(t_, wide, axis, turned));
  }
  const Shape rows(t_.shape(stepped[0]).begin() + 1, t_.shape(stepped[0]).end());
  const std::string name = fmt::format("scan{}_gradient", t_.module.functions.size());
  {
    FunctionBuilder b(name, &t_.module);
    Terms in(b, t_.module);
    b.input("step", {DType::i64, {}});
    std::vector<NodeId> later, old, element, arriving;
    for (int c : floats)
      later.push_back(b.input(fmt::format("later{}", c), {attr.monoid.components()[size_t(c)].dtype, rows}));
    for (size_t c = 0; c < count; ++c)
      old.push_back(b.input(fmt::format("state{}", c), {attr.monoid.components()[c].dtype, rows}));
    for (size_t c = 0; c < count; ++c)
      element.push_back(b.input(fmt::format("element{}", c), {attr.monoid.components()[c].dtype, rows}));
    for (int c : floats)
      arriving.push_back(
          b.input(fmt::format("result{}", c), {attr.monoid.components()[size_t(c)].dtype, rows}));
    std::vector<Gradient> at_state(count);
    for (size_t f = 0; f < floats.size(); ++f)
      at_state[size_t(floats[f])] = attr.exclusive ? later[f] : in.add(later[f], arriving[f]);
    CombineGradients back = combine_gradients(in, attr.monoid, old, element, at_state);
    for (size_t f = 0; f < floats.size(); ++f) {
      const size_t c = size_t(floats[f]);
      NodeId next = back.a[c].value_or(in.zeros(in.type(later[f])));
      if (attr.exclusive) next = in.add(next, arriving[f]);
      b.result(fmt::format("before{}", c), next);
    }
    for (int c : floats)
      b.result(fmt::format("body{}", c), back.b[size_t(c)].value_or(in.zeros(in.type(element[size_t(c)]))));
    t_.module.functions.push_back(b.finish());
  }
  LoopAttr loop;
  loop.body = name;
  loop.count = full[size_t(axis)];
  loop.carried = int(floats.size());
  loop.stepped = int(stepped.size());
  std::vector<NodeId> inputs;
  for (int c : floats) inputs.push_back(t_.zeros({attr.monoid.components()[size_t(c)].dtype, rows}));
  inputs.insert(inputs.end(), stepped.begin(), stepped.end());
  const std::vector<NodeId> results = t_.results(t_.b.add(loop, inputs));
  for (size_t f = 0; f < floats.size(); ++f) {
    const LiftedBody& body = bodies[size_t(floats[f])];
    if (!active(body.body)) continue;
    const NodeId straight = from_front(t_, results[floats.size() + f], axis, turned);
    give(body.body, body_gradient(t_, body, straight));
  }
}

} // namespace luminal::train
