// models/onnx/export_views.cpp -- views: the operator that moves the same elements, else a Gather.
#include "models/onnx/exporter.h"
#include <algorithm>
#include <functional>
#include <numeric>

namespace luminal::onnx_export {
namespace {

Expr product_of(const Shape& shape) {
  Expr n = 1;
  for (const Expr e : shape) n *= e;
  return n;
}

/// The axes of the space that the expression reads, through holes too; ascending.
std::vector<int> axes_read(Expr e, const Shape& shape, const HoleValues& holes) {
  std::vector<int> axes;
  for (const Expr symbol : symbols_of(e)) {
    for (size_t k = 0; k < shape.size(); k++)
      if (symbol == axis_symbol(int(k), shape[k])) axes.push_back(int(k));
    if (const auto hole = holes.find(std::string(symbol.name())); hole != holes.end())
      for (const int axis : hole->second.axes)
        if (!shape[size_t(axis)].is_constant(1)) axes.push_back(axis);
  }
  std::sort(axes.begin(), axes.end());
  axes.erase(std::unique(axes.begin(), axes.end()), axes.end());
  return axes;
}

bool has_hole(Expr e, const HoleValues& holes) {
  const auto symbols = symbols_of(e);
  return std::any_of(symbols.begin(), symbols.end(),
                     [&](Expr symbol) { return holes.contains(std::string(symbol.name())); });
}

/// e == step * axis + start.
struct Line {
  int axis;
  int64_t step;
  Expr start;
};
std::optional<Line> line_of(Expr e, const Shape& shape, const std::vector<int>& axes) {
  if (axes.size() != 1) return {};
  const Expr axis = axis_symbol(axes[0], shape[size_t(axes[0])]);
  const auto step = coefficient_of(e, axis);
  if (!step || !step->is_constant() || step->is_constant(0)) return {};
  const Expr start = e - *step * axis;
  if (depends_on(start, axis)) return {};
  return Line{axes[0], step->value(), start};
}

/// The least and the greatest value of a sum of axes; nothing for other expressions.
std::optional<std::pair<Expr, Expr>> ends_of(Expr e, const Shape& shape) {
  Expr low = e, high = e;
  for (size_t k = 0; k < shape.size(); k++) {
    const Expr axis = axis_symbol(int(k), shape[k]);
    if (!axis.is_symbol() || !depends_on(low, axis)) continue;
    const auto step = coefficient_of(e, axis);
    if (!step || !step->is_constant()) return {};
    const Expr last = *step * (shape[k] - 1);
    low = low - *step * axis + (step->value() < 0 ? last : Expr(0));
    high = high - *step * axis + (step->value() < 0 ? Expr(0) : last);
  }
  return std::pair{low, high};
}

bool is_reshape(const Module& module, const TensorType& from, const ViewAttr& view) {
  FunctionBuilder b("reshape", &module);
  try {
    const NodeId made = b.reshape(b.input("x", from), view.shape);
    if (b[made].kind == NodeKind::input) return true;
    return std::get<ViewAttr>(b[made].attr).map == view.map;
  } catch (const Error&) { // the numbers of elements differ
    return false;
  }
}

bool inside(Expr index, Expr extent) {
  return prove(ge(index, 0)) == Truth::yes && prove(lt(index, extent)) == Truth::yes;
}

} // namespace

Held Exporter::aligned(const Held& x, const std::vector<int>& labels, size_t rank) {
  // Axes of extent 1 that nobody reads go to the end, then all are in order.
  std::vector<int> order(labels.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<int> read;
  for (const int label : labels)
    if (label >= 0) read.push_back(label);
  Held r = x;
  std::vector<int> now = labels;
  if (!std::is_sorted(read.begin(), read.end())) {
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      const int la = labels[size_t(a)], lb = labels[size_t(b)];
      return lb < 0 ? la >= 0 : la >= 0 && la < lb;
    });
    r = transpose(x, order);
    for (size_t k = 0; k < order.size(); k++) now[k] = labels[size_t(order[k])];
    std::sort(read.begin(), read.end());
  }
  Shape shape(rank, Expr(1));
  for (size_t k = 0; k < now.size(); k++)
    if (now[k] >= 0) shape[size_t(now[k])] = r.shape[k];
  if (r.shape == shape) return r;
  const bool constant = std::all_of(shape.begin(), shape.end(), [](Expr e) { return e.is_constant(); });
  if (constant && read.size() < labels.size()) return reshape(r, shape);
  std::vector<int64_t> gone;
  Shape left;
  for (size_t k = 0; k < now.size(); k++) {
    if (now[k] < 0)
      gone.push_back(int64_t(k));
    else
      left.push_back(r.shape[k]);
  }
  if (const Held* same = earlier(r, left))
    r = *same;
  else if (!gone.empty())
    r = reshaped({graph_.node("Squeeze", {r.name, graph_.integers(gone)}), r.dtype, left}, r);
  return spread(r, read, rank);
}

