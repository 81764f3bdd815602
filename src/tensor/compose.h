// tensor/compose.h -- what functions that are made of other operations share: operands of one type
// and shape, and a type wide enough to compute in.
#pragma once
#include "tensor/graph_state.h"

namespace luminal {

/// Which types a function computes in.
enum class Numbers : uint8_t {
  any,     // as they are
  numeric, // bool as i32
  floats,  // integers as f32
};

/// The operands in their common dtype, broadcast to one shape; every mistake is found here and
/// named after `op`.
std::vector<Tensor> common_operands(std::string_view op, const std::vector<Operand>& operands,
                                    Numbers numbers, Where where);
/// The common dtype of tensors and numbers: see Operand. Without a tensor: f32 or i64.
DType common_dtype(const std::vector<Operand>& operands);
/// A number as a tensor of that type and shape.
Tensor number_like(const Operand& number, const std::shared_ptr<GraphState>& graph, DType dtype,
                   const Shape& shape, Where where);

/// Throws Error, which calls the tensor `what`, where it has not so many axes.
void need_rank(std::string_view op, const Tensor& t, int rank, std::string_view what, Where where);

/// Operands of a function of floats: in f32 at least.
struct Floats {
  Floats(std::string_view op, const std::vector<Operand>& operands, Where where);
  const Tensor& operator[](size_t i) const { return in[i]; }
  bool wide() const { return in[0].dtype() == DType::f64; }
  Tensor done(const Tensor& value) const { return value.cast(result, where); }
  std::vector<Tensor> in;
  DType result;
  Where where;
};

/// x in f32 where it is a narrower float.
Tensor at_least_f32(const Tensor& x);
/// The type that sums of this one are kept in.
DType accumulator(DType type);

/// c[0] + c[1] x + c[2] x^2 ...
Tensor polynomial(const Tensor& x, std::span<const double> coefficients);
/// a * b + c, rounded once. Of one float type and shape.
Tensor fma(const Tensor& a, const Tensor& b, const Tensor& c);
/// The sign bit is set; -0 and NaN have one too.
Tensor signbit(const Tensor& x);

// Functions made of others have the derivatives of what they compute at the places where their parts
// have none of their own:
/// |x| by the sign bit: with_sign(f(magnitude(x)), x) of an f that is odd has the slope of f at 0.
Tensor magnitude(const Tensor& x);
/// `size`, which is not negative, with the sign bit of x.
Tensor with_sign(const Tensor& size, const Tensor& x);
/// The square root, whose gradient at 0 is 0: of a norm or a deviation, as in PyTorch.
Tensor root(const Tensor& x);

/// Sorted axes without negatives; none named: all.
std::vector<int> axes_of(std::string_view op, const Axes& axes, int rank, Where where);

} // namespace luminal
