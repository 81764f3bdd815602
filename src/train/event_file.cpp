// train/event_file.cpp -- TensorBoard's event files. Format: a record is its length (u64), the masked
// CRC-32C of that, the bytes, their masked CRC-32C; the bytes are tensorflow.Event as protobuf.
// https://www.tensorflow.org/tutorials/load_data/tfrecord
#include "train/run_files.h"
#include <array>
#include <bit>
#include <cstring>

namespace luminal::train {
namespace {

constexpr std::array<uint32_t, 256> crc_table = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int k = 0; k < 8; ++k) value = value & 1 ? value >> 1 ^ 0x82F63B78 : value >> 1;
    table[i] = value;
  }
  return table;
}();
uint32_t masked_crc(std::string_view bytes) {
  uint32_t crc = ~uint32_t{0};
  for (unsigned char c : bytes) crc = crc >> 8 ^ crc_table[(crc ^ c) & 0xFF];
  crc = ~crc;
  return std::rotr(crc, 15) + 0xA282EAD8;
}

template <class T> std::string little_endian(T value) {
  std::string bytes(sizeof value, 0);
  std::memcpy(bytes.data(), &value, sizeof value); // hosts are little-endian
  return bytes;
}
std::string varint(uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes += char(value | 0x80);
  return bytes + char(value);
}
/// Field numbers and wire types: 0 varint, 1 eight bytes, 2 length and bytes, 5 four bytes.
std::string field(int number, int wire, const std::string& value) {
  return varint(uint64_t(number << 3 | wire)) + value;
}
std::string text_field(int number, const std::string& text) {
  return field(number, 2, varint(text.size()) + text);
}

std::string record(const std::string& bytes) {
  const std::string length = little_endian(uint64_t(bytes.size()));
  return length + little_endian(masked_crc(length)) + bytes + little_endian(masked_crc(bytes));
}

} // namespace

std::string event_version(double seconds) {
  return record(field(1, 1, little_endian(seconds)) + text_field(3, "brain.Event:2"));
}

std::string event_scalar(double seconds, int64_t step, const std::string& tag, double value) {
  const std::string entry = text_field(1, tag) + field(2, 5, little_endian(float(value)));
  return record(field(1, 1, little_endian(seconds)) + field(2, 0, varint(uint64_t(step))) +
                text_field(5, text_field(1, entry)));
}

} // namespace luminal::train
