// formats/onnx_write.h -- ONNX files, written from the structs that the reader fills.
#pragma once
#include "formats/onnx.h"

namespace luminal::onnx {

/// Writes the model: graph, attributes that are numbers, integers, texts, tensors or graphs, opsets,
/// metadata; no functions. Where its initialisers have more than `external_above` bytes, those of
/// 1 KiB and more go to PATH.data beside it, as protobuf ends at 2 GiB. Each file appears complete or
/// not at all.
Result<void> write_onnx(const ModelData& model, const std::string& path,
                        uint64_t external_above = uint64_t(1) << 30);

} // namespace luminal::onnx
