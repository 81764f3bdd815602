// base/text_reader.h -- the cursor all parsers of our own text forms share: tokens, positions,
// errors that show the line.
#pragma once
#include "luminal/error.h"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace luminal {

enum class TokenKind : uint8_t {
  end,
  identifier,  ///< [A-Za-z_][A-Za-z0-9_.]*; a trailing dot is not part of it
  value_name,  ///< %name, %7
  global_name, ///< @name
  integer,     ///< 12, 0xff
  floating,    ///< 1.5, 1e-3, 0x1.8p3 (inf and nan are identifiers; expect_float reads them)
  string,      ///< "text" with \n \t \r \0 \\ \" \xHH
  punctuation, ///< -> => == != <= >= // ... .. :: := && || << >> ** or any other single printable ASCII
               ///< character
};

struct Token {
  TokenKind kind = TokenKind::end;
  std::string_view text; ///< of names without the sigil, of strings with quotes and escapes
  uint32_t offset = 0;   ///< of its first byte, the sigil included
  uint32_t length = 0;   ///< in bytes, the sigil included
};

/// Reads a text token by token; `#` starts a comment that lasts to the end of the line. Every
/// mistake is thrown as Error:
///
///   model.lir:12:7: expected ')', found identifier 'x'
///     foo(a x)
///           ^
///
/// The text must outlive the reader and all string_views it hands out.
class TextReader {
public:
  struct Options {
    bool value_names = true; ///< false: `%` is always punctuation (`a %b` is a remainder)
    uint32_t first_line = 1;
  };
  explicit TextReader(std::string_view text, std::string file = "<text>")
      : TextReader(text, std::move(file), Options{}) {}
  TextReader(std::string_view text, std::string file, Options options);

  // ---- looking
  const Token& peek() const { return current_; }
  Token peek_second() const; ///< the token after peek()
  bool at_end() const { return current_.kind == TokenKind::end; }
  bool at(TokenKind kind) const { return current_.kind == kind; }
  /// Is the next token this punctuation or this (key)word? Never true of a string or a %name.
  bool at(std::string_view text) const;

  // ---- taking
  Token next();
  bool accept(std::string_view text); ///< takes the punctuation or word if it is next
  void expect(std::string_view text);
  std::string_view expect_identifier(std::string_view what = "a name");
  std::string_view expect_value_name(std::string_view what = "a %name");
  std::string_view expect_global_name(std::string_view what = "an @name");
  int64_t
  expect_integer(std::string_view what = "an integer"); ///< with sign; decimal or hexadecimal; range checked
  uint64_t expect_unsigned(std::string_view what = "an unsigned integer");
  double
  expect_float(std::string_view what = "a number"); ///< with sign; integers, decimal and hex floats, inf, nan
  std::string expect_string(std::string_view what = "a string"); ///< unescaped
  void expect_end();

  // ---- places
  uint32_t offset() const { return current_.offset; } ///< of the next token
  void rewind(uint32_t offset);                       ///< to an offset that offset() gave
  struct Position {
    uint32_t line = 1, column = 1; ///< counted from 1; columns in characters, not bytes
  };
  Position position(uint32_t offset) const;
  const std::string& file() const { return file_; }
  std::string_view text() const { return text_; }

  // ---- errors
  [[noreturn]] void
  fail_expected(std::string_view expected) const;         ///< "expected X, found Y" at the next token
  [[noreturn]] void fail(std::string_view message) const; ///< at the next token
  [[noreturn]] void fail_at(const Token& token, std::string_view message) const;
  [[noreturn]] void fail_at(uint32_t offset, uint32_t length, std::string_view message) const;

  /// Guards recursive descent against hostile nesting: `TextReader::Nested nested(reader);` at the
  /// head of each recursion.
  class Nested {
  public:
    explicit Nested(TextReader& reader) : reader_(reader) {
      if (reader_.depth_ >= max_depth) reader_.fail("nested too deeply");
      ++reader_.depth_;
    }
    ~Nested() { --reader_.depth_; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;

  private:
    TextReader& reader_;
  };
  static constexpr int max_depth = 500;

private:
  Token lex(size_t offset) const;
  Token lex_number(size_t begin) const;
  std::string describe(const Token& token) const;

  std::string_view text_;
  std::string file_;
  Options options_;
  Token current_;
  int depth_ = 0;
};

/// `text` in quotes, escaped so that TextReader::expect_string gives it back.
std::string quoted(std::string_view text);
/// Shortest decimal text that reads back to the same double (of float_value: to the same float);
/// inf, -inf, nan.
std::string float_text(double value);
std::string float_text(float value);

} // namespace luminal
