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
  std::optional<InverseMap> inverse;
  if (view.holes.empty()) inverse = invert_map(view.map, view.predicate, view.shape, x, t.module.assumptions);
  if (!inverse) return scattered(t, view, inputs, g);
  Shape space = x;
  space.insert(space.end(), inverse->free.begin(), inverse->free.end());
  bool plain = inverse->condition.is_constant(1) && space == view.shape;
  for (size_t d = 0; d < space.size() && plain; ++d) plain = inverse->at[d] == axis_symbol(int(d), space[d]);
  const NodeId read = plain ? g : t.b.view(g, space, inverse->at, inverse->condition);
  std::vector<int> free(inverse->free.size());
  std::iota(free.begin(), free.end(), int(x.size()));
  return t.sum(read, free);
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
