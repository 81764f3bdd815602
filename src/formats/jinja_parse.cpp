// formats/jinja_parse.cpp -- from the text of a template to its tree.
#include "formats/jinja_syntax.h"
#include "formats/parse.h"
#include "formats/tokenizer_model.h"
#include <algorithm>
#include <charconv>

namespace luminal::jinja {
namespace {

using namespace detail;

constexpr int max_depth = 128;

struct Token {
  enum class Kind : uint8_t {
    text,
    begin_output,
    end_output,
    begin_tag,
    end_tag,
    name,
    string,
    integer,
    real,
    op,
    end
  };
  Kind kind = Kind::end;
  int line = 0;
  std::string text = {};
};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '\f' || c == '\v'; }

[[noreturn]] void fail(std::string_view name, int line, const std::string& what) {
  throw ParseFailure{fmt::format("{}: line {}: {}", name, line, what)};
}

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

class Parser {
public:
  Parser(std::vector<Token> tokens, std::string_view name) : tokens_(std::move(tokens)), name_(name) {}

  Block run() { return block({}); }

private:
  const Token& now() const { return tokens_[at_]; }
  const Token& next() { return tokens_[at_ + 1 < tokens_.size() ? at_++ : at_]; }
  std::string shown() const {
    return now().kind == Token::Kind::end ? "the end of the template"
           : now().text.empty()           ? "the end of a tag"
                                          : in_quotes(now().text);
  }
  bool is_op(std::string_view text) const { return now().kind == Token::Kind::op && now().text == text; }
  bool is_name(std::string_view text) const { return now().kind == Token::Kind::name && now().text == text; }
  bool accept_op(std::string_view text) { return is_op(text) && (next(), true); }
  bool accept_name(std::string_view text) { return is_name(text) && (next(), true); }
  void expect_op(std::string_view text) {
    if (!accept_op(text)) fail(name_, now().line, fmt::format("{}, expected {}", shown(), in_quotes(text)));
  }
  void expect_name(std::string_view text) {
    if (!accept_name(text)) fail(name_, now().line, fmt::format("{}, expected {}", shown(), in_quotes(text)));
  }
  std::string identifier(std::string_view what) {
    if (now().kind != Token::Kind::name)
      fail(name_, now().line, fmt::format("{}, expected {}", shown(), what));
    return next().text;
  }
  void end_tag() {
    if (now().kind != Token::Kind::end_tag)
      fail(name_, now().line, fmt::format("{}, expected the end of the tag", shown()));
    next();
  }
  struct Deeper {
    Parser& parser;
    explicit Deeper(Parser& p) : parser(p) {
      if (++parser.depth_ > max_depth) fail(parser.name_, parser.now().line, "nested too deep");
    }
    ~Deeper() { parser.depth_--; }
  };

  /// Statements up to a tag whose name is among `ends`; that tag's name is read, nothing behind it.
  Block block(const std::vector<std::string_view>& ends) {
    const Deeper deeper(*this);
    Block statements;
    while (now().kind != Token::Kind::end) {
      const int line = now().line;
      if (now().kind == Token::Kind::text) {
        statements.push_back({.kind = Statement::Kind::text, .line = line, .text = next().text});
      } else if (now().kind == Token::Kind::begin_output) {
        next();
        Statement s{.kind = Statement::Kind::output, .line = line};
        s.value = expression();
        if (now().kind != Token::Kind::end_output)
          fail(name_, now().line, fmt::format("{}, expected }}}}", shown()));
        next();
        statements.push_back(std::move(s));
      } else {
        if (tokens_[at_].kind == Token::Kind::begin_tag && tokens_[at_ + 1].kind == Token::Kind::name &&
            std::find(ends.begin(), ends.end(), tokens_[at_ + 1].text) != ends.end()) {
          next();
          return statements;
        }
        next();
        statements.push_back(tag(line));
      }
    }
    if (!ends.empty())
      fail(name_, now().line, fmt::format("the template ends where {} is expected", ends.back()));
    return statements;
  }

