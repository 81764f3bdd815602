// tests/ir/random_folds.h -- random folds and scans over tuples.
#pragma once
#include "ir/random_values.h"

namespace luminal::testing_ir {

class RandomFolds : public RandomValues {
  static constexpr double infinity = std::numeric_limits<double>::infinity();

protected:
  using RandomValues::RandomValues;

  struct Components {
    std::vector<MonoidComponent> list;
    std::vector<NodeId> bodies;
    std::vector<std::vector<int>> body_axes;
  };
  /// Component by component: plain ones over any of the axes, running maxima with their weights,
  /// places of extremes.
  Components components(NodeId x, const Shape& space, const std::vector<int>& x_axes,
                        const std::vector<int>& reduced) {
    Components c;
    auto body = [&](DType t, std::vector<int> axes) {
      Shape s;
      for (int d : axes) s.push_back(space[size_t(d)]);
      c.bodies.push_back(fitting({t, s}));
      c.body_axes.push_back(std::move(axes));
    };
    auto some_axes = [&] {
      std::vector<int> axes;
      for (int d = 0; d < int(space.size()); ++d)
        if (chance(std::ranges::count(reduced, d) ? 80 : 50)) axes.push_back(d);
      return axes;
    };
    const DType t = type(x).dtype;
    c.list.push_back({one_of(folding(t)), t, Scalar::leaf(0)});
    c.bodies.push_back(x), c.body_axes.push_back(x_axes);
    const bool extreme = c.list[0].op == Op::max || c.list[0].op == Op::min;
    if (extreme && chance(30) && t != DType::boolean) { // the place of the extreme
      const char* keep = is_float(t) ? "select(bit_or(old0 == new0, is_nan(old0)), self, inf)"
                                     : "select(old0 == new0, self, inf)";
      const DType places = one_of(std::vector<DType>{DType::i64, DType::i32});
      c.list.push_back({Op::min, places, parse_scalar(keep, monoid_leaf_names(1))});
      const int along = reduced[0];
      c.bodies.push_back(b().iota({space[size_t(along)]}, axis_symbol(0, space[size_t(along)]), places));
      c.body_axes.push_back({along});
    } else if (!options_.exact && c.list[0].op == Op::max && chance(50) &&
               (t == DType::f32 || t == DType::f64)) {
      c.list.push_back(
          {Op::add, t,
           parse_scalar("select(old0 == -inf, 0, self * exp2(old0 - new0))", monoid_leaf_names(1))});
      if (chance(20)) { // all of them masked, or none of them finite
        const double one = one_of(std::vector<double>{-infinity, infinity, -2, std::nan("")});
        c.bodies[0] = b().constant(t, one), c.body_axes[0] = {};
      }
      if (chance(50)) {
        const double one = one_of(std::vector<double>{1, 1, 1, 0.5, 0, infinity, -infinity});
        c.bodies.push_back(b().constant(t, one)), c.body_axes.push_back({});
      } else {
        body(t, some_axes());
      }
      if (chance(40)) {
        c.list.push_back({Op::add, t, c.list[1].transform});
        body(t, some_axes());
      }
    }
    while (chance(35) && c.list.size() < 4) {
      const DType other = chance(50) ? t : dtype();
      if (folding(other).empty()) continue;
      c.list.push_back({one_of(folding(other)), other, Scalar::leaf(0)});
      body(other, some_axes());
    }
    return c;
  }
  NodeId folded_value() {
    return pick_if([&](const TensorType& t) { return !t.shape.empty() && !folding(t.dtype).empty(); },
                   {chance(50) ? DType::f32 : DType::i32, {1 + below(300)}});
  }
  void fold() {
    NodeId x = folded_value();
    Shape space = type(x).shape;
    std::vector<int> x_axes, reduced;
    const int extra =
        space.size() < 4 && chance(30) ? below(int(space.size()) + 1) : -1; // an axis that x does not have
    if (extra >= 0) space.insert(space.begin() + extra, extent());
    if (count(space) > options_.most_points) return;
    for (int d = 0; d < int(space.size()); ++d)
      if (d != extra) x_axes.push_back(d);
    for (int d = 0; d < int(space.size()); ++d)
      if (chance(d == extra ? 25 : 50)) reduced.push_back(d);
    if (reduced.empty()) reduced.push_back(one_of(x_axes));
    Components c = components(x, space, x_axes, reduced);
    FoldAttr fold{.monoid = Monoid::intern(c.list),
                  .space = space,
                  .reduced = reduced,
                  .body_axes = c.body_axes,
                  .where = 1,
                  .holes = {}};
    std::vector<NodeId> inputs = c.bodies;
    if (chance(25)) fold.where = condition(space);
    if (at_->entry && chance(10)) { // a length for each row
      const int along = reduced[0];
      const int64_t most = space[size_t(along)].range().high;
      Hole h{int(inputs.size()), {}, {0, most}, chance(50) ? OutOfRange::clamp : OutOfRange::error};
      Shape s;
      for (int d = 0; d < int(space.size()); ++d)
        if (!std::ranges::count(reduced, d) && chance(70)) h.axes.push_back(d), s.push_back(space[size_t(d)]);
      inputs.push_back(input({DType::i32, s}, Style::index, 0, most));
      fold.holes = {h};
      fold.where =
          logical_and(fold.where, lt(axis_symbol(along, space[size_t(along)]), hole_symbol(0, h.range)));
    }
    int64_t work = count(space) * int64_t(c.list.size());
    for (int k = 0; k < fold.monoid.size(); ++k) {
      Shape s;
      for (int d : result_axes(fold, k)) s.push_back(space[size_t(d)]);
      if (!fits(s) || work > options_.most_points) return;
    }
    read(b().add(fold, inputs), c.list.size());
  }
  void scan() {
    NodeId x = folded_value();
    Shape space = type(x).shape;
    const int along = below(int(space.size()));
    std::vector<int> all;
    for (int d = 0; d < int(space.size()); ++d) all.push_back(d);
    Components c = components(x, space, all, {along});
    ScanAttr scan{.monoid = Monoid::intern(c.list),
                  .space = space,
                  .axis = along,
                  .body_axes = c.body_axes,
                  .exclusive = chance(30),
                  .reverse = chance(30)};
    if (count(space) * now(space[size_t(along)]) * int64_t(c.list.size()) > 4 * options_.most_points) return;
    read(b().add(scan, c.bodies), c.list.size());
  }
};

} // namespace luminal::testing_ir
