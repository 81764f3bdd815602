// models/onnx/integers.h -- sums of products of integers with zero points.
#pragma once
#include "models/onnx/importer.h"

namespace luminal::onnx {

/// An input and its zero point, i32: one number, one an element of an axis, or none (undefined).
Numbers numbers_of(Node& n, size_t input, size_t zero);
/// (a - zero) times (b - zero) in i32. A zero point of several numbers belongs to the rows of a or
/// the columns of b.
Tensor integer_matmul(const Numbers& a, const Numbers& b);
/// The convolution of a node in i32; the weight's zero point of several numbers belongs to its results.
Tensor integer_conv(Node& n, const Numbers& x, const Numbers& weight);

/// The result of MatMul, Gemm or Conv where both operands are bytes times scales (DequantizeLinear): integers
/// are multiplied, and the sums take both scales. Nothing where the scales or the types ask for more. Without
/// the bias.
std::optional<Tensor> quantised_matmul(Node& n, bool transposed_weight = false);
std::optional<Tensor> quantised_conv(Node& n);

/// Of integers, whose range quantised numbers fill.
bool is_integer_type(ElementType type);
/// round(x / scale) + zero, saturated to the type.
Tensor quantised(const Tensor& x, const Tensor& scale, const Tensor& zero, ElementType type, bool saturate);
/// x as bytes of a scale and a zero point that its least and largest element give.
struct DynamicBytes {
  Tensor x, scale, zero;
};
DynamicBytes dynamic_bytes(const Tensor& x);
/// (x - zero) * scale of three inputs, from `input` on: one scale, and one zero point or none.
Tensor dequantised(Node& n, size_t input);
/// The first result, quantised by two inputs from `scale` on: one scale, and one zero point or none.
void out_quantised(Node& n, const Tensor& value, size_t scale);

} // namespace luminal::onnx
