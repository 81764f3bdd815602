// ir/passes/fold_order.cpp -- a fold whose result is read with its axes in another order makes it in that
// order: the gradient of a weight that is read transposed lies as the weight does. So does a sum of products
// of narrow numbers of which a result of the function is made by maps and casts. Elements are summed in the
// order in which they were, so no bit changes.
#include "ir/passes/edit.h"
#include <algorithm>
#include <numeric>

namespace luminal::passes {
namespace {

constexpr int most_maps = 8; // one above the other

/// The fold of one component whose result this is, where one node reads that; none otherwise. (Equal nodes
/// are one: nobody else has this result.)
std::optional<NodeId> fold_of(const Rebuild& r, NodeId get) {
  if (r[get].kind != NodeKind::get || !r.used_once(get)) return {};
  const NodeId tuple = r[get].inputs[0];
  if (r[tuple].kind != NodeKind::fold) return {};
  const auto& attr = std::get<FoldAttr>(r[tuple].attr);
  if (attr.monoid.size() != 1 || !attr.holes.empty()) return {};
  return tuple;
}

/// A sum of products of numbers that are narrower than their sum. (Units that multiply them store results as
/// these lie; lanes of wider ones are turned in registers.)
bool multiplies_narrow(const Rebuild& r, const Node& fold) {
  const auto behind_views = [&](NodeId id) {
    while (r[id].kind == NodeKind::view) id = r[id].inputs[0];
    return id;
  };
  const Node& body = r[behind_views(fold.inputs[0])];
  const auto* map = std::get_if<MapAttr>(&body.attr);
  return map && map->op == Op::mul && map->user_op.empty() &&
         std::ranges::all_of(body.inputs, [&](NodeId in) {
           const NodeId factor = behind_views(in);
           return r[factor].kind == NodeKind::cast &&
                  bits(r.type(r[factor].inputs[0]).dtype) < bits(r.type(factor).dtype);
         });
}

/// Is it such a sum, or made of one by maps and casts that nobody else reads?
bool made_of_narrow(const Rebuild& r, NodeId id, int depth = 0) {
  if (!is_elementwise(r[id]) || !r.used_once(id) || depth == most_maps) {
    const auto fold = fold_of(r, id);
    return fold && multiplies_narrow(r, r[*fold]);
  }
  return std::ranges::any_of(r[id].inputs, [&](NodeId in) { return made_of_narrow(r, in, depth + 1); });
}

} // namespace

std::optional<std::vector<int>> permutation_of(const ViewAttr& view, const Shape& source, bool singles) {
  if (!view.predicate.is_constant(1) || !view.holes.empty() || view.shape.size() != source.size()) return {};
  std::vector<int> of(source.size(), -1);
  std::vector<bool> taken(source.size());
  for (size_t k = 0; k < source.size(); ++k)
    for (size_t d = 0; d < view.shape.size() && of[k] < 0; ++d) {
      const Expr axis = axis_symbol(int(d), view.shape[d]);
      const bool single =
          singles && source[k].is_constant(1) && view.shape[d].is_constant(1) && view.map[k].is_constant(0);
      if (taken[d] || view.shape[d] != source[k] || !(single || (axis.is_symbol() && axis == view.map[k])))
        continue;
      of[k] = int(d), taken[d] = true;
    }
  bool identity = true;
  for (size_t k = 0; k < of.size(); ++k) {
    if (of[k] < 0) return {};
    identity &= of[k] == int(k);
  }
  if (identity) return {};
  return of;
}

std::optional<NodeId> viewed(Rebuild& r, NodeId id, const ViewAttr& view, int depth) {
  const Node node = r[id]; // a copy: what is put down may move it
  if (is_elementwise(node) && r.used_once(id) && depth < most_maps) {
    std::vector<NodeId> inputs;
    for (const NodeId in : node.inputs) {
      auto made = viewed(r, in, view, depth + 1);
      if (!made) return {};
      inputs.push_back(*made);
    }
    return r.put({node.kind,
                  node.attr,
                  std::move(inputs),
                  {TensorType{node.type().dtype, view.shape}},
                  {},
                  {},
                  node.origin});
  }
  if (auto turned = scan_from_end(r, id, view)) return turned;
  auto made = r.add(view, {id});
  if (!made) return {};
  const Node put = r[*made];
  if (auto simpler = view_rule(r, put, Numerics::exact)) return simpler;
  if (made_of_narrow(r, id))
    if (auto turned = fold_order_rule(r, put)) return turned;
  return made;
}

std::optional<NodeId> fold_order_rule(Rebuild& r, const Node& node) {
  if (node.kind != NodeKind::view) return {};
  const NodeId get = node.inputs[0];
  const auto& view = std::get<ViewAttr>(node.attr);
  const Shape shape = r.type(get).shape;
  auto order = permutation_of(view, shape, /*singles=*/true);
  if (!order) return {};
  const bool narrow = made_of_narrow(r, get);
  if (!narrow) order = permutation_of(view, shape, /*singles=*/false);
  if (!order) return {};
  // (What another fold reads may lie in either order.)
  if (narrow && is_elementwise(r[get]) && r.current_is_result()) return viewed(r, get, view);
  const auto tuple = fold_of(r, get);
  if (!tuple) return {};
  return fold_in_order(r, *tuple, *order, narrow);
}

std::optional<NodeId> fold_in_order(Rebuild& r, NodeId tuple, const std::vector<int>& order,
                                    bool kept_first) {
  const Node fold = r[tuple];
  const auto& attr = std::get<FoldAttr>(fold.attr);

  // Results keep the places of their axes in the space, in another order.
  const std::vector<int> kept = result_axes(attr, 0);
  std::vector<int> axes(attr.space.size()), place(axes.size());
  std::iota(axes.begin(), axes.end(), 0);
  if (kept_first)
    std::ranges::stable_partition(axes, [&](int a) { return std::ranges::find(kept, a) != kept.end(); });
  for (size_t a = 0; a < axes.size(); ++a) place[size_t(axes[a])] = int(a);
  const std::vector<int> before = place;
  for (size_t k = 0; k < kept.size(); ++k) place[size_t(kept[k])] = before[size_t(kept[size_t(order[k])])];
  FoldAttr made{
      .monoid = attr.monoid, .space = attr.space, .reduced = {}, .body_axes = {{}}, .where = 1, .holes = {}};
  for (const int a : attr.reduced) made.reduced.push_back(place[size_t(a)]);
  std::vector<Expr> at;
  for (size_t a = 0; a < place.size(); ++a) {
    made.space[size_t(place[a])] = attr.space[a];
    at.push_back(axis_symbol(place[a], attr.space[a]));
  }
  auto where = AxisReplacement(attr.space, at)(attr.where);
  if (!where) return {};
  made.where = *where;
  for (const int a : attr.body_axes[0]) made.body_axes[0].push_back(place[size_t(a)]);
  const std::vector<int> places = made.body_axes[0]; // of the body's axes as they were
  std::ranges::sort(made.body_axes[0]);
  ViewAttr turned;
  for (const int a : made.body_axes[0]) turned.shape.push_back(made.space[size_t(a)]);
  for (const int a : places) {
    const auto d = std::ranges::lower_bound(made.body_axes[0], a) - made.body_axes[0].begin();
    turned.map.push_back(axis_symbol(int(d), made.space[size_t(a)]));
  }
  auto body = viewed(r, fold.inputs[0], turned);
  if (!body) return {};
  std::vector<std::string> names;
  if (fold.axis_names.size() == place.size()) {
    names.resize(place.size());
    for (size_t a = 0; a < place.size(); ++a) names[size_t(place[a])] = fold.axis_names[a];
  }
  auto result = r.add(std::move(made), {*body}, std::move(names), fold.origin);
  if (!result) return {};
  return r.add(GetAttr{0}, {*result});
}

} // namespace luminal::passes
