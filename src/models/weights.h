// models/weights.h -- tensors of model files as weights of a graph; block-quantised ones are unpacked by terms, so that unpacking fuses into
// whatever reads them and the memory holds the packed bytes only.
#pragma once
#include "formats/model_files.h"
#include "luminal/quantize.h"
#include <optional>

namespace luminal::models {

/// The tensor as floating-point (its stored type for F64, F32, F16, BF16; f32 for quantised ones), shape as in the file. The bytes are read in place from the mapped file, which
/// the graph keeps open. `codes`: gets the packed form of a quantised one, rows in `order`. Throws Error for a type that is not supported.
Tensor file_weight(Graph& graph, const ModelFile& file, const TensorView& view,
                   std::optional<QuantizedWeight>* codes = nullptr, RowOrder order = RowOrder::words);

/// Packed blocks as they stand in a file, or their rows beside each other. raw: u8 [rows, bytes of a row]. Nothing for a type that is not known.
/// Formats: Q8_0 Q4_0 Q4_K Q5_K Q6_K as in ggml's ggml-quants.c.
std::optional<QuantizedWeight> packed_weight(const Tensor& raw, StorageType type, int64_t rows,
                                             int64_t columns, RowOrder order);

} // namespace luminal::models
