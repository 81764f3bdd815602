// models/weights.h -- tensors of model files as weights of a graph; block-quantised ones are unpacked by terms, so that unpacking fuses into
// whatever reads them and the memory holds the packed bytes only.
#pragma once
#include "formats/model_files.h"
#include "luminal/graph.h"

namespace luminal::models {

/// The tensor as floating-point (its stored type for F64, F32, F16, BF16; f32 for quantised ones), shape as in the file. The bytes are read in place from the mapped file, which
/// the graph keeps open. Throws Error for a type that is not supported.
Tensor file_weight(Graph& graph, const ModelFile& file, const TensorView& view);

/// Values of packed blocks, f32. raw: u8 [rows, bytes of a row]; result [rows, columns].
/// Formats: Q8_0 Q4_0 Q4_K Q5_K Q6_K as in ggml's ggml-quants.c.
Tensor unpack_q8_0(const Tensor& raw, int64_t rows, int64_t columns);
Tensor unpack_q4_0(const Tensor& raw, int64_t rows, int64_t columns);
Tensor unpack_q4_k(Graph& graph, const Tensor& raw, int64_t rows, int64_t columns);
Tensor unpack_q5_k(Graph& graph, const Tensor& raw, int64_t rows, int64_t columns);
Tensor unpack_q6_k(Graph& graph, const Tensor& raw, int64_t rows, int64_t columns);

} // namespace luminal::models
