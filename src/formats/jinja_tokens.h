// formats/jinja_tokens.h -- the words of a template.
#pragma once
#include "formats/parse.h"
#include <cstdint>
#include <fmt/format.h>
#include <string>
#include <string_view>
#include <vector>

namespace luminal::jinja {

struct Token {
  enum class Kind : uint8_t {
    text,
    begin_output,
    end_output,
    begin_tag,
    end_tag,
    name,
    string,
    integer,
    real,
    op,
    end
  };
  Kind kind = Kind::end;
  int line = 0;
  std::string text = {};
};

[[noreturn]] inline void fail(std::string_view name, int line, const std::string& what) {
  throw detail::ParseFailure{fmt::format("{}: line {}: {}", name, line, what)};
}

/// Text between tags with its blanks stripped as Jinja does, and the words inside of tags.
std::vector<Token> tokens_of(std::string_view source, std::string_view name);

} // namespace luminal::jinja
