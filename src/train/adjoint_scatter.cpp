// train/adjoint_scatter.cpp -- gradients of scatters and sorts.
//
// set: the last value written to an element has its gradient, those before it and the old value
// have none. sum: everybody has it. max, min: shared evenly by the old value and all values that
// equal the result, as PyTorch's scatter_reduce does. prod: the product of the others, by counting
// zeros; right to second order.
#include "train/reverse.h"

namespace luminal::train {
namespace {

NodeId scattered(Terms& t, const ScatterAttr& attr, const std::vector<NodeId>& inputs, std::optional<Op> op,
                 NodeId base, NodeId values) {
  ScatterAttr again = attr;
  again.op = op;
  std::vector<NodeId> operands = inputs;
  operands[0] = base;
  operands[1] = values;
  return t.b.add(again, operands);
}
/// true where the scatter writes, over the axes of the values.
NodeId takes_part(Terms& t, const ScatterAttr& attr, const std::vector<NodeId>& inputs) {
  return read_places(t, attr, inputs, t.filled({DType::boolean, t.shape(inputs[0])}, 1));
}
/// Row-major position of each value, i64.
NodeId positions(Terms& t, const Shape& shape) {
  Expr flat = 0;
  for (size_t d = 0; d < shape.size(); ++d) flat = flat * shape[d] + axis_symbol(int(d), shape[d]);
  return t.b.iota(shape, flat);
}

} // namespace

void Reverse::scatter(NodeId id, const ScatterAttr& attr, NodeId g) {
  if (!attr.op) return scatter_set(id, attr, g);
  if (*attr.op == Op::mul) return scatter_product(id, attr, g);
  if (*attr.op != Op::add) return scatter_extreme(id, attr, g);
  const std::vector<NodeId> inputs = t_[id].inputs;
  give(inputs[0], g);
  if (active(inputs[1])) give(inputs[1], read_places(t_, attr, inputs, g));
}

void Reverse::scatter_set(NodeId id, const ScatterAttr& attr, NodeId g) {
  const std::vector<NodeId> inputs = t_[id].inputs;
  if (active(inputs[0])) give(inputs[0], scattered(t_, attr, inputs, {}, g, t_.zeros(t_.type(inputs[1]))));
  if (!active(inputs[1])) return;
  NodeId read = read_places(t_, attr, inputs, g);
  if (!attr.unique) { // who wrote last?
    const NodeId own = positions(t_, t_.shape(inputs[1]));
    const NodeId last =
        scattered(t_, attr, inputs, {}, t_.filled({DType::i64, t_.shape(inputs[0])}, -1), own);
    read = t_.masked(t_.b.map(Op::eq, {read_places(t_, attr, inputs, last), own}), read);
  }
  give(inputs[1], read);
}

void Reverse::scatter_extreme(NodeId id, const ScatterAttr& attr, NodeId g) {
  const std::vector<NodeId> inputs = t_[id].inputs;
  const DType type = t_.dtype(g);
  const NodeId old_best = t_.same(inputs[0], id);
  const NodeId best = t_.b.map(
      Op::bit_and, {takes_part(t_, attr, inputs), t_.same(inputs[1], read_places(t_, attr, inputs, id))});
  const NodeId count = scattered(t_, attr, inputs, Op::add, t_.b.cast(old_best, type), t_.b.cast(best, type));
  const NodeId share = t_.b.map(Op::div, {g, t_.b.map(Op::max, {count, t_.filled(t_.type(count), 1)})});
  if (active(inputs[0])) give(inputs[0], t_.masked(old_best, share));
  if (active(inputs[1])) give(inputs[1], t_.masked(best, read_places(t_, attr, inputs, share)));
}

void Reverse::scatter_product(NodeId id, const ScatterAttr& attr, NodeId g) {
  const std::vector<NodeId> inputs = t_[id].inputs;
  const DType type = t_.dtype(g);
  const NodeId base = inputs[0], values = inputs[1];
  const NodeId zero_base = t_.b.map(Op::eq, {base, t_.zeros(t_.type(base))});
  const NodeId zero_value = t_.b.map(Op::eq, {values, t_.zeros(t_.type(values))});
  const NodeId one_base = t_.filled(t_.type(base), 1), one_value = t_.filled(t_.type(values), 1);
  const NodeId nonzero_base = t_.select(zero_base, one_base, base);
  const NodeId nonzero_value = t_.select(zero_value, one_value, values);
  // of each element: the product of what is not 0 there, and how many zeros there are
  const NodeId product = scattered(t_, attr, inputs, Op::mul, nonzero_base, nonzero_value);
  const NodeId zeros =
      scattered(t_, attr, inputs, Op::add, t_.b.cast(zero_base, type), t_.b.cast(zero_value, type));
  // The sum of those zeros is 0, its gradient is not: where one other factor is 0, the product of all
  // others has a slope along that one.
  const NodeId lone_base = t_.masked(zero_base, base), lone_value = t_.masked(zero_value, values);
  const NodeId lone = scattered(t_, attr, inputs, Op::add, lone_base, lone_value);
  struct Factor {
    NodeId zero, nonzero, lone;
  };
  // the product of all others: the rest without one's own factor, or zeros among them
  const auto others = [&](const Factor& own, NodeId all, NodeId count, NodeId lone_sum) {
    const NodeId others_zero = t_.b.map(Op::sub, {count, t_.b.cast(own.zero, type)});
    const NodeId none = t_.b.map(Op::eq, {others_zero, t_.zeros(t_.type(others_zero))});
    const NodeId one = t_.b.map(Op::eq, {others_zero, t_.filled(t_.type(others_zero), 1)});
    const NodeId rest = t_.b.map(Op::div, {all, own.nonzero});
    const NodeId other_lone = t_.b.map(Op::sub, {lone_sum, own.lone});
    return t_.select(none, rest, t_.masked(one, t_.mul(rest, other_lone)));
  };
  if (active(base)) give(base, t_.mul(g, others({zero_base, nonzero_base, lone_base}, product, zeros, lone)));
  if (!active(values)) return;
  const auto read = [&](NodeId from) { return read_places(t_, attr, inputs, from); };
  give(values, t_.mul(read(g), others({zero_value, nonzero_value, lone_value}, read(product), read(zeros),
                                      read(lone))));
}

void Reverse::sort(NodeId id, const SortAttr& attr, const Results& g) {
  const std::vector<NodeId> inputs = t_[id].inputs;
  const Shape shape = t_.shape(inputs[0]);
  const Expr extent = shape[size_t(attr.axis)];
  const NodeId place = t_.b.iota(shape, axis_symbol(attr.axis, extent));
  const NodeId order = t_.b.get(t_.b.add(attr, {inputs[0], place}), 1);
  std::vector<int> axes;
  ScatterAttr back{.map = {}, .predicate = 1, .op = {}, .unique = true, .holes = {}};
  for (size_t d = 0; d < shape.size(); ++d) {
    axes.push_back(int(d));
    back.map.push_back(axis_symbol(int(d), shape[d]));
  }
  const int64_t high = extent.range().high;
  const Interval range{0, high == unbounded_high ? high : std::max<int64_t>(high - 1, 0)};
  back.holes = {{2, axes, range, OutOfRange::error}};
  back.map[size_t(attr.axis)] = hole_symbol(0, range);
  for (size_t k = 0; k < inputs.size(); ++k)
    if (g[k] && active(inputs[k]))
      give(inputs[k], t_.b.add(back, {t_.zeros(t_.type(inputs[k])), *g[k], order}));
}

} // namespace luminal::train
