// models/onnx/export_folds.cpp -- folds, scans and sorts.
//
// A monoid over several values is one reduction after the other: its result is the sum (largest, ...) of
// its elements, each moved into the frame of the final result, and those of earlier components are known
// by then.
#include "base/check.h"
#include "models/onnx/exporter.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <limits>
#include <numeric>

namespace luminal::onnx_export {
namespace {

std::vector<int> all_axes(size_t rank) {
  std::vector<int> axes(rank);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

} // namespace

Held Exporter::identity_of(const Monoid& monoid, int component) {
  const DType type = monoid.components()[size_t(component)].dtype;
  return is_float(type) ? number(type, monoid.identity(component))
                        : integer_of(type, monoid.identity_integer(component));
}

Held Exporter::reduce(const Node& node, Op op, const Held& x, const Shape& space,
                      const std::vector<int>& axes) {
  // Where the value does not vary along an axis, it counts as often as the axis is long.
  Held r = ranked(x, space.size());
  Shape stretched = r.shape;
  std::vector<int64_t> along;
  for (const int axis : axes) {
    if (op == Op::add || op == Op::mul) stretched[size_t(axis)] = space[size_t(axis)];
    if (!stretched[size_t(axis)].is_constant(1)) along.push_back(axis);
  }
  if (along.empty()) return r;
  r = full(r, stretched);
  note(r);
  const DType type = x.dtype;
  std::string name = r.name;
  const bool truth = type == DType::boolean;
  const char* word = nullptr;
  switch (op) {
  case Op::add: word = "ReduceSum"; break;
  case Op::mul: word = "ReduceProd"; break;
  case Op::max: word = "ReduceMax"; break;
  case Op::min: word = "ReduceMin"; break;
  case Op::bit_or: word = truth ? "ReduceMax" : nullptr; break;
  case Op::bit_and: word = truth ? "ReduceMin" : nullptr; break;
  default: break;
  }
  if (!word || (truth && (op == Op::add || op == Op::mul)))
    refuse(node, fmt::format("ONNX has no reduction by {} of {}: make the result an input", to_string(op),
                             to_string(type)));
  const bool turned = type == DType::u64 && (op == Op::max || op == Op::min);
  const Held half = integer_of(DType::i64, INT64_MIN);
  if (turned) name = apply("BitwiseXor", {{name, DType::i64, {}}, half}).name;
  name = graph_.node(word, {name, graph_.integers(along)}, {attribute("keepdims", int64_t(1))});
  if (turned) name = apply("BitwiseXor", {{name, DType::i64, {}}, half}).name;
  r.name = name;
  for (const int64_t axis : along) r.shape[size_t(axis)] = 1;
  return op == Op::add || op == Op::mul ? rounded(r) : r;
}

Held Exporter::transformed(const MonoidComponent& component, const std::vector<Held>& bodies,
                           const std::vector<Held>& finals) {
  if (component.transform.is_leaf(0)) return bodies.back();
  std::vector<Held> leaves{bodies.back()};
  for (size_t j = 0; j < finals.size(); j++) {
    leaves.push_back(bodies[j]);
    leaves.push_back(finals[j]);
  }
  return scalar(component.transform, leaves, component.dtype);
}

std::vector<Held> Exporter::fold(const Frame& frame, const Node& node) {
  const auto& attr = std::get<FoldAttr>(node.attr);
  const size_t rank = attr.space.size();
  const IndexSpace space{attr.space, all_axes(rank)};
  std::vector<Held> conditions;
  const HoleValues filled = holes(frame, node, attr.holes, false, space, conditions);
  if (!attr.where.is_constant(1)) conditions.push_back(condition(attr.where, space, filled));
  const bool empty =
      attr.where.is_constant(0) || std::any_of(attr.reduced.begin(), attr.reduced.end(),
                                               [&](int d) { return attr.space[size_t(d)].is_constant(0); });
  std::vector<Held> bodies, finals, results;
  for (int c = 0; c < attr.monoid.size(); c++) {
    const MonoidComponent& component = attr.monoid.components()[size_t(c)];
    const Held identity = identity_of(attr.monoid, c);
    if (empty) {
      finals.push_back(identity);
      results.push_back(identity);
      bodies.push_back(identity);
      continue;
    }
    bodies.push_back(spread(frame[node.inputs[size_t(c)]], attr.body_axes[size_t(c)], rank));
    Held moved = transformed(component, bodies, finals);
    for (const Held& taken : conditions) moved = select(taken, moved, identity);
    Held final = reduce(node, component.op, moved, attr.space, attr.reduced);
    finals.push_back(final);
    // Results keep the axes that they vary with; the others have an extent of 1.
    std::vector<int> kept = result_axes(attr, c), labels(rank, -1);
    for (size_t k = 0; k < kept.size(); k++) labels[size_t(kept[k])] = int(k);
    results.push_back(aligned(final, labels, kept.size()));
  }
  return results;
}

std::vector<Held> Exporter::scan(const Frame& frame, const Node& node) {
  const auto& attr = std::get<ScanAttr>(node.attr);
  const size_t rank = attr.space.size();
  const Expr extent = attr.space[size_t(attr.axis)];
  const auto with_axes = [&](const Held& x, int c) {
    const std::vector<int> kept = result_axes(attr, c);
    std::vector<int> labels(rank, -1);
    for (size_t k = 0; k < kept.size(); k++) labels[size_t(kept[k])] = int(k);
    return aligned(ranked(x, rank), labels, kept.size());
  };
  const auto& components = attr.monoid.components();
  std::vector<Held> elements;
  for (size_t c = 0; c < components.size(); c++) {
    const Held x = ranked(spread(frame[node.inputs[c]], attr.body_axes[c], rank), rank);
    Shape line = x.shape;
    line[size_t(attr.axis)] = extent;
    elements.push_back(full(x, line));
    elements.back().shape = std::move(line);
  }
  if (components.size() == 1 && components[0].op == Op::add && components[0].transform.is_leaf(0)) {
    const Held sums =
        apply("CumSum", {elements[0], {graph_.integer(attr.axis), DType::i64, {}}}, {},
              {attribute("exclusive", int64_t(attr.exclusive)), attribute("reverse", int64_t(attr.reverse))});
    return {with_axes(rounded(sums), 0)};
  }
  // One pass: a state takes one element after the other, each without the axis.
  const auto without_axis = [&](Shape shape) {
    shape.erase(shape.begin() + attr.axis);
    return shape;
  };
  std::vector<std::string> inputs;
  std::vector<Held> states, slices, next;
  graph_.begin_scope();
  for (int c = 0; c < attr.monoid.size(); c++) {
    std::vector<Held> varies{elements[size_t(c)]};
    for (const int other : attr.monoid.dependencies(c)) varies.push_back(elements[size_t(other)]);
    const DType type = components[size_t(c)].dtype;
    states.push_back({graph_.free_name("state"), type, without_axis(broadcast_of(varies))});
    slices.push_back({graph_.free_name("element"), type, without_axis(elements[size_t(c)].shape)});
    const MonoidComponent& component = components[size_t(c)];
    const Held moved = transformed(component, states, next), taken = transformed(component, slices, next);
    next.push_back(full(op(component.op, {moved, taken}), states.back().shape));
  }
  std::vector<ValueData> body_inputs, body_outputs;
  const auto declare_all = [&](std::vector<ValueData>& list, const std::vector<Held>& values) {
    for (const Held& value : values) list.push_back(declare(value.name, value.dtype, value.shape, true));
  };
  for (const auto* values : {&states, &slices}) declare_all(body_inputs, *values);
  for (const auto* values : {&next, attr.exclusive ? &states : &next}) declare_all(body_outputs, *values);
  GraphData body = graph_.end_scope(std::move(body_inputs), std::move(body_outputs));
  for (size_t c = 0; c < states.size(); c++)
    inputs.push_back(full(identity_of(attr.monoid, int(c)), states[c].shape).name);
  for (const Held& element : elements) inputs.push_back(element.name);
  const auto each = [&](const char* name, int64_t value) {
    return attribute(name, std::vector<int64_t>(states.size(), value));
  };
  const auto names = graph_.nodes(
      "Scan", std::move(inputs), 2 * states.size(),
      {attribute("body", std::move(body)), attribute("num_scan_inputs", int64_t(states.size())),
       each("scan_input_axes", attr.axis), each("scan_input_directions", int64_t(attr.reverse)),
       each("scan_output_axes", attr.axis), each("scan_output_directions", int64_t(attr.reverse))});
  std::vector<Held> results;
  for (size_t c = 0; c < states.size(); c++) {
    Shape shape = states[c].shape;
    shape.insert(shape.begin() + attr.axis, extent);
    results.push_back(with_axes({names[states.size() + c], states[c].dtype, shape}, int(c)));
  }
  return results;
}

std::vector<Held> Exporter::sort(const Frame& frame, const Node& node) {
  const auto& attr = std::get<SortAttr>(node.attr);
  const Shape& shape = frame.function[node.inputs[0]].type().shape;
  const DType type = frame.function[node.inputs[0]].type().dtype;
  std::vector<Held> values;
  for (const NodeId input : node.inputs) values.push_back(full(frame[input], shape));
  if (shape[size_t(attr.axis)].is_constant(0) || shape[size_t(attr.axis)].is_constant(1)) return values;
  const std::string count = shape_tensor({shape[size_t(attr.axis)]});
  const auto order = [&](const Held& keys, bool descending) {
    return graph_.nodes("TopK", {keys.name, count}, 2,
                        {attribute("axis", int64_t(attr.axis)), attribute("largest", int64_t(descending)),
                         attribute("sorted", int64_t(1))})[1];
  };
  const auto at = [&](const Held& x, const std::string& places) {
    return with(x, graph_.node("GatherElements", {x.name, places}, {attribute("axis", int64_t(attr.axis))}));
  };
  Held keys = values[0];
  std::string places;
  if (type == DType::boolean)
    keys = {cast_name(keys.name, DType::i32), DType::i32, shape};
  else if (type == DType::u64)
    keys = apply("BitwiseXor", {keys, integer_of(DType::i64, INT64_MIN)});
  if (!is_float(type)) {
    places = order(keys, attr.descending);
  } else {
    // NaN are last. They have the key of the last number, and a second, stable sort parts the two.
    const Held nan = apply("IsNaN", {keys}, DType::boolean);
    const double infinity = std::numeric_limits<double>::infinity();
    places = order(select(nan, number(type, attr.descending ? -infinity : infinity), keys), attr.descending);
    const Held late = at({cast_name(nan.name, DType::i32), DType::i32, shape}, places);
    const Held first{places, DType::i64, shape};
    places = at(first, order(late, false)).name;
  }
  std::vector<Held> sorted;
  for (const Held& value : values) sorted.push_back(at(value, places));
  return sorted;
}

} // namespace luminal::onnx_export
