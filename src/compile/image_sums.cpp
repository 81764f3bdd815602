// compile/image_sums.cpp -- a change of variable: from the step of a window to the element that it reads.
#include "compile/image_sums.h"
#include "compile/fuse_demand.h"
#include "compile/pass_list.h"
#include "compile/rewrite.h"
#include "compile/space_axes.h"
#include <algorithm>
#include <optional>
#include <set>

namespace luminal::compile {
namespace {

/// One axis of the windows. The element read is at + step.
struct Exchange {
  int step;      ///< the summed axis
  Expr at;       ///< over kept axes
  int64_t image; ///< elements
};
struct ImageSum {
  int weight = 0; ///< which factor of the product is not read through windows
  std::vector<Exchange> exchanges;
};

bool is_summed(const FoldAttr& fold, int axis) {
  return std::ranges::find(fold.reduced, axis) != fold.reduced.end();
}

/// The view that a factor of a product is, perhaps converted to another type.
const Node* view_below(const Function& f, NodeId id) {
  const Node* node = &f[id];
  if (node->kind == NodeKind::cast) node = &f[node->inputs[0]];
  const auto* view = std::get_if<ViewAttr>(&node->attr);
  return view && view->holes.empty() ? node : nullptr;
}

/// Is each step of the window inside of it, for every element of the image and every result?
bool always_inside(const Exchange& e, const Shape& space) {
  const Expr step = axis_symbol(e.step, e.image) - e.at;
  return prove(le(0, step)) == Truth::yes && prove(lt(step, space[size_t(e.step)])) == Truth::yes;
}

std::optional<ImageSum> image_sum(const Function& f, NodeId id) {
  const auto* fold = std::get_if<FoldAttr>(&f[id].attr);
  if (!fold || !fold->where.is_constant(1) || !fold->holes.empty() || fold->body_axes.size() != 1 ||
      fold->body_axes[0].size() != fold->space.size())
    return {};
  const Node& product = f[f[id].inputs[0]];
  const auto* map = std::get_if<MapAttr>(&product.attr);
  if (!map || map->op != Op::mul || !map->user_op.empty() || !is_float(product.type().dtype) ||
      fold->monoid != Monoid::plain(Op::add, product.type().dtype))
    return {};
  const Shape& space = fold->space;
  for (int i : {0, 1}) {
    const Node *read = view_below(f, product.inputs[size_t(i)]),
               *weight = view_below(f, product.inputs[size_t(1 - i)]);
    if (!read || !weight) continue;
    const auto& x = std::get<ViewAttr>(read->attr);
    if (x.fill != 0 || x.predicate.is_constant(1)) continue;
    const std::set<int> still = axes_of(std::get<ViewAttr>(weight->attr));
    const Shape& image = f[read->inputs[0]].type().shape;
    ImageSum sum{1 - i, {}};
    // `element`: of a dimension with so many of them, over one summed axis and kept ones.
    const auto exchange = [&](Expr element, int64_t elements) {
      int step = -1;
      int64_t results = 1;
      for (int a : axes_in(element, space)) {
        if (!space[size_t(a)].is_constant() || (is_summed(*fold, a) ? step >= 0 : still.contains(a))) return;
        if (is_summed(*fold, a))
          step = a;
        else
          results *= space[size_t(a)].value();
      }
      if (step < 0 || !still.contains(step)) return;
      const Expr axis = axis_symbol(step, space[size_t(step)]);
      const auto coefficient = coefficient_of(element, axis);
      const int64_t steps = space[size_t(step)].value();
      if (!coefficient || !coefficient->is_constant(1) || elements >= steps || elements * results > steps)
        return;
      int dimensions = 0; // that are read along the axis
      for (Expr e : x.map) dimensions += depends_on(e, axis);
      const Exchange e{step, substitute(element, {{axis, Expr(0)}}), elements};
      if (dimensions <= 1 && std::ranges::find(sum.exchanges, step, &Exchange::step) == sum.exchanges.end() &&
          always_inside(e, space))
        sum.exchanges.push_back(e);
    };
    for (size_t d = 0; d < x.map.size(); d++)
      if (image[d].is_constant() && image[d].value() > 0) exchange(x.map[d], image[d].value());
    // Of a dimension of one element the condition alone may say which step reads it.
    std::vector<Expr> conditions{x.predicate};
    if (x.predicate.kind() == ExprKind::logical_and)
      conditions.assign(x.predicate.args().begin(), x.predicate.args().end());
    for (Expr condition : conditions)
      if (condition.kind() == ExprKind::eq)
        for (const int sign : {1, -1}) exchange((condition.args()[0] - condition.args()[1]) * sign, 1);
    if (!sum.exchanges.empty()) return sum;
  }
  return {};
}

class Rewriter {
public:
  Rewriter(FunctionBuilder& to, const Function& from, NodeId id, const ImageSum& sum)
      : to_(to), fold_(std::get<FoldAttr>(from[id].attr)), sum_(sum), space_(fold_.space) {
    for (const Exchange& e : sum.exchanges) space_[size_t(e.step)] = e.image;
  }

