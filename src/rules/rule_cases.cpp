// rules/rule_cases.cpp -- small programs on which rules are tried.
#include "rules/check_rules.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace luminal::rules {
namespace {

/// A value with some of the axes of a case, in ascending order.
struct Part {
  NodeId node = 0;
  unsigned axes = 0; // bits
};

class CaseMaker {
public:
  explicit CaseMaker(uint64_t seed) : seed_(seed), state_(seed * 2 + 1), b_("main") {
    const int extents[] = {1, 2, 3, 5};
    for (int& n : extent_) n = extents[below(4)];
    if (below(3) == 0) extent_[3] = extent_[2]; // two axes of one length: views rename
    const DType types[] = {DType::f32, DType::f32, DType::f32, DType::f64, DType::f16, DType::bf16};
    type_ = types[below(6)];
  }

  RuleCase run() {
    make_inputs();
    const int bodies = 1 + below(2);
    for (int k = 0; k < bodies; ++k) {
      switch (below(6)) {
      case 0:
      case 1:
      case 2: statistics(); break;
      case 3: chain(); break;
      case 4: masked(); break;
      default: elementwise(); break;
      }
    }
    for (size_t k = 0; k < results_.size(); ++k) b_.result(fmt::format("r{}", k), results_[k].node);
    out_.name = fmt::format("random case {}", seed_);
    out_.module.functions.push_back(b_.finish());
    return std::move(out_);
  }

private:
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

  /// An operation tree over some values.
  Part tree(const std::vector<Part>& leaves, int depth) {
    if (depth == 0 || one_of(6)) return any(leaves);
    switch (below(12)) {
    case 0:
    case 1: return map(Op::mul, {tree(leaves, depth - 1), tree(leaves, depth - 1)});
    case 2: return map(Op::add, {tree(leaves, depth - 1), tree(leaves, depth - 1)});
    case 3:
    case 4: return map(Op::sub, {tree(leaves, depth - 1), tree(leaves, depth - 1)});
    case 5: return map(one_of(3) ? Op::exp2 : Op::exp, {tree(leaves, depth - 1)});
    case 6:
      return map(one_of(2) ? Op::max : Op::min,
                 {tree(leaves, depth - 1), one_of(2) ? number(0) : any(leaves)});
    case 7: return map(one_of(2) ? Op::neg : Op::abs, {tree(leaves, depth - 1)});
    case 8: {
      const Part c = condition(2);
      const Part x = tree(leaves, depth - 1);
      const Part z = one_of(2) ? number(0) : any(leaves);
      return one_of(2) ? map(Op::select, {c, x, z}) : map(Op::select, {c, z, x});
    }
    case 9: return map(Op::div, {tree(leaves, depth - 1), positive()});
    case 10: return map(Op::mul, {tree(leaves, depth - 1), number(below(5) * 0.5 - 1)});
    default: return map(Op::select, {map(Op::eq, {any(leaves), any(leaves)}), any(leaves), number(0)});
    }
  }
  Op fold_op() { return one_of(2) ? Op::add : one_of(2) ? Op::max : Op::min; }

