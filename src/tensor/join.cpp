// tensor/join.cpp -- several tensors to one and back: concat, stack, split, chunk, unbind, grids.
#include "luminal/indexing.h"
#include "tensor/extents.h"
#include "tensor/views.h"
#include <algorithm>

namespace luminal {
namespace {

void same_graph(std::string_view op, const std::vector<Tensor>& parts, Where where) {
  if (parts.empty()) throw Error(op, "nothing to join: give at least one tensor", where);
  for (const Tensor& part : parts) graph_of(op, {&parts[0], &part}, where);
}

/// Parts first..last-1 of the padded ones: a balanced tree of choices, so that an element passes
/// few of them.
Tensor choose_part(const std::vector<Tensor>& padded, const std::vector<Expr>& begins, const Shape& whole,
                   int axis, size_t first, size_t last, Where where) {
  if (last - first == 1) return padded[first];
  const size_t middle = first + (last - first) / 2;
  Tensor before = build("concat", padded[0].graph(), where, [&](FunctionBuilder& f) {
    return f.iota(whole, lt(axis_symbol(axis, whole[size_t(axis)]), begins[middle]), DType::boolean);
  });
  Tensor left = choose_part(padded, begins, whole, axis, first, middle, where),
         right = choose_part(padded, begins, whole, axis, middle, last, where);
  return elementwise(Op::select, "concat",
                     {Operand(before, where), Operand(left, where), Operand(right, where)}, where);
}

} // namespace

Tensor concat(const std::vector<Tensor>& parts, int axis, Where where) {
  same_graph("concat", parts, where);
  const Shape first = type_of(parts[0]).shape;
  if (first.empty()) throw Error("concat", "scalars have no axis to be joined along (see stack)", where);
  axis = axis_of("concat", axis, int(first.size()), where);
  DType type = parts[0].dtype();
  std::vector<Expr> begins;
  Expr total = 0;
  for (const Tensor& part : parts) {
    const Shape shape = type_of(part).shape;
    bool fits = shape.size() == first.size();
    for (size_t d = 0; fits && d < shape.size(); d++)
      fits = int(d) == axis || equal_extents(shape[d], first[d]);
    if (!fits)
      throw Error(
          "concat",
          fmt::format("shapes {} and {} differ outside axis {}", text_of(first), text_of(shape), axis),
          where);
    type = promote(type, part.dtype());
    begins.push_back(total);
    total += shape[size_t(axis)];
  }
  std::vector<Tensor> padded;
  std::vector<Expr> starts;
  for (size_t p = 0; p < parts.size(); p++) {
    if (type_of(parts[p]).shape[size_t(axis)].is_constant(0)) continue;
    starts.push_back(begins[p]);
    const Expr after = total - begins[p] - type_of(parts[p]).shape[size_t(axis)];
    padded.push_back(parts[p]
                         .cast(type, where)
                         .pad(axis, Dim::from_id(begins[p].id()), Dim::from_id(after.id()), 0, where));
  }
  Shape whole = first;
  whole[size_t(axis)] = total;
  if (padded.empty()) return parts[0].cast(type, where);
  return choose_part(padded, starts, whole, axis, 0, padded.size(), where);
}

Tensor stack(const std::vector<Tensor>& parts, int axis, Where where) {
  same_graph("stack", parts, where);
  const Shape first = type_of(parts[0]).shape;
  axis = axis_of("stack", axis, int(first.size()) + 1, where);
  std::vector<Tensor> rows;
  for (const Tensor& part : parts) {
    const Shape shape = type_of(part).shape;
    bool equal_shapes = shape.size() == first.size();
    for (size_t d = 0; equal_shapes && d < shape.size(); d++)
      equal_shapes = equal_extents(shape[d], first[d]);
    if (!equal_shapes)
      throw Error("stack",
                  fmt::format("shapes {} and {} differ: all parts must have one shape", text_of(first),
                              text_of(shape)),
                  where);
    rows.push_back(part.unsqueeze(axis, where));
  }
  return concat(rows, axis, where);
}
Tensor hstack(const std::vector<Tensor>& parts, Where where) {
  same_graph("hstack", parts, where);
  std::vector<Tensor> rows;
  for (const Tensor& part : parts) rows.push_back(part.rank() == 0 ? part.unsqueeze(0, where) : part);
  return concat(rows, rows[0].rank() == 1 ? 0 : 1, where);
}
Tensor vstack(const std::vector<Tensor>& parts, Where where) {
  same_graph("vstack", parts, where);
  std::vector<Tensor> rows;
  for (const Tensor& part : parts) {
    Tensor row = part.rank() == 0 ? part.unsqueeze(0, where) : part;
    rows.push_back(row.rank() == 1 ? row.unsqueeze(0, where) : row);
  }
  return concat(rows, 0, where);
}

std::vector<Tensor> Tensor::split(Dims sizes, int axis, Where where) const {
  graph_of("split", {this}, where);
  axis = axis_of("split", axis, rank(), where);
  const Expr extent = type_of(*this).shape[size_t(axis)];
  Expr total = 0;
  for (Dim size : sizes) {
    if (prove(ge(to_expr(size), 0)) == Truth::no)
      throw Error("split", fmt::format("a size of {} is negative", size.to_string()), where);
    total += to_expr(size);
  }
  if (!equal_extents(total, extent))
    throw Error("split",
                fmt::format("sizes {} add up to {}, axis {} of {} has {}", luminal::to_string(sizes),
                            luminal::to_string(total), axis, text_of(type_of(*this).shape),
                            luminal::to_string(extent)),
                where);
  std::vector<Tensor> parts;
  Dim begin = 0;
  for (Dim size : sizes) {
    parts.push_back(narrow(axis, begin, size, where));
    begin = begin + size;
  }
  return parts;
}

std::vector<Tensor> Tensor::split(int64_t size, int axis, Where where) const {
  graph_of("split", {this}, where);
  axis = axis_of("split", axis, rank(), where);
  const Expr extent = type_of(*this).shape[size_t(axis)];
  if (!extent.is_constant())
    throw Error(
        "split",
        fmt::format("axis {} of {} has no fixed size, so the number of parts is not known: give all sizes",
                    axis, text_of(type_of(*this).shape)),
        where);
  if (size < 1 && !(size == 0 && extent.is_constant(0)))
    throw Error("split", fmt::format("parts of {} elements: the size must be positive", size), where);
  Dims sizes;
  int64_t left = extent.value();
  do {
    sizes.push_back(std::min(size, left));
    left -= std::min(size, left);
  } while (left > 0);
  return split(sizes, axis, where);
}

std::vector<Tensor> Tensor::chunk(int64_t parts, int axis, Where where) const {
  graph_of("chunk", {this}, where);
  axis = axis_of("chunk", axis, rank(), where);
  if (parts < 1) throw Error("chunk", fmt::format("{} parts: there must be at least one", parts), where);
  const Expr extent = type_of(*this).shape[size_t(axis)];
  if (extent.is_constant()) {
    const int64_t size = (extent.value() + parts - 1) / parts;
    return size == 0 ? split(Dims(size_t(parts), Dim(0)), axis, where) : split(size, axis, where);
  }
  if (prove(eq(mod(extent, parts), 0)) != Truth::yes)
    throw Error(
        "chunk",
        fmt::format("axis {} of {} is not known to be a multiple of {}, so the number of parts is not "
                    "fixed: split it by sizes",
                    axis, text_of(type_of(*this).shape), parts),
        where);
  return split(Dims(size_t(parts), Dim::from_id(floordiv(extent, parts).id())), axis, where);
}

std::vector<Tensor> Tensor::unbind(int axis, Where where) const {
  graph_of("unbind", {this}, where);
  axis = axis_of("unbind", axis, rank(), where);
  const Expr extent = type_of(*this).shape[size_t(axis)];
  if (!extent.is_constant())
    throw Error("unbind",
                fmt::format("axis {} of {} has no fixed size, so the number of parts is not known", axis,
                            text_of(type_of(*this).shape)),
                where);
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < extent.value(); i++) parts.push_back(select(axis, i, where));
  return parts;
}

