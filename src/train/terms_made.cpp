// train/terms_made.cpp -- the small vocabulary of terms that gradients are made of.
#include "base/check.h"
#include "train/reverse.h"
#include <algorithm>

namespace luminal::train {

NodeId Terms::filled(const TensorType& type, double value) {
  const NodeId scalar = b.constant(type.dtype, value);
  return type.shape.empty() ? scalar : b.view(scalar, type.shape, {});
}
NodeId Terms::add(NodeId x, NodeId y) { return b.map(Op::add, {x, y}); }
Gradient Terms::add(Gradient x, Gradient y) { return !x ? y : !y ? x : Gradient(add(*x, *y)); }
NodeId Terms::mul(NodeId x, NodeId y) { return b.map(Op::mul, {x, y}); }
NodeId Terms::select(NodeId condition, NodeId x, NodeId y) { return b.map(Op::select, {condition, x, y}); }

NodeId Terms::expand(NodeId x, const Shape& to, const std::vector<int>& axes) {
  std::vector<Expr> map;
  for (int d : axes) map.push_back(axis_symbol(d, to[size_t(d)]));
  bool same = to == shape(x);
  for (size_t d = 0; d < axes.size(); ++d) same &= axes[d] == int(d);
  return same ? x : b.view(x, to, std::move(map));
}

NodeId Terms::sum(NodeId x, std::vector<int> axes) {
  if (axes.empty()) return x;
  const DType own = dtype(x);
  const bool narrow = is_float(own) && bits(own) < 32;
  const NodeId total = b.reduce(Op::add, narrow ? b.cast(x, DType::f32) : x, std::move(axes));
  return b.cast(total, own);
}

NodeId Terms::scan(Op op, NodeId x, int axis, bool exclusive, bool reverse) {
  std::vector<int> all;
  for (size_t d = 0; d < shape(x).size(); ++d) all.push_back(int(d));
  const NodeId made = b.add(ScanAttr{.monoid = Monoid::plain(op, dtype(x)),
                                     .space = shape(x),
                                     .axis = axis,
                                     .body_axes = {all},
                                     .exclusive = exclusive,
                                     .reverse = reverse},
                            {x});
  return b.get(made, 0);
}

NodeId Terms::flip(NodeId x, int axis) {
  const Shape to = shape(x);
  std::vector<Expr> map;
  for (size_t d = 0; d < to.size(); ++d) {
    const Expr i = axis_symbol(int(d), to[d]);
    map.push_back(int(d) == axis ? to[d] - 1 - i : i);
  }
  return b.view(x, to, std::move(map));
}

NodeId Terms::same(NodeId x, NodeId y) {
  const NodeId equal = b.map(Op::eq, {x, y});
  if (!is_float(dtype(x))) return equal;
  const NodeId both = b.map(Op::bit_and, {b.map(Op::is_nan, {x}), b.map(Op::is_nan, {y})});
  return b.map(Op::bit_or, {equal, both});
}

namespace {

/// Puts the steps of a program down as nodes.
class Program {
public:
  Program(Terms& t, const Scalar& program, const std::vector<NodeId>& leaves, DType result)
      : t_(t), leaves_(leaves) {
    std::vector<DType> types;
    for (NodeId leaf : leaves) types.push_back(t.dtype(leaf));
    program_ = typed(program, types, result);
    shape_ = leaves.empty() ? Shape{} : t.shape(leaves[0]);
    made_.resize(program_.steps.size());
  }
  int last() const { return int(program_.steps.size()) - 1; }

  NodeId value(int at) {
    if (made_[size_t(at)]) return *made_[size_t(at)];
    const TypedScalar::Step& step = program_.steps[size_t(at)];
    NodeId made;
    switch (step.kind) {
    case ScalarNode::Kind::constant: made = constant(step); break;
    case ScalarNode::Kind::leaf: made = leaves_.at(size_t(step.leaf)); break;
    case ScalarNode::Kind::cast: made = t_.b.cast(value(step.args[0]), step.result); break;
    case ScalarNode::Kind::op: {
      std::vector<NodeId> args;
      for (int k = 0; k < row(step.op).arity; ++k) args.push_back(value(step.args[k]));
      made = t_.b.map(step.op, std::move(args));
      break;
    }
    }
    made_[size_t(at)] = made;
    return made;
  }

