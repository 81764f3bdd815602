// base/error.cpp -- texts of errors.
#include "luminal/error.h"
#include "base/check.h"

namespace luminal {
namespace {
std::string_view file_name(std::string_view path) { return path.substr(path.find_last_of('/') + 1); }
} // namespace

// Nobody's line: of a file that the program was given.
Error::Error(std::string_view operation, std::string_view text, std::source_location where)
    : std::runtime_error(fmt::format("[{}] {}", operation, text) +
                         (where.line() == 0
                              ? std::string()
                              : fmt::format(" at {}:{}", file_name(where.file_name()), where.line()))) {}

void detail::check_failed(const char* condition, const char* file, int line, const std::string& text) {
  throw InternalError(fmt::format("this is a bug in luminal: {} does not hold at {}:{}{}{}", condition,
                                  file_name(file), line, text.empty() ? "" : ": ", text));
}

} // namespace luminal
