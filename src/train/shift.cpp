// train/shift.cpp -- what becomes of a number that is added to a maximum, through all that reads it: it
// is added to others, or they are multiplied by its exponential, until both sides of a difference or of a
// quotient have it.
#include "train/shift.h"
#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace luminal::train {
namespace {

/// x + times * c[at], or x * exp(times * c[at]).
struct Shift {
  bool factor = false;
  int times = 0;
  std::vector<Expr> at; ///< over the axes of x
};

std::vector<Expr> replaced(const std::vector<Expr>& at, const Shape& from, const std::vector<Expr>& to) {
  ExprMap<Expr> axes;
  for (size_t d = 0; d < from.size(); ++d)
    if (const Expr axis = axis_symbol(int(d), from[d]); axis.is_symbol()) axes[axis] = to[d];
  std::vector<Expr> out;
  for (const Expr e : at) out.push_back(substitute(e, axes));
  return out;
}

class Follower {
public:
  Follower(const Terms& t, NodeId extreme) : t_(t) {
    Shift start{false, 1, {}};
    const Shape& shape = t_[extreme].types[0].shape;
    for (size_t d = 0; d < shape.size(); ++d) start.at.push_back(axis_symbol(int(d), shape[d]));
    known_[extreme] = std::move(start);
  }

  /// False: it is not known what becomes of it there.
  bool follow(NodeId id) {
    const Node& node = t_[id];
    if (std::ranges::none_of(node.inputs, [&](NodeId in) { return known_.contains(in); })) return true;
    std::optional<Shift> made;
    switch (node.kind) {
    case NodeKind::get: made = known_.at(node.inputs[0]); break;
    case NodeKind::cast:
      if (!is_float(node.type().dtype)) return false;
      made = known_.at(node.inputs[0]);
      break;
    case NodeKind::view: made = view(node, std::get<ViewAttr>(node.attr)); break;
    case NodeKind::fold: made = fold(node, std::get<FoldAttr>(node.attr)); break;
    case NodeKind::map: made = map(node, std::get<MapAttr>(node.attr)); break;
    default: break;
    }
    if (!made) return false;
    if (made->times != 0) known_[id] = std::move(*made);
    return true;
  }
  bool reaches(NodeId id) const {
    return known_.contains(id) || (t_[id].kind == NodeKind::get && known_.contains(t_[id].inputs[0]));
  }

private:
  std::optional<Shift> view(const Node& node, const ViewAttr& view) const {
    const auto found = known_.find(node.inputs[0]);
    if (found == known_.end() || !view.holes.empty()) return {};
    Shift shift = found->second;
    if (!view.predicate.is_constant(1) && !(shift.factor && view.fill == 0)) return {};
    shift.at = replaced(shift.at, t_[node.inputs[0]].type().shape, view.map);
    return shift;
  }

  std::optional<Shift> fold(const Node& node, const FoldAttr& fold) const {
    if (fold.monoid.size() != 1 || !fold.holes.empty()) return {};
    const auto found = known_.find(node.inputs[0]);
    if (found == known_.end()) return {};
    Shift shift = found->second;
    const Op op = fold.monoid.components()[0].op;
    if (op != Op::max && op != Op::min && !(op == Op::add && shift.factor)) return {};
    std::vector<Expr> axes;
    for (const int a : fold.body_axes[0]) axes.push_back(axis_symbol(a, fold.space[size_t(a)]));
    shift.at = replaced(shift.at, t_[node.inputs[0]].type().shape, axes);
    for (const int a : fold.reduced)
      for (const Expr e : shift.at)
        if (const Expr axis = axis_symbol(a, fold.space[size_t(a)]); axis.is_symbol() && depends_on(e, axis))
          return {};
    std::vector<Expr> kept(fold.space.size(), 0);
    const std::vector<int> results = result_axes(fold, 0);
    for (size_t d = 0; d < results.size(); ++d)
      kept[size_t(results[d])] = axis_symbol(int(d), fold.space[size_t(results[d])]);
    shift.at = replaced(shift.at, fold.space, kept);
    return shift;
  }

  std::optional<Shift> map(const Node& node, const MapAttr& map) const {
    if (!map.user_op.empty()) return {};
    std::vector<Shift> in;
    const Shift* some = nullptr;
    for (const NodeId id : node.inputs) {
      const auto found = known_.find(id);
      if (found != known_.end()) some = &found->second;
      in.push_back(found == known_.end() ? Shift{} : found->second);
    }
    for (Shift& shift : in) // those that do not change
      if (shift.times == 0) shift.at = some->at, shift.factor = some->factor;
    for (const Shift& shift : in)
      if (shift.at != some->at || shift.factor != some->factor) return {};
    Shift out{some->factor, 0, some->at};
    switch (map.op) {
    case Op::eq: // a finite number makes nothing infinite, nor finite again
      if (some->factor || std::ranges::none_of(node.inputs, [&](NodeId id) { return is_infinite(id); }))
        return {};
      return out;
    case Op::neg: out.times = out.factor ? in[0].times : -in[0].times; return out;
    case Op::exp: return out.factor ? std::nullopt : std::optional(Shift{true, in[0].times, out.at});
    case Op::log: return out.factor ? std::optional(Shift{false, in[0].times, out.at}) : std::nullopt;
    case Op::recip:
      if (!out.factor) return {};
      out.times = -in[0].times;
      return out;
    case Op::add:
    case Op::sub:
      if (out.factor) { // of a sum both sides
        if (in[0].times != in[1].times) return {};
        out.times = in[0].times;
      } else {
        out.times = in[0].times + (map.op == Op::add ? in[1].times : -in[1].times);
      }
      return out;
    case Op::mul:
    case Op::div:
      if (!out.factor) return {};
      out.times = in[0].times + (map.op == Op::mul ? in[1].times : -in[1].times);
      return out;
    default: return {};
    }
  }

  bool is_infinite(NodeId id) const {
    while (t_[id].kind == NodeKind::view && std::get<ViewAttr>(t_[id].attr).predicate.is_constant(1))
      id = t_[id].inputs[0];
    const auto* constant = std::get_if<ConstantAttr>(&t_[id].attr);
    if (!constant || constant->data->size() * 8 != size_t(bits(constant->type.dtype))) return false;
    return std::isinf(load_f64(constant->type.dtype, constant->data->data(), 0));
  }

  const Terms& t_;
  std::unordered_map<NodeId, Shift> known_; // what changes
};

} // namespace

bool cancels(const Terms& t, NodeId extreme, const std::vector<NodeId>& seeds, NodeId end) {
  Follower follower(t, extreme);
  for (NodeId id = extreme + 1; id < end; ++id)
    if (!follower.follow(id)) return false;
  return std::ranges::none_of(seeds, [&](NodeId seed) { return follower.reaches(seed); });
}

} // namespace luminal::train
