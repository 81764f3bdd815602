// formats/jinja_text.h -- what filters and methods of templates share: text as Python cuts and changes it,
// arguments by place or name.
#pragma once
#include "formats/jinja_syntax.h"
#include "formats/parse.h"
#include "luminal/error.h"
#include <optional>

namespace luminal::jinja {

inline constexpr std::string_view blanks = " \t\n\r\f\v";
[[noreturn]] void fail(const std::string& what); ///< throws Error

std::optional<double> number(const Value& v);
std::string stripped(std::string_view s, std::string_view set, bool left, bool right);
/// ASCII letters only: role names, JSON keys. Others stay.
std::string cased(std::string s, bool upper);
std::string titled(const std::string& s, bool every_word);
std::string replaced(std::string_view s, std::string_view from, std::string_view to, int64_t count);
/// Without a separator at blanks; `most` cuts, -1: all.
List split_text(std::string_view s, const std::optional<std::string>& by, int64_t most);
/// What a for loop over the value gives.
List items_of(std::string_view what, const Value& x);
int64_t length_of(const Value& x);
const Value& member(const Value& x, const std::string& path); ///< an undefined one where there is none
std::string joined(const Value& x, const std::string& by, const Value* attribute);

/// Arguments of a filter or method, by place or name.
class Given {
public:
  Given(std::string_view what, const Arguments& a, size_t most) : what_(what), a_(a) {
    if (a.positional.size() > most)
      fail(fmt::format("{} takes {} arguments at most, {} are given", what, most, a.positional.size()));
  }
  const Value* find(size_t place, std::string_view name) const {
    if (place < a_.positional.size()) return &a_.positional[place];
    for (const auto& [key, value] : a_.named)
      if (key == name) return &value;
    return nullptr;
  }
  const Value& need(size_t place, std::string_view name) const {
    const Value* value = find(place, name);
    if (!value) fail(fmt::format("{} needs the argument {}", what_, name));
    return *value;
  }
  std::string text(size_t place, std::string_view name) const {
    const Value& value = need(place, name);
    if (!value.string()) fail(fmt::format("{}: {} is {}, a string is expected", what_, name, value.kind()));
    return *value.string();
  }
  int64_t integer(size_t place, std::string_view name, int64_t otherwise) const {
    const Value* value = find(place, name);
    if (!value || value->is_none()) return otherwise;
    if (const auto* i = value->as<int64_t>()) return *i;
    if (const auto* b = value->as<bool>()) return *b;
    fail(fmt::format("{}: {} is {}, an integer is expected", what_, name, value->kind()));
  }
  bool flag(size_t place, std::string_view name, bool otherwise) const {
    const Value* value = find(place, name);
    return value ? value->truth() : otherwise;
  }

private:
  std::string_view what_;
  const Arguments& a_;
};

} // namespace luminal::jinja
