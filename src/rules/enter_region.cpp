// rules/enter_region.cpp -- nodes become rows, in order.
#include "rules/enter_region.h"
#include "base/check.h"
#include "rules/name_axes.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::rules {
namespace {

using egraph::absent;

class Entry {
public:
  Entry(RegionTerms& terms, const FlatFunction& flat, const RegionNodes& region)
      : t_(terms), flat_(flat), f_(flat.function), region_(region) {}

  Result<Entered> run() {
    t_.clear();
    out_.flat = &flat_;
    out_.roots = region_.roots;
    out_.kinds.assign(f_.nodes.size(), TermKind::none);
    out_.classes.assign(f_.nodes.size(), absent);
    out_.forms.assign(f_.nodes.size(), absent);
    find_nodes();
    auto named = name_axes(f_, out_.nodes, out_.kinds, t_.axes);
    if (!named) return Failure{fmt::format("a region has more than {} axes", most_axes)};
    named_ = std::move(*named);
    for (const NodeId id : out_.nodes)
      if (has_form(id)) out_.forms[id] = t_.forms.id(named_.form(id, named_shape(f_[id], kind(id)).size()));
    for (const NodeId id : out_.nodes) enter(id);
    return std::move(out_);
  }

private:
  TermKind kind(NodeId id) const { return out_.kinds[id]; }
  bool has_form(NodeId id) const { return kind(id) != TermKind::opaque_tuple; }
  std::span<const AxisId> dim(NodeId id, size_t d) const { return named_.dim(id, d); }
  ClassId class_of(NodeId id) const { return out_.classes[id]; }

  // ---- what belongs to the region
  TermKind kind_in_region(NodeId id) const {
    const auto inside = [&](NodeId k) { return region_.inside.empty() || region_.inside[k]; };
    if (!inside(id) || (flat_.kinds[id] == TermKind::get && !inside(f_[id].inputs[0]))) return TermKind::leaf;
    return flat_.kinds[id];
  }
  void find_nodes() {
    std::vector<NodeId> stack = region_.roots;
    while (!stack.empty()) {
      const NodeId id = stack.back();
      stack.pop_back();
      if (kind(id) != TermKind::none) continue;
      out_.kinds[id] = kind_in_region(id);
      out_.nodes.push_back(id);
      if (kind(id) == TermKind::leaf) continue;
      stack.insert(stack.end(), f_[id].inputs.begin(), f_[id].inputs.end());
    }
    std::ranges::sort(out_.nodes);
  }

  // ---- classes of V with the axes that they vary with
  ClassId add(egraph::OpId op, std::initializer_list<Value> args, const AxisSet& axes) {
    const ClassId made = t_.add(op, args);
    if (made >= axes_of_.size()) axes_of_.resize(std::max<size_t>(made + 1, 2 * axes_of_.size()));
    axes_of_[made] = axes;
    return made;
  }
  const AxisSet& axes_of(ClassId c) const { return axes_of_[c]; }
  AxisSet axes_of(std::span<const ClassId> classes) const {
    AxisSet out;
    for (const ClassId c : classes) out |= axes_of(c);
    return out;
  }

  // ---- index expressions over names
  /// The index of a dimension, over the symbols of its axes.
  Expr index_of(std::span<const AxisId> dim) const {
    if (dim.size() == 1) return t_.axes.symbol(dim[0]);
    Expr e = 0;
    for (const AxisId a : dim) e = e * t_.axes.extent(a) + t_.axes.symbol(a);
    return e;
  }
  /// An expression over i0, i1, .. of a node, over names.
  Expr over_names(Expr e, NodeId id, const Shape& space) const {
    if (e.is_constant()) return e;
    ExprMap<Expr> names;
    for (size_t d = 0; d < space.size(); ++d)
      if (const Expr symbol = axis_symbol(int(d), space[d]); symbol.is_symbol())
        names[symbol] = index_of(dim(id, d));
    return substitute(e, names);
  }

