// base/error.cpp -- texts of errors, failures as exceptions.
#include "luminal/error.h"
#include "base/check.h"
#include "base/result.h"

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

void throw_failure(const Failure& failure) {
  if (failure.shortage) throw OutOfMemoryError(failure.text, *failure.shortage);
  throw Error(failure.text);
}

void throw_failure(std::string_view operation, const Failure& failure, std::source_location where) {
  if (failure.shortage) throw OutOfMemoryError(operation, failure.text, *failure.shortage, where);
  throw Error(operation, failure.text, where);
}

void detail::check_failed(const char* condition, const char* file, int line, const std::string& text) {
  throw InternalError(fmt::format("this is a bug in luminal: {} does not hold at {}:{}{}{}", condition,
                                  file_name(file), line, text.empty() ? "" : ": ", text));
}

} // namespace luminal
