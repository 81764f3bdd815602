// search/tuning_text.cpp -- the text form of tuning results: a head line, then one JSON object a
// line.
#include "base/text.h"
#include "search/tuning_cache.h"
#include "search/tuning_file.h"
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>

namespace luminal::search {
namespace {
using Json = nlohmann::ordered_json;

constexpr const char* head_key = "luminal_tuning";
constexpr size_t longest_line = 256 << 10;

Json to_json(const TuningEntry& e) {
  return Json{{"name", e.name},
              {"structure", e.key.structure.hex()},
              {"dtypes", e.key.dtypes},
              {"bucket", e.key.bucket},
              {"layouts", e.key.layouts},
              {"numeric", e.key.numeric},
              {"instructions", e.key.instructions},
              {"llvm", e.key.llvm},
              {"rules", hex16(e.key.rules)},
              {"codegen", hex16(e.key.codegen)},
              {"device", hex16(e.key.device)},
              {"threads", e.key.threads},
              {"schedule", e.schedule},
              {"seconds", e.seconds},
              {"samples", e.samples},
              {"limit_fraction", e.limit_fraction}};
}

/// Parses a line that cannot be nested deeply: an object of texts and numbers.
Json parse_flat(std::string_view line) {
  int depth = 0;
  const auto shallow = [&depth](int, Json::parse_event_t event, Json&) {
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) depth++;
    if (depth > 1) throw Error("a nested value; texts and numbers are expected");
    return true;
  };
  return Json::parse(line.begin(), line.end(), shallow);
}

TuningEntry from_json(const Json& j) {
  if (!j.is_object()) throw Error("no JSON object");
  std::set<std::string> left;
  for (const auto& item : j.items()) left.insert(item.key());
  auto field = [&](const char* name) -> const Json& {
    const auto found = j.find(name);
    if (found == j.end()) throw Error(fmt::format("{} is missing", name));
    left.erase(name);
    return *found;
  };
  auto text = [&](const char* name) {
    const Json& value = field(name);
    if (!value.is_string()) throw Error(fmt::format("{}: a text is expected", name));
    return value.get<std::string>();
  };
  auto integer = [&](const char* name, int64_t high) {
    const Json& value = field(name);
    if (!value.is_number_integer() || value < 0 || value > high)
      throw Error(fmt::format("{}: a whole number of at most {} is expected", name, high));
    return value.get<int64_t>();
  };
  auto number = [&](const char* name) {
    const Json& value = field(name);
    if (!value.is_number()) throw Error(fmt::format("{}: a number is expected", name));
    return value.get<double>();
  };
  auto hash = [&](const char* name, auto& to) {
    if (!parse_hex(text(name), to))
      throw Error(fmt::format("{}: {} hexadecimal digits are expected", name, 2 * sizeof to));
  };
  TuningEntry e;
  e.name = text("name");
  hash("structure", e.key.structure);
  e.key.dtypes = text("dtypes");
  e.key.bucket = text("bucket");
  e.key.layouts = text("layouts");
  e.key.numeric = text("numeric");
  e.key.instructions = text("instructions");
  e.key.llvm = text("llvm");
  hash("rules", e.key.rules);
  hash("codegen", e.key.codegen);
  hash("device", e.key.device);
  e.key.threads = int(integer("threads", 1 << 16));
  e.schedule = text("schedule");
  e.seconds = number("seconds");
  e.samples = integer("samples", int64_t(1) << 40);
  e.limit_fraction = number("limit_fraction");
  if (!left.empty()) throw Error(fmt::format("\"{}\" is not a key of an entry", printable(*left.begin())));
  if (const std::string mistake = mistake_in(e); !mistake.empty()) throw Error(mistake);
  return e;
}

} // namespace

std::string export_entries(const std::vector<TuningEntry>& entries) {
  std::string text = Json{{head_key, TuningCache::version}}.dump() + "\n";
  for (const TuningEntry& e : entries) text += to_json(e).dump() + "\n";
  return text;
}

Result<ImportedText> import_entries(std::string_view text) {
  ImportedText result;
  int number = 0;
  for (std::string_view line : split(text, '\n')) {
    number++;
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    if (trim(line).empty() && number > 1) continue;
    try {
      if (line.size() > longest_line)
        throw Error(fmt::format("has {} bytes, at most {} are expected", line.size(), longest_line));
      const Json j = parse_flat(line);
      if (number > 1) {
        result.entries.push_back(from_json(j));
        continue;
      }
      if (!j.is_object() || !j.contains(head_key) || !j[head_key].is_number_integer()) throw Error("no head");
      if (j[head_key] != TuningCache::version)
        return Failure{fmt::format("line 1: version {}, this program reads version {}", j[head_key].dump(),
                                   TuningCache::version)};
    } catch (const std::exception& e) {
      if (number == 1)
        return Failure{fmt::format("line 1: {{\"{}\": {}}} is expected: no export of tuning results",
                                   head_key, TuningCache::version)};
      std::string_view reason = e.what();
      if (reason.starts_with("[json.exception"))
        reason.remove_prefix(reason.find("] ") + 2); // words of the library
      result.mistakes.push_back(fmt::format("line {}: {}", number, utf8_sanitized(reason)));
    }
  }
  return result;
}

} // namespace luminal::search