  /// Axis `a` is read at e; nothing to say where it is read at itself, or the value does not vary with it.
  void put(Place& place, const AxisSet& varying, AxisId a, Expr e) const {
    const Expr symbol = t_.axes.symbol(a); // 0 of an axis of at most one point: it says nothing
    // Along an axis that may have no point there may be nothing to read anywhere else.
    const bool matters = varying.contains(a) || t_.axes.extent(a).range().low < 1;
    if (matters && (e != symbol || !symbol.is_symbol())) place.index.emplace_back(a, e);
  }
  void put_axis(Place& place, const AxisSet& varying, AxisId a, AxisId at) const {
    if (a != at) put(place, varying, a, t_.axes.symbol(at));
  }
  /// A dimension that is read at an index.
  void put_index(Place& place, const AxisSet& varying, std::span<const AxisId> from, Expr index) const {
    Expr low = 1;
    for (size_t k = from.size(); k-- > 0;) {
      Expr e = low.is_constant(1) ? index : floordiv(index, low);
      if (k > 0) e = mod(e, t_.axes.extent(from[k]));
      put(place, varying, from[k], e);
      low = low * t_.axes.extent(from[k]);
    }
  }
  /// A dimension that is read at the same index of another one.
  void put_dim(Place& place, const AxisSet& varying, std::span<const AxisId> from,
               std::span<const AxisId> to) const {
    const auto same_extent = [&](AxisId a, AxisId b) { return t_.axes.extent(a) == t_.axes.extent(b); };
    if (std::ranges::equal(from, to)) return;
    if (!std::ranges::equal(from, to, same_extent)) return put_index(place, varying, from, index_of(to));
    for (size_t k = 0; k < from.size(); ++k) put_axis(place, varying, from[k], to[k]);
  }
  /// Axes of `from` that are digits of axes of `to`, by the pieces of an index; false where the cuts differ.
  bool put_pieces(Place& place, const AxisSet& varying, std::span<const AxisId> from, Expr extent, NodeId to,
                  const ViewAttr& view, Expr index) const {
    const auto pieces = pieces_of(index, view.shape, extent);
    if (!pieces) return false;
    std::vector<std::pair<AxisId, AxisId>> found;
    Expr low = 1;
    for (size_t k = from.size(); k-- > 0; low = low * t_.axes.extent(from[k])) {
      const auto at = axis_at(*pieces, low, t_.axes.extent(from[k]), to);
      if (!at) return false;
      found.emplace_back(from[k], *at);
    }
    for (const auto& [a, at] : found) put_axis(place, varying, a, at);
    return true;
  }
  /// The axis of `to` that is the digit from `low` on, of this extent, of the dimension that is read.
  std::optional<AxisId> axis_at(const std::vector<Piece>& pieces, Expr low, Expr extent, NodeId to) const {
    for (const Piece& piece : pieces) {
      const auto inside = exact_quotient(low, piece.at);
      if (!inside) continue;
      Expr at = 1;
      const auto axes = dim(to, size_t(piece.axis));
      for (size_t k = axes.size(); k-- > 0; at = at * t_.axes.extent(axes[k]))
        if (at == piece.low * *inside && t_.axes.extent(axes[k]) == extent &&
            exact_quotient(piece.high, at * extent))
          return axes[k];
    }
    return {};
  }

  /// Positions read elsewhere are other positions.
  ClassId moved(const Iota& iota, const Place& place) {
    ExprMap<Expr> at;
    for (const auto& [axis, e] : place.index)
      if (t_.axes.symbol(axis).is_symbol()) at[t_.axes.symbol(axis)] = e;
    return index(substitute(iota.value, at), iota.dtype);
  }
  /// x read through a place: x itself where the place says nothing.
  ClassId viewed(ClassId x, Place place, std::span<const ClassId> holes = {}) {
    if (place.empty()) return x;
    if (x < iota_of_.size() && iota_of_[x] != absent && place.predicate.is_constant(1) && holes.empty())
      return moved(t_.iotas[iota_of_[x]], place);
    std::ranges::sort(place.index, {}, &std::pair<AxisId, Expr>::first);
    AxisSet axes = axes_of(x);
    axes -= place.replaced();
    axes |= place.read(t_.axes);
    axes |= axes_of(holes);
    std::vector<ClassId> operands{x};
    operands.insert(operands.end(), holes.begin(), holes.end());
    return add(t_.ops().view, {t_.places.id(place), t_.vector(operands)}, axes);
  }
  /// Dimension p of `in` is read at dimension to[p] of `id`.
  ClassId read(NodeId in, NodeId id, std::span<const int> to) {
    const ClassId x = class_of(in);
    Place place;
    if (kind(in) != TermKind::number)
      for (size_t p = 0; p < to.size(); ++p) put_dim(place, axes_of(x), dim(in, p), dim(id, size_t(to[p])));
    if (!place.empty()) ++out_.renames;
    return viewed(x, std::move(place));
  }
  ClassId read(NodeId in, NodeId id) {
    std::vector<int> to(f_[in].type().shape.size());
    for (size_t d = 0; d < to.size(); ++d) to[d] = int(d);
    return read(in, id, to);
  }

