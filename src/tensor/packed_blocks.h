// tensor/packed_blocks.h -- matrices in the block formats of GGUF, unpacked by terms: unpacking
// fuses into whatever reads them.
#pragma once
#include "formats/storage_type.h"
#include "luminal/quantize.h"
#include <optional>
#include <string>

namespace luminal {

/// Packed blocks as they stand in a file, or their rows beside each other. raw: u8 [rows, bytes of
/// a row]. Nothing for a type that is not known. Formats as in ggml's ggml-quants.c.
std::optional<QuantizedWeight> packed_weight(const Tensor& raw, StorageType type, int64_t rows,
                                             int64_t columns, RowOrder order);
/// The types that packed_weight knows, for messages: "Q8_0 Q4_0 ..".
std::string packed_type_names();

} // namespace luminal
