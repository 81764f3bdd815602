// formats/parse.cpp -- refusals, text for messages, UTF-8, small files.
#include "formats/parse.h"
#include "base/file.h"
#include <filesystem>
#include <vector>

namespace luminal::detail {

void refuse(std::string_view file, std::string_view text) {
  throw ParseFailure{fmt::format("{}: {}", file, text)};
}

void refuse_at(std::string_view file, uint64_t offset, std::string_view text) {
  throw ParseFailure{fmt::format("{}: offset {}: {}", file, offset, text)};
}

int utf8_character(std::string_view text) {
  if (text.empty()) return 0;
  const auto at = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  int length = 0;
  unsigned char low = 0x80, high = 0xBF; // bounds of the second byte: Unicode 15, table 3-7
  if (first >= 0xC2 && first <= 0xDF)
    length = 2;
  else if (first >= 0xE0 && first <= 0xEF) {
    length = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    length = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return -1;
  }
  for (int i = 1; i < length; ++i) {
    if (static_cast<size_t>(i) == text.size()) return 0;
    if (at(i) < low || at(i) > high) return -i;
    low = 0x80;
    high = 0xBF;
  }
  return length;
}

std::optional<size_t> find_invalid_utf8(std::string_view text) {
  size_t position = 0;
  while (position < text.size()) {
    if (static_cast<unsigned char>(text[position]) < 0x80) {
      ++position;
      continue;
    }
    const int length = utf8_character(text.substr(position, 4));
    if (length <= 0) return position;
    position += static_cast<size_t>(length);
  }
  return std::nullopt;
}

std::string in_quotes(std::string_view text, size_t limit) {
  std::string out = "\"";
  size_t position = 0;
  while (position < text.size()) {
    if (position >= limit) return out + fmt::format("...\" ({} bytes)", text.size());
    const int length = utf8_character(text.substr(position, 4));
    const auto byte = static_cast<unsigned char>(text[position]);
    if (length <= 0 || byte < 0x20 || byte == 0x7F) {
      out += byte == '\n' ? "\\n" : byte == '\t' ? "\\t" : fmt::format("\\x{:02X}", byte);
      ++position;
      continue;
    }
    if (byte == '"' || byte == '\\') out += '\\';
    out += text.substr(position, static_cast<size_t>(length));
    position += static_cast<size_t>(length);
  }
  return out + '"';
}

Result<void> write_pieces(const std::string& path, std::span<const std::string_view> pieces) {
  const auto folder = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!folder.empty() && !std::filesystem::is_directory(folder, error))
    return Failure{fmt::format("{}: there is no folder {}", path, folder.string())};
  std::vector<std::span<const std::byte>> parts;
  for (std::string_view piece : pieces) parts.push_back(std::as_bytes(std::span(piece.data(), piece.size())));
  return write_file(path, std::span<const std::span<const std::byte>>(parts));
}

} // namespace luminal::detail
