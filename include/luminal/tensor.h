// luminal/tensor.h -- Tensor: a handle of a value in a lazy graph. Operations only extend the graph; Graph::compile and
// Graph::execute do the work. Every operation checks shapes and types at once and throws luminal::Error with the caller's line.
#pragma once
#include "luminal/dim.h"
#include "luminal/dtype.h"
#include "luminal/error.h"
#include "luminal/values.h"
#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace luminal {

class Graph;
class Tensor;
struct GraphState; // shared by a Graph and the Tensors made from it

/// What an operator takes: a tensor or a number, and the place in the caller's source.
struct Operand;

/// Shares ownership of its graph, so a handle never dangles: it stays valid when the Graph is moved or destroyed.
class Tensor {
public:
  using Where = std::source_location;
#define LUMINAL_WHERE Where where = Where::current()

  Tensor() = default;
  bool defined() const { return graph_ != nullptr; }
  DType dtype() const;
  Dims shape() const;
  int rank() const { return int(shape().size()); }
  Dim dim(int axis) const; ///< negative axes count from the end
  std::string name() const;
  Tensor& set_name(std::string name); ///< shown in text forms, reports and errors

  // ---- data (inputs before execute; kept values after it) ----
  /// Copies numbers in, converted to this tensor's dtype. A flat list or one range must have as many numbers as the tensor; nested lists and ranges
  /// must have its shape: x.set({{1, 2}, {3, 4}}). For a weight: once, before the first execute.
  void set(const HostValues& values, LUMINAL_WHERE);
  /// The same, and the dynamic dimensions of the shape take the sizes of the values (or of `shape`, for a flat list).
  void set_dyn(const HostValues& values, LUMINAL_WHERE);
  void set_dyn(const HostValues& values, const std::vector<int64_t>& shape, LUMINAL_WHERE);
  /// `load` is called when the value is first needed: it returns what `set` takes, or takes the tensor and sets it.
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
  int64_t element_count(LUMINAL_WHERE) const;        ///< with the dimensions' present values
  std::vector<int64_t> extents(LUMINAL_WHERE) const; ///< the shape with the dimensions' present values
  void read(void* destination, DType as, LUMINAL_WHERE) const;
  /// The same value where it lies, in its own dtype; until the next execute, set, drop or hand-over.
  std::span<const std::byte> bytes(LUMINAL_WHERE) const;
  /// auto [rows, columns] = x.dims2(); throws where the rank is another.
  Dims dims() const { return shape(); }
  std::array<Dim, 1> dims1(LUMINAL_WHERE) const;
  std::array<Dim, 2> dims2(LUMINAL_WHERE) const;
  std::array<Dim, 3> dims3(LUMINAL_WHERE) const;
  std::array<Dim, 4> dims4(LUMINAL_WHERE) const;
  std::array<Dim, 5> dims5(LUMINAL_WHERE) const;

  // ---- elementwise (NumPy broadcasting, promotion table) ----
  Tensor neg(LUMINAL_WHERE) const, abs(LUMINAL_WHERE) const, sqrt(LUMINAL_WHERE) const,
      rsqrt(LUMINAL_WHERE) const, recip(LUMINAL_WHERE) const;
  Tensor exp(LUMINAL_WHERE) const, exp2(LUMINAL_WHERE) const, log(LUMINAL_WHERE) const,
      log2(LUMINAL_WHERE) const;
  Tensor sin(LUMINAL_WHERE) const, cos(LUMINAL_WHERE) const, tanh(LUMINAL_WHERE) const,
      erf(LUMINAL_WHERE) const;
  Tensor relu(LUMINAL_WHERE) const, sigmoid(LUMINAL_WHERE) const, silu(LUMINAL_WHERE) const,
      gelu(LUMINAL_WHERE) const, gelu_tanh(LUMINAL_WHERE) const;
  Tensor floor(LUMINAL_WHERE) const, ceil(LUMINAL_WHERE) const, round(LUMINAL_WHERE) const,
      trunc(LUMINAL_WHERE) const;
  Tensor square(LUMINAL_WHERE) const;
  Tensor cast(DType to, LUMINAL_WHERE) const;
  Tensor
  bitcast(DType to,
          LUMINAL_WHERE) const; ///< same bytes; a wider or narrower type divides or multiplies the last axis

  // ---- reductions; the axes go away unless keep_dims ----
  Tensor sum(std::vector<int> axes, bool keep_dims = false, LUMINAL_WHERE) const;
  Tensor mean(std::vector<int> axes, bool keep_dims = false, LUMINAL_WHERE) const;
  Tensor max(std::vector<int> axes, bool keep_dims = false, LUMINAL_WHERE) const;
  Tensor min(std::vector<int> axes, bool keep_dims = false, LUMINAL_WHERE) const;
  Tensor prod(std::vector<int> axes, bool keep_dims = false, LUMINAL_WHERE) const;
  Tensor argmax(int axis, LUMINAL_WHERE) const; ///< i64; the first of equal ones
  Tensor cumsum(int axis, LUMINAL_WHERE) const;
  Tensor softmax(int axis, LUMINAL_WHERE) const;
  Tensor log_softmax(int axis, LUMINAL_WHERE) const;
  /// (x - mean) / sqrt(var + eps) over the axes.
  Tensor layer_norm(std::vector<int> axes, double eps = 1e-5, LUMINAL_WHERE) const;
  /// x / sqrt(mean(x^2) + eps) over the last axis.
  Tensor rms_norm(double eps = 1e-5, LUMINAL_WHERE) const;

