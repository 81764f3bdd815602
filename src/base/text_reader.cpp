// base/text_reader.cpp -- tokens, positions and error texts.
#include "base/text_reader.h"
#include "base/text.h"
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fmt/format.h>
#include <limits>

namespace luminal {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name_head(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_name_char(char c) { return is_name_head(c) || is_digit(c); }
bool is_hex_digit(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
int hex_value(char c) { return is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10; }

// Longest first.
constexpr std::array<std::string_view, 15> long_punctuation = {
    "...", "->", "=>", "==", "!=", "<=", ">=", "//", "..", "::", ":=", "&&", "||", "<<", ">>"};

// The end of a name that starts at `begin`: letters, digits, _ and inner dots.
size_t name_end(std::string_view text, size_t begin) {
  size_t end = begin;
  while (end < text.size()) {
    if (is_name_char(text[end]))
      ++end;
    else if (text[end] == '.' && end > begin && end + 1 < text.size() && is_name_char(text[end + 1]))
      end += 2;
    else
      break;
  }
  return end;
}

} // namespace

TextReader::TextReader(std::string_view text, std::string file, Options options)
    : text_(text), file_(std::move(file)), options_(options) {
  if (text.size() > std::numeric_limits<uint32_t>::max() / 2)
    throw Error(fmt::format("{}: a text of {} bytes is larger than 2 GiB", file_, text.size()));
  current_ = lex(0);
}

Token TextReader::peek_second() const { return at_end() ? current_ : lex(current_.offset + current_.length); }

bool TextReader::at(std::string_view text) const {
  return (current_.kind == TokenKind::punctuation || current_.kind == TokenKind::identifier) &&
         current_.text == text;
}

Token TextReader::next() {
  const Token token = current_;
  if (!at_end()) current_ = lex(token.offset + token.length);
  return token;
}

bool TextReader::accept(std::string_view text) {
  if (!at(text)) return false;
  next();
  return true;
}

void TextReader::expect(std::string_view text) {
  if (!accept(text)) fail_expected(fmt::format("'{}'", text));
}

std::string_view TextReader::expect_identifier(std::string_view what) {
  if (!at(TokenKind::identifier)) fail_expected(what);
  return next().text;
}
std::string_view TextReader::expect_value_name(std::string_view what) {
  if (!at(TokenKind::value_name)) fail_expected(what);
  return next().text;
}
std::string_view TextReader::expect_global_name(std::string_view what) {
  if (!at(TokenKind::global_name)) fail_expected(what);
  return next().text;
}

uint64_t TextReader::expect_unsigned(std::string_view what) {
  if (!at(TokenKind::integer)) fail_expected(what);
  const bool hex = current_.text.starts_with("0x") || current_.text.starts_with("0X");
  const std::string_view digits = hex ? current_.text.substr(2) : current_.text;
  uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 10);
  if (error != std::errc{} || end != digits.data() + digits.size())
    fail(fmt::format("the integer {} does not fit 64 bits", current_.text));
  next();
  return value;
}

int64_t TextReader::expect_integer(std::string_view what) {
  const Token first = current_;
  const bool negative = at("-") && peek_second().kind == TokenKind::integer;
  if (negative) next();
  if (!at(TokenKind::integer)) fail_expected(what);
  const Token digits = current_;
  const uint64_t magnitude = expect_unsigned(what);
  const uint64_t limit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) + (negative ? 1 : 0);
  if (magnitude > limit)
    fail_at(first,
            fmt::format("the integer {}{} does not fit 64 bits with sign", negative ? "-" : "", digits.text));
  return static_cast<int64_t>(negative ? 0 - magnitude : magnitude);
}

double TextReader::expect_float(std::string_view what) {
  const Token first = current_;
  const bool negative = at("-");
  if (negative) next();
  double value = 0;
  if (at("inf"))
    value = std::numeric_limits<double>::infinity();
  else if (at("nan"))
    value = std::numeric_limits<double>::quiet_NaN();
  else if (at(TokenKind::integer) || at(TokenKind::floating)) {
    std::string_view digits = current_.text;
    const bool hex = digits.starts_with("0x") || digits.starts_with("0X");
    if (hex) digits.remove_prefix(2);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value,
                                              hex ? std::chars_format::hex : std::chars_format::general);
    if (error == std::errc::result_out_of_range) {
      // Too large or too small for double; strtod tells which, and rounds subnormals.
      value = std::strtod(std::string(current_.text).c_str(), nullptr);
      if (std::isinf(value)) fail(fmt::format("the number {} is too large for a double", current_.text));
    } else if (error != std::errc{} || end != digits.data() + digits.size()) {
      fail(fmt::format("malformed number {}", current_.text));
    }
  } else {
    if (negative) rewind(first.offset);
    fail_expected(what);
  }
  next();
  return negative ? -value : value;
}

