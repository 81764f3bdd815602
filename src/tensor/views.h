// tensor/views.h -- what the movement operations share: index maps, checks, ranges as Python writes
// them.
#pragma once
#include "tensor/graph_state.h"
#include <fmt/format.h>

namespace luminal {

/// i0, i1, ... of the shape.
std::vector<Expr> identity_map(const Shape& shape);
Expr product_of(const Shape& shape);
/// What is not proved for all dimensions is checked before each step; `what` needs it.
void assume(GraphState& graph, Expr condition, std::string_view what, Where where);
/// "slice of x (f32[n, 3]) along axis 0"
std::string on_axis(std::string_view op, const Tensor& x, int axis);
/// Axes counted from 0; Error where one does not exist or is named twice.
std::vector<int> axes_of(std::string_view op, std::vector<int> axes, int rank, Where where);
Tensor view_of(std::string_view op, const Tensor& x, Shape shape, std::vector<Expr> map, Where where,
               Expr predicate = 1, double fill = 0);
/// An integer of any size as a value of that shape.
NodeId integer(FunctionBuilder& b, DType type, int64_t value, const Shape& shape);
Tensor number_of(std::string_view op, const std::shared_ptr<GraphState>& graph, DType type, double value,
                 const Shape& shape, Where where);
/// Integers in the order of the elements, NaN above all of them, zeros of both signs equal: what
/// sorts and comparisons need no care for.
Tensor ordered_keys(std::string_view op, const Tensor& x, Where where); // sorting.cpp
/// Has no element, whatever the dimensions are.
bool is_empty(const Shape& shape);
/// min and max that stay out of an expression where the ranges decide.
Expr smaller(Expr a, Expr b);
Expr larger(Expr a, Expr b);

struct IndexRange {
  Expr first, count;
};
/// start:end:step of an axis as in Python: constants count from the end where negative and are
/// clamped; an expression must lie within the axis, which is assumed where it is not proved.
IndexRange index_range(std::string_view op, const Tensor& x, int axis, std::optional<Dim> start,
                       std::optional<Dim> end, int64_t step, Where where);
/// A view that reads axis `axis` at the integers `ids`, whose axes stand at its place in the
/// result.
Tensor gather_axis(std::string_view op, const Tensor& x, int axis, const Tensor& ids, OutOfRange policy,
                   double fill, Where where);
void check_ids(std::string_view op, const Tensor& ids, Where where); // Error unless integers
/// 0..extent-1 of an axis; a table without rows has none.
Interval index_interval(Expr extent);

} // namespace luminal
