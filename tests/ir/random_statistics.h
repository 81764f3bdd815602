// tests/ir/random_statistics.h -- statistics of rows as programs compute them, and worse: rows of which a
// mask hides some elements or all, windows with an edge of -inf, maxima that sums read and sums that both
// read, weights and products behind them, narrow types in between.
#pragma once
#include "ir/random_folds.h"

namespace luminal::testing_ir {

class RandomStatistics : public RandomFolds {
  static constexpr double infinity = std::numeric_limits<double>::infinity();

protected:
  using RandomFolds::RandomFolds;

  /// Values whose rows lie along some of their axes.
  struct Rows {
    NodeId x;
    std::vector<int> reduced, kept;
    NodeId mask = {}; ///< what counts of them, of type bool
  };
  const Shape& shape_of(const Rows& r) { return type(r.x).shape; }
  NodeId like(NodeId x, double value) {
    return b().view(b().constant(type(x).dtype, value), type(x).shape, {});
  }
  NodeId spread(NodeId statistic, const Rows& r) { return b().expand(statistic, shape_of(r), r.kept); }
  NodeId apply(Op op, NodeId x, NodeId y) { return b().map(op, {x, y}); }
  NodeId apply(Op op, NodeId x) { return b().map(op, {x}); }
  /// The value, perhaps through a narrower type.
  NodeId rounded(NodeId x) {
    if (options_.exact || !chance(12)) return x;
    const DType narrow = one_of(std::vector<DType>{DType::bf16, DType::f16, DType::bf16, DType::f32});
    return b().cast(b().cast(x, narrow), type(x).dtype);
  }
  /// Of a row; perhaps of what its mask leaves, or of what a condition of the fold does.
  NodeId folded(Op op, NodeId x, const Rows& r) {
    const double nothing = op == Op::add ? 0 : op == Op::max ? -infinity : infinity;
    if (r.mask && chance(25)) x = b().map(Op::select, {r.mask, x, like(x, nothing)});
    if (!chance(12)) return rounded(b().reduce(op, x, r.reduced));
    const DType t = type(x).dtype;
    std::vector<int> all;
    for (size_t d = 0; d < shape_of(r).size(); ++d) all.push_back(int(d));
    FoldAttr fold{.monoid = Monoid::intern({{op, t, Scalar::leaf(0)}}),
                  .space = shape_of(r),
                  .reduced = r.reduced,
                  .body_axes = {all},
                  .where = condition(shape_of(r)),
                  .holes = {}};
    return rounded(b().get(b().add(fold, {x}), 0));
  }
  /// Booleans over a shape: of the places alone (whole rows, triangles, lengths), or of values.
  NodeId mask(const Rows& r) {
    const Shape& s = shape_of(r);
    Shape outer;
    for (int d : r.kept) outer.push_back(s[size_t(d)]);
    switch (below(6)) {
    case 0: return b().expand(b().iota(outer, condition(outer), DType::boolean), s, r.kept); // whole rows
    case 1: return b().expand(fitting({DType::boolean, outer}), s, r.kept);
    case 2: return fitting({DType::boolean, s});
    case 3: return apply(Op::lt, r.x, fitting(type(r.x)));
    case 4: return apply(Op::le, like(r.x, number(type(r.x).dtype)), r.x);
    default: return b().iota(s, condition(s), DType::boolean);
    }
  }
  Rows rows() {
    const auto good = [&](const TensorType& t) {
      return !t.shape.empty() && is_float(t.dtype) && bits(t.dtype) >= 16;
    };
    const DType fresh_type = one_of(std::vector<DType>{DType::f32, DType::f32, DType::bf16, DType::f64});
    Rows r{pick_if(good, {fresh_type, {extent(), chance(25) ? Expr(1) : extent()}}), {}, {}};
    if (options_.exact || chance(60)) r.x = b().cast(r.x, chance(80) ? DType::f32 : DType::f64);
    if (chance(20)) r.x = windows(r.x);
    for (int d = 0; d < int(shape_of(r).size()); ++d)
      (chance(d + 1 == int(shape_of(r).size()) ? 65 : 35) ? r.reduced : r.kept).push_back(d);
    if (r.reduced.empty()) r.reduced.push_back(r.kept.back()), r.kept.pop_back();
    return r;
  }
  /// Sliding windows with a padded edge: their elements are the last axis.
  NodeId windows(NodeId x) {
    Shape out = type(x).shape;
    const auto d = size_t(below(int(out.size())));
    const Expr extent = out[d];
    out.push_back(2 + below(3));
    if (!fits(out)) return x;
    std::vector<Expr> m = axes(out);
    const Expr at = m[d] + m.back() * (1 + below(2)) - below(3);
    m[d] = at, m.pop_back();
    return b().view(x, out, m, logical_and(ge(at, 0), lt(at, extent)), chance(60) ? -infinity : 0);
  }
  void hide(Rows& r) {
    const double hidden = chance(85) ? -infinity : chance(50) ? 0 : -10000;
    if (chance(35)) r.x = b().view(r.x, shape_of(r), axes(shape_of(r)), condition(shape_of(r)), hidden);
    if (!chance(55)) return;
    r.mask = mask(r);
    r.x = b().map(Op::select, {r.mask, r.x, like(r.x, hidden)});
  }

