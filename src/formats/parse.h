// formats/parse.h -- what every reader of this folder uses: refusing with one line, text for
// messages, UTF-8.
#pragma once
#include "base/result.h"
#include <cstddef>
#include <cstdint>
#include <fmt/core.h>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace luminal::detail {

/// Thrown inside a reader, turned into a Failure by `guarded`: it never leaves this folder.
struct ParseFailure {
  std::string text;
};

/// Refuses the file: "FILE: TEXT".
[[noreturn]] void refuse(std::string_view file, std::string_view text);
/// "FILE: offset N: TEXT".
[[noreturn]] void refuse_at(std::string_view file, uint64_t offset, std::string_view text);

/// The value; a failure refuses with its text.
template <class T> T unwrap(Result<T> result) {
  if (!result) throw ParseFailure{result.error()};
  return std::move(*result);
}

/// Runs the body of a reader. Its refusals, and memory that a file asks for in vain, become a
/// Failure.
template <class Body> auto guarded(std::string_view file, Body&& body) -> Result<std::invoke_result_t<Body>> {
  try {
    if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
      body();
      return {};
    } else {
      return body();
    }
  } catch (const ParseFailure& failure) {
    return Failure{failure.text};
  } catch (const std::bad_alloc&) {
    return Failure{fmt::format("{}: not enough memory to read it", file)};
  } catch (const std::length_error&) {
    return Failure{fmt::format("{}: not enough memory to read it", file)};
  }
}

/// `"text"` on one line, for a message: control characters and invalid UTF-8 escaped, at most
/// `limit` bytes of it.
std::string in_quotes(std::string_view text, size_t limit = 60);

/// Position of the first byte that is not UTF-8 (surrogates, overlong forms and values over
/// U+10FFFF are not).
std::optional<size_t> find_invalid_utf8(std::string_view text);

/// Length of the character at the start of `text`: 1 to 4; 0 where the bytes are the beginning of a
/// character that needs more; negative -n where the first n bytes (the maximal ill-formed part) can
/// never become a character.
int utf8_character(std::string_view text);

inline std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}
inline std::span<const std::byte> as_bytes(std::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// Writes the pieces as one file, without joining them in memory first. It appears complete or not
/// at all: temporary name beside it, fsync, rename.
Result<void> write_pieces(const std::string& path, std::span<const std::string_view> pieces);

} // namespace luminal::detail
