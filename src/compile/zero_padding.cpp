// compile/zero_padding.cpp -- what sums of products leave out beside the rows of an image, and what
// that would have added.
#include "compile/zero_padding.h"
#include "compile/space_axes.h"
#include <algorithm>
#include <set>

namespace luminal::compile {
namespace {

const ViewAttr* plain_view(const Function& f, NodeId id) {
  const auto* view = std::get_if<ViewAttr>(&f[id].attr);
  return view && view->holes.empty() && f[id].type().dtype == DType::f32 ? view : nullptr;
}

/// Steps are left out of columns point by point, in code of its own for each tile that some lie
/// beside: no more columns than this.
constexpr int64_t widest_edge = 12;

/// The columns for which some step lies beside the image.
int64_t edge_of(const PaddingRegion& columns, const Shape& space) {
  const Expr axis = axis_symbol(columns.row, space[size_t(columns.row)]);
  int64_t n = 0;
  for (int64_t j = 0; j < space[size_t(columns.row)].value() && n <= widest_edge; j++)
    n += prove(substitute(columns.inside, {{axis, Expr(j)}})) != Truth::yes;
  return n;
}

NodeId append(Function& to, NodeKind kind, Attr attr, std::vector<NodeId> inputs, Shape shape) {
  Node node;
  node.kind = kind;
  node.types = {{DType::f32, std::move(shape)}};
  node.attr = std::move(attr);
  node.inputs = std::move(inputs);
  return to.nodes.add(std::move(node));
}

/// The sum over the axes from `kept` on.
NodeId append_sum(Function& to, NodeId body, const Shape& space, int kept, Expr where = 1) {
  FoldAttr fold;
  fold.monoid = Monoid::plain(Op::add, DType::f32);
  fold.space = space;
  fold.where = where;
  fold.body_axes.resize(1);
  for (int d = 0; d < int(space.size()); d++) (d < kept ? fold.body_axes[0] : fold.reduced).push_back(d);
  fold.body_axes[0].insert(fold.body_axes[0].end(), fold.reduced.begin(), fold.reduced.end());
  const Shape shape(space.begin(), space.begin() + kept);
  const NodeId sum = append(to, NodeKind::fold, std::move(fold), {body}, shape);
  return append(to, NodeKind::get, GetAttr{0}, {sum}, shape);
}

} // namespace

std::vector<PaddingRegion> padding_regions_of(const Function& f, NodeId id) {
  const auto* fold = std::get_if<FoldAttr>(&f[id].attr);
  if (!fold || fold->monoid != Monoid::plain(Op::add, DType::f32) || !fold->where.is_constant(1) ||
      !fold->holes.empty() || fold->body_axes[0].size() != fold->space.size() ||
      std::ranges::any_of(fold->space, [](Expr extent) { return !extent.is_constant(); }))
    return {};
  const Node& product = f[f[id].inputs[0]];
  const auto* map = std::get_if<MapAttr>(&product.attr);
  if (!map || map->op != Op::mul || !map->user_op.empty()) return {};
  for (int i : {0, 1}) {
    const ViewAttr *x = plain_view(f, product.inputs[size_t(i)]),
                   *w = plain_view(f, product.inputs[size_t(1 - i)]);
    if (!x || !w || x->fill != 0 || x->predicate.is_constant(1) || x->map.empty()) continue;
    const std::set<int> run = axes_in(x->map.back(), x->shape), still = axes_of(*w);
    const auto reduced = [&](int a) { return std::ranges::find(fold->reduced, a) != fold->reduced.end(); };
    const PaddingRegion none{1, -1, 1 - i};
    PaddingRegion columns = none;
    std::vector<PaddingRegion> rows; // of images, planes of volumes
    std::vector<Expr> conditions{x->predicate};
    if (x->predicate.kind() == ExprKind::logical_and)
      conditions.assign(x->predicate.args().begin(), x->predicate.args().end());
    for (Expr condition : conditions) {
      if (condition.kind() != ExprKind::lt) continue;
      std::vector<int> kept;
      for (int a : axes_in(condition, x->shape))
        if (!reduced(a)) kept.push_back(a);
      if (kept.size() != 1 || still.contains(kept[0])) continue;
      PaddingRegion* region = &columns;
      if (!run.contains(kept[0])) {
        const auto known = std::ranges::find(rows, kept[0], &PaddingRegion::row);
        region = known == rows.end() ? &rows.emplace_back(none) : &*known;
      }
      if (region->row >= 0 && kept[0] != region->row) continue;
      region->row = kept[0];
      region->inside = logical_and(region->inside, condition);
    }
    if (rows.empty()) continue;
    if (columns.row >= 0 && edge_of(columns, x->shape) <= widest_edge) rows.push_back(columns);
    return rows;
  }
  return {};
}

NodeId add_outside(Function& to, const PaddingRegion& region, const FoldAttr& fold, NodeId sum, NodeId other,
                   std::vector<NodeId>& made) {
  const Shape& space = fold.space;
  const auto reduced = [&](int a) { return std::ranges::find(fold.reduced, a) != fold.reduced.end(); };
  // The axes that both sums keep (the constant's own), those of the condition, all others.
  std::vector<int> own, edge, rest;
  const std::set<int> varies = axes_of(std::get<ViewAttr>(to[other].attr)),
                      condition = axes_in(region.inside, space);
  for (int a = 0; a < int(space.size()); a++) {
    if (a == region.row) continue;
    if (condition.contains(a))
      edge.push_back(a);
    else if (varies.contains(a))
      (reduced(a) ? rest : own).push_back(a);
  }
  const auto extents = [&](std::initializer_list<std::vector<int>> lists) {
    Shape shape;
    for (auto& list : lists)
      for (int a : list) shape.push_back(space[size_t(a)]);
    return shape;
  };
  // x - x is 0 times x, for each step of the condition: a sum over all others.
  const Shape all = extents({own, edge, rest}), few = extents({own, edge});
  std::vector<int> order = own;
  for (auto* list : {&edge, &rest}) order.insert(order.end(), list->begin(), list->end());
  ViewAttr view;
  view.shape = all;
  for (int a = 0; a < int(space.size()); a++) {
    const auto at = std::ranges::find(order, a);
    view.map.push_back(at == order.end() ? Expr(0) : axis_symbol(int(at - order.begin()), space[size_t(a)]));
  }
  const NodeId constant = append(to, NodeKind::view, std::move(view), {other}, all);
  const NodeId zeros = append(to, NodeKind::map, MapAttr{Op::sub, {}}, {constant, constant}, all);
  const NodeId steps = append_sum(to, zeros, all, int(few.size()));
  // Of each row the steps outside. The constant's axes are the last ones kept: lanes run along
  // them.
  const Shape rows = extents({{region.row}, own, edge});
  ViewAttr by_row;
  by_row.shape = rows;
  for (size_t d = 0; d < few.size(); d++) by_row.map.push_back(axis_symbol(int(d) + 1, few[d]));
  const NodeId each = append(to, NodeKind::view, std::move(by_row), {steps}, rows);
  ExprMap<Expr> places{{axis_symbol(region.row, space[size_t(region.row)]), axis_symbol(0, rows[0])}};
  for (size_t d = 0; d < edge.size(); d++) {
    const int at = int(1 + own.size() + d);
    places[axis_symbol(edge[d], space[size_t(edge[d])])] = axis_symbol(at, rows[size_t(at)]);
  }
  const NodeId sums =
      append_sum(to, each, rows, int(1 + own.size()), logical_not(substitute(region.inside, places)));
  made.insert(made.end(), {steps, sums});
  ViewAttr spread;
  for (int a = 0; a < int(space.size()); a++)
    if (!reduced(a)) spread.shape.push_back(space[size_t(a)]);
  const auto place = [&](int axis) {
    int d = 0;
    for (int a = 0; a < axis; a++) d += !reduced(a);
    return axis_symbol(d, space[size_t(axis)]);
  };
  spread.map.push_back(place(region.row));
  for (int a : own) spread.map.push_back(place(a));
  const Shape shape = spread.shape;
  const NodeId outside = append(to, NodeKind::view, std::move(spread), {sums}, shape);
  return append(to, NodeKind::map, MapAttr{Op::add, {}}, {sum, outside}, shape);
}

} // namespace luminal::compile
