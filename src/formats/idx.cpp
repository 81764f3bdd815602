// formats/idx.cpp -- reading IDX: four bytes of type and rank, the sizes, the numbers.
#include "formats/idx.h"
#include "base/file.h"
#include "formats/parse.h"
#include <algorithm>
#include <zlib.h>

namespace luminal {
namespace {

using namespace detail;

constexpr uint64_t max_idx_bytes = uint64_t{1} << 32;

struct TypeRow {
  int code;
  StorageType type;
  size_t bytes;
};
constexpr TypeRow types[] = {{0x08, StorageType::u8, 1},  {0x09, StorageType::i8, 1},
                             {0x0B, StorageType::i16, 2}, {0x0C, StorageType::i32, 4},
                             {0x0D, StorageType::f32, 4}, {0x0E, StorageType::f64, 8}};

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() > 2 && bytes[0] == std::byte{0x1F} && bytes[1] == std::byte{0x8B};
}

std::vector<std::byte> inflated(std::span<const std::byte> bytes, std::string_view file) {
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw std::bad_alloc();
  std::vector<std::byte> out;
  std::vector<Bytef> block(size_t{1} << 16);
  size_t given = 0;
  int state = Z_OK;
  while (state == Z_OK && out.size() <= max_idx_bytes) {
    if (stream.avail_in == 0) {
      const size_t part = std::min(bytes.size() - given, size_t{1} << 30);
      stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(bytes.data() + given));
      stream.avail_in = uInt(part);
      given += part;
    }
    stream.next_out = block.data();
    stream.avail_out = uInt(block.size());
    state = inflate(&stream, Z_NO_FLUSH);
    const auto* begin = reinterpret_cast<const std::byte*>(block.data());
    out.insert(out.end(), begin, begin + (block.size() - stream.avail_out));
  }
  const uint64_t position = stream.total_in;
  inflateEnd(&stream);
  if (out.size() > max_idx_bytes) refuse(file, "more than 4 GiB once it is decompressed");
  if (state != Z_STREAM_END) refuse_at(file, position, "the gzip stream is broken or ends too early");
  return out;
}

IdxArray idx_array(std::span<const std::byte> bytes, std::string_view file) {
  const auto at = [&](size_t i) { return std::to_integer<uint32_t>(bytes[i]); };
  if (bytes.size() < 4 || at(0) != 0 || at(1) != 0)
    refuse_at(file, 0, "not an IDX file: it must begin with two zero bytes, a type and the number of axes");
  const auto* row = std::find_if(std::begin(types), std::end(types),
                                 [&](const TypeRow& r) { return uint32_t(r.code) == at(2); });
  if (row == std::end(types)) refuse_at(file, 2, fmt::format("type 0x{:02X} is unknown", at(2)));
  const size_t rank = at(3), head = 4 + 4 * rank;
  if (bytes.size() < head)
    refuse_at(file, 4, fmt::format("{} axes, but the file ends after {} bytes", rank, bytes.size()));
  IdxArray array;
  array.type = row->type;
  for (size_t d = 0; d < rank; ++d) {
    int64_t size = 0;
    for (size_t k = 0; k < 4; ++k) size = size << 8 | at(4 + 4 * d + k);
    array.shape.push_back(size);
  }
  const auto wanted = storage_bytes(row->type, array.shape);
  if (!wanted || *wanted != bytes.size() - head)
    refuse_at(file, head,
              fmt::format("{} bytes of data, the sizes say {}", bytes.size() - head, wanted.value_or(0)));
  array.bytes.assign(bytes.begin() + ptrdiff_t(head), bytes.end());
  if (row->bytes > 1)
    for (auto number = array.bytes.begin(); number != array.bytes.end(); number += ptrdiff_t(row->bytes))
      std::reverse(number, number + ptrdiff_t(row->bytes));
  return array;
}

} // namespace

Result<IdxArray> parse_idx(std::span<const std::byte> bytes, std::string_view file_name) {
  return guarded(file_name, [&] {
    return is_gzip(bytes) ? idx_array(inflated(bytes, file_name), file_name) : idx_array(bytes, file_name);
  });
}

Result<IdxArray> open_idx(const std::string& path) {
  auto file = MappedFile::open(path);
  if (!file) return file.failure();
  return parse_idx(file->bytes(), path);
}

} // namespace luminal
