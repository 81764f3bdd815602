// formats/jinja_parse.cpp -- from the text of a template to its tree.
#include "formats/jinja_syntax.h"
#include "formats/jinja_tokens.h"
#include "formats/parse.h"
#include "formats/tokenizer_model.h"
#include <algorithm>
#include <charconv>

namespace luminal::jinja {
namespace {

using namespace detail;

constexpr int max_depth = 128;

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
  return Parser(tokens_of(source, name), name).run();
}

} // namespace luminal::jinja
