// luminal/tensor.h -- Tensor: a handle of a value in a lazy graph. Operations only extend the
// graph; Graph::compile and Graph::execute do the work. Every operation checks shapes and types at
// once and throws luminal::Error with the caller's line.
#pragma once
#include "luminal/arguments.h"
#include "luminal/dim.h"
#include "luminal/dtype.h"
#include "luminal/error.h"
#include "luminal/unary.h"
#include "luminal/values.h"
#include <array>
#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace luminal {

class Device;
class Graph;
struct GraphState; // shared by a Graph and the Tensors made from it
struct Indexed;    // values and their places (i64) along an axis
struct Operand;    // luminal/operators.h: a tensor or a number, and the place in the caller's source

/// Shares ownership of its graph, so a handle never dangles: it stays valid when the Graph is moved
/// or destroyed.
class Tensor {
public:
  using Where = std::source_location;
#define LUMINAL_WHERE Where where = Where::current()
  Tensor() = default;
  bool defined() const { return graph_ != nullptr; }
  DType dtype(LUMINAL_WHERE) const;
  Dims shape(LUMINAL_WHERE) const;
  int rank(LUMINAL_WHERE) const { return int(shape(where).size()); }
  Dim dim(int axis, LUMINAL_WHERE) const; ///< negative axes count from the end
  Dim size(int axis, LUMINAL_WHERE) const { return dim(axis, where); }
  std::string name(LUMINAL_WHERE) const;
  /// Shown in text forms, reports and errors. A kept value is a result of this name: that of an
  /// exported program.
  Tensor& set_name(std::string name, LUMINAL_WHERE);
  Device device(LUMINAL_WHERE) const; ///< luminal/device.h
  /// The value moved to a device; this tensor itself where it lies there. What is made from it is
  /// made there.
  Tensor to(const Device& device, LUMINAL_WHERE) const;

  // ---- data (inputs before execute; kept values after it) ----
  /// Copies numbers in, converted to this tensor's dtype. A flat list or one range must have as
  /// many numbers as the tensor; nested lists and ranges must have its shape: x.set({{1, 2}, {3,
  /// 4}}). A weight may be set again: what is computed from weights is then computed again.
  void set(const HostValues& values, LUMINAL_WHERE);
  /// The same, and the dynamic dimensions of the shape take the sizes of the values (or of `shape`,
  /// for a flat list).
  void set_dyn(const HostValues& values, LUMINAL_WHERE);
  void set_dyn(const HostValues& values, const std::vector<int64_t>& shape, LUMINAL_WHERE);
  /// `load` is called when the value is first needed: it returns what `set` takes, or takes the
  /// tensor and sets it.
  template <class F> void set_deferred(F load, LUMINAL_WHERE) {
    defer(
        [load = std::move(load), where](Tensor& tensor) mutable {
          if constexpr (std::is_invocable_v<F&, Tensor&>)
            load(tensor);
          else
            tensor.set(load(), where);
        },
        where);
  }
  void set_bytes(std::span<const std::byte> bytes, DType type, LUMINAL_WHERE);
  /// Uses the caller's memory in place, row-major and packed; `owner` keeps it alive.
  void borrow(const void* data, size_t bytes, std::shared_ptr<const void> owner = nullptr, LUMINAL_WHERE);
  /// The same where the type must be this tensor's.
  template <Element T>
  void borrow(std::span<const T> values, std::shared_ptr<const void> owner = nullptr, LUMINAL_WHERE) {
    check_borrowed(dtype_of<T>, where);
    borrow(values.data(), values.size_bytes(), std::move(owner), where);
  }
  /// The value is readable after each execute; nothing else is held (but inputs and states).
  Tensor& keep(LUMINAL_WHERE);
  Tensor& retrieve(LUMINAL_WHERE) { return keep(where); }
  /// Ends keep(), and gives the memory of the value back: of a kept value or of an input's data.
  void drop(LUMINAL_WHERE);
  /// The kept value (or the state, or the input) of the last execute, converted to T.
  template <class T> std::vector<T> data(LUMINAL_WHERE) const {
    const auto count = size_t(element_count(where));
    if constexpr (std::is_same_v<T, bool>) { // std::vector<bool> has no bytes
      const auto bytes = std::make_unique<bool[]>(count);
      read(bytes.get(), DType::boolean, where);
      return std::vector<bool>(bytes.get(), bytes.get() + count);
    } else {
      std::vector<T> values(count);
      read(values.data(), dtype_of<T>, where);
      return values;
    }
  }
  /// The one number of a tensor with one element.
  template <class T> T item(LUMINAL_WHERE) const {
    check_single(where);
    T value;
    read(&value, dtype_of<T>, where);
    return value;
  }
  int64_t element_count(LUMINAL_WHERE) const; ///< with the dimensions' present values
  int64_t numel(LUMINAL_WHERE) const { return element_count(where); }
  std::vector<int64_t> extents(LUMINAL_WHERE) const; ///< the shape with the dimensions' present values
  void read(void* destination, DType as, LUMINAL_WHERE) const;
  /// The same value where it lies (of a GPU's memory a copy), in its own dtype; until the next execute,
  /// set, drop or hand-over.
  std::span<const std::byte> bytes(LUMINAL_WHERE) const;
  /// auto [rows, columns] = x.dims2(); throws where the rank is another.
  Dims dims(LUMINAL_WHERE) const { return shape(where); }
  std::array<Dim, 1> dims1(LUMINAL_WHERE) const;
  std::array<Dim, 2> dims2(LUMINAL_WHERE) const;
  std::array<Dim, 3> dims3(LUMINAL_WHERE) const;
  std::array<Dim, 4> dims4(LUMINAL_WHERE) const;
  std::array<Dim, 5> dims5(LUMINAL_WHERE) const;

