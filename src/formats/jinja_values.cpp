// formats/jinja_values.cpp -- values of templates as Python has them: text forms, equality, order; text that
// is cut and joined.
#include "formats/jinja_text.h"
#include "formats/json.h"
#include "formats/tokenizer_model.h"
#include <algorithm>
#include <cmath>

namespace luminal::jinja {

using namespace detail;

namespace {

constexpr int max_value_depth = 128;

std::string real_text(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

std::string quoted_as_python(const std::string& s) {
  const char quote = s.find('\'') != std::string::npos && s.find('"') == std::string::npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : s)
    if (c == quote || c == '\\')
      out += {'\\', c};
    else if (c == '\n')
      out += "\\n";
    else if (c == '\r')
      out += "\\r";
    else if (c == '\t')
      out += "\\t";
    else if (static_cast<unsigned char>(c) < 32 || c == 127)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  return out + quote;
}

std::string quoted_as_json(const std::string& s) {
  std::string out = "\"";
  for (const char c : s) switch (c) {
    case '"': out += "\\\""; break;
    case '\\': out += "\\\\"; break;
    case '\n': out += "\\n"; break;
    case '\r': out += "\\r"; break;
    case '\t': out += "\\t"; break;
    case '\b': out += "\\b"; break;
    case '\f': out += "\\f"; break;
    default:
      if (static_cast<unsigned char>(c) < 32)
        out += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
      else
        out += c;
    }
  return out + "\"";
}

template <class F> std::string repr_of(const Value& v, int depth, F&& text) {
  if (depth > max_value_depth) return "...";
  std::string out;
  if (const List* list = v.list()) {
    for (const Value& item : *list) out += (out.empty() ? "" : ", ") + text(item);
    return "[" + out + "]";
  }
  for (const auto& [key, item] : *v.dict())
    out += (out.empty() ? "" : ", ") + text(Value(key)) + ": " + text(item);
  return "{" + out + "}";
}

std::string repr_at(const Value& v, int depth) {
  if (v.string()) return quoted_as_python(*v.string());
  if (v.list() || v.dict())
    return repr_of(v, depth, [&](const Value& item) { return repr_at(item, depth + 1); });
  return v.str();
}

} // namespace

void fail(const std::string& what) { throw Error(what); }

std::optional<double> number(const Value& v) {
  if (const auto* i = v.as<int64_t>()) return double(*i);
  if (const auto* d = v.as<double>()) return *d;
  if (const auto* b = v.as<bool>()) return *b ? 1.0 : 0.0;
  return {};
}

std::string stripped(std::string_view s, std::string_view set, bool left, bool right) {
  if (left) s.remove_prefix(std::min(s.find_first_not_of(set), s.size()));
  if (right) s.remove_suffix(s.size() - std::min(s.find_last_not_of(set) + 1, s.size()));
  return std::string(s);
}

std::string cased(std::string s, bool upper) {
  for (char& c : s)
    if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z') c = char(c ^ 32);
  return s;
}
std::string titled(const std::string& s, bool every_word) {
  std::string out = cased(s, false);
  bool start = true;
  for (char& c : out) {
    const bool letter = (c >= 'a' && c <= 'z') || static_cast<unsigned char>(c) >= 128;
    if (start && c >= 'a' && c <= 'z') c = char(c ^ 32);
    start = every_word ? !letter : false;
  }
  return out;
}

std::string replaced(std::string_view s, std::string_view from, std::string_view to, int64_t count) {
  std::string out;
  size_t at = 0;
  if (from.empty()) { // Python: between all characters
    for (; at < s.size() && count != 0; count--) {
      size_t end = at;
      next_character(s, end);
      out += to;
      out += s.substr(at, end - at);
      at = end;
    }
    if (at == s.size() && count != 0) out += to;
    return out.append(s.substr(at));
  }
  for (size_t found; count != 0 && (found = s.find(from, at)) != std::string_view::npos; count--) {
    out += s.substr(at, found - at);
    out += to;
    at = found + from.size();
  }
  return out.append(s.substr(at));
}

List split_text(std::string_view s, const std::optional<std::string>& by, int64_t most) {
  List parts;
  if (!by) {
    size_t at = s.find_first_not_of(blanks);
    while (at != std::string_view::npos) {
      const size_t end = most == 0 ? s.size() : std::min(s.find_first_of(blanks, at), s.size());
      parts.emplace_back(most == 0 ? stripped(s.substr(at), blanks, false, true)
                                   : std::string(s.substr(at, end - at)));
      most--;
      at = s.find_first_not_of(blanks, end);
    }
    return parts;
  }
  if (by->empty()) fail("an empty separator splits nothing");
  size_t at = 0;
  for (size_t found; most != 0 && (found = s.find(*by, at)) != std::string_view::npos; most--) {
    parts.emplace_back(std::string(s.substr(at, found - at)));
    at = found + by->size();
  }
  parts.emplace_back(std::string(s.substr(at)));
  return parts;
}

List items_of(std::string_view what, const Value& x) {
  if (const List* list = x.list()) return *list;
  List items;
  if (const Dict* dict = x.dict()) {
    for (const auto& [key, _] : *dict) items.emplace_back(key);
    return items;
  }
  if (const std::string* s = x.string()) {
    for (size_t at = 0; at < s->size();) {
      const size_t begin = at;
      next_character(*s, at);
      items.emplace_back(s->substr(begin, at - begin));
    }
    return items;
  }
  fail(fmt::format("{}: {} is not a list", what, x.kind()));
}

int64_t length_of(const Value& x) {
  if (const List* list = x.list()) return int64_t(list->size());
  if (const Dict* dict = x.dict()) return int64_t(dict->size());
  if (x.string()) return int64_t(items_of("length", x).size());
  fail(fmt::format("{} has no length", x.kind()));
}

const Value& member(const Value& x, const std::string& path) {
  static const Value nothing;
  const Value* value = x.find(path);
  return value ? *value : nothing;
}

std::string joined(const Value& x, const std::string& by, const Value* attribute) {
  std::string out;
  bool first = true;
  for (const Value& item : items_of("join", x)) {
    if (!first) out += by;
    first = false;
    out += (attribute && attribute->string() ? member(item, *attribute->string()) : item).str();
  }
  return out;
}

List* Value::list() const {
  const auto* p = as<std::shared_ptr<List>>();
  return p ? p->get() : nullptr;
}
Dict* Value::dict() const {
  const auto* p = as<std::shared_ptr<Dict>>();
  return p ? p->get() : nullptr;
}
Function* Value::function() const {
  const auto* p = as<std::shared_ptr<Function>>();
  return p ? p->get() : nullptr;
}
const Value* Value::find(std::string_view key) const {
  if (const Dict* d = dict())
    for (const auto& [name, value] : *d)
      if (name == key) return &value;
  return nullptr;
}
bool Value::truth() const {
  if (const auto* b = as<bool>()) return *b;
  if (const auto* i = as<int64_t>()) return *i != 0;
  if (const auto* d = as<double>()) return *d != 0;
  if (string()) return !string()->empty();
  if (list()) return !list()->empty();
  if (dict()) return !dict()->empty();
  return function() != nullptr;
}
std::string Value::str() const {
  if (is_undefined()) return "";
  if (is_none()) return "None";
  if (const auto* b = as<bool>()) return *b ? "True" : "False";
  if (const auto* i = as<int64_t>()) return std::to_string(*i);
  if (const auto* d = as<double>()) return real_text(*d);
  if (string()) return *string();
  if (function()) return "<function>";
  return repr_at(*this, 0);
}
std::string Value::repr() const { return repr_at(*this, 0); }
std::string Value::json(int indent, int depth) const {
  if (depth > max_value_depth) fail("tojson: nested too deep");
  if (is_none()) return "null";
  if (const auto* b = as<bool>()) return *b ? "true" : "false";
  if (const auto* i = as<int64_t>()) return std::to_string(*i);
  if (const auto* d = as<double>()) return real_text(*d);
  if (string()) return quoted_as_json(*string());
  if (!list() && !dict()) fail(fmt::format("tojson of {}", kind()));
  const std::string line = indent < 0 ? "" : "\n" + std::string(size_t(indent * (depth + 1)), ' ');
  const std::string between = indent < 0 ? ", " : ",";
  std::string out;
  const auto add = [&](const std::string& text) { out += (out.empty() ? "" : between) + line + text; };
  if (list())
    for (const Value& item : *list()) add(item.json(indent, depth + 1));
  else
    for (const auto& [key, item] : *dict()) add(quoted_as_json(key) + ": " + item.json(indent, depth + 1));
  if (indent >= 0 && !out.empty()) out += "\n" + std::string(size_t(indent * depth), ' ');
  return list() ? "[" + out + "]" : "{" + out + "}";
}
const char* Value::kind() const {
  if (is_undefined()) return "an undefined value";
  if (is_none()) return "none";
  if (as<bool>()) return "a boolean";
  if (as<int64_t>()) return "an integer";
  if (as<double>()) return "a number";
  if (string()) return "a string";
  if (list()) return "a list";
  return dict() ? "a mapping" : "a function";
}
bool Value::operator==(const Value& other) const {
  const auto a = number(*this), b = number(other);
  if (a && b) {
    if (as<int64_t>() && other.as<int64_t>()) return *as<int64_t>() == *other.as<int64_t>();
    return *a == *b;
  }
  if (string() && other.string()) return *string() == *other.string();
  if (list() && other.list()) return *list() == *other.list();
  if (dict() && other.dict()) {
    if (dict()->size() != other.dict()->size()) return false;
    return std::all_of(dict()->begin(), dict()->end(), [&](const auto& e) {
      const Value* found = other.find(e.first);
      return found && *found == e.second;
    });
  }
  return (is_none() && other.is_none()) || (is_undefined() && other.is_undefined());
}

bool less(const Value& a, const Value& b) {
  const auto x = number(a), y = number(b);
  if (a.as<int64_t>() && b.as<int64_t>()) return *a.as<int64_t>() < *b.as<int64_t>();
  if (x && y) return *x < *y;
  if (a.string() && b.string()) return *a.string() < *b.string();
  if (a.list() && b.list())
    return std::lexicographical_compare(a.list()->begin(), a.list()->end(), b.list()->begin(),
                                        b.list()->end(), less);
  fail(fmt::format("{} and {} are not ordered", a.kind(), b.kind()));
}

bool contains(const Value& whole, const Value& part) {
  if (whole.string()) {
    if (!part.string()) fail(fmt::format("{} in a string: a string is expected", part.kind()));
    return whole.string()->find(*part.string()) != std::string::npos;
  }
  if (whole.list()) return std::find(whole.list()->begin(), whole.list()->end(), part) != whole.list()->end();
  if (whole.dict()) return part.string() && whole.find(*part.string());
  if (whole.is_undefined()) return false;
  fail(fmt::format("{} holds nothing", whole.kind()));
}

} // namespace luminal::jinja

namespace luminal {
namespace {
jinja::Value from_json(const detail::Json& json, std::string_view file) {
  if (json.is_null()) return nullptr;
  if (json.is_object()) {
    jinja::Dict dict;
    for (const auto& [key, value] : json.as_object(file, "a value"))
      dict.emplace_back(key, from_json(value, file));
    return dict;
  }
  if (json.is_array()) {
    jinja::List list;
    for (const auto& item : json.as_array(file, "a value")) list.push_back(from_json(item, file));
    return list;
  }
  if (json.is_string()) return json.as_string(file, "a value");
  if (json.is_bool()) return json.as_bool(file, "a value");
  if (json.is_integer()) return json.as_int(file, "a value");
  return json.as_real(file, "a value");
}
} // namespace

Result<jinja::Value> template_value(std::string_view json, std::string_view name) {
  return detail::guarded(name, [&] { return from_json(detail::parse_json(json, name), name); });
}

} // namespace luminal
