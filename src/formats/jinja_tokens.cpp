// formats/jinja_tokens.cpp -- from the text of a template to its words.
#include "formats/jinja_tokens.h"
#include "formats/jinja_syntax.h"
#include "formats/tokenizer_model.h"
#include <algorithm>
#include <charconv>

namespace luminal::jinja {
namespace {

using namespace detail;

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v'; }

class Lexer {
public:
  Lexer(std::string_view source, std::string_view name) : source_(source), name_(name) {
    if (source_.ends_with('\n')) source_.remove_suffix(1); // as Jinja without keep_trailing_newline
  }

  std::vector<Token> run() {
    while (at_ < source_.size()) {
      const size_t open = next_open();
      take_text(open);
      if (open == std::string_view::npos) break;
      const char kind = source_[open + 1];
      skip(open - at_ + 2);
      if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) skip(1);
      if (kind == '#')
        comment();
      else if (kind == '%' && raw())
        continue;
      else
        inside(kind);
    }
    tokens_.push_back({Token::Kind::end, line_, ""});
    return std::move(tokens_);
  }

private:
  size_t next_open() const {
    for (size_t i = at_; i + 1 < source_.size(); i++)
      if (source_[i] == '{' && (source_[i + 1] == '{' || source_[i + 1] == '%' || source_[i + 1] == '#'))
        return i;
    return std::string_view::npos;
  }
  void skip(size_t count) {
    for (size_t i = 0; i < count && at_ < source_.size(); i++) line_ += source_[at_++] == '\n';
  }
  /// The text before what opens at `open`, without what its marks strip.
  void take_text(size_t open) {
    std::string_view text = source_.substr(at_, open == std::string_view::npos ? open : open - at_);
    const int line = line_;
    skip(text.size());
    if (strip_) {
      size_t i = 0;
      while (i < text.size() && is_blank(text[i])) i++;
      text.remove_prefix(i);
    }
    if (open != std::string_view::npos) {
      const char mark = open + 2 < source_.size() ? source_[open + 2] : ' ';
      if (mark == '-') {
        while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
      } else if (mark != '+' && source_[open + 1] != '{') {
        const size_t begin = text.rfind('\n') + 1; // 0 where there is none
        const std::string_view indent = text.substr(begin);
        if ((begin > 0 || line_starts_) && std::all_of(indent.begin(), indent.end(), is_blank))
          text.remove_suffix(indent.size());
      }
    }
    if (!text.empty()) tokens_.push_back({Token::Kind::text, line, std::string(text)});
    strip_ = line_starts_ = false;
  }
  /// Behind a tag or comment; `marked`: it ends with a minus sign.
  void closed(bool marked, bool kept) {
    strip_ = marked;
    if (!marked && !kept && at_ < source_.size() && source_[at_] == '\n') {
      skip(1);
      line_starts_ = true;
    }
  }
  void comment() {
    const size_t end = source_.find("#}", at_);
    if (end == std::string_view::npos) fail(name_, line_, "a comment has no end");
    const char mark = end > at_ ? source_[end - 1] : ' ';
    skip(end + 2 - at_);
    closed(mark == '-', mark == '+');
  }
  /// {% raw %} .. {% endraw %}: text as it stands.
  bool raw() {
    const auto word = [&](size_t from, std::string_view wanted) -> size_t {
      while (from < source_.size() && is_blank(source_[from])) from++;
      if (source_.substr(from, wanted.size()) != wanted) return 0;
      from += wanted.size();
      while (from < source_.size() && is_blank(source_[from])) from++;
      if (from < source_.size() && source_[from] == '-') from++;
      return source_.substr(from, 2) == "%}" ? from + 2 : 0;
    };
    const size_t begin = word(at_, "raw");
    if (begin == 0) return false;
    const bool strip_begin = source_[begin - 3] == '-';
    for (size_t i = begin; (i = source_.find("{%", i)) != std::string_view::npos; i += 2) {
      const size_t mark = i + 2 < source_.size() && source_[i + 2] == '-' ? 1 : 0;
      const size_t end = word(i + 2 + mark, "endraw");
      if (end == 0) continue;
      std::string_view text = source_.substr(begin, i - begin);
      while (strip_begin && !text.empty() && is_blank(text.front())) text.remove_prefix(1);
      while (mark && !text.empty() && is_blank(text.back())) text.remove_suffix(1);
      if (!text.empty()) tokens_.push_back({Token::Kind::text, line_, std::string(text)});
      const bool strip_end = source_[end - 3] == '-';
      skip(end - at_);
      closed(strip_end, false);
      return true;
    }
    fail(name_, line_, "{% raw %} has no {% endraw %}");
  }