  Statement tag(int line) {
    const std::string word = identifier("the name of a tag");
    Statement s{.kind = Statement::Kind::text, .line = line};
    if (word == "if") return condition(line);
    if (word == "for") return loop(line);
    if (word == "set") return assignment(line);
    if (word == "macro") return macro(line);
    if (word == "break" || word == "continue") {
      if (loops_ == 0) fail(name_, line, fmt::format("{} outside of a loop", word));
      s.kind = word == "break" ? Statement::Kind::break_loop : Statement::Kind::continue_loop;
      end_tag();
      return s;
    }
    if (word == "generation") { // marks what a model writes; shows its content
      s.kind = Statement::Kind::scope;
      end_tag();
      s.body = block({"endgeneration"});
      next();
      end_tag();
      return s;
    }
    if (word == "filter") {
      s.kind = Statement::Kind::filter;
      s.value = filters(nullptr, line);
      end_tag();
      s.body = block({"endfilter"});
      next();
      end_tag();
      return s;
    }
    fail(name_, line, fmt::format("tag {} is not supported", in_quotes(word)));
  }

  Statement condition(int line) {
    Statement s{.kind = Statement::Kind::condition, .line = line};
    ExpressionPtr test = expression();
    for (bool last = false;;) {
      end_tag();
      Block body = block(last ? std::vector<std::string_view>{"endif"}
                              : std::vector<std::string_view>{"elif", "else", "endif"});
      s.branches.emplace_back(std::move(test), std::move(body));
      const std::string word = next().text;
      if (word == "endif") break;
      last = word == "else";
      test = last ? nullptr : expression();
    }
    end_tag();
    return s;
  }

  Statement loop(int line) {
    Statement s{.kind = Statement::Kind::loop, .line = line};
    s.names = targets();
    expect_name("in");
    s.value = or_expression(); // not the inline if: that is the loop's filter
    if (accept_name("if")) s.filter = expression();
    if (is_name("recursive")) fail(name_, line, "recursive loops are not supported");
    end_tag();
    loops_++;
    s.body = block({"else", "endfor"});
    loops_--;
    if (next().text == "else") {
      end_tag();
      s.otherwise = block({"endfor"});
      next();
    }
    end_tag();
    return s;
  }

  std::vector<std::string> targets() {
    std::vector<std::string> names;
    const bool brackets = accept_op("(");
    do names.push_back(identifier("the name of a variable"));
    while (accept_op(","));
    if (brackets) expect_op(")");
    return names;
  }

  Statement assignment(int line) {
    Statement s{.kind = Statement::Kind::set, .line = line};
    s.names = targets();
    if (s.names.size() == 1 && accept_op(".")) s.member = identifier("the name of a member");
    if (accept_op("=")) {
      s.value = tuple();
      end_tag();
      return s;
    }
    if (s.names.size() != 1) fail(name_, line, "several variables are set to one block");
    if (is_op("|")) s.filter = filters(nullptr, line);
    end_tag();
    s.body = block({"endset"});
    next();
    end_tag();
    return s;
  }

  Statement macro(int line) {
    Statement s{.kind = Statement::Kind::macro, .line = line};
    s.text = identifier("the name of a macro");
    expect_op("(");
    while (!is_op(")")) {
      std::string name = identifier("the name of a parameter");
      s.parameters.emplace_back(std::move(name), accept_op("=") ? expression() : nullptr);
      if (!accept_op(",")) break;
    }
    expect_op(")");
    end_tag();
    const int outside = std::exchange(loops_, 0);
    s.body = block({"endmacro"});
    loops_ = outside;
    next();
    end_tag();
    return s;
  }

  // ---- expressions, from the loosest operator to the tightest ----
  ExpressionPtr make(Expression::Kind kind, int line, std::string text = "") const {
    auto e = std::make_unique<Expression>();
    e->kind = kind;
    e->line = line;
    e->text = std::move(text);
    return e;
  }
  ExpressionPtr binary(ExpressionPtr a, std::string text, int line, ExpressionPtr b) const {
    auto e = make(Expression::Kind::binary, line, std::move(text));
    e->parts.push_back(std::move(a));
    e->parts.push_back(std::move(b));
    return e;
  }

