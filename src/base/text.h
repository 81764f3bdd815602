// base/text.h -- small helpers for text: lists, numbers for people, UTF-8, JSON strings.
#pragma once
#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

/// "a, b, c"; elements are anything with begin and end whose elements convert to string_view.
template <std::ranges::input_range R> std::string join(const R& parts, std::string_view separator = ", ") {
  std::string out;
  bool first = true;
  for (const auto& part : parts) {
    if (!first) out += separator;
    first = false;
    out += part;
  }
  return out;
}
/// Pieces between separators, empty ones included: split("a,,b", ',') is {"a", "", "b"}; of "" one
/// empty piece.
std::vector<std::string_view> split(std::string_view text, char separator);
/// Without white space at both ends.
std::string_view trim(std::string_view text);
/// The word of `words` that is nearest to `word` by edit distance, for "did you mean"; empty where
/// none is near.
std::string_view nearest_word(std::string_view word, const std::vector<std::string_view>& words);

/// "512 B", "1.50 KiB", "3.21 GiB".
std::string human_bytes(uint64_t bytes);
/// "850 ns", "12.3 us", "4.56 ms", "1.23 s", "2 min 5 s", "1 h 2 min".
std::string human_time(double seconds);
/// "1.23 K", "4.56 G": powers of 1000.
std::string human_count(double count);

/// Bytes of the character that starts with this byte: 1 to 4; 1 for a byte that starts none.
size_t utf8_length(unsigned char first_byte);
bool is_utf8(std::string_view text); ///< well formed: no surrogates, no overlong forms, at most U+10FFFF
/// The length of the longest prefix that does not end within a character: what a stream may show
/// now. Malformed bytes are complete by themselves; at most 3 bytes are held back.
size_t utf8_complete_prefix(std::string_view text);
size_t utf8_count(std::string_view text); ///< characters (code points)
/// Malformed parts replaced by U+FFFD, one for each maximal broken sequence.
std::string utf8_sanitized(std::string_view text);
/// For messages: control characters and malformed bytes as \n, \xHH; cut after `limit` characters
/// with "...".
std::string printable(std::string_view text, size_t limit = 60);

/// The inside of a JSON string: `"`, `\` and control characters escaped, malformed UTF-8 replaced
/// by U+FFFD.
std::string json_escape(std::string_view text);

} // namespace luminal
