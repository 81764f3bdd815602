// formats/onnx_wire.h -- protobuf's wire format, field by field, over mapped memory.
// Format: https://protobuf.dev/programming-guides/encoding/
#pragma once
#include "formats/parse.h"
#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace luminal::onnx::detail {

using luminal::detail::refuse_at;

/// One message. Offsets in refusals are those of the whole file.
class Wire {
public:
  enum class Type : uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };
  Wire(std::span<const std::byte> bytes, std::string_view file, uint64_t offset = 0, int depth = 0)
      : bytes_(bytes), file_(file), offset_(offset), depth_(depth) {
    if (depth > deepest) refuse("messages are nested more than 64 deep");
  }
  static constexpr int deepest = 64;

  /// The next field; false at the end of the message. Its value must be read or skipped.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const uint64_t key = raw_varint();
    const uint64_t type = key & 7;
    if (type != 0 && type != 1 && type != 2 && type != 5)
      refuse(fmt::format("a field has the wire type {}", type));
    if ((key >> 3) == 0 || (key >> 3) >= uint64_t(1) << 29)
      refuse(fmt::format("a field has the number {}", key >> 3));
    field_ = int(key >> 3);
    type_ = Type(type);
    return true;
  }
  int field() const { return field_; }
  Type type() const { return type_; }

  int64_t integer() {
    need(Type::varint);
    return std::bit_cast<int64_t>(raw_varint());
  }
  float number() {
    need(Type::fixed32);
    return std::bit_cast<float>(fixed<uint32_t>());
  }
  std::span<const std::byte> bytes() {
    need(Type::bytes);
    return raw_bytes();
  }
  std::string text() { return std::string(luminal::detail::as_text(bytes())); }
  Wire message() {
    const auto inner = bytes();
    return {inner, file_, offset_of(inner), depth_ + 1};
  }
  /// A repeated number: one an element, or packed. `take` gets each.
  template <class F> void integers(F&& take) {
    if (type_ == Type::varint) return take(std::bit_cast<int64_t>(raw_varint()));
    Wire packed = list();
    while (packed.at_ < packed.bytes_.size()) take(std::bit_cast<int64_t>(packed.raw_varint()));
  }
  template <class T, class F> void numbers(F&& take) {
    if (type_ == (sizeof(T) == 4 ? Type::fixed32 : Type::fixed64)) return take(fixed<T>());
    Wire packed = list();
    while (packed.at_ < packed.bytes_.size()) take(packed.fixed<T>());
  }
  void skip() {
    switch (type_) {
    case Type::varint: raw_varint(); break;
    case Type::fixed64: fixed<uint64_t>(); break;
    case Type::fixed32: fixed<uint32_t>(); break;
    case Type::bytes: raw_bytes(); break;
    }
  }
  [[noreturn]] void refuse(std::string_view text) const { refuse_at(file_, offset_ + at_, text); }
  std::string_view file() const { return file_; }

private:
  void need(Type type) const {
    if (type_ != type)
      refuse(fmt::format("field {} has the wire type {} in place of {}", field_, int(type_), int(type)));
  }
  Wire list() {
    need(Type::bytes);
    const auto inner = raw_bytes();
    return {inner, file_, offset_of(inner), depth_};
  }
  uint64_t offset_of(std::span<const std::byte> inner) const {
    return offset_ + uint64_t(inner.data() - bytes_.data());
  }
  uint64_t raw_varint() {
    uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (at_ == bytes_.size()) refuse("a number has no end");
      const auto byte = std::to_integer<uint64_t>(bytes_[at_++]);
      if (shift == 63 && byte > 1) break;
      value |= (byte & 0x7F) << shift;
      if (byte < 0x80) return value;
    }
    refuse("a number has more than 64 bits");
  }
  template <class T> T fixed() {
    if (bytes_.size() - at_ < sizeof(T)) refuse("a number has no end");
    T value;
    std::memcpy(&value, bytes_.data() + at_, sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::span<const std::byte> raw_bytes() {
    const uint64_t size = raw_varint();
    if (size > bytes_.size() - at_)
      refuse(fmt::format("{} bytes are announced, {} are left", size, bytes_.size() - at_));
    const auto inner = bytes_.subspan(at_, size_t(size));
    at_ += size_t(size);
    return inner;
  }

  std::span<const std::byte> bytes_;
  std::string_view file_;
  uint64_t offset_;
  int depth_;
  size_t at_ = 0;
  int field_ = 0;
  Type type_ = Type::varint;
};

} // namespace luminal::onnx::detail
