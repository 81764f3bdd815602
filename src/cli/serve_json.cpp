// cli/serve_json.cpp -- fields of requests.
#include "cli/serve_json.h"
#include "base/text.h"
#include <algorithm>
#include <fmt/format.h>

namespace luminal::cli {

Json ApiError::json() const {
  const auto text = [](const std::string& s) { return s.empty() ? Json(nullptr) : Json(s); };
  return {
      {"error", {{"message", message}, {"type", type}, {"param", text(parameter)}, {"code", text(code)}}}};
}

void refuse(const std::string& parameter, const std::string& message) {
  throw ApiError{.message = message, .parameter = parameter};
}

Json parsed(const std::string& body) {
  // Deep nesting would go through the stack: nothing that a client means is that deep.
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < body.size(); i++) {
    const char c = body[i];
    if (quoted) {
      if (c == '\\') i++;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      if (++depth > 64) refuse("", "the body is nested too deep");
    } else if (c == '}' || c == ']') {
      depth--;
    }
  }
  Json json = Json::parse(body, nullptr, false);
  if (json.is_discarded()) refuse("", "the body is not JSON");
  if (!json.is_object()) refuse("", "the body is not a JSON object");
  return json;
}

const Json* find(const Json& json, const char* name) {
  const auto at = json.find(name);
  return at == json.end() || at->is_null() ? nullptr : &*at;
}
double number(const Json& json, const char* name, double otherwise, double low, double high) {
  const Json* value = find(json, name);
  if (!value) return otherwise;
  if (!value->is_number()) refuse(name, fmt::format("{} is not a number", name));
  const auto n = value->get<double>();
  if (!(n >= low && n <= high)) refuse(name, fmt::format("{} is {}, expected {} to {}", name, n, low, high));
  return n;
}
int64_t integer(const Json& json, const char* name, int64_t otherwise, int64_t low, int64_t high) {
  const Json* value = find(json, name);
  if (!value) return otherwise;
  if (!value->is_number_integer()) refuse(name, fmt::format("{} is not an integer", name));
  const double n = value->get<double>();
  if (n < double(low) || n > double(high))
    refuse(name, fmt::format("{} is {}, expected {} to {}", name, value->dump(), low, high));
  return value->get<int64_t>();
}
bool boolean(const Json& json, const char* name, bool otherwise) {
  const Json* value = find(json, name);
  if (!value) return otherwise;
  if (!value->is_boolean()) refuse(name, fmt::format("{} is not true or false", name));
  return value->get<bool>();
}

void refuse_unknown(const Json& json, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : json.items()) {
    if (std::ranges::any_of(known, [&](std::string_view list) {
          return std::ranges::any_of(split(list, ' '), [&](std::string_view word) { return word == name; });
        }))
      continue;
    throw ApiError{.message = fmt::format("{} is not a field that is known here", printable(name)),
                   .code = "unknown_parameter",
                   .parameter = name};
  }
}

} // namespace luminal::cli