  // ---- nodes
  void enter(NodeId id) {
    const Node& node = f_[id];
    ClassId& made = out_.classes[id];
    switch (kind(id)) {
    case TermKind::none: break;
    case TermKind::leaf: made = leaf(id, node); break;
    case TermKind::number: made = number(number_of(node)); break;
    case TermKind::index: {
      const auto& iota = std::get<IotaAttr>(node.attr);
      made = index(over_names(iota.value, id, iota.type.shape), iota.type.dtype);
      break;
    }
    case TermKind::map: made = map(id, node); break;
    case TermKind::view: made = view(id, node, std::get<ViewAttr>(node.attr)); break;
    case TermKind::fold: made = fold(id, node, std::get<FoldAttr>(node.attr)); break;
    case TermKind::scan: made = scan(id, node, std::get<ScanAttr>(node.attr)); break;
    case TermKind::get: made = get(id, node); break;
    case TermKind::opaque:
    case TermKind::opaque_tuple: made = opaque(id, node); break;
    }
  }

  ClassId leaf(NodeId id, const Node& node) {
    const auto number = Value(t_.leaves.size());
    const Form& form = t_.forms[out_.forms[id]];
    t_.leaves.push_back({id, flat_.fixed[id], form, node.type().dtype, flat_.stored[id]});
    return add(flat_.fixed[id] ? t_.ops().par : t_.ops().in, {number}, form.set());
  }
  ClassId number(Number n) { return add(t_.ops().number, {t_.numbers.id(n)}, {}); }
  ClassId index(Expr value, DType dtype) {
    const uint32_t iota = t_.iotas.id({value, dtype});
    const ClassId made = add(t_.ops().index, {iota}, t_.axes.read_by(value));
    if (made >= iota_of_.size()) iota_of_.resize(std::max<size_t>(made + 1, 2 * iota_of_.size()), absent);
    iota_of_[made] = iota;
    return made;
  }

  ClassId map(NodeId id, const Node& node) {
    std::vector<ClassId> xs;
    for (const NodeId in : node.inputs) xs.push_back(read(in, id));
    const AxisSet axes = axes_of(xs);
    if (const auto* cast = std::get_if<CastAttr>(&node.attr))
      return add(t_.ops().cast, {Value(cast->to), xs[0]}, axes);
    if (const auto* op = std::get_if<MapAttr>(&node.attr);
        op && op->user_op.empty() && is_float(f_[node.inputs.back()].type().dtype)) {
      const egraph::OpId row = t_.ops().rows[size_t(op->op)];
      if (xs.size() == 1) return add(row, {xs[0]}, axes);
      if (xs.size() == 2) return add(row, {xs[0], xs[1]}, axes);
      return add(row, {xs[0], xs[1], xs[2]}, axes);
    }
    return add(t_.ops().op, {t_.payloads.id({node.attr}), t_.vector(xs)}, axes);
  }

