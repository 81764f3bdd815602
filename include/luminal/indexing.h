// luminal/indexing.h -- free functions on tensors: joining, windows, gather and scatter, scans,
// order, results of bounded size. Behaviour is PyTorch's for the function of the same name where
// the comment says nothing else. Indices lie in 0 .. extent-1: a negative or too large one is an
// Error at execute that names the operation and its line. Every operation is a composition of
// views, scatters, sorts, scans and folds that the compiler fuses.
#pragma once
#include "luminal/operators.h"
#include <optional>

namespace luminal {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

// ---- joining, grids ----
/// Joined along `axis`; the dtypes are promoted. All other extents are equal.
Tensor concat(const std::vector<Tensor>& parts, int axis, LUMINAL_WHERE);
/// Joined along a new axis (see also concat).
Tensor stack(const std::vector<Tensor>& parts, int axis = 0, LUMINAL_WHERE);
Tensor hstack(const std::vector<Tensor>& parts, LUMINAL_WHERE);
Tensor vstack(const std::vector<Tensor>& parts, LUMINAL_WHERE);
Tensor dstack(const std::vector<Tensor>& parts, LUMINAL_WHERE);
Tensor column_stack(const std::vector<Tensor>& parts, LUMINAL_WHERE);
/// So many parts, the first ones larger by one where they cannot be equal; hsplit: of axis 1 (0 of
/// a line), vsplit: 0, dsplit: 2, in equal parts.
std::vector<Tensor> tensor_split(const Tensor& x, int64_t parts, int axis = 0, LUMINAL_WHERE);
std::vector<Tensor> hsplit(const Tensor& x, int64_t parts, LUMINAL_WHERE);
std::vector<Tensor> vsplit(const Tensor& x, int64_t parts, LUMINAL_WHERE);
std::vector<Tensor> dsplit(const Tensor& x, int64_t parts, LUMINAL_WHERE);
/// Lines of coordinates [n0], [n1], .. as grids [n0, n1, ..]; `xy`: the first two axes change
/// places.
std::vector<Tensor> meshgrid(const std::vector<Tensor>& axes, bool xy = false, LUMINAL_WHERE);
/// [n0], [n1], .. (k of them) -> [n0 * n1 * .., k]: every combination, the last one running
/// fastest.
Tensor cartesian_prod(const std::vector<Tensor>& axes, LUMINAL_WHERE);

// ---- windows, diagonals ----
/// Windows over several axes; the axes within a window come last, in the order of `axes`. Empty:
/// strides and dilations of 1.
Tensor windows(const Tensor& x, std::vector<int> axes, std::vector<int64_t> sizes,
               std::vector<int64_t> strides = {}, std::vector<int64_t> dilations = {}, LUMINAL_WHERE);
/// Keeps `spacing` elements, leaves out the next `size`, and so on along the axis.
Tensor excise(const Tensor& x, int64_t spacing, int64_t size, int axis = -1, LUMINAL_WHERE);
/// Turned by 90 degrees from axis a towards axis b, `times` times (negative: the other way).
Tensor rot90(const Tensor& x, int times = 1, int a = 0, int b = 1, LUMINAL_WHERE);
/// A line becomes a matrix with it on the diagonal, a matrix gives its diagonal.
Tensor diag(const Tensor& x, int64_t offset = 0, LUMINAL_WHERE);
/// The last axis on the diagonal of two new axes a and b, zeros elsewhere.
Tensor diag_embed(const Tensor& x, int64_t offset = 0, int a = -2, int b = -1, LUMINAL_WHERE);
/// Sum of the diagonal of a matrix; of integers as i64.
Tensor trace(const Tensor& x, LUMINAL_WHERE);

// ---- gather ----
/// x[ids0, ids1, ..]: index tensors of one broadcast shape B for the first axes -> B + the other
/// axes of x.
Tensor index_get(const Tensor& x, const std::vector<Tensor>& ids, LUMINAL_WHERE);
/// As ONNX: index [.., k] names the first k axes of x -> [..] + the other axes of x.
Tensor gather_nd(const Tensor& x, const Tensor& index, LUMINAL_WHERE);
/// Rows of a table [rows, width]. `padding_idx` names a row that training leaves alone; forward it
/// is a row like any other.
Tensor embedding(const Tensor& table, const Tensor& ids, std::optional<int64_t> padding_idx = {},
                 LUMINAL_WHERE);
/// ids [..] -> i64 [.., classes]. An id that is not a class gives a row of zeros (PyTorch: an
/// error).
Tensor one_hot(const Tensor& ids, int64_t classes, LUMINAL_WHERE);

// ---- scatter: values are combined in row-major order, so that of equal indices the last one set stays ----
// Values must go into the type of x without loss (PyTorch: have the same type).
/// As Tensor::scatter; without `include_self`, elements that are combined with start from the
/// identity, not from x.
Tensor scatter_reduce(const Tensor& x, int axis, const Tensor& index, const Tensor& values, ScatterOp how,
                      bool include_self = true, LUMINAL_WHERE);
/// x[ids0, ids1, ..] = values, or combined with them; values broadcast to B + the other axes of x
/// (see index_get).
Tensor index_put(const Tensor& x, const std::vector<Tensor>& ids, Operand values,
                 ScatterOp how = ScatterOp::set, LUMINAL_WHERE);
/// As ONNX: x[index[.., :]] = updates[..], or combined with them.
Tensor scatter_nd(const Tensor& x, const Tensor& index, const Tensor& updates, ScatterOp how = ScatterOp::set,
                  LUMINAL_WHERE);
/// x[.., ids[i], ..] += alpha * values[.., i, ..]; ids [n].
Tensor index_add(const Tensor& x, int axis, const Tensor& ids, const Tensor& values, double alpha = 1,
                 LUMINAL_WHERE);
Tensor index_copy(const Tensor& x, int axis, const Tensor& ids, const Tensor& values, LUMINAL_WHERE);
Tensor index_fill(const Tensor& x, int axis, const Tensor& ids, double value, LUMINAL_WHERE);

/// scatter_reduce with the mean; of integers rounded down. Without `include_self` x stays only
/// where nothing comes.
Tensor scatter_mean(const Tensor& x, int axis, const Tensor& index, const Tensor& values,
                    bool include_self = true, LUMINAL_WHERE);
/// x, and where the mask (bool, broadcast to x) holds the next element of `source`, in row-major
/// order; too few of them are an Error at execute.
Tensor masked_scatter(const Tensor& x, const Tensor& mask, const Tensor& source, LUMINAL_WHERE);
Tensor take(const Tensor& x, const Tensor& index, LUMINAL_WHERE); ///< of the flattened x
/// x with `values` at one index of an axis (values lack it), or at start:start + their extent.
Tensor select_scatter(const Tensor& x, const Tensor& values, int axis, int64_t index, LUMINAL_WHERE);
Tensor slice_scatter(const Tensor& x, const Tensor& values, int axis, int64_t start = 0, LUMINAL_WHERE);
/// Places of a triangle: i64 [2, count], row by row.
Tensor tril_indices(Graph& graph, int64_t rows, int64_t columns, int64_t offset = 0, LUMINAL_WHERE);
Tensor triu_indices(Graph& graph, int64_t rows, int64_t columns, int64_t offset = 0, LUMINAL_WHERE);

// ---- results of bounded size: a fixed capacity, and how much of it is used ----
struct Bounded {
  Tensor values;
  Tensor count; ///< i64: how many there are; more than the capacity means that the others were left out
};
/// Places of the elements that are not zero, in row-major order: i64 [capacity, axes of x]; `fill`
/// in unused rows.
Bounded nonzero(const Tensor& x, int64_t capacity, int64_t fill = -1, LUMINAL_WHERE);
/// Elements where the mask (bool, broadcast with x) holds, in row-major order: [capacity]; `fill`
/// behind them.
Bounded masked_select(const Tensor& x, const Tensor& mask, int64_t capacity, double fill = 0, LUMINAL_WHERE);
struct Unique {
  Tensor values;  ///< [capacity], ascending, 0 behind them; every NaN is a value of its own
  Tensor inverse; ///< i64, shape of x: which value each element is
  Tensor counts;  ///< i64 [capacity]: how often each occurs
  /// i64: how many values there are; more than the capacity means that the largest were left out
  Tensor count;
};
Unique unique(const Tensor& x, int64_t capacity, LUMINAL_WHERE);

// ---- order, counts ----
/// The k-th smallest element (k from 1) and the first of its places; NaN is greater than every
/// number.
Indexed kthvalue(const Tensor& x, int64_t k, int axis = -1, bool keep_dims = false, LUMINAL_WHERE);
/// The lower of two middle elements, and the first of its places; NaN where there is one.
Indexed median(const Tensor& x, int axis = -1, bool keep_dims = false, LUMINAL_WHERE);
/// How many elements of `sorted` ([n], or [.., n] with the leading axes of values) come before each
/// value: i64. `right`: equal ones, too. NaN is greater than every number; `nan_first`: a NaN in `sorted`
/// comes before every value, wherever it stands (PyTorch's comparison).
Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right = false, bool nan_first = false,
                    LUMINAL_WHERE);
