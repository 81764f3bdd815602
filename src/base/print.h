// base/print.h -- text for people on stderr. That nobody can read it (it is closed, the disk of a
// log is full) stops no program.
#pragma once
#include <cstdio>
#include <fmt/core.h>
#include <string>

namespace luminal {

inline void write_stderr(std::string_view text) { std::fwrite(text.data(), 1, text.size(), stderr); }

/// As fmt::print(stderr, ..), which throws where the text cannot be written.
template <class... Args> void print_stderr(fmt::format_string<Args...> text, Args&&... args) {
  write_stderr(fmt::format(text, std::forward<Args>(args)...));
}

} // namespace luminal