  ClassId view(NodeId id, const Node& node, const ViewAttr& view) {
    const NodeId in = node.inputs[0];
    const ClassId x = class_of(in);
    const AxisSet varying = axes_of(x);
    Place place;
    for (size_t j = 0; j < view.map.size(); ++j) {
      const auto from = dim(in, j);
      const auto matters = [&](AxisId a) { return varying.contains(a) || t_.axes.extent(a).range().low < 1; };
      if (std::ranges::none_of(from, matters)) continue;
      const auto whole = same_dim(view, j, f_[in].type().shape[j]);
      if (whole)
        put_dim(place, varying, from, dim(id, *whole));
      else if (!put_pieces(place, varying, from, f_[in].type().shape[j], id, view, view.map[j]))
        put_index(place, varying, from, over_names(view.map[j], id, view.shape));
    }
    place.predicate = over_names(view.predicate, id, view.shape);
    std::vector<ClassId> holes;
    for (const Hole& hole : view.holes) {
      place.holes.push_back({hole.range, hole.policy});
      holes.push_back(read(node.inputs[size_t(hole.input)], id, hole.axes));
    }
    if (!place.predicate.is_constant(1) || !holes.empty()) place.fill = view.fill;
    return viewed(x, std::move(place), holes);
  }
  /// The axis of the view that is index j by itself, over the very extent.
  static std::optional<size_t> same_dim(const ViewAttr& view, size_t j, Expr extent) {
    if (!view.map[j].is_symbol()) return {};
    for (size_t d = 0; d < view.shape.size(); ++d)
      if (view.shape[d] == extent && view.map[j] == axis_symbol(int(d), view.shape[d])) return d;
    return {};
  }

  AxisSet axes_of_dims(NodeId id, std::span<const int> dims) const {
    AxisSet out;
    for (const int d : dims)
      for (const AxisId a : dim(id, size_t(d))) out.insert(a);
    return out;
  }

  /// Bodies of a fold, those outside of its domain at the identity.
  std::vector<ClassId> bodies_of(NodeId id, const Node& node, const FoldAttr& fold) {
    std::vector<ClassId> bodies;
    for (size_t c = 0; c < fold.body_axes.size(); ++c)
      bodies.push_back(read(node.inputs[c], id, fold.body_axes[c]));
    if (fold.where.is_constant(1)) return bodies;
    const ClassId domain = index(over_names(fold.where, id, fold.space), DType::boolean);
    for (size_t c = 0; c < bodies.size(); ++c) {
      const ClassId xs[] = {domain, bodies[c], number(identity(fold.monoid, int(c)))};
      if (is_float(fold.monoid.components()[c].dtype))
        bodies[c] = add(t_.ops().rows[size_t(Op::select)], {xs[0], xs[1], xs[2]}, axes_of(xs));
      else
        bodies[c] = add(t_.ops().op, {t_.payloads.id({MapAttr{Op::select, {}}}), t_.vector(xs)}, axes_of(xs));
    }
    return bodies;
  }

  ClassId fold(NodeId id, const Node& node, const FoldAttr& fold) {
    std::vector<ClassId> bodies = bodies_of(id, node, fold);
    const AxisSet over = axes_of_dims(id, fold.reduced);
    if (over.empty()) { // one point: the result is the body
      direct_.emplace_back(id, std::move(bodies));
      return absent;
    }
    results_.emplace_back(id, axes_of_results(fold.monoid, bodies, over, {}));
    return t_.add(t_.ops().fold, {t_.monoid(fold.monoid), Value(t_.sets.id(over)), t_.vector(bodies)});
  }
  ClassId scan(NodeId id, const Node& node, const ScanAttr& scan) {
    std::vector<ClassId> bodies;
    for (size_t c = 0; c < scan.body_axes.size(); ++c)
      bodies.push_back(read(node.inputs[c], id, scan.body_axes[c]));
    const AxisId along = dim(id, size_t(scan.axis))[0];
    AxisSet kept;
    kept.insert(along);
    results_.emplace_back(id, axes_of_results(scan.monoid, bodies, {}, kept));
    return t_.add(t_.ops().scan,
                  {t_.monoid(scan.monoid), Value(t_.alongs.id({along, scan.exclusive, scan.reverse})),
                   t_.vector(bodies)});
  }
  std::vector<AxisSet> axes_of_results(Monoid monoid, std::span<const ClassId> bodies, const AxisSet& gone,
                                       const AxisSet& kept) const {
    std::vector<AxisSet> out;
    for (int c = 0; c < monoid.size(); ++c) {
      AxisSet axes = axes_of(bodies[size_t(c)]);
      for (const int j : monoid.dependencies(c)) axes |= axes_of(bodies[size_t(j)]);
      axes -= gone;
      axes |= kept;
      out.push_back(axes);
    }
    return out;
  }
  template <class T> static const T* find(const std::vector<std::pair<NodeId, T>>& list, NodeId id) {
    const auto at = std::ranges::lower_bound(list, id, {}, &std::pair<NodeId, T>::first);
    return at != list.end() && at->first == id ? &at->second : nullptr;
  }