std::string TextReader::expect_string(std::string_view what) {
  if (!at(TokenKind::string)) fail_expected(what);
  std::string out;
  const std::string_view body = current_.text.substr(1, current_.text.size() - 2);
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      out += body[i];
      continue;
    }
    switch (body[++i]) {
    case 'n': out += '\n'; break;
    case 't': out += '\t'; break;
    case 'r': out += '\r'; break;
    case '0': out += '\0'; break;
    case '\\': out += '\\'; break;
    case '"': out += '"'; break;
    case 'x':
      if (i + 2 < body.size() && is_hex_digit(body[i + 1]) && is_hex_digit(body[i + 2])) {
        out += static_cast<char>(hex_value(body[i + 1]) * 16 + hex_value(body[i + 2]));
        i += 2;
        break;
      }
      [[fallthrough]];
    default:
      fail_at(current_.offset + static_cast<uint32_t>(i), 2,
              R"(unknown escape in a string (known: \n \t \r \0 \\ \" \xHH))");
    }
  }
  next();
  return out;
}

void TextReader::expect_end() {
  if (!at_end()) fail_expected("the end of the text");
}

void TextReader::rewind(uint32_t offset) { current_ = lex(offset); }

Token TextReader::lex_number(size_t begin) const {
  const std::string_view text = text_;
  size_t i = begin;
  bool floating = false;
  const bool hex =
      text[i] == '0' && i + 2 < text.size() && (text[i + 1] | 0x20) == 'x' && is_hex_digit(text[i + 2]);
  const auto digits = [&] {
    while (i < text.size() && (hex ? is_hex_digit(text[i]) : is_digit(text[i]))) ++i;
  };
  if (hex) i += 2;
  digits();
  if (i + 1 < text.size() && text[i] == '.' && (hex ? is_hex_digit(text[i + 1]) : is_digit(text[i + 1]))) {
    floating = true;
    ++i;
    digits();
  } else if (i < text.size() && text[i] == '.' &&
             (i + 1 == text.size() || (text[i + 1] != '.' && !is_name_head(text[i + 1])))) {
    floating = true; // `1.`
    ++i;
  }
  const char exponent = hex ? 'p' : 'e';
  if (i < text.size() && (text[i] | 0x20) == exponent) {
    size_t k = i + 1;
    if (k < text.size() && (text[k] == '+' || text[k] == '-')) ++k;
    if (k < text.size() && is_digit(text[k])) {
      floating = true;
      i = k;
      while (i < text.size() && is_digit(text[i])) ++i;
    }
  }
  if (i < text.size() && is_name_char(text[i]))
    fail_at(static_cast<uint32_t>(begin), static_cast<uint32_t>(name_end(text, i) - begin),
            "malformed number");
  return {floating ? TokenKind::floating : TokenKind::integer, text.substr(begin, i - begin),
          static_cast<uint32_t>(begin), static_cast<uint32_t>(i - begin)};
}

