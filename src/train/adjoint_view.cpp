// train/adjoint_view.cpp -- gradients of views: gathered by the inverse of the map; where the map
// has no inverse or reads indices from values, added up in order.
#include "train/invert_map.h"
#include "train/reverse.h"
#include <numeric>

namespace luminal::train {
namespace {

/// Element i of g goes to where the view read element i from.
NodeId scattered(Terms& t, const ViewAttr& view, const std::vector<NodeId>& inputs, NodeId g) {
  ScatterAttr attr{
      .map = view.map, .predicate = view.predicate, .op = Op::add, .unique = false, .holes = view.holes};
  for (Hole& hole : attr.holes) ++hole.input; // a scatter has base and values before them
  const DType own = t.dtype(g);
  const bool narrow = bits(own) < 32;
  const NodeId values = narrow ? t.b.cast(g, DType::f32) : g;
  std::vector<NodeId> operands{t.zeros({t.dtype(values), t.shape(inputs[0])}), values};
  operands.insert(operands.end(), inputs.begin() + 1, inputs.end());
  return t.b.cast(t.b.add(attr, operands), own);
}

} // namespace

NodeId view_adjoint(Terms& t, const ViewAttr& view, const std::vector<NodeId>& inputs, NodeId g) {
  const Shape x = t.shape(inputs[0]);
  for (Expr extent : view.shape)
    if (extent.is_constant(0)) return t.zeros(t.type(inputs[0])); // nothing was read
  std::optional<InverseMap> inverse;
  if (view.holes.empty()) inverse = invert_map(view.map, view.predicate, view.shape, x, t.module.assumptions);
  if (!inverse) return scattered(t, view, inputs, g);
  // Axes of x with one element are none of the sum: what is spread along rows is summed over rows.
  const bool sums = !inverse->free.empty();
  Shape space, kept;
  std::vector<Expr> back; // the axes of x with more elements
  ExprMap<Expr> places;
  const auto add = [&](size_t d, Expr extent) {
    const Expr old = axis_symbol(int(d), extent), now = axis_symbol(int(space.size()), extent);
    if (old.is_symbol() && old != now) places[old] = now;
    space.push_back(extent);
  };
  for (size_t d = 0; d < x.size(); ++d) {
    if (sums && x[d].is_constant(1)) continue;
    add(d, x[d]);
    back.push_back(axis_symbol(int(d), x[d]));
  }
  kept = space;
  for (size_t f = 0; f < inverse->free.size(); ++f) add(x.size() + f, inverse->free[f]);
  std::vector<Expr> at;
  for (Expr e : inverse->at) at.push_back(places.empty() ? e : substitute(e, places));
  const Expr condition = places.empty() ? inverse->condition : substitute(inverse->condition, places);
  bool plain = condition.is_constant(1) && space == view.shape;
  for (size_t d = 0; d < space.size() && plain; ++d) plain = at[d] == axis_symbol(int(d), space[d]);
  const NodeId read = plain ? g : t.b.view(g, space, at, condition);
  std::vector<int> free(inverse->free.size());
  std::iota(free.begin(), free.end(), int(kept.size()));
  const NodeId sum = t.sum(read, free);
  return kept.size() == x.size() ? sum : t.b.view(sum, x, back);
}

NodeId read_places(Terms& t, const ScatterAttr& scatter, const std::vector<NodeId>& inputs, NodeId from) {
  ViewAttr view{.map = scatter.map,
                .predicate = scatter.predicate,
                .fill = 0,
                .shape = t.shape(inputs[1]),
                .holes = scatter.holes};
  for (Hole& hole : view.holes) --hole.input;
  std::vector<NodeId> operands{from};
  operands.insert(operands.end(), inputs.begin() + 2, inputs.end());
  return t.b.add(view, operands);
}

} // namespace luminal::train
