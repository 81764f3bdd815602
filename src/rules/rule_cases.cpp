// rules/rule_cases.cpp -- small programs on which rules are tried.
#include "rules/rule_case_maker.h"
#include <algorithm>
#include <cmath>

namespace luminal::rules {
namespace {

class RandomCase : public CaseMaker {
public:
  using CaseMaker::CaseMaker;

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
};

} // namespace

RuleCase random_rule_case(uint64_t seed) { return RandomCase(seed).run(); }

} // namespace luminal::rules