  // ---- elementwise: floats narrower than f32 are computed in f32, integers as f32 where the
  // function has fractions ----
#define LUMINAL_MEMBER(name) Tensor name(LUMINAL_WHERE) const;
  LUMINAL_UNARY_FUNCTIONS(LUMINAL_MEMBER) // luminal/unary.h says what each does: x.exp(), x.relu(), ..
#undef LUMINAL_MEMBER
  /// Of two operands, under the names of luminal/operators.h and functions.h.
  Tensor pow(Operand exponent) const;
  Tensor clip(std::optional<Operand> low, std::optional<Operand> high, LUMINAL_WHERE) const;
  Tensor masked_fill(const Tensor& mask, Operand value, LUMINAL_WHERE) const;
  Tensor leaky_relu(double slope = 0.01, LUMINAL_WHERE) const, elu(double alpha = 1, LUMINAL_WHERE) const,
      celu(double alpha = 1, LUMINAL_WHERE) const;
  Tensor softplus(double beta = 1, double threshold = 20, LUMINAL_WHERE) const;
  Tensor hardtanh(double low = -1, double high = 1, LUMINAL_WHERE) const;
  Tensor threshold(double limit, double value, LUMINAL_WHERE) const; ///< x > limit ? x : value
  Tensor glu(int axis = -1, LUMINAL_WHERE) const;                    ///< first half * sigmoid(second half)
  Tensor cast(DType to, LUMINAL_WHERE) const;
  /// The same bytes; a wider or narrower type divides or multiplies the last axis.
  Tensor bitcast(DType to, LUMINAL_WHERE) const;
  Tensor as_dtype(DType to, LUMINAL_WHERE) const { return bitcast(to, where); } ///< Luminal's name

  // ---- reductions: over the axes named, by default all; these go away unless keep_dims. Sums of
  // floats narrower than f32 are kept in f32 ----
  // Of no elements: sum 0, prod 1, max -inf and min inf (integers: the least and the greatest),
  // mean NaN, all true, any false, argmax and argmin the greatest i64.
  Tensor sum(const Axes& axes = {}, bool keep_dims = false,
             LUMINAL_WHERE) const; ///< integers and bool: i64 (u64: u64)
  Tensor prod(const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) const; ///< the same
  Tensor mean(const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) const; ///< integers: f32
  Tensor max(const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) const;  ///< NaN if one is NaN
  Tensor min(const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) const;
  /// Squared distances from the mean over max(0, count - correction): 1 for samples (the default),
  /// 0 for a population.
  Tensor var(const Axes& axes = {}, double correction = 1, bool keep_dims = false, LUMINAL_WHERE) const;
  Tensor std(const Axes& axes = {}, double correction = 1, bool keep_dims = false, LUMINAL_WHERE) const;
  Tensor all(const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) const; ///< bool: none is 0
  Tensor any(const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) const; ///< bool: one is not 0
  Tensor count_nonzero(const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) const; ///< i64
  Tensor logsumexp(const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) const;
  /// (sum |x|^p)^(1/p); p = 0 counts what is not 0, p = inf and -inf are max and min of |x|.
  Tensor norm(double p = 2, const Axes& axes = {}, bool keep_dims = false, LUMINAL_WHERE) const;
  /// i64: the place of the first of equal ones, NaN before all; without an axis in the row-major
  /// order of the whole tensor.
  Tensor argmax(std::optional<int> axis = {}, bool keep_dims = false, LUMINAL_WHERE) const;
  Tensor argmin(std::optional<int> axis = {}, bool keep_dims = false, LUMINAL_WHERE) const;
  /// exp(x - max) / sum: NaN where all are -inf, as in PyTorch.
  Tensor softmax(int axis = -1, LUMINAL_WHERE) const;
  Tensor log_softmax(int axis = -1, LUMINAL_WHERE) const;
  Tensor mean_norm(const Axes& axes = -1, LUMINAL_WHERE) const; ///< x - mean
  Tensor std_norm(const Axes& axes = -1, double eps = 1e-5,
                  LUMINAL_WHERE) const; ///< x / sqrt(mean(x^2) + eps)
  Tensor layer_norm(const Axes& axes = -1, double eps = 1e-5, LUMINAL_WHERE) const; ///< both in turn
  Tensor rms_norm(double eps = 1e-5, LUMINAL_WHERE) const; ///< std_norm over the last axis
  /// x / max(norm of order p over the axes, eps).
  Tensor normalize(double p = 2, const Axes& axes = 1, double eps = 1e-12, LUMINAL_WHERE) const;