  void inside(char kind) {
    const bool output = kind == '{';
    tokens_.push_back({output ? Token::Kind::begin_output : Token::Kind::begin_tag, line_, ""});
    const std::string_view end = output ? "}}" : "%}";
    int depth = 0;
    for (;;) {
      while (at_ < source_.size() && is_blank(source_[at_])) skip(1);
      if (at_ >= source_.size()) fail(name_, line_, fmt::format("a tag has no end, expected {}", end));
      const char c = source_[at_];
      if (depth == 0) {
        const bool marked = (c == '-' || c == '+') && source_.substr(at_ + 1, 2) == end;
        if (marked || source_.substr(at_, 2) == end) {
          tokens_.push_back({output ? Token::Kind::end_output : Token::Kind::end_tag, line_, ""});
          skip(marked ? 3 : 2);
          if (output)
            strip_ = marked && c == '-';
          else
            closed(marked && c == '-', marked && c == '+');
          return;
        }
      }
      if (is_letter(c))
        word();
      else if (is_digit(c))
        number();
      else if (c == '\'' || c == '"')
        quoted(c);
      else
        op(depth);
    }
  }
  void word() {
    size_t end = at_;
    while (end < source_.size() && (is_letter(source_[end]) || is_digit(source_[end]))) end++;
    add(Token::Kind::name, end);
  }
  void number() {
    size_t end = at_;
    bool real = false;
    while (end < source_.size() && (is_digit(source_[end]) || source_[end] == '_')) end++;
    if (end + 1 < source_.size() && source_[end] == '.' && is_digit(source_[end + 1])) {
      real = true;
      for (end++; end < source_.size() && is_digit(source_[end]);) end++;
    }
    if (end < source_.size() && (source_[end] == 'e' || source_[end] == 'E')) {
      size_t digits = end + 1;
      if (digits < source_.size() && (source_[digits] == '+' || source_[digits] == '-')) digits++;
      if (digits < source_.size() && is_digit(source_[digits])) {
        real = true;
        for (end = digits; end < source_.size() && is_digit(source_[end]);) end++;
      }
    }
    add(real ? Token::Kind::real : Token::Kind::integer, end);
    std::erase(tokens_.back().text, '_');
  }
  void add(Token::Kind kind, size_t end) {
    tokens_.push_back({kind, line_, std::string(source_.substr(at_, end - at_))});
    skip(end - at_);
  }
  void quoted(char quote) {
    const int line = line_;
    std::string text;
    size_t i = at_ + 1;
    for (;; i++) {
      if (i >= source_.size()) fail(name_, line, "a string has no end");
      const char c = source_[i];
      if (c == quote) break;
      if (c != '\\') {
        text += c;
        continue;
      }
      if (++i >= source_.size()) fail(name_, line, "a string has no end");
      const char e = source_[i];
      if (e == 'x' || e == 'u') {
        const size_t digits = e == 'x' ? 2 : 4;
        const std::string_view hex = source_.substr(i + 1, digits);
        uint32_t code = 0;
        const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
        if (error != std::errc() || hex.size() != digits || end != hex.data() + digits ||
            (code >= 0xD800 && code < 0xE000))
          fail(name_, line, fmt::format("escape \\{}{} in a string is not a character", e, hex));
        append_utf8(text, char32_t(code));
        i += digits;
        continue;
      }
      constexpr std::string_view letters = "ntrfv0\\'\"ab", meanings("\n\t\r\f\v\0\\'\"\a\b", 11);
      const size_t which = letters.find(e);
      if (which != std::string_view::npos)
        text += meanings[which];
      else if (e != '\n')
        text += {'\\', e}; // as Python
    }
    tokens_.push_back({Token::Kind::string, line, text});
    skip(i + 1 - at_);
  }
  void op(int& depth) {
    static constexpr std::string_view two[] = {"==", "!=", "<=", ">=", "//", "**"};
    const std::string_view pair = source_.substr(at_, 2);
    const bool is_two = std::find(std::begin(two), std::end(two), pair) != std::end(two);
    const char c = source_[at_];
    if (!is_two && std::string_view("+-*/%~<>=.,:|()[]{}").find(c) == std::string_view::npos)
      fail(name_, line_, fmt::format("{} is not expected in a tag", in_quotes(source_.substr(at_, 1))));
    if (c == '(' || c == '[' || c == '{') depth++;
    if (c == ')' || c == ']' || c == '}') depth = std::max(0, depth - 1);
    add(Token::Kind::op, at_ + (is_two ? 2 : 1));
  }

  std::string_view source_, name_;
  size_t at_ = 0;
  int line_ = 1;
  bool strip_ = false, line_starts_ = true;
  std::vector<Token> tokens_;
};

} // namespace

std::vector<Token> tokens_of(std::string_view source, std::string_view name) {
  return Lexer(source, name).run();
}

} // namespace luminal::jinja