  NodeId run(const Function& from, NodeId id, const IdVector<NodeId, NodeId>& copies) {
    const Node& product = from[from[id].inputs[0]];
    std::vector<NodeId> factors;
    for (int i : {0, 1}) {
      const NodeId factor = product.inputs[size_t(i)];
      const bool converted = from[factor].kind == NodeKind::cast;
      NodeId read = copies[converted ? from[factor].inputs[0] : factor];
      if (i == sum_.weight) read = below_copies(read);
      NodeId made = i == sum_.weight
                        ? weights(read, axes_of(std::get<ViewAttr>(view_below(from, factor)->attr)))
                        : to_.view(read, space_, places(space_));
      if (converted) made = to_.cast(made, from[factor].type().dtype);
      factors.push_back(made);
    }
    FoldAttr fold = fold_;
    fold.space = space_;
    const NodeId inside = to_.get(to_.add(std::move(fold), {to_.map(Op::mul, factors)}), 0);
    return to_.map(
        Op::add,
        {inside,
         outside(below_copies(copies[product.inputs[size_t(sum_.weight)]]),
                 axes_of(std::get<ViewAttr>(view_below(from, product.inputs[size_t(sum_.weight)])->attr)))});
  }

private:
  /// A view of a copy as a view of what was copied, since this pass chooses the order of elements itself.
  /// Copies of weights stay: they are made at load.
  NodeId below_copies(NodeId id) {
    const auto* outer = std::get_if<ViewAttr>(&to_[id].attr);
    if (!outer || !outer->holes.empty() || !outer->predicate.is_constant(1)) return id;
    NodeId below = to_[id].inputs[0];
    if (to_[below].kind == NodeKind::fence) below = to_[below].inputs[0];
    const auto* inner = std::get_if<ViewAttr>(&to_[below].attr);
    if (!inner || !inner->holes.empty() || !inner->predicate.is_constant(1)) return id;
    const auto* input = std::get_if<InputAttr>(&to_[to_[below].inputs[0]].attr);
    if (input && input->role == Role::weight) return id;
    const Shape shape = outer->shape;
    return below_copies(to_.view(to_[below].inputs[0], shape, through(inner->shape, inner->map, outer->map)));
  }

  /// Of each axis of the fold that is rewritten, its place over the axes of the new one, which are axes of
  /// `shape` in the same order.
  std::vector<Expr> places(const Shape& shape) const {
    std::vector<Expr> map;
    for (size_t d = 0; d < shape.size(); d++) map.push_back(axis_symbol(int(d), shape[d]));
    for (const Exchange& e : sum_.exchanges) map[size_t(e.step)] = map[size_t(e.step)] - e.at;
    return map;
  }

  /// What the sum reads of the weights, in memory, without the axes that it does not vary with.
  NodeId weights(NodeId read, std::set<int> axes) {
    for (const Exchange& e : sum_.exchanges) axes.merge(axes_in(e.at, fold_.space));
    std::vector<int> order; // summed ones first: the results are contiguous
    for (const bool summed : {true, false})
      for (int a : axes)
        if (is_summed(fold_, a) == summed) order.push_back(a);
    Shape shape;
    ExprMap<Expr> moved;
    for (int a : order) {
      if (const Expr axis = axis_symbol(a, space_[size_t(a)]); axis.is_symbol())
        moved[axis] = axis_symbol(int(shape.size()), space_[size_t(a)]);
      shape.push_back(space_[size_t(a)]);
    }
    std::vector<Expr> from = places(space_), back;
    for (size_t d = 0; d < from.size(); d++) {
      // (An axis that the weights do not vary with is read at 0.)
      for (size_t a = 0; a < space_.size(); a++)
        if (const Expr axis = axis_symbol(int(a), space_[a]); axis.is_symbol() && !axes.contains(int(a)))
          moved[axis] = 0;
      from[d] = substitute(from[d], moved);
    }
    for (int a : order) back.push_back(axis_symbol(a, space_[size_t(a)]));
    const NodeId ordered = below_copies(to_.view(read, shape, from));
    const bool lies_so =
        is_reshape(std::get<ViewAttr>(to_[ordered].attr), to_[to_[ordered].inputs[0]].type().shape);
    return to_.view(lies_so ? ordered : to_.add(FenceAttr{}, {ordered}), space_, back);
  }