  // ---- products ----
  /// [.., m, k] x [.., k, n] -> [.., m, n]; batch axes broadcast; one-dimensional operands as in
  /// NumPy.
  Tensor matmul(const Tensor& other, LUMINAL_WHERE) const;

  // ---- movement: views, nothing is copied by itself; more in indexing.h ----
  Tensor permute(std::vector<int> order, LUMINAL_WHERE) const;
  Tensor transpose(int a = -2, int b = -1, LUMINAL_WHERE) const, swapaxes(int a, int b, LUMINAL_WHERE) const;
  Tensor t(LUMINAL_WHERE) const; ///< of a matrix; a line stays
  Tensor movedim(std::vector<int> from, std::vector<int> to, LUMINAL_WHERE) const;
  Tensor reshape(Dims shape, LUMINAL_WHERE) const; ///< one extent may be -1
  Tensor flatten(int first = 0, int last = -1, LUMINAL_WHERE) const;
  Tensor unflatten(int axis, Dims into, LUMINAL_WHERE) const; ///< one extent may be -1
  /// The same value in memory of its own, in the order of this shape; made of weights alone it is
  /// put there once, at load.
  Tensor contiguous(LUMINAL_WHERE) const;
  Tensor merge_dims(int axis, LUMINAL_WHERE) const;            ///< axis and axis + 1 become one
  Tensor split_dims(int axis, Dim inner, LUMINAL_WHERE) const; ///< [n] -> [n / inner, inner]
  Tensor unsqueeze(int axis, LUMINAL_WHERE) const;
  /// Drops axes of extent 1: the one, those named ({}: none), or all.
  Tensor squeeze(LUMINAL_WHERE) const, squeeze(std::vector<int> axes, LUMINAL_WHERE) const;
  Tensor squeeze(std::initializer_list<int> axes, LUMINAL_WHERE) const {
    return squeeze(std::vector<int>(axes), where);
  }
  Tensor squeeze(std::integral auto axis, LUMINAL_WHERE) const { return squeeze({int(axis)}, where); }
  Tensor expand(Dims shape, LUMINAL_WHERE) const; ///< NumPy broadcast_to; -1 keeps an extent
  Tensor expand_as(const Tensor& other, LUMINAL_WHERE) const;
  Tensor expand_dim(int axis, Dim extent, LUMINAL_WHERE) const; ///< a new axis along which all is equal
  /// start:end:step as in Python: constants count from the end where negative and are clamped, a
  /// step may be negative. Expressions must lie within the axis (checked at each step where it is
  /// not proved).
  Tensor slice(int axis, Dim start, Dim end, int64_t step = 1, LUMINAL_WHERE) const;
  Tensor slice(std::vector<Slice> slices, LUMINAL_WHERE) const; ///< one for each of the first axes
  Tensor narrow(int axis, Dim start, Dim length, LUMINAL_WHERE) const;
  Tensor select(int axis, Dim index, LUMINAL_WHERE) const; ///< one index; the axis goes away
  /// x[2] and x[-1]: select(0, ..). x[ids]: rows at integer ids, as gather.
  Tensor operator[](Operand index) const;
  Tensor pad(int axis, Dim before, Dim after, double value = 0, LUMINAL_WHERE) const;
  Tensor pad(std::vector<Padding> padding, PadMode mode = PadMode::constant, double value = 0,
             LUMINAL_WHERE) const;
  Tensor flip(std::vector<int> axes, LUMINAL_WHERE) const;
  Tensor flip(std::integral auto axis, LUMINAL_WHERE) const { return flip({int(axis)}, where); }
  /// Element i moves to (i + shift) mod extent; without axes: of the flattened tensor.
  Tensor roll(Dims shifts, std::vector<int> axes, LUMINAL_WHERE) const;
  Tensor roll(Dim shift, std::integral auto axis, LUMINAL_WHERE) const {
    return roll({shift}, {int(axis)}, where);
  }
  Tensor repeat(Dims times, LUMINAL_WHERE) const; ///< whole axes again; new axes first
  Tensor tile(Dims times, LUMINAL_WHERE) const;   ///< the same; counts that are left out are 1
  Tensor repeat_interleave(Dim times, int axis, LUMINAL_WHERE) const; ///< each element `times` times
  /// Windows of `size` elements, `stride` apart, elements `dilation` apart: [.., n, ..] -> [..,
  /// windows, .., size] (new last axis).
  Tensor windows(int axis, int64_t size, int64_t stride = 1, int64_t dilation = 1, LUMINAL_WHERE) const;
  std::vector<Tensor> split(Dims sizes, int axis = 0, LUMINAL_WHERE) const;
  std::vector<Tensor> split(int64_t size, int axis = 0, LUMINAL_WHERE) const; ///< the last one may be shorter
  std::vector<Tensor> chunk(int64_t parts, int axis = 0, LUMINAL_WHERE) const;
  std::vector<Tensor> unbind(int axis = 0, LUMINAL_WHERE) const;
  Tensor tril(Dim diagonal = 0, LUMINAL_WHERE) const, triu(Dim diagonal = 0, LUMINAL_WHERE) const;
  Tensor diagonal(int64_t offset = 0, int a = 0, int b = 1, LUMINAL_WHERE) const; ///< as a new last axis

