// runtime/load_file.cpp -- layout, checks and writing of the file of loaded values.
#include "runtime/load_file.h"
#include "base/hash.h"
#include <algorithm>
#include <array>
#include <cstring>
#include <fmt/format.h>
#include <vector>

namespace luminal::runtime {
namespace {

struct Header {
  std::array<char, 8> magic;
  uint64_t source, count, table_check;
};
struct Entry {
  uint64_t key, offset, bytes, check;
};
constexpr std::array<char, 8> magic = {'L', 'U', 'M', 'L', 'O', 'A', 'D', '1'};
constexpr uint64_t page = 4096;
constexpr const char* extension = ".values";

uint64_t next_page(uint64_t offset) { return (offset + page - 1) / page * page; }

} // namespace

Result<LoadFile> LoadFile::open(const std::string& path, uint64_t source) {
  auto mapped = MappedFile::open(path);
  if (!mapped) return mapped.failure();
  const std::span<const std::byte> bytes = mapped->bytes();
  auto damaged = [&](std::string_view why) { return Failure{fmt::format("{}: {}", path, why)}; };
  Header header;
  if (bytes.size() < sizeof header) return damaged("shorter than a header");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != magic) return damaged("not a file of loaded values");
  if (header.source != source) return damaged("made from another source");
  if (header.count > (bytes.size() - sizeof header) / sizeof(Entry)) return damaged("shorter than its table");
  std::vector<Entry> table(header.count);
  if (!table.empty()) std::memcpy(table.data(), bytes.data() + sizeof header, table.size() * sizeof(Entry));
  if (hash64(table.data(), table.size() * sizeof(Entry), source) != header.table_check)
    return damaged("its table is damaged");
  LoadFile result(std::move(*mapped));
  for (const Entry& entry : table) {
    if (entry.offset % page != 0 || entry.offset > bytes.size() || entry.bytes > bytes.size() - entry.offset)
      return damaged("a value lies beyond its end");
    result.values_[entry.key] = {bytes.subspan(entry.offset, entry.bytes), entry.check};
  }
  return result;
}

bool LoadFile::read(uint64_t key, std::span<std::byte> to) const {
  const auto found = values_.find(key);
  if (found == values_.end() || found->second.bytes.size() != to.size()) return false;
  constexpr size_t piece = 4 << 20; // the file's pages are in memory beside the copy for so many bytes only
  for (size_t at = 0; at < to.size(); at += piece) {
    const auto from = found->second.bytes.subspan(at, std::min(piece, to.size() - at));
    std::memcpy(to.data() + at, from.data(), from.size());
    file_.forget(from);
  }
  return hash64(to.data(), to.size(), key) == found->second.check;
}

LoadFile::Values LoadFile::values() const {
  Values whole;
  for (auto& [key, value] : values_)
    if (hash64(value.bytes.data(), value.bytes.size(), key) == value.check) whole[key] = value.bytes;
  return whole;
}

Result<void> LoadFile::write(const std::string& path, uint64_t source, const Values& values) {
  std::vector<Entry> table;
  uint64_t end = sizeof(Header) + values.size() * sizeof(Entry);
  for (auto& [key, value] : values) {
    const uint64_t offset = next_page(end);
    table.push_back({key, offset, value.size(), hash64(value.data(), value.size(), key)});
    end = offset + value.size();
  }
  const Header header{magic, source, table.size(),
                      hash64(table.data(), table.size() * sizeof(Entry), source)};
  const std::array<std::byte, page> zeros{};
  std::vector<std::span<const std::byte>> parts{std::as_bytes(std::span(&header, 1)),
                                                std::as_bytes(std::span(table))};
  uint64_t at = sizeof header + table.size() * sizeof(Entry);
  for (const Entry& entry : table) {
    parts.push_back(std::span(zeros).first(entry.offset - at));
    parts.push_back(values.at(entry.key));
    at = entry.offset + entry.bytes;
  }
  if (auto made = make_folder_of(path); !made) return made;
  return write_file(path, parts);
}

std::string load_file_path(const std::string& cache_folder, uint64_t source) {
  return fmt::format("{}/load/{:016x}{}", cache_folder, source, extension);
}

void trim_load_files(const std::string& cache_folder, int64_t max_bytes) {
  trim_folder(cache_folder + "/load", extension, max_bytes);
}

} // namespace luminal::runtime
