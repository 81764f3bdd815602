// formats/quants.h -- block quantization in plain C++: the oracle of tests and tools, not a path of
// execution. Layouts: ggml-common.h and ggml-quants.c of https://github.com/ggml-org/ggml
#pragma once
#include "base/result.h"
#include "formats/tensor_view.h"
#include <span>
#include <string>
#include <vector>

namespace luminal {

/// Whether `dequantize` knows the type: all plain types, Q4_0 Q4_1 Q5_0 Q5_1 Q8_0, Q2_K to Q6_K,
/// Q8_K, IQ4_NL, IQ4_XS, MXFP4, TQ1_0, TQ2_0.
bool can_dequantize(StorageType type);
/// Values of `bytes` as f32 (rounded to nearest where the type is wider). `out` has one float per
/// element.
Result<void> dequantize(StorageType type, std::span<const std::byte> bytes, std::span<float> out);
Result<std::vector<float>> dequantize(const TensorView& tensor);

/// Whether `quantize` knows the type: F32 F16 BF16 and the block formats that `dequantize` knows.
bool can_quantize(StorageType type);
/// `values` is a whole number of blocks and finite.
Result<std::string> quantize(StorageType type, std::span<const float> values);

/// Conversions of single values, round to nearest even; NaN stays NaN.
float half_to_float(uint16_t bits);
uint16_t float_to_half(float value);
float bfloat16_to_float(uint16_t bits);
uint16_t float_to_bfloat16(float value);
float f8_e4m3_to_float(uint8_t bits);
float f8_e5m2_to_float(uint8_t bits);

} // namespace luminal