  // ---- indexing, scans, sorting: indices lie in 0..extent-1, others are an Error at execute ----
  /// Rows of this table: [rows, rest..] at integer ids [any..] -> [any.., rest..].
  Tensor gather(const Tensor& ids, LUMINAL_WHERE) const;
  /// torch.gather: out[i, j, ..] = x[index[i, j, ..], j, ..] for axis 0; index has the axes of x,
  /// none longer except `axis`.
  Tensor gather(int axis, const Tensor& index, LUMINAL_WHERE) const;
  Tensor take_along(const Tensor& index, int axis, LUMINAL_WHERE) const; ///< the same; other axes broadcast
  Tensor index_select(int axis, const Tensor& ids, LUMINAL_WHERE) const; ///< NumPy take: ids of any rank
  /// torch.scatter: x[index[i, j, ..], j, ..] = values[i, j, ..] for axis 0, or combined; in
  /// row-major order.
  Tensor scatter(int axis, const Tensor& index, Operand values, ScatterOp how = ScatterOp::set,
                 LUMINAL_WHERE) const;
  /// This tensor with `values` written along `axis` from `start` on. In place where the planner
  /// proves that nobody needs the old value.
  Tensor update(int axis, Dim start, const Tensor& values, LUMINAL_WHERE) const;
  Tensor cumsum(int axis, LUMINAL_WHERE) const, cumprod(int axis, LUMINAL_WHERE) const,
      logcumsumexp(int axis, LUMINAL_WHERE) const;
  Indexed cummax(int axis, LUMINAL_WHERE) const,
      cummin(int axis, LUMINAL_WHERE) const; ///< the last of equal ones
  /// Stable. NaN is greater than every number: last, or first where it descends.
  Indexed sort(int axis = -1, bool descending = false, LUMINAL_WHERE) const;
  Tensor argsort(int axis = -1, bool descending = false, LUMINAL_WHERE) const;
  /// The k largest in falling order, or the k smallest in rising order; of equal ones the first.
  Indexed topk(int64_t k, int axis = -1, bool largest = true, LUMINAL_WHERE) const;

  std::shared_ptr<GraphState> graph(LUMINAL_WHERE) const; ///< throws Error where the tensor is empty
  uint32_t id() const { return id_; }
  Tensor(std::shared_ptr<GraphState> graph, uint32_t id) : graph_(std::move(graph)), id_(id) {}

private:
  void defer(std::function<void(Tensor&)> load, Where where);
  void check_borrowed(DType type, Where where) const;
  void check_single(Where where) const;
  std::shared_ptr<GraphState> graph_;
  uint32_t id_ = 0;
};

/// Values and their places (i64) along an axis.
struct Indexed {
  Tensor values, indices;
};

#undef LUMINAL_WHERE
} // namespace luminal
