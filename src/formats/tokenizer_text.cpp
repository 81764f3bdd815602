// formats/tokenizer_text.cpp -- characters, the byte-level alphabet, normalization.
#include "base/check.h"
#include "formats/parse.h"
#include "formats/tokenizer_model.h"
#include <algorithm>
#include <cstdlib>
#include <utf8proc.h>

namespace luminal::detail {

void append_utf8(std::string& out, char32_t c) {
  if (c < 0x80)
    out += static_cast<char>(c);
  else if (c < 0x800) {
    out += static_cast<char>(0xC0 | c >> 6);
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    out += static_cast<char>(0xE0 | c >> 12);
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | c >> 18);
    out += static_cast<char>(0x80 | (c >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (c >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (c & 0x3F));
  }
}

char32_t next_character(std::string_view text, size_t& position) {
  const auto first = static_cast<unsigned char>(text[position]);
  if (first < 0x80) {
    ++position;
    return first;
  }
  const int length = utf8_character(text.substr(position, 4));
  if (length <= 0) { // a vocabulary's own text may be malformed: one byte then
    ++position;
    return 0xFFFD;
  }
  char32_t c = first & (0xFF >> (length + 1));
  for (int i = 1; i < length; ++i)
    c = c << 6 | (static_cast<unsigned char>(text[position + static_cast<size_t>(i)]) & 0x3F);
  position += static_cast<size_t>(length);
  return c;
}

namespace {

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

} // namespace

bool is_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  if (c == 0x85) return true;
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP;
}

bool is_number(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL || kind == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return (c >= '!' && c <= '/') || (c >= ':' && c <= '@') || (c >= '[' && c <= '`') ||
           (c >= '{' && c <= '~');
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

bool is_word(char32_t c) {
  if (c < 0x80) return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
  const auto kind = category(c);
  return (kind >= UTF8PROC_CATEGORY_LU && kind <= UTF8PROC_CATEGORY_ND) || kind == UTF8PROC_CATEGORY_NL ||
         kind == UTF8PROC_CATEGORY_PC;
}

bool is_control(char32_t c) {
  if (c < 0x80) return c < ' ' || c == 0x7F;
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO;
}

bool is_accent(char32_t c) { return c >= 0x300 && category(c) == UTF8PROC_CATEGORY_MN; }

const std::array<char32_t, 256>& byte_level_alphabet() {
  static const std::array<char32_t, 256> alphabet = [] {
    std::array<char32_t, 256> out{};
    char32_t next = 256;
    for (size_t byte = 0; byte < 256; ++byte) {
      const bool printable = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      out[byte] = printable ? static_cast<char32_t>(byte) : next++;
    }
    return out;
  }();
  return alphabet;
}

int byte_level_value(char32_t character) {
  static const std::array<int, 512> values = [] {
    std::array<int, 512> out{};
    out.fill(-1);
    for (size_t byte = 0; byte < 256; ++byte) out[byte_level_alphabet()[byte]] = static_cast<int>(byte);
    return out;
  }();
  return character < values.size() ? values[character] : -1;
}

bool base64_decode(std::string_view text, std::string& out) {
  while (text.ends_with('=')) text.remove_suffix(1);
  uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const int value = c >= 'A' && c <= 'Z'   ? c - 'A'
                      : c >= 'a' && c <= 'z' ? c - 'a' + 26
                      : c >= '0' && c <= '9' ? c - '0' + 52
                      : c == '+'             ? 62
                      : c == '/'             ? 63
                                             : -1;
    if (value < 0) return false;
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8) {
      count -= 8;
      out += static_cast<char>(bits >> count & 255);
    }
  }
  return count < 6;
}

std::string byte_level_spelling(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size() * 2);
  for (const char c : bytes) append_utf8(out, byte_level_alphabet()[static_cast<unsigned char>(c)]);
  return out;
}

namespace {

std::string unicode_normal_form_of(std::string_view text, utf8proc_option_t form) {
  utf8proc_uint8_t* mapped = nullptr;
  const auto options = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | form);
  const auto length = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                   static_cast<utf8proc_ssize_t>(text.size()), &mapped, options);
  if (length == UTF8PROC_ERROR_NOMEM) throw std::bad_alloc();
  LUMINAL_CHECK(length >= 0, "{}", utf8proc_errmsg(length));
  std::string out(reinterpret_cast<const char*>(mapped), static_cast<size_t>(length));
  std::free(mapped);
  return out;
}

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

/// ASCII stays as it is, but the character before another one, which may join with it.
std::string unicode_normal_form(std::string_view text, utf8proc_option_t form) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    size_t end = position;
    while (end < text.size() && is_ascii(text[end])) ++end;
    if (end < text.size() && end > position) --end;
    out.append(text, position, end - position);
    position = end;
    if (end < text.size()) ++end; // the character before
    while (end < text.size() && !is_ascii(text[end])) ++end;
    if (end > position) out += unicode_normal_form_of(text.substr(position, end - position), form);
    position = end;
  }
  return out;
}

std::string lowercase(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    if (const char c = text[position]; is_ascii(c)) {
      out += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      ++position;
      continue;
    }
    const char32_t c = next_character(text, position);
    if (c == 0x130)
      append_utf8(out, 'i'), append_utf8(out, 0x307); // the one character whose lower case is two
    else
      append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
  return out;
}