/// searchsorted(boundaries, x, right, nan_first).
Tensor bucketize(const Tensor& x, const Tensor& boundaries, bool right = false, bool nan_first = false,
                 LUMINAL_WHERE);
/// How often 0, 1, .. bins-1 occur in ids [n]; with weights [n] their sums. (PyTorch: as many bins
/// as the largest id asks for.)
Tensor bincount(const Tensor& ids, int64_t bins, const Tensor& weights = {}, LUMINAL_WHERE);
/// Counts in `bins` equal parts of low..high, in the dtype of x; what lies outside is not counted.
Tensor histc(const Tensor& x, int64_t bins, double low, double high, LUMINAL_WHERE);

// ---- scans ----
struct ScanOptions {
  bool exclusive = false; ///< element k leaves out x[k]: the first one is the identity
  bool reverse = false;   ///< from the end
};
/// Sums and products of all prefixes; integers and bool count in i64, f16 and bf16 accumulate in
/// f32.
Tensor cumsum(const Tensor& x, int axis, ScanOptions options = {}, LUMINAL_WHERE);
Tensor cumprod(const Tensor& x, int axis, ScanOptions options = {}, LUMINAL_WHERE);
/// Differences of neighbours, `times` times; of bool: whether they differ.
Tensor diff(const Tensor& x, int times = 1, int axis = -1, LUMINAL_WHERE);

#undef LUMINAL_WHERE
} // namespace luminal
