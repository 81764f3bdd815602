// formats/npz.cpp -- a zip archive of .npy files. Format: PKWARE's APPNOTE.TXT 6.3.9. Stored members
// are read in place from the mapped file; libzip would copy each of them.
#include "formats/npy.h"
#include "formats/parse.h"
#include <algorithm>
#include <cstring>
#include <zlib.h>

namespace luminal {
namespace {

using namespace detail;

constexpr uint64_t max_deflate_ratio = 1032; // of the format itself
constexpr uint64_t max_inflated_bytes = uint64_t{1} << 32;

class NpzReader {
public:
  NpzReader(std::span<const std::byte> bytes, std::string_view file) : bytes_(bytes), file_(file) {}

  NpyFile read() {
    find_directory();
    NpyFile out;
    uint64_t at = directory_;
    for (uint64_t i = 0; i < count_; ++i) {
      Member member;
      at = read_entry(at, member);
      out.arrays.push_back(read_member(member));
    }
    std::vector<std::string_view> names;
    for (const auto& array : out.arrays) names.push_back(array.tensor.name);
    std::sort(names.begin(), names.end());
    if (const auto twice = std::adjacent_find(names.begin(), names.end()); twice != names.end())
      refuse_at(file_, directory_, fmt::format("member {} stands twice", in_quotes(*twice)));
    return out;
  }

private:
  struct Member {
    std::string name;
    uint64_t offset = 0, packed = 0, size = 0;
    uint32_t method = 0, checksum = 0;
  };