  ClassId get(NodeId id, const Node& node) {
    const NodeId tuple = node.inputs[0];
    const int component = std::get<GetAttr>(node.attr).index;
    const ClassId from = class_of(tuple);
    if (kind(tuple) == TermKind::opaque_tuple) return get_opaque(id, tuple, component);
    const std::vector<int> axes = kind(tuple) == TermKind::fold
                                      ? result_axes(std::get<FoldAttr>(f_[tuple].attr), component)
                                      : result_axes(std::get<ScanAttr>(f_[tuple].attr), component);
    const auto* direct = find(direct_, tuple);
    const ClassId x = direct ? (*direct)[size_t(component)]
                             : add(t_.ops().get, {t_.integer(component), from},
                                   (*find(results_, tuple))[size_t(component)]);
    Place place;
    for (size_t d = 0; d < axes.size(); ++d)
      put_dim(place, axes_of(x), dim(tuple, size_t(axes[d])), dim(id, d));
    if (!place.empty()) ++out_.renames;
    return viewed(x, std::move(place));
  }

  /// A result of an opaque tuple: its payload says what the axes are called.
  ClassId get_opaque(NodeId id, NodeId tuple, int component) {
    const Form& form = t_.forms[t_.payloads[*find(opaque_, tuple)].results[size_t(component)]];
    const ClassId x = add(t_.ops().get, {t_.integer(component), class_of(tuple)}, form.set());
    Place place;
    for (size_t d = 0; d < form.rank(); ++d) put_dim(place, axes_of(x), form.dim(d), dim(id, d));
    return viewed(x, std::move(place));
  }

  ClassId opaque(NodeId id, const Node& node) {
    Payload payload{node.attr, node.types};
    std::vector<ClassId> xs;
    for (const NodeId in : node.inputs) {
      payload.operands.push_back(out_.forms[in]);
      xs.push_back(class_of(in));
    }
    if (node.kind == NodeKind::host || node.kind == NodeKind::custom) payload.unique = id;
    if (kind(id) == TermKind::opaque) {
      payload.results = {out_.forms[id]};
      return add(t_.ops().opaque, {t_.payloads.id(payload), t_.vector(xs)}, t_.forms[out_.forms[id]].set());
    }
    payload.results.assign(node.types.size(), absent);
    for (const NodeId k : out_.nodes) // the reader of each result says what its axes are called
      if (k > id && kind(k) == TermKind::get && f_[k].inputs[0] == id) {
        uint32_t& form = payload.results[size_t(std::get<GetAttr>(f_[k].attr).index)];
        if (form == absent) form = out_.forms[k];
      }
    opaque_.emplace_back(id, t_.payloads.id(payload));
    return t_.add(t_.ops().opaque_tuple, {opaque_.back().second, t_.vector(xs)});
  }

  RegionTerms& t_;
  const FlatFunction& flat_;
  const Function& f_;
  const RegionNodes& region_;
  Entered out_;
  NamedDimensions named_;
  std::vector<AxisSet> axes_of_;                                 // by class
  std::vector<uint32_t> iota_of_;                                // by class: RegionTerms::iotas
  std::vector<std::pair<NodeId, std::vector<AxisSet>>> results_; // of folds and scans, ascending
  std::vector<std::pair<NodeId, std::vector<ClassId>>> direct_;  // folds over one point
  std::vector<std::pair<NodeId, uint32_t>> opaque_;              // payloads of opaque tuples
};

} // namespace

Result<Entered> enter(RegionTerms& terms, const FlatFunction& flat, const RegionNodes& region) {
  return Entry(terms, flat, region).run();
}

} // namespace luminal::rules
