// train/combine.cpp -- combine(a, b) of a monoid written out as maps, and its gradients:
//   c_i = op_i(T_i(a -> c), T_i(b -> c))
#include "train/reverse.h"

namespace luminal::train {
namespace {

/// self, old0, new0, old1, new1, .. of component i. Leaves are of equal shapes; types may differ.
std::vector<NodeId> frame(const std::vector<NodeId>& old, const std::vector<NodeId>& made, int i) {
  std::vector<NodeId> leaves{old[size_t(i)]};
  for (int j = 0; j < i; ++j) {
    leaves.push_back(old[size_t(j)]);
    leaves.push_back(made[size_t(j)]);
  }
  return leaves;
}

} // namespace

std::vector<NodeId> combined(Terms& t, const Monoid& monoid, const std::vector<NodeId>& a,
                             const std::vector<NodeId>& b) {
  std::vector<NodeId> made;
  for (int i = 0; i < monoid.size(); ++i) {
    const MonoidComponent& own = monoid.components()[size_t(i)];
    const NodeId left = t.apply(own.transform, frame(a, made, i), own.dtype);
    const NodeId right = t.apply(own.transform, frame(b, made, i), own.dtype);
    made.push_back(t.b.map(own.op, {left, right}));
  }
  return made;
}

CombineGradients combine_gradients(Terms& t, const Monoid& monoid, const std::vector<NodeId>& a,
                                   const std::vector<NodeId>& b, std::vector<Gradient> g) {
  const std::vector<NodeId> made = combined(t, monoid, a, b);
  CombineGradients result{std::vector<Gradient>(a.size()), std::vector<Gradient>(b.size())};
  for (int i = monoid.size(); i-- > 0;) {
    const MonoidComponent& own = monoid.components()[size_t(i)];
    if (!g[size_t(i)] || !is_float(own.dtype)) continue;
    const std::vector<NodeId> frames[2] = {frame(a, made, i), frame(b, made, i)};
    const NodeId left = t.apply(own.transform, frames[0], own.dtype);
    const NodeId right = t.apply(own.transform, frames[1], own.dtype);
    for (int side = 0; side < 2; ++side) {
      const Scalar* slope = derivative(own.op, side);
      if (!slope) continue;
      const Gradient moved = t.times(*g[size_t(i)], *slope, {left, right, left, made[size_t(i)]});
      if (!moved) continue;
      std::vector<Gradient>& into = side == 0 ? result.a : result.b;
      for (int leaf = 0; leaf <= 2 * i; ++leaf) {
        const auto inner = differentiate(own.transform, leaf);
        const int component = leaf == 0 ? i : (leaf - 1) / 2;
        if (!inner || !is_float(monoid.components()[size_t(component)].dtype)) continue;
        Gradient part = t.times(*moved, *inner, frames[side]);
        if (!part) continue;
        part = t.b.cast(*part, monoid.components()[size_t(component)].dtype);
        Gradient& to = leaf > 0 && leaf % 2 == 0 ? g[size_t(component)] : into[size_t(component)];
        to = t.add(to, part);
      }
    }
  }
  return result;
}

} // namespace luminal::train
