// cli/train_config.cpp -- reading tables: values of the right kind, in their range, no key unread.
#include "cli/train_config.h"
#include "base/file.h"
#include "base/text.h"
#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <toml++/toml.h>

namespace luminal::cli {
namespace {

Json as_json(const toml::node& node, const std::string& file) {
  if (const auto* table = node.as_table()) {
    Json out = Json::object();
    for (const auto& [key, value] : *table) out[std::string(key.str())] = as_json(value, file);
    return out;
  }
  if (const auto* array = node.as_array()) {
    Json out = Json::array();
    for (const auto& value : *array) out.push_back(as_json(value, file));
    return out;
  }
  if (const auto* value = node.as_string()) return value->get();
  if (const auto* value = node.as_integer()) return value->get();
  if (const auto* value = node.as_floating_point()) return value->get();
  if (const auto* value = node.as_boolean()) return value->get();
  throw UsageError(
      fmt::format("{}: line {}: dates and times have no use here", file, node.source().begin.line));
}

Json parsed_toml(const std::string& text, const std::string& file) {
  try {
    return as_json(toml::parse(text), file);
  } catch (const toml::parse_error& error) {
    throw UsageError(fmt::format("{}: line {}: {}", file, error.source().begin.line, error.description()));
  }
}

/// "a.b=VALUE": the value as TOML has it, else as text.
void change(Json& json, const std::string& text) {
  const size_t equal = text.find('=');
  if (equal == std::string::npos || equal == 0)
    throw UsageError(fmt::format("{}: KEY=VALUE is expected, such as optimizer.rate=0.01", printable(text)));
  Json value;
  try {
    value = as_json(toml::parse("v = " + text.substr(equal + 1)), "")["v"];
  } catch (const toml::parse_error&) {
    value = text.substr(equal + 1);
  }
  Json* at = &json;
  for (const std::string_view part : split(std::string_view(text).substr(0, equal), '.')) {
    if (!at->is_object()) *at = Json::object();
    at = &(*at)[std::string(part)];
  }
  *at = value;
}

} // namespace

Json read_config(const std::string& file, const std::vector<std::string>& changes) {
  const std::string text = read_text(file);
  Json json;
  if (file.ends_with(".json")) {
    try {
      json = Json::parse(text);
    } catch (const nlohmann::json::parse_error& error) {
      const auto before = std::string_view(text).substr(0, std::min(text.size(), size_t(error.byte)));
      throw UsageError(
          fmt::format("{}: line {}: not JSON", file, 1 + std::count(before.begin(), before.end(), '\n')));
    }
    if (!json.is_object()) throw UsageError(fmt::format("{}: a JSON object is expected", file));
  } else {
    json = parsed_toml(text, file);
  }
  for (const std::string& one : changes) change(json, one);
  return json;
}

ConfigTable::ConfigTable(const Json& table, std::string file, std::string path)
    : table_(table), file_(std::move(file)), path_(std::move(path)) {}

void ConfigTable::mistake(const std::string& key, const std::string& text) const {
  throw UsageError(fmt::format("{}: {}{}: {}", file_, path_, printable(key), text));
}
const Json* ConfigTable::find(const std::string& key) {
  asked_.insert(key);
  const auto at = table_.find(key);
  return at == table_.end() ? nullptr : &*at;
}
std::string ConfigTable::shown(const Json& value) const { return printable(json_text(value, -1)); }
bool ConfigTable::has(const std::string& key) const { return table_.contains(key); }

double ConfigTable::number(const std::string& key, double otherwise, double low, double high) {
  const Json* value = find(key);
  if (!value) return otherwise;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (!(number >= low && number <= high))
    mistake(key, fmt::format("a number from {} to {} is expected, not {}", low, high, shown(*value)));
  return number;
}
int64_t ConfigTable::whole(const std::string& key, int64_t otherwise, int64_t low, int64_t high) {
  const Json* value = find(key);
  if (!value) return otherwise;
  const bool fits =
      value->is_number_integer() && value->get<int64_t>() >= low && value->get<int64_t>() <= high;
  if (!fits)
    mistake(key, fmt::format("a whole number from {} to {} is expected, not {}", low, high, shown(*value)));
  return value->get<int64_t>();
}
bool ConfigTable::flag(const std::string& key, bool otherwise) {
  const Json* value = find(key);
  if (value && !value->is_boolean())
    mistake(key, fmt::format("true or false is expected, not {}", shown(*value)));
  return value ? value->get<bool>() : otherwise;
}
std::string ConfigTable::text(const std::string& key, const std::string& otherwise) {
  const Json* value = find(key);
  if (value && !value->is_string()) mistake(key, fmt::format("a text is expected, not {}", shown(*value)));
  return value ? value->get<std::string>() : otherwise;
}
std::string ConfigTable::needed_text(const std::string& key) {
  if (!has(key)) mistake(key, "it is missing");
  return text(key, "");
}
std::string ConfigTable::word(const std::string& key, const std::vector<std::string>& words) {
  const std::string given = text(key, words[0]);
  if (std::find(words.begin(), words.end(), given) != words.end()) return given;
  const std::string_view meant = nearest_word(given, {words.begin(), words.end()});
  mistake(key, fmt::format("one of {} is expected, not {}{}", join(words), printable(given),
                           meant.empty() ? "" : fmt::format("; did you mean {}?", meant)));
}
std::vector<int64_t> ConfigTable::wholes(const std::string& key, const std::vector<int64_t>& otherwise,
                                         int64_t low, int64_t high) {
  const Json* value = find(key);
  if (!value) return otherwise;
  std::vector<int64_t> list;
  bool fits = value->is_array() && !value->empty();
  for (const Json& one : fits ? *value : Json::array()) {
    fits = fits && one.is_number_integer() && one.get<int64_t>() >= low && one.get<int64_t>() <= high;
    if (fits) list.push_back(one.get<int64_t>());
  }
  if (!fits)
    mistake(key, fmt::format("a list of whole numbers from {} to {} is expected, not {}", low, high,
                             shown(*value)));
  return list;
}
std::vector<std::string> ConfigTable::texts(const std::string& key) {
  const Json* value = find(key);
  std::vector<std::string> list;
  bool fits = !value || value->is_array();
  for (const Json& one : value&& fits ? *value : Json::array()) {
    fits = fits && one.is_string();
    if (fits) list.push_back(one.get<std::string>());
  }
  if (!fits) mistake(key, fmt::format("a list of texts is expected, not {}", shown(*value)));
  return list;
}
ConfigTable ConfigTable::table(const std::string& key) {
  const Json* value = find(key);
  if (value && !value->is_object()) mistake(key, fmt::format("a table is expected, not {}", shown(*value)));
  return {value ? *value : Json::object(), file_, path_ + key + "."};
}
void ConfigTable::finish() const {
  for (const auto& [key, value] : table_.items()) {
    if (asked_.contains(key)) continue;
    const std::string_view meant = nearest_word(key, {asked_.begin(), asked_.end()});
    mistake(key, meant.empty() ? fmt::format("there is no such key; there are {}", join(asked_))
                               : fmt::format("there is no such key; did you mean {}?", meant));
  }
}

} // namespace luminal::cli