  /// g * step: factors that are numbers, choices and quotients go into the gradient itself.
  Gradient times(NodeId g, int at) {
    const TypedScalar::Step& step = program_.steps[size_t(at)];
    if (step.kind == ScalarNode::Kind::constant) {
      if (step.value == 0) return {};
      if (step.value == 1) return g;
      if (step.value == -1) return t_.b.map(Op::neg, {g});
    }
    if (step.kind == ScalarNode::Kind::op) {
      const int* args = step.args;
      if (step.op == Op::select) {
        const Gradient yes = times(g, args[1]), no = times(g, args[2]);
        if (!yes && !no) return {};
        const NodeId zero = t_.zeros(t_.type(g));
        return t_.select(value(args[0]), yes.value_or(zero), no.value_or(zero));
      }
      if (step.op == Op::neg) {
        const Gradient inner = times(g, args[0]);
        return inner ? Gradient(t_.b.map(Op::neg, {*inner})) : inner;
      }
      if (step.op == Op::recip) return t_.b.map(Op::div, {g, value(args[0])});
    }
    return t_.mul(g, value(at));
  }

private:
  NodeId constant(const TypedScalar::Step& step) {
    if (is_float(step.result)) return t_.filled({step.result, shape_}, step.value);
    std::vector<std::byte> bytes(size_t(storage_bytes(step.result, 1)));
    store_i64(step.result, bytes.data(), 0, step.integer);
    const NodeId scalar = t_.b.constant(TensorType{step.result, {}}, std::move(bytes));
    return shape_.empty() ? scalar : t_.b.view(scalar, shape_, {});
  }

  Terms& t_;
  const std::vector<NodeId>& leaves_;
  TypedScalar program_;
  Shape shape_;
  std::vector<Gradient> made_;
};

} // namespace

NodeId Terms::apply(const Scalar& program, const std::vector<NodeId>& leaves, DType result) {
  Program p(*this, program, leaves, result);
  return p.value(p.last());
}
Gradient Terms::times(NodeId gradient, const Scalar& program, const std::vector<NodeId>& leaves) {
  Program p(*this, program, leaves, dtype(gradient));
  return p.times(gradient, p.last());
}

std::vector<NodeId> Terms::inlined(const Function& function, const std::vector<NodeId>& inputs) {
  IdVector<NodeId, NodeId> place(function.nodes.size());
  LUMINAL_CHECK(inputs.size() == function.params.size(), "@{} with {} inputs", function.name, inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) place[function.params[i]] = inputs[i];
  for (NodeId id : function.nodes.ids()) {
    const Node& node = function[id];
    if (node.kind == NodeKind::input) continue;
    std::vector<NodeId> operands;
    for (NodeId input : node.inputs) operands.push_back(place[input]);
    place[id] = b.add(node.attr, std::move(operands), node.axis_names);
    if (!node.origin.empty()) b.origin(place[id], node.origin);
  }
  std::vector<NodeId> list;
  for (const FunctionResult& r : function.results) list.push_back(place[r.value]);
  return list;
}

std::vector<NodeId> Terms::results(NodeId tuple) {
  const size_t count = b[tuple].types.size();
  std::vector<NodeId> list;
  for (size_t k = 0; k < count; ++k) list.push_back(b.get(tuple, int(k)));
  return list;
}

std::vector<int> float_positions(const std::vector<TensorType>& types) {
  std::vector<int> list;
  for (size_t i = 0; i < types.size(); ++i)
    if (is_float(types[i].dtype)) list.push_back(int(i));
  return list;
}

} // namespace luminal::train