std::optional<Held> Exporter::padded(const Held& x, ViewAttr& view) {
  const Shape& shape = view.shape;
  const auto of_condition = symbols_of(view.predicate);
  std::vector<size_t> axes;
  Expr expected = 1;
  for (size_t d = 0; d < view.map.size(); d++) {
    const auto symbols = symbols_of(view.map[d]);
    const bool tested = std::any_of(symbols.begin(), symbols.end(), [&](Expr s) {
      return std::find(of_condition.begin(), of_condition.end(), s) != of_condition.end() &&
             s.name().starts_with("i");
    });
    if (!tested) continue;
    axes.push_back(d);
    expected = logical_and(expected, logical_and(ge(view.map[d], 0), lt(view.map[d], x.shape[d])));
  }
  if (axes.empty() || expected != view.predicate) return {};
  Shape before(x.shape.size(), Expr(0)), after = before, grown = x.shape;
  for (const size_t d : axes) {
    const auto ends = ends_of(view.map[d], shape);
    if (!ends) return {};
    before[d] = max(Expr(0), -ends->first);
    after[d] = max(Expr(0), ends->second - x.shape[d] + 1);
    grown[d] = x.shape[d] + before[d] + after[d];
    view.map[d] = view.map[d] + before[d];
  }
  view.predicate = 1;
  before.insert(before.end(), after.begin(), after.end());
  return Held{graph_.node("Pad", {x.name, shape_tensor(before), number(x.dtype, view.fill).name}), x.dtype,
              grown};
}