  /// Folds over an axis whose bodies read folds over it.
  void statistics() {
    const unsigned k = one_of(4) ? 0b0110 : 0b0100;
    Part x = any(xs_);
    for (int tries = 0; tries < 8 && !(x.axes & k); ++tries) x = any(xs_);
    std::vector<Part> leaves{x, any(xs_), any(xs_)};
    if (one_of(3)) leaves[0] = x = tree(leaves, 2);
    const int depth = 1 + below(3);
    for (int level = 0; level < depth; ++level) {
      Part r;
      const Part g = level == 0 || one_of(2) ? x : tree(leaves, 2);
      switch (below(5)) {
      case 0: r = fold(Op::max, g, k); break;
      case 1: r = mean(g, k); break;
      case 2:
        r = fold(Op::add, one_of(2) ? map(Op::add, {map(Op::mul, {g, g}), number(0.125)}) : g, k);
        break;
      case 3: r = fold(fold_op(), g, k); break;
      default: r = fold(Op::max, map(Op::add, {map(Op::abs, {g}), number(0.25)}), k); break;
      }
      leaves.push_back(r);
      leaves.push_back(r);
      Part body;
      Op op = one_of(4) ? fold_op() : Op::add;
      const int form = below(9);
      switch (form) {
      case 0:
      case 1: body = map(one_of(3) ? Op::exp2 : Op::exp, {map(Op::sub, {x, r})}); break;
      case 2: {
        const Part d = map(Op::sub, {x, r});
        body = map(Op::mul, {d, d});
        break;
      }
      case 3:
        body = map(Op::mul, {x, map(Op::recip, {map(Op::add, {map(Op::mul, {r, r}), number(0.5)})})});
        break;
      case 4: body = map(Op::select, {map(Op::eq, {x, r}), any(leaves), number(0)}); break;
      case 8: // what only a maximum or minimum may read: an infinity makes NaN of a sum
        op = one_of(2) ? Op::max : Op::min;
        body = one_of(2)
                   ? map(Op::select,
                         {map(Op::eq, {x, r}), any(leaves), number(op == Op::max ? -INFINITY : INFINITY)})
                   : map(Op::select, {map(Op::lt, {x, r}), x, number(op == Op::max ? -INFINITY : INFINITY)});
        break;
      case 5: body = map(Op::div, {x, r}); break;
      default: body = tree(leaves, 3); break;
      }
      if (form != 8 && one_of(2)) body = map(Op::mul, {body, any(xs_)});
      if (form != 8 && one_of(3)) body = map(Op::select, {condition(2), body, number(0)});
      const Part s = fold(op, body, k);
      results_.push_back(s);
      leaves.push_back(s);
    }
    results_.push_back(tree(leaves, 2));
  }
  /// Products of sums of products.
  void chain() {
    Part x = any(xs_);
    const int n = 2 + below(2);
    for (int k = 0; k < n; ++k) {
      Part y = map(Op::mul, {x, any(xs_)});
      if (one_of(3)) y = map(Op::add, {y, any(xs_)});
      if (one_of(3)) y = map(Op::select, {condition(unsigned(below(4))), y, number(0)});
      const unsigned over = 1u << below(4);
      x = fold(one_of(5) ? fold_op() : Op::add, y, over);
    }
    results_.push_back(map(Op::add, {x, any(xs_)}));
  }
  /// Masks, single elements and prefixes.
  void masked() {
    const unsigned k = 2;
    Part q = map(Op::mul, {any(xs_), expand(any(xs_), 0b1111)});
    if (one_of(2)) q = map(Op::mul, {q, any(xs_)});
    const Part c = condition(k);
    Part body = one_of(2)   ? map(Op::select, {c, q, number(0)})
                : one_of(2) ? map(Op::mul, {q, Part{b_.cast(c.node, type_), c.axes}})
                            : map(Op::select, {map(Op::bit_not, {c}), number(0), q});
    if (one_of(3)) body = map(Op::neg, {body});
    if (one_of(3)) body = map(Op::mul, {body, any(xs_)});
    results_.push_back(fold(Op::add, body, 1u << k));
    gathered(q);
  }
  void gathered(const Part& q) {
    if (!(q.axes & 0b0100) || extent_[2] < 2) return;
    const Part y = labels(0, 2);
    Part x = one_of(2) ? q : fold(Op::add, q, 0b1000);
    if (!(x.axes & 0b0100)) return;
    ViewAttr view;
    const unsigned axes = (x.axes & ~0b0100u) | 0b0001;
    view.shape = shape(axes);
    const Interval range{0, extent_[2] - 1};
    for (unsigned a = 0; a < 4; ++a)
      if (x.axes >> a & 1)
        view.map.push_back(a == 2 ? hole_symbol(0, range)
                                  : axis_symbol(position(axes, a), view.shape[size_t(position(axes, a))]));
    view.holes = {{1, {position(axes, 0)}, range, OutOfRange::error}};
    results_.push_back({b_.add(view, {x.node, y.node}), axes});
  }
  /// Chains of elementwise operations, and views of them.
  void elementwise() {
    std::vector<Part> leaves = xs_;
    leaves.push_back(number(2));
    leaves.push_back(number(0.5));
    leaves.push_back(number(-1));
    for (int k = 0; k < 3; ++k) leaves.push_back(tree(leaves, 2));
    Part x = tree(leaves, 3);
    const Part p = positive();
    switch (below(8)) {
    case 0: x = map(Op::add, {map(Op::add, {x, number(2)}), number(0.5)}); break;
    case 1: x = map(Op::mul, {map(Op::mul, {x, number(2)}), number(0.5)}); break;
    case 2: x = map(Op::recip, {map(Op::recip, {map(Op::add, {p, number(1)})})}); break;
    case 3: x = map(Op::log, {map(Op::exp, {x})}); break;
    case 4: x = map(Op::log2, {map(Op::exp2, {x})}); break;
    case 5: x = map(Op::select, {map(Op::lt, {x, number(0)}), number(0), x}); break;
    case 6: x = map(Op::fma, {x, any(leaves), any(leaves)}); break;
    default: x = map(Op::mul, {map(Op::sqrt, {p}), map(Op::sqrt, {p})}); break;
    }
    if (!x.axes) x = expand(x, 0b0100);
    const Shape s = shape(x.axes);
    std::vector<Expr> at;
    for (size_t d = 0; d < s.size(); ++d)
      at.push_back(one_of(2) ? s[d] - 1 - axis_symbol(int(d), s[d]) : axis_symbol(int(d), s[d]));
    Part y{b_.view(x.node, s, at), x.axes};
    y = map(Op::mul, {map(Op::exp, {map(Op::neg, {y})}), any(xs_)});
    results_.push_back(y);
    results_.push_back(fold(fold_op(), y, 0b0110));
  }

  uint64_t seed_, state_;
  FunctionBuilder b_;
  int extent_[4] = {};
  DType type_ = DType::f32;
  int inputs_ = 0;
  RuleCase out_;
  std::vector<Part> xs_, results_;
};

} // namespace

RuleCase random_rule_case(uint64_t seed) { return CaseMaker(seed).run(); }

} // namespace luminal::rules