  ExpressionPtr tuple() {
    const int line = now().line;
    ExpressionPtr first = expression();
    if (!is_op(",")) return first;
    auto e = make(Expression::Kind::list, line);
    e->parts.push_back(std::move(first));
    while (accept_op(",")) e->parts.push_back(expression());
    return e;
  }
  ExpressionPtr expression() {
    const Deeper deeper(*this);
    const int line = now().line;
    ExpressionPtr value = or_expression();
    while (accept_name("if")) {
      auto e = make(Expression::Kind::choice, line);
      e->parts.push_back(or_expression());
      e->parts.push_back(std::move(value));
      e->parts.push_back(accept_name("else") ? expression() : nullptr);
      value = std::move(e);
    }
    return value;
  }
  ExpressionPtr or_expression() {
    ExpressionPtr a = and_expression();
    while (is_name("or")) {
      const int line = next().line;
      a = binary(std::move(a), "or", line, and_expression());
    }
    return a;
  }
  ExpressionPtr and_expression() {
    ExpressionPtr a = not_expression();
    while (is_name("and")) {
      const int line = next().line;
      a = binary(std::move(a), "and", line, not_expression());
    }
    return a;
  }
  ExpressionPtr not_expression() {
    if (!is_name("not")) return comparison();
    const Deeper deeper(*this);
    const int line = next().line;
    auto e = make(Expression::Kind::unary, line, "not");
    e->parts.push_back(not_expression());
    return e;
  }
  ExpressionPtr comparison() {
    ExpressionPtr first = sum();
    auto e = make(Expression::Kind::compare, now().line);
    for (;;) {
      std::string op;
      for (const char* known : {"==", "!=", "<=", ">=", "<", ">"})
        if (is_op(known)) op = known;
      if (!op.empty())
        next();
      else if (accept_name("in"))
        op = "in";
      else if (is_name("not") && tokens_[at_ + 1].kind == Token::Kind::name &&
               tokens_[at_ + 1].text == "in") {
        next();
        next();
        op = "not in";
      } else
        break;
      if (e->parts.empty()) e->parts.push_back(std::move(first));
      e->texts.push_back(op);
      e->parts.push_back(sum());
    }
    return e->parts.empty() ? std::move(first) : std::move(e);
  }
  template <class Inner> ExpressionPtr left(std::initializer_list<std::string_view> ops, Inner inner) {
    ExpressionPtr a = (this->*inner)();
    for (;;) {
      const auto found = std::find_if(ops.begin(), ops.end(), [&](std::string_view op) { return is_op(op); });
      if (found == ops.end()) return a;
      const int line = next().line;
      a = binary(std::move(a), std::string(*found), line, (this->*inner)());
    }
  }
  ExpressionPtr sum() { return left({"+", "-"}, &Parser::joined); }
  ExpressionPtr joined() { return left({"~"}, &Parser::product); }
  ExpressionPtr product() { return left({"*", "//", "/", "%"}, &Parser::unary); }
  /// Filters stand behind the sign: -3|abs is 3.
  ExpressionPtr unary() {
    const int line = now().line;
    return filters(signed_value(), line);
  }
  ExpressionPtr signed_value() {
    const Deeper deeper(*this);
    const int line = now().line;
    if (is_op("-") || is_op("+")) {
      auto e = make(Expression::Kind::unary, line, next().text);
      e->parts.push_back(signed_value());
      return e;
    }
    ExpressionPtr a = postfix(primary());
    if (accept_op("**")) a = binary(std::move(a), "**", line, unary());
    return a;
  }

  ExpressionPtr primary() {
    const int line = now().line;
    const Token& t = next();
    auto literal = make(Expression::Kind::literal, line);
    switch (t.kind) {
    case Token::Kind::string: {
      std::string text = t.text;
      while (now().kind == Token::Kind::string) text += next().text;
      literal->value = text;
      return literal;
    }
    case Token::Kind::integer: {
      int64_t number = 0;
      const auto [end, error] = std::from_chars(t.text.data(), t.text.data() + t.text.size(), number);
      if (error != std::errc()) fail(name_, line, fmt::format("{} is too large", t.text));
      literal->value = number;
      return literal;
    }
    case Token::Kind::real: literal->value = std::stod(t.text); return literal;
    case Token::Kind::name:
      if (t.text == "true" || t.text == "True") return literal->value = true, std::move(literal);
      if (t.text == "false" || t.text == "False") return literal->value = false, std::move(literal);
      if (t.text == "none" || t.text == "None") return literal->value = nullptr, std::move(literal);
      return make(Expression::Kind::name, line, t.text);
    case Token::Kind::op:
      if (t.text == "(") {
        auto e = make(Expression::Kind::list, line);
        if (accept_op(")")) return e;
        e->parts.push_back(expression());
        if (!is_op(",")) {
          expect_op(")");
          return std::move(e->parts[0]);
        }
        while (accept_op(",") && !is_op(")")) e->parts.push_back(expression());
        expect_op(")");
        return e;
      }
      if (t.text == "[") {
        auto e = make(Expression::Kind::list, line);
        while (!is_op("]")) {
          e->parts.push_back(expression());
          if (!accept_op(",")) break;
        }
        expect_op("]");
        return e;
      }
      if (t.text == "{") {
        auto e = make(Expression::Kind::dict, line);
        while (!is_op("}")) {
          e->parts.push_back(expression());
          expect_op(":");
          e->parts.push_back(expression());
          if (!accept_op(",")) break;
        }
        expect_op("}");
        return e;
      }
      break;
    default: break;
    }
    fail(name_, line,
         fmt::format("{}, expected a value", t.text.empty() ? "the end of a tag" : in_quotes(t.text)));
  }

