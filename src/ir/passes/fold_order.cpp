// ir/passes/fold_order.cpp -- a fold whose result is read with its axes in another order makes it in that
// order: the gradient of a weight that is read transposed lies as the weight does. Elements are summed in
// the order in which they were, so no bit changes.
#include "ir/passes/edit.h"
#include <algorithm>

namespace luminal::passes {
namespace {

/// out[i0, i1, ..] = in[i_p(0), i_p(1), ..]: p, where it is a permutation and not the identity.
std::optional<std::vector<int>> permutation_of(const ViewAttr& view, const Shape& source) {
  if (!view.predicate.is_constant(1) || !view.holes.empty() || view.shape.size() != source.size()) return {};
  std::vector<int> of(source.size(), -1);
  std::vector<bool> taken(source.size());
  bool identity = true;
  for (size_t k = 0; k < source.size(); ++k) {
    for (size_t d = 0; d < view.shape.size(); ++d) {
      const Expr axis = axis_symbol(int(d), view.shape[d]);
      if (axis.is_symbol() && axis == view.map[k] && view.shape[d] == source[k]) of[k] = int(d);
    }
    if (of[k] < 0 || taken[size_t(of[k])]) return {};
    taken[size_t(of[k])] = true;
    identity &= of[k] == int(k);
  }
  if (identity) return {};
  return of;
}

} // namespace

std::optional<NodeId> viewed(Rebuild& r, NodeId id, const ViewAttr& view, int depth) {
  const Node node = r[id]; // a copy: what is put down may move it
  if (node.kind == NodeKind::map && r.used_once(id) && depth < 8) {
    std::vector<NodeId> inputs;
    for (const NodeId in : node.inputs) {
      auto made = viewed(r, in, view, depth + 1);
      if (!made) return {};
      inputs.push_back(*made);
    }
    return r.put({NodeKind::map,
                  node.attr,
                  std::move(inputs),
                  {TensorType{node.type().dtype, view.shape}},
                  {},
                  {},
                  node.origin});
  }
  auto made = r.add(view, {id});
  if (!made) return {};
  const Node put = r[*made];
  if (auto simpler = view_rule(r, put, Numerics::exact)) return simpler;
  return made;
}

std::optional<NodeId> fold_order_rule(Rebuild& r, const Node& node) {
  if (node.kind != NodeKind::view) return {};
  const NodeId get = node.inputs[0];
  if (r[get].kind != NodeKind::get || !r.used_once(get)) return {};
  const NodeId tuple = r[get].inputs[0];
  if (r[tuple].kind != NodeKind::fold || !r.used_once(tuple)) return {};
  const Node fold = r[tuple];
  const auto& attr = std::get<FoldAttr>(fold.attr);
  if (attr.monoid.size() != 1 || !attr.holes.empty()) return {};
  const auto order = permutation_of(std::get<ViewAttr>(node.attr), r.type(get).shape);
  if (!order) return {};

  // Results keep the places of their axes in the space, in another order.
  const std::vector<int> kept = result_axes(attr, 0);
  std::vector<int> place(attr.space.size());
  for (size_t a = 0; a < place.size(); ++a) place[a] = int(a);
  for (size_t k = 0; k < kept.size(); ++k) place[size_t(kept[k])] = kept[size_t((*order)[k])];
  FoldAttr made{.monoid = attr.monoid,
                .space = attr.space,
                .reduced = attr.reduced,
                .body_axes = {{}},
                .where = 1,
                .holes = {}};
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
  auto value = r.add(GetAttr{0}, {*result});
  if (!value || !(r.type(*value) == node.type())) return {};
  return value;
}

} // namespace luminal::passes
