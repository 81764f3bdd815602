// formats/npz_save.cpp -- writing .npz: a zip archive of .npy members that are stored as they are.
// Format: PKWARE's APPNOTE.TXT 6.3.9.
#include "formats/npy.h"
#include "formats/parse.h"
#include <deque>
#include <set>
#include <zlib.h>

namespace luminal {
namespace {

using namespace detail;

constexpr uint64_t alignment = 64;
constexpr uint64_t most_32 = 0xFFFFFFFF, most_16 = 0xFFFF; // these numbers say: see the 64-bit field

/// Little-endian numbers one after the other.
class Record {
public:
  Record& u16(uint64_t value) { return number(value, 2); }
  Record& u32(uint64_t value) { return number(value, 4); }
  Record& u64(uint64_t value) { return number(value, 8); }
  Record& text(std::string_view value) {
    text_ += value;
    return *this;
  }
  const std::string& str() const { return text_; }

private:
  Record& number(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>(value >> (8 * i) & 0xFF);
    return *this;
  }
  std::string text_;
};

struct Member {
  std::string name;
  uint64_t offset = 0, size = 0;
  uint64_t checksum = 0;
};

/// The part that the member's own head and its entry in the directory share.
void describe(Record& record, const Member& m) {
  const bool large = m.size >= most_32;
  record.u16(45).u16(0x0800).u16(0).u16(0).u16(0x21); // zip64, names in UTF-8, stored, 1980-01-01
  record.u32(m.checksum).u32(large ? most_32 : m.size).u32(large ? most_32 : m.size).u16(m.name.size());
}

/// The member's head, filled up so that the content begins at a multiple of 64 bytes.
std::string head_of(const Member& m) {
  Record record, extra;
  if (m.size >= most_32) extra.u16(1).u16(16).u64(m.size).u64(m.size);
  record.text("PK\x03\x04");
  describe(record, m);
  const uint64_t end = m.offset + record.str().size() + 2 + m.name.size() + extra.str().size() + 4;
  const uint64_t pad = (alignment - end % alignment) % alignment;
  extra.u16(0xD935).u16(pad).text(std::string(pad, '\0')); // the field that zipalign uses
  return record.u16(extra.str().size()).text(m.name).text(extra.str()).str();
}

std::string entry_of(const Member& m) {
  Record record, extra;
  const bool far = m.offset >= most_32;
  if (m.size >= most_32) extra.u64(m.size).u64(m.size);
  if (far) extra.u64(m.offset);
  const std::string sizes = extra.str();
  Record field;
  if (!sizes.empty()) field.u16(1).u16(sizes.size()).text(sizes);
  record.text("PK\x01\x02").u16(45);
  describe(record, m);
  record.u16(field.str().size()).u16(0).u16(0).u16(0).u32(0).u32(far ? most_32 : m.offset);
  return record.text(m.name).text(field.str()).str();
}

std::string end_of(uint64_t count, uint64_t at, uint64_t size) {
  Record record;
  if (count >= most_16 || at >= most_32 || size >= most_32) {
    record.text("PK\x06\x06").u64(44).u16(45).u16(45).u32(0).u32(0);
    record.u64(count).u64(count).u64(size).u64(at);
    record.text("PK\x06\x07").u32(0).u64(at + size).u32(1);
  }
  const uint64_t members = std::min(count, most_16);
  record.text("PK\x05\x06").u16(0).u16(0).u16(members).u16(members);
  return record.u32(std::min(size, most_32)).u32(std::min(at, most_32)).u16(0).str();
}

uint64_t checksum_of(std::string_view head, std::span<const std::byte> data) {
  const uLong first = crc32_z(0, reinterpret_cast<const Bytef*>(head.data()), head.size());
  if (data.empty()) return first; // no address is a request for the start value
  return crc32_z(first, reinterpret_cast<const Bytef*>(data.data()), data.size());
}

} // namespace

Result<void> save_npz(const std::string& path, std::span<const TensorView> tensors) {
  std::deque<std::string> texts; // stay where they are
  std::vector<std::string_view> pieces;
  std::set<std::string_view> names;
  std::string directory;
  uint64_t at = 0;
  const auto add = [&](std::string_view piece) {
    pieces.push_back(piece);
    at += piece.size();
  };
  for (const TensorView& tensor : tensors) {
    auto head = npy_head(tensor);
    if (!head) return Failure{fmt::format("{}: tensor {}: {}", path, in_quotes(tensor.name), head.error())};
    if (find_invalid_utf8(tensor.name) || tensor.name.size() > 65000)
      return Failure{fmt::format("{}: tensor name {} is not UTF-8 of at most 65000 bytes", path,
                                 in_quotes(tensor.name))};
    if (!names.insert(tensor.name).second)
      return Failure{fmt::format("{}: two tensors are named {}", path, in_quotes(tensor.name))};
    Member member{tensor.name + ".npy", at, head->size() + tensor.bytes.size(),
                  checksum_of(*head, tensor.bytes)};
    add(texts.emplace_back(head_of(member)));
    add(texts.emplace_back(std::move(*head)));
    add(as_text(tensor.bytes));
    directory += entry_of(member);
  }
  const uint64_t begin = at;
  add(directory);
  const std::string end = end_of(tensors.size(), begin, directory.size());
  add(end);
  return write_pieces(path, pieces);
}

} // namespace luminal
