// compile/sort.cpp -- a sort as folds, binary searches and scatters.
#include "compile/sort.h"
#include <algorithm>

namespace luminal::compile {
namespace {

constexpr int64_t short_axis = 2048; // up to this, counting is less work than merging
constexpr int64_t block = 256;       // what merging begins with

class Sorter {
public:
  Sorter(FunctionBuilder& b, const SortAttr& sort, NodeId keys)
      : b_(b), axis_(sort.axis), descending_(sort.descending), keys_(keys), type_(b[keys].type()),
        extent_(type_.shape[size_t(axis_)]), i_(axis_symbol(axis_, extent_)) {
    const int64_t most = extent_.range().high; // an axis without elements has no places, and asks for none
    places_ = {0, most == unbounded_high ? most : std::max<int64_t>(most - 1, 0)};
  }

  bool is_long() const { return extent_.range().high > short_axis; }

  /// Where each element goes: it counts those that come before it, among `count` ones from `first` on.
  NodeId positions(Expr first, Expr count) {
    const int rank = int(type_.shape.size());
    Shape space = type_.shape;
    space.push_back(count);
    const Expr j = first + axis_symbol(rank, count);
    std::vector<Expr> at_i, at_j;
    for (int d = 0; d < rank; d++) {
      at_i.push_back(axis_symbol(d, space[size_t(d)]));
      at_j.push_back(d == axis_ ? j : at_i.back());
    }
    const Expr inside = lt(j, extent_);
    NodeId x = b_.view(keys_, space, at_i), y = b_.view(keys_, space, at_j, inside);
    NodeId earlier = b_.iota(space, lt(j, i_), DType::boolean);
    NodeId counts = b_.cast(
        b_.map(Op::bit_or, {less(y, x), b_.map(Op::bit_and, {b_.map(Op::bit_not, {less(x, y)}), earlier})}),
        DType::i64);
    FoldAttr fold;
    fold.monoid = Monoid::plain(Op::add, DType::i64);
    fold.space = space;
    fold.reduced = {rank};
    fold.body_axes.emplace_back();
    for (int d = 0; d <= rank; d++) fold.body_axes[0].push_back(d);
    fold.where = inside;
    NodeId before = b_.get(b_.add(std::move(fold), {counts}), 0);
    return first.is_constant(0) ? before : b_.map(Op::add, {before, b_.iota(type_.shape, first)});
  }

  /// x with each element at its position.
  NodeId moved(NodeId x, NodeId position) {
    ScatterAttr scatter;
    std::vector<int> all;
    for (int d = 0; d < int(type_.shape.size()); d++) {
      all.push_back(d);
      scatter.map.push_back(axis_symbol(d, type_.shape[size_t(d)]));
    }
    scatter.map[size_t(axis_)] = hole_symbol(0, places_);
    scatter.holes.push_back({.input = 2, .axes = all, .range = places_, .policy = OutOfRange::clamp});
    scatter.unique = true;
    NodeId base = b_.view(b_.constant(b_[x].type().dtype, 0), type_.shape, {});
    return b_.add(scatter, {base, x, position});
  }

  /// x at the places in the order of the result.
  NodeId picked(NodeId x, NodeId order) {
    ViewAttr view;
    view.shape = type_.shape;
    std::vector<int> all;
    for (int d = 0; d < int(type_.shape.size()); d++) {
      all.push_back(d);
      view.map.push_back(d == axis_ ? hole_symbol(0, places_) : axis_symbol(d, type_.shape[size_t(d)]));
    }
    view.holes.push_back({.input = 1, .axes = all, .range = places_, .policy = OutOfRange::clamp});
    return b_.add(view, {x, order});
  }

  /// Keys in order, and the place that each came from.
  std::pair<NodeId, NodeId> merged() {
    NodeId order = b_.iota(type_.shape, i_);
    NodeId position = positions(floordiv(i_, block) * block, block);
    keys_ = moved(keys_, position);
    order = moved(order, position);
    for (int64_t width = block; width < extent_.range().high; width *= 2) {
      position = merge_positions(width);
      keys_ = moved(keys_, position);
      order = moved(order, position);
    }
    return {keys_, order};
  }

private:
  /// a comes before b whatever their places; NaN after every number.
  NodeId less(NodeId a, NodeId b) {
    NodeId result = descending_ ? b_.map(Op::lt, {b, a}) : b_.map(Op::lt, {a, b});
    if (!is_float(type_.dtype)) return result;
    NodeId number = b_.map(Op::bit_not, {b_.map(Op::is_nan, {a})});
    return b_.map(Op::bit_or, {result, b_.map(Op::bit_and, {number, b_.map(Op::is_nan, {b})})});
  }

  /// Of blocks of `width` in order, pairs become blocks of twice the width.
  NodeId merge_positions(int64_t width) {
    const Shape& shape = type_.shape;
    const Expr mine = floordiv(i_, width), is_right = mod(mine, 2);
    const Expr other = (mine + 1 - is_right * 2) * width; // where the other block of the pair begins
    const Expr length = max(min(extent_ - other, width), Expr(0));
    auto number = [&](Expr value) { return b_.iota(shape, value); };
    NodeId right = b_.iota(shape, eq(is_right, 1), DType::boolean);
    NodeId place = number(0); // so many elements of the other block surely come before
    std::vector<int> all;
    for (int d = 0; d < int(shape.size()); d++) all.push_back(d);
    for (int64_t step = width; step > 0; step /= 2) {
      NodeId next = b_.map(Op::add, {place, number(step)});
      ViewAttr view;
      view.shape = shape;
      const Interval range{0, 2 * width};
      const Expr at = hole_symbol(0, range);
      for (int d = 0; d < int(shape.size()); d++)
        view.map.push_back(d == axis_ ? other + at - 1 : axis_symbol(d, shape[size_t(d)]));
      view.predicate = logical_and(ge(at, 1), le(at, length));
      view.holes.push_back({.input = 1, .axes = all, .range = range, .policy = OutOfRange::clamp});
      NodeId y = b_.add(view, {keys_, next});
      // Of equal ones the left block's come first.
      NodeId comes = b_.map(Op::select, {right, b_.map(Op::bit_not, {less(keys_, y)}), less(y, keys_)});
      NodeId there = b_.map(Op::le, {next, number(length)});
      place = b_.map(Op::select, {b_.map(Op::bit_and, {there, comes}), next, place});
    }
    return b_.map(Op::add, {place, number(floordiv(mine, 2) * (2 * width) + mod(i_, width))});
  }

  FunctionBuilder& b_;
  int axis_;
  bool descending_;
  NodeId keys_;
  TensorType type_;
  Expr extent_, i_;
  Interval places_;
};

} // namespace

std::vector<NodeId> sorted_operands(FunctionBuilder& b, const SortAttr& sort,
                                    const std::vector<NodeId>& inputs) {
  Sorter sorter(b, sort, inputs[0]);
  std::vector<NodeId> sorted;
  if (!sorter.is_long()) {
    NodeId position = sorter.positions(0, b[inputs[0]].type().shape[size_t(sort.axis)]);
    for (NodeId input : inputs) sorted.push_back(sorter.moved(input, position));
    return sorted;
  }
  auto [keys, order] = sorter.merged();
  sorted.push_back(keys);
  for (size_t k = 1; k < inputs.size(); k++) sorted.push_back(sorter.picked(inputs[k], order));
  return sorted;
}

} // namespace luminal::compile
