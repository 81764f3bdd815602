// formats/json_schema.cpp -- JSON schemas (draft 2020-12) as grammars of the texts that fit them.
#include "formats/grammar.h"
#include "formats/parse.h"
#include <algorithm>
#include <cctype>
#include <cmath>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

namespace luminal {
namespace {

using namespace detail;
using OrderedJson = nlohmann::ordered_json;

constexpr int deepest_schema = 64;

/// Rules that are there for the asking. White space is bounded, so that a model does not go on with it.
const std::map<std::string, std::string>& common_rules() {
  static const std::map<std::string, std::string> rules{
      {"space", R"x(| " " | "\n" [ \t]{0,20})x"},
      {"boolean", R"x(("true" | "false") space)x"},
      {"null", R"x("null" space)x"},
      {"integral", R"x([0] | [1-9] [0-9]{0,15})x"},
      {"number", R"x("-"? integral ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,4})? space)x"},
      {"integer", R"x("-"? integral space)x"},
      {"char", R"x([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt/] | "u" [0-9a-fA-F]{4}))x"},
      {"string", R"x("\"" char* "\"" space)x"},
      {"array", R"x("[" space ( value ("," space value)* )? "]" space)x"},
      {"object", R"x("{" space ( string ":" space value ("," space string ":" space value)* )? "}" space)x"},
      {"value", "object | array | string | number | boolean | null"},
      {"date", R"x([0-9]{4} "-" ( "0" [1-9] | "1" [0-2] ) "-" ( "0" [1-9] | [1-2] [0-9] | "3" [0-1] ))x"},
      {"time", R"x(([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9] ":" [0-5] [0-9] ( "." [0-9]{3} )? ( "Z" | [-+] )x"
               R"x(( [01] [0-9] | "2" [0-3] ) ":" [0-5] [0-9] ))x"},
      {"uuid",
       R"x([0-9a-fA-F]{8} "-" [0-9a-fA-F]{4} "-" [0-9a-fA-F]{4} "-" [0-9a-fA-F]{4} "-" [0-9a-fA-F]{12})x"}};
  return rules;
}
/// What each common rule reads.
void common_names(const std::string& rule, std::set<std::string>& names) {
  if (!names.insert(rule).second) return;
  const std::string& text = common_rules().at(rule);
  for (const auto& [other, unused] : common_rules())
    for (size_t at = 0; (at = text.find(other, at)) != std::string::npos; at += other.size()) {
      const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
      if ((at == 0 || !is_word(text[at - 1])) &&
          (at + other.size() == text.size() || !is_word(text[at + other.size()])) &&
          (at == 0 || text[at - 1] != '"'))
        common_names(other, names);
    }
}

/// Text as a literal of GBNF.
std::string literal(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (static_cast<unsigned char>(c) < 0x20)
      out += fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + "\"";
}

/// Decimal numbers of as many digits, from `low` to `high`.
std::string digits_between(const std::string& low, const std::string& high) {
  if (low.empty()) return "";
  if (low[0] == high[0])
    return literal(low.substr(0, 1)) + " " + digits_between(low.substr(1), high.substr(1));
  const size_t rest = low.size() - 1;
  const std::string zeros(rest, '0'), nines(rest, '9');
  const auto any = rest == 0 ? std::string() : fmt::format(" [0-9]{{{}}}", rest);
  std::vector<std::string> parts;
  char from = low[0], to = high[0];
  if (low.substr(1) != zeros)
    parts.push_back(literal(low.substr(0, 1)) + " " + digits_between(low.substr(1), nines)), from++;
  std::string last;
  if (high.substr(1) != nines)
    last = literal(high.substr(0, 1)) + " " + digits_between(zeros, high.substr(1)), to--;
  if (from <= to) parts.push_back(fmt::format("[{}-{}]{}", from, to, any));
  if (!last.empty()) parts.push_back(last);
  return fmt::format("( {} )", fmt::join(parts, " | "));
}
/// Numbers from `low` >= 0 on, up to `high` where there is one.
std::string natural_between(uint64_t low, std::optional<uint64_t> high) {
  std::vector<std::string> parts;
  const size_t most = high ? std::to_string(*high).size() : std::to_string(low).size();
  for (size_t size = std::to_string(low).size(); size <= most; size++) {
    const std::string first =
        size == std::to_string(low).size() ? std::to_string(low) : "1" + std::string(size - 1, '0');
    const std::string last = high && size == most ? std::to_string(*high) : std::string(size, '9');
    parts.push_back(digits_between(first, last));
  }
  if (!high && most < 16) parts.push_back(fmt::format("[1-9] [0-9]{{{},15}}", most));
  return fmt::format("( {} )", fmt::join(parts, " | "));
}
std::string integer_between(std::optional<int64_t> low, std::optional<int64_t> high) {
  std::vector<std::string> parts;
  const auto size_of = [](int64_t negative) { return uint64_t(-(negative + 1)) + 1; };
  if (!low || *low < 0) { // below zero: from -high, or 1, to -low
    const uint64_t first = high && *high < 0 ? size_of(*high) : 1;
    const std::optional<uint64_t> last = low ? std::optional(size_of(*low)) : std::nullopt;
    parts.push_back("\"-\" " + natural_between(first, last));
  }
  if (!high || *high >= 0)
    parts.push_back(natural_between(uint64_t(std::max<int64_t>(0, low.value_or(0))),
                                    high ? std::optional(uint64_t(*high)) : std::nullopt));
  return fmt::format("( {} ) space", fmt::join(parts, " | "));
}

class Converter {
public:
  Converter(const OrderedJson& schema, std::string_view file) : schema_(schema), file_(file) {}
  std::string convert() {
    const std::string body = rule_of(schema_, "root", 0);
    std::string text = fmt::format("root ::= {}\n", body);
    for (const auto& [name, rule] : rules_) text += fmt::format("{} ::= {}\n", name, rule);
    std::set<std::string> names;
    for (const std::string& name : used_) common_names(name, names);
    for (const std::string& name : names) text += fmt::format("{} ::= {}\n", name, common_rules().at(name));
    return text;
  }

private:
  [[noreturn]] void refuse_schema(const std::string& what) const { refuse(file_, what); }
  std::string common(const std::string& name) {
    used_.insert(name);
    return name;
  }
  std::string space() { return common("space"); }
  std::string new_name(const std::string& wanted) {
    std::string name;
    for (const char c : wanted) name += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '-';
    if (name.size() > 60) name.resize(60);
    std::string unique = "x-" + name; // apart from the common ones
    for (int i = 2; rules_.contains(unique); i++) unique = fmt::format("x-{}-{}", name, i);
    rules_.emplace(unique, "");
    return unique;
  }
  /// A rule of its own for a schema, by its name.
  std::string named(const OrderedJson& schema, const std::string& wanted, int depth) {
    const std::string name = new_name(wanted);
    rules_[name] = rule_of(schema, wanted, depth);
    return name;
  }

