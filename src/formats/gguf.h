// formats/gguf.h -- GGUF v2 and v3: metadata, tensor table, data by mmap; writing v3.
// Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once
#include "base/file.h"
#include "base/result.h"
#include "formats/tensor_sources.h"
#include "formats/tensor_view.h"
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace luminal {

/// Types of metadata values; the numbers are those of the file.
enum class GgufType : uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
std::string_view gguf_type_name(GgufType type);

struct GgufArray {
  GgufType element_type = GgufType::u8;
  /// Unsigned types and bool as uint64_t, signed as int64_t, floats as double (exact).
  std::variant<std::vector<uint64_t>, std::vector<int64_t>, std::vector<double>, std::vector<std::string>,
               std::vector<GgufArray>>
      items;
  size_t size() const;
  bool operator==(const GgufArray&) const = default;
};

struct GgufValue {
  GgufType type = GgufType::u8;
  std::variant<uint64_t, int64_t, double, bool, std::string, GgufArray> value;
  bool operator==(const GgufValue&) const = default;

  static GgufValue of_u32(uint32_t v) { return {GgufType::u32, uint64_t{v}}; }
  static GgufValue of_i32(int32_t v) { return {GgufType::i32, int64_t{v}}; }
  static GgufValue of_u64(uint64_t v) { return {GgufType::u64, v}; }
  static GgufValue of_f32(float v) { return {GgufType::f32, double{v}}; }
  static GgufValue of_bool(bool v) { return {GgufType::boolean, v}; }
  static GgufValue of_string(std::string v) { return {GgufType::string, std::move(v)}; }
  static GgufValue of_strings(std::vector<std::string> v) {
    return {GgufType::array, GgufArray{GgufType::string, std::move(v)}};
  }
  static GgufValue of_f32s(std::vector<double> v) {
    return {GgufType::array, GgufArray{GgufType::f32, std::move(v)}};
  }
  static GgufValue of_i32s(std::vector<int64_t> v) {
    return {GgufType::array, GgufArray{GgufType::i32, std::move(v)}};
  }

  /// The value for humans; long arrays and strings are shortened and say so: `["<unk>", "<s>", ...
  /// 512 in all]`.
  std::string describe() const;
};

/// The content of a GGUF file.
struct Gguf {
  uint32_t version = 3;
  uint32_t alignment = 32;
  /// Offset of the data section in the file.
  uint64_t data_offset = 0;
  /// Keys are unique; order of the file.
  std::vector<std::pair<std::string, GgufValue>> metadata;
  /// Order of the tensor table; names are unique; shapes are outermost first (the reverse of the
  /// file's).
  std::vector<TensorView> tensors;
  std::shared_ptr<const MappedFile> file; ///< empty where `parse_gguf` was given memory
  std::string file_name;

  const GgufValue* find(std::string_view key) const;
  const TensorView* find_tensor(std::string_view name) const;

  /// Typed access. A key that is absent gives nullopt; one of another type is a Failure that names
  /// both types. Integers of any width and sign convert where the value fits; floats of both widths
  /// convert; bool is bool only.
  Result<std::optional<int64_t>> integer(std::string_view key) const;
  Result<std::optional<double>> real(std::string_view key) const;
  Result<std::optional<bool>> boolean(std::string_view key) const;
  Result<std::optional<std::string>> string(std::string_view key) const;
  /// nullptr where absent.
  Result<const std::vector<std::string>*> strings(std::string_view key) const;
  /// Empty optional where absent.
  Result<std::optional<std::vector<int64_t>>> integers(std::string_view key) const;
  Result<std::optional<std::vector<double>>> reals(std::string_view key) const;
};

/// Reads a whole file image. Every count, length and offset is checked against the bytes that are
/// there before it is used. Failures name the file, the byte offset, what was found and what was
/// expected.
Result<Gguf> parse_gguf(std::span<const std::byte> bytes, std::string_view file_name);
Result<Gguf> open_gguf(const std::string& path);

/// Opens a model that may be cut into files NAME-00001-of-00003.gguf: `path` is any of them. The
/// result has the metadata of the first file and the tensors of all, whose `file_index` counts into
/// `files` (where every mapping is kept).
Result<Gguf> open_gguf_parts(const std::string& path, std::vector<std::shared_ptr<const MappedFile>>& files);

/// Writes v3. `tensors` are written in the given order, each aligned. The file appears complete or
/// not at all.
Result<void> save_gguf(const std::string& path, std::span<const std::pair<std::string, GgufValue>> metadata,
                       std::span<const TensorView> tensors, uint32_t alignment = 32);
/// The same with tensors that are made one after another, when they are written.
Result<void> stream_gguf(const std::string& path, std::span<const std::pair<std::string, GgufValue>> metadata,
                         std::span<const TensorSource> tensors, const SourceProgress& progress = {});
/// The first as a byte string.
Result<std::string> serialize_gguf(std::span<const std::pair<std::string, GgufValue>> metadata,
                                   std::span<const TensorView> tensors, uint32_t alignment = 32);

} // namespace luminal
