// base/text.cpp -- small helpers for text.
#include "base/text.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace luminal {

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::string_view trim(std::string_view text) {
  constexpr std::string_view white = " \t\r\n\f\v";
  const size_t first = text.find_first_not_of(white);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(white) - first + 1);
}

std::string_view nearest_word(std::string_view word, const std::vector<std::string_view>& words) {
  size_t best = std::min(std::max<size_t>(1, word.size() / 3) + 1, word.size());
  std::string_view nearest;
  std::vector<size_t> before, previous, row; // of the table of distances
  for (const std::string_view candidate : words) {
    // Edits: insert, delete, replace, exchange neighbours.
    row.assign(candidate.size() + 1, 0);
    for (size_t k = 0; k < row.size(); ++k) row[k] = k;
    for (size_t i = 1; i <= word.size(); ++i) {
      before = previous;
      previous = row;
      row[0] = i;
      for (size_t k = 1; k < row.size(); ++k) {
        row[k] = std::min(
            {previous[k - 1] + (word[i - 1] == candidate[k - 1] ? 0 : 1), previous[k] + 1, row[k - 1] + 1});
        if (i > 1 && k > 1 && word[i - 1] == candidate[k - 2] && word[i - 2] == candidate[k - 1])
          row[k] = std::min(row[k], before[k - 2] + 1);
      }
    }
    if (row.back() < best) {
      best = row.back();
      nearest = candidate;
    }
  }
  return nearest;
}

std::string human_bytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  constexpr const char* units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.995 && unit + 1 < std::size(units)) value /= 1024, ++unit;
  return fmt::format("{:.{}f} {}", value, value < 9.995 ? 2 : value < 99.95 ? 1 : 0, units[unit]);
}

std::string human_time(double seconds) {
  if (std::isnan(seconds)) return "nan";
  if (seconds < 0) return "-" + human_time(-seconds);
  if (std::isinf(seconds)) return "inf";
  const auto digits = [](double value) { return value < 9.995 ? 2 : value < 99.95 ? 1 : 0; };
  if (seconds < 1e-6 * 0.9995) return fmt::format("{:.0f} ns", seconds * 1e9);
  if (seconds < 1e-3 * 0.9995) return fmt::format("{:.{}f} us", seconds * 1e6, digits(seconds * 1e6));
  if (seconds < 0.9995) return fmt::format("{:.{}f} ms", seconds * 1e3, digits(seconds * 1e3));
  if (seconds < 99.5) return fmt::format("{:.{}f} s", seconds, digits(seconds));
  const double minutes = std::floor(std::round(seconds) / 60);
  if (minutes < 60) return fmt::format("{:.0f} min {:.0f} s", minutes, std::round(seconds) - minutes * 60);
  const double all_minutes = std::round(seconds / 60), hours = std::floor(all_minutes / 60);
  return fmt::format("{:.0f} h {:.0f} min", hours, all_minutes - hours * 60);
}

std::string human_count(double count) {
  constexpr const char* units[] = {"", " K", " M", " G", " T", " P", " E"};
  size_t unit = 0;
  while (std::fabs(count) >= 999.5 && unit + 1 < std::size(units)) count /= 1000, ++unit;
  if (unit == 0) return fmt::format("{:g}", count);
  const double size = std::fabs(count);
  return fmt::format("{:.{}f}{}", count, size < 9.995 ? 2 : size < 99.95 ? 1 : 0, units[unit]);
}

size_t utf8_length(unsigned char first_byte) {
  if (first_byte >= 0xC2 && first_byte <= 0xDF) return 2;
  if (first_byte >= 0xE0 && first_byte <= 0xEF) return 3;
  if (first_byte >= 0xF0 && first_byte <= 0xF4) return 4;
  return 1;
}

namespace {

// How many bytes at the head of `text` form a character (ok) or the longest start of one (not ok;
// at least 1). `cut` tells that the text ended where more bytes were wanted.
struct Character {
  size_t length;
  bool ok, cut;
};
Character character_at(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return {1, true, false};
  const size_t length = utf8_length(byte(0));
  if (length == 1) return {1, false, false};
  for (size_t i = 1; i < length; ++i) {
    if (i == text.size()) return {i, false, true};
    unsigned char low = 0x80, high = 0xBF;
    if (i == 1) {
      if (byte(0) == 0xE0) low = 0xA0;  // overlong
      if (byte(0) == 0xED) high = 0x9F; // surrogates
      if (byte(0) == 0xF0) low = 0x90;  // overlong
      if (byte(0) == 0xF4) high = 0x8F; // above U+10FFFF
    }
    if (byte(i) < low || byte(i) > high) return {i, false, false};
  }
  return {length, true, false};
}

} // namespace

bool is_utf8(std::string_view text) {
  while (!text.empty()) {
    const Character c = character_at(text);
    if (!c.ok) return false;
    text.remove_prefix(c.length);
  }
  return true;
}

size_t utf8_complete_prefix(std::string_view text) {
  // A character that is cut starts within the last 3 bytes.
  for (size_t back = 1; back <= 3 && back <= text.size(); ++back) {
    const std::string_view tail = text.substr(text.size() - back);
    if ((static_cast<unsigned char>(tail[0]) & 0xC0) == 0x80) continue;
    const Character c = character_at(tail);
    return c.cut && c.length == back ? text.size() - back : text.size();
  }
  return text.size();
}

size_t utf8_count(std::string_view text) {
  size_t count = 0;
  while (!text.empty()) {
    text.remove_prefix(character_at(text).length);
    ++count;
  }
  return count;
}

std::string utf8_sanitized(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Character c = character_at(text);
    out += c.ok ? text.substr(0, c.length) : std::string_view("\xEF\xBF\xBD");
    text.remove_prefix(c.length);
  }
  return out;
}

std::string printable(std::string_view text, size_t limit) {
  std::string out;
  for (size_t count = 0; !text.empty(); ++count) {
    if (count == limit) return out + "...";
    const Character c = character_at(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (!c.ok)
      for (size_t i = 0; i < c.length; ++i)
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text[i]));
    else if (byte == '\n')
      out += "\\n";
    else if (byte == '\t')
      out += "\\t";
    else if (byte == '\r')
      out += "\\r";
    else if (byte < 0x20 || byte == 0x7f)
      out += fmt::format("\\x{:02x}", byte);
    else
      out += text.substr(0, c.length);
    text.remove_prefix(c.length);
  }
  return out;
}

std::string json_escape(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const Character c = character_at(text);
    const auto byte = static_cast<unsigned char>(text[0]);
    if (!c.ok)
      out += "\xEF\xBF\xBD";
    else if (byte == '"')
      out += "\\\"";
    else if (byte == '\\')
      out += "\\\\";
    else if (byte == '\n')
      out += "\\n";
    else if (byte == '\t')
      out += "\\t";
    else if (byte == '\r')
      out += "\\r";
    else if (byte == '\b')
      out += "\\b";
    else if (byte == '\f')
      out += "\\f";
    else if (byte < 0x20)
      out += fmt::format("\\u{:04x}", byte);
    else
      out += text.substr(0, c.length);
    text.remove_prefix(c.length);
  }
  return out;
}

} // namespace luminal
