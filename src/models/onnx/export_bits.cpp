// models/onnx/export_bits.cpp -- shifts, and the bits of one type read as another.
#include "ir/ops.h"
#include "models/onnx/exporter.h"
#include "models/onnx/importer.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::onnx_export {

using onnx::element_type_of;

namespace {

DType pattern_of(int width) {
  return width == 4    ? DType::u4
         : width == 8  ? DType::u8
         : width == 16 ? DType::u16
         : width == 32 ? DType::u32
                       : DType::u64;
}

} // namespace

Held Exporter::shift(Op op, const Held& a, const Held& b) {
  const DType type = a.dtype;
  const bool left = op == Op::shl;
  Held amount = with(b, held_as(type) == DType::i64 ? b.name : cast_name(b.name, DType::i64));
  amount.dtype = DType::i64;
  const auto known = graph_.known(b.name);
  const bool near = known && *known >= 0 && *known < bits(type);
  const Held zero = number(DType::i64, 0), most = number(DType::i64, bits(type) - 1);
  Held fits = amount;
  if (!near) {
    fits = apply("And", {compare(Op::le, zero, amount), compare(Op::le, amount, most)}, DType::boolean);
    amount = select(fits, amount, zero);
  }
  Held wide = with(a, held_as(type) == DType::i64 ? a.name : cast_name(a.name, DType::i64));
  wide.dtype = DType::i64;
  Held negative;
  const bool arithmetic = !left && is_signed(type);
  if (arithmetic) {
    negative = compare(Op::lt, wide, zero);
    wide = select(negative, apply("BitwiseNot", {wide}), wide);
  }
  Held result = apply("BitShift", {reinterpret_u64(wide), reinterpret_u64(amount)}, DType::i64,
                      {attribute("direction", std::string(left ? "LEFT" : "RIGHT"))});
  result.name = cast_name(result.name, DType::i64);
  if (arithmetic) result = select(negative, apply("BitwiseNot", {result}), result);
  if (!near) {
    // By too much, or by less than nothing: nothing is left, or the sign.
    const Held rest = arithmetic ? select(negative, number(DType::i64, -1), zero) : zero;
    result = select(fits, result, rest);
  }
  result.dtype = type;
  if (held_as(type) != DType::i64) result.name = cast_name(result.name, held_as(type));
  return left ? rounded(result) : result;
}

Held Exporter::bitcast(const Frame& frame, const Node& node) {
  const TensorType& from = frame.function[node.inputs[0]].type();
  const DType to = node.type().dtype;
  const auto given = [&](const Node& n) { // the bytes of a weight or constant
    if (const auto* input = std::get_if<InputAttr>(&n.attr); input && input->role == Role::weight)
      return weight_(input->name);
    if (const auto* constant = std::get_if<ConstantAttr>(&n.attr))
      return std::span(std::as_const(*constant->data));
    return std::span<const std::byte>();
  };
  const bool fixed =
      std::all_of(node.type().shape.begin(), node.type().shape.end(), [](Expr e) { return e.is_constant(); });
  if (const auto bytes = given(frame.function[node.inputs[0]]); fixed && !bytes.empty()) {
    std::vector<int64_t> extents;
    int64_t count = 1;
    for (const Expr e : node.type().shape) {
      extents.push_back(e.value());
      count *= e.value();
    }
    const auto used = bytes.first(size_t(storage_bytes(to, count)));
    return enter(graph_.constant(to, extents, {used.begin(), used.end()}), to, node.type().shape);
  }
  for (const DType type : {from.dtype, to})
    if (type == DType::boolean || (is_float(type) && bits(type) == 8))
      refuse(node,
             fmt::format("ONNX has no operator that reads the bits of {} as {}: make the result an input",
                         to_string(from.dtype), to_string(to)));
  const auto as = [&](const Held& x, DType type) { // of one width
    return enter(graph_.node("BitCast", {leave(x)}, {attribute("to", int64_t(element_type_of(type)))}), type,
                 x.shape);
  };
  const int width = bits(from.dtype), wanted = bits(to);
  Held x = full(frame[node.inputs[0]], from.shape);
  if (width == wanted && (is_float(from.dtype) || is_float(to))) return as(x, to);
  // The pattern as an integer without a sign; of another width, several in one or one in several.
  x = is_float(from.dtype) ? as(x, pattern_of(width)) : cast(x, pattern_of(width));
  const DType pattern = pattern_of(wanted);
  const int64_t parts = std::max(width, wanted) / std::min(width, wanted);
  std::vector<std::byte> shifts(size_t(storage_bytes(DType::i64, parts)));
  for (int64_t k = 0; k < parts; k++) store_i64(DType::i64, shifts.data(), k, k * std::min(width, wanted));
  const Held places{graph_.constant(DType::i64, {parts}, std::move(shifts)), DType::i64, {parts}};
  Shape split = from.shape;
  if (wanted > width) {
    split.back() = floordiv(split.back(), parts);
    split.push_back(parts);
    const Held apart = shift(Op::shl, cast(reshape(x, split), pattern), cast(places, pattern));
    x = reduce(node, Op::add, apart, split, {int(split.size()) - 1});
  } else if (wanted < width) {
    split.push_back(1);
    x = cast(shift(Op::shr, reshape(x, split), cast(places, x.dtype)), pattern);
  }
  x = reshape(x, node.type().shape);
  return is_float(to) ? as(x, to) : cast(x, to);
}

} // namespace luminal::onnx_export
