// formats/tensor_view.h -- a named tensor inside a mapped file.
#pragma once
#include "formats/storage_type.h"
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace luminal {

/// A tensor as a file stores it. The bytes belong to whoever made the view (mostly a mapped file)
/// and are not aligned to more than the file promises: safetensors and npy nothing, GGUF its
/// `general.alignment` (32 unless stated).
struct TensorView {
  std::string name;
  StorageType type = StorageType::f32;
  /// Outermost axis first, the last axis contiguous (a GGUF file's own order is the reverse). Empty
  /// for a scalar.
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
  /// Position of the first byte in its file.
  uint64_t file_offset = 0;
  /// Which file, where a model has several shards.
  uint32_t file_index = 0;

  /// Number of elements: the product of the shape, 1 for a scalar. Readers have checked that it
  /// cannot overflow.
  int64_t elements() const;
  /// "F32 [32000, 4096]"
  std::string describe() const;
};

/// Bytes of a tensor of this type and shape. nullopt where the product overflows int64, a size is
/// negative, or the contiguous axis is not a whole number of blocks.
std::optional<uint64_t> storage_bytes(StorageType type, std::span<const int64_t> shape);

} // namespace luminal
