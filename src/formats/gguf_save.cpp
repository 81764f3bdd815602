// formats/gguf_save.cpp -- writing GGUF v3.
#include "formats/gguf.h"
#include "formats/parse.h"
#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <limits>
#include <set>

namespace luminal {
namespace {

using namespace detail;

constexpr std::string_view file = "GGUF";

class Writer {
public:
  template <class T> void scalar(T value) { text_.append(reinterpret_cast<const char*>(&value), sizeof(T)); }
  void string(std::string_view value) {
    scalar<uint64_t>(value.size());
    text_ += value;
  }
  void pad(uint64_t alignment) { text_.append((alignment - text_.size() % alignment) % alignment, '\0'); }
  std::string& text() { return text_; }

private:
  std::string text_;
};

template <class Item, class Stored>
void number(Writer& out, Stored value, std::string_view key, GgufType type) {
  if constexpr (std::is_integral_v<Item>) {
    if (!std::in_range<Item>(value))
      refuse(file,
             fmt::format("metadata {}: {} does not fit {}", in_quotes(key), value, gguf_type_name(type)));
  }
  out.scalar(static_cast<Item>(value));
}

template <class Stored> void scalar_of(Writer& out, GgufType type, Stored value, std::string_view key) {
  switch (type) {
  case GgufType::u8: return number<uint8_t>(out, value, key, type);
  case GgufType::i8: return number<int8_t>(out, value, key, type);
  case GgufType::u16: return number<uint16_t>(out, value, key, type);
  case GgufType::i16: return number<int16_t>(out, value, key, type);
  case GgufType::u32: return number<uint32_t>(out, value, key, type);
  case GgufType::i32: return number<int32_t>(out, value, key, type);
  case GgufType::u64: return number<uint64_t>(out, value, key, type);
  case GgufType::i64: return number<int64_t>(out, value, key, type);
  default:
    refuse(file, fmt::format("metadata {} is an integer with type {}", in_quotes(key), gguf_type_name(type)));
  }
}

void write_scalar(Writer& out, GgufType type, uint64_t value, std::string_view key) {
  if (type == GgufType::boolean && value <= 1) return out.scalar(static_cast<uint8_t>(value));
  scalar_of(out, type, value, key);
}
void write_scalar(Writer& out, GgufType type, int64_t value, std::string_view key) {
  scalar_of(out, type, value, key);
}
void write_scalar(Writer& out, GgufType type, double value, std::string_view key) {
  if (type == GgufType::f32) return out.scalar(static_cast<float>(value));
  if (type == GgufType::f64) return out.scalar(value);
  refuse(file, fmt::format("metadata {} is a float with type {}", in_quotes(key), gguf_type_name(type)));
}
void write_scalar(Writer& out, GgufType type, bool value, std::string_view key) {
  if (type == GgufType::boolean) return out.scalar(static_cast<uint8_t>(value));
  refuse(file, fmt::format("metadata {} is a bool with type {}", in_quotes(key), gguf_type_name(type)));
}
void write_scalar(Writer& out, GgufType type, const std::string& value, std::string_view key) {
  if (type == GgufType::string) return out.string(value);
  refuse(file, fmt::format("metadata {} is a string with type {}", in_quotes(key), gguf_type_name(type)));
}
void write_array(Writer& out, const GgufArray& array, std::string_view key);
void write_scalar(Writer& out, GgufType type, const GgufArray& value, std::string_view key) {
  if (type == GgufType::array) return write_array(out, value, key);
  refuse(file, fmt::format("metadata {} is an array with type {}", in_quotes(key), gguf_type_name(type)));
}
void write_array(Writer& out, const GgufArray& array, std::string_view key) {
  out.scalar(static_cast<uint32_t>(array.element_type));
  out.scalar<uint64_t>(array.size());
  std::visit(
      [&](const auto& items) {
        for (const auto& item : items) write_scalar(out, array.element_type, item, key);
      },
      array.items);
}

const std::string& zeros() {
  static const std::string out(uint64_t{1} << 20, '\0');
  return out;
}

uint64_t bytes_of(const TensorView& tensor) {
  const auto bytes = storage_bytes(tensor.type, tensor.shape);
  if (!bytes || *bytes != tensor.bytes.size())
    refuse(file, fmt::format("tensor {} is {} with {} bytes, expected {}", in_quotes(tensor.name),
                             tensor.describe(), tensor.bytes.size(),
                             bytes ? fmt::format("{}", *bytes) : "a whole number of blocks"));
  return *bytes;
}

uint64_t bytes_of(const TensorSource& tensor) {
  const auto bytes = storage_bytes(tensor.type, tensor.shape);
  if (!bytes)
    refuse(file,
           fmt::format("tensor {} is {} [{}], expected a whole number of blocks", in_quotes(tensor.name),
                       storage_name(tensor.type), fmt::join(tensor.shape, ", ")));
  return *bytes;
}

/// Everything before the data. Tensors have a name, a type and a shape.
template <class Tensor>
std::string header(std::span<const std::pair<std::string, GgufValue>> metadata,
                   std::span<const Tensor> tensors, uint32_t alignment) {
  if (!std::has_single_bit(alignment) || alignment > zeros().size())
    refuse(file, fmt::format("alignment {}, expected a power of two up to {}", alignment, zeros().size()));
  std::set<std::string_view> names;
  for (const auto& [key, value] : metadata) {
    if (key.empty() || key.size() > 65535 || find_invalid_utf8(key))
      refuse(file, fmt::format("metadata key {} is not UTF-8 of 1 to 65535 bytes", in_quotes(key)));
    if (!names.insert(key).second) refuse(file, fmt::format("metadata key {} stands twice", in_quotes(key)));
    if (key == "general.alignment" && value != GgufValue::of_u32(alignment))
      refuse(file,
             fmt::format("metadata general.alignment is {}, expected u32 {}", value.describe(), alignment));
  }
  const bool states_alignment = alignment != 32 && !names.contains("general.alignment");
  names.clear();

  Writer out;
  out.text() = "GGUF";
  out.scalar<uint32_t>(3);
  out.scalar<uint64_t>(tensors.size());
  out.scalar<uint64_t>(metadata.size() + (states_alignment ? 1 : 0));
  const auto pair = [&](const std::string& key, const GgufValue& value) {
    out.string(key);
    out.scalar(static_cast<uint32_t>(value.type));
    std::visit([&](const auto& v) { write_scalar(out, value.type, v, key); }, value.value);
  };
  for (const auto& [key, value] : metadata) pair(key, value);
  if (states_alignment) pair("general.alignment", GgufValue::of_u32(alignment));

  uint64_t offset = 0;
  for (const auto& tensor : tensors) {
    const auto& row = storage_info(tensor.type);
    if (row.ggml_id < 0)
      refuse(file, fmt::format("tensor {} has type {}, which GGUF does not have", in_quotes(tensor.name),
                               row.name));
    if (tensor.shape.size() > 4)
      refuse(file, fmt::format("tensor {} has {} axes, expected at most 4", in_quotes(tensor.name),
                               tensor.shape.size()));
    if (find_invalid_utf8(tensor.name) || tensor.name.size() > 65535)
      refuse(file, fmt::format("tensor name {} is not UTF-8 of at most 65535 bytes", in_quotes(tensor.name)));
    if (!names.insert(tensor.name).second)
      refuse(file, fmt::format("two tensors are named {}", in_quotes(tensor.name)));
    const auto bytes = bytes_of(tensor);
    out.string(tensor.name);
    out.scalar(static_cast<uint32_t>(tensor.shape.size()));
    for (size_t i = tensor.shape.size(); i-- > 0;)
      out.scalar<uint64_t>(static_cast<uint64_t>(tensor.shape[i]));
    out.scalar(static_cast<uint32_t>(row.ggml_id));
    out.scalar<uint64_t>(offset);
    offset += (bytes + alignment - 1) / alignment * alignment;
  }
  out.pad(alignment);
  return std::move(out.text());
}

struct GgufPieces {
  std::string head;
  std::vector<std::string_view> data; // tensors and the padding between them
};

GgufPieces write(std::span<const std::pair<std::string, GgufValue>> metadata,
                 std::span<const TensorView> tensors, uint32_t alignment) {
  GgufPieces pieces{header(metadata, tensors, alignment), {}};
  for (const auto& tensor : tensors) {
    pieces.data.push_back(as_text(tensor.bytes));
    pieces.data.push_back(
        std::string_view(zeros()).substr(0, (alignment - tensor.bytes.size() % alignment) % alignment));
  }
  return pieces;
}

} // namespace

Result<std::string> serialize_gguf(std::span<const std::pair<std::string, GgufValue>> metadata,
                                   std::span<const TensorView> tensors, uint32_t alignment) {
  return guarded(file, [&] {
    auto pieces = write(metadata, tensors, alignment);
    for (const auto piece : pieces.data) pieces.head += piece;
    return std::move(pieces.head);
  });
}

Result<void> save_gguf(const std::string& path, std::span<const std::pair<std::string, GgufValue>> metadata,
                       std::span<const TensorView> tensors, uint32_t alignment) {
  auto pieces = guarded(file, [&] { return write(metadata, tensors, alignment); });
  if (!pieces) return Failure{fmt::format("{}: {}", path, pieces.error())};
  pieces->data.insert(pieces->data.begin(), pieces->head);
  return write_pieces(path, pieces->data);
}

Result<void> stream_gguf(const std::string& path, std::span<const std::pair<std::string, GgufValue>> metadata,
                         std::span<const TensorSource> tensors, const SourceProgress& progress) {
  constexpr uint32_t alignment = 32;
  auto head = guarded(file, [&] { return header(metadata, tensors, alignment); });
  if (!head) return Failure{fmt::format("{}: {}", path, head.error())};
  SourceFile out{std::move(*head), {}, alignment};
  for (size_t i = 0; i < tensors.size(); ++i) out.order.push_back(i);
  return write_sources(path, out, tensors, progress);
}

} // namespace luminal