  // ---- products ----
  /// [.., m, k] x [.., k, n] -> [.., m, n]; batch axes broadcast; one-dimensional operands as in NumPy.
  Tensor matmul(const Tensor& other, LUMINAL_WHERE) const;

  // ---- movement ----
  Tensor permute(std::vector<int> order, LUMINAL_WHERE) const;
  Tensor transpose(int a = -2, int b = -1, LUMINAL_WHERE) const;
  Tensor reshape(Dims shape, LUMINAL_WHERE) const; ///< one extent may be -1
  Tensor unsqueeze(int axis, LUMINAL_WHERE) const;
  Tensor squeeze(int axis, LUMINAL_WHERE) const;
  Tensor expand(Dims shape, LUMINAL_WHERE) const;              ///< NumPy broadcast_to
  Tensor merge_dims(int axis, LUMINAL_WHERE) const;            ///< axis and axis + 1 become one
  Tensor split_dims(int axis, Dim inner, LUMINAL_WHERE) const; ///< [n] -> [n / inner, inner]
  Tensor slice(int axis, Dim start, Dim end, int64_t step = 1, LUMINAL_WHERE) const;
  Tensor pad(int axis, Dim before, Dim after, double value = 0, LUMINAL_WHERE) const;
  Tensor flip(int axis, LUMINAL_WHERE) const;
  /// Windows of `size` elements, `stride` apart, elements `dilation` apart: [.., n, ..] -> [.., windows, .., size] (new last axis).
  Tensor windows(int axis, int64_t size, int64_t stride = 1, int64_t dilation = 1, LUMINAL_WHERE) const;
  /// Rows of this table: [rows, rest..] at integer ids [any..] -> [any.., rest..]. An id out of range is an error at execute.
  Tensor gather(const Tensor& ids, LUMINAL_WHERE) const;
  /// This tensor with `values` written along `axis` from `start` on. In place where the planner proves that nobody needs the old value.
  Tensor update(int axis, Dim start, const Tensor& values, LUMINAL_WHERE) const;

  std::shared_ptr<GraphState> graph() const { return graph_; }
  uint32_t id() const { return id_; }
  Tensor(std::shared_ptr<GraphState> graph, uint32_t id) : graph_(std::move(graph)), id_(id) {}

private:
  void defer(std::function<void(Tensor&)> load, Where where);
  void check_borrowed(DType type, Where where) const;
  void check_single(Where where) const;
  std::shared_ptr<GraphState> graph_;
  uint32_t id_ = 0;
};

struct Operand {
  Operand(const Tensor& t, std::source_location w = std::source_location::current()) : tensor(&t), where(w) {}
  Operand(double v, std::source_location w = std::source_location::current()) : number(v), where(w) {}
  Operand(float v, std::source_location w = std::source_location::current()) : number(v), where(w) {}
  Operand(int v, std::source_location w = std::source_location::current()) : number(v), where(w) {}
  Operand(int64_t v, std::source_location w = std::source_location::current())
      : number(double(v)), where(w) {}
  const Tensor* tensor = nullptr;
  double number = 0;
  std::source_location where;
};

Tensor operator+(Operand a, Operand b);
Tensor operator-(Operand a, Operand b);
Tensor operator*(Operand a, Operand b);
Tensor operator/(Operand a, Operand b);
Tensor operator%(Operand a, Operand b);
Tensor operator-(Operand a);
Tensor operator<(Operand a, Operand b);
Tensor operator<=(Operand a, Operand b);
Tensor operator>(Operand a, Operand b);
Tensor operator>=(Operand a, Operand b);
Tensor equal(Operand a, Operand b);
Tensor not_equal(Operand a, Operand b);
Tensor maximum(Operand a, Operand b);
Tensor minimum(Operand a, Operand b);
Tensor pow(Operand a, Operand b);
/// Bits of integers and bools; a shift by the width or more gives 0.
Tensor operator&(Operand a, Operand b);
Tensor operator|(Operand a, Operand b);
Tensor operator^(Operand a, Operand b);
Tensor operator<<(Operand a, Operand b);
Tensor operator>>(Operand a, Operand b);
/// condition (bool) ? a : b, elementwise, broadcast.
Tensor select(Operand condition, Operand a, Operand b);
Tensor concat(const std::vector<Tensor>& parts, int axis,
              std::source_location where = std::source_location::current());

#undef LUMINAL_WHERE
} // namespace luminal
