// compile/seams.cpp -- a fold over a concatenation becomes folds over its parts: each has one formula for
// all of its elements, so it has lanes, and a part that a product makes stays with that product.
#include "compile/seams.h"
#include "base/contains.h"
#include "compile/pass_list.h"
#include "ir/passes/edit.h"
#include <algorithm>
#include <map>
#include <optional>
#include <set>

namespace luminal::compile {
namespace {

constexpr size_t most_parts = 8, most_nodes = 256; // of a fold's parts, of what lies before it

/// A condition that holds for the indices below `at`, or for the others.
struct Seam {
  Expr at;
  bool below = true;
};

std::optional<Seam> seam_of(Expr condition, const Shape& shape, size_t axis) {
  const Expr i = axis_symbol(int(axis), shape[axis]);
  if (condition.kind() != ExprKind::lt || !i.is_symbol()) return {};
  const Expr gap = condition.args()[1] - condition.args()[0]; // above 0
  const auto c = coefficient_of(gap, i);
  if (!c || !(c->is_constant(1) || c->is_constant(-1))) return {};
  const bool below = c->is_constant(-1);
  const Expr at = below ? gap + i : i - gap + 1;
  for (size_t d = 0; d < shape.size(); d++)
    if (const Expr other = axis_symbol(int(d), shape[d]); other.is_symbol() && depends_on(at, other))
      return {};
  if (prove(le(0, at)) != Truth::yes || prove(le(at, shape[axis])) != Truth::yes) return {};
  return Seam{at, below};
}

using passes::is_elementwise;

/// The seam along `axis` where the node chooses by one.
template <class Nodes> std::optional<Seam> chosen_by(const Nodes& nodes, const Node& node, size_t axis) {
  const auto* map = std::get_if<MapAttr>(&node.attr);
  if (!map || map->op != Op::select || !map->user_op.empty()) return {};
  const auto* condition = std::get_if<IotaAttr>(&nodes[node.inputs[0]].attr);
  return condition ? seam_of(condition->value, condition->type.shape, axis) : std::nullopt;
}

/// Where the parts of a value begin along an axis, ascending; nothing where the order is not known.
template <class Nodes> std::vector<Expr> seams(const Nodes& nodes, NodeId body, size_t axis) {
  std::vector<Expr> found;
  std::set<NodeId> seen{body};
  for (std::vector<NodeId> open{body}; !open.empty();) {
    if (seen.size() > most_nodes) return {};
    const Node& node = nodes[open.back()];
    open.pop_back();
    if (!is_elementwise(node)) continue;
    if (const auto seam = chosen_by(nodes, node, axis); seam && !contains(found, seam->at))
      found.push_back(seam->at);
    for (NodeId input : node.inputs)
      if (seen.insert(input).second) open.push_back(input);
  }
  const bool known = std::ranges::all_of(found, [](Expr e) { return e.is_constant(); });
  if (found.size() >= most_parts || (found.size() > 1 && !known)) return {};
  std::ranges::sort(found, {}, [&](Expr e) { return known ? e.value() : 0; });
  return found;
}

/// The axis of the space, and the seams along it, of a plain fold that has some.
struct Cut {
  int axis;        ///< of the fold's space
  size_t position; ///< in the body's shape
  std::vector<Expr> at;
};
template <class Nodes> std::optional<Cut> cut_of(const Nodes& nodes, const FoldAttr& fold, NodeId body) {
  if (fold.monoid.size() != 1 || !fold.monoid.components()[0].transform.is_leaf(0) ||
      !fold.where.is_constant(1) || !fold.holes.empty())
    return {};
  const std::vector<int>& axes = fold.body_axes[0];
  for (size_t p = 0; p < axes.size(); p++)
    if (contains(fold.reduced, axes[p]))
      if (auto at = seams(nodes, body, p); !at.empty()) return Cut{axes[p], p, std::move(at)};
  return {};
}

/// A value's elements from `begin` on along one axis, as many as a part has.
class PartOf {
public:
  PartOf(passes::Rebuild& r, size_t axis, Expr begin, Expr extent)
      : r_(r), axis_(axis), begin_(begin), extent_(extent) {}

  NodeId of(NodeId id) {
    if (const auto known = made_.find(id); known != made_.end()) return known->second;
    return made_[id] = make(id);
  }

private:
  /// Does the seam's condition hold in all of the part, or nowhere in it? Nothing where it changes there.
  std::optional<bool> holds(const Seam& seam) const {
    if (prove(le(begin_ + extent_, seam.at)) == Truth::yes) return seam.below;
    if (prove(le(seam.at, begin_)) == Truth::yes) return !seam.below;
    return {};
  }
  NodeId make(NodeId id) {
    Node node = r_[id]; // what is put down moves the others
    if (is_elementwise(node)) {
      if (const auto seam = chosen_by(r_, node, axis_))
        if (const auto first = holds(*seam)) return of(node.inputs[*first ? 1 : 2]);
      for (NodeId& input : node.inputs) input = of(input);
      node.types[0].shape[axis_] = extent_;
      node.name.clear();
      return r_.put(std::move(node));
    }
    const Shape whole = node.type().shape;
    if (auto* view = std::get_if<ViewAttr>(&node.attr); view && view->holes.empty()) {
      const auto seam = seam_of(view->predicate, whole, axis_);
      if (seam && holds(*seam) == true) { // the view without its condition is read inside of it alone
        view->predicate = 1;
        view->fill = 0;
        const NodeId bare = r_.put(std::move(node)), part = slice(bare, whole);
        if (std::ranges::find(r_[part].inputs, bare) == r_[part].inputs.end()) return part;
      }
    }
    return slice(id, whole);
  }
  NodeId slice(NodeId id, const Shape& whole) {
    ViewAttr view;
    view.shape = whole;
    view.shape[axis_] = extent_;
    for (size_t d = 0; d < whole.size(); d++)
      view.map.push_back(axis_symbol(int(d), view.shape[d]) + (d == axis_ ? begin_ : Expr(0)));
    const NodeId sliced = *r_.add(std::move(view), {id});
    const Node made = r_[sliced];
    return passes::view_rule(r_, made, Numerics::exact).value_or(sliced);
  }