std::string replace_all(std::string_view text, std::string_view from, std::string_view to) {
  if (from.empty()) return std::string(text);
  std::string out;
  size_t position = 0;
  for (size_t at = text.find(from); at != std::string_view::npos; at = text.find(from, position)) {
    out += text.substr(position, at - position);
    out += to;
    position = at + from.size();
  }
  return out.append(text.substr(position));
}

std::string replace_matches(std::string_view text, const Regex& regex, std::string_view to) {
  std::vector<std::pair<size_t, size_t>> matches;
  regex.find_all(text, matches);
  std::string out;
  size_t position = 0;
  for (const auto& [begin, end] : matches) {
    out += text.substr(position, begin - position);
    out += to;
    position = end;
  }
  return out.append(text.substr(position));
}

/// Calls `change(character, text, out)` for each character, whose UTF-8 is `text`.
template <class Change> std::string changed(std::string_view text, Change change) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    const size_t begin = position;
    const char32_t c = next_character(text, position);
    change(c, text.substr(begin, position - begin), out);
  }
  return out;
}

/// https://github.com/google-research/bert, tokenization.py
bool is_ideograph(char32_t c) {
  constexpr std::pair<char32_t, char32_t> ranges[] = {
      {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xF900, 0xFAFF},   {0x20000, 0x2A6DF},
      {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF}, {0x2F800, 0x2FA1F}};
  return c >= 0x3400 && std::any_of(std::begin(ranges), std::end(ranges),
                                    [&](const auto& range) { return c >= range.first && c <= range.second; });
}

std::string by_table(std::string_view text, const CharacterTable& table) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    std::string_view becomes;
    if (const size_t length = table.longest(text.substr(position), becomes); length > 0) {
      out += becomes;
      position += length;
      continue;
    }
    const size_t begin = position;
    next_character(text, position);
    out += text.substr(begin, position - begin);
  }
  return out;
}

/// A group of characters that is one sign to a reader goes through the table as a whole if it has
/// fewer than six bytes, character by character otherwise; of the entries that begin it the
/// shortest counts.
std::string by_table_of_groups(std::string_view text, const CharacterTable& table) {
  std::string out;
  out.reserve(text.size());
  for (size_t position = 0; position < text.size();) {
    size_t end = position;
    char32_t c = next_character(text, end);
    for (utf8proc_int32_t state = 0; end < text.size();) {
      size_t behind = end;
      const char32_t next = next_character(text, behind);
      if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(c),
                                           static_cast<utf8proc_int32_t>(next), &state))
        break;
      c = next;
      end = behind;
    }
    const std::string_view group = text.substr(position, end - position);
    position = end;
    if (group.size() < 6) {
      if (const auto becomes = table.shortest(group)) {
        out += *becomes;
        continue;
      }
    }
    for (size_t at = 0; at < group.size();) {
      const size_t begin = at;
      next_character(group, at);
      const std::string_view character = group.substr(begin, at - begin);
      out += table.shortest(character).value_or(character);
    }
  }
  return out;
}

std::string_view stripped(std::string_view text, bool left, bool right) {
  if (left) {
    size_t position = 0;
    while (position < text.size()) {
      size_t next = position;
      if (!is_space(next_character(text, next))) break;
      position = next;
    }
    text.remove_prefix(position);
  }
  if (right) {
    size_t end = 0;
    for (size_t position = 0; position < text.size();)
      if (!is_space(next_character(text, position))) end = position;
    text = text.substr(0, end);
  }
  return text;
}

} // namespace

std::string normalize(const std::vector<NormalizeStep>& steps, std::string_view text) {
  using Kind = NormalizeStep::Kind;
  std::string out(text);
  for (const NormalizeStep& step : steps) {
    switch (step.kind) {
    case Kind::prepend:
      if (!out.empty()) out.insert(0, step.to);
      break;
    case Kind::replace_text: out = replace_all(out, step.from, step.to); break;
    case Kind::replace_regex: out = replace_matches(out, *step.regex, step.to); break;
    case Kind::nfc: out = unicode_normal_form(out, UTF8PROC_COMPOSE); break;
    case Kind::nfd: out = unicode_normal_form(out, UTF8PROC_DECOMPOSE); break;
    case Kind::nfkc:
      out = unicode_normal_form(out, static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_COMPAT));
      break;
    case Kind::nfkd:
      out = unicode_normal_form(out, static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT));
      break;
    case Kind::lowercase: out = lowercase(out); break;
    case Kind::strip: out = std::string(stripped(out, step.left, step.right)); break;
    case Kind::strip_accents:
      out = changed(out, [](char32_t c, std::string_view bytes, std::string& to) {
        if (!is_accent(c)) to += bytes;
      });
      break;
    case Kind::clean:
      out = changed(out, [](char32_t c, std::string_view bytes, std::string& to) {
        if (is_space(c) && c != '\v' && c != '\f')
          to += ' ';
        else if (c != 0xFFFD && !is_control(c))
          to += bytes;
      });
      break;
    case Kind::space_ideographs:
      out = changed(out, [](char32_t c, std::string_view bytes, std::string& to) {
        if (is_ideograph(c))
          to.append(1, ' ').append(bytes).append(1, ' ');
        else
          to += bytes;
      });
      break;
    case Kind::byte_level: out = byte_level_spelling(out); break;
    case Kind::characters: out = by_table(out, *step.table); break;
    case Kind::characters_by_group: out = by_table_of_groups(out, *step.table); break;
    }
  }
  return out;
}

} // namespace luminal::detail