Token TextReader::lex(size_t i) const {
  while (i < text_.size()) {
    if (text_[i] == ' ' || text_[i] == '\n' || text_[i] == '\t' || text_[i] == '\r')
      ++i;
    else if (text_[i] == '#')
      i = std::min(text_.find('\n', i), text_.size());
    else
      break;
  }
  const auto token = [&](TokenKind kind, size_t begin, size_t end) {
    return Token{kind, text_.substr(begin, end - begin), static_cast<uint32_t>(i),
                 static_cast<uint32_t>(end - i)};
  };
  if (i >= text_.size()) return token(TokenKind::end, text_.size(), text_.size());
  const char c = text_[i];
  if (is_name_head(c)) return token(TokenKind::identifier, i, name_end(text_, i));
  if (is_digit(c)) return lex_number(i);
  const bool named = i + 1 < text_.size() && is_name_char(text_[i + 1]);
  if (named && c == '@') return token(TokenKind::global_name, i + 1, name_end(text_, i + 1));
  if (named && c == '%' && options_.value_names)
    return token(TokenKind::value_name, i + 1, name_end(text_, i + 1));
  if (c == '"') {
    for (size_t k = i + 1; k < text_.size() && text_[k] != '\n'; ++k) {
      if (text_[k] == '\\')
        ++k;
      else if (text_[k] == '"')
        return token(TokenKind::string, i, k + 1);
    }
    fail_at(static_cast<uint32_t>(i), 1, "a string that does not end on its line");
  }
  for (const std::string_view text : long_punctuation)
    if (text_.substr(i, text.size()) == text) return token(TokenKind::punctuation, i, i + text.size());
  if (c > ' ' && c < 127) return token(TokenKind::punctuation, i, i + 1);
  const auto byte = static_cast<unsigned char>(c);
  const std::string_view character = text_.substr(i, utf8_length(byte));
  if (byte >= 0x80 && is_utf8(character))
    fail_at(static_cast<uint32_t>(i), static_cast<uint32_t>(character.size()),
            fmt::format("unexpected character '{}'", character));
  fail_at(static_cast<uint32_t>(i), 1, fmt::format("unexpected byte 0x{:02x}", byte));
}

TextReader::Position TextReader::position(uint32_t offset) const {
  Position position{options_.first_line, 1};
  for (size_t i = 0; i < offset && i < text_.size(); ++i) {
    if (text_[i] == '\n') {
      ++position.line;
      position.column = 1;
    } else if ((static_cast<unsigned char>(text_[i]) & 0xC0) != 0x80) { // not a continuation byte of UTF-8
      ++position.column;
    }
  }
  return position;
}

std::string TextReader::describe(const Token& token) const {
  const std::string text = printable(token.text, 40);
  switch (token.kind) {
  case TokenKind::end: return "the end of the text";
  case TokenKind::identifier: return fmt::format("'{}'", text);
  case TokenKind::value_name: return fmt::format("'%{}'", text);
  case TokenKind::global_name: return fmt::format("'@{}'", text);
  case TokenKind::integer:
  case TokenKind::floating: return fmt::format("the number {}", text);
  case TokenKind::string: return fmt::format("the string {}", text);
  case TokenKind::punctuation: return fmt::format("'{}'", text);
  }
  return text;
}

void TextReader::fail_expected(std::string_view expected) const {
  fail(fmt::format("expected {}, found {}", expected, describe(current_)));
}
void TextReader::fail(std::string_view message) const { fail_at(current_, message); }
void TextReader::fail_at(const Token& token, std::string_view message) const {
  fail_at(token.offset, token.length, message);
}

void TextReader::fail_at(uint32_t offset, uint32_t length, std::string_view message) const {
  const Position place = position(offset);
  const size_t at = std::min<size_t>(offset, text_.size());
  const size_t line_begin = at == 0 ? 0 : text_.rfind('\n', at - 1) + 1; // npos + 1 is 0
  const size_t line_end = std::min(text_.find('\n', at), text_.size());
  // Of a very long line, what stands around the place.
  constexpr size_t before = 80, after = 60;
  const size_t begin = at - line_begin > before ? at - before : line_begin;
  const size_t end = std::min(line_end, at + after);
  const std::string_view prefix = text_.substr(begin, at - begin);
  const std::string lead = printable(prefix, std::string_view::npos);
  const std::string rest = printable(text_.substr(at, end - at), std::string_view::npos);
  const size_t marked = std::min<size_t>(length, end - at);
  const size_t marks =
      std::max<size_t>(1, utf8_count(printable(text_.substr(at, marked), std::string_view::npos)));
  throw Error(fmt::format("{}:{}:{}: {}\n  {}{}\n  {}^{}", file_, place.line, place.column, message, lead,
                          rest, std::string(utf8_count(lead), ' '), std::string(marks - 1, '~')));
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
    case '\n': out += "\\n"; break;
    case '\t': out += "\\t"; break;
    case '\r': out += "\\r"; break;
    case '\\': out += "\\\\"; break;
    case '"': out += "\\\""; break;
    default:
      if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
      else
        out += c;
    }
  }
  return out + '"';
}

namespace {
template <class T> std::string shortest(T value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[64];
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, value);
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0"; // a float never reads as an integer
  return text;
}
} // namespace

std::string float_text(double value) { return shortest(value); }
std::string float_text(float value) { return shortest(value); }

} // namespace luminal
