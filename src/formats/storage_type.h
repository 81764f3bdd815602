// formats/storage_type.h -- element and block types that model files store: one table for
// safetensors, GGUF and npy.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace luminal {

/// How the values of a tensor lie in a file. Plain types first, then the block-quantized ones of
/// GGUF.
enum class StorageType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q8_0,
  q8_1,
  q2_k,
  q3_k,
  q4_k,
  q5_k,
  q6_k,
  q8_k,
  iq2_xxs,
  iq2_xs,
  iq2_s,
  iq3_xxs,
  iq3_s,
  iq1_s,
  iq1_m,
  iq4_nl,
  iq4_xs,
  tq1_0,
  tq2_0,
  mxfp4,
  nvfp4,
  q1_0,
};

/// One row of the table. A block of `block_elements` consecutive values (of the contiguous axis)
/// takes `block_bytes`.
struct StorageTypeInfo {
  StorageType type;
  std::string_view name;             ///< as users write it: "F32", "Q4_K"
  std::string_view safetensors_name; ///< empty where safetensors has no such type
  int32_t ggml_id;                   ///< the number in a GGUF tensor table; -1 where GGUF has no such type
  uint32_t block_elements;
  uint32_t block_bytes;

  bool quantized() const { return block_elements > 1; }
  /// Floating-point numbers, one by one; of at least that many bytes.
  bool floating(uint32_t bytes = 1) const;
};

/// All rows, in the order of the enumeration.
std::span<const StorageTypeInfo> storage_types();
const StorageTypeInfo& storage_info(StorageType type);
inline std::string_view storage_name(StorageType type) { return storage_info(type).name; }

std::optional<StorageType> storage_type_from_ggml(uint32_t ggml_id);
std::optional<StorageType> storage_type_from_safetensors(std::string_view name);
/// By `name`, letter case ignored ("q4_k", "F16").
std::optional<StorageType> storage_type_from_name(std::string_view name);

/// Why a ggml number is refused, for messages: "Q4_2, removed from GGUF in 2023" or "unknown".
std::string_view describe_ggml_type(uint32_t ggml_id);

} // namespace luminal
