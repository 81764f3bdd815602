// models/weights.h -- tensors of model files as weights of a graph; quantised ones stay packed
// (tensor/packed_blocks.h).
#pragma once
#include "formats/model_files.h"
#include "luminal/quantize.h"
#include <optional>

namespace luminal::models {

/// The tensor as floating-point (its stored type for F64, F32, F16, BF16; f32 for quantised ones),
/// shape as in the file. The bytes are read in place from the mapped file, which the graph keeps
/// open. `codes`: gets the packed form of a quantised one, rows in `order`. Throws Error for a type
/// that is not supported.
Tensor file_weight(Graph& graph, const ModelFile& file, const TensorView& view,
                   std::optional<QuantizedWeight>* codes = nullptr, RowOrder order = RowOrder::words);

} // namespace luminal::models