  NodeId summed(NodeId body, const Shape& space, size_t kept, Expr where) {
    FoldAttr fold;
    fold.monoid = Monoid::plain(Op::add, to_[body].type().dtype);
    fold.space = space;
    fold.where = where;
    fold.body_axes.resize(1);
    for (size_t d = 0; d < space.size(); d++) {
      if (d >= kept) fold.reduced.push_back(int(d));
      fold.body_axes[0].push_back(int(d));
    }
    return to_.get(to_.add(std::move(fold), {body}), 0);
  }

  /// What the steps beside the image add: x - x, which is 0 times x, of each weight; over the results.
  NodeId outside(NodeId weight, const std::set<int>& axes) {
    const Shape& space = fold_.space;
    std::set<int> steps, results;
    for (const Exchange& e : sum_.exchanges) {
      if (axes.contains(e.step)) steps.insert(e.step);
      results.merge(axes_in(e.at, space));
    }
    std::vector<int> own, order; // axes of the weight that are kept; those, steps, all other summed ones
    for (int a : axes)
      if (!is_summed(fold_, a)) own.push_back(a);
    order = own;
    order.insert(order.end(), steps.begin(), steps.end());
    const size_t few = order.size();
    for (int a : axes)
      if (is_summed(fold_, a) && !steps.contains(a)) order.push_back(a);
    const auto extents = [&](const std::vector<int>& list) {
      Shape shape;
      for (int a : list) shape.push_back(space[size_t(a)]);
      return shape;
    };
    const auto place = [&](const std::vector<int>& list, int axis) {
      const auto at = std::ranges::find(list, axis);
      return at == list.end() ? Expr(0) : axis_symbol(int(at - list.begin()), space[size_t(axis)]);
    };
    std::vector<Expr> map;
    for (int a = 0; a < int(space.size()); a++) map.push_back(place(order, a));
    const NodeId each = to_.view(weight, extents(order), map);
    NodeId zeros = to_.map(Op::sub, {each, each});
    if (order.size() > few) zeros = summed(zeros, extents(order), few, 1);
    // Of each result the steps outside. The weight's axes are the last ones kept: lanes run along them.
    std::vector<int> kept(results.begin(), results.end());
    kept.insert(kept.end(), own.begin(), own.end());
    std::vector<int> all = kept;
    all.insert(all.end(), steps.begin(), steps.end());
    std::vector<Expr> by_result;
    for (size_t d = 0; d < few; d++) by_result.push_back(place(all, order[d]));
    Expr inside = 1;
    for (const Exchange& e : sum_.exchanges) {
      ExprMap<Expr> moved;
      for (int a : all)
        if (const Expr axis = axis_symbol(a, space[size_t(a)]); axis.is_symbol()) moved[axis] = place(all, a);
      const Expr at = substitute(e.at + axis_symbol(e.step, space[size_t(e.step)]), moved);
      inside = logical_and(inside, logical_and(le(0, at), lt(at, e.image)));
    }
    const NodeId sums =
        summed(to_.view(zeros, extents(all), by_result), extents(all), kept.size(), logical_not(inside));
    Shape shape;
    std::vector<Expr> spread;
    ExprMap<Expr> result; // axes of the fold -> those of its result
    for (int a = 0; a < int(space.size()); a++)
      if (!is_summed(fold_, a)) {
        result[axis_symbol(a, space[size_t(a)])] = axis_symbol(int(shape.size()), space[size_t(a)]);
        shape.push_back(space[size_t(a)]);
      }
    for (int a : kept) spread.push_back(result.at(axis_symbol(a, space[size_t(a)])));
    return to_.view(sums, shape, spread);
  }

  FunctionBuilder& to_;
  const FoldAttr& fold_;
  const ImageSum& sum_;
  Shape space_;
};

} // namespace

bool has_windows_beyond_images(const Function& function) {
  for (NodeId id : function.nodes.ids())
    if (function[id].kind == NodeKind::fold && image_sum(function, id)) return true;
  return false;
}

Function sums_over_images(const Module& module, const Function& function) {
  return rebuild(module, function,
                 [&](FunctionBuilder& target, NodeId id, const IdVector<NodeId, NodeId>& copies,
                     std::vector<NodeId>& values) {
                   if (function[id].kind != NodeKind::fold) return false;
                   const auto sum = image_sum(function, id);
                   if (!sum) return false;
                   values = {Rewriter(target, function, id, *sum).run(function, id, copies)};
                   return true;
                 });
}

Result<void> exchange_windows(PlanState& state, FunctionPlan& f) {
  if (f.role != FunctionRole::check && has_windows_beyond_images(*f.function))
    f.function = &state.keep(sums_over_images(state.module, *f.function));
  return {};
}

} // namespace luminal::compile