  ExpressionPtr postfix(ExpressionPtr x) {
    for (int links = 0;; links++) {
      if (links > max_depth) fail(name_, now().line, "nested too deep");
      const int line = now().line;
      if (accept_op(".")) {
        auto e = make(Expression::Kind::member, line);
        e->text = now().kind == Token::Kind::integer ? next().text : identifier("the name of a member");
        e->parts.push_back(std::move(x));
        x = std::move(e);
      } else if (accept_op("[")) {
        x = subscript(std::move(x), line);
      } else if (is_op("(")) {
        auto e = make(Expression::Kind::call, line);
        e->call = arguments();
        e->parts.push_back(std::move(x));
        x = std::move(e);
      } else
        return x;
    }
  }
  ExpressionPtr subscript(ExpressionPtr x, int line) {
    auto e = make(Expression::Kind::item, line);
    e->parts.push_back(std::move(x));
    e->parts.push_back(is_op(":") ? nullptr : expression());
    while (accept_op(":")) {
      e->kind = Expression::Kind::slice;
      e->parts.push_back(is_op(":") || is_op("]") ? nullptr : expression());
    }
    if (e->kind == Expression::Kind::slice) {
      if (e->parts.size() > 4) fail(name_, line, "a slice has three parts at most");
      e->parts.resize(4);
    }
    expect_op("]");
    return e;
  }
  Call arguments() {
    Call call;
    expect_op("(");
    while (!is_op(")")) {
      if (now().kind == Token::Kind::name && tokens_[at_ + 1].kind == Token::Kind::op &&
          tokens_[at_ + 1].text == "=") {
        std::string name = next().text;
        next();
        call.named.emplace_back(std::move(name), expression());
      } else {
        if (is_op("*") || is_op("**")) fail(name_, now().line, "arguments from a list are not supported");
        if (!call.named.empty()) fail(name_, now().line, "an argument without a name behind one with a name");
        call.positional.push_back(expression());
      }
      if (!accept_op(",")) break;
    }
    expect_op(")");
    return call;
  }

  /// x | name | name(..) is name ..; x null: the filters of a block.
  ExpressionPtr filters(ExpressionPtr x, int first_line) {
    if (!x && now().kind == Token::Kind::name) x = filter_named(nullptr, first_line);
    for (int links = 0;; links++) {
      if (links > max_depth) fail(name_, now().line, "nested too deep");
      const int line = now().line;
      if (accept_op("|")) {
        x = filter_named(std::move(x), line);
      } else if (is_name("is")) {
        next();
        auto e = make(Expression::Kind::test, line);
        e->negated = accept_name("not");
        e->text = identifier("the name of a test");
        if (!is_test(e->text)) fail(name_, line, fmt::format("test {} is not supported", in_quotes(e->text)));
        if (is_op("(")) {
          e->call = arguments();
        } else {
          const bool word = now().kind == Token::Kind::name && !is_name("else") && !is_name("or") &&
                            !is_name("and") && !is_name("if") && !is_name("is") && !is_name("in") &&
                            !is_name("not");
          const bool value = now().kind == Token::Kind::string || now().kind == Token::Kind::integer ||
                             now().kind == Token::Kind::real || is_op("[") || is_op("{");
          if (word || value) e->call.positional.push_back(postfix(primary()));
        }
        e->parts.push_back(std::move(x));
        x = std::move(e);
      } else if (x && x->kind == Expression::Kind::filter && (is_op("(") || is_op(".") || is_op("["))) {
        x = postfix(std::move(x));
      } else
        return x;
    }
  }
  ExpressionPtr filter_named(ExpressionPtr x, int line) {
    auto e = make(Expression::Kind::filter, line);
    e->text = identifier("the name of a filter");
    if (!is_filter(e->text)) fail(name_, line, fmt::format("filter {} is not supported", in_quotes(e->text)));
    if (is_op("(")) e->call = arguments();
    e->parts.push_back(std::move(x));
    return e;
  }

  std::vector<Token> tokens_;
  std::string_view name_;
  size_t at_ = 0;
  int depth_ = 0, loops_ = 0;
};

} // namespace

Block parse_template(std::string_view source, std::string_view name) {
  return Parser(Lexer(source, name).run(), name).run();
}

} // namespace luminal::jinja
