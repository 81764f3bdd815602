// rules/classify.cpp -- what is a term, what is opaque, and what is known when a program is loaded.
//
// A fixed value that is computed from packed or integer weights, or a table of transcendental
// functions of positions, is one leaf: rules have nothing to find in it. Fixed arithmetic on small
// floating values (a normalisation's scale at inference) stays terms, since factors move between
// it and the rest; so do masks, which rules read.
#include "rules/classify.h"
#include "base/check.h"
#include "ir/access.h"
#include "ir/infer.h"
#include <algorithm>

namespace luminal::rules {
namespace {

/// Elements of the largest fixed value that stays terms.
constexpr double small_value = 65536;

double count(const Shape& shape) {
  double n = 1;
  for (const Expr extent : shape) {
    const int64_t high = extent.range().high;
    n *= high == unbounded_high ? 1e18 : double(high);
  }
  return n;
}
double bytes(const TensorType& type) { return count(type.shape) * bits(type.dtype) / 8; }

bool all_computable(const std::vector<Expr>& list) { return std::ranges::all_of(list, always_computable); }

/// Every index is proved to lie in its extent, so the view may be computed where nobody asked for it.
/// Axes that nothing reads are not there in a term: that they have a point proves nothing.
bool is_total(const ViewAttr& view, const Shape& source, const Module& module) {
  if (plainly_inside(view.map, view.shape, source) && view.predicate.is_constant(1)) return true;
  if (!all_computable(view.map) || !always_computable(view.predicate)) return false;
  if (plainly_inside(view.map, view.shape, source)) return true;
  std::vector<Expr> read = view.map;
  read.push_back(view.predicate);
  const std::vector<Expr> symbols = symbols_of(read);
  Shape space = view.shape;
  for (size_t d = 0; d < space.size(); ++d)
    if (space[d].range().low < 1 && std::ranges::count(symbols, axis_symbol(int(d), space[d])) == 0)
      space[d] = 1;
  return std::ranges::all_of(bound_checks(view, space, source, &module),
                             [](const BoundCheck& check) { return in_bounds(check) == Truth::yes; });
}

bool is_plain(const Monoid& monoid) {
  return std::ranges::all_of(monoid.components(),
                             [](const MonoidComponent& c) { return c.transform.is_leaf(0); });
}
TermKind kind_of_fold(const FoldAttr& fold) {
  // Over one point a plain fold is its body. A transform may do something to a body at the identity
  // of another component: exponentials below a maximum make 0 of the weight of -inf.
  const bool one_point =
      std::ranges::all_of(fold.reduced, [&](int d) { return fold.space[size_t(d)].is_constant(1); });
  if (one_point && !is_plain(fold.monoid)) return TermKind::opaque_tuple;
  return fold.holes.empty() && always_computable(fold.where) ? TermKind::fold : TermKind::opaque_tuple;
}
TermKind kind_of_scan(const ScanAttr& scan) {
  return scan.space[size_t(scan.axis)].is_constant(1) ? TermKind::opaque_tuple : TermKind::scan;
}

TermKind kind_of_node(const Function& f, const Module& module, const Node& node) {
  switch (node.kind) {
  case NodeKind::input: return TermKind::leaf;
  case NodeKind::constant: return node.type().shape.empty() ? TermKind::number : TermKind::leaf;
  case NodeKind::iota:
    return always_computable(std::get<IotaAttr>(node.attr).value) ? TermKind::index : TermKind::opaque;
  case NodeKind::map:
  case NodeKind::cast: return TermKind::map;
  case NodeKind::bitcast:
    return bits(node.type().dtype) == bits(f[node.inputs[0]].type().dtype) ? TermKind::map : TermKind::opaque;
  case NodeKind::view:
    return is_total(std::get<ViewAttr>(node.attr), f[node.inputs[0]].type().shape, module) ? TermKind::view
                                                                                           : TermKind::opaque;
  case NodeKind::fold: return kind_of_fold(std::get<FoldAttr>(node.attr));
  case NodeKind::scan: return kind_of_scan(std::get<ScanAttr>(node.attr));
  case NodeKind::get: return TermKind::get;
  default: return node.is_tuple() ? TermKind::opaque_tuple : TermKind::opaque;
  }
}

bool is_transcendental(const Node& node) {
  const auto* map = std::get_if<MapAttr>(&node.attr);
  if (!map || !map->user_op.empty()) return map != nullptr;
  return is_long_chain(map->op) || map->op == Op::sqrt;
}

/// Of a fixed value: what it is made of.
struct Made {
  bool weights = false; // of weights, or of data of the program
  bool plain = true;    // by views and arithmetic that rules look into
  bool table = false;   // transcendental functions of positions
  double sources = 0;   // bytes of the weights
};

Made made_of(const Function& f, const Node& node, const IdVector<NodeId, Made>& made) {
  Made out;
  for (const NodeId in : node.inputs) {
    out.weights |= made[in].weights;
    out.plain &= made[in].plain;
    out.table |= made[in].table;
    out.sources += made[in].sources;
  }
  switch (node.kind) {
  case NodeKind::input: return {true, is_float(node.type().dtype), false, bytes(node.type())};
  case NodeKind::constant:
    return {!node.type().shape.empty(), node.type().shape.empty(), false, bytes(node.type())};
  case NodeKind::iota: return {};
  case NodeKind::view: out.plain &= std::get<ViewAttr>(node.attr).holes.empty(); break;
  case NodeKind::map:
    out.plain &= !out.weights || (is_float(node.type().dtype) && count(node.type().shape) <= small_value);
    out.table |= is_transcendental(node) && !out.weights;
    break;
  case NodeKind::cast:
    out.plain &= !out.weights || (is_float(node.type().dtype) && is_float(f[node.inputs[0]].type().dtype) &&
                                  count(node.type().shape) <= small_value);
    break;
  default: out.plain = false;
  }
  return out;
}

/// Its value depends on its inputs only. A fence that has one input and stays where it is says how the
/// value is stored.
bool is_pure(const Node& node) {
  switch (node.kind) {
  case NodeKind::input: return std::get<InputAttr>(node.attr).role == Role::weight;
  case NodeKind::collective: return false;
  case NodeKind::fence: return node.inputs.size() == 1 && std::get<FenceAttr>(node.attr).device.empty();
  case NodeKind::fold:
  case NodeKind::scan: return true;
  default: return !node.is_tuple();
  }
}

} // namespace

FlatFunction::FlatFunction(const Module& m, const Function& f) : module(m), function(f) {
  const size_t n = f.nodes.size();
  fixed.resize(n);
  kinds.resize(n);
  stored.resize(n);
  IdVector<NodeId, Made> made(n);
  for (NodeId id : f.nodes.ids()) {
    const Node& node = f[id];
    kinds[id] = kind_of_node(f, m, node);
    stored[id] = node.is_tuple() ? 0 : bytes(node.type());
    fixed[id] = is_pure(node) && std::ranges::all_of(node.inputs, [&](NodeId in) { return bool(fixed[in]); });
    if (!fixed[id]) continue;
    made[id] = made_of(f, node, made);
    const Made& by = made[id];
    const bool opaque = kinds[id] == TermKind::opaque;
    const bool computed = node.kind != NodeKind::view && node.kind != NodeKind::iota && !node.is_tuple() &&
                          kinds[id] != TermKind::number;
    const bool once = !by.plain || by.table; // what is computed once, when the program is loaded
    if (opaque || (computed && once && node.type().dtype != DType::boolean)) kinds[id] = TermKind::leaf;
    if (kinds[id] == TermKind::leaf && by.weights) stored[id] = std::min(stored[id], by.sources);
  }
}

} // namespace luminal::rules