  passes::Rebuild& r_;
  size_t axis_;
  Expr begin_, extent_;
  std::map<NodeId, NodeId> made_;
};

std::optional<NodeId> by_parts(passes::Rebuild& r, const Node& node) {
  if (node.kind != NodeKind::get) return {};
  const Node& tuple = r[node.inputs[0]];
  if (tuple.kind != NodeKind::fold) return {};
  const FoldAttr fold = std::get<FoldAttr>(tuple.attr);
  const NodeId body = tuple.inputs[0];
  const auto cut = cut_of(r, fold, body);
  if (!cut) return {};
  std::vector<Expr> ends = cut->at;
  ends.push_back(fold.space[size_t(cut->axis)]);
  std::optional<NodeId> whole;
  Expr begin = 0;
  for (Expr end : ends) {
    FoldAttr part = fold;
    part.space[size_t(cut->axis)] = end - begin;
    const NodeId of = PartOf(r, cut->position, begin, end - begin).of(body);
    const NodeId value = *r.add(GetAttr{0}, {*r.add(std::move(part), {of})});
    whole = whole ? r.map(fold.monoid.components()[0].op, {*whole, value}, node.type()) : value;
    begin = end;
  }
  return whole;
}

/// The part of a joined value that a view reads, where it reads one part alone.
struct Reads {
  size_t axis;
  Expr begin, end;
};
template <class Nodes> std::optional<Reads> part_read(const Nodes& nodes, const Node& node) {
  const auto* view = std::get_if<ViewAttr>(&node.attr);
  if (!view || !view->holes.empty() || !is_elementwise(nodes[node.inputs[0]])) return {};
  std::vector<Expr> inside; // what holds of the view's axes
  for (size_t d = 0; d < view->shape.size(); d++)
    if (const Expr axis = axis_symbol(int(d), view->shape[d]); axis.is_symbol())
      inside.push_back(lt(axis, view->shape[d]));
  const Shape& whole = nodes[node.inputs[0]].type().shape;
  for (size_t p = 0; p < whole.size(); p++) {
    std::vector<Expr> ends = seams(nodes, node.inputs[0], p);
    if (ends.empty()) continue;
    ends.push_back(whole[p]);
    Expr begin = 0;
    for (Expr end : ends) {
      if (prove(le(begin, view->map[p]), inside) == Truth::yes &&
          prove(lt(view->map[p], end), inside) == Truth::yes)
        return Reads{p, begin, end};
      begin = end;
    }
  }
  return {};
}

std::optional<NodeId> of_part(passes::Rebuild& r, const Node& node) {
  const auto reads = part_read(r, node);
  if (!reads || !r.used_once(node.inputs[0])) return {};
  ViewAttr view = std::get<ViewAttr>(node.attr);
  view.map[reads->axis] = view.map[reads->axis] - reads->begin;
  const NodeId part = PartOf(r, reads->axis, reads->begin, reads->end - reads->begin).of(node.inputs[0]);
  const NodeId read = *r.add(std::move(view), {part}, node.axis_names);
  const Node made = r[read];
  return passes::view_rule(r, made, Numerics::exact).value_or(read);
}

} // namespace

bool has_seams(const Function& function) {
  const bool chooses = std::ranges::any_of(function.nodes, [&](const Node& node) {
    for (size_t p = 0; p < node.types[0].shape.size(); p++)
      if (chosen_by(function, node, p)) return true;
    return false;
  });
  return chooses && std::ranges::any_of(function.nodes, [&](const Node& node) {
           const auto* fold = std::get_if<FoldAttr>(&node.attr);
           return fold ? cut_of(function, *fold, node.inputs[0]).has_value()
                       : part_read(function, node).has_value();
         });
}

Function fold_by_parts(const Module& module, const Function& function) {
  Function copy = function;
  passes::Rebuild::walk(copy, &module, [](passes::Rebuild& r, Node node) -> NodeId {
    if (const auto parts = by_parts(r, node)) return *parts;
    if (const auto part = of_part(r, node)) return *part;
    return r.put(std::move(node));
  });
  passes::sweep(copy);
  return copy;
}

Result<void> part_folds(PlanState& state, FunctionPlan& f) {
  if (f.role != FunctionRole::check && has_seams(*f.function))
    f.function = &state.keep(fold_by_parts(state.module, *f.function));
  return {};
}

} // namespace luminal::compile