  uint64_t number(uint64_t offset, uint64_t size) const {
    if (offset > bytes_.size() || size > bytes_.size() - offset)
      refuse_at(file_, offset,
                fmt::format("a zip record ends behind the end of the file ({} bytes)", bytes_.size()));
    uint64_t value = 0;
    for (uint64_t i = size; i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(bytes_[offset + i]);
    return value;
  }

  void find_directory() {
    if (bytes_.size() < 22)
      refuse_at(file_, 0, fmt::format("{} bytes, expected at least 22 (a zip archive)", bytes_.size()));
    // The record at the end may be followed by a comment of up to 65535 bytes.
    const uint64_t lowest = bytes_.size() - std::min<uint64_t>(bytes_.size(), 22 + 65535);
    for (uint64_t at = bytes_.size() - 22 + 1; at-- > lowest;) {
      if (number(at, 4) != 0x06054b50 || at + 22 + number(at + 20, 2) != bytes_.size()) continue;
      count_ = number(at + 10, 2);
      directory_ = number(at + 16, 4);
      if (count_ == 0xFFFF || directory_ == 0xFFFFFFFF) find_directory_64(at);
      if (count_ > bytes_.size() / 46)
        refuse_at(file_, at,
                  fmt::format("{} members, expected at most {} in a file of this size", count_,
                              bytes_.size() / 46));
      return;
    }
    refuse(file_, "no zip directory at the end: not an .npz file, or cut short");
  }

  void find_directory_64(uint64_t end_record) {
    if (end_record < 20 || number(end_record - 20, 4) != 0x07064b50)
      refuse_at(file_, end_record, "a zip64 directory without its locator");
    const uint64_t at = number(end_record - 12, 8);
    if (number(at, 4) != 0x06064b50) refuse_at(file_, at, "no zip64 directory record here, expected one");
    count_ = number(at + 32, 8);
    directory_ = number(at + 48, 8);
  }

  uint64_t read_entry(uint64_t at, Member& member) const {
    if (number(at, 4) != 0x02014b50) refuse_at(file_, at, "no directory entry here, expected one");
    if ((number(at + 8, 2) & 1) != 0) refuse_at(file_, at, "an encrypted member");
    member.method = static_cast<uint32_t>(number(at + 10, 2));
    member.checksum = static_cast<uint32_t>(number(at + 16, 4));
    member.packed = number(at + 20, 4);
    member.size = number(at + 24, 4);
    member.offset = number(at + 42, 4);
    const uint64_t name = number(at + 28, 2), extra = number(at + 30, 2), comment = number(at + 32, 2);
    const uint64_t end = at + 46 + name + extra + comment;
    if (end > bytes_.size()) refuse_at(file_, at, "a directory entry ends behind the end of the file");
    member.name = std::string(as_text(bytes_.subspan(at + 46, name)));
    if (const auto bad = find_invalid_utf8(member.name))
      refuse_at(file_, at + 46 + *bad, "a member's name is not UTF-8");
    // Sizes that do not fit 32 bits stand in the extra field 1, in this order.
    for (uint64_t field = at + 46 + name; field + 4 <= at + 46 + name + extra;
         field += 4 + number(field + 2, 2)) {
      if (number(field, 2) != 1) continue;
      uint64_t value = field + 4;
      for (uint64_t* large : {&member.size, &member.packed, &member.offset})
        if (*large == 0xFFFFFFFF) *large = number(value, 8), value += 8;
    }
    return end;
  }

  NpyArray read_member(const Member& member) const {
    const std::string full = fmt::format("{}: member {}", file_, in_quotes(member.name));
    if (number(member.offset, 4) != 0x04034b50)
      refuse_at(full, member.offset, "no member here, expected one");
    const uint64_t start = member.offset + 30 + number(member.offset + 26, 2) + number(member.offset + 28, 2);
    if (start > bytes_.size() || member.packed > bytes_.size() - start)
      refuse_at(full, member.offset,
                fmt::format("{} bytes from {} on, expected them within the file of {}", member.packed, start,
                            bytes_.size()));
    const auto packed = bytes_.subspan(start, member.packed);
    NpyArray array;
    if (member.method == 0) {
      if (member.packed != member.size)
        refuse_at(full, member.offset, fmt::format("stored with {} bytes of {}", member.packed, member.size));
      check(member, full, packed);
      array = unwrap(parse_npy(packed, full));
      array.tensor.file_offset += start;
    } else if (member.method == 8) {
      if (member.size > npy_header_bytes) { // before all of it is unpacked
        const auto begin = inflated(packed, member, full, npy_header_bytes);
        if (auto good = check_npy_header(begin, member.size, full); !good) throw ParseFailure{good.error()};
      }
      auto content =
          std::make_shared<const std::vector<std::byte>>(inflated(packed, member, full, member.size));
      check(member, full, *content);
      array = unwrap(parse_npy(*content, full));
      if (!array.owned) array.owned = std::move(content);
      array.tensor.file_offset = start;
    } else {
      refuse_at(full, member.offset,
                fmt::format("compression {}, expected stored (0) or deflated (8)", member.method));
    }
    array.tensor.name =
        member.name.ends_with(".npy") ? member.name.substr(0, member.name.size() - 4) : member.name;
    return array;
  }

  static NpyArray unwrap(Result<NpyArray> array) {
    if (!array) throw ParseFailure{array.error()};
    return std::move(*array);
  }

  void check(const Member& member, std::string_view full, std::span<const std::byte> content) const {
    const uLong sum = crc32_z(0, reinterpret_cast<const Bytef*>(content.data()), content.size());
    if (sum != member.checksum)
      refuse_at(full, member.offset,
                fmt::format("checksum {:08x}, expected {:08x}: the file is damaged", sum, member.checksum));
  }

  /// The first `size` bytes.
  static std::vector<std::byte> inflated(std::span<const std::byte> packed, const Member& member,
                                         std::string_view full, uint64_t size) {
    if (member.size > packed.size() * max_deflate_ratio + 1024)
      refuse_at(
          full, member.offset,
          fmt::format("{} bytes that would unpack to {}, more than deflate can", packed.size(), member.size));
    if (member.size > max_inflated_bytes)
      refuse_at(full, member.offset,
                fmt::format("a deflated member of {} bytes, expected at most {} (numpy.savez stores it)",
                            member.size, max_inflated_bytes));
    std::vector<std::byte> out(size);
    z_stream stream{};
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw std::bad_alloc();
    // The counters of zlib have 32 bits, so both sides advance in steps.
    constexpr size_t step = size_t{1} << 30;
    size_t in = 0, done = 0;
    int result = Z_OK;
    while (result == Z_OK && (done < size || size == member.size)) {
      const size_t take = std::min(step, packed.size() - in), room = std::min(step, out.size() - done);
      stream.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(packed.data() + in));
      stream.avail_in = static_cast<uInt>(take);
      stream.next_out = reinterpret_cast<Bytef*>(out.data() + done);
      stream.avail_out = static_cast<uInt>(room);
      result = inflate(&stream, Z_NO_FLUSH);
      in += take - stream.avail_in;
      done += room - stream.avail_out;
    }
    inflateEnd(&stream);
    if (size == member.size ? result != Z_STREAM_END || done != size : done != size)
      refuse_at(full, member.offset,
                fmt::format("deflated data that {} after {} bytes, expected {}",
                            result == Z_STREAM_END ? "ends" : "is damaged", done, member.size));
    return out;
  }

  std::span<const std::byte> bytes_;
  std::string_view file_;
  uint64_t directory_ = 0, count_ = 0;
};

} // namespace

Result<NpyFile> parse_npz(std::span<const std::byte> bytes, std::string_view file_name) {
  return guarded(file_name, [&] { return NpzReader(bytes, file_name).read(); });
}

} // namespace luminal
