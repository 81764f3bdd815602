// luminal/functions.h -- functions of several tensors: of elements, products, norms. Each is
// composed of primitives that the compiler sees through.
#pragma once
#include "luminal/operators.h"
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
/// x > 0 ? x : weight * x. `weight`: one value, or one a channel (axis 1 of x; axis 0 where x has
/// one axis).
Tensor prelu(const Tensor& x, const Tensor& weight, LUMINAL_WHERE);

/// log(exp(a) + exp(b)) and log2(2^a + 2^b) without overflow on the way.
Tensor logaddexp(Operand a, Operand b);
Tensor logaddexp2(Operand a, Operand b);
/// x log(y), 0 where x is 0 (and y is not NaN).
Tensor xlogy(Operand x, Operand y);
/// log(x / (1 - x)); with eps, x is clamped to eps .. 1 - eps first.
Tensor logit(const Tensor& x, std::optional<double> eps = {}, LUMINAL_WHERE);
Tensor sinc(const Tensor& x, LUMINAL_WHERE); ///< sin(pi x) / (pi x), 1 at 0
/// 0 below 0, `values` at 0, 1 above; NaN stays.
Tensor heaviside(const Tensor& x, Operand values, LUMINAL_WHERE);
Tensor deg2rad(const Tensor& x, LUMINAL_WHERE);
Tensor rad2deg(const Tensor& x, LUMINAL_WHERE);
Tensor ldexp(const Tensor& x, Operand exponent, LUMINAL_WHERE); ///< x * 2^exponent
/// Numbers in place of NaN and the infinities: by default 0 and the largest and least of the type.
/// Integers stay.
Tensor nan_to_num(const Tensor& x, double nan = 0, std::optional<double> posinf = {},
                  std::optional<double> neginf = {}, LUMINAL_WHERE);
/// bool: |a - b| <= atol + rtol |b|, or equal; NaN equals NaN where asked for.
Tensor isclose(Operand a, Operand b, double rtol = 1e-5, double atol = 1e-8, bool equal_nan = false);
/// bool, in the shape of x: whether the element is among the values.
Tensor isin(const Tensor& x, const Tensor& values, LUMINAL_WHERE);
/// x + value * a * b, x + value * a / b.
Tensor addcmul(const Tensor& x, Operand a, Operand b, double value = 1, LUMINAL_WHERE);
Tensor addcdiv(const Tensor& x, Operand a, Operand b, double value = 1, LUMINAL_WHERE);
Tensor hardshrink(const Tensor& x, double lambda = 0.5, LUMINAL_WHERE); ///< 0 where |x| <= lambda
Tensor softshrink(const Tensor& x, double lambda = 0.5,
                  LUMINAL_WHERE);                              ///< lambda nearer to 0, 0 where |x| <= lambda
Tensor tanhshrink(const Tensor& x, LUMINAL_WHERE);             ///< x - tanh(x)
Tensor softmin(const Tensor& x, int axis = -1, LUMINAL_WHERE); ///< softmax(-x)

// ---- reductions ----
struct VarMean {
  Tensor var, mean;
};
/// Both from the same passes; see Tensor::var.
VarMean var_mean(const Tensor& x, const Axes& axes = {}, double correction = 1, bool keep_dims = false,
                 LUMINAL_WHERE);

// ---- products; axes of equal names must have equal extents, or 1, which stretches. Narrow floats
// are summed in f32, integers wrap ----
/// Einstein summation as in PyTorch: "bij,bjk->bik", repeated names take the diagonal, "..." are
/// the axes that are left, without "->" the names that stand once are the result's, in alphabetical
/// order. Several tensors are multiplied from left to right.
Tensor einsum(const std::string& equation, const std::vector<Tensor>& tensors, LUMINAL_WHERE);
/// Sum over pairs of axes: those named, or the last `count` of a and the first of b.
Tensor tensordot(const Tensor& a, const Tensor& b, const std::vector<int>& axes_a,
                 const std::vector<int>& axes_b, LUMINAL_WHERE);
Tensor tensordot(const Tensor& a, const Tensor& b, int count = 2, LUMINAL_WHERE);
Tensor dot(const Tensor& a, const Tensor& b, LUMINAL_WHERE); ///< [n], [n] -> []
Tensor inner(const Tensor& a, const Tensor& b,
             LUMINAL_WHERE); ///< over the last axes: [a.., n], [b.., n] -> [a.., b..]
Tensor outer(const Tensor& a, const Tensor& b, LUMINAL_WHERE);        ///< [m], [n] -> [m, n]
Tensor mv(const Tensor& matrix, const Tensor& vector, LUMINAL_WHERE); ///< [m, n], [n] -> [m]
Tensor bmm(const Tensor& a, const Tensor& b, LUMINAL_WHERE);          ///< [b, m, k], [b, k, n] -> [b, m, n]
/// x weight^T + bias: [.., in], [out, in], [out] or none -> [.., out].
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, LUMINAL_WHERE);
/// [.., m], [.., n], [out, m, n], [out] or none -> [.., out].
Tensor bilinear(const Tensor& a, const Tensor& b, const Tensor& weight, const Tensor& bias = {},
                LUMINAL_WHERE);
/// sum(a b) / (max(|a|, eps) max(|b|, eps)) along an axis; a and b broadcast.
Tensor cosine_similarity(const Tensor& a, const Tensor& b, int axis = 1, double eps = 1e-8, LUMINAL_WHERE);

struct AttentionOptions {
  /// broadcast to [.., q, k]: bool, true takes part; or numbers, which are added to the scores
  Tensor mask = {};
  bool causal = false;              ///< query i sees the keys up to i
  std::optional<double> scale = {}; ///< 1 / sqrt(e) by default
};
/// softmax(query key^T scale + mask) value: [.., h, q, e], [.., g, k, e], [.., g, k, v] -> [.., h,
/// q, v]. h is a multiple of g: each group of h / g heads reads one key and value (without that
/// axis, or with equal extents, plain attention). A query that sees no key gives 0, as PyTorch
/// does.
Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                    const AttentionOptions& options = {}, LUMINAL_WHERE);

// ---- normalisation with weights; absent ones are left out. Channels are axis 1 ----
/// Over the last axes, as many as the weight has; weight and bias of their shape.
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, double eps = 1e-5,
                  LUMINAL_WHERE);
Tensor rms_norm(const Tensor& x, const Tensor& weight, double eps = 1e-5, LUMINAL_WHERE);
/// Inference: (x - mean) / sqrt(var + eps) * weight + bias; each of shape [channels].
Tensor batch_norm(const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight = {},
                  const Tensor& bias = {}, double eps = 1e-5, LUMINAL_WHERE);
/// Over groups of channels and all further axes.
Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight = {}, const Tensor& bias = {},
                  double eps = 1e-5, LUMINAL_WHERE);
/// Over the axes behind the channels.
Tensor instance_norm(const Tensor& x, const Tensor& weight = {}, const Tensor& bias = {}, double eps = 1e-5,
                     LUMINAL_WHERE);

#undef LUMINAL_WHERE
} // namespace luminal
