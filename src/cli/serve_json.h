// cli/serve_json.h -- fields of requests: found, checked, or refused in OpenAI's form of errors.
#pragma once
#include "cli/common.h"
#include <initializer_list>
#include <string>
#include <string_view>

namespace luminal::cli {

/// What a request is answered with instead.
struct ApiError {
  int status = 400;
  std::string message, type = "invalid_request_error", code = {}, parameter = {};
  Json json() const;
};
[[noreturn]] void refuse(const std::string& parameter, const std::string& message);

/// A JSON object. Throws ApiError for everything else, and for what is nested too deep.
Json parsed(const std::string& body);
/// nullptr: it is not there, or null.
const Json* find(const Json& json, const char* name);
// A field, `otherwise` where it is not there. Throw ApiError for another type and for values outside of low
// to high.
double number(const Json& json, const char* name, double otherwise, double low, double high);
int64_t integer(const Json& json, const char* name, int64_t otherwise, int64_t low, int64_t high);
bool boolean(const Json& json, const char* name, bool otherwise);
/// Throws ApiError for a field that none of the lists names. Words of a list are separated by spaces.
void refuse_unknown(const Json& json, std::initializer_list<std::string_view> known);

} // namespace luminal::cli
