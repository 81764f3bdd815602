// luminal/functions.h -- functions of several tensors: of elements, products, norms. Each is composed of primitives that the compiler sees through.
#pragma once
#include "luminal/tensor.h"
#include <optional>

namespace luminal {

#define LUMINAL_WHERE std::source_location where = std::source_location::current()

// ---- elementwise; operands broadcast and take their common type as those of operators do ----
/// NaN gives way to the other operand.
Tensor fmax(Operand a, Operand b);
Tensor fmin(Operand a, Operand b);
/// min(max(x, low), high); a side may be left out. NaN stays.
Tensor clip(const Tensor& x, std::optional<Operand> low, std::optional<Operand> high = {}, LUMINAL_WHERE);
/// floor(a / b), as Python's //. Integers: a // 0 = 0, where PyTorch raises an error.
Tensor floor_divide(Operand a, Operand b);
/// a / b without its fraction, as in C. Integers: 0 where b is 0.
Tensor trunc_divide(Operand a, Operand b);
/// What floor_divide leaves: the sign of b (the same as %).
Tensor remainder(Operand a, Operand b);
/// What trunc_divide leaves, exactly: the sign of a. Integers: fmod(a, 0) = a.
Tensor fmod(Operand a, Operand b);
/// |a| with the sign bit of b, that of -0 and NaN included.
Tensor copysign(Operand a, Operand b);
/// bool; what is not 0 is true (NaN is).
Tensor logical_and(Operand a, Operand b);
Tensor logical_or(Operand a, Operand b);
Tensor logical_xor(Operand a, Operand b);
/// select under PyTorch's name. The condition must be bool.
Tensor where(Operand condition, Operand a, Operand b);
/// `value` where the mask (bool) holds, else x. Keeps the type of x.
Tensor masked_fill(const Tensor& x, const Tensor& mask, Operand value, LUMINAL_WHERE);
/// a + weight * (b - a); exact at both ends.
Tensor lerp(const Tensor& a, Operand b, Operand weight, LUMINAL_WHERE);
/// sqrt(a^2 + b^2) without overflow on the way; 2 ulp.
Tensor hypot(Operand a, Operand b);
/// The angle of the point (x, y) in -pi..pi, with the signs of zeros as in C; 4 ulp.
Tensor atan2(Operand y, Operand x);
/// x > 0 ? x : weight * x. `weight`: one value, or one a channel (axis 1 of x; axis 0 where x has one axis).
Tensor prelu(const Tensor& x, const Tensor& weight, LUMINAL_WHERE);

// ---- reductions ----
struct VarMean {
  Tensor var, mean;
};
/// Both from the same passes; see Tensor::var.
VarMean var_mean(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keep_dims = false,
                 LUMINAL_WHERE);

#undef LUMINAL_WHERE
} // namespace luminal
