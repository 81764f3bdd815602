// models/weights.h -- tensors of model files as weights of a graph; quantised ones stay packed
// (tensor/packed_blocks.h).
#pragma once
#include "formats/model_files.h"
#include "luminal/quantize.h"
#include <functional>
#include <map>
#include <optional>

namespace luminal::models {

/// The tensor as floating-point (its stored type for F64, F32, F16, BF16; f32 for quantised ones),
/// shape as in the file. The bytes are read in place from the mapped file, which the graph keeps
/// open. `codes`: gets the packed form of a quantised one, rows in `order`. Throws Error for a type
/// that is not supported.
Tensor file_weight(Graph& graph, const ModelFile& file, const TensorView& view,
                   std::optional<QuantizedWeight>* codes = nullptr, RowOrder order = RowOrder::words);
/// Gives weights, by their names, the values of a safetensors file or a Hugging Face folder, converted to
/// their types. Throws Error, naming the first one, where tensors are missing or have another shape.
void load_all(const std::map<std::string, Tensor>& weights, const ModelFile& file,
              const std::function<std::string(const std::string& name)>& name_in_file);

} // namespace luminal::models