  /// Where nothing rounds: extremes, what equals them, how many.
  void extremes(const Rows& r) {
    const Op op = chance(70) ? Op::max : Op::min;
    const NodeId m = folded(op, r.x, r), ms = spread(m, r),
                 same = apply(chance(50) ? Op::eq : Op::le, r.x, ms);
    switch (below(5)) {
    case 0: add(b().reduce(Op::add, b().cast(same, DType::i32), r.reduced)); break;
    case 1: add(apply(op, r.x, spread(folded(op == Op::max ? Op::min : Op::max, r.x, r), r))); break;
    case 2: add(folded(Op::max, b().map(Op::select, {same, like(r.x, -infinity), r.x}), r)); break; // second
    case 3: add(b().map(Op::select, {same, r.x, like(r.x, 0)})); break;
    default: add(apply(Op::sub, r.x, ms));
    }
    if (chance(40)) add(m);
  }
  /// Deviations from a statistic, a function of them, its sum, and what is made of all three.
  void weights(const Rows& r) {
    const int centre = below(10);
    NodeId m = folded(centre < 7 ? Op::max : centre < 8 ? Op::min : Op::add, r.x, r);
    if (chance(25)) // as attention over no keys at all is written
      m = b().map(Op::select, {apply(Op::eq, m, like(m, -infinity)), like(m, 0), m});
    NodeId d = chance(85) ? apply(Op::sub, r.x, spread(m, r)) : r.x;
    if (chance(20)) d = apply(Op::mul, d, like(d, number(type(d).dtype)));
    NodeId e = d;
    switch (below(8)) {
    case 0: e = apply(Op::mul, d, d); break;
    case 1: e = apply(Op::exp2, d); break;
    case 2: e = apply(Op::abs, d); break;
    case 3: break;
    default: e = apply(Op::exp, d);
    }
    e = rounded(e);
    const NodeId l = folded(Op::add, e, r);
    const int kind = below(9);
    if (kind == 0) add(apply(Op::add, m, apply(Op::log, l)));
    if (kind == 1) add(apply(Op::sub, d, spread(apply(Op::log, l), r)));
    if (kind == 2) add(l);
    if (kind == 3) add(apply(Op::mul, d, spread(apply(Op::rsqrt, apply(Op::add, l, like(l, 0.001))), r)));
    if (kind >= 4) {
      NodeId p = rounded(apply(Op::div, e, spread(l, r)));
      if (kind == 4 && r.mask) p = b().map(Op::select, {r.mask, p, like(p, 0)});
      if (kind <= 5) add(p);
      if (kind == 6) add(folded(Op::add, apply(Op::mul, p, fitting(type(p))), r));
      if (kind == 7) add(folded(Op::add, apply(Op::mul, p, apply(Op::log, p)), r));
      if (kind == 8) weighted(p, r);
    }
    if (chance(25)) add(one_of(std::vector<NodeId>{m, e, l}));
  }
  /// The product with a matrix of a row for each element.
  void weighted(NodeId p, const Rows& r) {
    Shape wide = shape_of(r), rows;
    std::vector<int> axes;
    for (int d : r.reduced) rows.push_back(wide[size_t(d)]), axes.push_back(d);
    wide.push_back(chance(25) ? Expr(1) : Expr(1 + below(20))), rows.push_back(wide.back());
    axes.push_back(int(wide.size()) - 1);
    if (count(wide) > options_.most_points || wide.size() > 5) return;
    std::vector<int> own;
    for (size_t d = 0; d + 1 < wide.size(); ++d) own.push_back(int(d));
    const NodeId values = b().expand(fitting({type(p).dtype, rows}), wide, axes);
    add(b().reduce(Op::add, apply(Op::mul, b().expand(p, wide, own), values), r.reduced));
  }
  void statistics() {
    Rows r = rows();
    if (count(shape_of(r)) > options_.most_points / 4 || !fits(shape_of(r))) return;
    hide(r);
    if (options_.exact || chance(15))
      extremes(r);
    else
      weights(r);
  }
};

} // namespace luminal::testing_ir
