// cli/serve_tools.cpp -- calls of tools.
#include "cli/serve_tools.h"
#include "base/text.h"
#include <fmt/format.h>
#include <random>

namespace luminal::cli {
namespace {

/// Adds the call; false where the JSON is none.
bool add_call(const Json& json, Json& calls) {
  if (!json.is_object()) return false;
  const auto name = json.find("name");
  auto arguments = json.find("arguments");
  if (arguments == json.end()) arguments = json.find("parameters");
  if (name == json.end() || !name->is_string() || arguments == json.end()) return false;
  static std::random_device device;
  calls.push_back(
      {{"id", fmt::format("call_{:08x}{:08x}", device(), device())},
       {"type", "function"},
       {"function",
        {{"name", *name},
         {"arguments", arguments->is_string() ? arguments->get<std::string>() : arguments->dump()}}}});
  return true;
}

} // namespace

Json tool_calls(const std::string& given) {
  constexpr std::string_view begin = "<tool_call>", end = "</tool_call>";
  std::string_view text = trim(given);
  Json calls = Json::array();
  if (!text.starts_with(begin)) {
    const Json json = Json::parse(text, nullptr, false);
    const Json list = json.is_array() ? json : Json::array({json});
    for (const Json& one : list)
      if (!add_call(one, calls)) return nullptr;
    return calls.empty() ? Json(nullptr) : calls;
  }
  while (!text.empty()) {
    if (!text.starts_with(begin)) return nullptr;
    text.remove_prefix(begin.size());
    const size_t close = std::min(text.find(end), text.size()); // the last end may be the end of the text
    if (!add_call(Json::parse(trim(text.substr(0, close)), nullptr, false), calls)) return nullptr;
    text = trim(text.substr(std::min(close + end.size(), text.size())));
  }
  return calls;
}

void read_call_arguments(Json& message) {
  const auto calls = message.find("tool_calls");
  if (calls == message.end() || !calls->is_array()) return;
  for (Json& call : *calls) {
    if (!call.is_object() || !call.contains("function") || !call["function"].is_object()) continue;
    const auto arguments = call["function"].find("arguments");
    if (arguments == call["function"].end() || !arguments->is_string()) continue;
    Json json = Json::parse(arguments->get<std::string>(), nullptr, false);
    if (json.is_object()) *arguments = std::move(json);
  }
}

} // namespace luminal::cli
