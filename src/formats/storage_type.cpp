// formats/storage_type.cpp -- the table of element and block types, and sizes of tensors.
#include "base/check.h"
#include "formats/tensor_view.h"
#include <array>
#include <fmt/format.h>

namespace luminal {
namespace {

using T = StorageType;

// Block sizes: ggml-common.h. Numbers: enum ggml_type in ggml.h.
constexpr StorageTypeInfo table[] = {
    {T::f64, "F64", "F64", 28, 1, 8},
    {T::f32, "F32", "F32", 0, 1, 4},
    {T::f16, "F16", "F16", 1, 1, 2},
    {T::bf16, "BF16", "BF16", 30, 1, 2},
    {T::f8_e4m3, "F8_E4M3", "F8_E4M3", -1, 1, 1},
    {T::f8_e5m2, "F8_E5M2", "F8_E5M2", -1, 1, 1},
    {T::i64, "I64", "I64", 27, 1, 8},
    {T::i32, "I32", "I32", 26, 1, 4},
    {T::i16, "I16", "I16", 25, 1, 2},
    {T::i8, "I8", "I8", 24, 1, 1},
    {T::u64, "U64", "U64", -1, 1, 8},
    {T::u32, "U32", "U32", -1, 1, 4},
    {T::u16, "U16", "U16", -1, 1, 2},
    {T::u8, "U8", "U8", -1, 1, 1},
    {T::boolean, "BOOL", "BOOL", -1, 1, 1},
    {T::q4_0, "Q4_0", "", 2, 32, 18},
    {T::q4_1, "Q4_1", "", 3, 32, 20},
    {T::q5_0, "Q5_0", "", 6, 32, 22},
    {T::q5_1, "Q5_1", "", 7, 32, 24},
    {T::q8_0, "Q8_0", "", 8, 32, 34},
    {T::q8_1, "Q8_1", "", 9, 32, 36},
    {T::q2_k, "Q2_K", "", 10, 256, 84},
    {T::q3_k, "Q3_K", "", 11, 256, 110},
    {T::q4_k, "Q4_K", "", 12, 256, 144},
    {T::q5_k, "Q5_K", "", 13, 256, 176},
    {T::q6_k, "Q6_K", "", 14, 256, 210},
    {T::q8_k, "Q8_K", "", 15, 256, 292},
    {T::iq2_xxs, "IQ2_XXS", "", 16, 256, 66},
    {T::iq2_xs, "IQ2_XS", "", 17, 256, 74},
    {T::iq2_s, "IQ2_S", "", 22, 256, 82},
    {T::iq3_xxs, "IQ3_XXS", "", 18, 256, 98},
    {T::iq3_s, "IQ3_S", "", 21, 256, 110},
    {T::iq1_s, "IQ1_S", "", 19, 256, 50},
    {T::iq1_m, "IQ1_M", "", 29, 256, 56},
    {T::iq4_nl, "IQ4_NL", "", 20, 32, 18},
    {T::iq4_xs, "IQ4_XS", "", 23, 256, 136},
    {T::tq1_0, "TQ1_0", "", 34, 256, 54},
    {T::tq2_0, "TQ2_0", "", 35, 256, 66},
    {T::mxfp4, "MXFP4", "", 39, 32, 17},
    {T::nvfp4, "NVFP4", "", 40, 64, 36},
    {T::q1_0, "Q1_0", "", 41, 128, 18},
};

constexpr bool rows_are_in_order() {
  for (size_t i = 0; i < std::size(table); ++i)
    if (static_cast<size_t>(table[i].type) != i) return false;
  return std::size(table) == static_cast<size_t>(T::q1_0) + 1;
}
static_assert(rows_are_in_order());

char upper(char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c; }

} // namespace

bool StorageTypeInfo::floating(uint32_t bytes) const {
  switch (type) {
  case T::f64:
  case T::f32:
  case T::f16:
  case T::bf16:
  case T::f8_e4m3:
  case T::f8_e5m2: return block_bytes >= bytes;
  default: return false;
  }
}

std::span<const StorageTypeInfo> storage_types() { return table; }

const StorageTypeInfo& storage_info(StorageType type) {
  const auto row = static_cast<size_t>(type);
  LUMINAL_CHECK(row < std::size(table), "storage type {}", row);
  return table[row];
}

std::optional<StorageType> storage_type_from_ggml(uint32_t ggml_id) {
  for (const auto& row : table)
    if (row.ggml_id >= 0 && static_cast<uint32_t>(row.ggml_id) == ggml_id) return row.type;
  return std::nullopt;
}

std::optional<StorageType> storage_type_from_safetensors(std::string_view name) {
  if (name.empty()) return std::nullopt;
  for (const auto& row : table)
    if (row.safetensors_name == name) return row.type;
  return std::nullopt;
}

std::optional<StorageType> storage_type_from_name(std::string_view name) {
  for (const auto& row : table) {
    if (row.name.size() != name.size()) continue;
    bool same = true;
    for (size_t i = 0; i < name.size(); ++i) same = same && row.name[i] == upper(name[i]);
    if (same) return row.type;
  }
  return std::nullopt;
}

std::string_view describe_ggml_type(uint32_t ggml_id) {
  if (const auto type = storage_type_from_ggml(ggml_id)) return storage_name(*type);
  switch (ggml_id) {
  case 4: return "Q4_2, which GGUF no longer has";
  case 5: return "Q4_3, which GGUF no longer has";
  case 31: return "Q4_0_4_4, which GGUF no longer has (convert the file to Q4_0)";
  case 32: return "Q4_0_4_8, which GGUF no longer has (convert the file to Q4_0)";
  case 33: return "Q4_0_8_8, which GGUF no longer has (convert the file to Q4_0)";
  case 36: return "IQ4_NL_4_4, which GGUF no longer has (convert the file to IQ4_NL)";
  case 37: return "IQ4_NL_4_8, which GGUF no longer has (convert the file to IQ4_NL)";
  case 38: return "IQ4_NL_8_8, which GGUF no longer has (convert the file to IQ4_NL)";
  default: return "unknown";
  }
}

std::optional<uint64_t> storage_bytes(StorageType type, std::span<const int64_t> shape) {
  const auto& row = storage_info(type);
  int64_t elements = 1;
  bool overflow = false;
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0) return std::nullopt;
    if (size == 0) empty = true;
    // A zero elsewhere in the shape must not hide an overflow: [2^40, 2^40, 0] is refused.
    else if (__builtin_mul_overflow(elements, size, &elements))
      overflow = true;
  }
  if (overflow) return std::nullopt;
  if (row.quantized() && (shape.empty() || shape.back() % row.block_elements != 0)) return std::nullopt;
  if (empty) return 0;
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(static_cast<uint64_t>(elements) / row.block_elements, uint64_t{row.block_bytes},
                             &bytes))
    return std::nullopt;
  if (bytes > static_cast<uint64_t>(INT64_MAX)) return std::nullopt;
  return bytes;
}

int64_t TensorView::elements() const {
  int64_t product = 1;
  for (const int64_t size : shape) product *= size;
  return product;
}

std::string TensorView::describe() const {
  return fmt::format("{} [{}]", storage_name(type), fmt::join(shape, ", "));
}

} // namespace luminal
