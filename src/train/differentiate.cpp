// train/differentiate.cpp -- derivatives of scalar programs, by the column of the op table.
#include "train/reverse.h"

namespace luminal::train {
namespace {

using Part = std::optional<Scalar>; // nothing: 0

Part plus(Part a, Part b) {
  if (!a || !b) return a ? a : b;
  return Scalar::apply(Op::add, {*a, *b});
}
Part product(const Scalar& factor, const Scalar& inner) {
  const ScalarNode& f = factor.nodes().back();
  const ScalarNode& i = inner.nodes().back();
  if (f.kind == ScalarNode::Kind::constant && f.value == 0) return {};
  if (f.kind == ScalarNode::Kind::constant && f.value == 1) return inner;
  if (i.kind == ScalarNode::Kind::constant && i.value == 1) return factor;
  return Scalar::apply(Op::mul, {factor, inner});
}
/// A choice is the outermost operation: what is not chosen takes no part, be it infinite or NaN.
Part choice(const Scalar& condition, const Part& yes, const Part& no) {
  if (!yes && !no) return {};
  const Scalar zero = Scalar::constant(0);
  return Scalar::apply(Op::select, {condition, yes.value_or(zero), no.value_or(zero)});
}

} // namespace

std::optional<Scalar> differentiate(const Scalar& program, int leaf) {
  std::vector<Scalar> value;
  std::vector<Part> slope;
  for (const ScalarNode& node : program.nodes()) {
    switch (node.kind) {
    case ScalarNode::Kind::constant:
      value.push_back(Scalar::constant(node.value));
      slope.emplace_back();
      break;
    case ScalarNode::Kind::leaf:
      value.push_back(Scalar::leaf(node.leaf));
      slope.push_back(node.leaf == leaf ? Part(Scalar::constant(1)) : Part());
      break;
    case ScalarNode::Kind::cast: {
      const size_t x = size_t(node.args[0]);
      value.push_back(Scalar::cast(node.dtype, value[x]));
      slope.push_back(slope[x] && is_float(node.dtype) ? Part(Scalar::cast(node.dtype, *slope[x])) : Part());
      break;
    }
    case ScalarNode::Kind::op: {
      std::vector<Scalar> args;
      for (int k = 0; k < row(node.op).arity; ++k) args.push_back(value[size_t(node.args[k])]);
      const Scalar out = Scalar::apply(node.op, args);
      Part total;
      if (node.op == Op::select) {
        total = choice(args[0], slope[size_t(node.args[1])], slope[size_t(node.args[2])]);
      } else {
        std::vector<Scalar> frame = args;
        frame.resize(3, Scalar::constant(0));
        frame.push_back(out);
        for (int k = 0; k < row(node.op).arity; ++k) {
          const Part& inner = slope[size_t(node.args[k])];
          const Scalar* own = derivative(node.op, k);
          if (inner && own) total = plus(total, product(own->substitute(frame), *inner));
        }
      }
      value.push_back(out);
      slope.push_back(std::move(total));
      break;
    }
    }
  }
  return slope.back();
}

} // namespace luminal::train
