// rules/rule_case_maker.h -- what small programs for the test of rules are made of: values over some of four
// axes with extents of 1 2 3 5.
#pragma once
#include "rules/check_rules.h"
#include <bit>
#include <fmt/format.h>

namespace luminal::rules {

/// A value with some of the axes of a case, in ascending order.
struct Part {
  NodeId node;
  unsigned axes = 0; // bits
};

/// The parts of a case; equal seeds give equal draws.
class CaseMaker {
public:
  explicit CaseMaker(uint64_t seed) : seed_(seed), state_(seed * 2 + 1), b_("main") {
    const int extents[] = {1, 2, 3, 5};
    for (int& n : extent_) n = extents[below(4)];
    if (below(3) == 0) extent_[3] = extent_[2]; // two axes of one length: views rename
    const DType types[] = {DType::f32, DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16};
    type_ = types[below(6)];
  }

protected:
  int below(int n) {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return int((state_ >> 33) % uint64_t(n));
  }
  bool one_of(int n) { return below(n) == 0; }
  template <class T> const T& any(const std::vector<T>& list) {
    return list[size_t(below(int(list.size())))];
  }

  Shape shape(unsigned axes) const {
    Shape out;
    for (unsigned a = 0; a < 4; ++a)
      if (axes >> a & 1) out.push_back(extent_[a]);
    return out;
  }
  static int position(unsigned axes, unsigned axis) { return std::popcount(axes & ((1u << axis) - 1)); }
  std::vector<double> random_values(size_t n, bool positive) {
    std::vector<double> out;
    for (size_t k = 0; k < n; ++k)
      out.push_back((positive ? 1 : below(17) - 8) / 4.0 + below(7) / 8.0 + 0.125);
    return out;
  }
  Part input(unsigned axes, Role role) {
    const std::string name = fmt::format("x{}", inputs_++);
    const Shape s = shape(axes);
    std::vector<int64_t> dims;
    size_t n = 1;
    for (const Expr e : s) {
      dims.push_back(e.value());
      n *= size_t(e.value());
    }
    out_.bindings.inputs[name] = host_tensor(type_, dims, random_values(n, false));
    return {b_.input(name, {type_, s}, role), axes};
  }
  void make_inputs() {
    const unsigned all[] = {0b0111, 0b0101, 0b0110, 0b0100, 0b1100, 0b0011, 0b0001, 0b1010};
    for (int k = 0; k < 5; ++k)
      xs_.push_back(input(all[below(8)], one_of(3) ? Role::weight : Role::argument));
    xs_.push_back(input(0b0101, Role::argument));
  }
  Part number(double v) { return {b_.constant(type_, v), 0}; }

  Part expand(const Part& x, unsigned axes) {
    if (x.axes == axes) return x;
    std::vector<int> at;
    for (unsigned a = 0; a < 4; ++a)
      if (x.axes >> a & 1) at.push_back(position(axes, a));
    return {b_.expand(x.node, shape(axes), at), axes};
  }
  Part map(Op op, std::vector<Part> xs) {
    unsigned axes = 0;
    for (const Part& x : xs) axes |= x.axes;
    std::vector<NodeId> in;
    for (const Part& x : xs) in.push_back(expand(x, axes).node);
    return {b_.map(op, in), axes};
  }
  Part fold(Op op, const Part& x, unsigned over) {
    over &= x.axes;
    if (over == 0) return x;
    std::vector<int> dims;
    for (unsigned a = 0; a < 4; ++a)
      if (over >> a & 1) dims.push_back(position(x.axes, a));
    return {b_.reduce(op, x.node, dims), x.axes & ~over};
  }
  Part mean(const Part& x, unsigned over) {
    double n = 1;
    for (unsigned a = 0; a < 4; ++a)
      if (over & x.axes & (1u << a)) n *= extent_[a];
    const Part sum = fold(Op::add, x, over);
    return one_of(2) ? map(Op::div, {sum, number(n)}) : map(Op::mul, {sum, number(1 / n)});
  }
  Part positive() {
    const Part x = any(xs_);
    return one_of(2) ? map(Op::exp, {x}) : map(Op::add, {map(Op::abs, {x}), number(0.5)});
  }
  Part index(unsigned axis) {
    const Shape s = shape(1u << axis);
    return {b_.iota(s, axis_symbol(0, s[0])), 1u << axis};
  }
  /// A condition.
  Part condition(unsigned k) {
    const unsigned other = below(4) % 4;
    switch (below(4)) {
    case 0: return map(one_of(2) ? Op::le : Op::lt, {index(k), index(other)});
    case 1: return map(one_of(2) ? Op::le : Op::lt, {index(other), index(k)});
    case 2: return map(Op::eq, {index(k), labels(other, k)});
    default: return map(Op::lt, {any(xs_), any(xs_)});
    }
  }
  Part labels(unsigned axis, unsigned of) {
    const std::string name = fmt::format("labels{}", inputs_++);
    const Shape s = shape(1u << axis);
    std::vector<double> values;
    for (int k = 0; k < extent_[axis]; ++k) values.push_back(below(extent_[of]));
    out_.bindings.inputs[name] = host_tensor(DType::i64, {extent_[axis]}, values);
    return {b_.input(name, {DType::i64, s}), 1u << axis};
  }
  Op fold_op() { return one_of(2) ? Op::add : one_of(2) ? Op::max : Op::min; }

  uint64_t seed_, state_;
  FunctionBuilder b_;
  int extent_[4] = {};
  DType type_ = DType::f32;
  int inputs_ = 0;
  RuleCase out_;
  std::vector<Part> xs_, results_;
};

} // namespace luminal::rules
