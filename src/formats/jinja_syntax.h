// formats/jinja_syntax.h -- a chat template as a tree.
#pragma once
#include "formats/chat_template.h"
#include <memory>

namespace luminal::jinja {

struct Expression;
using ExpressionPtr = std::unique_ptr<Expression>;

struct Call {
  std::vector<ExpressionPtr> positional;
  std::vector<std::pair<std::string, ExpressionPtr>> named;
};

struct Expression {
  enum class Kind : uint8_t {
    literal, // value
    name,    // text
    list,    // parts
    dict,    // parts: key, value, key, value, ..
    unary,   // text (not, -, +), parts[0]
    binary,  // text (operators; and, or), parts[0], parts[1]
    compare, // parts[0], then texts[i], parts[i + 1]
    choice,  // parts: condition, then, else (may be null)
    member,  // parts[0] . text
    item,    // parts[0] [ parts[1] ]
    slice,   // parts[0] [ parts[1] : parts[2] : parts[3] ], each may be null
    call,    // parts[0] ( call )
    filter,  // parts[0] | text ( call )
    test,    // parts[0] is text ( call ); negated
  };
  Kind kind = Kind::literal;
  int line = 0;
  std::string text = {};
  Value value = {};
  std::vector<ExpressionPtr> parts = {};
  std::vector<std::string> texts = {};
  Call call = {};
  bool negated = false;
};

struct Statement;
using Block = std::vector<Statement>;

struct Statement {
  enum class Kind : uint8_t {
    text,      // text
    output,    // value
    condition, // branches: condition (null: else) and body
    loop,      // names, value, filter, body, otherwise
    set,       // names (or target.member), value, or body
    macro,     // text (its name), parameters, body
    filter,    // value is the filter applied to the text of body (its parts[0] is null)
    break_loop,
    continue_loop,
    scope, // body: {% generation %}
  };
  Kind kind = Kind::text;
  int line = 0;
  std::string text = {};
  ExpressionPtr value = {}, filter = {};
  std::vector<std::string> names = {};
  std::string member = {};                                            // of set: names[0].member
  std::vector<std::pair<std::string, ExpressionPtr>> parameters = {}; // of a macro, with defaults
  std::vector<std::pair<ExpressionPtr, Block>> branches = {};
  Block body = {}, otherwise = {};
};

/// Throws detail::ParseFailure with the line for what is malformed or not supported.
Block parse_template(std::string_view source, std::string_view name);

// ---- what the evaluator knows by name ----
bool is_filter(std::string_view name);
bool is_test(std::string_view name);
/// Throws Error.
Value apply_filter(std::string_view name, const Value& x, const Arguments& arguments);
bool apply_test(std::string_view name, const Value& x, const Arguments& arguments);
/// x.name(arguments) of a string, list or dictionary; an undefined value where there is no such method.
Value method_of(const Value& x, std::string_view name);
/// How two values are ordered; throws Error where they are not.
bool less(const Value& a, const Value& b);
bool contains(const Value& whole, const Value& part);

} // namespace luminal::jinja