  /// Words of a schema that say nothing of which texts fit, and those that are looked at.
  void refuse_unknown(const OrderedJson& schema, std::initializer_list<std::string_view> more) const {
    static const std::set<std::string_view> notes{
        "title",   "description", "default",    "examples", "$schema",         "$id",
        "$anchor", "$comment",    "deprecated", "readOnly", "writeOnly",       "$defs",
        "type",    "definitions", "strict",     "name",     "contentEncoding", "contentMediaType"};
    for (const auto& [key, value] : schema.items())
      if (!notes.contains(key) && std::ranges::find(more, key) == more.end())
        refuse_schema(fmt::format("{} is not supported in a schema here", in_quotes(key)));
  }

  std::string rule_of(const OrderedJson& schema, const std::string& name, int depth) {
    if (depth > deepest_schema) refuse_schema("the schema is nested too deep");
    if (schema.is_boolean() && schema.get<bool>()) return common("value");
    if (!schema.is_object()) refuse_schema(fmt::format("a schema is an object, not {}", schema.dump()));
    if (const auto at = schema.find("$ref"); at != schema.end()) {
      refuse_unknown(schema, {"$ref"});
      return reference(*at, depth);
    }
    if (const auto at = schema.find("const"); at != schema.end()) {
      refuse_unknown(schema, {"const"});
      return literal(at->dump()) + " " + space();
    }
    if (const auto at = schema.find("enum"); at != schema.end()) {
      refuse_unknown(schema, {"enum"});
      if (!at->is_array() || at->empty()) refuse_schema("\"enum\" is a list of values");
      std::vector<std::string> values;
      for (const OrderedJson& value : *at) values.push_back(literal(value.dump()));
      return fmt::format("( {} ) {}", fmt::join(values, " | "), space());
    }
    for (const char* either : {"anyOf", "oneOf"})
      if (const auto at = schema.find(either); at != schema.end()) {
        refuse_unknown(schema, {either});
        if (!at->is_array() || at->empty()) refuse_schema(fmt::format("\"{}\" is a list of schemas", either));
        std::vector<std::string> parts;
        for (const OrderedJson& part : *at)
          parts.push_back(named(part, fmt::format("{}-{}", name, parts.size()), depth + 1));
        return fmt::format("( {} )", fmt::join(parts, " | "));
      }
    if (const auto at = schema.find("allOf"); at != schema.end()) {
      refuse_unknown(schema, {"allOf"});
      if (!at->is_array() || at->size() != 1) refuse_schema("\"allOf\" of several schemas is not supported");
      return rule_of((*at)[0], name, depth + 1);
    }
    const auto type = schema.find("type");
    if (type != schema.end() && type->is_array()) {
      if (type->empty()) refuse_schema("\"type\" is a name or a list of names");
      std::vector<std::string> parts;
      for (const OrderedJson& each : *type) {
        OrderedJson single = schema;
        single["type"] = each;
        // Words of another type say nothing of this one.
        const bool array = each == "array", object = each == "object", string = each == "string",
                   integer = each == "integer";
        for (const char* key : {"items", "prefixItems", "minItems", "maxItems"})
          if (!array) single.erase(key);
        for (const char* key : {"properties", "required", "additionalProperties"})
          if (!object) single.erase(key);
        for (const char* key : {"minLength", "maxLength", "format"})
          if (!string) single.erase(key);
        for (const char* key : {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"})
          if (!integer && each != "number") single.erase(key);
        parts.push_back(named(single, fmt::format("{}-{}", name, parts.size()), depth + 1));
      }
      return fmt::format("( {} )", fmt::join(parts, " | "));
    }
    if (type != schema.end() && !type->is_string()) refuse_schema("\"type\" is a name or a list of names");
    const std::string kind = type != schema.end()            ? type->get<std::string>()
                             : schema.contains("properties") ? "object"
                             : schema.contains("items") || schema.contains("prefixItems") ? "array"
                                                                                          : "any";
    if (kind == "object") return object(schema, name, depth);
    if (kind == "array") return array(schema, name, depth);
    if (kind == "string") return string(schema);
    if (kind == "integer") return integer(schema);
    refuse_unknown(schema, {});
    if (kind == "any") return common("value");
    if (kind == "number" || kind == "boolean" || kind == "null") return common(kind);
    refuse_schema(fmt::format("type {} is not known", in_quotes(kind)));
  }

  std::string reference(const OrderedJson& to, int depth) {
    const std::string path = to.is_string() ? to.get<std::string>() : "";
    if (path != "#" && !path.starts_with("#/"))
      refuse_schema(
          fmt::format("\"$ref\" {}: places in the schema itself are followed, as #/$defs/name", to.dump()));
    if (const auto known = references_.find(path); known != references_.end()) return known->second;
    const OrderedJson* at = &schema_;
    for (size_t from = 2; path.size() > 1 && from <= path.size();) {
      const size_t end = std::min(path.find('/', from), path.size());
      std::string key = path.substr(from, end - from);
      for (const auto& [code, plain] : {std::pair("~1", "/"), std::pair("~0", "~")})
        for (size_t i = 0; (i = key.find(code, i)) != std::string::npos; i++) key.replace(i, 2, plain);
      const auto next = at->is_object() ? at->find(key) : at->end();
      if (next == at->end()) refuse_schema(fmt::format("\"$ref\" {}: there is no such place", to.dump()));
      at = &*next;
      from = end + 1;
    }
    const std::string name = new_name("ref" + path.substr(1));
    references_.emplace(path, name); // before its body, which may refer to it
    rules_[name] = rule_of(*at, "ref" + path.substr(1), depth + 1);
    return name;
  }

  int64_t count(const OrderedJson& schema, const char* key, int64_t otherwise) const {
    const auto at = schema.find(key);
    if (at == schema.end()) return otherwise;
    if (!at->is_number_integer() || at->get<int64_t>() < 0 || at->get<int64_t>() > 10000)
      refuse_schema(fmt::format("\"{}\" is {}, 0 to 10000 is expected", key, at->dump()));
    return at->get<int64_t>();
  }
  std::string repeats(const OrderedJson& schema, const char* least, const char* most) const {
    const int64_t low = count(schema, least, 0), high = count(schema, most, -1);
    if (high >= 0 && high < low) refuse_schema(fmt::format("\"{}\" is below \"{}\"", most, least));
    return high < 0 ? fmt::format("{{{},}}", low) : fmt::format("{{{},{}}}", low, high);
  }

  std::string string(const OrderedJson& schema) {
    refuse_unknown(schema, {"minLength", "maxLength", "format"});
    const auto format = schema.find("format");
    if (format != schema.end() && format->is_string()) {
      const auto kind = format->get<std::string>();
      if (kind == "date" || kind == "time" || kind == "uuid")
        return fmt::format("\"\\\"\" {} \"\\\"\" {}", common(kind), space());
      if (kind == "date-time")
        return fmt::format("\"\\\"\" {} \"T\" {} \"\\\"\" {}", common("date"), common("time"), space());
    } // others are notes
    if (!schema.contains("minLength") && !schema.contains("maxLength")) return common("string");
    return fmt::format("\"\\\"\" {}{} \"\\\"\" {}", common("char"), repeats(schema, "minLength", "maxLength"),
                       space());
  }

  std::string integer(const OrderedJson& schema) {
    refuse_unknown(schema, {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"});
    const auto bound = [&](const char* key, int64_t by) -> std::optional<int64_t> {
      const auto at = schema.find(key);
      if (at == schema.end()) return {};
      constexpr double largest = 1e15;
      if (!at->is_number() || std::abs(at->get<double>()) > largest ||
          at->get<double>() != std::floor(at->get<double>()))
        refuse_schema(fmt::format("\"{}\" is {}, a whole number up to 10^15 is expected", key, at->dump()));
      return int64_t(at->get<double>()) + by;
    };
    std::optional<int64_t> low = bound("minimum", 0), high = bound("maximum", 0);
    if (const auto above = bound("exclusiveMinimum", 1)) low = std::max(low.value_or(*above), *above);
    if (const auto below = bound("exclusiveMaximum", -1)) high = std::min(high.value_or(*below), *below);
    if (!low && !high) return common("integer");
    if (low && high && *low > *high)
      refuse_schema(fmt::format("no integer is between {} and {}", *low, *high));
    used_.insert("space");
    return integer_between(low, high);
  }

  std::string array(const OrderedJson& schema, const std::string& name, int depth) {
    refuse_unknown(schema, {"items", "prefixItems", "minItems", "maxItems"});
    std::vector<std::string> first;
    if (const auto at = schema.find("prefixItems"); at != schema.end()) {
      if (!at->is_array()) refuse_schema("\"prefixItems\" is a list of schemas");
      for (const OrderedJson& part : *at)
        first.push_back(named(part, fmt::format("{}-{}", name, first.size()), depth + 1));
    }
    const auto items = schema.find("items");
    const bool more = items == schema.end() ? first.empty() : *items != false;
    if (!first.empty()) {
      if (schema.contains("minItems") || schema.contains("maxItems"))
        refuse_schema("\"minItems\" and \"maxItems\" beside \"prefixItems\" are not supported");
      std::string text =
          fmt::format("\"[\" {} {}", space(), fmt::join(first, fmt::format(" \",\" {} ", space())));
      if (more) text += fmt::format(" (\",\" {} {})*", space(), named(*items, name + "-item", depth + 1));
      return text + fmt::format(" \"]\" {}", space());
    }
    const int64_t low = count(schema, "minItems", 0), high = count(schema, "maxItems", -1);
    if (high >= 0 && high < low) refuse_schema("\"maxItems\" is below \"minItems\"");
    if (!more || high == 0) return fmt::format("\"[\" {} \"]\" {}", space(), space());
    const std::string item =
        items == schema.end() ? common("value") : named(*items, name + "-item", depth + 1);
    const std::string others =
        fmt::format("{} (\",\" {} {}){{{},{}}}", item, space(), item, std::max<int64_t>(0, low - 1),
                    high < 0 ? "" : std::to_string(high - 1));
    return fmt::format("\"[\" {} {} \"]\" {}", space(), low == 0 ? fmt::format("( {} )?", others) : others,
                       space());
  }

  /// Properties in the schema's order. Behind each of them there are two rules: some property stands before,
  /// which a comma follows, or none does.
  std::string object(const OrderedJson& schema, const std::string& name, int depth) {
    refuse_unknown(schema, {"properties", "required", "additionalProperties"});
    std::set<std::string> required;
    if (const auto at = schema.find("required"); at != schema.end()) {
      if (!at->is_array()) refuse_schema("\"required\" is a list of names");
      for (const OrderedJson& key : *at) {
        if (!key.is_string()) refuse_schema("\"required\" is a list of names");
        required.insert(key.get<std::string>());
      }
    }
    struct Property {
      std::string pair;
      bool required;
    };
    std::vector<Property> list;
    if (const auto at = schema.find("properties"); at != schema.end()) {
      if (!at->is_object()) refuse_schema("\"properties\" is an object");
      for (const auto& [key, value] : at->items()) {
        const std::string pair = new_name(fmt::format("{}-{}-pair", name, key));
        rules_[pair] = fmt::format("{} {} \":\" {} {}", literal(OrderedJson(key).dump()), space(), space(),
                                   named(value, fmt::format("{}-{}", name, key), depth + 1));
        list.push_back({pair, required.erase(key) > 0});
      }
    }
    const auto additional = schema.find("additionalProperties");
    const bool open = additional == schema.end() ? list.empty() && required.empty() : *additional != false;
    for (const std::string& key : required) {
      const std::string pair = new_name(fmt::format("{}-{}-pair", name, key));
      rules_[pair] = fmt::format("{} {} \":\" {} {}", literal(OrderedJson(key).dump()), space(), space(),
                                 common("value"));
      list.push_back({pair, true});
    }
    std::string others;
    if (open)
      others = fmt::format("{} \":\" {} {}", common("string"), space(),
                           additional == schema.end() || additional->is_boolean()
                               ? common("value")
                               : named(*additional, name + "-other", depth + 1));
    const std::string comma = fmt::format("\",\" {} ", space());
    std::string empty_rest, begun_rest; // what may follow: nothing so far, or something
    if (open) {
      begun_rest = new_name(name + "-more");
      rules_[begun_rest] = fmt::format("( {}{} )*", comma, others);
      empty_rest = new_name(name + "-first");
      rules_[empty_rest] = fmt::format("( {} {} )?", others, begun_rest);
    }
    for (size_t i = list.size(); i-- > 0;) {
      const std::string with = list[i].pair + " " + begun_rest;
      const std::string begun = new_name(fmt::format("{}-after-{}", name, i)),
                        empty = new_name(fmt::format("{}-from-{}", name, i));
      rules_[begun] = comma + with;
      rules_[empty] = with;
      if (!list[i].required) {
        rules_[begun] += " | " + begun_rest;
        rules_[empty] += " | " + empty_rest;
      }
      begun_rest = begun, empty_rest = empty;
    }
    return fmt::format("\"{{\" {} {} \"}}\" {}", space(), empty_rest, space());
  }

  const OrderedJson& schema_;
  std::string_view file_;
  std::map<std::string, std::string> rules_, references_;
  std::set<std::string> used_;
};

} // namespace

Result<std::string> grammar_of_json_schema(std::string_view schema, std::string_view name) {
  return guarded(name, [&] {
    size_t depth = 0, most = 0; // brackets in texts count, too: nothing that is meant has so many
    for (const char c : schema) {
      if (c == '{' || c == '[') most = std::max(most, ++depth);
      if ((c == '}' || c == ']') && depth > 0) depth--;
    }
    if (most > 4 * size_t(deepest_schema)) refuse(name, "the schema is nested too deep");
    const OrderedJson json = OrderedJson::parse(schema, nullptr, false);
    if (json.is_discarded()) refuse(name, "not JSON, a JSON schema is expected");
    return Converter(json, name).convert();
  });
}

} // namespace luminal
