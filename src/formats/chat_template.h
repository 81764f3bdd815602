// formats/chat_template.h -- chat templates of models: the part of Jinja that they use
// (https://jinja.palletsprojects.com), with the settings of Hugging Face transformers: trim_blocks,
// lstrip_blocks, loop controls. What is not known is refused by name when the template is read.
#pragma once
#include "base/result.h"
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace luminal {

namespace jinja {

class Value;
using List = std::vector<Value>;
using Dict = std::vector<std::pair<std::string, Value>>; ///< in the order of insertion
/// Positional and named arguments of a call.
struct Arguments {
  List positional;
  Dict named;
};
using Function = std::function<Value(const Arguments&)>;

/// A value of Python: copies of lists and dictionaries are the same object.
class Value {
public:
  struct Undefined {
    std::string name = {}; ///< for messages
    bool operator==(const Undefined&) const { return true; }
  };
  Value() : v_(Undefined{}) {}
  Value(Undefined u) : v_(std::move(u)) {}
  Value(std::nullptr_t) : v_(nullptr) {}
  Value(bool b) : v_(b) {}
  Value(int i) : v_(int64_t(i)) {}
  Value(int64_t i) : v_(i) {}
  Value(double d) : v_(d) {}
  Value(const char* s) : v_(std::string(s)) {}
  Value(std::string s) : v_(std::move(s)) {}
  Value(std::string_view s) : v_(std::string(s)) {}
  Value(List list) : v_(std::make_shared<List>(std::move(list))) {}
  Value(Dict dict) : v_(std::make_shared<Dict>(std::move(dict))) {}
  Value(Function f) : v_(std::make_shared<Function>(std::move(f))) {}

  template <class T> const T* as() const { return std::get_if<T>(&v_); }
  bool is_undefined() const { return as<Undefined>() != nullptr; }
  bool is_none() const { return as<std::nullptr_t>() != nullptr; }
  const std::string* string() const { return as<std::string>(); }
  List* list() const;
  Dict* dict() const;
  Function* function() const;
  /// Of a dictionary; nullptr where there is none of this name.
  const Value* find(std::string_view key) const;
  bool truth() const;
  /// str(value) of Python; nothing for what is undefined.
  std::string str() const;
  std::string repr() const;
  std::string json(int indent = -1, int depth = 0) const; ///< as json.dumps(ensure_ascii=False)
  const char* kind() const;                               ///< "a string", for messages
  bool operator==(const Value& other) const;              ///< Python's ==

private:
  std::variant<Undefined, std::nullptr_t, bool, int64_t, double, std::string, std::shared_ptr<List>,
               std::shared_ptr<Dict>, std::shared_ptr<Function>>
      v_;
};

} // namespace jinja

/// Values from JSON text. Fails with the place of what is malformed.
Result<jinja::Value> template_value(std::string_view json, std::string_view name);

/// Immutable; safe to use from several threads.
class ChatTemplate {
public:
  /// Fails with the line of what is malformed or not supported. `name` is for messages.
  static Result<ChatTemplate> parse(std::string_view source, std::string_view name);
  /// The text for these variables (messages, add_generation_prompt, bos_token, ...). Throws Error with the
  /// template's line for what it cannot do with them, and with its own words where it calls
  /// raise_exception; for texts above 16 MiB and more than a million steps.
  std::string render(const jinja::Dict& variables) const;

private:
  struct Program;
  std::shared_ptr<const Program> program_;
};

} // namespace luminal