std::optional<Held> Exporter::axis_by_axis(const Held& x, const ViewAttr& view, const HoleValues& holes,
                                           bool masked) {
  const Shape& shape = view.shape;
  std::vector<std::vector<int>> axes;
  std::vector<bool> seen(shape.size());
  for (size_t d = 0; d < view.map.size(); d++) {
    if (masked && prove(ge(x.shape[d], 1)) != Truth::yes) return {};
    axes.push_back(axes_read(view.map[d], shape, holes));
    for (const int axis : axes.back()) {
      if (seen[size_t(axis)]) return {};
      seen[size_t(axis)] = true;
    }
  }
  Held r = x;
  std::vector<int> labels(view.map.size(), -1);
  for (size_t d = view.map.size(); d-- > 0;) {
    const Expr e = view.map[d], extent = x.shape[d];
    if (extent.is_constant(1)) continue;
    const bool hole = has_hole(e, holes), safe = !masked || (!hole && inside(e, extent));
    const auto line = hole ? std::nullopt : line_of(e, shape, axes[d]);
    if (line && safe) {
      const Expr count = shape[size_t(line->axis)];
      if (line->step == 1 && line->start.is_constant(0) && proves_equal(count, extent)) {
        labels[d] = line->axis;
        continue;
      }
      const Expr end = line->start + line->step * (count - 1) + (line->step > 0 ? 1 : -1);
      const bool counted = line->step == 1 || prove(ge(count, 1)) == Truth::yes;
      const bool whole = end.is_constant(-1); // beyond the first element
      if (counted && (whole || end.range().low >= 0)) {
        r = {graph_.node("Slice", {r.name, shape_tensor({line->start}),
                                   whole ? graph_.integers({INT64_MIN + 1}) : shape_tensor({end}),
                                   graph_.integers({int64_t(d)}), graph_.integers({line->step})}),
             r.dtype, r.shape};
        r.shape[d] = count;
        labels[d] = line->axis;
        continue;
      }
    }
    IndexSpace space;
    space.axes = axes[d];
    for (const int axis : axes[d]) space.extents.push_back(shape[size_t(axis)]);
    Held at = full(index(e, space, holes), space.extents);
    if (!safe) {
      const Held last = index(extent - 1);
      at = apply("Min", {apply("Max", {at, number(DType::i64, 0)}), last});
    }
    r = {graph_.node("Gather", {r.name, at.name}, {attribute("axis", int64_t(d))}), r.dtype, r.shape};
    r.shape.erase(r.shape.begin() + long(d));
    r.shape.insert(r.shape.begin() + long(d), space.extents.begin(), space.extents.end());
    labels.erase(labels.begin() + long(d));
    labels.insert(labels.begin() + long(d), axes[d].begin(), axes[d].end());
  }
  return aligned(r, labels, shape.size());
}

Held Exporter::joined(const Held& x, const Held& one) {
  const Held flat = reshape(x, {product_of(x.shape)});
  const std::string element = graph_.node("Reshape", {one.name, graph_.integers({1})});
  return {graph_.node("Concat", {flat.name, element}, {attribute("axis", int64_t(0))}),
          x.dtype,
          {flat.shape[0] + 1}};
}

Held Exporter::view(const Frame& frame, const Node& node) {
  ViewAttr view = std::get<ViewAttr>(node.attr);
  const TensorType& from = frame.function[node.inputs[0]].type();
  const DType dtype = from.dtype;
  const Shape& shape = view.shape;
  const bool empty = std::any_of(shape.begin(), shape.end(), [](Expr e) { return e.is_constant(0); });
  const Held fill = number(dtype, view.fill);
  if (empty || view.predicate.is_constant(0)) return fill;

  IndexSpace space{shape, std::vector<int>(shape.size())};
  std::iota(space.axes.begin(), space.axes.end(), 0);
  std::vector<Held> conditions;
  const HoleValues filled = holes(frame, node, view.holes, !view.predicate.is_constant(1), space, conditions);
  Held x = ranked(frame[node.inputs[0]], from.shape.size());
  Shape source = from.shape; // of x, every extent as it is
  if (!view.predicate.is_constant(1) && view.holes.empty()) {
    Shape stretched = x.shape; // what is padded is there in full
    for (size_t d = 0; d < stretched.size(); d++)
      if (stretched[d].is_constant(1)) stretched[d] = from.shape[d];
    const Held whole = full(x, stretched);
    if (const auto made = padded(whole, view)) {
      x = *made;
      source = x.shape;
    }
  }
  if (!view.predicate.is_constant(1)) conditions.push_back(condition(view.predicate, space, filled));
  bool masked = !conditions.empty();
  // A broadcast axis has one element.
  bool projection = !masked && view.holes.empty();
  std::vector<bool> seen(shape.size());
  std::vector<Expr> map = view.map;
  for (size_t d = 0; d < map.size(); d++) {
    if (x.shape[d].is_constant(1)) {
      view.map[d] = 0;
      continue;
    }
    const auto axes = axes_read(map[d], shape, filled);
    const bool plain = axes.size() == 1 && !seen[size_t(axes[0])] &&
                       map[d] == axis_symbol(axes[0], shape[size_t(axes[0])]) &&
                       proves_equal(x.shape[d], shape[size_t(axes[0])]);
    if (plain) seen[size_t(axes[0])] = true;
    projection &= plain;
  }
  if (!projection && !masked && view.holes.empty()) {
    ViewAttr whole = view;
    whole.map = map;
    if (is_reshape(module_, {dtype, source}, whole)) return reshape(full(x, source), shape);
  }
  auto result = axis_by_axis(x, view, filled, masked);
  if (!result) {
    Expr place = 0;
    for (size_t d = 0; d < view.map.size(); d++) place = place * x.shape[d] + view.map[d];
    Held at = index(place, space, filled), line = reshape(x, {product_of(x.shape)});
    if (masked) {
      Held all = conditions[0];
      for (size_t i = 1; i < conditions.size(); i++) all = apply("And", {all, conditions[i]});
      at = select(all, at, index(line.shape[0]));
      line = joined(x, fill);
      masked = false;
    }
    result =
        Held{graph_.node("Gather", {line.name, at.name}, {attribute("axis", int64_t(0))}), dtype, at.shape};
  }
  if (!masked) return *result;
  Held all = conditions[0];
  for (size_t i = 1; i < conditions.size(); i++) all = apply("And", {all, conditions[i]});
  return select(all, *result, fill);
}

