// models/onnx/export_index.cpp -- dimensions, index expressions and shapes as tensors; order and number of
// axes.
#include "base/check.h"
#include "models/onnx/exporter.h"
#include <algorithm>
#include <numeric>

namespace luminal::onnx_export {

Held Exporter::dimension(Expr symbol) {
  const std::string name(symbol.name());
  const auto found = axis_of_dimension_.find(name);
  if (found == axis_of_dimension_.end()) return {name, DType::i64, {}}; // an input of its own
  const std::string shape = graph_.node("Shape", {found->second.first});
  return {graph_.node("Gather", {shape, graph_.integer(int64_t(found->second.second))},
                      {attribute("axis", int64_t(0))}),
          DType::i64,
          {}};
}

Held Exporter::index(Expr e, const IndexSpace& space, const HoleValues& holes) {
  const auto as_number = [&](Held x) {
    return x.dtype == DType::boolean ? Held{cast_name(x.name, DType::i64), DType::i64, x.shape} : x;
  };
  const auto as_truth = [&](const Held& x) {
    return x.dtype == DType::boolean ? x : compare(Op::ne, x, number(DType::i64, 0));
  };
  if (e.is_constant()) return {graph_.integer(e.value()), DType::i64, {}};
  if (e.is_symbol()) {
    for (size_t k = 0; k < space.axes.size(); k++) {
      const Expr extent = space.extents[k];
      if (e != axis_symbol(space.axes[k], extent)) continue;
      const Held end = index(extent);
      const std::string range = graph_.node("Range", {graph_.integer(0), end.name, graph_.integer(1)});
      Shape shape(space.axes.size(), Expr(1));
      shape[k] = extent;
      shape.erase(shape.begin(), shape.begin() + long(k));
      if (shape.size() == 1) return {range, DType::i64, shape};
      std::vector<int64_t> behind(shape.size() - 1);
      std::iota(behind.begin(), behind.end(), int64_t(1));
      return {graph_.node("Unsqueeze", {range, graph_.integers(behind)}), DType::i64, shape};
    }
    const auto hole = holes.find(std::string(e.name()));
    if (hole == holes.end()) return dimension(e);
    std::vector<int> places; // an axis of extent 1 is not read
    for (const int axis : hole->second.axes) {
      const auto at = std::find(space.axes.begin(), space.axes.end(), axis);
      places.push_back(at == space.axes.end() ? -1 : int(at - space.axes.begin()));
    }
    return aligned(hole->second.value, places, space.axes.size());
  }
  std::vector<Held> args;
  for (const Expr arg : e.args()) args.push_back(index(arg, space, holes));
  const auto joined = [&](Op op) {
    Held result = as_number(args[0]);
    for (size_t i = 1; i < args.size(); i++) result = integer_op(op, {result, as_number(args[i])});
    return result;
  };
  switch (e.kind()) {
  case ExprKind::add: return joined(Op::add);
  case ExprKind::mul: return joined(Op::mul);
  case ExprKind::min: return joined(Op::min);
  case ExprKind::max: return joined(Op::max);
  case ExprKind::floordiv:
  case ExprKind::mod: {
    // Both have no sign where nothing is negative, which is what ONNX's operators do.
    const bool plain = e.args()[0].range().low >= 0 && e.args()[1].range().low > 0;
    const bool divides = e.kind() == ExprKind::floordiv;
    if (plain) return apply(divides ? "Div" : "Mod", {as_number(args[0]), as_number(args[1])});
    return joined(divides ? Op::div : Op::rem);
  }
  case ExprKind::lt: return compare(Op::lt, as_number(args[0]), as_number(args[1]));
  case ExprKind::eq: return compare(Op::eq, as_number(args[0]), as_number(args[1]));
  case ExprKind::ne: return compare(Op::ne, as_number(args[0]), as_number(args[1]));
  case ExprKind::logical_and:
  case ExprKind::logical_or: {
    Held result = as_truth(args[0]);
    const char* op = e.kind() == ExprKind::logical_and ? "And" : "Or";
    for (size_t i = 1; i < args.size(); i++) result = apply(op, {result, as_truth(args[i])});
    return result;
  }
  default: LUMINAL_CHECK(false, "an expression of another kind: {}", to_string(e));
  }
  return {};
}

std::string Exporter::shape_tensor(const Shape& shape) {
  std::vector<int64_t> known;
  for (const Expr e : shape)
    if (e.is_constant()) known.push_back(e.value());
  if (known.size() == shape.size()) return graph_.integers(known);
  std::vector<std::string> parts;
  for (const Expr e : shape) {
    if (e.is_constant())
      parts.push_back(graph_.integers({e.value()}));
    else
      parts.push_back(graph_.node("Unsqueeze", {index(e).name, graph_.integers({0})}));
  }
  return parts.size() == 1 ? parts[0] : graph_.node("Concat", parts, {attribute("axis", int64_t(0))});
}

Held Exporter::reshape(const Held& given, const Shape& shape) {
  if (given.shape == shape) return given;
  if (const auto number = number_as(given, shape)) return *number;
  const auto earlier = reshaped_from_.find(given.name);
  const Held x = earlier == reshaped_from_.end() ? given : earlier->second;
  if (x.shape == shape) return {x.name, given.dtype, shape};
  // Extents that vary: 0 keeps the one of x at this place, one -1 is what is left.
  std::vector<int64_t> text;
  bool zero = false, constant = true;
  int open = 0;
  for (size_t d = 0; d < shape.size(); d++) {
    zero |= shape[d].range().low <= 0;
    constant &= shape[d].is_constant();
    const bool same = !shape[d].is_constant() && d < x.shape.size() && shape[d] == x.shape[d];
    text.push_back(shape[d].is_constant() ? shape[d].value() : same ? 0 : -1);
    open += text.back() == -1;
  }
  std::vector<Attribute> attributes;
  std::string sizes;
  if (constant || (open <= 1 && !zero)) {
    sizes = graph_.integers(text);
    if (zero) attributes.push_back(attribute("allowzero", int64_t(1)));
  } else {
    sizes = shape_tensor(shape);
    attributes.push_back(attribute("allowzero", int64_t(1)));
  }
  return reshaped({graph_.node("Reshape", {x.name, sizes}, std::move(attributes)), given.dtype, shape}, x);
}

Held Exporter::reshaped(const Held& result, const Held& from) {
  const auto earlier = reshaped_from_.find(from.name);
  reshaped_from_[result.name] = earlier == reshaped_from_.end() ? from : earlier->second;
  return result;
}

std::optional<Held> Exporter::number_as(const Held& x, const Shape& shape) {
  const auto known = graph_.known(x.name);
  if (!known || !is_float(x.dtype) || held_as(x.dtype) != x.dtype) return {};
  if (std::any_of(shape.begin(), shape.end(), [](Expr e) { return !e.is_constant(1); })) return {};
  std::vector<std::byte> bytes(size_t(storage_bytes(x.dtype, 1)));
  store_f64(x.dtype, bytes.data(), 0, *known);
  return Held{graph_.constant(x.dtype, std::vector<int64_t>(shape.size(), 1), std::move(bytes)), x.dtype,
              shape};
}

const Held* Exporter::earlier(const Held& x, const Shape& shape) const {
  const auto found = reshaped_from_.find(x.name);
  return found != reshaped_from_.end() && found->second.shape == shape ? &found->second : nullptr;
}

Held Exporter::transpose(const Held& x, const std::vector<int>& order) {
  if (std::is_sorted(order.begin(), order.end())) return x;
  Shape shape;
  std::vector<int64_t> perm;
  for (const int d : order) {
    shape.push_back(x.shape[size_t(d)]);
    perm.push_back(d);
  }
  return {graph_.node("Transpose", {x.name}, {attribute("perm", perm)}), x.dtype, shape};
}

Held Exporter::ranked(const Held& x, size_t rank) {
  if (x.shape.size() == rank) return x;
  LUMINAL_CHECK(x.shape.size() < rank, "{} axes are held for {}", x.shape.size(), rank);
  std::vector<int64_t> axes(rank - x.shape.size());
  std::iota(axes.begin(), axes.end(), int64_t(0));
  Shape shape(axes.size(), Expr(1));
  shape.insert(shape.end(), x.shape.begin(), x.shape.end());
  if (const auto number = number_as(x, shape)) return *number;
  if (const Held* same = earlier(x, shape)) return *same;
  return reshaped({graph_.node("Unsqueeze", {x.name, graph_.integers(axes)}), x.dtype, shape}, x);
}

Held Exporter::full(const Held& x, const Shape& shape) {
  if (x.shape == shape) return x;
  Shape wanted = shape;
  bool stretched = x.shape.size() != shape.size();
  for (size_t k = 1; k <= x.shape.size(); k++) {
    const Expr held = x.shape[x.shape.size() - k];
    Expr& extent = wanted[wanted.size() - k];
    if (held.is_constant(1))
      stretched |= !extent.is_constant(1);
    else
      extent = 1; // as it is
  }
  if (!stretched) return {x.name, x.dtype, shape};
  if (x.shape.size() != shape.size() &&
      std::all_of(wanted.begin(), wanted.end(), [](Expr e) { return e.is_constant(1); }))
    return {ranked(x, shape.size()).name, x.dtype, shape};
  return {graph_.node("Expand", {x.name, shape_tensor(wanted)}), x.dtype, shape};
}

Held Exporter::spread(const Held& x, const std::vector<int>& axes, size_t rank) {
  if (x.shape.empty()) return x;
  Held r = ranked(x, axes.size());
  std::vector<int> order(axes.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](int a, int b) { return axes[size_t(a)] < axes[size_t(b)]; });
  r = transpose(r, order);
  Shape shape(rank, Expr(1));
  std::vector<int64_t> missing;
  for (size_t k = 0; k < axes.size(); k++) shape[size_t(axes[size_t(order[k])])] = r.shape[k];
  for (size_t d = 0; d < rank; d++)
    if (std::find(axes.begin(), axes.end(), int(d)) == axes.end()) missing.push_back(int64_t(d));
  if (missing.empty()) return r;
  // Leading axes may stay away.
  size_t lead = 0;
  while (lead < missing.size() && missing[lead] == int64_t(lead)) lead++;
  if (lead == missing.size()) {
    shape.erase(shape.begin(), shape.begin() + long(lead));
    return {r.name, r.dtype, shape};
  }
  if (const Held* same = earlier(r, shape)) return *same;
  return reshaped({graph_.node("Unsqueeze", {r.name, graph_.integers(missing)}), r.dtype, shape}, r);
}

} // namespace luminal::onnx_export
