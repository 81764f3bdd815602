// formats/jinja_filters.cpp -- filters and tests of templates.
#include "formats/jinja_text.h"
#include <algorithm>
#include <cmath>
#include <map>

namespace luminal::jinja {
namespace {

using namespace detail;

/// selectattr, rejectattr, select, reject.
List selected(std::string_view name, const Value& x, const Arguments& a, bool by_member, bool wanted) {
  List out;
  const size_t first = by_member ? 1 : 0;
  const std::string attribute = by_member ? Given(name, a, 16).text(0, "attribute") : "";
  const std::string test = a.positional.size() > first ? Given(name, a, 16).text(first, "test") : "";
  if (!test.empty() && !is_test(test)) fail(fmt::format("test {} is not supported", in_quotes(test)));
  Arguments rest;
  for (size_t i = first + 1; i < a.positional.size(); i++) rest.positional.push_back(a.positional[i]);
  for (const Value& item : items_of(name, x)) {
    const Value& tested = by_member ? member(item, attribute) : item;
    if ((test.empty() ? tested.truth() : apply_test(test, tested, rest)) == wanted) out.push_back(item);
  }
  return out;
}

List mapped(const Value& x, const Arguments& a) {
  List out;
  const Given given("map", a, 16);
  for (const auto& [key, value] : a.named)
    if (key == "attribute") {
      if (!value.string()) fail(fmt::format("map: attribute is {}, a string is expected", value.kind()));
      const Value* otherwise = given.find(16, "default");
      for (const Value& item : items_of("map", x)) {
        const Value& found = member(item, *value.string());
        out.push_back(found.is_undefined() && otherwise ? *otherwise : found);
      }
      return out;
    }
  const std::string filter = given.text(0, "filter");
  if (!is_filter(filter)) fail(fmt::format("filter {} is not supported", in_quotes(filter)));
  Arguments rest;
  rest.positional.assign(a.positional.begin() + 1, a.positional.end());
  for (const Value& item : items_of("map", x)) out.push_back(apply_filter(filter, item, rest));
  return out;
}

std::string indented(const std::string& s, const Given& given) {
  const Value* width = given.find(0, "width");
  const std::string by =
      width && width->string()
          ? *width->string()
          : std::string(size_t(std::clamp<int64_t>(given.integer(0, "width", 4), 0, 1000)), ' ');
  const bool first = given.flag(1, "first", false), empty = given.flag(2, "blank", false);
  std::string out = first ? by : "";
  for (size_t i = 0; i < s.size(); i++) {
    out += s[i];
    if (s[i] == '\n' && (empty || (i + 1 < s.size() && s[i + 1] != '\n'))) out += by;
  }
  return out;
}

std::string escaped(const std::string& s) {
  std::string out;
  for (const char c : s) switch (c) {
    case '&': out += "&amp;"; break;
    case '<': out += "&lt;"; break;
    case '>': out += "&gt;"; break;
    case '"': out += "&#34;"; break;
    case '\'': out += "&#39;"; break;
    default: out += c;
    }
  return out;
}

using Filter = Value (*)(const Value& x, const Arguments& a);
const std::map<std::string_view, Filter>& filters() {
  static const std::map<std::string_view, Filter> rows{
      {"abs",
       [](const Value& x, const Arguments&) -> Value {
         if (const auto* i = x.as<int64_t>()) return *i < 0 ? -*i : *i;
         if (const auto* d = x.as<double>()) return std::fabs(*d);
         fail(fmt::format("abs of {}", x.kind()));
       }},
      {"capitalize", [](const Value& x, const Arguments&) -> Value { return titled(x.str(), false); }},
      {"count", [](const Value& x, const Arguments&) -> Value { return length_of(x); }},
      {"d", [](const Value& x, const Arguments& a) { return apply_filter("default", x, a); }},
      {"default",
       [](const Value& x, const Arguments& a) -> Value {
         const Given given("default", a, 2);
         const Value* value = given.find(0, "default_value");
         const bool wanted = x.is_undefined() || (given.flag(1, "boolean", false) && !x.truth());
         return !wanted ? x : value ? *value : Value("");
       }},
      {"dictsort",
       [](const Value& x, const Arguments&) -> Value {
         if (!x.dict()) fail(fmt::format("dictsort of {}", x.kind()));
         std::vector<std::pair<std::string, List>> pairs;
         for (const auto& [key, value] : *x.dict())
           pairs.emplace_back(cased(key, false), List{Value(key), value});
         std::stable_sort(pairs.begin(), pairs.end(),
                          [](const auto& a, const auto& b) { return a.first < b.first; });
         List out;
         for (auto& [_, pair] : pairs) out.emplace_back(std::move(pair));
         return out;
       }},
      {"e", [](const Value& x, const Arguments&) -> Value { return escaped(x.str()); }},
      {"escape", [](const Value& x, const Arguments&) -> Value { return escaped(x.str()); }},
      {"first",
       [](const Value& x, const Arguments&) -> Value {
         const List all = items_of("first", x);
         return all.empty() ? Value() : all.front();
       }},
      {"float",
       [](const Value& x, const Arguments& a) -> Value {
         if (const auto n = number(x)) return *n;
         const Value* otherwise = Given("float", a, 1).find(0, "default");
         char* end = nullptr;
         const std::string s = x.string() ? stripped(*x.string(), blanks, true, true) : "";
         const double value = std::strtod(s.c_str(), &end);
         return !s.empty() && *end == 0 ? Value(value) : otherwise ? *otherwise : Value(0.0);
       }},
      {"indent",
       [](const Value& x, const Arguments& a) -> Value { return indented(x.str(), Given("indent", a, 3)); }},
      {"int",
       [](const Value& x, const Arguments& a) -> Value {
         if (const auto* i = x.as<int64_t>()) return *i;
         const Value* otherwise = Given("int", a, 2).find(0, "default");
         double value = 0;
         bool known = false;
         if (const auto n = number(x)) value = *n, known = true;
         if (x.string()) {
           char* end = nullptr;
           const std::string s = stripped(*x.string(), blanks, true, true);
           value = std::strtod(s.c_str(), &end);
           known = !s.empty() && *end == 0;
         }
         if (known && std::fabs(value) < 9e18) return int64_t(value);
         return otherwise ? *otherwise : Value(0);
       }},
      {"items",
       [](const Value& x, const Arguments&) -> Value {
         if (x.is_undefined()) return List();
         const Value method = method_of(x, "items");
         if (!method.function()) fail(fmt::format("items of {}", x.kind()));
         return (*method.function())({});
       }},
      {"join",
       [](const Value& x, const Arguments& a) -> Value {
         const Given given("join", a, 2);
         const Value* by = given.find(0, "d");
         return joined(x, by ? by->str() : "", given.find(1, "attribute"));
       }},
      {"last",
       [](const Value& x, const Arguments&) -> Value {
         const List all = items_of("last", x);
         return all.empty() ? Value() : all.back();
       }},
      {"length", [](const Value& x, const Arguments&) -> Value { return length_of(x); }},
      {"list", [](const Value& x, const Arguments&) -> Value { return items_of("list", x); }},
      {"lower", [](const Value& x, const Arguments&) -> Value { return cased(x.str(), false); }},
      {"map", [](const Value& x, const Arguments& a) -> Value { return mapped(x, a); }},
      {"max",
       [](const Value& x, const Arguments&) -> Value {
         const List all = items_of("max", x);
         return all.empty() ? Value() : *std::max_element(all.begin(), all.end(), less);
       }},
      {"min",
       [](const Value& x, const Arguments&) -> Value {
         const List all = items_of("min", x);
         return all.empty() ? Value() : *std::min_element(all.begin(), all.end(), less);
       }},
      {"reject",
       [](const Value& x, const Arguments& a) -> Value { return selected("reject", x, a, false, false); }},
      {"rejectattr",
       [](const Value& x, const Arguments& a) -> Value { return selected("rejectattr", x, a, true, false); }},
      {"replace",
       [](const Value& x, const Arguments& a) -> Value {
         const Given given("replace", a, 3);
         return replaced(x.str(), given.need(0, "old").str(), given.need(1, "new").str(),
                         given.integer(2, "count", -1));
       }},
      {"reverse",
       [](const Value& x, const Arguments&) -> Value {
         List all = items_of("reverse", x);
         std::reverse(all.begin(), all.end());
         if (!x.string()) return all;
         return joined(all, "", nullptr);
       }},
      {"round",
       [](const Value& x, const Arguments& a) -> Value {
         const auto n = number(x);
         if (!n) fail(fmt::format("round of {}", x.kind()));
         const double scale = std::pow(10, double(Given("round", a, 2).integer(0, "precision", 0)));
         return std::nearbyint(*n * scale) / scale;
       }},
      {"safe", [](const Value& x, const Arguments&) -> Value { return x; }},
      {"select",
       [](const Value& x, const Arguments& a) -> Value { return selected("select", x, a, false, true); }},
      {"selectattr",
       [](const Value& x, const Arguments& a) -> Value { return selected("selectattr", x, a, true, true); }},
      {"sort",
       [](const Value& x, const Arguments& a) -> Value {
         const Given given("sort", a, 3);
         List all = items_of("sort", x);
         const Value* attribute = given.find(2, "attribute");
         const bool exact = given.flag(1, "case_sensitive", false);
         const auto key = [&](const Value& v) {
           const Value& k = attribute && attribute->string() ? member(v, *attribute->string()) : v;
           return k.string() && !exact ? Value(cased(*k.string(), false)) : k;
         };
         std::stable_sort(all.begin(), all.end(),
                          [&](const Value& p, const Value& q) { return less(key(p), key(q)); });
         if (given.flag(0, "reverse", false)) std::reverse(all.begin(), all.end());
         return all;
       }},
      {"string", [](const Value& x, const Arguments&) -> Value { return x.str(); }},
      {"sum",
       [](const Value& x, const Arguments&) -> Value {
         double real = 0;
         int64_t whole = 0;
         bool is_real = false;
         for (const Value& item : items_of("sum", x)) {
           const auto n = number(item);
           if (!n) fail(fmt::format("sum of {}", item.kind()));
           real += *n;
           is_real |= item.as<double>() != nullptr;
           if (const auto* i = item.as<int64_t>(); i && __builtin_add_overflow(whole, *i, &whole))
             fail("a sum is too large");
         }
         return is_real ? Value(real) : Value(whole);
       }},
      {"title", [](const Value& x, const Arguments&) -> Value { return titled(x.str(), true); }},
      {"tojson",
       [](const Value& x, const Arguments& a) -> Value {
         for (const auto& [key, _] : a.named)
           if (key != "indent" && key != "ensure_ascii")
             fail(fmt::format("tojson with the argument {}", key));
         return x.json(int(std::clamp<int64_t>(
             Given("tojson", a, 1).integer(16, "indent", Given("tojson", a, 1).integer(0, "indent", -1)), -1,
             64)));
       }},
      {"trim",
       [](const Value& x, const Arguments& a) -> Value {
         const Value* set = Given("trim", a, 1).find(0, "chars");
         return stripped(x.str(), set && set->string() ? std::string_view(*set->string()) : blanks, true,
                         true);
       }},
      {"unique",
       [](const Value& x, const Arguments&) -> Value {
         List out;
         for (const Value& item : items_of("unique", x))
           if (std::find(out.begin(), out.end(), item) == out.end()) out.push_back(item);
         return out;
       }},
      {"upper", [](const Value& x, const Arguments&) -> Value { return cased(x.str(), true); }},
  };
  return rows;
}

using Test = bool (*)(const Value& x, const Arguments& a);
const Value& operand(const Arguments& a) {
  if (a.positional.size() != 1)
    fail(fmt::format("a test with {} arguments, expected one", a.positional.size()));
  return a.positional[0];
}
int64_t whole(const Value& x) {
  const auto* i = x.as<int64_t>();
  if (!i) fail(fmt::format("{} where an integer is expected", x.kind()));
  return *i;
}
const std::map<std::string_view, Test>& tests() {
  static const std::map<std::string_view, Test> rows{
      {"boolean", [](const Value& x, const Arguments&) { return x.as<bool>() != nullptr; }},
      {"callable", [](const Value& x, const Arguments&) { return x.function() != nullptr; }},
      {"defined", [](const Value& x, const Arguments&) { return !x.is_undefined(); }},
      {"divisibleby",
       [](const Value& x, const Arguments& a) {
         return whole(operand(a)) != 0 && whole(x) % whole(operand(a)) == 0;
       }},
      {"eq", [](const Value& x, const Arguments& a) { return x == operand(a); }},
      {"equalto", [](const Value& x, const Arguments& a) { return x == operand(a); }},
      {"even", [](const Value& x, const Arguments&) { return whole(x) % 2 == 0; }},
      {"false", [](const Value& x, const Arguments&) { return x.as<bool>() && !*x.as<bool>(); }},
      {"float", [](const Value& x, const Arguments&) { return x.as<double>() != nullptr; }},
      {"ge", [](const Value& x, const Arguments& a) { return !less(x, operand(a)); }},
      {"greaterthan", [](const Value& x, const Arguments& a) { return less(operand(a), x); }},
      {"gt", [](const Value& x, const Arguments& a) { return less(operand(a), x); }},
      {"in", [](const Value& x, const Arguments& a) { return contains(operand(a), x); }},
      {"integer", [](const Value& x, const Arguments&) { return x.as<int64_t>() != nullptr; }},
      {"iterable", [](const Value& x, const Arguments&) { return x.list() || x.dict() || x.string(); }},
      {"le", [](const Value& x, const Arguments& a) { return !less(operand(a), x); }},
      {"lessthan", [](const Value& x, const Arguments& a) { return less(x, operand(a)); }},
      {"lower", [](const Value& x,
                   const Arguments&) { return x.string() && cased(*x.string(), false) == *x.string(); }},
      {"lt", [](const Value& x, const Arguments& a) { return less(x, operand(a)); }},
      {"mapping", [](const Value& x, const Arguments&) { return x.dict() != nullptr; }},
      {"ne", [](const Value& x, const Arguments& a) { return !(x == operand(a)); }},
      {"none", [](const Value& x, const Arguments&) { return x.is_none(); }},
      {"number", [](const Value& x, const Arguments&) { return number(x).has_value(); }},
      {"odd", [](const Value& x, const Arguments&) { return whole(x) % 2 != 0; }},
      {"sequence", [](const Value& x, const Arguments&) { return x.list() || x.dict() || x.string(); }},
      {"string", [](const Value& x, const Arguments&) { return x.string() != nullptr; }},
      {"true", [](const Value& x, const Arguments&) { return x.as<bool>() && *x.as<bool>(); }},
      {"undefined", [](const Value& x, const Arguments&) { return x.is_undefined(); }},
      {"upper", [](const Value& x,
                   const Arguments&) { return x.string() && cased(*x.string(), true) == *x.string(); }},
  };
  return rows;
}

} // namespace

bool is_filter(std::string_view name) { return filters().contains(name); }
bool is_test(std::string_view name) { return tests().contains(name); }
Value apply_filter(std::string_view name, const Value& x, const Arguments& a) {
  return filters().at(name)(x, a);
}
bool apply_test(std::string_view name, const Value& x, const Arguments& a) { return tests().at(name)(x, a); }

} // namespace luminal::jinja
