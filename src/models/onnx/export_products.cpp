// models/onnx/export_products.cpp -- what ONNX has an operator for: sums of products as MatMul and Conv,
// folds of windows as MaxPool and AveragePool.
//
// An operand of a fold is followed through its views: each axis of the value behind them is an expression
// over the axes of the fold. A product of matrices has one axis, or several that were merged, in each
// expression; a convolution has sums of two, the place of a window and the place in it.
#include "ir/passes/edit.h"
#include "models/onnx/exporter.h"
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace luminal::onnx_export {
namespace {

/// A value behind views: its index over the axes of a space, and where there is one.
struct Behind {
  NodeId node;
  std::vector<Expr> map;
  Expr predicate = 1;
  double fill = 0;
  std::optional<DType> cast = {};
};

/// One step further: through a view, or a cast of floats that stands on one.
bool follow(const Function& f, Behind& at) {
  const Node& node = f[at.node];
  if (const auto* cast = std::get_if<CastAttr>(&node.attr)) {
    const bool widens = is_float(cast->to) && is_float(f[node.inputs[0]].type().dtype) &&
                        bits(cast->to) > bits(f[node.inputs[0]].type().dtype);
    if (!widens || at.cast || f[node.inputs[0]].kind != NodeKind::view) return false;
    at.cast = cast->to;
    at.node = node.inputs[0];
    return true;
  }
  const auto* view = std::get_if<ViewAttr>(&node.attr);
  if (!view || !view->holes.empty()) return false;
  const bool outer = !at.predicate.is_constant(1), inner = !view->predicate.is_constant(1);
  if (outer && inner && at.fill != view->fill) return false;
  const passes::AxisReplacement replace(view->shape, at.map);
  Behind next = at;
  next.map.clear();
  for (const Expr e : view->map) {
    const auto moved = replace(e);
    if (!moved) return false;
    next.map.push_back(*moved);
  }
  const auto condition = replace(view->predicate);
  if (!condition) return false;
  next.predicate = logical_and(at.predicate, *condition);
  if (inner) next.fill = view->fill;
  next.node = node.inputs[0];
  at = std::move(next);
  return true;
}

/// The furthest value behind `from` for which `accepts` makes something.
template <class T, class F>
std::optional<std::pair<T, Behind>> furthest(const Function& f, Behind at, F&& accepts) {
  std::optional<std::pair<T, Behind>> best;
  do {
    if (f[at.node].kind == NodeKind::cast && at.cast) continue;
    if (auto made = accepts(at)) best = std::pair(std::move(*made), at);
  } while (follow(f, at));
  return best;
}

Behind start(const Shape& space, const std::vector<int>& axes, NodeId node) {
  Behind at{.node = node};
  for (const int axis : axes) at.map.push_back(axis_symbol(axis, space[size_t(axis)]));
  return at;
}

std::optional<int> axis_of(Expr e, const Shape& space) {
  for (size_t k = 0; k < space.size(); k++)
    if (e.is_symbol() && e == axis_symbol(int(k), space[k])) return int(k);
  return {};
}

/// The axes that are merged in e, the slowest first, where they fill the extent.
std::optional<std::vector<int>> merged(Expr e, Expr extent, const Shape& space) {
  if (e.is_constant(0) && extent.is_constant(1)) return std::vector<int>{};
  if (const auto axis = axis_of(e, space))
    return proves_equal(space[size_t(*axis)], extent) ? std::optional(std::vector{*axis}) : std::nullopt;
  const Affine affine = affine_terms(e);
  if (affine.constant != 0 || affine.terms.empty()) return {};
  std::vector<std::pair<int64_t, int>> axes;
  for (const auto& [term, step] : affine.terms) {
    const auto axis = axis_of(term, space);
    if (!axis || step < 1) return {};
    axes.emplace_back(step, *axis);
  }
  std::sort(axes.rbegin(), axes.rend());
  std::vector<int> order;
  Expr inner = 1;
  for (size_t k = axes.size(); k-- > 0;) {
    if (!inner.is_constant(axes[k].first)) return {};
    inner *= space[size_t(axes[k].second)];
    order.insert(order.begin(), axes[k].second);
  }
  return proves_equal(inner, extent) ? std::optional(order) : std::nullopt;
}

using Groups = std::vector<std::vector<int>>;

/// Every axis of the value is one of the space, or some of them merged; each stands once.
std::optional<Groups> factor_axes(const Behind& at, const Shape& shape, const Shape& space) {
  if (!at.predicate.is_constant(1)) return {};
  Groups groups;
  std::vector<bool> seen(space.size());
  for (size_t d = 0; d < at.map.size(); d++) {
    auto axes = merged(at.map[d], shape[d], space);
    if (!axes) return {};
    for (const int axis : *axes) {
      if (seen[size_t(axis)]) return {};
      seen[size_t(axis)] = true;
    }
    groups.push_back(std::move(*axes));
  }
  return groups;
}

std::vector<int> flat(const Groups& groups) {
  std::vector<int> list;
  for (const auto& group : groups) list.insert(list.end(), group.begin(), group.end());
  return list;
}
bool has(const std::vector<int>& list, int axis) {
  return std::find(list.begin(), list.end(), axis) != list.end();
}
Expr extent_of(const std::vector<int>& group, const Shape& space) {
  Expr n = 1;
  for (const int axis : group) n *= space[size_t(axis)];
  return n;
}

/// An axis of windows: element j of window i lies at i * stride + j * dilation - before.
struct WindowAxis {
  std::optional<int> place, element; // axes of the space; none: of extent 1
  int64_t stride = 1, dilation = 1, before = 0, after = 0, size = 1;
};
struct Windows {
  std::vector<int> batch, channels;
  std::vector<WindowAxis> axes;
};

std::optional<WindowAxis> window_axis(Expr e, Expr extent, const Shape& space,
                                      const std::vector<bool>& reduced) {
  WindowAxis axis;
  const Affine affine = affine_terms(e);
  for (const auto& [term, step] : affine.terms) {
    const auto which = axis_of(term, space);
    if (!which || step < 1) return {};
    std::optional<int>& slot = reduced[size_t(*which)] ? axis.element : axis.place;
    if (slot) return {};
    slot = which;
    (reduced[size_t(*which)] ? axis.dilation : axis.stride) = step;
  }
  axis.before = -affine.constant;
  if (axis.before < 0) return {};
  if (axis.element) {
    if (!space[size_t(*axis.element)].is_constant()) return {};
    axis.size = space[size_t(*axis.element)].value();
  }
  const int64_t reach = (axis.size - 1) * axis.dilation + 1;
  const Expr count = axis.place ? space[size_t(*axis.place)] : Expr(1);
  const auto counted = [&](int64_t after) {
    return proves_equal(floordiv(extent + axis.before + after - reach, axis.stride) + 1, count);
  };
  if (extent.is_constant() && count.is_constant())
    axis.after =
        std::max<int64_t>(0, axis.stride * (count.value() - 1) + reach - axis.before - extent.value());
  else
    while (axis.after < reach && !counted(axis.after)) axis.after++;
  if (!counted(axis.after)) return {};
  return axis;
}

/// [batch, channels, windows..]: what is outside of the value is the fill.
std::optional<Windows> windows_of(const Behind& at, const Shape& shape, const Shape& space,
                                  const std::vector<bool>& reduced) {
  if (shape.size() < 3 || shape.size() > 5) return {};
  Windows w;
  const auto batch = merged(at.map[0], shape[0], space), channels = merged(at.map[1], shape[1], space);
  if (!batch || !channels || batch->size() > 1) return {};
  w.batch = *batch;
  w.channels = *channels;
  const auto tested = symbols_of(at.predicate);
  Expr inside = 1;
  for (size_t d = 2; d < shape.size(); d++) {
    const auto axis = window_axis(at.map[d], shape[d], space, reduced);
    if (!axis) return {};
    w.axes.push_back(*axis);
    for (const Expr symbol : symbols_of(at.map[d]))
      if (std::find(tested.begin(), tested.end(), symbol) != tested.end()) {
        inside = logical_and(inside, logical_and(ge(at.map[d], 0), lt(at.map[d], shape[d])));
        break;
      }
  }
  if (inside != at.predicate) return {};
  if (at.predicate.is_constant(1)) // padding would be read
    for (const WindowAxis& axis : w.axes)
      if (axis.before != 0 || axis.after != 0) return {};
  return w;
}

std::vector<Attribute> attributes_of(const Windows& w) {
  std::vector<int64_t> kernel, strides, dilations, pads;
  for (const WindowAxis& axis : w.axes) {
    kernel.push_back(axis.size);
    strides.push_back(axis.stride);
    dilations.push_back(axis.dilation);
    pads.push_back(axis.before);
  }
  for (const WindowAxis& axis : w.axes) pads.push_back(axis.after);
  return {attribute("kernel_shape", kernel), attribute("strides", strides), attribute("pads", pads),
          attribute("dilations", dilations)};
}

/// One plain reduction without a condition.
const FoldAttr* plain_fold(const Node& node) {
  const auto* fold = std::get_if<FoldAttr>(&node.attr);
  if (!fold || fold->monoid.size() != 1 || !fold->where.is_constant(1) || !fold->holes.empty())
    return nullptr;
  if (!fold->monoid.components()[0].transform.is_leaf(0)) return nullptr;
  for (const Expr e : fold->space)
    if (e.is_constant(0)) return nullptr;
  return fold;
}

bool is_op(const Node& node, Op op) {
  const auto* map = std::get_if<MapAttr>(&node.attr);
  return map && map->op == op && map->user_op.empty();
}

} // namespace

Held Exporter::arranged(const Factor& factor, const Groups& groups, const Shape& space) {
  if (factor.axes == groups) return factor.base;
  Held r = factor.base;
  const std::vector<int> order = flat(factor.axes), wanted = flat(groups);
  Groups single;
  for (const int axis : order) single.push_back({axis});
  if (single != factor.axes) {
    Shape shape;
    for (const int axis : order) shape.push_back(space[size_t(axis)]);
    r = reshape(r, shape);
  }
  std::vector<int> places;
  for (const int axis : wanted)
    places.push_back(int(std::find(order.begin(), order.end(), axis) - order.begin()));
  r = transpose(r, places);
  Shape shape;
  for (const auto& group : groups) shape.push_back(extent_of(group, space));
  return reshape(r, shape);
}

std::optional<Factor> Exporter::factor(const Frame& frame, const Shape& space, const std::vector<int>& axes,
                                       NodeId node) {
  const Function& f = frame.function;
  const auto found = furthest<Groups>(f, start(space, axes, node), [&](const Behind& at) {
    return factor_axes(at, f[at.node].type().shape, space);
  });
  if (!found) return {};
  const Behind& at = found->second;
  const Shape& shape = f[at.node].type().shape;
  Factor factor{ranked(frame[at.node], shape.size()), found->first};
  if (at.cast) factor.base = cast(factor.base, *at.cast);
  for (size_t d = 0; d < shape.size(); d++) // a broadcast
    if (factor.base.shape[d].is_constant(1)) factor.axes[d].clear();
  return factor;
}

std::optional<Held> Exporter::product(const Frame& frame, const Node& node) {
  const FoldAttr* fold = plain_fold(node);
  const Function& f = frame.function;
  if (!fold || fold->monoid.components()[0].op != Op::add || !is_op(f[node.inputs[0]], Op::mul)) return {};
  const DType type = node.type().dtype;
  if (held_as(type) != type || type == DType::u64) return {};
  const Shape& space = fold->space;
  const Node& mul = f[node.inputs[0]];
  auto a = factor(frame, space, fold->body_axes[0], mul.inputs[0]),
       b = factor(frame, space, fold->body_axes[0], mul.inputs[1]);
  if (!a || !b) return {};
  std::vector<int> in_a = flat(a->axes), in_b = flat(b->axes), batch, rows, columns, summed;
  const auto sort_axes = [&] {
    for (std::vector<int>* list : {&batch, &rows, &columns, &summed}) list->clear();
    for (int axis = 0; axis < int(space.size()); axis++) {
      const bool left = has(in_a, axis), right = has(in_b, axis);
      if (has(fold->reduced, axis)) {
        if (left && right) summed.push_back(axis);
        if (left != right || (!left && !space[size_t(axis)].is_constant(1))) return false;
      } else if (left && right) {
        batch.push_back(axis);
      } else if (left) {
        rows.push_back(axis);
      } else if (right) {
        columns.push_back(axis);
      }
    }
    return true;
  };
  if (!sort_axes() || summed.empty() || (rows.empty() && columns.empty())) return {};
  if (batch.empty() && columns.size() > rows.size()) {
    std::swap(a, b);
    std::swap(in_a, in_b);
    sort_axes();
  }
  Groups left, right;
  std::vector<int> labels = batch;
  Shape shape;
  for (const int axis : batch) {
    left.push_back({axis});
    right.push_back({axis});
  }
  // Rows need not be merged where the columns are one matrix. No operand is a vector: ONNX Runtime 1.32 turns
  // it round with a transposition of the other.
  const bool apart = batch.empty() && !rows.empty();
  if (apart)
    for (const int axis : rows) left.push_back({axis});
  else
    left.push_back(rows);
  left.push_back(summed);
  right.insert(right.end(), {summed, columns});
  Held result = apply("MatMul", {arranged(*a, left, space), arranged(*b, right, space)}, type);
  result.shape.clear();
  for (const int axis : batch) result.shape.push_back(space[size_t(axis)]);
  if (apart)
    for (const int axis : rows) result.shape.push_back(space[size_t(axis)]);
  else
    result.shape.push_back(extent_of(rows, space));
  result.shape.push_back(extent_of(columns, space));
  labels.insert(labels.end(), rows.begin(), rows.end());
  labels.insert(labels.end(), columns.begin(), columns.end());
  for (const int axis : labels) shape.push_back(space[size_t(axis)]);
  result = reshape(result, shape);
  const std::vector<int> kept = result_axes(*fold, 0);
  for (int& label : labels) label = int(std::find(kept.begin(), kept.end(), label) - kept.begin());
  return aligned(result, labels, kept.size());
}

std::optional<Held> Exporter::window_fold(const Frame& frame, const Node& node) {
  const FoldAttr* fold = plain_fold(node);
  if (!fold || fold->space.size() < 3) return {};
  const Function& f = frame.function;
  const DType type = node.type().dtype;
  const Op op = fold->monoid.components()[0].op;
  if (type != DType::f32 && type != DType::f16) return {};
  const Shape& space = fold->space;
  std::vector<bool> reduced(space.size());
  for (const int axis : fold->reduced) reduced[size_t(axis)] = true;
  const auto windows_behind = [&](NodeId from) {
    return furthest<Windows>(f, start(space, fold->body_axes[0], from), [&](const Behind& at) {
      return windows_of(at, f[at.node].type().shape, space, reduced);
    });
  };
  const std::vector<int> kept = result_axes(*fold, 0);
  const auto base_of = [&](const Behind& at) {
    Held x = full(frame[at.node], f[at.node].type().shape);
    return at.cast ? cast(x, *at.cast) : x;
  };
  /// The operator's result, whose axes are these of the fold, in the fold's own order.
  const auto result_of = [&](const Windows& w, const std::vector<int>& channels, const std::string& name) {
    Groups groups{w.batch, channels};
    for (const WindowAxis& axis : w.axes)
      groups.push_back(axis.place ? std::vector{*axis.place} : std::vector<int>{});
    Held result{name, type, {}};
    std::vector<int> labels;
    for (const auto& group : groups) result.shape.push_back(extent_of(group, space));
    if (channels.size() > 1) {
      Shape split;
      Groups apart;
      for (const auto& group : groups) {
        if (group.empty()) apart.push_back({});
        for (const int axis : group) apart.push_back({axis});
      }
      for (const auto& group : apart) split.push_back(extent_of(group, space));
      result = reshape(result, split);
      groups = apart;
    }
    for (const auto& group : groups)
      labels.push_back(group.empty() ? -1
                                     : int(std::find(kept.begin(), kept.end(), group[0]) - kept.begin()));
    return aligned(result, labels, kept.size());
  };
  const auto summed_once = [&](const Windows& w, const std::vector<int>& also) {
    std::vector<int> elements = also;
    for (const WindowAxis& axis : w.axes)
      if (axis.element) elements.push_back(*axis.element);
    for (const int axis : fold->reduced)
      if (!space[size_t(axis)].is_constant(1) && !has(elements, axis)) return false;
    return true;
  };

  if (op == Op::max || op == Op::add) {
    const auto found = windows_behind(node.inputs[0]);
    const double outside = op == Op::max ? -std::numeric_limits<double>::infinity() : 0;
    if (found && (found->second.predicate.is_constant(1) || found->second.fill == outside)) {
      const Windows& w = found->first;
      bool slides = false, fits = w.channels.size() < 2 && summed_once(w, {});
      for (const int axis : w.channels) fits &= !reduced[size_t(axis)];
      for (const int axis : w.batch) fits &= !reduced[size_t(axis)];
      double size = 1;
      for (const WindowAxis& axis : w.axes) {
        slides |= axis.place && axis.element;
        fits &= axis.before < axis.size && axis.after < axis.size;
        size *= double(axis.size);
      }
      if (fits && slides) {
        std::vector<Attribute> attributes = attributes_of(w);
        if (op == Op::add) attributes.push_back(attribute("count_include_pad", int64_t(1)));
        std::string name = graph_.node(op == Op::max ? "MaxPool" : "AveragePool",
                                       {base_of(found->second).name}, std::move(attributes));
        if (op == Op::add) name = graph_.node("Mul", {name, number(type, size).name});
        return result_of(w, w.channels, name);
      }
    }
  }
  if (op != Op::add || !is_op(f[node.inputs[0]], Op::mul)) return {};
  const Node& mul = f[node.inputs[0]];
  for (int side = 0; side < 2; side++) {
    const auto found = windows_behind(mul.inputs[size_t(side)]);
    if (!found || (!found->second.predicate.is_constant(1) && found->second.fill != 0)) continue;
    const Windows& w = found->first;
    const auto weight = factor(frame, space, fold->body_axes[0], mul.inputs[size_t(1 - side)]);
    if (!weight) continue;
    // Channels of x: groups, then those that are summed. Of the weight: groups, then those of the result.
    std::vector<int> group, in, elements, out;
    for (const int axis : w.channels) (reduced[size_t(axis)] ? in : group).push_back(axis);
    for (const WindowAxis& axis : w.axes)
      if (axis.element) elements.push_back(*axis.element);
    bool fits = group.size() < 2 && in.size() < 2 && summed_once(w, in) &&
                (group.empty() || in.empty() || w.channels[0] == group[0]);
    for (const int axis : w.batch) fits &= !reduced[size_t(axis)];
    const std::vector<int> of_weight = flat(weight->axes);
    for (const int axis : of_weight)
      if (!has(group, axis) && !has(in, axis) && !has(elements, axis)) out.push_back(axis);
    for (const int axis : out)
      fits &=
          !reduced[size_t(axis)] && !has(w.batch, axis) &&
          std::none_of(w.axes.begin(), w.axes.end(), [&](const WindowAxis& x) { return x.place == axis; });
    for (const std::vector<int>* list : {&group, &in, &elements})
      for (const int axis : *list) fits &= has(of_weight, axis);
    if (!fits || out.size() > 1 || (in.empty() && group.empty() && elements.empty())) continue;
    std::vector<int> channels = group;
    channels.insert(channels.end(), out.begin(), out.end());
    if (group.size() == 1 && !space[size_t(group[0])].is_constant()) continue;
    Groups groups{channels, in};
    for (const WindowAxis& axis : w.axes)
      groups.push_back(axis.element ? std::vector{*axis.element} : std::vector<int>{});
    // Where no window slides, a product of matrices is as well a convolution: it is one where the weight is
    // as Conv has it.
    const bool slides = std::any_of(w.axes.begin(), w.axes.end(),
                                    [](const WindowAxis& axis) { return axis.place && axis.element; });
    if (!slides && weight->axes != groups) continue;
    std::vector<Attribute> attributes = attributes_of(w);
    attributes.push_back(attribute("group", group.empty() ? int64_t(1) : space[size_t(group[0])].value()));
    std::vector<std::string> inputs{base_of(found->second).name, arranged(*weight, groups, space).name};
    const std::string name = graph_.node("Conv", inputs, attributes);
    convolutions_[name] = {std::move(inputs), std::move(attributes)};
    return result_of(w, channels, name);
  }
  return {};
}

} // namespace luminal::onnx_export