std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes, bool xy, Where where) {
  same_graph("meshgrid", axes, where);
  std::vector<Tensor> lines;
  for (const Tensor& line : axes) {
    if (line.rank() > 1)
      throw Error("meshgrid",
                  fmt::format("{} is not a line of coordinates: give tensors of one axis",
                              text_of(type_of(line).shape)),
                  where);
    lines.push_back(line.rank() == 0 ? line.unsqueeze(0, where) : line);
  }
  std::vector<int> place;
  for (size_t d = 0; d < lines.size(); d++) place.push_back(int(d));
  if (xy && lines.size() > 1) std::swap(place[0], place[1]);
  Shape shape(lines.size());
  for (size_t d = 0; d < lines.size(); d++) shape[size_t(place[d])] = type_of(lines[d]).shape[0];
  std::vector<Tensor> grids;
  for (size_t d = 0; d < lines.size(); d++)
    grids.push_back(
        view_of("meshgrid", lines[d], shape, {axis_symbol(place[d], shape[size_t(place[d])])}, where));
  return grids;
}

Tensor cartesian_prod(const std::vector<Tensor>& axes, Where where) {
  same_graph("cartesian_prod", axes, where);
  std::vector<Tensor> columns = meshgrid(axes, false, where);
  if (columns.size() == 1) return columns[0];
  for (Tensor& column : columns) column = column.flatten(0, -1, where);
  return stack(columns, 1, where);
}

} // namespace luminal
