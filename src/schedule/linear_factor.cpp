// schedule/linear_factor.cpp -- transforms of a tuple that multiply.
#include "schedule/linear_factor.h"
#include <algorithm>

namespace luminal::kernel {
namespace {

/// The program that ends at node n.
Scalar program_at(const Scalar& whole, int n) {
  std::vector<Scalar> made;
  for (int i = 0; i <= n; i++) {
    const ScalarNode& s = whole.nodes()[size_t(i)];
    switch (s.kind) {
    case ScalarNode::Kind::constant: made.push_back(Scalar::constant(s.value)); break;
    case ScalarNode::Kind::leaf: made.push_back(Scalar::leaf(s.leaf)); break;
    case ScalarNode::Kind::cast: made.push_back(Scalar::cast(s.dtype, made[size_t(s.args[0])])); break;
    case ScalarNode::Kind::op: {
      std::vector<Scalar> args;
      for (int a = 0; a < row(s.op).arity; a++) args.push_back(made[size_t(s.args[a])]);
      made.push_back(Scalar::apply(s.op, args));
      break;
    }
    }
  }
  return made.back();
}

/// A factor that goes through a narrower float and back to the type of the states.
LinearFactor without_rounding(const Scalar& factor, DType type) {
  const auto& nodes = factor.nodes();
  const ScalarNode& back = nodes.back();
  if (back.kind != ScalarNode::Kind::cast || back.dtype != type) return {factor};
  const ScalarNode& narrow = nodes[size_t(back.args[0])];
  if (narrow.kind != ScalarNode::Kind::cast || !is_float(narrow.dtype) || bits(narrow.dtype) >= bits(type))
    return {factor};
  return {program_at(factor, narrow.args[0]), {narrow.dtype, type}};
}

} // namespace

std::optional<LinearFactor> linear_factor(const Scalar& transform, size_t node, DType type) {
  const ScalarNode& n = transform.nodes()[node];
  if (n.kind == ScalarNode::Kind::leaf && n.leaf == 0) return LinearFactor{Scalar::constant(1)};
  if (n.kind != ScalarNode::Kind::op) return {};
  const auto part = [&](int at) { return program_at(transform, at); };
  if (n.op == Op::mul)
    for (int side : {0, 1}) {
      Scalar other = part(n.args[1 - side]);
      if (other.reads(0)) continue;
      if (auto w = linear_factor(transform, size_t(n.args[side]), type))
        return w->rounded() == Scalar::constant(1)
                   ? without_rounding(other, type)
                   : LinearFactor{Scalar::apply(Op::mul, {w->rounded(), other})};
    }
  if (n.op == Op::div) {
    Scalar other = part(n.args[1]);
    if (other.reads(0)) return {};
    if (auto w = linear_factor(transform, size_t(n.args[0]), type))
      return LinearFactor{Scalar::apply(Op::div, {w->rounded(), other})};
  }
  if (n.op ==
      Op::select) { // select(condition, 0, self * w) and the other way round; no cast changes the zero
    Scalar condition = part(n.args[0]);
    if (condition.reads(0)) return {};
    for (int side : {1, 2}) {
      const ScalarNode& zero = transform.nodes()[size_t(n.args[3 - side])];
      if (zero.kind != ScalarNode::Kind::constant || zero.value != 0) continue;
      auto w = linear_factor(transform, size_t(n.args[side]), type);
      if (!w) continue;
      const Scalar none = Scalar::constant(0);
      w->program = side == 2 ? Scalar::apply(Op::select, {condition, none, w->program})
                             : Scalar::apply(Op::select, {condition, w->program, none});
      return w;
    }
  }
  return {};
}

bool weights_of_maximum(const Scalar& factor, const Monoid& monoid) {
  for (int j = 0; j < monoid.size(); j++)
    if ((factor.reads(1 + 2 * j) || factor.reads(2 + 2 * j)) && monoid.components()[size_t(j)].op != Op::max)
      return false;
  return std::ranges::any_of(
      factor.nodes(), [](auto& node) { return node.kind == ScalarNode::Kind::op && may_vanish(node.op); });
}

} // namespace luminal::kernel
