// models/onnx/export_scatter.cpp -- integers that fill holes of index maps, and scatters.
#include "models/onnx/exporter.h"
#include <algorithm>
#include <fmt/format.h>
#include <numeric>

namespace luminal::onnx_export {

HoleValues Exporter::holes(const Frame& frame, const Node& node, const std::vector<Hole>& list, bool masked,
                           const IndexSpace& space, std::vector<Held>& conditions) {
  HoleValues values;
  for (size_t h = 0; h < list.size(); h++) {
    const Hole& hole = list[h];
    const Held& given = frame[node.inputs[size_t(hole.input)]];
    Held held = cast(given, DType::i64);
    if (frame.function[node.inputs[size_t(hole.input)]].type().dtype == DType::u64) // held in the same bits
      held =
          select(compare(Op::lt, held, integer_of(DType::i64, 0)), integer_of(DType::i64, INT64_MAX), held);
    HoleValue filled{ranked(held, hole.axes.size()), hole.axes};
    const bool bounded_low = hole.range.low != unbounded_low,
               bounded_high = hole.range.high != unbounded_high;
    const Held low = integer_of(DType::i64, bounded_low ? hole.range.low : 0),
               high = integer_of(DType::i64, bounded_high ? hole.range.high : 0);
    if (hole.policy == OutOfRange::fill) {
      std::vector<int> places;
      for (const int axis : hole.axes) places.push_back(axis);
      const Held over = spread(filled.value, places, space.axes.size());
      if (bounded_low) conditions.push_back(compare(Op::le, low, over));
      if (bounded_high) conditions.push_back(compare(Op::le, over, high));
    }
    if (hole.policy != OutOfRange::error || masked) {
      if (bounded_low) filled.value = apply("Max", {filled.value, low});
      if (bounded_high) filled.value = apply("Min", {filled.value, high});
    }
    const Expr symbol = hole_symbol(int(h), hole.range);
    if (symbol.is_symbol()) values.emplace(std::string(symbol.name()), std::move(filled));
  }
  return values;
}

Held Exporter::scatter(const Frame& frame, const Node& node) {
  const auto& attr = std::get<ScatterAttr>(node.attr);
  const Shape base_shape = frame.function[node.inputs[0]].type().shape,
              shape = frame.function[node.inputs[1]].type().shape;
  const DType dtype = node.type().dtype;
  const bool none = std::any_of(shape.begin(), shape.end(), [](Expr e) { return e.is_constant(0); });
  if (none || attr.predicate.is_constant(0)) return frame[node.inputs[0]];
  std::string reduction = "none";
  const bool truth = dtype == DType::boolean;
  if (attr.op) {
    const Op op = *attr.op;
    reduction = op == Op::add                                   ? "add"
                : op == Op::mul                                 ? "mul"
                : op == Op::max || (truth && op == Op::bit_or)  ? "max"
                : op == Op::min || (truth && op == Op::bit_and) ? "min"
                                                                : "";
    if (reduction.empty() || (dtype == DType::u64 && op != Op::add && op != Op::mul))
      refuse(node, fmt::format("ONNX has no scatter by {} of {}: make the result an input", to_string(op),
                               to_string(dtype)));
  }
  IndexSpace space{shape, std::vector<int>(shape.size())};
  std::iota(space.axes.begin(), space.axes.end(), 0);
  std::vector<Held> conditions;
  const HoleValues filled = holes(frame, node, attr.holes, !attr.predicate.is_constant(1), space, conditions);
  if (!attr.predicate.is_constant(1)) conditions.push_back(condition(attr.predicate, space, filled));
  Expr place = 0, count = 1, values = 1;
  for (size_t d = 0; d < attr.map.size(); d++) place = place * base_shape[d] + attr.map[d];
  for (const Expr e : base_shape) count *= e;
  for (const Expr e : shape) values *= e;
  Held at = index(place, space, filled);
  Held base = full(frame[node.inputs[0]], base_shape);
  if (conditions.empty()) {
    base = reshape(base, {count});
  } else { // what is left out goes to an element behind the others
    Held all = conditions[0];
    for (size_t i = 1; i < conditions.size(); i++) all = apply("And", {all, conditions[i]});
    at = select(all, at, index(count));
    base = joined(base, number(dtype, 0));
  }
  Held given = reshape(full(frame[node.inputs[1]], shape), {values});
  at = reshape(full(at, shape), {values});
  const bool as_numbers = truth && attr.op;
  if (as_numbers) {
    base.name = cast_name(base.name, DType::i32);
    given.name = cast_name(given.name, DType::i32);
  }
  Held result{graph_.node("ScatterElements", {base.name, at.name, given.name},
                          {attribute("axis", int64_t(0)), attribute("reduction", reduction)}),
              dtype, base.shape};
  if (as_numbers) result.name = cast_name(result.name, DType::boolean);
  if (!conditions.empty())
    result = {
        graph_.node("Slice", {result.name, graph_.integers({0}), shape_tensor({count})}), dtype, {count}};
  if (attr.op) result = rounded(result);
  return reshape(result, base_shape);
}

} // namespace luminal::onnx_export