namespace {
/// A part of a concatenation: a value that stands from `begin` on, and is padded around.
struct Part {
  NodeId value;
  Expr begin, extent;
};
} // namespace

std::optional<Held> Exporter::concatenation(const Frame& frame, NodeId id) {
  const Function& f = frame.function;
  const Node& node = f[id];
  const Shape& shape = node.type().shape;
  std::optional<int> axis;
  std::vector<Part> parts;
  std::vector<Expr> borders; // between a part and the next one
  const std::function<bool(NodeId)> read = [&](NodeId at) {
    const Node& n = f[at];
    if (const auto* map = std::get_if<MapAttr>(&n.attr);
        map && map->op == Op::select && map->user_op.empty()) {
      const auto* condition = std::get_if<IotaAttr>(&f[n.inputs[0]].attr);
      if (!condition) return false;
      for (size_t k = 0; !axis && k < shape.size(); k++)
        if (depends_on(condition->value, axis_symbol(int(k), shape[k]))) axis = int(k);
      if (!axis || !read(n.inputs[1])) return false;
      if (parts.empty()) return false;
      const Expr border = parts.back().begin + parts.back().extent;
      if (condition->value != lt(axis_symbol(*axis, shape[size_t(*axis)]), border)) return false;
      const size_t next = parts.size();
      if (!read(n.inputs[2])) return false;
      return proves_equal(parts[next].begin, border);
    }
    const auto* view = std::get_if<ViewAttr>(&n.attr);
    if (!view || !view->holes.empty() || !axis || view->map.size() != shape.size()) return false;
    const Shape& of = f[n.inputs[0]].type().shape;
    const Expr place = axis_symbol(*axis, shape[size_t(*axis)]);
    for (size_t d = 0; d < shape.size(); d++)
      if (int(d) != axis && (view->map[d] != axis_symbol(int(d), shape[d]) || of[d] != shape[d]))
        return false;
    const Expr begin = place - view->map[size_t(*axis)], extent = of[size_t(*axis)];
    if (depends_on(begin, place) ||
        view->predicate != logical_and(le(begin, place), lt(place, begin + extent)))
      return false;
    parts.push_back({n.inputs[0], begin, extent});
    return true;
  };
  if (!read(id) || parts.size() < 2 || !parts[0].begin.is_constant(0) ||
      !proves_equal(parts.back().begin + parts.back().extent, shape[size_t(*axis)]))
    return {};
  std::vector<std::string> names;
  for (const Part& part : parts) names.push_back(full(frame[part.value], f[part.value].type().shape).name);
  return Held{graph_.node("Concat", names, {attribute("axis", int64_t(*axis))}), node.type().dtype, shape};
}

} // namespace luminal::onnx_export
